// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// A device whose file is /dev/null, for tests of what libibverbs does with a provider's structures.
#pragma once

#include <fcntl.h>
#include <rdma/kiwarp-abi.h>

#include "pabi/functions.h"

namespace kiwarp::test {

inline int nullDevice() { return open("/dev/null", O_RDWR | O_CLOEXEC); }

inline verbs_context* newContext(ibv_device* device, int fd) {
  return static_cast<verbs_context*>(
      _verbs_init_and_alloc_context(device, fd, sizeof(verbs_context), nullptr, KIWARP_DRIVER_ID));
}

}  // namespace kiwarp::test
