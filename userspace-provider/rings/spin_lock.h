// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sched.h>

#include <atomic>
#include <ctime>

#include "rings/nap.h"

namespace kiwarp {

// A lock for sections of some tens of instructions. Spins, then yields the CPU: the holder may be
// preempted. Then sleeps: the holder may be resizing a ring, or be an application between
// ibv_start_poll() and ibv_end_poll(). Yielding does not help a holder of a lower priority.
class SpinLock {
 public:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) wait();
  }

  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 256;
  static constexpr int kYields = 1024;
  static constexpr timespec kNap = {.tv_sec = 0, .tv_nsec = 50'000};

  void wait() const {
    for (int spin = 0; locked_.load(std::memory_order_relaxed); ++spin) {
      if (spin < kSpins) {
        pause();
      } else if (spin < kSpins + kYields) {
        sched_yield();
      } else {
        nap(kNap);
      }
    }
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
  }

  std::atomic<bool> locked_{false};
};

// A SpinLock that an object may do without if its user promises to use one thread at a time.
class OptionalLock {
 public:
  // Before the first use.
  void disable() { disabled_ = true; }

  void lock() {
    if (!disabled_) lock_.lock();
  }

  void unlock() {
    if (!disabled_) lock_.unlock();
  }

 private:
  SpinLock lock_;
  bool disabled_ = false;
};

}  // namespace kiwarp
