// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Posting by ibv_wr_*().

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

#include "extended/cases.h"
#include "extended/polling.h"
#include "rdma/kiwarp-abi.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kSize = 4096;
constexpr int kFull = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr uint64_t kOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV |
                          IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
constexpr uint32_t kDepth = 8;
constexpr uint32_t kInline = 64;

ibv_qp_init_attr_ex attributes(const QpConfig& config, uint64_t ops) {
  const ibv_qp_init_attr plain = toInitAttr(config);
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = plain.send_cq;
  attr.recv_cq = plain.recv_cq;
  attr.cap = plain.cap;
  attr.qp_type = plain.qp_type;
  attr.sq_sig_all = plain.sq_sig_all;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = config.pd;
  attr.send_ops_flags = ops;
  return attr;
}

// A link whose queue pairs have the functions, and a region at each end.
struct ExLink {
  explicit ExLink(Env& env, uint64_t ops = kOps, int access = kFull,
                  ibv_comp_channel* channel = nullptr)
      : near(env.pd(), kSize, access), far(env.pd(), kSize, access) {
    LinkOptions options;
    options.make_cq = [&env, channel](int cqe) {
      ibv_cq_init_attr_ex attr = cqAttributes(static_cast<uint32_t>(cqe));
      attr.channel = channel;
      return createCqEx(env.context(), attr);
    };
    options.client.send_wr = kDepth;
    options.client.send_sge = 3;
    options.client.inline_data = kInline;
    options.make_qp = [ops](CmId& id, const QpConfig& config) {
      ibv_qp_init_attr_ex attr = attributes(config, ops);
      checkErrno(rdma_create_qp_ex(id.get(), &attr), "rdma_create_qp_ex");
      return attr.cap;
    };
    link = env.connect(options);
    qp = ibv_qp_to_qp_ex(link->client.qp());
    if (!qp) fail("ibv_qp_to_qp_ex: none");
    qp->wr_flags = IBV_SEND_SIGNALED;
  }

  // A request's id; its other members are the builder's.
  ibv_qp_ex* as(uint64_t id) const {
    qp->wr_id = id;
    return qp;
  }
  ibv_cq* sends() const { return link->client.send_cq.get(); }
  ibv_cq* receives() const { return link->server.recv_cq.get(); }

  Buffer near, far;
  std::unique_ptr<Link> link;
  ibv_qp_ex* qp = nullptr;
};

void fill(const Buffer& buffer, uint8_t first) {
  for (size_t i = 0; i < buffer.size(); ++i) buffer.data()[i] = static_cast<uint8_t>(first + i);
}

void expectBytes(const char* what, const uint8_t* expected, const uint8_t* got, size_t length) {
  if (std::memcmp(expected, got, length) != 0) fail("%s: other bytes", what);
}

