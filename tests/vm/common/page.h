// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <unistd.h>

#include <cstddef>

namespace kiwarp::vm {

// The kernel's unit of memory: 4 KiB on x86, and 4, 16 or 64 KiB on arm64.
inline const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

}  // namespace kiwarp::vm
