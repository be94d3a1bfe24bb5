// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The verbs of a process that came later: shared receive queues, windows, regions that change,
// completion queues that change, dma-bufs, imports, counters.

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "../../kverbs/exporter.h"
#include "common/error.h"
#include "faults/netlink.h"
#include "faults/objects.h"
#include "faults/plan.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kPage = 4096;
constexpr uint32_t kEntries = 16, kMoreEntries = 3000;

// Errno of a call that gave a pointer.
int made(const void* object) { return object ? 0 : (errno ? errno : ENODATA); }

// KiB of this process that are pinned.
uint64_t pinned() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "VmPin: %" SCNu64, &kib) == 1) return kib;
  }
  fail("/proc/self/status does not say what is pinned");
}

ibv_srq_attr querySrq(ibv_srq* srq) {
  ibv_srq_attr attr{};
  checkErrno(ibv_query_srq(srq, &attr), "ibv_query_srq");
  return attr;
}

int postSrq(ibv_srq* srq) {
  ibv_recv_wr wr{}, *bad = nullptr;
  return ibv_post_srq_recv(srq, &wr, &bad);
}

// Whatever became of the call, the queue takes as many receives as it says that it has room for.
void fill(ibv_srq* srq, uint32_t posted) {
  for (const uint32_t room = querySrq(srq).max_wr; posted < room; ++posted) {
    if (int error = postSrq(srq)) fail("receive %u: %s", posted, errnoName(error).c_str());
  }
  if (postSrq(srq) != ENOMEM) fail("a receive too many was taken");
}

void srqCases(FaultPlan* plan, Objects* all) {
  for (const uint32_t entries : {kEntries, kMoreEntries}) {
    makeAndDestroy<ibv_srq>(
        plan, strf("create_srq of %u", entries),
        [all, entries] {
          ibv_srq_init_attr init{};
          init.attr.max_wr = entries;
          init.attr.max_sge = 2;
          return ibv_create_srq(all->pd.get(), &init);
        },
        ibv_destroy_srq);
  }
  Srq srq;
  const auto make = [&] {
    srq = createSrq(all->pd.get(), kEntries, 2);
    for (uint32_t i = 0; i < kEntries / 2; ++i) checkErrno(postSrq(srq.get()), "a receive");
  };
  const auto filled = [&] {
    fill(srq.get(), kEntries / 2);
    srq.reset();
  };
  const auto modify = [&](int mask) {
    ibv_srq_attr attr{};
    attr.max_wr = kMoreEntries;
    attr.srq_limit = 2;
    return ibv_modify_srq(srq.get(), &attr, mask);
  };
  plan->run({.name = "modify_srq to resize it",
             .prepare = make,
             .call = [&] { return modify(IBV_SRQ_MAX_WR); },
             .then = [&] { return querySrq(srq.get()).max_wr < kMoreEntries ? ERANGE : 0; },
             .undo = filled});
  plan->run({.name = "modify_srq of the limit",
             .prepare = make,
             .call = [&] { return modify(IBV_SRQ_LIMIT); },
             .then = [&] { return querySrq(srq.get()).srq_limit == 2 ? 0 : ERANGE; },
             .undo = filled});
  plan->run({.name = "modify_srq of both",
             .prepare = make,
             .call = [&] { return modify(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT); },
             .then = [&] { return querySrq(srq.get()).srq_limit == 2 ? 0 : ERANGE; },
             .undo = filled});
  plan->run({.name = "query_srq",
             .prepare = make,
             .call =
                 [&] {
                   ibv_srq_attr attr{};
                   return ibv_query_srq(srq.get(), &attr);
                 },
             .undo = filled});
}

void windowCases(FaultPlan* plan, Objects* all) {
  for (const auto type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    makeAndDestroy<ibv_mw>(
        plan, strf("alloc_mw of type %d", type == IBV_MW_TYPE_1 ? 1 : 2),
        [all, type] { return ibv_alloc_mw(all->pd.get(), type); }, ibv_dealloc_mw);
  }
}

struct Change {
  const char* what;
  int flags;
  size_t from, to;    // bytes
  int before, after;  // access
};

constexpr size_t kMiddle = 64 << 10;
constexpr int kAll =
    IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
constexpr Change kChanges[] = {
    {"the translation", IBV_REREG_MR_CHANGE_TRANSLATION, kMiddle, kMiddle, kAccess, kAccess},
    {"the translation, to more", IBV_REREG_MR_CHANGE_TRANSLATION, kMiddle, kLarge / 2, kAccess,
     kAccess},
    {"the domain", IBV_REREG_MR_CHANGE_PD, kMiddle, kMiddle, kAccess, kAccess},
    {"the access", IBV_REREG_MR_CHANGE_ACCESS, kMiddle, kMiddle, kAccess, IBV_ACCESS_LOCAL_WRITE},
    {"the access, to write", IBV_REREG_MR_CHANGE_ACCESS, kMiddle, kMiddle, 0, kAccess},
    {"all", kAll, kMiddle, kPage, 0, kAccess},
};