// One of each in one batch.
void everyBuilder(Env& env) {
  const ExLink ex(env);
  fill(ex.near, 3);
  std::memset(ex.far.data(), 0, kSize);
  Buffer inbox(env.pd(), kSize, kFull);
  for (uint64_t id : {10, 11, 12}) {
    mustRecv(ex.link->server.qp(), id, {inbox.sge(static_cast<int64_t>(id - 10) * 100, 100)});
  }
  const ibv_sge list[] = {ex.near.sge(0, 5), ex.near.sge(50, 6), ex.near.sge(100, 7)};
  std::array<char, 10> text{"inline da"};
  const ibv_data_buf buffers[] = {{text.data(), 3}, {text.data() + 5, 4}};
  ibv_wr_start(ex.qp);
  ibv_wr_send(ex.as(1));
  ibv_wr_set_sge_list(ex.qp, 3, list);
  ibv_wr_send(ex.as(2));
  ibv_wr_set_inline_data(ex.qp, text.data(), text.size());
  ibv_wr_send(ex.as(3));
  ibv_wr_set_inline_data_list(ex.qp, 2, buffers);
  ibv_wr_rdma_write(ex.as(4), ex.far.rkey(), ex.far.address() + 8);
  ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address(), 300);
  ibv_wr_rdma_write(ex.as(5), ex.far.rkey(), ex.far.address() + 1000);
  ibv_wr_set_inline_data(ex.qp, text.data(), 4);
  ibv_wr_rdma_read(ex.as(6), ex.far.rkey(), ex.far.address() + 8);
  ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address() + 2000, 300);
  text.fill('x');  // It was copied.
  expectErrno("ibv_wr_complete", 0, ibv_wr_complete(ex.qp));
  for (uint64_t id = 1; id <= 6; ++id) env.expectWc(ex.sends(), id, {IBV_WC_SUCCESS}, "request");
  for (uint64_t id : {10, 11, 12}) {
    env.expectWc(ex.receives(), id, {IBV_WC_SUCCESS}, "receive");
  }
  expectBytes("SGE list, first", ex.near.data(), inbox.data(), 5);
  expectBytes("SGE list, second", ex.near.data() + 50, inbox.data() + 5, 6);
  expectBytes("SGE list, third", ex.near.data() + 100, inbox.data() + 11, 7);
  expectBytes("inline", reinterpret_cast<const uint8_t*>("inline da"), inbox.data() + 100, 10);
  expectBytes("inline list", reinterpret_cast<const uint8_t*>("inle da"), inbox.data() + 200, 7);
  expectBytes("Write", ex.near.data(), ex.far.data() + 8, 300);
  expectBytes("inline Write", reinterpret_cast<const uint8_t*>("inli"), ex.far.data() + 1000, 4);
  expectBytes("Read", ex.near.data(), ex.near.data() + 2000, 300);
  env.expectAlive(*ex.link);
}

// Without payload, without a completion, and between calls of ibv_post_send().
void mixed(Env& env) {
  const ExLink ex(env);
  for (uint64_t id = 0; id < 3; ++id) mustRecv(ex.link->server.qp(), id, {});
  ibv_wr_start(ex.qp);
  ex.qp->wr_flags = 0;
  ibv_wr_send(ex.as(1));
  expectErrno("unsignalled", 0, ibv_wr_complete(ex.qp));
  expectErrno("ibv_post_send", 0, postSend(ex.link->client.qp(), {Work::send(2, {})}).error);
  ibv_wr_start(ex.qp);
  ex.qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE;
  ibv_wr_send(ex.as(3));
  expectErrno("signalled", 0, ibv_wr_complete(ex.qp));
  env.expectWc(ex.sends(), 2, {IBV_WC_SUCCESS}, "ibv_post_send's");
  env.expectWc(ex.sends(), 3, {IBV_WC_SUCCESS}, "ibv_wr_complete's");
  for (uint64_t id = 0; id < 3; ++id) env.expectWc(ex.receives(), id, {IBV_WC_SUCCESS}, "receive");
  ibv_wr_start(ex.qp);
  expectErrno("nothing", 0, ibv_wr_complete(ex.qp));
  env.expectAlive(*ex.link);
}

void aborted(Env& env) {
  const ExLink ex(env);
  for (int round = 0; round < 3; ++round) {
    ibv_wr_start(ex.qp);
    for (uint64_t id = 0; id < kDepth; ++id) {
      ibv_wr_send(ex.as(100 + id));
      ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address(), 8);
    }
    ibv_wr_abort(ex.qp);
  }
  // Neither a request nor a completion is left, and all of the ring is free.
  mustRecv(ex.link->server.qp(), 7, {});
  ibv_wr_start(ex.qp);
  for (uint64_t id = 0; id < kDepth - 1; ++id) {
    ibv_wr_rdma_write(ex.as(id), ex.far.rkey(), ex.far.address());
    ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address(), 8);
  }
  ibv_wr_send(ex.as(kDepth - 1));
  expectErrno("as many as fit", 0, ibv_wr_complete(ex.qp));
  for (uint64_t id = 0; id < kDepth; ++id) {
    env.expectWc(ex.sends(), id, {IBV_WC_SUCCESS}, "request");
  }
  env.expectWc(ex.receives(), 7, {IBV_WC_SUCCESS}, "receive");
  env.expectAlive(*ex.link);
}

