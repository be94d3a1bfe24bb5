// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Objects that must not come to be, or not go yet.

#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "badinput/harness.h"
#include "badinput/memlock.h"
#include "common/page.h"

namespace kiwarp::vm {
namespace {

void refuseQp(Env& env, const std::string& what, int error,
              const std::function<void(ibv_qp_init_attr*)>& spoil) {
  Cq cq = createCq(env.context(), 16);
  QpConfig config;
  config.send_cq = config.recv_cq = cq.get();
  ibv_qp_init_attr attr = toInitAttr(config);
  spoil(&attr);
  errno = 0;
  RawQp qp(ibv_create_qp(env.pd(), &attr));
  expectErrno(what, error, qp ? 0 : errno);
}

void qpLimits(Env& env) {
  const auto wrs = static_cast<uint32_t>(env.attr().max_qp_wr);
  const auto sges = static_cast<uint32_t>(env.attr().max_sge);
  refuseQp(env, "max_send_wr one too large", EINVAL,
           [&](ibv_qp_init_attr* attr) { attr->cap.max_send_wr = wrs + 1; });
  refuseQp(env, "max_recv_wr one too large", EINVAL,
           [&](ibv_qp_init_attr* attr) { attr->cap.max_recv_wr = wrs + 1; });
  refuseQp(env, "max_send_wr of 2^32 - 1", EINVAL,
           [&](ibv_qp_init_attr* attr) { attr->cap.max_send_wr = UINT32_MAX; });
  refuseQp(env, "max_recv_wr of 2^32 - 1", EINVAL,
           [&](ibv_qp_init_attr* attr) { attr->cap.max_recv_wr = UINT32_MAX; });
  refuseQp(env, "max_send_sge one too large", EINVAL,
           [&](ibv_qp_init_attr* attr) { attr->cap.max_send_sge = sges + 1; });
  refuseQp(env, "max_recv_sge one too large", EINVAL,
           [&](ibv_qp_init_attr* attr) { attr->cap.max_recv_sge = sges + 1; });
  refuseQp(env, "max_inline_data of 1 MiB", EINVAL,
           [&](ibv_qp_init_attr* attr) { attr->cap.max_inline_data = 1 << 20; });
  refuseQp(env, "max_inline_data of 2^32 - 1", EINVAL,
           [&](ibv_qp_init_attr* attr) { attr->cap.max_inline_data = UINT32_MAX; });
}

void qpTypes(Env& env) {
  for (ibv_qp_type type : {IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER,
                           IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV}) {
    refuseQp(env, strf("QP type %d", type), EOPNOTSUPP,
             [type](ibv_qp_init_attr* attr) { attr->qp_type = type; });
  }
}

void refuseXrcQp(Env& env, const char* what, ibv_qp_init_attr_ex attr) {
  attr.cap.max_send_wr = attr.cap.max_send_sge = 1;
  errno = 0;
  RawQp qp(ibv_create_qp_ex(env.context(), &attr));
  expectErrno(what, EOPNOTSUPP, qp ? 0 : errno);
}

// A command as it goes to the kernel, which must refuse what the library lets no program ask for.
template <typename Body>
int command(const Env& env, uint32_t number, const Body& body, size_t response) {
  struct {
    ib_uverbs_cmd_hdr header;
    Body body;
  } message{};
  message.header.command = number;
  message.header.in_words = sizeof(message) / 4;
  message.header.out_words = static_cast<uint16_t>(response / 4);
  message.body = body;
  return write(env.context()->cmd_fd, &message, sizeof(message)) < 0 ? errno : 0;
}

// Extended reliable connections are InfiniBand's alone. Programs ask for each of their parts in
// another way, and have to learn the same of each.
void xrc(Env& env) {
  const int fd = memfd_create("xrcd", MFD_CLOEXEC);
  if (fd < 0) fail("memfd_create: %s", errnoName(errno).c_str());
  for (const int inode : {-1, fd}) {
    ibv_xrcd_init_attr attr{};
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = inode;
    attr.oflags = O_CREAT;
    errno = 0;
    const ibv_xrcd* domain = ibv_open_xrcd(env.context(), &attr);
    expectErrno("ibv_open_xrcd", EOPNOTSUPP, domain ? 0 : errno);
  }
  close(fd);

  // No domain can be had, so that this stands for one.
  ibv_xrcd domain{.context = env.context()};
  Cq cq = createCq(env.context(), 16);
  ibv_qp_init_attr_ex sender{};
  sender.qp_type = IBV_QPT_XRC_SEND;
  sender.comp_mask = IBV_QP_INIT_ATTR_PD;
  sender.pd = env.pd();
  sender.send_cq = cq.get();
  refuseXrcQp(env, "an XRC sender", sender);
  sender.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  sender.send_ops_flags = IBV_QP_EX_WITH_SEND;
  refuseXrcQp(env, "an XRC sender with functions", sender);
  ibv_qp_init_attr_ex receiver{};
  receiver.qp_type = IBV_QPT_XRC_RECV;
  receiver.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  receiver.xrcd = &domain;
  refuseXrcQp(env, "an XRC receiver", receiver);
  ibv_qp_open_attr shared{};
  shared.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  shared.qp_type = IBV_QPT_XRC_RECV;
  shared.xrcd = &domain;
  errno = 0;
  RawQp opened(ibv_open_qp(env.context(), &shared));
  expectErrno("ibv_open_qp", EOPNOTSUPP, opened ? 0 : errno);

  ibv_srq_init_attr_ex queue{};
  queue.attr.max_wr = 16;
  queue.attr.max_sge = 1;
  queue.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  queue.srq_type = IBV_SRQT_XRC;
  queue.pd = env.pd();
  queue.xrcd = &domain;
  queue.cq = cq.get();
  errno = 0;
  Srq srq(ibv_create_srq_ex(env.context(), &queue));
  expectErrno("an XRC SRQ", EOPNOTSUPP, srq ? 0 : errno);

  ib_uverbs_open_xrcd_resp xrcd_answer{};
  const ib_uverbs_open_xrcd open{
      .response = reinterpret_cast<uintptr_t>(&xrcd_answer), .fd = UINT32_MAX, .oflags = O_CREAT};
  expectErrno("OPEN_XRCD", EOPNOTSUPP,
              command(env, IB_USER_VERBS_CMD_OPEN_XRCD, open, sizeof(xrcd_answer)));
  ib_uverbs_create_qp_resp qp_answer{};
  ib_uverbs_create_qp create{};
  create.response = reinterpret_cast<uintptr_t>(&qp_answer);
  create.pd_handle = env.pd()->handle;
  create.send_cq_handle = create.recv_cq_handle = cq->handle;
  create.max_send_wr = create.max_send_sge = 1;
  create.qp_type = IBV_QPT_XRC_SEND;
  expectErrno("CREATE_QP of an XRC sender", EOPNOTSUPP,
              command(env, IB_USER_VERBS_CMD_CREATE_QP, create, sizeof(qp_answer)));
}

void refuseCq(Env& env, const std::string& what, int entries) {
  errno = 0;
  Cq cq(ibv_create_cq(env.context(), entries, nullptr, nullptr, 0));
  expectErrno(what, EINVAL, cq ? 0 : errno);
}

void cqLimits(Env& env) {
  refuseCq(env, "CQ of no entries", 0);
  refuseCq(env, "CQ of -1 entries", -1);
  refuseCq(env, "CQ one entry too large", env.attr().max_cqe + 1);
  errno = 0;
  Cq cq(ibv_create_cq(env.context(), 16, nullptr, nullptr, 1000));
  expectErrno("CQ on completion vector 1000", EINVAL, cq ? 0 : errno);
}

void refuseMr(Env& env, const std::string& what, int error, void* address, size_t length,
              int access) {
  errno = 0;
  Mr mr(ibv_reg_mr(env.pd(), address, length, access));
  expectErrno(what, error, mr ? 0 : errno);
}

void mrAccess(Env& env) {
  Memory memory(kPage);
  refuseMr(env, "REMOTE_WRITE without LOCAL_WRITE", EINVAL, memory.data(), kPage,
           IBV_ACCESS_REMOTE_WRITE);
  refuseMr(env, "REMOTE_ATOMIC without LOCAL_WRITE", EINVAL, memory.data(), kPage,
           IBV_ACCESS_REMOTE_ATOMIC);
  refuseMr(env, "an access flag that does not exist", EINVAL, memory.data(), kPage, 1 << 18);
}

void mrRange(Env& env) {
  Memory memory(kPage);
  const int access = IBV_ACCESS_LOCAL_WRITE;
  refuseMr(env, "no bytes", EINVAL, memory.data(), 0, access);
  refuseMr(env, "a length that wraps", EINVAL, memory.data(), SIZE_MAX - 100, access);
  refuseMr(env, "the last page of the address space", EINVAL,
           reinterpret_cast<void*>(UINTPTR_MAX - 99), kPage, access);
  refuseMr(env, "NULL", EFAULT, nullptr, kPage, access);
  Memory pages(2 * kPage);
  errno = 0;
  Mr mr(ibv_reg_mr_iova(env.pd(), pages.data(), 2 * kPage, UINT64_MAX - kPage + 1, access));
  expectErrno("an iova that wraps", EINVAL, mr ? 0 : errno);
}

void mrMappings(Env& env) {
  Memory memory(3 * kPage);
  std::memset(memory.data(), 1, memory.size());
  checkErrno(mprotect(memory.data() + kPage, kPage, PROT_READ), "mprotect");
  refuseMr(env, "LOCAL_WRITE on a read-only page", EFAULT, memory.data(), 3 * kPage,
           IBV_ACCESS_LOCAL_WRITE);
  checkErrno(munmap(memory.data() + kPage, kPage), "munmap");
  refuseMr(env, "a hole", EFAULT, memory.data(), 3 * kPage, IBV_ACCESS_LOCAL_WRITE);
  Mr below = regMr(env.pd(), memory.data(), kPage, IBV_ACCESS_LOCAL_WRITE);
  Mr above = regMr(env.pd(), memory.data() + 2 * kPage, kPage, IBV_ACCESS_LOCAL_WRITE);
}

void memlock(Env& env) {
  withMemlockLimit([&env](const MemlockLimit& limit) {
    constexpr size_t kRoom = 1 << 20;
    const int access = IBV_ACCESS_LOCAL_WRITE;
    Memory memory(2 * kRoom);
    limit.setMore(kRoom);
    refuseMr(env, "more than the limit", ENOMEM, memory.data(), 2 * kRoom, access);
    {
      Mr half = regMr(env.pd(), memory.data(), kRoom / 2, access);
      refuseMr(env, "more than what is left", ENOMEM, memory.data(), kRoom, access);
    }
    // What deregistering gave back counts again, and so does what the refusals had taken.
    Mr whole = regMr(env.pd(), memory.data(), kRoom, access);
  });
}

void busyPd(Env& env) {
  ibv_pd* pd = ibv_alloc_pd(env.context());
  if (!pd) fail("ibv_alloc_pd: %s", errnoName(errno).c_str());
  Memory memory(kPage);
  {
    Mr mr = regMr(pd, memory.data(), kPage, IBV_ACCESS_LOCAL_WRITE);
    expectErrno("dealloc of a PD with an MR", EBUSY, ibv_dealloc_pd(pd));
  }
  {
    Cq cq = createCq(env.context(), 16);
    QpConfig config;
    config.send_cq = config.recv_cq = cq.get();
    ibv_qp_init_attr attr = toInitAttr(config);
    RawQp qp(ibv_create_qp(pd, &attr));
    if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
    expectErrno("dealloc of a PD with a QP", EBUSY, ibv_dealloc_pd(pd));
  }
  expectErrno("dealloc of a PD with nothing", 0, ibv_dealloc_pd(pd));
}

void busyCq(Env& env) {
  CompChannel channel = createChannel(env.context());
  ibv_cq* cq = ibv_create_cq(env.context(), 16, nullptr, channel.get(), 0);
  if (!cq) fail("ibv_create_cq: %s", errnoName(errno).c_str());
  {
    QpConfig config;
    config.send_cq = config.recv_cq = cq;
    ibv_qp_init_attr attr = toInitAttr(config);
    RawQp qp(ibv_create_qp(env.pd(), &attr));
    if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
    expectErrno("destroying a CQ with a QP", EBUSY, ibv_destroy_cq(cq));
    // What was refused must still be whole.
    ibv_wc wc;
    expectSame("polling the CQ", "0", std::to_string(ibv_poll_cq(cq, 1, &wc)));
    expectErrno("destroying a channel with a CQ", EBUSY, ibv_destroy_comp_channel(channel.get()));
  }
  expectErrno("destroying a CQ with nothing", 0, ibv_destroy_cq(cq));
}

void busyMrUnderConnection(Env& env) {
  // An MR has no users that could keep it: it goes at any time, and the peer's next access with
  // its key is refused (case *-deregistered-rkey). A connected QP goes at any time too.
  auto link = env.connect();
  rdma_destroy_qp(link->client.id.get());
  const CmEvent event = env.serverCm().expect(RDMA_CM_EVENT_DISCONNECTED, env.deadline());
  expectSame("who is disconnected", "server",
             event.id == link->server.id.get() ? "server" : "another");
}

}  // namespace

void addCreateCases(std::vector<Case>* cases) {
  cases->push_back({"create-qp-limits", qpLimits});
  cases->push_back({"create-qp-types", qpTypes});
  cases->push_back({"create-xrc", xrc});
  cases->push_back({"create-cq-limits", cqLimits});
  cases->push_back({"register-access-flags", mrAccess});
  cases->push_back({"register-range", mrRange});
  cases->push_back({"register-mappings", mrMappings});
  cases->push_back({"register-memlock-limit", memlock});
  cases->push_back({"destroy-busy-pd", busyPd});
  cases->push_back({"destroy-busy-cq", busyCq});
  cases->push_back({"destroy-connected-qp", busyMrUnderConnection});
}

}  // namespace kiwarp::vm
