// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace kiwarp {

// libibverbs' context, and what the module said when it was opened.
struct Context : verbs_context {
  uint32_t caps;  // KIWARP_CAP_*

  static Context* of(ibv_context* context) { return static_cast<Context*>(verbs_get_ctx(context)); }
};

// The alloc_context of the provider: opens the device's command channel for a process. Owns
// command_fd from here on. Null with errno set on failure.
verbs_context* allocContext(ibv_device* device, int command_fd, void* private_data);

// The import_context: the same for a channel that another process, or this one, has opened.
verbs_context* importContext(ibv_device* device, int command_fd);

}  // namespace kiwarp