void regionCases(FaultPlan* plan, Objects* all) {
  const uint64_t before = pinned();
  const Pd other = allocPd(all->context.get());
  // The other half is where a new translation leads to.
  uint8_t* const memory = all->memory.data();
  Mr mr;
  for (const Change& change : kChanges) {
    plan->run({.name = strf("rereg_mr of %s", change.what),
               .prepare = [&] { mr = regMr(all->pd.get(), memory, change.from, change.before); },
               .call =
                   [&] {
                     errno = 0;
                     return ibv_rereg_mr(
                                mr.get(), change.flags, other.get(), memory + kLarge / 2, change.to,
                                change.flags & IBV_REREG_MR_CHANGE_ACCESS ? change.after : 0)
                                ? (errno ? errno : ENODATA)
                                : 0;
                   },
               .undo =
                   [&] {
                     if (int error = ibv_dereg_mr(mr.release())) {
                       fail("it does not go: %s", errnoName(error).c_str());
                     }
                   }});
  }
  if (plan->wanted("rereg_mr")) {
    const uint64_t after = pinned();
    plan->fact(
        after == before,
        strf("rereg_mr: of %" PRIu64 " KiB that were pinned %" PRIu64 " are", before, after));
  }
}

void dmabufCases(FaultPlan* plan, Objects* all) {
  const std::string& exporter = plan->options().exporter;
  if (exporter.empty() || !plan->wanted("reg_dmabuf_mr")) return;
  const int device = open(exporter.c_str(), O_RDWR | O_CLOEXEC);
  if (device < 0) fail("%s: %s", exporter.c_str(), errnoName(errno).c_str());
  const int buffer = ioctl(device, KT_EXPORT, KT_EXPORT_USUAL);
  if (buffer < 0) fail("KT_EXPORT: %s", errnoName(errno).c_str());
  makeAndDestroy<ibv_mr>(
      plan, "reg_dmabuf_mr",
      [all, buffer] {
        return ibv_reg_dmabuf_mr(all->pd.get(), 0, KT_EXPORT_PAGES * kPage, 0, buffer, kAccess);
      },
      ibv_dereg_mr);
  close(buffer);
  const int mapped = ioctl(device, KT_EXPORT_MAPPED), left = ioctl(device, KT_EXPORT_LEFT);
  close(device);
  plan->fact(mapped == 0 && left == 0,
             strf("reg_dmabuf_mr: %d buffers are left, %d are mapped", left, mapped));
}

// Completions that wait go along to another ring.
void completionQueueCases(FaultPlan* plan, Objects* all) {
  ibv_context* context = all->context.get();
  makeAndDestroy<ibv_cq>(
      plan, "create_cq_ex with stamps",
      [all, context]() -> ibv_cq* {
        ibv_cq_init_attr_ex init{};
        init.cqe = 100;
        init.channel = all->channel.get();
        init.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
        ibv_cq_ex* cq = ibv_create_cq_ex(context, &init);
        return cq ? ibv_cq_ex_to_cq(cq) : nullptr;
      },
      ibv_destroy_cq);
  Cq cq;
  RawQp qp;
  const auto post = [&] {
    ibv_recv_wr wr{}, *bad = nullptr;
    checkErrno(ibv_post_recv(qp.get(), &wr, &bad), "a receive in ERROR");
  };
  const auto taken = [&] {
    ibv_wc wc{};
    const Deadline deadline(kTimeLimit);
    int count = 0;
    while ((count = ibv_poll_cq(cq.get(), 1, &wc)) == 0 && !deadline.passed()) continue;
    if (count != 1 || wc.status != IBV_WC_WR_FLUSH_ERR) fail("no completion");
  };
  const auto make = [&] {
    cq = createCq(context, 16);
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = cq.get();
    init.cap = {1, 4, 1, 1, 0};
    qp.reset(ibv_create_qp(all->pd.get(), &init));
    if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
    checkErrno(toState(qp.get(), IBV_QPS_ERR), "to ERROR");
    post();
    post();
  };
  const auto goes_on = [&] {
    taken();
    taken();
    post();
    taken();
    qp.reset();
    cq.reset();
  };
  // The RDMA core copies its own part of the answer last, when the kernel's side has the new ring.
  // A process whose answer cannot be written does not learn of that ring.
  int resized = 0;
  for (const int entries : {3000, 2}) {
    plan->run({.name = strf("resize_cq to %d", entries),
               .prepare = make,
               .call = [&, entries] { return resized = ibv_resize_cq(cq.get(), entries); },
               .undo =
                   [&] {
                     if (resized != EFAULT) return goes_on();
                     qp.reset();
                     cq.reset();
                   }});
  }
  plan->run({.name = "modify_cq",
             .prepare = make,
             .call =
                 [&] {
                   ibv_modify_cq_attr attr{};
                   attr.attr_mask = IBV_CQ_ATTR_MODERATE;
                   attr.moderate = {4, 100};
                   return ibv_modify_cq(cq.get(), &attr);
                 },
             .undo = goes_on});
}

