// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace kiwarp::vm {

// What a call came to when one of the kernel's allocations or copies failed in it.
struct Outcome {
  int error = 0;          // errno, or 0
  bool injected = false;  // the call came as far as the one that was to fail
};

// Makes the nth allocation or user copy of the calling thread fail: /proc/thread-self/fail-nth.
// Belongs to the thread that made it.
class Injector {
 public:
  Injector();
  ~Injector();
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  // The call returns errno or 0.
  Outcome run(unsigned nth, const std::function<int()>& call);

 private:
  void arm(unsigned nth);
  // What is left to count; 0 if the failure has been, in the call or in this question.
  unsigned disarm();

  int fd_;
};

// Sets, as long as it lives, which failures there are at all. Needs debugfs and the superuser.
class FaultSettings {
 public:
  // Each allocation, sleeping or not, of each order.
  FaultSettings();
  ~FaultSettings();
  FaultSettings(const FaultSettings&) = delete;
  FaultSettings& operator=(const FaultSettings&) = delete;

  // Of all tasks and interrupts, every interval-th allocation that the module makes or causes
  // fails, `times` times at most; but for those of rdma_ucm to report an event.
  void failModules(unsigned interval, unsigned times);
  // The number of failures that are left of those.
  unsigned left() const;
  void stop();
};

}  // namespace kiwarp::vm
