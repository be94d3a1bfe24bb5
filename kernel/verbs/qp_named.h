/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A queue pair that iw_cm gets by its number, and the driver a second time. */
#ifndef KW_VERBS_QP_NAMED_H
#define KW_VERBS_QP_NAMED_H

#include <linux/sched.h>

#include "verbs/verbs.h"

/**
 * kw_qp_name() - iw_cm gets a queue pair for a connection
 * @qp: queue pair
 *
 * Context: process; iw_cm's call for the consumer's.
 */
static inline void kw_qp_name(struct kw_qp *qp)
{
	WRITE_ONCE(qp->named_by, current);
}

/**
 * kw_qp_was_named() - did iw_cm get this queue pair, in this call?
 * @qp: queue pair
 *
 * iw_cm gets the queue pair and calls the driver in one thread. So this is
 * false, once for each time, where another thread's connection of the same
 * queue pair came in between: only one of the two can be made.
 *
 * Context: process; iw_cm's call.
 * Return: true if the task's last kw_qp_name() was of @qp, and is the last one.
 */
static inline bool kw_qp_was_named(struct kw_qp *qp)
{
	return cmpxchg(&qp->named_by, current, NULL) == current;
}

#endif