// What build() does is refused as a whole, also what was good before it.
template <typename Build>
void expectRefused(const ExLink& ex, const char* what, int error, Build build) {
  ibv_wr_start(ex.qp);
  ibv_wr_send(ex.as(50));
  build();
  ibv_wr_send(ex.as(51));
  expectErrno(what, error, ibv_wr_complete(ex.qp));
}

void refused(Env& env) {
  const ExLink ex(env);
  const std::vector<ibv_sge> sges(4, ex.near.sge(0, 4));
  std::array<uint8_t, 4096> data{};
  const ibv_data_buf halves[] = {{data.data(), 200}, {data.data(), 200}};
  const auto tooManySges = [&] { ibv_wr_set_sge_list(ex.qp, sges.size(), sges.data()); };
  expectRefused(ex, "too many SGEs", EINVAL, tooManySges);
  expectRefused(ex, "too much inline", EINVAL,
                [&] { ibv_wr_set_inline_data(ex.qp, data.data(), data.size()); });
  expectRefused(ex, "too much inline in all", EINVAL,
                [&] { ibv_wr_set_inline_data_list(ex.qp, 2, halves); });
  expectRefused(ex, "an inline Read", EINVAL, [&] {
    ibv_wr_rdma_read(ex.as(1), ex.far.rkey(), ex.far.address());
    ibv_wr_set_inline_data(ex.qp, data.data(), 4);
  });
  expectRefused(ex, "a Read into two places", EINVAL, [&] {
    ibv_wr_rdma_read(ex.as(1), ex.far.rkey(), ex.far.address());
    ibv_wr_set_sge_list(ex.qp, 2, sges.data());
  });
  expectRefused(ex, "more than the queue has room for", ENOMEM, [&] {
    for (uint32_t i = 0; i < 2 * kDepth; ++i) ibv_wr_send(ex.as(i));
  });
  expectRefused(ex, "the first error counts", EINVAL, [&] {
    tooManySges();
    for (uint32_t i = 0; i < 2 * kDepth; ++i) ibv_wr_send(ex.as(i));
  });
  // Nothing of it was posted.
  ibv_wc wc{};
  expectSame("completions", "0", strf("%d", ibv_poll_cq(ex.sends(), 1, &wc)));
  env.expectAlive(*ex.link);
}

void sendInvalidate(Env& env) {
  const ExLink ex(env);
  mustRecv(ex.link->server.qp(), 1, {});
  ibv_wr_start(ex.qp);
  ibv_wr_send_inv(ex.as(2), ex.far.rkey());
  expectErrno("ibv_wr_complete", 0, ibv_wr_complete(ex.qp));
  // The peer may not withdraw such a region.
  env.expectEnded(*ex.link);
}

