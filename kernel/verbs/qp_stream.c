// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The queue pair's stream: its start, and its struct kw_stream_ops. Rings that
 * user space can write to are read here, once, into private memory, and
 * validated.
 *
 * While a stream runs (kw_qp.idle is false) the queues belong to it, under the
 * socket lock. kw_qp.lock is for the state, and for the queues when idle.
 */
#include <linux/slab.h>

#include "stream/ops.h"
#include "verbs/cq.h"
#include "verbs/qp.h"

static struct kw_qp *kw_stream_qp(struct kw_stream *s)
{
	return container_of(s, struct kw_qp, stream);
}

static u16 kw_wqe_sum(struct kw_wqe *w)
{
	u64 len = 0;
	u32 i;

	for (i = 0; i < w->num_sge; i++)
		len += w->sge[i].length;
	if (len > KW_MAX_MSG_SIZE)
		return IB_WC_LOC_LEN_ERR;
	w->len = len;
	return IB_WC_SUCCESS;
}

static u16 kw_wqe_read_sges(struct kw_qp *qp, const struct kiwarp_sqe *shared,
			    const struct kiwarp_sqe *sqe, struct kw_wqe *w)
{
	u32 room = qp->sq.stride - sizeof(*sqe);

	if (sqe->flags & KIWARP_SQE_INLINE) {
		if (sqe->inline_len > min_t(u32, room, sizeof(w->inl)))
			return IB_WC_LOC_LEN_ERR;
		kw_read_shared(w->inl, shared + 1, sqe->inline_len);
		w->len = sqe->inline_len;
		return IB_WC_SUCCESS;
	}
	if (sqe->num_sge > qp->cap.max_send_sge)
		return IB_WC_LOC_QP_OP_ERR;
	w->num_sge = sqe->num_sge;
	kw_read_sges(w->sge, shared + 1, w->num_sge);
	return kw_wqe_sum(w);
}

/* Operations that any consumer may post, with any payload. */
static bool kw_op_is_plain(u8 opcode)
{
	return opcode == KIWARP_OP_SEND || opcode == KIWARP_OP_SEND_INV ||
	       opcode == KIWARP_OP_WRITE;
}

/* Is the operation one that this consumer may post, with such a payload? */
static u16 kw_wqe_check_op(struct kw_qp *qp, const struct kw_wqe *w)
{
	const struct kw_stream_settings *set = &qp->stream.p.set;

	switch (w->opcode) {
	case KIWARP_OP_WRITE_IMM:
		return set->immediate ? IB_WC_SUCCESS : IB_WC_LOC_QP_OP_ERR;
	case KIWARP_OP_SEND_IMM:
		/* RFC 7306 has no message with payload and an immediate. */
		return set->immediate && !w->len ? IB_WC_SUCCESS :
						   IB_WC_LOC_QP_OP_ERR;
	case KIWARP_OP_MASKED_FETCH_ADD:
	case KIWARP_OP_MASKED_CMP_SWAP:
		/* The entries of user space have no room for masks. */
		if (qp->user)
			return IB_WC_LOC_QP_OP_ERR;
		fallthrough;
	case KIWARP_OP_FETCH_ADD:
	case KIWARP_OP_CMP_SWAP:
		if (!set->atomics || w->num_sge != 1)
			return IB_WC_LOC_QP_OP_ERR;
		return w->len == sizeof(u64) ? IB_WC_SUCCESS : IB_WC_LOC_LEN_ERR;
	case KIWARP_OP_READ:
		/* The wire's Read Request names one sink STag. */
		if (w->num_sge > 1 || (w->flags & KIWARP_SQE_INLINE))
			return IB_WC_LOC_QP_OP_ERR;
		return IB_WC_SUCCESS;
	case KIWARP_OP_LOCAL_INV:
		return IB_WC_SUCCESS;
	case KIWARP_OP_BIND_MW:
		/* Its arguments are where these would be. */
		if (w->num_sge || w->len || !qp->user)
			return IB_WC_LOC_QP_OP_ERR;
		return IB_WC_SUCCESS;
	case KIWARP_OP_READ_INV:
		if (w->num_sge > 1)
			return IB_WC_LOC_QP_OP_ERR;
		fallthrough;
	case KIWARP_OP_REG_MR:
		return qp->user ? IB_WC_LOC_QP_OP_ERR : IB_WC_SUCCESS;
	default:
		return IB_WC_LOC_QP_OP_ERR;
	}
}

