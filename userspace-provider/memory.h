// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Memory regions and windows: the kernel does all of the work. To bind a window is a work request:
// bindMw() is in qp.h.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "pabi/layout.h"

namespace kiwarp {

// Pointers are null with errno set on failure; numbers are 0 or a positive errno.
ibv_mr* regMr(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access);
ibv_mr* regDmabufMr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
int reregMr(pabi::Mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access);
int deregMr(pabi::Mr* mr);
ibv_mw* allocMw(ibv_pd* pd, ibv_mw_type type);
int deallocMw(ibv_mw* mw);

// Those that were made through the same channel, in another context. What is only unimported
// stays.
ibv_mr* importMr(ibv_pd* pd, uint32_t handle);
void unimportMr(ibv_mr* mr);

}  // namespace kiwarp
