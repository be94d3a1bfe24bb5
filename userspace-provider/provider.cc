// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The provider's interface to libibverbs.
#include <rdma/kiwarp-abi.h>

#include <new>

#include "context.h"
#include "pabi/functions.h"
#include "pabi/guard.h"

namespace kiwarp {
namespace {

const pabi::MatchEntry kMatchTable[] = {
    {.provider_data = nullptr,
     .key = {.driver_id = KIWARP_DRIVER_ID},
     .pci_vendor = 0,
     .pci_device = 0,
     .kind = pabi::kMatchDriverId},
    // Where netlink is out of reach, sysfs gives no driver id. libibverbs makes this string of the
    // device's name; see matchDevice() for the rest.
    {.provider_data = nullptr,
     .key = {.modalias = "rdma_device:*Nkiwarp*"},
     .pci_vendor = 0,
     .pci_device = 0,
     .kind = pabi::kMatchModalias},
    {.provider_data = nullptr,
     .key = {.driver_id = 0},
     .pci_vendor = 0,
     .pci_device = 0,
     .kind = pabi::kMatchEnd},
};

// Administrators name devices freely: the name counts only while the driver is unknown.
bool matchDevice(pabi::SysfsDevice* sysfs) {
  if (sysfs->driver_id != 0) return sysfs->driver_id == KIWARP_DRIVER_ID;
  return sysfs->match != nullptr && sysfs->node_type == IBV_NODE_RNIC;
}

pabi::Device* allocDevice(pabi::SysfsDevice* /*sysfs*/) {
  return new (std::nothrow) pabi::Device{};
}

void uninitDevice(pabi::Device* device) { delete device; }

const pabi::DeviceOps kDeviceOps = {
    .name = "kiwarp",
    .abi_version_min = KIWARP_ABI_VERSION,
    .abi_version_max = KIWARP_ABI_VERSION,
    .match_table = kMatchTable,
    .static_providers = nullptr,
    .match_device = matchDevice,
    .alloc_context = allocContext,
    .import_context = importContext,
    .alloc_device = allocDevice,
    .uninit_device = uninitDevice,
};

__attribute__((constructor)) void registerProvider() {
  if (pabi::libraryIsKnown()) verbs_register_driver(&kDeviceOps);
}

}  // namespace
}  // namespace kiwarp