/* It has one SGE: kw_wqe_check_op(). */
static void kw_wqe_read_masks(const struct kiwarp_sqe *shared, struct kw_wqe *w)
{
	struct kw_atomic_masks masks;

	kw_read_shared(&masks, kw_sqe_masks(shared), sizeof(masks));
	w->compare_add_mask = masks.compare_add;
	w->swap_mask = masks.swap;
}

static void kw_wqe_read(struct kw_qp *qp, struct kw_wqe *w)
{
	const struct kiwarp_sqe *shared = kw_ring_at(&qp->sq, qp->sq_next);
	struct kiwarp_sqe sqe;

	kw_read_shared(&sqe, shared, sizeof(sqe));
	w->wr_id = sqe.wr_id;
	w->index = qp->sq_next;
	w->opcode = sqe.opcode;
	w->flags = sqe.flags;
	w->raddr = sqe.remote_addr;
	w->rkey = sqe.rkey;
	w->inv_stag = sqe.inv_stag;
	w->num_sge = 0;
	w->len = 0;
	if (qp->sq_sig_all)
		w->flags |= KIWARP_SQE_SIGNALED;
	w->status = kw_wqe_read_sges(qp, shared, &sqe, w);
	if (kw_op_is_plain(w->opcode))
		return;
	w->compare_add = sqe.atomic.compare_add;
	w->swap = sqe.atomic.swap;
	if (w->status == IB_WC_SUCCESS)
		w->status = kw_wqe_check_op(qp, w);
	if (w->status == IB_WC_SUCCESS && kw_op_is_masked(w->opcode))
		kw_wqe_read_masks(shared, w);
	if (w->opcode == KIWARP_OP_BIND_MW)
		w->bind = (struct kw_bind){
			.len = sqe.bind.length,
			.access = sqe.bind.access,
			.lkey = sqe.bind.lkey,
		};
}

/* Entries to be taken off the send ring; any number if the index is not valid. */
static u32 kw_qp_avail(struct kw_qp *qp)
{
	u32 end;

	if (qp->closing)
		return qp->sq_end - qp->sq_next;
	/* Pairs with the poster's release: the entries are complete. */
	end = smp_load_acquire(&kw_ctrl(&qp->sq)->producer);
	/* What is posted in ERROR is flushed, though the stream runs. */
	if (READ_ONCE(qp->state) == KIWARP_QPS_ERROR)
		return 0;
	return end - qp->sq_next;
}

static bool kw_qp_op_wqes_left(struct kw_stream *s)
{
	return kw_qp_avail(kw_stream_qp(s));
}

static __hot bool kw_qp_op_next_wqe(struct kw_stream *s, struct kw_wqe *w)
{
	struct kw_qp *qp = kw_stream_qp(s);
	u32 entries = kw_ring_entries(&qp->sq);
	u32 avail = kw_qp_avail(qp);

	if (!avail)
		return false;

	kw_wqe_read(qp, w);
	/* More entries than the ring has: the producer index is not valid. */
	if (avail > entries)
		w->status = IB_WC_LOC_QP_OP_ERR;
	if (qp->sq_next - qp->sq_done >= entries) {
		w->status = IB_WC_LOC_QP_OP_ERR;
		return true;
	}
	qp->sq_track[qp->sq_next & qp->sq.mask] = (struct kw_sq_track){
		.wr_id = w->wr_id,
		.len = w->len,
		.opcode = w->opcode,
		.flags = w->flags,
	};
	qp->sq_next++;
	WRITE_ONCE(kw_ctrl(&qp->sq)->consumer, qp->sq_next);
	return true;
}

/* It completes when all before it have: kw_stream_retire(). */
static __hot void kw_qp_op_wqe_done(struct kw_stream *s, u32 index, u16 status)
{
	struct kw_qp *qp = kw_stream_qp(s);
	struct kw_sq_track *t = &qp->sq_track[index & qp->sq.mask];

	t->done = true;
	t->status = status;
}

