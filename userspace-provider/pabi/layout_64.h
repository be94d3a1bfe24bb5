// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// rdma-core 64: two more verbs, for buffers that the provider allocates.
#pragma once

#define KIWARP_PABI_NUMBER 64
#define KIWARP_PABI_FIRST 64
#define KIWARP_PABI_LAST 64
#define verbs_register_driver verbs_register_driver_64

#include "pabi/structures.h"

namespace kiwarp::pabi {

static_assert(kOpCount == 83);
static_assert(sizeof(verbs_context) == 656 + kMutexSize);
static_assert(sizeof(Qp) == 336 + kMutexSize);

}  // namespace kiwarp::pabi
