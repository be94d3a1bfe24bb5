// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kiwarp::vm {

// What "rdma resource show -dd" asks the kernel for. Not by the command: of devices' own values it
// reads none behind the padding that 64 bits have on some kernels, User-Mode Linux among them.
struct Resource {
  uint32_t pid = 0, lqpn = 0, cqe = 0;
  std::map<std::string, std::string> details;  // the device's own
};

enum class ResourceKind { kQp, kCq, kSrq };

// This process's on the device.
std::vector<Resource> ownResources(const std::string& device, ResourceKind kind);

}  // namespace kiwarp::vm
