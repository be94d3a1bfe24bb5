// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Posting work: user space's doorbells, and kernel consumers' work requests.
 */
#include "trace.h"
#include "verbs/qp.h"

/*
 * Start transmission, if there is a stream that reads the queues. What was
 * posted is visible before kw_qp.state is read again: kw_stream_get() orders
 * that. Pairs with the barrier in kw_flush_batch().
 */
static void kw_qp_kick(struct kw_qp *qp)
{
	struct kw_stream *s = &qp->stream;
	u8 state;

	if (!kw_stream_get(s))
		return;
	state = kw_stream_state(s);
	if (state == KW_STREAM_OPEN || state == KW_STREAM_CLOSING)
		kw_stream_kick(s, qp->user ? KW_KICK_SLEEP : KW_KICK_ATOMIC);
	kw_stream_put(s);
}

static void kw_qp_flush_posted(struct kw_qp *qp)
{
	/* Doorbells come from processes, which do it all in their own time. */
	if (qp->user)
		kw_qp_flush_all(qp);
	else
		kw_qp_flush(qp);
	kw_qp_notify(qp);
}

/**
 * kw_qp_doorbell() - work on what is in the send ring
 * @qp: queue pair
 *
 * Context: user space's: process. Kernel consumers': any.
 * Return: 0, -EINVAL (state).
 */
__hot int kw_qp_doorbell(struct kw_qp *qp)
{
	trace_kw_doorbell(qp, READ_ONCE(kw_ctrl(&qp->sq)->producer));
	switch (READ_ONCE(qp->state)) {
	case KIWARP_QPS_RESET:
	case KIWARP_QPS_INIT:
		return -EINVAL;
	case KIWARP_QPS_ERROR:
		kw_qp_flush_posted(qp);
		return 0;
	default:
		kw_qp_kick(qp);
		/*
		 * It may have gone to ERROR since, and been flushed before. Pairs
		 * with the barrier in kw_flush_batch().
		 */
		if (READ_ONCE(qp->state) == KIWARP_QPS_ERROR)
			kw_qp_flush_posted(qp);
		return 0;
	}
}

static int kw_send_opcode(const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_SEND:
		return KIWARP_OP_SEND;
	case IB_WR_SEND_WITH_INV:
		return KIWARP_OP_SEND_INV;
	case IB_WR_RDMA_WRITE:
		return KIWARP_OP_WRITE;
	case IB_WR_RDMA_READ:
		return KIWARP_OP_READ;
	case IB_WR_RDMA_READ_WITH_INV:
		return KIWARP_OP_READ_INV;
	case IB_WR_LOCAL_INV:
		return KIWARP_OP_LOCAL_INV;
	case IB_WR_REG_MR:
		return KIWARP_OP_REG_MR;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return KIWARP_OP_WRITE_IMM;
	case IB_WR_SEND_WITH_IMM:
		return KIWARP_OP_SEND_IMM;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return KIWARP_OP_FETCH_ADD;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return KIWARP_OP_CMP_SWAP;
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		return KIWARP_OP_MASKED_FETCH_ADD;
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
		return KIWARP_OP_MASKED_CMP_SWAP;
	default:
		return -EINVAL;
	}
}

static int kw_fill_sges(struct kiwarp_sge *dst, const struct ib_sge *src,
			int n)
{
	int i;

	for (i = 0; i < n; i++)
		dst[i] = (struct kiwarp_sge){
			.addr = src[i].addr,
			.length = src[i].length,
			.lkey = src[i].lkey,
		};
	return n;
}

/* Kernel consumers' inline bytes are at kernel addresses. */
static int kw_fill_inline(struct kiwarp_sqe *sqe, const struct ib_send_wr *wr,
			  u32 room)
{
	u8 *dst = (u8 *)(sqe + 1);
	int i;

	sqe->inline_len = 0;
	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *g = &wr->sg_list[i];

		if (g->length > room - sqe->inline_len)
			return -EINVAL;
		memcpy(dst + sqe->inline_len, (void *)(uintptr_t)g->addr,
		       g->length);
		sqe->inline_len += g->length;
	}
	return 0;
}

/* The response to a Read is placed in one SGE. */
static bool kw_read_fits(const struct ib_send_wr *wr)
{
	return wr->num_sge <= 1 && !(wr->send_flags & IB_SEND_INLINE);
}

static bool kw_is_atomic(int op)
{
	return op == KIWARP_OP_FETCH_ADD || op == KIWARP_OP_CMP_SWAP ||
	       kw_op_is_masked(op);
}

static u64 kw_send_len(const struct ib_send_wr *wr)
{
	u64 len = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	return len;
}

