// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Chooses the next message and fills its template (RFC 5040 section 4).
 * tx_fpdu.c frames it.
 */
#include <rdma/ib_verbs.h>

#include "stream/atomic.h"
#include "stream/priv.h"
#include "stream/sg.h"
#include "stream/tx.h"
#include "stream/zcopy.h"
#include "trace.h"

static_assert(KW_DDP_UNTAGGED_LEN + KW_TERM_MAX_LEN <= KW_MULPDU_MIN,
	      "kw_segmenter_payload() never divides a Terminate or a Read Request");
static_assert(KW_ATOMIC_REQ_LEN <= KW_TERM_MAX_LEN,
	      "an Atomic Request fits kw_tx.body, and is not divided either");

/* RDMAP opcodes of the send queue's messages: [invalidate][solicited] */
static const u8 kw_send_ops[2][2] = {
	{ KW_RDMAP_SEND, KW_RDMAP_SEND_SE },
	{ KW_RDMAP_SEND_INV, KW_RDMAP_SEND_SE_INV },
};

/* The header template of a tagged message. */
static void kw_msg_tagged(struct kw_stream *s, u8 op, u32 stag, u64 to,
			  u32 len)
{
	struct kw_tx_msg *m = &s->tx.m;

	kw_ddp_put_tagged((u8 *)&m->head.ddp, false, KW_RDMAP_CTRL(op),
			  stag, to);
	kw_rdmap_set_version((u8 *)&m->head.ddp, kw_stream_version(s));
	m->tagged = true;
	m->hdr_len = KW_DDP_TAGGED_LEN;
	m->left = len;
	m->at = to;
}

/* The same of an untagged one. */
static void kw_msg_untagged(struct kw_stream *s, u8 op, u32 inv_stag,
			    u32 qn, u32 msn, u32 len)
{
	struct kw_tx_msg *m = &s->tx.m;

	kw_ddp_put_untagged((u8 *)&m->head.ddp, false,
			    KW_RDMAP_CTRL(op), inv_stag, qn, msn, 0);
	kw_rdmap_set_version((u8 *)&m->head.ddp, kw_stream_version(s));
	m->tagged = false;
	m->hdr_len = KW_DDP_UNTAGGED_LEN;
	m->left = len;
	m->at = 0;
}

/* A message whose body is in s->tx.body. */
static void kw_msg_body(struct kw_stream *s, u8 kind, u8 op, u32 qn, u32 msn,
			u32 len)
{
	kw_msg_untagged(s, op, 0, qn, msn, len);
	kw_sg_start_bytes(&s->tx.m.it, s->tx.body, len);
	s->tx.msg = kind;
}

static void kw_msg_term(struct kw_stream *s)
{
	kw_msg_body(s, KW_MSG_TERM, KW_RDMAP_TERMINATE, KW_QN_TERMINATE,
		    KW_DDP_MSN_FIRST, kw_term_build(s->tx.body, &s->tx.term));
}

static void kw_msg_read_req(struct kw_stream *s, u8 kind,
			    const struct kw_read_req *req)
{
	kw_msg_body(s, kind, KW_RDMAP_READ_REQ, KW_QN_READ_REQ, s->tx.read_msn,
		    kw_read_req_build(s->tx.body, req));
}

/* The STag of an empty message is not checked; to some RNICs 0 is special. */
#define KW_RTR_STAG	1

/* RFC 6581 section 5: the FPDU that opens the peer-to-peer model. */
static void kw_msg_rtr(struct kw_stream *s)
{
	const struct kw_read_req req = {
		.sink_stag = KW_RTR_STAG,
		.src_stag = KW_RTR_STAG,
	};

	if (s->p.rtr == KW_RTR_READ) {
		kw_msg_read_req(s, KW_MSG_RTR, &req);
		return;
	}
	kw_msg_body(s, KW_MSG_RTR, KW_RDMAP_SEND, KW_QN_SEND, s->tx.send_msn,
		    0);
	if (s->p.rtr == KW_RTR_WRITE)
		kw_msg_tagged(s, KW_RDMAP_WRITE, KW_RTR_STAG, 0, 0);
}

/* The header of the oldest request that is not answered; it has no more segments. */
static void kw_irq_header(const struct kw_stream *s, u8 op, u8 *hdr)
{
	/* Those held have successive MSNs. */
	kw_ddp_put_untagged(hdr, true, KW_RDMAP_CTRL(op), 0, KW_QN_READ_REQ,
			    s->rx.read_msn - s->irq_len, 0);
	kw_rdmap_set_version(hdr, kw_stream_version(s));
}

