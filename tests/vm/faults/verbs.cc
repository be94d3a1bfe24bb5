// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The verbs of a process.

#include <infiniband/verbs.h>

#include <cerrno>

#include "common/error.h"
#include "faults/objects.h"
#include "faults/plan.h"

namespace kiwarp::vm {
namespace {

void queuePairCases(FaultPlan* plan, Objects* all) {
  RawQp qp;
  const auto make = [&] {
    qp.reset(all->makeQp());
    if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  };
  const auto gone = [&] { qp.reset(); };
  plan->run({.name = "modify_qp to ERROR",
             .prepare = make,
             .call = [&] { return toState(qp.get(), IBV_QPS_ERR); },
             .undo = gone});
  plan->run({.name = "modify_qp of the access",
             .prepare = make,
             .call =
                 [&] {
                   ibv_qp_attr attr{};
                   attr.qp_access_flags = kAccess;
                   return ibv_modify_qp(qp.get(), &attr, IBV_QP_ACCESS_FLAGS);
                 },
             .undo = gone});
  plan->run({.name = "query_qp",
             .prepare = make,
             .call =
                 [&] {
                   ibv_qp_attr attr{};
                   ibv_qp_init_attr init{};
                   return ibv_query_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_CAP, &init);
                 },
             .undo = gone});
  const auto broken = [&, make] {
    make();
    if (int error = toState(qp.get(), IBV_QPS_ERR)) fail("%s", errnoName(error).c_str());
    if (int error = ibv_req_notify_cq(all->cq.get(), 0)) fail("%s", errnoName(error).c_str());
  };
  // A receive that is posted to a queue pair in ERROR is flushed, with an event.
  const auto flushed = [&] {
    ibv_wc wc[4];
    while (ibv_poll_cq(all->cq.get(), 4, wc) > 0) continue;
    qp.reset();
  };
  plan->run({.name = "post_recv in ERROR",
             .prepare = broken,
             .call =
                 [&] {
                   ibv_recv_wr wr{}, *bad = nullptr;
                   return ibv_post_recv(qp.get(), &wr, &bad);
                 },
             .undo = flushed});
  plan->run({.name = "post_send in ERROR",
             .prepare = broken,
             .call =
                 [&] {
                   ibv_send_wr wr{}, *bad = nullptr;
                   wr.opcode = IBV_WR_SEND;
                   return ibv_post_send(qp.get(), &wr, &bad);
                 },
             .undo = flushed});
}

void queryCases(FaultPlan* plan, ibv_context* context) {
  plan->run({.name = "query_device", .call = [=] {
               ibv_device_attr_ex attr{};
               return ibv_query_device_ex(context, nullptr, &attr);
             }});
  plan->run({.name = "query_port", .call = [=] {
               ibv_port_attr attr{};
               return ibv_query_port(context, 1, &attr);
             }});
  plan->run({.name = "query_gid", .call = [=] {
               ibv_gid_entry entry{};
               return ibv_query_gid_ex(context, 1, 0, &entry, 0);
             }});
}

}  // namespace

void verbCases(FaultPlan* plan) {
  const std::string& device = plan->options().device;
  Context opened;
  const auto openIt = [&] {
    opened = openDevice(device);
    return opened ? 0 : (errno ? errno : ENODATA);
  };
  // libibverbs tries other ways to open the device, and says how the last one failed.
  plan->run({.name = "open_device",
             .call = openIt,
             .undo = [&] { opened.reset(); },
             .also = {ENOENT, EIO}});

  Objects all(device);
  ibv_context* context = all.context.get();
  queryCases(plan, context);
  makeAndDestroy<ibv_pd>(
      plan, "alloc_pd", [&] { return ibv_alloc_pd(context); }, ibv_dealloc_pd);
  for (const size_t length : {size_t{100}, size_t{64} << 10, kLarge}) {
    makeAndDestroy<ibv_mr>(
        plan, strf("reg_mr of %zu bytes", length),
        [&all, length] { return ibv_reg_mr(all.pd.get(), all.memory.data(), length, kAccess); },
        ibv_dereg_mr);
  }
  makeAndDestroy<ibv_comp_channel>(
      plan, "create_comp_channel", [&] { return ibv_create_comp_channel(context); },
      ibv_destroy_comp_channel, false);
  for (const int entries : {1, 30000}) {
    makeAndDestroy<ibv_cq>(
        plan, strf("create_cq of %d", entries),
        [&, entries] { return ibv_create_cq(context, entries, nullptr, all.channel.get(), 0); },
        ibv_destroy_cq);
  }
  makeAndDestroy<ibv_qp>(
      plan, "create_qp", [&] { return all.makeQp(); }, ibv_destroy_qp);
  queuePairCases(plan, &all);
  extendedCases(plan, &all);
}

}  // namespace kiwarp::vm
