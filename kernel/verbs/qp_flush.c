// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * A queue pair's completions, and flushing of work.
 */
#include "verbs/qp.h"

/* Completions in a row with interrupts off: some ten microseconds. */
#define KW_FLUSH_BATCH	64

/* Batches that a context does which may have softirqs off, or a lock. */
#define KW_FLUSH_BATCHES	16

/* The Terminate of the connection, for completions in error. */
static u32 kw_qp_vendor_err(const struct kw_qp *qp, u16 status)
{
	return status == IB_WC_SUCCESS ? 0 : qp->stream.reason;
}

static bool kw_status_solicits(u16 status)
{
	/* Completions in error raise solicited events too (ibv_req_notify_cq). */
	return status != IB_WC_SUCCESS;
}

/* A process's queue without a channel has none. */
static bool kw_cq_has_events(const struct kw_cq *cq)
{
	return !cq->user || cq->unread;
}

/*
 * A process's queue pair that is being destroyed posts no completions: its
 * provider discards them, and a completion queue that is shared with other
 * queue pairs could overflow. A kernel consumer may still poll its own.
 */
static bool kw_qp_is_destroyed(const struct kw_qp *qp)
{
	return qp->user && READ_ONCE(qp->freed);
}

static void kw_qp_post_sq(struct kw_qp *qp, const struct kw_sq_track *t,
			  u16 status)
{
	struct kiwarp_cqe cqe = {
		.wr_id = t->wr_id,
		.opcode = t->opcode,
		.status = status,
		.byte_len = t->len,
		.qp_id = qp->ib.qp_num,
		.wqe_index = qp->sq_done,
		.vendor_err = kw_qp_vendor_err(qp, status),
	};

	if (kw_qp_is_destroyed(qp))
		return;
	kw_cq_post(qp->scq, &qp->ib, &cqe);
	if (!kw_cq_has_events(qp->scq))
		return;
	if (kw_status_solicits(status))
		/* Pairs with the exchange in kw_qp_notify(). */
		smp_store_release(&qp->scq_solicited, true);
	/* Likewise. */
	smp_store_release(&qp->scq_dirty, true);
}

/**
 * kw_qp_complete_sq() - complete the oldest send WQE
 * @qp: queue pair
 * @t: its entry
 * @status: enum ib_wc_status
 *
 * Context: the queues' owner: see qp_stream.c.
 */
__hot void kw_qp_complete_sq(struct kw_qp *qp, const struct kw_sq_track *t,
			     u16 status)
{
	/* A kernel consumer may write to the slot again: it was read before. */
	smp_store_release(&qp->sq_done, qp->sq_done + 1);
	if ((t->flags & KIWARP_SQE_SIGNALED) || status != IB_WC_SUCCESS)
		kw_qp_post_sq(qp, t, status);
}

/**
 * kw_qp_complete_rq() - complete the oldest receive WQE, or that of the SRQ
 * @qp: queue pair
 * @wr_id: of its work request
 * @status: enum ib_wc_status
 * @len: bytes received
 * @flags: KIWARP_CQE_*
 * @inv_stag: with KIWARP_CQE_WITH_INV; with KIWARP_CQE_WITH_IMM the immediate,
 *	which has the same place
 *
 * Context: the queues' owner: see qp_stream.c.
 */
__hot void kw_qp_complete_rq(struct kw_qp *qp, u64 wr_id, u16 status, u32 len,
			     u8 flags, u32 inv_stag)
{
	struct kiwarp_cqe cqe = {
		.wr_id = wr_id,
		.opcode = KIWARP_OP_RECV,
		.flags = flags,
		.status = status,
		.byte_len = len,
		.qp_id = qp->ib.qp_num,
		.wqe_index = qp->rq_done + 1,
		.inv_stag = inv_stag,
		.vendor_err = kw_qp_vendor_err(qp, status),
	};

	/* As in kw_qp_complete_sq(). */
	smp_store_release(&qp->rq_done, qp->rq_done + 1);
	qp->srq_open = false;
	if (kw_qp_is_destroyed(qp))
		return;
	kw_cq_post(qp->rcq, &qp->ib, &cqe);
	if (!kw_cq_has_events(qp->rcq))
		return;
	if (kw_status_solicits(status) || (flags & KIWARP_CQE_SOLICITED))
		/* As in kw_qp_post_sq(). */
		smp_store_release(&qp->rcq_solicited, true);
	/* Likewise. */
	smp_store_release(&qp->rcq_dirty, true);
}

