// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sched.h>

#include <atomic>

namespace kiwarp {

// Who polls until something is there counts his looks in vain here, and gives the CPU away now and
// then. What he waits for may need it: the peer, on a machine with few CPUs, where he would
// otherwise look on for the rest of his time slice. With a CPU to spare sched_yield() returns at
// once, and costs a part of what the looks between two calls do.
class PollBackoff {
 public:
  // Several threads may poll: a count that gets lost between them does not matter.
  void found() {
    if (vain_.load(std::memory_order_relaxed) != 0) vain_.store(0, std::memory_order_relaxed);
  }

  void foundNothing() {
    int vain = vain_.load(std::memory_order_relaxed) + 1;
    if (vain >= kLooks) {
      sched_yield();
      vain = 0;
    }
    vain_.store(vain, std::memory_order_relaxed);
  }

 private:
  static constexpr int kLooks = 32;

  std::atomic<int> vain_{0};
};

}  // namespace kiwarp
