// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// rdma-core 57 and 58: ibv_cmd_get_context() takes file descriptors, too.
#pragma once

#define KIWARP_PABI_NUMBER 57
#define KIWARP_PABI_FIRST 57
#define KIWARP_PABI_LAST 58
#define verbs_register_driver verbs_register_driver_57

#include "pabi/structures.h"

namespace kiwarp::pabi {

static_assert(kOpCount == 76);
static_assert(sizeof(verbs_context) == 608 + kMutexSize);
static_assert(sizeof(Qp) == 336 + kMutexSize);

}  // namespace kiwarp::pabi