// A window of type 2, bound, used by the peer and invalidated again.
void windows(Env& env) {
  const ExLink ex(env, kOps | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
                  kFull | IBV_ACCESS_MW_BIND);
  const Mw window = allocMw(env.pd(), IBV_MW_TYPE_2);
  const uint32_t rkey = ibv_inc_rkey(window->rkey);
  const ibv_mw_bind_info info = {.mr = ex.near.mr(),
                                 .addr = ex.near.address() + 100,
                                 .length = 200,
                                 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ibv_wr_start(ex.qp);
  ibv_wr_bind_mw(ex.as(1), window.get(), rkey, &info);
  expectErrno("ibv_wr_bind_mw", 0, ibv_wr_complete(ex.qp));
  env.expectWc(ex.sends(), 1, {IBV_WC_SUCCESS}, "the binding");
  fill(ex.far, 9);
  expectErrno("the peer posts", 0,
              postSend(ex.link->server.qp(),
                       {Work::write(2, {ex.far.sge(0, 200)}, ex.near.address() + 100, rkey)})
                  .error);
  env.expectWc(ex.link->server.send_cq.get(), 2, {IBV_WC_SUCCESS}, "the peer's Write");
  env.expectAlive(*ex.link);
  expectBytes("through the window", ex.far.data(), ex.near.data() + 100, 200);
  ibv_wr_start(ex.qp);
  ibv_wr_local_inv(ex.as(3), rkey);
  expectErrno("ibv_wr_local_inv", 0, ibv_wr_complete(ex.qp));
  env.expectWc(ex.sends(), 3, {IBV_WC_SUCCESS}, "the invalidation");
  ibv_wr_start(ex.qp);
  ibv_wr_bind_mw(ex.as(4), nullptr, rkey, &info);
  expectErrno("binding no window", EINVAL, ibv_wr_complete(ex.qp));
  env.expectAlive(*ex.link);
}

// A window of type 2 that the peer invalidates by its Send: the receive says which. What the peer
// may do then is nothing, and the window can be bound again.
void windowInvalidatedByPeer(Env& env) {
  const ExLink ex(env, kOps, kFull | IBV_ACCESS_MW_BIND);
  ibv_qp* const server = ex.link->server.qp();
  const Mw window = allocMw(env.pd(), IBV_MW_TYPE_2);
  uint32_t rkey = window->rkey;
  const auto bind = [&](uint64_t id) {
    rkey = ibv_inc_rkey(rkey);
    const Work work = Work::bind(id, window.get(), rkey,
                                 {.mr = ex.far.mr(),
                                  .addr = ex.far.address(),
                                  .length = kSize,
                                  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE});
    expectErrno("binding", 0, postSend(server, {work}).error);
    env.expectWc(ex.link->server.send_cq.get(), id, {IBV_WC_SUCCESS}, "the binding");
  };
  ibv_cq_ex* const receives = toEx(ex.link->server.recv_cq);
  Buffer inbox(env.pd(), kSize, kFull);
  for (uint64_t id : {10, 20, 30}) {
    bind(id);
    mustRecv(server, id + 1, {inbox.sge(0, 100)});
    mustRecv(server, id + 2, {});
    fill(ex.near, static_cast<uint8_t>(id));
    ibv_wr_start(ex.qp);
    ibv_wr_rdma_write(ex.as(1), rkey, ex.far.address());
    ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address(), 300);
    ibv_wr_send_inv(ex.as(2), rkey);
    ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address() + 50, 60);
    ibv_wr_send(ex.as(3));
    expectErrno("ibv_wr_complete", 0, ibv_wr_complete(ex.qp));
    for (uint64_t sent = 1; sent <= 3; ++sent) {
      env.expectWc(ex.sends(), sent, {IBV_WC_SUCCESS}, "request");
    }
    Batch batch(receives);
    expectNumber("wr_id", id + 1, receives->wr_id);
    expectNumber("status", IBV_WC_SUCCESS, receives->status);
    expectNumber("opcode", IBV_WC_RECV, ibv_wc_read_opcode(receives));
    expectNumber("byte_len", 60, ibv_wc_read_byte_len(receives));
    expectNumber("wc_flags", IBV_WC_WITH_INV, ibv_wc_read_wc_flags(receives));
    expectNumber("invalidated_rkey", rkey, ibv_wc_read_invalidated_rkey(receives));
    // Of the one behind it, in the same batch.
    batch.next();
    expectNumber("wr_id", id + 2, receives->wr_id);
    expectNumber("wc_flags of a Send", 0, ibv_wc_read_wc_flags(receives));
    expectNumber("invalidated_rkey of a Send", 0, ibv_wc_read_invalidated_rkey(receives));
    batch.end();
    expectBytes("through the window", ex.near.data(), ex.far.data(), 300);
    expectBytes("with the invalidation", ex.near.data() + 50, inbox.data(), 60);
  }
  ex.far.erase(0, kSize);
  ibv_wr_start(ex.qp);
  ibv_wr_rdma_write(ex.as(4), rkey, ex.far.address());
  ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address(), 300);
  expectErrno("ibv_wr_complete", 0, ibv_wr_complete(ex.qp));
  env.expectEnded(*ex.link);
  ex.far.expectUntouched("a Write through what is invalidated");
}

