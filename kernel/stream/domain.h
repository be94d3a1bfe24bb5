/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A domain: the streams of one process, or of a device's kernel consumers. */
#ifndef KW_STREAM_DOMAIN_H
#define KW_STREAM_DOMAIN_H

#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

/**
 * struct kw_domain - streams of one owner
 * @user: they are a process's
 * @srcu: each pass over one of them runs inside this: see struct kw_mem
 * @streams_wq: queue of the streams' work, other than kernel consumers' for
 *	processes
 * @lock: kw_stream.unused of each. With PREEMPT_RT, too, who holds it is not
 *	kept from running: all streams of the owner that start or end need it
 */
struct kw_domain {
	bool user;
	struct srcu_struct srcu;
	struct workqueue_struct *streams_wq;
	raw_spinlock_t lock;		/* kw_stream.unused */
};

int kw_domain_init(struct kw_domain *d, bool user);
void kw_domain_exit(struct kw_domain *d);

#endif /* KW_STREAM_DOMAIN_H */
