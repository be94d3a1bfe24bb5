// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Another number of entries for a completion queue of a process.
 *
 * Entries keep their index, so that user space, which polls the old ring until
 * the call returns, goes on in the new one where it was. Most of what waits is
 * copied without locks. The last of it, and the change from one ring to the
 * other, are done under those of producers and events.
 */
#include <linux/log2.h>
#include <rdma/uverbs_ioctl.h>

#include "compat.h"
#include "verbs/cq.h"
#include "verbs/ops.h"

/* How many entries may be copied with interrupts off. */
#define KW_RESIZE_LOCKED	64U

/* Each copies what came during the last: there is far less each time. */
#define KW_RESIZE_ROUNDS	64

static void kw_cq_copy(const struct kw_cq *cq, const struct kw_ring *to,
		       u32 first, u32 end)
{
	const struct kw_ring *from = &cq->ring;
	u32 i;

	for (i = first; i != end; i++) {
		memcpy(kw_ring_at(to, i), kw_ring_at(from, i), from->stride);
		if (cq->stamped)
			*kw_cq_stamp_at(to, i) = *kw_cq_stamp_at(from, i);
	}
}

static void kw_cq_copy_unlocked(const struct kw_cq *cq,
				const struct kw_ring *to, u32 first, u32 end)
{
	while (first != end) {
		u32 next = first + min(end - first, KW_RESIZE_LOCKED);

		kw_cq_copy(cq, to, first, next);
		first = next;
		cond_resched();
	}
}

/*
 * With the locks. A process can write any index to its ring: one that cannot be
 * right is refused.
 */
static bool kw_cq_fits(struct kw_cq *cq, const struct kw_ring *to, u32 *consumer)
{
	u32 waiting;

	*consumer = READ_ONCE(kw_cq_ctrl(cq)->consumer);
	waiting = cq->producer - *consumer;
	return waiting <= cq->ring.mask + 1 && waiting <= to->mask + 1;
}

/* With the locks, when all entries are in both rings. */
static void kw_cq_change_ring(struct kw_cq *cq, const struct kw_ring *to,
			      u32 consumer)
{
	struct kiwarp_cq_ctrl *ctrl = to->mem;

	ctrl->producer = cq->producer;
	ctrl->consumer = consumer;
	ctrl->armed = xchg(&kw_cq_ctrl(cq)->armed, 0);
	cq->consumer = consumer;
	cq->ring.mask = to->mask;
	cq->ring.entries = to->entries;
	/* Pairs with kw_cq_ctrl(). */
	smp_store_release(&cq->ring.mem, to->mem);
}

/*
 * Copy what is left from @copied on, and change rings, if that is little.
 * Returns -EAGAIN if it is not: then what is before @end is to be copied first.
 */
static int kw_cq_try_move(struct kw_cq *cq, const struct kw_ring *to,
			  bool first, u32 *copied, u32 *end, bool *waiting)
{
	u32 consumer;
	int ret = -EINVAL;

	spin_lock_irq(&cq->event_lock);
	spin_lock(&cq->lock);
	*end = cq->producer;
	if (!kw_cq_fits(cq, to, &consumer))
		goto unlock;
	if (first || *end - *copied > *end - consumer)
		*copied = consumer;
	ret = -EAGAIN;
	if (*end - *copied > KW_RESIZE_LOCKED)
		goto unlock;
	kw_cq_copy(cq, to, *copied, *end);
	kw_cq_change_ring(cq, to, consumer);
	*waiting = *end != consumer;
	ret = 0;
unlock:
	spin_unlock(&cq->lock);
	spin_unlock_irq(&cq->event_lock);
	return ret;
}

static int kw_cq_move(struct kw_cq *cq, const struct kw_ring *to)
{
	u32 copied = 0, end;
	bool waiting;
	int i, ret;

	for (i = 0; i < KW_RESIZE_ROUNDS; i++) {
		ret = kw_cq_try_move(cq, to, !i, &copied, &end, &waiting);
		if (ret != -EAGAIN)
			break;
		kw_cq_copy_unlocked(cq, to, copied, end);
		copied = end;
	}
	/*
	 * A producer may have found the old ring no longer armed. The event may
	 * be one too many, for entries that were there before it was armed.
	 */
	if (!ret && waiting)
		kw_cq_notify(cq, true);
	return ret == -EAGAIN ? -EBUSY : ret;
}

/**
 * kw_resize_cq() - change the number of entries
 * @ibcq: completion queue of a process
 * @cqe: entries needed
 * @udata: the call
 *
 * Context: process.
 * Return: 0; -EINVAL for a number out of range or less than what waits to be
 * polled, or a short response. -EOPNOTSUPP for a kernel consumer, -EBUSY if
 * completions come faster than they can be copied; -ENOMEM, -EFAULT. After an
 * error the queue is unchanged.
 */
int kw_resize_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata)
{
	struct kw_ucontext *uctx =
		rdma_udata_to_drv_context(udata, struct kw_ucontext, ib);
	struct kw_cq *cq = to_kw_cq(ibcq);
	struct kw_queue_mem mem;
	struct kw_ring ring;
	u32 entries;
	int ret;

	if (!uctx)
		return -EOPNOTSUPP;
	if (!cqe || cqe > KIWARP_MAX_CQE)
		return -EINVAL;
	entries = roundup_pow_of_two(cqe);
	ret = kw_queue_mem_alloc(&mem,
				 kw_cq_mem_size(cq, entries, cq->ring.stride),
				 &uctx->ib);
	if (ret)
		return ret;
	ring = kw_ring_in(&mem, 0, entries, cq->ring.stride);
	/* First what can fail. */
	ret = kw_cq_respond(cq, &mem, entries, udata);
	if (!ret) {
		mutex_lock(&cq->resize_lock);
		ret = kw_cq_move(cq, &ring);
		if (!ret) {
			swap(cq->queue_mem, mem);
			ibcq->cqe = entries;
		}
		mutex_unlock(&cq->resize_lock);
	}
	/* Notifiers may still read whether the old ring is armed. */
	if (!ret)
		synchronize_rcu();
	kw_queue_mem_free(&mem);
	return ret;
}
