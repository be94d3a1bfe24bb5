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

Context openDevice(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  Context context;
  for (int i = 0; list != nullptr && i < count; ++i) {
    if (name == ibv_get_device_name(list[i])) context.reset(ibv_open_device(list[i]));
  }
  ibv_free_device_list(list);
  if (!context) fail("%s cannot be opened", name.c_str());
  return context;
}

int Tap::finish() const {
  std::printf("1..%u\n", number_);
  return failed_ == 0 ? 0 : 1;
}

}  // namespace kiwarp::vm
