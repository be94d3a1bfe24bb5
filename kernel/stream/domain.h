/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A domain: the streams of one process, or of a device's kernel consumers. They
 * share the SRCU domain of their passes, and the wait at their ends.
 */
#ifndef KW_STREAM_DOMAIN_H
#define KW_STREAM_DOMAIN_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

/**
 * struct kw_domain - streams whose ends wait for each other's users
 * @user: they are a process's
 * @srcu: each pass over one of them runs inside this: see struct kw_mem
 * @wq: queue of @work
 * @streams_wq: queue of the streams' work, other than kernel consumers' for
 *	processes
 * @lock: @ending, and kw_stream.unused of each
 * @ending: streams that end when nothing uses their sockets any more
 * @work: waits for that
 *
 * A process that is kept from running can keep @srcu, and so @work, waiting. No
 * other work waits for it: one work item for all streams of the domain, and
 * processes' are on a queue that has no other.
 */
struct kw_domain {
	bool user;
	struct srcu_struct srcu;
	struct workqueue_struct *wq;
	struct workqueue_struct *streams_wq;
	spinlock_t lock;		/* ending, kw_stream.unused */
	struct list_head ending;
	struct delayed_work work;
};

int kw_domain_init(struct kw_domain *d, bool user);
void kw_domain_exit(struct kw_domain *d);

#endif /* KW_STREAM_DOMAIN_H */