uint64_t wordAt(const Buffer& buffer, size_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, buffer.data() + offset, sizeof(word));
  return word;
}

void setWord(const Buffer& buffer, size_t offset, uint64_t word) {
  std::memcpy(buffer.data() + offset, &word, sizeof(word));
}

void expectImmediate(Env& env, ibv_cq* cq, uint64_t id, uint32_t length, __be32 imm) {
  const ibv_wc wc = env.awaitWc(cq, "an immediate");
  expectNumber("wr_id", id, wc.wr_id);
  expectNumber("status", IBV_WC_SUCCESS, wc.status);
  expectNumber("opcode", IBV_WC_RECV_RDMA_WITH_IMM, wc.opcode);
  expectNumber("flags", IBV_WC_WITH_IMM, wc.wc_flags);
  expectNumber("byte_len", length, wc.byte_len);
  expectNumber("imm_data", imm, wc.imm_data);
}

// Immediates as they are read one completion at a time, in network byte order.
void immediatesPolled(Env& env, uint64_t ops) {
  const ExLink ex(env, ops);
  ibv_cq_ex* const receives = toEx(ex.link->server.recv_cq);
  const __be32 sent[] = {htonl(0x01020304), htonl(0), htonl(0xfffffffe), htonl(0x80000000)};
  constexpr uint32_t kLengths[] = {0, 100, 0, 4000};
  for (uint64_t id = 0; id < 5; ++id) mustRecv(ex.link->server.qp(), 10 + id, {});
  ibv_wr_start(ex.qp);
  for (uint32_t i = 0; i < 4; ++i) {
    if (kLengths[i] == 0) {
      ibv_wr_send_imm(ex.as(i), sent[i]);
    } else {
      ibv_wr_rdma_write_imm(ex.as(i), ex.far.rkey(), ex.far.address(), sent[i]);
      ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address(), kLengths[i]);
    }
  }
  ibv_wr_send(ex.as(4));
  expectErrno("ibv_wr_complete", 0, ibv_wr_complete(ex.qp));
  for (uint64_t id = 0; id < 5; ++id) env.expectWc(ex.sends(), id, {IBV_WC_SUCCESS}, "request");
  Batch batch(receives);
  for (uint32_t i = 0; i < 4; ++i) {
    if (i != 0) batch.next();
    expectNumber("wr_id", 10 + i, receives->wr_id);
    expectNumber("status", IBV_WC_SUCCESS, receives->status);
    expectNumber("opcode", IBV_WC_RECV_RDMA_WITH_IMM, ibv_wc_read_opcode(receives));
    expectNumber("byte_len", kLengths[i], ibv_wc_read_byte_len(receives));
    expectNumber("wc_flags", IBV_WC_WITH_IMM, ibv_wc_read_wc_flags(receives));
    expectNumber("imm_data", sent[i], ibv_wc_read_imm_data(receives));
  }
  batch.next();
  expectNumber("opcode of a Send", IBV_WC_RECV, ibv_wc_read_opcode(receives));
  expectNumber("wc_flags of a Send", 0, ibv_wc_read_wc_flags(receives));
  expectNumber("imm_data of a Send", 0, ibv_wc_read_imm_data(receives));
  batch.end();
  env.expectAlive(*ex.link);
}