/* The value before goes into one SGE. */
static bool kw_atomic_fits(const struct ib_send_wr *wr)
{
	return wr->num_sge == 1 && wr->sg_list[0].length == sizeof(u64) &&
	       !(wr->send_flags & IB_SEND_INLINE);
}

/* Does the device have what an operation of RFC 7306 needs? */
static bool kw_send_supported(struct kw_qp *qp, int op,
			      const struct ib_send_wr *wr)
{
	const struct kw_stream_settings *set = &qp->stream.p.set;

	switch (op) {
	case KIWARP_OP_WRITE_IMM:
		return READ_ONCE(set->immediate);
	case KIWARP_OP_SEND_IMM:
		/* The RFC has no message with payload and an immediate. */
		return READ_ONCE(set->immediate) && !kw_send_len(wr);
	case KIWARP_OP_FETCH_ADD:
	case KIWARP_OP_CMP_SWAP:
	case KIWARP_OP_MASKED_FETCH_ADD:
	case KIWARP_OP_MASKED_CMP_SWAP:
		return READ_ONCE(set->atomics);
	default:
		return true;
	}
}

static int kw_fill_sqe(struct kw_qp *qp, struct kiwarp_sqe *sqe,
		       const struct ib_send_wr *wr)
{
	int op = kw_send_opcode(wr);

	if (op < 0 || wr->num_sge > qp->cap.max_send_sge ||
	    ((op == KIWARP_OP_READ || op == KIWARP_OP_READ_INV) &&
	     !kw_read_fits(wr)))
		return -EINVAL;
	if (!kw_send_supported(qp, op, wr))
		return -EOPNOTSUPP;
	if (kw_is_atomic(op) && !kw_atomic_fits(wr))
		return -EINVAL;
	memset(sqe, 0, sizeof(*sqe));
	sqe->wr_id = (uintptr_t)wr->wr_cqe;
	sqe->opcode = op;
	if ((wr->send_flags & IB_SEND_SIGNALED) || qp->sq_sig_all)
		sqe->flags |= KIWARP_SQE_SIGNALED;
	if (wr->send_flags & IB_SEND_SOLICITED)
		sqe->flags |= KIWARP_SQE_SOLICITED;
	if (wr->send_flags & IB_SEND_FENCE)
		sqe->flags |= KIWARP_SQE_FENCE;

	switch (op) {
	case KIWARP_OP_WRITE_IMM:
		sqe->imm_data = wr->ex.imm_data;
		fallthrough;
	case KIWARP_OP_WRITE:
	case KIWARP_OP_READ:
	case KIWARP_OP_READ_INV:
		sqe->remote_addr = rdma_wr(wr)->remote_addr;
		sqe->rkey = rdma_wr(wr)->rkey;
		break;
	case KIWARP_OP_SEND_INV:
	case KIWARP_OP_LOCAL_INV:
		sqe->inv_stag = wr->ex.invalidate_rkey;
		break;
	case KIWARP_OP_SEND_IMM:
		sqe->imm_data = wr->ex.imm_data;
		break;
	case KIWARP_OP_FETCH_ADD:
	case KIWARP_OP_CMP_SWAP:
	case KIWARP_OP_MASKED_FETCH_ADD:
	case KIWARP_OP_MASKED_CMP_SWAP:
		sqe->remote_addr = atomic_wr(wr)->remote_addr;
		sqe->rkey = atomic_wr(wr)->rkey;
		sqe->atomic.compare_add = atomic_wr(wr)->compare_add;
		sqe->atomic.swap = atomic_wr(wr)->swap;
		break;
	case KIWARP_OP_REG_MR:
		sqe->remote_addr = (uintptr_t)reg_wr(wr)->mr;
		sqe->rkey = reg_wr(wr)->key;
		sqe->inv_stag = reg_wr(wr)->access;
		break;
	}
	if (wr->send_flags & IB_SEND_INLINE) {
		sqe->flags |= KIWARP_SQE_INLINE;
		return kw_fill_inline(sqe, wr, qp->cap.max_inline_data);
	}
	sqe->num_sge = kw_fill_sges((struct kiwarp_sge *)(sqe + 1),
				    wr->sg_list, wr->num_sge);
	if (kw_op_is_masked(op))
		*kw_sqe_masks(sqe) = (struct kw_atomic_masks){
			.compare_add = atomic_wr(wr)->compare_add_mask,
			.swap = atomic_wr(wr)->swap_mask,
		};
	return 0;
}

