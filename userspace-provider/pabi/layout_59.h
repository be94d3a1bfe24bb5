// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// rdma-core 59 to 61: three more verbs, for DMA handles.
#pragma once

#define KIWARP_PABI_NUMBER 59
#define KIWARP_PABI_FIRST 59
#define KIWARP_PABI_LAST 61
#define verbs_register_driver verbs_register_driver_59

#include "pabi/structures.h"

namespace kiwarp::pabi {

static_assert(kOpCount == 79);
static_assert(sizeof(verbs_context) == 632 + kMutexSize);
static_assert(sizeof(Qp) == 336 + kMutexSize);

}  // namespace kiwarp::pabi
