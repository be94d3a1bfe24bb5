// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Batching what completion handlers post.
 *
 * The RDMA core polls up to 16 completions and then calls their handlers. A
 * storage target answers each of them. Sent one by one, each answer costs a
 * pass through TCP at both ends and an acknowledgment. So posts of the task
 * that handles completions wait until it polls again or arms the queue: then
 * all of them go out in one pass.
 *
 * Only queues of ib_alloc_cq() take part, which the core always polls again or
 * arms. A handler that waits for an answer to what it has posted does neither,
 * so a work item transmits what has waited for KW_BATCH_WAIT.
 */
#include "verbs/qp.h"

/* Long messages do not wait: they fill a pass by themselves. */
#define KW_BATCH_LEN	(64 * 1024)

/* In jiffies. Rounded up by the timer, so never less than one. */
#define KW_BATCH_WAIT	2

/* The context of this call: a task, or the softirq that interrupted it. */
static unsigned long kw_batch_context(void)
{
	return (unsigned long)current + (in_serving_softirq() ? 1 : 0);
}

static bool kw_batch_handles(const struct kw_cq *cq)
{
	return READ_ONCE(cq->handler) == kw_batch_context();
}

/**
 * kw_batch_add() - let a doorbell wait for those of the next completions
 * @qp: queue pair of a kernel consumer, to which work requests were posted
 * @len: their bytes
 *
 * Context: any.
 * Return: false if the caller has to transmit now.
 */
__hot bool kw_batch_add(struct kw_qp *qp, u64 len)
{
	struct kw_cq *cq = qp->rcq;

	if (!kw_batch_handles(cq)) {
		cq = qp->scq;
		if (!kw_batch_handles(cq))
			return false;
	}
	/* An interrupt may post as well: the sum is a hint. */
	len += READ_ONCE(qp->batch_len);
	if (len > KW_BATCH_LEN) {
		WRITE_ONCE(qp->batch_len, 0);
		return false;
	}
	WRITE_ONCE(qp->batch_len, len);
	kw_count(qp->dev, KW_CNT_TX_BATCHED);
	if (test_and_set_bit(0, &qp->batched))
		return true;
	kw_qp_get(qp);
	llist_add(&qp->batch_node, &cq->batch);
	if (!delayed_work_pending(&cq->batch_work))
		kw_streams_queue(&cq->batch_work, KW_BATCH_WAIT);
	return true;
}

static __hot void kw_batch_flush(struct kw_cq *cq)
{
	struct llist_node *list = llist_del_all(&cq->batch);
	struct kw_qp *qp, *next;

	llist_for_each_entry_safe(qp, next, list, batch_node) {
		WRITE_ONCE(qp->batch_len, 0);
		/* @next was read before another CPU may add the entry again. */
		clear_bit_unlock(0, &qp->batched);
		/* What is posted before the bit is clear is read below. */
		smp_mb__after_atomic();
		kw_qp_doorbell(qp);
		kw_qp_put(qp);
	}
}

/**
 * kw_batch_begin() - the calling task has polled and handles completions now
 * @cq: completion queue of a kernel consumer
 *
 * Context: any.
 */
__hot void kw_batch_begin(struct kw_cq *cq)
{
	if (cq->ib.wc && cq->ib.poll_ctx != IB_POLL_DIRECT)
		WRITE_ONCE(cq->handler, kw_batch_context());
}

/**
 * kw_batch_end() - completions are handled: transmit what was posted
 * @cq: completion queue of a kernel consumer
 *
 * Context: any.
 */
__hot void kw_batch_end(struct kw_cq *cq)
{
	if (!READ_ONCE(cq->handler))
		return;
	WRITE_ONCE(cq->handler, 0);
	if (!llist_empty(&cq->batch))
		kw_batch_flush(cq);
}

/**
 * kw_batch_work() - transmit for a handler that does not return
 * @work: kw_cq.batch_work
 *
 * Context: process.
 */
void kw_batch_work(struct work_struct *work)
{
	kw_batch_flush(container_of(to_delayed_work(work), struct kw_cq,
				    batch_work));
}
