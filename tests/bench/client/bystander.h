// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <atomic>
#include <future>
#include <utility>
#include <vector>

#include "common/control.h"

namespace kiwarp::bench {

// What others on this machine notice of a run: how late a timer of a millisecond is, and how long a
// short message takes there and back over a TCP connection of its own, one in each millisecond.

// The end that answers the messages, until the other one closes the connection.
class BystanderEcho {
 public:
  explicit BystanderEcho(vm::Control control);
  ~BystanderEcho();
  BystanderEcho(const BystanderEcho&) = delete;
  BystanderEcho& operator=(const BystanderEcho&) = delete;

 private:
  void serve();

  vm::Control control_;
  std::atomic<bool> stop_{false};
  std::future<void> served_;
};

class Bystander {
 public:
  explicit Bystander(vm::Control control) : control_(std::move(control)) {}
  ~Bystander();
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  void begin();
  // Ends both and prints their medians, 99th and 99.9th percentiles and maxima in microseconds. Of
  // a thousand samples and fewer the latter two are the same. Throws Failure if one of them failed,
  // or has no sample.
  void endAndPrint();

 private:
  using Samples = std::vector<double>;  // microseconds
  Samples runTimer() const;
  Samples runPings();

  vm::Control control_;
  std::atomic<bool> stop_{false};
  std::future<Samples> timer_, pings_;
};

}  // namespace kiwarp::bench
