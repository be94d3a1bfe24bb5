// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// rdma-core 65: ten more verbs, for completion counters.
#pragma once

#define KIWARP_PABI_NUMBER 65
#define KIWARP_PABI_FIRST 65
#define KIWARP_PABI_LAST 65
#define verbs_register_driver verbs_register_driver_65

#include "pabi/structures.h"

namespace kiwarp::pabi {

static_assert(kOpCount == 93);
static_assert(sizeof(verbs_context) == 656 + kMutexSize);
static_assert(sizeof(Qp) == 336 + kMutexSize);

}  // namespace kiwarp::pabi
