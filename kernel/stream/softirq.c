// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "stream/softirq.h"

DEFINE_PER_CPU(struct kw_softirq, kw_softirq);
