// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <functional>
#include <string>

namespace kiwarp::vm {

// Facts, each a case that may throw Failure.
class Tap {
 public:
  void run(const std::string& name, const std::function<void()>& test);
  // Prints the plan; the exit code.
  int finish() const;

 private:
  unsigned number_ = 0, failed_ = 0;
};

void eventCases(const std::string& device, Tap* tap);

}  // namespace kiwarp::vm