static __hot bool kw_qp_op_retire(struct kw_stream *s, u32 most)
{
	struct kw_qp *qp = kw_stream_qp(s);
	struct kw_sq_track *t;

	/* kw_qp_flush() completes a failed stream's work, under another lock. */
	if (qp->idle)
		return false;
	while (qp->sq_done != qp->sq_next) {
		t = &qp->sq_track[qp->sq_done & qp->sq.mask];
		if (!t->done)
			break;
		if (!most--)
			return true;
		kw_qp_complete_sq(qp, t, t->status);
	}
	return false;
}

static void kw_qp_op_wqe_zc_start(struct kw_stream *s, u32 index)
{
	struct kw_qp *qp = kw_stream_qp(s);

	qp->sq_track[index & qp->sq.mask].zc_inflight = true;
}

static void kw_qp_op_wqe_zc_done(struct kw_stream *s, u32 index, bool good)
{
	struct kw_qp *qp = kw_stream_qp(s);
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->sq_track[index & qp->sq.mask].zc_inflight = false;
	spin_unlock_irqrestore(&qp->lock, flags);
	kw_qp_flush(qp);
	if (good) {
		kw_qp_op_wqe_done(s, index, IB_WC_SUCCESS);
		kw_stream_retire(s);
	}
}

static int kw_qp_op_local_op(struct kw_stream *s, const struct kw_wqe *w)
{
	struct kw_qp *qp = kw_stream_qp(s);
	struct kw_pd *pd = to_kw_pd(qp->ib.pd);
	int ret;

	switch (w->opcode) {
	case KIWARP_OP_LOCAL_INV:
		ret = kw_mem_invalidate(qp->dev, s->pd, s, w->inv_stag, false);
		break;
	case KIWARP_OP_BIND_MW:
		ret = kw_mw_bind(qp->dev, pd, s, &qp->windows, w);
		return ret ? IB_WC_MW_BIND_ERR : IB_WC_SUCCESS;
	default:
		ret = kw_mr_register((struct ib_mr *)(uintptr_t)w->raddr, pd,
				     w->rkey, w->inv_stag);
	}
	return ret ? IB_WC_LOC_PROT_ERR : IB_WC_SUCCESS;
}

static __hot int kw_qp_op_next_recv(struct kw_stream *s, struct kw_recv *r)
{
	struct kw_qp *qp = kw_stream_qp(s);
	u32 avail;

	r->sge = qp->recv_sge;
	if (qp->srq)
		return kw_srq_take(qp, r);
	/* Likewise. */
	avail = smp_load_acquire(&kw_ctrl(&qp->rq)->producer) - qp->rq_next;
	if (!avail)
		return 0;
	if (avail > kw_ring_entries(&qp->rq) ||
	    kw_recv_read(&qp->rq, qp->rq_next, qp->cap.max_recv_sge, r))
		return -EINVAL;
	qp->rq_next++;
	WRITE_ONCE(kw_ctrl(&qp->rq)->consumer, qp->rq_next);
	return 1;
}

static __hot void kw_qp_op_recv_done(struct kw_stream *s,
				     const struct kw_recv *r, u16 status,
				     u32 len, bool solicited, bool invalidated,
				     u32 inv_stag)
{
	kw_qp_complete_rq(kw_stream_qp(s), r->wr_id, status, len,
			  (solicited ? KIWARP_CQE_SOLICITED : 0) |
			  (invalidated ? KIWARP_CQE_WITH_INV : 0),
			  invalidated ? inv_stag : 0);
}

static void kw_qp_op_recv_imm(struct kw_stream *s, const struct kw_recv *r,
			      u32 len, bool solicited, __be32 imm)
{
	kw_qp_complete_rq(kw_stream_qp(s), r->wr_id, IB_WC_SUCCESS, len,
			  KIWARP_CQE_WITH_IMM |
			  (solicited ? KIWARP_CQE_SOLICITED : 0),
			  (__force u32)imm);
}