/*
 * The operation is executed here, once: its response is the next message, and
 * no other is chosen before it is framed.
 */
static void kw_msg_atomic_resp(struct kw_stream *s,
			       const struct kw_atomic_req *req)
{
	struct kw_atomic_resp resp = { .req_id = req->req_id };
	u16 code = kw_atomic_work(s, req, &resp.orig);
	u8 hdr[KW_DDP_UNTAGGED_LEN];

	if (!code) {
		kw_msg_body(s, KW_MSG_READ_RESP, KW_RDMAP_ATOMIC_RESP,
			    KW_QN_ATOMIC_RESP, s->tx.resp_msn,
			    kw_atomic_resp_build(s->tx.body, &resp));
		return;
	}
	kw_irq_header(s, KW_RDMAP_ATOMIC_REQ, hdr);
	kw_term_set(&s->tx.term, code, sizeof(hdr) + KW_ATOMIC_REQ_LEN, hdr,
		    NULL);
	kw_stream_fail(s, KW_FAIL_REMOTE_ACCESS, true);
}

static void kw_msg_read_resp(struct kw_stream *s)
{
	const struct kw_read_req *r = &s->irq[s->irq_head].read;

	if (s->irq[s->irq_head].is_atomic) {
		kw_msg_atomic_resp(s, &s->irq[s->irq_head].atomic);
		return;
	}

	s->tx.src = (struct kiwarp_sge){
		.addr = r->src_to, .lkey = r->src_stag, .length = r->size,
	};
	kw_msg_tagged(s, KW_RDMAP_READ_RESP, r->sink_stag, r->sink_to,
		      r->size);
	kw_sg_start(&s->tx.m.it, &s->tx.src, 1, IB_ACCESS_REMOTE_READ);
	s->tx.msg = KW_MSG_READ_RESP;
}

/* What a Read is posted with; a list without entries reads nothing. */
static struct kiwarp_sge kw_wqe_sink(const struct kw_wqe *w)
{
	return w->num_sge ? w->sge[0] : (struct kiwarp_sge){};
}

static void kw_msg_read(struct kw_stream *s)
{
	const struct kw_wqe *w = &s->tx.wqe;
	const struct kiwarp_sge sink = kw_wqe_sink(w);
	const struct kw_read_req req = {
		.sink_stag = sink.lkey,
		.sink_to = sink.addr,
		.size = sink.length,
		.src_stag = w->rkey,
		.src_to = w->raddr,
	};

	kw_msg_read_req(s, KW_MSG_READ, &req);
}

/* RFC 7306 section 5.2.1: what is in the place of masks, and of other values. */
static void kw_msg_atomic(struct kw_stream *s)
{
	const struct kw_wqe *w = &s->tx.wqe;
	struct kw_atomic_req req = {
		.op = KW_ATOMIC_FETCH_ADD,
		.req_id = w->index,
		.stag = w->rkey,
		.to = w->raddr,
		.add_swap = w->compare_add,
		.compare_mask = ~0ULL,
	};

	switch (w->opcode) {
	case KIWARP_OP_MASKED_FETCH_ADD:
		req.add_swap_mask = w->compare_add_mask;
		break;
	case KIWARP_OP_CMP_SWAP:
	case KIWARP_OP_MASKED_CMP_SWAP:
		req.op = KW_ATOMIC_CMP_SWAP;
		req.add_swap = w->swap;
		req.add_swap_mask = ~0ULL;
		req.compare = w->compare_add;
		if (w->opcode == KIWARP_OP_CMP_SWAP)
			break;
		req.add_swap_mask = w->swap_mask;
		req.compare_mask = w->compare_add_mask;
		break;
	}
	kw_msg_body(s, KW_MSG_READ, KW_RDMAP_ATOMIC_REQ, KW_QN_READ_REQ,
		    s->tx.read_msn, kw_atomic_req_build(s->tx.body, &req));
}

/*
 * RFC 7306 section 6: the second of the two messages of a Write with Immediate,
 * and the only one of a Send with Immediate.
 */
static void kw_msg_imm(struct kw_stream *s)
{
	const struct kw_wqe *w = &s->tx.wqe;
	bool se = w->flags & KIWARP_SQE_SOLICITED;

	kw_msg_body(s, KW_MSG_IMM, se ? KW_RDMAP_IMM_SE : KW_RDMAP_IMM,
		    KW_QN_SEND, s->tx.send_msn, kw_imm_build(s->tx.body, w->imm));
}

