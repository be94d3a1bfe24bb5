// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// rdma-core 62 and 63: two more verbs under the private ABI number of 59 to 61.
#pragma once

#define KIWARP_PABI_NUMBER 59
#define KIWARP_PABI_FIRST 62
#define KIWARP_PABI_LAST 63
#define verbs_register_driver verbs_register_driver_59

#include "pabi/structures.h"

namespace kiwarp::pabi {

static_assert(kOpCount == 81);
static_assert(sizeof(verbs_context) == 640 + kMutexSize);
static_assert(sizeof(Qp) == 336 + kMutexSize);

}  // namespace kiwarp::pabi
