// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sched.h>

#include <atomic>

namespace kiwarp {

// Counts empty polls of a completion queue, and yields the CPU after some of them. On a machine
// with few CPUs the peer may need it to make progress; otherwise the poller would go on until its
// time slice ends. With an idle CPU sched_yield() returns at once, and costs a part of what the
// polls between two calls do.
class PollBackoff {
 public:
  // Several threads may poll: a lost count does not matter.
  void found() {
    if (empty_.load(std::memory_order_relaxed) != 0) empty_.store(0, std::memory_order_relaxed);
  }

  void foundNothing() {
    int empty = empty_.load(std::memory_order_relaxed) + 1;
    if (empty >= kPolls) {
      sched_yield();
      empty = 0;
    }
    empty_.store(empty, std::memory_order_relaxed);
  }

 private:
  static constexpr int kPolls = 32;

  std::atomic<int> empty_{0};
};

}  // namespace kiwarp