static bool kw_wqe_is_write(const struct kw_wqe *w)
{
	return w->opcode == KIWARP_OP_WRITE || w->opcode == KIWARP_OP_WRITE_IMM;
}

/* A Send or Write. */
static void kw_msg_wqe(struct kw_stream *s)
{
	struct kw_tx_msg *m = &s->tx.m;
	struct kw_wqe *w = &s->tx.wqe;
	bool inv = w->opcode == KIWARP_OP_SEND_INV;
	bool se = w->flags & KIWARP_SQE_SOLICITED;

	if (kw_wqe_is_write(w))
		kw_msg_tagged(s, KW_RDMAP_WRITE, w->rkey, w->raddr, w->len);
	else
		kw_msg_untagged(s, kw_send_ops[inv][se], inv ? w->inv_stag : 0,
				KW_QN_SEND, s->tx.send_msn, w->len);
	if (w->flags & KIWARP_SQE_INLINE)
		kw_sg_start_bytes(&m->it, w->inl, w->len);
	else
		kw_sg_start(&m->it, w->sge, w->num_sge, 0);
	s->tx.msg = KW_MSG_WQE;
	if (w->len >= s->zcopy_min)
		kw_zc_begin(s);
}

static bool kw_wqe_is_read(const struct kw_wqe *w)
{
	return w->opcode == KIWARP_OP_READ || w->opcode == KIWARP_OP_READ_INV;
}

static bool kw_wqe_is_atomic(const struct kw_wqe *w)
{
	return w->opcode == KIWARP_OP_FETCH_ADD ||
	       w->opcode == KIWARP_OP_CMP_SWAP ||
	       w->opcode == KIWARP_OP_MASKED_FETCH_ADD ||
	       w->opcode == KIWARP_OP_MASKED_CMP_SWAP;
}

/* Does it ask the peer for something? */
static bool kw_wqe_asks(const struct kw_wqe *w)
{
	return kw_wqe_is_read(w) || kw_wqe_is_atomic(w);
}

static bool kw_wqe_may_start(const struct kw_stream *s, const struct kw_wqe *w)
{
	if (!s->orq_len)
		return true;
	if (w->flags & KIWARP_SQE_FENCE)
		return false;
	/* If none are allowed at all, kw_wqe_check() fails it. */
	return !kw_wqe_asks(w) || !s->p.ord || s->orq_len < s->p.ord;
}

/* A local fault: the WQE completes in error and the stream ends. */
static void kw_wqe_fail(struct kw_stream *s, u16 status)
{
	s->tx.msg = KW_MSG_NONE;
	s->tx.held = false;
	s->ops->wqe_done(s, s->tx.wqe.index, status);
	kw_term_set(&s->tx.term, KW_TERM_RDMAP_CATASTROPHIC, 0, NULL, NULL);
	kw_stream_fail(s, KW_FAIL_LOCAL, true);
}

/* Checks that are made once, before the first byte of a message goes out. */
static u16 kw_wqe_check(struct kw_stream *s, const struct kw_wqe *w)
{
	u32 access = kw_wqe_asks(w) ? IB_ACCESS_LOCAL_WRITE : 0;

	if (w->status != IB_WC_SUCCESS)
		return w->status;
	if (kw_wqe_asks(w) && !s->p.ord)
		return IB_WC_LOC_QP_OP_ERR;
	/* Copying the first byte of a single entry checks all of that entry. */
	if ((access || w->num_sge > 1) &&
	    kw_sg_check(s, w->sge, w->num_sge, access))
		return IB_WC_LOC_PROT_ERR;
	if (w->opcode == KIWARP_OP_READ_INV &&
	    (!w->num_sge || kw_sg_check_inv(s, &w->sge[0])))
		return IB_WC_LOC_PROT_ERR;
	return IB_WC_SUCCESS;
}

/* Start the held WQE. Returns false if it failed the stream. */
static bool kw_wqe_start(struct kw_stream *s)
{
	struct kw_wqe *w = &s->tx.wqe;
	u16 status = kw_wqe_check(s, w);

	if (status != IB_WC_SUCCESS) {
		kw_wqe_fail(s, status);
		return false;
	}
	s->tx.held = false;
	switch (w->opcode) {
	case KIWARP_OP_READ:
	case KIWARP_OP_READ_INV:
		kw_msg_read(s);
		break;
	case KIWARP_OP_FETCH_ADD:
	case KIWARP_OP_CMP_SWAP:
	case KIWARP_OP_MASKED_FETCH_ADD:
	case KIWARP_OP_MASKED_CMP_SWAP:
		kw_msg_atomic(s);
		break;
	case KIWARP_OP_SEND_IMM:
		kw_msg_imm(s);
		break;
	case KIWARP_OP_LOCAL_INV:
	case KIWARP_OP_REG_MR:
	case KIWARP_OP_BIND_MW:
		s->tx.msg = KW_MSG_LOCAL;
		break;
	default:
		kw_msg_wqe(s);
	}
	return true;
}

