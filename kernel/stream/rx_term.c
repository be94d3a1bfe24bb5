// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The peer's Terminate (RFC 5040 sections 4.8 and 7): reassembled, parsed, and
 * matched to the work request that it is about.
 */
#include <rdma/ib_verbs.h>

#include "stream/priv.h"
#include "stream/rx.h"
#include "trace.h"

/* The outbound Read that has this MSN on queue 1, if it is still unanswered. */
static const struct kw_orq_entry *kw_term_read(const struct kw_stream *s,
					       u32 msn)
{
	/* tx.read_msn is the next one's; the youngest outstanding is one back. */
	u32 back = s->tx.read_msn - msn;

	if (!back || back > s->orq_len)
		return NULL;
	return &s->orq[(s->orq_head + s->orq_len - back) % kw_orq_size(s)];
}

/*
 * Is this the header of a segment of the message that is being sent? Those
 * before it are complete, and cannot be identified any more.
 */
static bool kw_term_is_current(const struct kw_stream *s,
			       const struct kw_ddp_hdr *h)
{
	const struct kw_wqe *w = &s->tx.wqe;

	if (s->tx.msg != KW_MSG_WQE && s->tx.msg != KW_MSG_IMM)
		return false;
	if (h->tagged)
		return (w->opcode == KIWARP_OP_WRITE ||
			w->opcode == KIWARP_OP_WRITE_IMM) &&
		       h->stag == w->rkey && h->to - w->raddr < w->len;
	return (s->tx.msg == KW_MSG_IMM || w->opcode == KIWARP_OP_SEND ||
		w->opcode == KIWARP_OP_SEND_INV) &&
	       h->qn == KW_QN_SEND && h->msn == s->tx.send_msn;
}

/* The completion status of the work request at fault. */
static u16 kw_term_status(u16 code)
{
	struct kw_term t;

	kw_term_set_code(&t, code);
	if (t.layer == KW_TERM_LAYER_LLP)
		return IB_WC_WR_FLUSH_ERR;
	switch (t.type) {
	case 0:
		return IB_WC_REM_OP_ERR;
	case 1:
		return IB_WC_REM_ACCESS_ERR;
	default:
		return IB_WC_REM_INV_REQ_ERR;
	}
}

static void kw_term_blame(struct kw_stream *s, const struct kw_term *t,
			  u16 status)
{
	const struct kw_orq_entry *e;
	struct kw_ddp_hdr h;

	if (!t->has_ddp)
		return;
	kw_ddp_parse(t->ddp_hdr, &h);
	if (!h.tagged && h.qn == KW_QN_READ_REQ) {
		e = kw_term_read(s, h.msn);
		if (e && !e->rtr)
			s->ops->wqe_done(s, e->sq_index, status);
	} else if (kw_term_is_current(s, &h)) {
		s->ops->wqe_done(s, s->tx.wqe.index, status);
	}
}

/* Keep a segment's part of the message, up to the length of the longest. */
static bool kw_term_take(struct kw_stream *s, const struct kw_segment *seg,
			 struct kw_cursor *c)
{
	struct kw_ddp_hdr h = seg->ddp;
	u32 len;

	h.mo = min_t(u32, h.mo, sizeof(s->rx.term));
	len = min_t(u32, seg->len, sizeof(s->rx.term) - h.mo);
	return h.msn == KW_DDP_MSN_FIRST &&
	       !kw_ddp_take_short(&s->rx.term_got, &h, len,
				  sizeof(s->rx.term)) &&
	       (!len || kw_cursor_copy(c, s->rx.term + h.mo, len));
}

static void kw_term_read_out(struct kw_stream *s, u64 len)
{
	struct kw_term t;
	u16 code;

	len = min_t(u64, len, sizeof(s->rx.term));
	if (kw_term_parse(s->rx.term, len, &t) == KW_TERM_SHORT)
		return;
	code = kw_term_unswap(kw_term_get_code(&t));
	s->reason = KIWARP_TERM_RECEIVED | code;
	kw_term_blame(s, &t, kw_term_status(code));
}

/**
 * kw_rx_terminate() - act on a segment of a Terminate
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * A Terminate that itself breaks a rule ends the stream as any does. It is not
 * answered with another.
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0 if more of it has to come, else KW_RX_STOP.
 */
int kw_rx_terminate(struct kw_stream *s, struct kw_segment *seg,
		    struct kw_cursor *c)
{
	bool good = kw_term_take(s, seg, c);

	if (good && !seg->ddp.last)
		return 0;
	kw_pass_count(s, KW_CNT_TERM_RECEIVED, 1);
	if (good)
		kw_term_read_out(s, (u64)seg->ddp.mo + seg->len);
	trace_kw_terminate_received(s->ibdev, s->qpn, s->reason);
	kw_stream_fail(s, KW_FAIL_FATAL, false);
	return KW_RX_STOP;
}
