// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Asynchronous events of queue pairs.
 */
#include <linux/bitops.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "compat.h"
#include "verbs/qp.h"

/**
 * kw_qp_init_events() - find where the RDMA core counts a process's events
 * @qp: queue pair of a process, being created
 *
 * Context: process.
 * Return: 0, or -EOPNOTSUPP if kw_compat_qp_events() does not know the kernel.
 */
int kw_qp_init_events(struct kw_qp *qp)
{
	qp->uevents = kw_compat_qp_events(qp->ib.uobject);
	if (qp->uevents)
		return 0;
	ibdev_warn_ratelimited(qp->ib.device,
			       "this kernel does not let events of queue pairs be bounded\n");
	return -EOPNOTSUPP;
}

static enum kw_qp_event_kind kw_qp_event_kind(enum ib_event_type type)
{
	switch (type) {
	case IB_EVENT_QP_REQ_ERR:
		return KW_QP_EVENT_REQ_ERR;
	case IB_EVENT_QP_ACCESS_ERR:
		return KW_QP_EVENT_ACCESS_ERR;
	case IB_EVENT_QP_LAST_WQE_REACHED:
		return KW_QP_EVENT_LAST_WQE;
	default:
		return KW_QP_EVENT_FATAL;
	}
}

/*
 * ib_uverbs allocates each event, charged to no user, and a process may connect
 * again and again without reading any. So none is raised while one of its kind
 * waits to be read. They are read in order: the last one of a kind was read if
 * as many were as had been raised with it. The RDMA core may have had no memory
 * for one, and counts fewer than were raised; that is over once none waits.
 *
 * Otherwise notes that the event is raised now.
 */
static bool kw_qp_event_unread(struct kw_qp *qp, enum ib_event_type type)
{
	enum kw_qp_event_kind kind = kw_qp_event_kind(type);
	const struct kw_compat_uqp *u = qp->uevents;
	u32 read;

	if (!u)
		return false;
	/* One that is read meanwhile counts as waiting still. */
	read = READ_ONCE(u->async_reported);
	if (list_empty(&u->async_events))
		qp->raised[KW_QP_EVENT_ALL] = read;
	else if ((s32)(qp->raised[kind] - read) > 0)
		return true;
	qp->raised[kind] = ++qp->raised[KW_QP_EVENT_ALL];
	return false;
}

/**
 * kw_qp_event_work() - call the handler for the events that are set
 * @work: kw_qp.event_work, which has a reference
 *
 * A kernel consumer's handler may take a lock that is held around a post, and
 * the RDMA core never calls it from a post (the kernel's
 * Documentation/infiniband/core_locking.rst).
 *
 * Context: softirq.
 */
void kw_qp_event_work(struct work_struct *work)
{
	struct kw_qp *qp = container_of(work, struct kw_qp, event_work);
	unsigned long events = xchg(&qp->events, 0);
	struct ib_event ev = {
		.device = qp->ib.device,
		.element.qp = &qp->ib,
	};
	unsigned int type;

	for_each_set_bit(type, &events, BITS_PER_LONG) {
		if (kw_qp_event_unread(qp, type))
			continue;
		ev.event = type;
		qp->ib.event_handler(&ev, qp->ib.qp_context);
	}
	kw_qp_put(qp);
}

/**
 * kw_qp_event() - raise an asynchronous event
 * @qp: queue pair
 * @type: event
 *
 * The handler is called in softirq, and before destroy_qp returns. For a process
 * it is not called while an event of the same kind waits to be read.
 *
 * Context: any, under any lock.
 */
void kw_qp_event(struct kw_qp *qp, enum ib_event_type type)
{
	if (!qp->ib.event_handler)
		return;
	set_bit(type, &qp->events);
	/* The work item takes all events that are set before it runs. */
	smp_mb__after_atomic();
	kw_qp_get(qp);
	if (!queue_work(system_bh_wq, &qp->event_work))
		kw_qp_put(qp);
}
