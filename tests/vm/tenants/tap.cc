// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <cstdio>

#include "common/error.h"
#include "tenants/cases.h"

namespace kiwarp::vm {

void Tap::run(const std::string& name, const std::function<void()>& test) {
  ++number_;
  try {
    test();
    std::printf("ok %u - %s\n", number_, name.c_str());
  } catch (const Failure& failure) {
    ++failed_;
    std::printf("not ok %u - %s (%s)\n", number_, name.c_str(), failure.what());
  }
  std::fflush(stdout);
}

int Tap::finish() const {
  std::printf("1..%u\n", number_);
  return failed_ == 0 ? 0 : 1;
}

}  // namespace kiwarp::vm
