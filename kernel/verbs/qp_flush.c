// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * A queue pair's completions, and flushing what will never be done.
 */
#include "verbs/qp.h"

/* Which Terminate it was, so that a consumer in trouble has more to go by. */
static u32 kw_qp_vendor_err(const struct kw_qp *qp, u16 status)
{
	return status == IB_WC_SUCCESS ? 0 : qp->stream.reason;
}

static bool kw_status_solicits(u16 status)
{
	/* Completions in error raise solicited events too (ibv_req_notify_cq). */
	return status != IB_WC_SUCCESS;
}

/**
 * kw_qp_complete_sq() - complete the oldest send WQE
 * @qp: queue pair
 * @t: what is known of it
 * @status: enum ib_wc_status
 *
 * Context: the queues' owner: see qp_stream.c.
 */
void kw_qp_complete_sq(struct kw_qp *qp, const struct kw_sq_track *t,
		       u16 status)
{
	struct kiwarp_cqe cqe = {
		.wr_id = t->wr_id,
		.opcode = t->opcode,
		.status = status,
		.byte_len = t->len,
		.qp_id = qp->ib.qp_num,
		.wqe_index = qp->sq_done + 1,
		.vendor_err = kw_qp_vendor_err(qp, status),
	};

	qp->sq_done++;
	if (!(t->flags & KIWARP_SQE_SIGNALED) && status == IB_WC_SUCCESS)
		return;
	kw_cq_post(qp->scq, &qp->ib, &cqe);
	if (kw_status_solicits(status))
		qp->scq_solicited = true;
	/* Pairs with the exchange in kw_qp_notify(). */
	smp_store_release(&qp->scq_dirty, true);
}

/**
 * kw_qp_complete_rq() - complete the oldest receive WQE
 * @qp: queue pair
 * @wr_id: of its work request
 * @status: enum ib_wc_status
 * @len: bytes received
 * @flags: KIWARP_CQE_*
 * @inv_stag: with KIWARP_CQE_WITH_INV
 *
 * Context: the queues' owner: see qp_stream.c.
 */
void kw_qp_complete_rq(struct kw_qp *qp, u64 wr_id, u16 status, u32 len,
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

	qp->rq_done++;
	kw_cq_post(qp->rcq, &qp->ib, &cqe);
	if (kw_status_solicits(status) || (flags & KIWARP_CQE_SOLICITED))
		qp->rcq_solicited = true;
	/* Likewise. */
	smp_store_release(&qp->rcq_dirty, true);
}

/**
 * kw_qp_notify() - raise the events for completions since the last time
 * @qp: queue pair
 *
 * Context: any; no lock of this queue pair held.
 */
void kw_qp_notify(struct kw_qp *qp)
{
	bool send, recv, send_sol, recv_sol;

	/*
	 * Who posted completions notifies for them; two who do so at a time
	 * may both raise the event, which is harmless, but neither may clear
	 * a mark that it does not then act on.
	 */
	if (!READ_ONCE(qp->scq_dirty) && !READ_ONCE(qp->rcq_dirty))
		return;
	send = xchg(&qp->scq_dirty, false);
	recv = xchg(&qp->rcq_dirty, false);
	send_sol = send && xchg(&qp->scq_solicited, false);
	recv_sol = recv && xchg(&qp->rcq_solicited, false);

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

/* What is left on a ring; a producer that lies gets no more than the ring. */
static u32 kw_ring_rest(const struct kw_ring *r, u32 next)
{
	/* Pairs with the poster's release: the entries are complete. */
	u32 rest = smp_load_acquire(&kw_ctrl(r)->producer) - next;

	return min(rest, kw_ring_entries(r));
}

static void kw_flush_sq(struct kw_qp *qp)
{
	u32 rest;

	while (qp->sq_done != qp->sq_next) {
		struct kw_sq_track *t =
			&qp->sq_track[qp->sq_done & qp->sq.mask];

		/* Not while TCP may still send what is in its buffers. */
		if (t->zc_inflight && qp->connected)
			return;
		kw_qp_complete_sq(qp, t, t->done ? t->status :
				  IB_WC_WR_FLUSH_ERR);
	}
	rest = kw_ring_rest(&qp->sq, qp->sq_next);
	while (rest--) {
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

static void kw_flush_rq(struct kw_qp *qp)
{
	u32 rest = kw_ring_rest(&qp->rq, qp->rq_done);

	while (rest--) {
		const struct kiwarp_rqe *rqe = kw_ring_at(&qp->rq, qp->rq_done);

		kw_qp_complete_rq(qp, READ_ONCE(rqe->wr_id),
				  IB_WC_WR_FLUSH_ERR, 0, 0, 0);
	}
	qp->rq_next = qp->rq_done;
	WRITE_ONCE(kw_ctrl(&qp->rq)->consumer, qp->rq_next);
}

/**
 * kw_qp_flush() - complete all that is posted with IB_WC_WR_FLUSH_ERR
 * @qp: queue pair in ERROR, with no stream that works on its queues
 *
 * Work that had a result of its own keeps it. Work whose buffers are in use by
 * TCP stays, and what was posted after it: see kw_qp_op_wqe_zc_done().
 *
 * Context: qp->lock held.
 */
void kw_qp_flush(struct kw_qp *qp)
{
	/*
	 * Pairs with the fence in post_recv: either the poster sees the
	 * state that was set before this, or this sees its entries.
	 */
	smp_mb();
	kw_flush_sq(qp);
	kw_flush_rq(qp);
}
