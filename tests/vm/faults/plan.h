// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "common/clock.h"
#include "faults/injector.h"

namespace kiwarp::vm {

constexpr seconds kTimeLimit{60};

// A call of which each allocation and copy fails in turn.
struct FaultCase {
  std::string name;
  // What the call needs, made anew for each try. May throw.
  std::function<void()> prepare = [] {};
  // The call: errno, or 0. The failure happens in it and nowhere else.
  std::function<int()> call;
  // What has to come of it if it returned 0, with no failure any more: errno, or 0.
  std::function<int()> then = [] { return 0; };
  // Releases what the call and prepare made, whatever became of the call. May throw.
  std::function<void()> undo = [] {};
  // What it may return besides ENOMEM and EFAULT.
  std::set<int> also = {};
};

struct FaultOptions {
  std::string device = "da", netdev = "va", address;
  // The file that makes dma-bufs: kiwarp_ktest's.
  std::string exporter;
  // From here on not every nth is tried, but one of sixteen and then fewer: a few calls make
  // thousands of allocations, in the RDMA core.
  uint64_t dense = 150;
  std::string only;
};

// Runs cases and prints TAP, a fact for each.
class FaultPlan {
 public:
  explicit FaultPlan(FaultOptions options);

  void run(const FaultCase& test);
  void fact(bool good, const std::string& what);
  bool wanted(const std::string& name) const;
  // From one try to the next: see FaultOptions.dense.
  unsigned step(unsigned nth) const { return nth < options_.dense ? 1 : std::max(1U, nth / 16); }
  int finish() const;
  FaultSettings& settings() { return settings_; }
  const FaultOptions& options() const { return options_; }

 private:
  std::string attemptAll(const FaultCase& test, unsigned* injected, unsigned* refused);

  FaultOptions options_;
  FaultSettings settings_;
  Injector injector_;
  unsigned facts_ = 0, failures_ = 0;
};

void verbCases(FaultPlan* plan);
void connectionCases(FaultPlan* plan);
void adminCases(FaultPlan* plan);
void workerCases(FaultPlan* plan);

}  // namespace kiwarp::vm