// What RFC 7306 has, one of each in one batch.
void useExtensions(Env& env, uint64_t ops) {
  const ExLink ex(env, ops, kFull | IBV_ACCESS_REMOTE_ATOMIC);
  fill(ex.near, 5);
  std::memset(ex.far.data(), 0, kSize);
  setWord(ex.far, 512, 40);
  setWord(ex.far, 520, 9);
  for (uint64_t id : {10, 11}) mustRecv(ex.link->server.qp(), id, {});
  ibv_wr_start(ex.qp);
  ibv_wr_send_imm(ex.as(1), 0x01020304);
  ibv_wr_rdma_write_imm(ex.as(2), ex.far.rkey(), ex.far.address() + 8, 0x05060708);
  ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address(), 100);
  ibv_wr_atomic_fetch_add(ex.as(3), ex.far.rkey(), ex.far.address() + 512, 5);
  ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address() + 1024, 8);
  ibv_wr_atomic_cmp_swp(ex.as(4), ex.far.rkey(), ex.far.address() + 520, 9, 11);
  ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address() + 1032, 8);
  expectErrno("ibv_wr_complete", 0, ibv_wr_complete(ex.qp));
  for (uint64_t id = 1; id <= 4; ++id) env.expectWc(ex.sends(), id, {IBV_WC_SUCCESS}, "request");
  expectImmediate(env, ex.receives(), 10, 0, 0x01020304);
  expectImmediate(env, ex.receives(), 11, 100, 0x05060708);
  expectBytes("Write with Immediate", ex.near.data(), ex.far.data() + 8, 100);
  expectNumber("FetchAdd's old value", 40, wordAt(ex.near, 1024));
  expectNumber("FetchAdd's new value", 45, wordAt(ex.far, 512));
  expectNumber("CmpSwap's old value", 9, wordAt(ex.near, 1032));
  expectNumber("CmpSwap's new value", 11, wordAt(ex.far, 520));
  ibv_wr_start(ex.qp);
  ibv_wr_atomic_fetch_add(ex.as(5), ex.far.rkey(), ex.far.address() + 512, 5);
  ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address() + 1024, 4);
  expectErrno("FetchAdd into four bytes", EINVAL, ibv_wr_complete(ex.qp));
  env.expectAlive(*ex.link);
}

void sendImmediate(const ExLink& ex, uint32_t imm) { ibv_wr_send_imm(ex.as(imm), htonl(imm)); }

void writeImmediate(const ExLink& ex, uint32_t imm) {
  ibv_wr_rdma_write_imm(ex.as(imm), ex.far.rkey(), ex.far.address(), htonl(imm));
  ibv_wr_set_sge(ex.qp, ex.near.lkey(), ex.near.address(), 100);
}

// The peer's queue is armed for what is solicited, and the message comes: is there an event?
void solicitedImmediate(Env& env, uint64_t ops, void (*build)(const ExLink&, uint32_t),
                        uint32_t length, bool solicited) {
  constexpr uint32_t kImm = 5;
  const CompChannel channel = createChannel(env.context());
  ExLink ex(env, ops, kFull, channel.get());
  mustRecv(ex.link->server.qp(), 10, {});
  expectErrno("arm", 0, ibv_req_notify_cq(ex.receives(), 1));
  ibv_wr_start(ex.qp);
  ex.qp->wr_flags = IBV_SEND_SIGNALED | (solicited ? unsigned{IBV_SEND_SOLICITED} : 0);
  build(ex, kImm);
  expectErrno("ibv_wr_complete", 0, ibv_wr_complete(ex.qp));
  env.expectWc(ex.sends(), kImm, {IBV_WC_SUCCESS}, "request");
  expectImmediate(env, ex.receives(), 10, length, htonl(kImm));
  pollfd waiting{channel->fd, POLLIN, 0};
  if (!solicited) {
    // When it has gone, the queue pair raises no event any more. It has nothing to be flushed.
    ex.link->server.id.reset();
    expectNumber("events of what is not solicited", 0, static_cast<uint64_t>(poll(&waiting, 1, 0)));
    return;
  }
  if (poll(&waiting, 1, env.deadline().pollTimeout()) != 1) fail("no event of what is solicited");
  ibv_cq* woken = nullptr;
  void* context = nullptr;
  checkErrno(ibv_get_cq_event(channel.get(), &woken, &context), "ibv_get_cq_event");
  ibv_ack_cq_events(woken, 1);
  if (woken != ex.receives()) fail("the event is another queue's");
}

