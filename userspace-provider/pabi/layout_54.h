// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// rdma-core 54 to 56: ibv_cmd_reg_dmabuf_mr() takes data of the driver, too.
#pragma once

#define KIWARP_PABI_NUMBER 34
#define KIWARP_PABI_FIRST 54
#define KIWARP_PABI_LAST 56
#define verbs_register_driver verbs_register_driver_34

#include "pabi/structures.h"

namespace kiwarp::pabi {

static_assert(kOpCount == 76);
static_assert(sizeof(verbs_context) == 608 + kMutexSize);
static_assert(sizeof(Qp) == 336 + kMutexSize);

}  // namespace kiwarp::pabi
