/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Differences between kernel versions that only these tests use. For the rest
 * see kernel/compat.h.
 */
#ifndef KT_VERSIONS_H
#define KT_VERSIONS_H

#include <linux/hrtimer.h>
#include <linux/timer.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>

/* 6.13 sets a timer and its function up in one call. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void
hrtimer_setup_on_stack(struct hrtimer *timer,
		       enum hrtimer_restart (*function)(struct hrtimer *),
		       clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init_on_stack(timer, clock_id, mode);
	timer->function = function;
}
#endif

/* Since 6.16 that is its name. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 16, 0)
#define timer_destroy_on_stack destroy_timer_on_stack
#endif

/* Until 7.1 kernel consumers can ask for a resize, too. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define KT_RESIZE_CQ
/* From then on the core itself refuses a queue of no entries, and warns. */
#define KT_EMPTY_CQ
#endif

/* Since 6.15 binding a counter names the port. */
static inline int kt_counter_bind(struct rdma_counter *counter, struct ib_qp *qp)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
	return qp->device->ops.counter_bind_qp(counter, qp);
#else
	return qp->device->ops.counter_bind_qp(counter, qp, qp->port);
#endif
}

static inline int kt_counter_unbind(struct ib_qp *qp)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
	return qp->device->ops.counter_unbind_qp(qp);
#else
	return qp->device->ops.counter_unbind_qp(qp, qp->port);
#endif
}

/* Since 6.13 a namespace's name is a string. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define KT_IMPORT_NS_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define KT_IMPORT_NS_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif

#endif /* KT_VERSIONS_H */
