// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

namespace kiwarp {

// The alloc_context of the provider: opens the device's command channel for a process. Owns
// command_fd from here on. Null with errno set on failure.
verbs_context* allocContext(ibv_device* device, int command_fd, void* private_data);

}  // namespace kiwarp
