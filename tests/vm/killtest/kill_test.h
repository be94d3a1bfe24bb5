// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace kiwarp::vm {

// Who listens has an address in `server`, who connects has one in `client`.
struct KillTestSettings {
  std::string server, client;
  uint64_t port = 18700, qps = 4, seconds = 0, dereg = 0;
  bool loop = false;
};

// The exit code when the device went; 0 is that every work request came back.
constexpr int kKillTestDeviceWent = 5;

// Mixed traffic without end, until something ends it. What it says goes to stdout, line by line.
int runKillTest(const KillTestSettings& settings);

}  // namespace kiwarp::vm