/* Take the next WQE, if it may start. */
static __hot bool kw_next_wqe(struct kw_stream *s)
{
	if (!s->tx.held && !s->ops->next_wqe(s, &s->tx.wqe))
		return false;
	s->tx.held = true;
	return kw_wqe_may_start(s, &s->tx.wqe) && kw_wqe_start(s);
}

/*
 * Choose the next message. Messages do not interleave (RFC 5041 section 5.3),
 * so Read Responses and the send queue alternate, message by message. An RTR
 * that is repeated is a Write of no length: between a Write and Immediate Data
 * it would be the one whose length is reported.
 */
static __hot void kw_next_msg(struct kw_stream *s)
{
	if (kw_stream_live(s)) {
		if (s->tx.rtr_pending && !s->tx.imm_may_follow)
			kw_msg_rtr(s);
		else if (!s->irq_len)
			kw_next_wqe(s);
		else if (!(s->tx.responded && kw_next_wqe(s)) && kw_stream_live(s))
			kw_msg_read_resp(s);
	}
	/* A WQE may have failed the stream. */
	if (s->tx.term_pending)
		kw_msg_term(s);
}

static void kw_orq_push(struct kw_stream *s, const struct kw_orq_entry *e)
{
	s->orq[(s->orq_head + s->orq_len++) % kw_orq_size(s)] = *e;
	s->tx.read_msn++;
}

static void kw_rtr_framed(struct kw_stream *s)
{
	const struct kw_orq_entry rtr = { .rtr = true };

	s->tx.rtr_pending = false;
	if (s->p.rtr == KW_RTR_READ)
		kw_orq_push(s, &rtr);
	else if (s->p.rtr == KW_RTR_SEND)
		s->tx.send_msn++;
}

static void kw_read_framed(struct kw_stream *s)
{
	const struct kw_wqe *w = &s->tx.wqe;
	const struct kw_orq_entry e = {
		.sink = kw_wqe_sink(w),
		.sq_index = w->index,
		.unsignaled = !(w->flags & KIWARP_SQE_SIGNALED),
		.inv = w->opcode == KIWARP_OP_READ_INV,
		.atomic = kw_wqe_is_atomic(w),
	};

	s->tx.await_msn += e.atomic;
	kw_orq_push(s, &e);
}

/* All of the work request is framed. */
static void kw_wqe_framed(struct kw_stream *s)
{
	const struct kw_wqe *w = &s->tx.wqe;

	if (w->opcode != KIWARP_OP_WRITE)
		s->tx.send_msn++;
	s->tx.imm_may_follow = s->p.set.immediate &&
			       w->opcode == KIWARP_OP_WRITE;
	s->tx.responded = false;
	if (s->tx.zc_msg)
		kw_zc_framed(s, true);
	else
		s->ops->wqe_done(s, w->index, IB_WC_SUCCESS);
}

/* All of the message is in FPDUs. */
static void kw_msg_framed(struct kw_stream *s)
{
	u8 kind = s->tx.msg;

	s->tx.msg = KW_MSG_NONE;
	kw_tx_charge(&s->tx, 1);
	switch (kind) {
	case KW_MSG_WQE:
		kw_tx_charge(&s->tx, s->tx.wqe.num_sge / KW_TX_BUDGET_SGES);
		/* Nothing comes between a Write and its Immediate Data. */
		if (s->tx.wqe.opcode == KIWARP_OP_WRITE_IMM) {
			kw_msg_imm(s);
			break;
		}
		fallthrough;
	case KW_MSG_IMM:
		kw_wqe_framed(s);
		break;
	case KW_MSG_READ:
		kw_read_framed(s);
		break;
	case KW_MSG_READ_RESP:
		s->tx.resp_msn += s->irq[s->irq_head].is_atomic;
		s->irq_counted -= kw_irq_counts(&s->irq[s->irq_head]);
		s->irq_head = (s->irq_head + 1) % kw_irq_size(s);
		s->irq_len--;
		s->tx.responded = true;
		break;
	case KW_MSG_RTR:
		kw_rtr_framed(s);
		break;
	case KW_MSG_TERM:
		s->tx.term_pending = false;
		kw_pass_count(s, KW_CNT_TERM_SENT, 1);
		trace_kw_terminate_sent(s->ibdev, s->qpn, s->reason);
		break;
	}
}