void solicitedImmediates(Env& env, uint64_t ops) {
  for (const bool solicited : {false, true}) {
    solicitedImmediate(env, ops, sendImmediate, 0, solicited);
    solicitedImmediate(env, ops, writeImmediate, 100, solicited);
  }
}

std::set<uintptr_t> ringsMapped() {
  std::set<uintptr_t> starts;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    uintptr_t start = 0;
    if (line.find("/dev/infiniband/uverbs") != std::string::npos &&
        std::sscanf(line.c_str(), "%" SCNxPTR, &start) == 1) {
      starts.insert(start);
    }
  }
  return starts;
}

// A process writes an operation into its send ring that only kernel consumers may post. The answer
// to the peer's Read makes the kernel look at the ring.
void kernelOnly(Env& env, uint8_t opcode) {
  const std::string what = strf("operation %d", opcode);
  std::set<uintptr_t> before, after;
  LinkOptions options;
  options.client.send_sge = 4;
  options.make_qp = [&](CmId& id, const QpConfig& config) {
    if (after.empty()) before = ringsMapped();
    const ibv_qp_cap cap = createQp(id, config);
    if (config.send_sge == 4) after = ringsMapped();
    return cap;
  };
  auto link = env.connect(options);
  uintptr_t ring = 0;
  for (uintptr_t start : after) {
    if (!before.contains(start)) ring = start;
  }
  if (!ring) fail("no mapping is new");

  const Buffer near(env.pd(), kSize, kFull | IBV_ACCESS_REMOTE_ATOMIC);
  const Buffer far(env.pd(), kSize, kFull | IBV_ACCESS_REMOTE_ATOMIC);
  struct {
    kiwarp_sqe sqe;
    kiwarp_sge sge;
    std::array<uint64_t, 2> masks;
  } entry{};
  entry.sqe.wr_id = 1;
  entry.sqe.opcode = opcode;
  entry.sqe.num_sge = 1;
  entry.sqe.remote_addr = far.address();
  entry.sqe.rkey = far.rkey();
  entry.sqe.atomic.swap = ~uint64_t{};
  entry.sge = {near.address(), 8, near.lkey()};
  entry.masks = {0, ~uint64_t{}};
  std::memset(far.data(), 0, kSize);
  std::memcpy(reinterpret_cast<void*>(ring + KIWARP_RING_ENTRIES_OFF), &entry, sizeof(entry));
  std::atomic_ref(reinterpret_cast<kiwarp_ring_ctrl*>(ring)->producer) = 1;
  expectErrno(
      "the peer posts", 0,
      postSend(link->server.qp(), {Work::read(2, {far.sge(8, 8)}, near.address(), near.rkey())})
          .error);
  const ibv_wc wc = env.awaitWc(link->client.send_cq.get(), what);
  expectNumber((what + ": status").c_str(), IBV_WC_LOC_QP_OP_ERR, wc.status);
  expectNumber((what + ": memory").c_str(), 0, wordAt(far, 0));
}

void refuseQp(Env& env, const char* what, int error, uint64_t ops, uint32_t spoil = 0,
              uint32_t more = 0, uint32_t create_flags = 0) {
  Cq cq = createCq(env.context(), 16);
  QpConfig config;
  config.pd = env.pd();
  config.send_cq = config.recv_cq = cq.get();
  ibv_qp_init_attr_ex attr = attributes(config, ops);
  attr.comp_mask = (attr.comp_mask & ~spoil) | more;
  attr.create_flags = create_flags;
  errno = 0;
  RawQp qp(ibv_create_qp_ex(env.context(), &attr));
  expectErrno(what, error, qp ? 0 : errno);
  if (qp && !ibv_qp_to_qp_ex(qp.get())) fail("%s: without functions", what);
  if (!qp) return;
  // In RESET nothing can be posted.
  ibv_qp_ex* ex = ibv_qp_to_qp_ex(qp.get());
  ibv_wr_start(ex);
  ibv_wr_send(ex);
  expectErrno("a Send in RESET", EINVAL, ibv_wr_complete(ex));
}