/* Most marks are not set. An exchange is a locked operation. */
static bool kw_take_mark(bool *mark)
{
	return READ_ONCE(*mark) && xchg(mark, false);
}

/**
 * kw_qp_notify() - raise the events for completions since the last time
 * @qp: queue pair
 *
 * Context: any; no lock of this queue pair held.
 */
__hot void kw_qp_notify(struct kw_qp *qp)
{
	bool send, recv, send_sol, recv_sol;

	/*
	 * A context that posted completions notifies for them. Two that do so
	 * at a time may both raise the event, which is harmless. But neither
	 * may clear a mark without acting on it.
	 */
	if (!READ_ONCE(qp->scq_dirty) && !READ_ONCE(qp->rcq_dirty))
		return;
	send = kw_take_mark(&qp->scq_dirty);
	recv = kw_take_mark(&qp->rcq_dirty);
	send_sol = send && kw_take_mark(&qp->scq_solicited);
	recv_sol = recv && kw_take_mark(&qp->rcq_solicited);

	if (qp->scq == qp->rcq) {
		if (send || recv)
			kw_cq_notify(qp->scq, send_sol || recv_sol);
		return;
	}
	if (send)
		kw_cq_notify(qp->scq, send_sol);
	if (recv)
		kw_cq_notify(qp->rcq, recv_sol);
}

/* What is left on a ring, at most its size: the producer index may be wrong. */
static u32 kw_ring_rest(const struct kw_ring *r, u32 next)
{
	/* Pairs with the poster's release: the entries are complete. */
	u32 rest = smp_load_acquire(&kw_ctrl(r)->producer) - next;

	return min(rest, kw_ring_entries(r));
}

/* What is framed is done. If TCP did not take all, it is not known what is. */
static u16 kw_flush_status(const struct kw_qp *qp, const struct kw_sq_track *t)
{
	if (!t->done)
		return IB_WC_WR_FLUSH_ERR;
	if (t->status == IB_WC_SUCCESS && kw_stream_has_unsent(&qp->stream))
		return IB_WC_WR_FLUSH_ERR;
	return t->status;
}

/* @rest counts ring entries not yet taken; each completion uses one of @budget. */
static void kw_flush_sq(struct kw_qp *qp, u32 *rest, u32 *budget)
{
	for (; *budget && qp->sq_done != qp->sq_next; --*budget) {
		struct kw_sq_track *t =
			&qp->sq_track[qp->sq_done & qp->sq.mask];

		/* Not while TCP may still send what is in its buffers. */
		if (t->zc_inflight && qp->connected) {
			*rest = 0;
			return;
		}
		kw_qp_complete_sq(qp, t, kw_flush_status(qp, t));
	}
	for (; *budget && *rest; --*budget, --*rest) {
		const struct kiwarp_sqe *sqe = kw_ring_at(&qp->sq, qp->sq_next);
		struct kw_sq_track t = {
			.wr_id = READ_ONCE(sqe->wr_id),
			.opcode = READ_ONCE(sqe->opcode),
		};

		qp->sq_next++;
		kw_qp_complete_sq(qp, &t, IB_WC_WR_FLUSH_ERR);
	}
	WRITE_ONCE(kw_ctrl(&qp->sq)->consumer, qp->sq_next);
}

static void kw_flush_rq(struct kw_qp *qp, u32 *rest, u32 *budget)
{
	for (; *budget && *rest; --*budget, --*rest) {
		const struct kiwarp_rqe *rqe = kw_ring_at(&qp->rq, qp->rq_done);

		kw_qp_complete_rq(qp, READ_ONCE(rqe->wr_id),
				  IB_WC_WR_FLUSH_ERR, 0, 0, 0);
	}
	qp->rq_next = qp->rq_done;
	WRITE_ONCE(kw_ctrl(&qp->rq)->consumer, qp->rq_next);
}

