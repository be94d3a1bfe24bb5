// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>

#include "common/error.h"
#include "common/verbs.h"
#include "faults/plan.h"

// What the cases of verbs share.
namespace kiwarp::vm {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr size_t kLarge = 8 << 20;

struct ContextDeleter {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
};
using Context = std::unique_ptr<ibv_context, ContextDeleter>;

// Nothing, with errno, if it cannot be opened.
Context openDevice(const std::string& name);

// All that is there when a case of one verb begins.
class Objects {
 public:
  explicit Objects(const std::string& device);

  ibv_qp* makeQp();

  Context context;
  Memory memory;
  Pd pd;
  CompChannel channel;
  Cq cq;
};

// Errno, or 0.
int toState(ibv_qp* qp, ibv_qp_state state);

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

// The verbs that came with shared receive queues, windows and the extended ones.
void extendedCases(FaultPlan* plan, Objects* all);

}  // namespace kiwarp::vm