static __hot struct kw_mem *kw_qp_op_mem(struct kw_stream *s, u32 stag)
{
	struct kw_qp *qp = kw_stream_qp(s);
	struct kw_pd *pd = to_kw_pd(qp->ib.pd);
	struct kw_mem *local;

	/* Pairs with kw_get_dma_mr(). */
	local = smp_load_acquire(&pd->local);
	if (local && local->stag == stag)
		return local;
	return kw_mem_lookup(qp->dev, s->pd, stag);
}

static int kw_qp_op_invalidate(struct kw_stream *s, u32 stag, bool remote)
{
	return kw_mem_invalidate(kw_stream_qp(s)->dev, s->pd, s, stag, remote);
}

static __hot void kw_qp_op_notify(struct kw_stream *s)
{
	kw_qp_notify(kw_stream_qp(s));
}

static int kw_qp_op_started(struct kw_stream *s)
{
	struct kw_qp *qp = kw_stream_qp(s);
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state == KIWARP_QPS_INIT && !kw_cq_is_dead(qp->scq) &&
	    !kw_cq_is_dead(qp->rcq)) {
		qp->connected = true;
		qp->idle = false;
		qp->closing = false;
		qp->last_wqe = true;
		kw_qp_set_state(qp, KIWARP_QPS_RTS);
	} else {
		ret = -EINVAL;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}

/*
 * What is posted by now is sent. What is posted later, or was posted in ERROR,
 * is flushed when the stream has ended (RFC 5041 section 6.2.1).
 */
static void kw_qp_op_closing(struct kw_stream *s)
{
	struct kw_qp *qp = kw_stream_qp(s);
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->sq_end = qp->sq_next;
	if (qp->state == KIWARP_QPS_RTS) {
		kw_qp_set_state(qp, KIWARP_QPS_CLOSING);
		/* Pairs with the poster's release: the entries are complete. */
		qp->sq_end = smp_load_acquire(&kw_ctrl(&qp->sq)->producer);
	}
	qp->closing = true;
	spin_unlock_irqrestore(&qp->lock, flags);
}

/* Log the peer's reason: the event says only that the connection is lost. */
static void kw_qp_log_terminate(const struct kw_qp *qp)
{
	u32 reason = qp->stream.reason;

	if (reason & KIWARP_TERM_RECEIVED)
		ibdev_info_ratelimited(&qp->dev->ib,
				       "QP %u: the peer ended the connection: %s (%04x)\n",
				       qp->ib.qp_num, kw_term_str(reason),
				       reason & 0xffff);
	else if (reason & KIWARP_TERM_SENT)
		ibdev_dbg_ratelimited(&qp->dev->ib,
				      "QP %u: connection ended: %s (%04x)\n",
				      qp->ib.qp_num, kw_term_str(reason),
				      reason & 0xffff);
}

static void kw_qp_op_failed(struct kw_stream *s, enum kw_fail why)
{
	static const enum ib_event_type events[] = {
		[KW_FAIL_LOCAL] = IB_EVENT_QP_FATAL,
		[KW_FAIL_REMOTE_ACCESS] = IB_EVENT_QP_ACCESS_ERR,
		[KW_FAIL_REMOTE_REQUEST] = IB_EVENT_QP_REQ_ERR,
		[KW_FAIL_FATAL] = IB_EVENT_QP_FATAL,
	};
	struct kw_qp *qp = kw_stream_qp(s);
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	kw_qp_set_state(qp, KIWARP_QPS_ERROR);
	qp->idle = true;
	spin_unlock_irqrestore(&qp->lock, flags);
	kw_qp_flush(qp);
	kw_qp_log_terminate(qp);
	/* A local fault is reported by the completion in error. */
	if (why != KW_FAIL_CLOSED && why != KW_FAIL_LOCAL)
		kw_qp_event(qp, events[why]);
}

static int kw_qp_op_linger(struct kw_stream *s, struct socket *sock,
			   unsigned long limit)
{
	struct kw_qp *qp = kw_stream_qp(s);
	kuid_t owner = GLOBAL_ROOT_UID;
	int ret;

	if (s->domain != &qp->dev->domain)
		owner = container_of(s->domain, struct kw_ucontext,
				     domain)->owner;
	ret = kw_linger_start(&qp->dev->lingers, qp->linger, sock,
			      owner, limit);
	if (!ret)
		qp->linger = NULL;
	return ret;
}