void queuePairCases(FaultPlan* plan, Objects* all) {
  const Srq srq = createSrq(all->pd.get(), kEntries, 1);
  for (ibv_srq* shared : {static_cast<ibv_srq*>(nullptr), srq.get()}) {
    makeAndDestroy<ibv_qp>(
        plan, shared ? "create_qp_ex with shared receives" : "create_qp_ex",
        [all, shared] {
          ibv_qp_init_attr_ex init{};
          init.qp_type = IBV_QPT_RC;
          init.send_cq = init.recv_cq = all->cq.get();
          init.srq = shared;
          init.cap = {64, 64, 4, 4, 64};
          init.pd = all->pd.get();
          init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
          init.send_ops_flags =
              IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ;
          return ibv_create_qp_ex(all->context.get(), &init);
        },
        ibv_destroy_qp);
  }
}

// What is imported has a name more, and goes with its first one.
void importCases(FaultPlan* plan, Objects* all) {
  Context context;
  int fd = -1;
  plan->run({.name = "import_device",
             .prepare =
                 [&] {
                   fd = fcntl(all->context->cmd_fd, F_DUPFD_CLOEXEC, 0);
                   if (fd < 0) fail("F_DUPFD: %s", errnoName(errno).c_str());
                 },
             .call =
                 [&] {
                   errno = 0;
                   context.reset(ibv_import_device(fd));
                   return made(context.get());
                 },
             .undo =
                 [&] {
                   // A context has taken the file, and one that was given up may have closed it.
                   if (context) {
                     context.reset();
                   } else if (fcntl(fd, F_GETFD) >= 0) {
                     close(fd);
                   }
                 },
             .also = {EINVAL, ENODEV, ENOENT, EIO}});  // of a file or a list that it could not read
  if (!plan->wanted("import_mr") && !plan->wanted("import_pd")) return;
  fd = fcntl(all->context->cmd_fd, F_DUPFD_CLOEXEC, 0);
  context.reset(ibv_import_device(fd));
  if (!context) fail("ibv_import_device: %s", errnoName(errno).c_str());
  ibv_pd* pd = ibv_import_pd(context.get(), all->pd->handle);
  if (!pd) fail("ibv_import_pd: %s", errnoName(errno).c_str());
  // The number of the domain alone is imported: what is made by it asks the kernel.
  makeAndDestroy<ibv_mr>(
      plan, "reg_mr of an import_pd",
      [=] { return ibv_reg_mr(pd, all->memory.data(), kMiddle, kAccess); }, ibv_dereg_mr);
  const Mr region = regMr(all->pd.get(), all->memory.data(), kMiddle, kAccess);
  ibv_mr* imported = nullptr;
  plan->run({.name = "import_mr",
             .call =
                 [&] {
                   errno = 0;
                   imported = ibv_import_mr(pd, region->handle);
                   return made(imported);
                 },
             .then = [&] { return imported->rkey == region->rkey ? 0 : ERANGE; },
             .undo =
                 [&] {
                   if (imported) ibv_unimport_mr(imported);
                   imported = nullptr;
                 }});
  ibv_unimport_pd(pd);
}

// An administrator's. A counter goes with its last queue pair.
void counterCases(FaultPlan* plan, Objects* all) {
  RdmaNetlink netlink;
  RawQp qp;
  const uint32_t device = netlink.indexOf(plan->options().device);
  const auto make = [&] {
    qp.reset(all->makeQp());
    if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  };
  const auto gone = [&] { qp.reset(); };
  uint32_t counter = 0;
  plan->run({.name = "a counter is bound",
             .prepare = make,
             .call = [&] { return netlink.bindCounter(device, qp->qp_num, &counter); },
             .undo = gone,
             .also = {ENOBUFS}});
  plan->run({.name = "a counter is unbound",
             .prepare =
                 [&] {
                   make();
                   checkErrno(netlink.bindCounter(device, qp->qp_num, &counter), "bind");
                 },
             .call = [&] { return netlink.unbindCounter(device, qp->qp_num, counter); },
             .undo = gone,
             .also = {ENOBUFS}});
}

}  // namespace

void extendedCases(FaultPlan* plan, Objects* all) {
  srqCases(plan, all);
  windowCases(plan, all);
  regionCases(plan, all);
  dmabufCases(plan, all);
  completionQueueCases(plan, all);
  queuePairCases(plan, all);
  importCases(plan, all);
  counterCases(plan, all);
}

}  // namespace kiwarp::vm
