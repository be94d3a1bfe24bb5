// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The verbs of a process.

#include "common/verbs.h"

#include <infiniband/verbs.h>

#include <cerrno>
#include <memory>

#include "common/error.h"
#include "faults/plan.h"

namespace kiwarp::vm {
namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr size_t kLarge = 8 << 20;

struct ContextDeleter {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
};
using Context = std::unique_ptr<ibv_context, ContextDeleter>;

Context open(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  Context context;
  for (int i = 0; list && i < count; ++i) {
    if (name == ibv_get_device_name(list[i])) {
      errno = 0;
      context.reset(ibv_open_device(list[i]));
    }
  }
  const int error = errno;
  ibv_free_device_list(list);
  errno = error;
  return context;
}

// All that is there when a case of one verb begins.
class Objects {
 public:
  explicit Objects(const std::string& device)
      : context(open(device)), memory(kLarge), channel(nullptr) {
    if (!context) fail("%s cannot be opened: %s", device.c_str(), errnoName(errno).c_str());
    pd = allocPd(context.get());
    channel = createChannel(context.get());
    cq = createCq(context.get(), 64, channel.get());
  }

  ibv_qp* makeQp() {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = cq.get();
    init.cap = {64, 64, 4, 4, 64};
    return ibv_create_qp(pd.get(), &init);
  }

  Context context;
  Memory memory;
  Pd pd;
  CompChannel channel;
  Cq cq;
};

int toState(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

// A verb that makes something, and the one that takes it away, if anything in that can fail.
template <typename T>
void makeAndDestroy(FaultPlan* plan, const std::string& what, const std::function<T*()>& make,
                    int (*take)(T*), bool taking_fails = true) {
  T* made = nullptr;
  const auto call = [&made, make] {
    errno = 0;
    made = make();
    return made ? 0 : (errno ? errno : ENODATA);
  };
  const auto gone = [&made, take, what] {
    if (!made) return;
    const int error = take(made);
    made = nullptr;
    if (error) fail("what %s made does not go: %s", what.c_str(), errnoName(error).c_str());
  };
  plan->run({.name = what, .call = call, .undo = gone});
  if (!taking_fails) return;
  const auto need = [&made, make] {
    made = make();
    if (!made) fail("%s", errnoName(errno).c_str());
  };
  // After an error it may be there or not: the failure may have been that of the answer.
  int last = 0;
  const auto destroy = [&made, &last, take] { return last = take(made); };
  const auto finally = [&made, &last, take] {
    if (last) take(made);
    made = nullptr;
  };
  plan->run({.name = what + "'s opposite", .prepare = need, .call = destroy, .undo = finally});
}

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
    opened = open(device);
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
}

}  // namespace kiwarp::vm