static void kw_qp_op_ended(struct kw_stream *s)
{
	struct kw_qp *qp = kw_stream_qp(s);
	struct kw_cm_link cm = qp->cm;
	int status = s->status;
	unsigned long flags;

	/* The next connection is another stream: RFC 5041 section 8.2. */
	kw_mw_unbind_all(to_kw_pd(qp->ib.pd), &qp->windows);
	/* From here on another connection can be made. */
	kfree(qp->linger);
	qp->linger = NULL;
	spin_lock_irqsave(&qp->lock, flags);
	qp->connected = false;
	qp->draining = false;
	/* What is queued from here on is the next connection's. */
	cancel_delayed_work(&s->end_work);
	kw_qp_set_state(qp, KIWARP_QPS_ERROR);
	qp->idle = true;
	spin_unlock_irqrestore(&qp->lock, flags);
	kw_qp_flush_all(qp);
	kw_qp_notify(qp);
	cm.closed(cm.ctx, status);
	kw_qp_put(qp);
}

const struct kw_stream_ops kw_qp_stream_ops = {
	.next_wqe = kw_qp_op_next_wqe,
	.wqes_left = kw_qp_op_wqes_left,
	.wqe_done = kw_qp_op_wqe_done,
	.wqe_zc_start = kw_qp_op_wqe_zc_start,
	.wqe_zc_done = kw_qp_op_wqe_zc_done,
	.retire = kw_qp_op_retire,
	.local_op = kw_qp_op_local_op,
	.next_recv = kw_qp_op_next_recv,
	.recv_done = kw_qp_op_recv_done,
	.recv_imm = kw_qp_op_recv_imm,
	.mem = kw_qp_op_mem,
	.invalidate = kw_qp_op_invalidate,
	.notify = kw_qp_op_notify,
	.started = kw_qp_op_started,
	.closing = kw_qp_op_closing,
	.failed = kw_qp_op_failed,
	.linger = kw_qp_op_linger,
	.ended = kw_qp_op_ended,
};

/* One attempt at a time may prepare the stream. */
static bool kw_qp_claim_stream(struct kw_qp *qp)
{
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&qp->lock, flags);
	ok = qp->state == KIWARP_QPS_INIT && !qp->connecting && !qp->connected;
	if (ok)
		qp->connecting = true;
	spin_unlock_irqrestore(&qp->lock, flags);
	return ok;
}

/* Under the lock: the next claim is ordered behind what this one has stored. */
static void kw_qp_end_claim(struct kw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->connecting = false;
	spin_unlock_irqrestore(&qp->lock, flags);
}

/**
 * kw_qp_connect() - from INIT to RTS, over a socket in FPDU mode
 * @qp: queue pair
 * @sock: connected socket; passes to the stream if this returns 0
 * @params: what MPA start-up negotiated
 * @link: called once, when the stream is over, if this returns 0
 *
 * Context: process.
 * Return: 0, -EINVAL (not in INIT, or a dead CQ), -ENOMEM.
 */
int kw_qp_connect(struct kw_qp *qp, struct socket *sock,
		  const struct kw_stream_params *params,
		  const struct kw_cm_link *link)
{
	struct kw_stream_params p = *params;
	struct kw_settings set;
	int ret;

	if (!kw_qp_claim_stream(qp))
		return -EINVAL;
	kw_settings_get(qp->dev, &set);
	p.set = set.stream;
	qp->linger = kzalloc(sizeof(*qp->linger), GFP_KERNEL_ACCOUNT);
	if (!qp->linger) {
		kw_qp_end_claim(qp);
		return -ENOMEM;
	}
	kw_qp_get(qp);
	qp->cm = *link;
	qp->max_ord = params->ord;
	qp->max_ird = params->ird;
	qp->stream.ibdev = qp->ib.device;
	qp->stream.qpn = qp->ib.qp_num;
	qp->stream.pd = qp->ib.pd;
	ret = kw_stream_start(&qp->stream, sock, &p);
	if (ret) {
		kfree(qp->linger);
		qp->linger = NULL;
	}
	kw_qp_end_claim(qp);
	if (ret)
		kw_qp_put(qp);
	return ret;
}
