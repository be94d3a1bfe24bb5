// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Step queues: the steps of some endpoints, one after the other.
 */
#include <linux/cache.h>
#include <linux/random.h>
#include <linux/uidgid.h>

#include "cm/cm.h"

/* Users that connect to different ports usually have different queues. */
#define KW_ACTIVE_QUEUES	64

static struct kw_step_queue kw_active_queues[KW_ACTIVE_QUEUES];
static siphash_key_t kw_active_key __read_mostly;

static void kw_steps_work(struct work_struct *work)
{
	struct kw_step_queue *steps = container_of(work, struct kw_step_queue,
						   work);
	struct kw_listener *l = steps->listener;
	struct llist_node *first;
	struct kw_ep *ep, *next;

	first = llist_reverse_order(llist_del_all(&steps->ready));
	llist_for_each_entry_safe(ep, next, first, next) {
		clear_bit(KW_EP_QUEUED, &ep->flags);
		/* What comes from now on is seen by this step, or by another. */
		smp_mb__after_atomic();
		kw_ep_step(ep);
		kw_ep_put(ep);
		cond_resched();
	}
	if (l)
		kw_listener_put(l);
}

/**
 * kw_steps_init() - prepare a step queue
 * @steps: the queue
 * @l: the listener that it is part of, or NULL
 *
 * Context: any.
 */
void kw_steps_init(struct kw_step_queue *steps, struct kw_listener *l)
{
	init_llist_head(&steps->ready);
	INIT_WORK(&steps->work, kw_steps_work);
	steps->listener = l;
}

/**
 * kw_steps_add() - queue an endpoint's next step
 * @steps: the queue; the caller keeps its listener
 * @ep: the endpoint; the caller holds a reference in some way
 *
 * Context: any.
 */
void kw_steps_add(struct kw_step_queue *steps, struct kw_ep *ep)
{
	if (test_and_set_bit(KW_EP_QUEUED, &ep->flags))
		return;
	kw_ep_get(ep);
	llist_add(&ep->next, &steps->ready);
	if (steps->listener)
		kw_listener_get(steps->listener);
	if (!queue_work(kw_cm_wq, &steps->work) && steps->listener)
		kw_listener_put(steps->listener);
}

/**
 * kw_steps_choose() - find the step queue of an active endpoint
 * @ep: the endpoint; its peer and kw_start.charge are set
 *
 * Context: process, kw_ep.lock held.
 */
void kw_steps_choose(struct kw_ep *ep)
{
	struct kw_start *st = ep->start;
	u64 hash = kw_addr_hash(&st->peer, &kw_active_key);

	hash = siphash_2u64(hash, __kuid_val(st->charge.uid), &kw_active_key);
	st->steps = &kw_active_queues[hash % KW_ACTIVE_QUEUES];
}

/**
 * kw_steps_init_active() - prepare the queues of active endpoints
 *
 * Context: process.
 */
void kw_steps_init_active(void)
{
	int i;

	get_random_bytes(&kw_active_key, sizeof(kw_active_key));
	for (i = 0; i < KW_ACTIVE_QUEUES; i++)
		kw_steps_init(&kw_active_queues[i], NULL);
}
