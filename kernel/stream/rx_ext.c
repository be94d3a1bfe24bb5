// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What each message of RFC 7306 does when it arrives. Without the setting it is
 * answered as an opcode that has no meaning.
 */
#include <rdma/ib_verbs.h>

#include "stream/atomic.h"
#include "stream/priv.h"
#include "stream/rx.h"

static int kw_rx_imm_last(struct kw_stream *s, const struct kw_segment *seg)
{
	struct kw_rx *rx = &s->rx;
	const u32 write_len = rx->write_len;

	/* RFC 7306 section 6.3: exactly eight bytes. */
	if (seg->ddp.mo + seg->len != KW_IMM_LEN)
		return KW_RX_TERM(KW_TERM_RDMAP_OP_UNSPEC);
	rx->recv_open = false;
	rx->imm_got = 0;
	rx->write_len = 0;
	rx->send_msn++;
	rx->rx_events++;
	s->ops->recv_imm(s, &rx->recv, write_len,
			 rx->recv_op == KW_RDMAP_IMM_SE, kw_imm_parse(rx->imm));
	return 0;
}

/**
 * kw_rx_imm() - act on a segment of Immediate Data (RFC 7306 section 6)
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * It consumes a receive queue entry, and the entry's buffers are left alone:
 * the eight bytes are part of the completion.
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0 or KW_RX_TERM(code).
 */
int kw_rx_imm(struct kw_stream *s, struct kw_segment *seg, struct kw_cursor *c)
{
	struct kw_rx *rx = &s->rx;
	u16 code;
	int ret;

	if (!s->p.set.immediate)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	ret = kw_rx_queue0_enter(s, seg);
	if (ret)
		return ret;
	code = kw_ddp_take_short(&rx->imm_got, &seg->ddp, seg->len, KW_IMM_LEN);
	if (code)
		return KW_RX_TERM(code);
	if (seg->len && !kw_cursor_copy(c, rx->imm + seg->ddp.mo, seg->len))
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	return seg->ddp.last ? kw_rx_imm_last(s, seg) : 0;
}

/*
 * A whole Atomic Request, in s->rx.req. It is executed in its turn among the
 * Reads, when the response can be sent.
 */
static int kw_rx_atomic_req_last(struct kw_stream *s)
{
	struct kw_irq_entry e = { .is_atomic = true };
	u16 code;

	kw_atomic_req_parse(s->rx.req, &e.atomic);
	if (!kw_rx_irq_has_room(s))
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_NO_BUFFER);
	code = kw_atomic_check(s, &e.atomic);
	if (code)
		return KW_RX_TERM(code);
	kw_rx_irq_push(s, &e);
	return 0;
}

/**
 * kw_rx_atomic_req() - act on a segment of an Atomic Request
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0 or KW_RX_TERM(code).
 */
int kw_rx_atomic_req(struct kw_stream *s, struct kw_segment *seg,
		     struct kw_cursor *c)
{
	int ret;

	if (!s->p.set.atomics)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	ret = kw_rx_request(s, seg, c);
	return ret || !seg->ddp.last ? ret : kw_rx_atomic_req_last(s);
}

/* The value goes where the work request says, in this machine's byte order. */
static bool kw_rx_atomic_place(struct kw_stream *s,
			       const struct kiwarp_sge *sink, u64 value)
{
	const u8 *p = (const u8 *)&value;
	struct kw_sg_iter it;
	u32 left = sizeof(value), n;

	kw_sg_start(&it, sink, 1, IB_ACCESS_LOCAL_WRITE);
	while (left && kw_sg_next(s, &it)) {
		n = min_t(u64, it.run.len, left);
		memcpy(it.run.va, p, n);
		kw_sg_advance(&it, n);
		p += n;
		left -= n;
	}
	kw_sg_release(&it);
	return !left;
}

static int kw_rx_atomic_resp_last(struct kw_stream *s,
				  const struct kw_segment *seg)
{
	const struct kw_orq_entry *e = &s->orq[s->orq_head];
	struct kw_atomic_resp resp;

	if (seg->ddp.mo + seg->len != KW_ATOMIC_RESP_LEN)
		return kw_rx_read_fail(s, e, IB_WC_BAD_RESP_ERR,
				       KW_TERM_RDMAP_OP_UNSPEC);
	kw_atomic_resp_parse(s->rx.resp, &resp);
	if (resp.req_id != e->sq_index)
		return kw_rx_read_fail(s, e, IB_WC_BAD_RESP_ERR,
				       KW_TERM_RDMAP_OP_UNSPEC);
	if (!kw_rx_atomic_place(s, &e->sink, resp.orig))
		return kw_rx_read_fail(s, e, IB_WC_LOC_PROT_ERR,
				       KW_TERM_RDMAP_CATASTROPHIC);
	s->rx.resp_got = 0;
	s->rx.resp_msn++;
	kw_rx_read_done(s);
	return 0;
}

/**
 * kw_rx_atomic_resp() - act on a segment of an Atomic Response
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * Queue 3 has a buffer for each Atomic Request that is not answered. Those come
 * in the order of the Reads, too (RFC 7306 section 7).
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0 or KW_RX_TERM(code).
 */
int kw_rx_atomic_resp(struct kw_stream *s, struct kw_segment *seg,
		      struct kw_cursor *c)
{
	const struct kw_orq_entry *e = &s->orq[s->orq_head];
	struct kw_rx *rx = &s->rx;
	u16 code;

	if (seg->ddp.msn != rx->resp_msn)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_MSN_RANGE);
	if (rx->resp_msn == s->tx.await_msn)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_NO_BUFFER);
	if (!e->atomic)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	code = kw_ddp_take_short(&rx->resp_got, &seg->ddp, seg->len,
				 KW_ATOMIC_RESP_LEN);
	if (code)
		return kw_rx_read_fail(s, e, IB_WC_BAD_RESP_ERR, code);
	if (seg->len && !kw_cursor_copy(c, rx->resp + seg->ddp.mo, seg->len))
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	return seg->ddp.last ? kw_rx_atomic_resp_last(s, seg) : 0;
}