/*
 * What is posted to a shared receive queue stays there for others. The entry
 * that was taken completes; after that no other is taken for this queue pair.
 */
static void kw_flush_srq(struct kw_qp *qp)
{
	if (qp->srq_open)
		kw_qp_complete_rq(qp, qp->srq_wr_id, IB_WC_WR_FLUSH_ERR, 0, 0,
				  0);
	if (!qp->last_wqe)
		return;
	qp->last_wqe = false;
	kw_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

/**
 * struct kw_flush - what is left of a flush
 * @sq: entries of the send ring, at most
 * @rq: of the receive ring
 *
 * A wrong producer index makes it complete no more than the rings hold.
 */
struct kw_flush {
	u32 sq;
	u32 rq;
};

static struct kw_flush kw_flush_begin(const struct kw_qp *qp)
{
	return (struct kw_flush){
		.sq = kw_ring_entries(&qp->sq),
		.rq = kw_ring_entries(&qp->rq),
	};
}

/* Complete KW_FLUSH_BATCH entries. Returns whether there may be more. */
static bool kw_flush_batch(struct kw_qp *qp, struct kw_flush *f)
{
	u32 budget = KW_FLUSH_BATCH;
	unsigned long flags;
	bool flush;

	spin_lock_irqsave(&qp->lock, flags);
	flush = qp->state == KIWARP_QPS_ERROR && qp->idle && !qp->draining;
	if (flush) {
		/*
		 * Pairs with the fences of posters: kw_post_recv(), kw_qp_kick(),
		 * kw_qp_doorbell(), and the provider's. Either the poster sees
		 * the state that was set before this, or this sees its entries.
		 * A concurrent flush may have completed some of them.
		 */
		smp_mb();
		f->sq = min(f->sq, kw_ring_rest(&qp->sq, qp->sq_next));
		f->rq = min(f->rq, kw_ring_rest(&qp->rq, qp->rq_done));
		kw_flush_sq(qp, &f->sq, &budget);
		kw_flush_rq(qp, &f->rq, &budget);
		if (qp->srq)
			kw_flush_srq(qp);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return flush && !budget;
}

/**
 * kw_qp_flush_all() - complete all that is posted with IB_WC_WR_FLUSH_ERR
 * @qp: queue pair
 *
 * Does nothing unless the queue pair is in ERROR and no stream uses its queues,
 * nor before a stream that a kernel consumer has aborted is over, even if it had
 * failed before: see kw_end_delivered().
 * Work that has a result keeps it. Work whose buffers TCP still uses stays, and
 * what was posted after it: see kw_qp_op_wqe_zc_done().
 *
 * Interrupts are off for KW_FLUSH_BATCH completions at a time. What is posted
 * meanwhile is left to its poster.
 *
 * Context: process; takes qp->lock.
 */
void kw_qp_flush_all(struct kw_qp *qp)
{
	struct kw_flush f = kw_flush_begin(qp);

	while (kw_flush_batch(qp, &f))
		cond_resched();
}

/**
 * kw_qp_flush_work() - flush what kw_qp_flush() has left
 * @work: kw_qp.flush_work
 *
 * Context: process; drops a reference.
 */
void kw_qp_flush_work(struct work_struct *work)
{
	struct kw_qp *qp = container_of(work, struct kw_qp, flush_work);

	kw_qp_flush_all(qp);
	kw_qp_notify(qp);
	kw_qp_put(qp);
}

/**
 * kw_qp_flush() - kw_qp_flush_all(), which a work item continues
 * @qp: queue pair
 *
 * Context: any; takes qp->lock.
 */
void kw_qp_flush(struct kw_qp *qp)
{
	struct kw_flush f = kw_flush_begin(qp);
	u32 batches = KW_FLUSH_BATCHES;

	while (kw_flush_batch(qp, &f)) {
		if (--batches)
			continue;
		kw_qp_get(qp);
		if (!kw_stream_run(&qp->stream, &qp->flush_work))
			kw_qp_put(qp);
		return;
	}
}