/* Do the current WQE, which has no message. */
static void kw_msg_local(struct kw_stream *s)
{
	const struct kw_wqe *w = &s->tx.wqe;
	u16 status = s->ops->local_op(s, w);

	if (status != IB_WC_SUCCESS) {
		kw_wqe_fail(s, status);
		return;
	}
	s->tx.msg = KW_MSG_NONE;
	kw_tx_charge(&s->tx, 1);
	s->ops->wqe_done(s, w->index, status);
}

/*
 * The source may have been deregistered since the request was checked. The
 * Terminate quotes what is left of the request (RFC 5040 section 4.8).
 */
static void kw_read_resp_fail(struct kw_stream *s)
{
	struct kw_read_req left = s->irq[s->irq_head].read;
	u16 code;
	u8 hdr[KW_DDP_UNTAGGED_LEN];
	u8 body[KW_READ_REQ_LEN];

	left.sink_to += left.size - s->tx.m.left;
	left.src_to += left.size - s->tx.m.left;
	left.size = s->tx.m.left;
	code = kw_check_read(s, left.src_stag, left.src_to, left.size);
	kw_irq_header(s, KW_RDMAP_READ_REQ, hdr);
	kw_read_req_build(body, &left);
	s->tx.msg = KW_MSG_NONE;
	kw_term_set(&s->tx.term, code ? code : KW_TERM_RDMAP_INV_STAG,
		    sizeof(hdr) + sizeof(body), hdr, body);
	kw_stream_fail(s, KW_FAIL_REMOTE_ACCESS, true);
}

/* The queue pair's right to be read may have gone since the request came. */
static bool kw_read_resp_refused(const struct kw_stream *s)
{
	return s->tx.msg == KW_MSG_READ_RESP && s->tx.m.tagged &&
	       s->tx.m.left &&
	       !(READ_ONCE(s->access) & IB_ACCESS_REMOTE_READ);
}

/**
 * kw_tx_pending() - whether there is something to frame, now or later
 * @s: stream
 *
 * Takes a WQE off the send queue if that is what comes next.
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: true if there is.
 */
bool kw_tx_pending(struct kw_stream *s)
{
	if (s->tx.msg == KW_MSG_NONE)
		kw_next_msg(s);
	return s->tx.msg != KW_MSG_NONE;
}

/**
 * kw_tx_own_left() - whether something that the consumer has posted can be sent
 * @s: stream
 *
 * What is held does not count: it waits for the peer's response.
 *
 * Context: socket lock held.
 * Return: true if there is something.
 */
bool kw_tx_own_left(struct kw_stream *s)
{
	return !s->tx.held && (s->ops->wqes_left(s) ||
			       (s->tx.msg != KW_MSG_NONE &&
				s->tx.msg != KW_MSG_READ_RESP));
}

/**
 * kw_tx_more() - kw_tx_pending(), unless the peer's first FPDU is waited for
 * @s: stream
 *
 * Context: as kw_tx_pending().
 * Return: true if kw_tx_frame() has something to do.
 */
bool kw_tx_more(struct kw_stream *s)
{
	return (!s->tx.await_first || s->tx.term_pending) && kw_tx_pending(s);
}

/**
 * kw_tx_frame() - build the next FPDU, or FPDUs
 * @s: stream with some of its budget left
 * @buf: where to
 *
 * A WQE that sends nothing is done.
 *
 * Context: as kw_tx_more().
 * Return: true if there may be more to build. If false, there is nothing, or
 * @buf->full says that another transmit buffer is needed.
 */
__hot bool kw_tx_frame(struct kw_stream *s, struct kw_tx_buf *buf)
{
	int ret;

	if (!kw_tx_more(s))
		return false;
	if (s->tx.msg == KW_MSG_LOCAL) {
		kw_msg_local(s);
		return true;
	}
	ret = kw_read_resp_refused(s) ? -EACCES :
					kw_fpdu_build(s, buf, &s->tx.m);
	if (!ret)
		return false;
	/* If its source may not be read, a Terminate replaces the response. */
	if (ret < 0 && s->tx.msg == KW_MSG_READ_RESP)
		kw_read_resp_fail(s);
	else if (ret < 0)
		kw_wqe_fail(s, IB_WC_LOC_PROT_ERR);
	else if (!s->tx.m.left)
		kw_msg_framed(s);
	return true;
}