constexpr uint64_t kExtensions[] = {
    IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP};

// The suite runs this with the settings of RFC 7306 off, and on.
void extensions(Env& env, bool on) {
  uint64_t all = kOps;
  for (uint64_t op : kExtensions) all |= op;
  expectSame("the settings of RFC 7306", on ? "on" : "off",
             env.attr().atomic_cap != IBV_ATOMIC_NONE ? "on" : "off");
  if (on) {
    useExtensions(env, all);
    immediatesPolled(env, all);
    solicitedImmediates(env, all);
    for (auto op : {KIWARP_OP_READ_INV, KIWARP_OP_REG_MR, KIWARP_OP_MASKED_FETCH_ADD,
                    KIWARP_OP_MASKED_CMP_SWAP}) {
      kernelOnly(env, static_cast<uint8_t>(op));
    }
    return;
  }
  for (uint64_t op : kExtensions) refuseQp(env, "switched off", EOPNOTSUPP, kOps | op);
}

// A device that was imported has the settings of RFC 7306, too.
void extensionsImported(Env& env, bool on) {
  const int error = on ? 0 : EOPNOTSUPP;
  ibv_context* context = ibv_import_device(dup(env.context()->cmd_fd));
  if (!context) fail("ibv_import_device: %s", errnoName(errno).c_str());
  {
    const Pd pd(ibv_alloc_pd(context));
    const Cq cq = createCq(context, 16);
    QpConfig config;
    config.pd = pd.get();
    config.send_cq = config.recv_cq = cq.get();
    for (uint64_t op : kExtensions) {
      ibv_qp_init_attr_ex attr = attributes(config, op);
      errno = 0;
      const RawQp qp(ibv_create_qp_ex(context, &attr));
      expectErrno(strf("operation %llx", static_cast<unsigned long long>(op)), error,
                  qp ? 0 : errno);
    }
  }
  expectErrno("ibv_close_device", 0, ibv_close_device(context));
}

void created(Env& env) {
  refuseQp(env, "all that there are", 0, kOps);
  refuseQp(env, "TSO", EOPNOTSUPP, kOps | IBV_QP_EX_WITH_TSO);
  refuseQp(env, "atomic Writes", EOPNOTSUPP, kOps | IBV_QP_EX_WITH_ATOMIC_WRITE);
  refuseQp(env, "no protection domain", EINVAL, kOps, IBV_QP_INIT_ATTR_PD);
  refuseQp(env, "no creation flags", 0, kOps, 0, IBV_QP_INIT_ATTR_CREATE_FLAGS);
  refuseQp(env, "a creation flag", EOPNOTSUPP, kOps, 0, IBV_QP_INIT_ATTR_CREATE_FLAGS,
           IBV_QP_CREATE_BLOCK_SELF_MCAST_LB);
  auto link = env.connect();
  if (ibv_qp_to_qp_ex(link->client.qp())) fail("a queue pair without functions has some");
}

}  // namespace

void addPostCases(std::vector<Case>* cases, bool extensions_on) {
  const auto with = [extensions_on](void (*run)(Env&, bool)) {
    return [run, extensions_on](Env& env) { run(env, extensions_on); };
  };
  cases->insert(cases->end(), {{"post", everyBuilder},
                               {"post-mixed", mixed},
                               {"post-aborted", aborted},
                               {"post-refused", refused},
                               {"post-invalidate", sendInvalidate},
                               {"post-windows", windows},
                               {"post-window-invalidated", windowInvalidatedByPeer},
                               {"post-extensions", with(extensions)},
                               {"post-extensions-imported", with(extensionsImported)},
                               {"post-created", created}});
}

}  // namespace kiwarp::vm
