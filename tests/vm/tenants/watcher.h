// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// How long a thread of the highest priority waits to run on the first CPU, which is how long
// interrupts, softirqs or preemption are off there in a kernel with preempt=full.

#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace kiwarp::vm {

// Keeps the calling thread, and those that it starts, on that CPU.
void pinToFirstCpu();

// Wakes up each millisecond, and notes how late.
class Watcher {
 public:
  // With a bound, in microseconds, or 0.
  explicit Watcher(uint64_t bound_us);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Prints the longest wait since the call before, in nanoseconds, and returns it.
  int64_t report(const char* when);

  // The same, for what is the module's doing: throws Failure if it was longer than the bound.
  void judge(const char* when);

 private:
  void watch();

  const int64_t bound_;
  std::atomic<int64_t> worst_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> real_time_{false};
  std::thread thread_;
};

}  // namespace kiwarp::vm
