// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// rdma-core 44: ibv_qp_ex, and with it Qp, has one more verb, ibv_wr_atomic_write().
#pragma once

#define KIWARP_PABI_NUMBER 34
#define KIWARP_PABI_FIRST 44
#define KIWARP_PABI_LAST 44
#define verbs_register_driver verbs_register_driver_34

#include "pabi/structures.h"

namespace kiwarp::pabi {

static_assert(kOpCount == 76);
static_assert(sizeof(verbs_context) == 608 + kMutexSize);
static_assert(sizeof(Qp) == 328 + kMutexSize);

}  // namespace kiwarp::pabi
