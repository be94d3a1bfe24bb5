// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <algorithm>
#include <chrono>

namespace kiwarp::vm {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A point in time that nested waits share, so that their sum stays bounded.
class Deadline {
 public:
  explicit Deadline(milliseconds from_now) : end_(Clock::now() + from_now) {}

  bool passed() const { return Clock::now() >= end_; }

  // For poll(2): never negative, because -1 would mean forever.
  int pollTimeout() const {
    auto left = std::chrono::ceil<milliseconds>(end_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, 3'600'000));
  }

 private:
  Clock::time_point end_;
};

}  // namespace kiwarp::vm