static int kw_post_kernel_sends(struct kw_qp *qp, const struct ib_send_wr *wr,
				const struct ib_send_wr **bad, u64 *len)
{
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->sq_post_lock, flags);
	for (; wr; wr = wr->next) {
		/* Pairs with the release in kw_qp_complete_sq(). */
		if (qp->sq_post - smp_load_acquire(&qp->sq_done) >=
		    kw_ring_entries(&qp->sq))
			ret = -ENOMEM;
		else
			ret = kw_fill_sqe(qp, kw_ring_at(&qp->sq, qp->sq_post),
					  wr);
		if (ret) {
			*bad = wr;
			break;
		}
		qp->sq_post++;
		*len += kw_send_len(wr);
	}
	/* Pairs with the acquire in kw_qp_op_next_wqe(). */
	smp_store_release(&kw_ctrl(&qp->sq)->producer, qp->sq_post);
	spin_unlock_irqrestore(&qp->sq_post_lock, flags);
	return ret;
}

/**
 * kw_post_send() - ib_device_ops.post_send
 * @ibqp: queue pair
 * @wr: kernel consumer's work requests; NULL: user space's doorbell
 * @bad: the first that was not posted
 *
 * Context: user space: process. Kernel consumers: any.
 * Return: 0, -EINVAL (state, opcode, limits), -ENOMEM (queue full),
 * -EOPNOTSUPP (the connection does not have this operation of RFC 7306).
 */
__hot int kw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		       const struct ib_send_wr **bad)
{
	struct kw_qp *qp = to_kw_qp(ibqp);
	u64 len = 0;
	u8 state;
	int ret, doorbell;

	if (qp->user) {
		if (wr) {
			*bad = wr;
			return -EINVAL;
		}
		return kw_qp_doorbell(qp);
	}
	state = READ_ONCE(qp->state);
	if (state == KIWARP_QPS_RESET || state == KIWARP_QPS_INIT) {
		*bad = wr;
		return -EINVAL;
	}
	ret = kw_post_kernel_sends(qp, wr, bad, &len);
	if (state == KIWARP_QPS_RTS && kw_batch_add(qp, len))
		return ret;
	doorbell = kw_qp_doorbell(qp);
	return ret ?: doorbell;
}

/**
 * kw_fill_recvs() - put a kernel consumer's receives on a ring
 * @ring: receive ring
 * @post: its next index to write; moved
 * @done: the oldest that is not free
 * @max_sge: SGEs of an entry
 * @wr: work requests
 * @bad: the first that was not posted
 *
 * Context: any; one at a time for a ring.
 * Return: 0, -EINVAL (SGEs), -ENOMEM (queue full).
 */
int kw_fill_recvs(const struct kw_ring *ring, u32 *post, const u32 *done,
		  u32 max_sge, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad)
{
	int ret = 0;

	for (; wr; wr = wr->next) {
		struct kiwarp_rqe *rqe = kw_ring_at(ring, *post);
		/*
		 * Pairs with the release in kw_qp_complete_rq(); a shared
		 * queue's index is under its lock.
		 */
		u32 used = *post - smp_load_acquire(done);

		if (wr->num_sge > max_sge)
			ret = -EINVAL;
		else if (used >= kw_ring_entries(ring))
			ret = -ENOMEM;
		if (ret) {
			*bad = wr;
			break;
		}
		rqe->wr_id = (uintptr_t)wr->wr_cqe;
		rqe->num_sge = kw_fill_sges((struct kiwarp_sge *)(rqe + 1),
					    wr->sg_list, wr->num_sge);
		++*post;
	}
	/* Pairs with the acquires in kw_qp_op_next_recv() and kw_srq_posted(). */
	smp_store_release(&kw_ctrl(ring)->producer, *post);
	return ret;
}

static int kw_post_kernel_recvs(struct kw_qp *qp, const struct ib_recv_wr *wr,
				const struct ib_recv_wr **bad)
{
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&qp->rq_post_lock, flags);
	ret = kw_fill_recvs(&qp->rq, &qp->rq_post, &qp->rq_done,
			    qp->cap.max_recv_sge, wr, bad);
	spin_unlock_irqrestore(&qp->rq_post_lock, flags);
	return ret;
}

/**
 * kw_post_recv() - ib_device_ops.post_recv
 * @ibqp: queue pair
 * @wr: kernel consumer's work requests; NULL: user space has posted to a
 *	queue pair in error
 * @bad: the first that was not posted
 *
 * Context: any.
 * Return: 0, -EINVAL (state, limits, SRQ), -ENOMEM (queue full).
 */
__hot int kw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad)
{
	struct kw_qp *qp = to_kw_qp(ibqp);
	int ret = 0;

	if ((wr && (qp->user || qp->srq)) || READ_ONCE(qp->state) == KIWARP_QPS_RESET) {
		*bad = wr;
		return -EINVAL;
	}
	if (wr)
		ret = kw_post_kernel_recvs(qp, wr, bad);
	/* Pairs with the barrier in kw_flush_batch(). */
	smp_mb();
	if (READ_ONCE(qp->state) == KIWARP_QPS_ERROR)
		kw_qp_flush_posted(qp);
	return ret;
}
