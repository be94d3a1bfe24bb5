// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Step queues: the steps of some endpoints, one after the other.
 *
 * A step may wait for memory of its endpoint's user. Endpoints of different
 * users therefore never share a queue.
 */
#include <linux/rbtree.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>

#include "cm/cm.h"

/* The queues of active endpoints, and the lock of the tree. */
static struct rb_root kw_active_queues = RB_ROOT;
static DEFINE_SPINLOCK(kw_active_lock);

/* With kw_active_lock, which this unlocks. */
static void kw_steps_free(struct kref *ref)
	__releases(&kw_active_lock)
{
	struct kw_step_queue *steps = container_of(ref, struct kw_step_queue,
						   ref);

	if (!RB_EMPTY_NODE(&steps->node))
		rb_erase(&steps->node, &kw_active_queues);
	spin_unlock(&kw_active_lock);
	kw_charge_drop(&steps->charge);
	kfree(steps);
}

/**
 * kw_steps_put() - drop a reference
 * @steps: the queue
 *
 * Context: process for the last one, otherwise any.
 */
void kw_steps_put(struct kw_step_queue *steps)
{
	kref_put_lock(&steps->ref, kw_steps_free, &kw_active_lock);
}

static void kw_steps_work(struct work_struct *work)
{
	struct kw_step_queue *steps = container_of(work, struct kw_step_queue,
						   work);
	struct llist_node *first;
	struct kw_ep *ep, *next;

	first = llist_reverse_order(llist_del_all(&steps->ready));
	llist_for_each_entry_safe(ep, next, first, next) {
		/* @next was read before another CPU may add the entry again. */
		clear_bit_unlock(KW_EP_QUEUED, &ep->flags);
		/* What comes from now on is seen by this step, or by another. */
		smp_mb__after_atomic();
		kw_ep_step(ep);
		kw_ep_put(ep);
		cond_resched();
	}
	kw_steps_put(steps);
}

/**
 * kw_steps_create() - make a step queue
 *
 * Context: process.
 * Return: the queue with one reference, or NULL without memory.
 */
struct kw_step_queue *kw_steps_create(void)
{
	struct kw_step_queue *steps;

	steps = kzalloc(sizeof(*steps), GFP_KERNEL_ACCOUNT);
	if (!steps)
		return NULL;
	kref_init(&steps->ref);
	init_llist_head(&steps->ready);
	INIT_WORK(&steps->work, kw_steps_work);
	RB_CLEAR_NODE(&steps->node);
	return steps;
}

/**
 * kw_steps_add() - queue an endpoint's next step
 * @steps: the queue; the caller holds a reference in some way
 * @ep: the endpoint; likewise
 *
 * Context: any.
 */
void kw_steps_add(struct kw_step_queue *steps, struct kw_ep *ep)
{
	if (test_and_set_bit(KW_EP_QUEUED, &ep->flags))
		return;
	kw_ep_get(ep);
	llist_add(&ep->next, &steps->ready);
	/* A step that is under way may end the endpoint, and with it the queue. */
	kref_get(&steps->ref);
	if (!queue_work(kw_cm_wq, &steps->work))
		kw_steps_put(steps);
}

static int kw_steps_cmp(struct rb_node *a, const struct rb_node *b)
{
	const struct kw_step_queue *x = rb_entry(a, struct kw_step_queue, node);
	const struct kw_step_queue *y = rb_entry(b, struct kw_step_queue, node);
	uid_t x_uid = __kuid_val(x->charge.uid), y_uid = __kuid_val(y->charge.uid);

	if (x_uid != y_uid)
		return x_uid < y_uid ? -1 : 1;
	if (x->charge.memcg != y->charge.memcg)
		return x->charge.memcg < y->charge.memcg ? -1 : 1;
	return kw_addr_cmp(&x->peer, &y->peer);
}

/**
 * kw_steps_choose() - find the step queue of an active endpoint
 * @ep: the endpoint; its peer and kw_start.charge are set
 *
 * Endpoints of one user and memory cgroup to one port share one.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 with kw_start.steps referenced, or -ENOMEM.
 */
int kw_steps_choose(struct kw_ep *ep)
{
	struct kw_step_queue *steps = kw_steps_create();
	struct kw_start *st = ep->start;
	struct rb_node *found;

	if (!steps)
		return -ENOMEM;
	kw_charge_copy(&steps->charge, &st->charge);
	steps->peer = st->peer;

	spin_lock(&kw_active_lock);
	found = rb_find_add(&steps->node, &kw_active_queues, kw_steps_cmp);
	if (found) {
		RB_CLEAR_NODE(&steps->node);
		st->steps = rb_entry(found, struct kw_step_queue, node);
		kref_get(&st->steps->ref);
	} else {
		st->steps = steps;
	}
	spin_unlock(&kw_active_lock);
	if (found)
		kw_steps_put(steps);
	return 0;
}

/**
 * kw_steps_exit() - check that no queue is left
 *
 * Context: process, when the last endpoint is gone and @kw_cm_wq has ended.
 */
void kw_steps_exit(void)
{
	WARN_ON(!RB_EMPTY_ROOT(&kw_active_queues));
}
