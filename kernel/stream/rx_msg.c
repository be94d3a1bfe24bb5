// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What each RDMAP message does when it arrives: checks in the order of
 * RFC 5041 section 7.1 and RFC 5040 section 7, then placement, then delivery.
 * A Terminate's arrival is in rx_term.c, the messages of RFC 7306 are in
 * rx_ext.c.
 */
#include <rdma/ib_verbs.h>

#include "stream/counters.h"
#include "stream/priv.h"
#include "stream/rx.h"

/**
 * kw_rx_write() - act on a segment of an RDMA Write
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0 or KW_RX_TERM(code).
 */
int kw_rx_write(struct kw_stream *s, struct kw_segment *seg,
		struct kw_cursor *c)
{
	struct kw_rx *rx = &s->rx;
	struct kw_mem *mem;
	u16 code;

	if (!rx->write_open)
		rx->write_len = 0;
	rx->write_open = !seg->ddp.last;
	/* RFC 5041 section 5.2: STag and TO of an empty segment are not checked. */
	if (!seg->len)
		return 0;
	code = kw_check_write(s, seg->ddp.stag, seg->ddp.to, seg->len, &mem);
	if (code)
		return KW_RX_TERM(code);
	if (!kw_place_tagged(s, seg, c, mem, U32_MAX))
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	kw_predict(s, seg, rx->sink.length - seg->len, NULL);
	rx->rx_events += seg->ddp.last;
	return 0;
}

/**
 * kw_rx_irq_has_room() - whether the IRD allows one more request
 * @s: stream
 *
 * Context: socket lock held.
 * Return: true if one that counts against the IRD may be kept: see
 * kw_irq_counts().
 */
bool kw_rx_irq_has_room(const struct kw_stream *s)
{
	return s->irq_counted < s->p.ird;
}

/**
 * kw_rx_irq_push() - keep a request that is whole until it can be answered
 * @s: stream with room in @irq
 * @e: the request
 *
 * Context: socket lock held.
 */
void kw_rx_irq_push(struct kw_stream *s, const struct kw_irq_entry *e)
{
	s->rx.read_msn++;
	s->irq[(s->irq_head + s->irq_len++) % kw_irq_size(s)] = *e;
	s->irq_counted += kw_irq_counts(e);
	s->rx.kick = true;
}

/* A whole Read Request: it is queued until its response can be sent. */
static int kw_rx_read_req_last(struct kw_stream *s, struct kw_segment *seg)
{
	struct kw_read_req req;
	u16 code;

	seg->read_req = s->rx.req;
	kw_read_req_parse(s->rx.req, &req);
	if (req.size) {
		if (!kw_rx_irq_has_room(s))
			return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_NO_BUFFER);
		code = kw_check_read(s, req.src_stag, req.src_to, req.size);
		if (code)
			return KW_RX_TERM(code);
	}
	kw_rx_irq_push(s, &(struct kw_irq_entry){ .read = req });
	return 0;
}

/**
 * kw_rx_request() - take a segment of a Read Request, or an Atomic Request
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * They share a queue, and the places for those that are not answered yet
 * (RFC 7306 section 5.2).
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0, with the whole of it in s->rx.req if @seg is the last, or
 * KW_RX_TERM(code).
 */
int kw_rx_request(struct kw_stream *s, struct kw_segment *seg,
		  struct kw_cursor *c)
{
	const u32 body_len = kw_rdmap_ops[seg->op].body_len;
	u16 code;

	/* No response can follow a FIN that is sent. */
	if (s->fin_sent)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	if (seg->ddp.msn != s->rx.read_msn)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_MSN_RANGE);
	if (s->irq_len == kw_irq_size(s))
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_NO_BUFFER);
	if (!s->rx.req_op)
		s->rx.req_op = seg->op;
	else if (seg->op != s->rx.req_op)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	code = kw_ddp_take_short(&s->rx.req_got, &seg->ddp, seg->len, body_len);
	if (code)
		return KW_RX_TERM(code);
	if (seg->len && !kw_cursor_copy(c, s->rx.req + seg->ddp.mo, seg->len))
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	if (!seg->ddp.last)
		return 0;
	if (seg->ddp.mo + seg->len != body_len)
		return KW_RX_TERM(KW_TERM_RDMAP_OP_UNSPEC);
	s->rx.req_op = 0;
	s->rx.req_got = 0;
	return 0;
}

/**
 * kw_rx_read_req() - act on a segment of a Read Request
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0 or KW_RX_TERM(code).
 */
int kw_rx_read_req(struct kw_stream *s, struct kw_segment *seg,
		   struct kw_cursor *c)
{
	int ret = kw_rx_request(s, seg, c);

	return ret || !seg->ddp.last ? ret : kw_rx_read_req_last(s, seg);
}

/**
 * kw_rx_read_fail() - the answer to a request of ours is wrong
 * @s: stream
 * @e: the request
 * @status: enum ib_wc_status of its work request
 * @code: enum kw_term_code
 *
 * Context: socket lock held.
 * Return: KW_RX_TERM(@code).
 */
int kw_rx_read_fail(struct kw_stream *s, const struct kw_orq_entry *e,
		    u16 status, u16 code)
{
	if (!e->rtr)
		s->ops->wqe_done(s, e->sq_index, status);
	return KW_RX_TERM(code);
}

/* Does a segment continue the response to the oldest Read? */
static u16 kw_rx_read_resp_check(const struct kw_segment *seg,
				 const struct kw_orq_entry *e)
{
	if (seg->ddp.stag != e->sink.lkey)
		return KW_TERM_DDP_TAGGED_INV_STAG;
	if (seg->ddp.to + seg->len < seg->ddp.to)
		return KW_TERM_DDP_TAGGED_TO_WRAP;
	if (seg->ddp.to != e->sink.addr + e->done ||
	    seg->len > e->sink.length - e->done)
		return KW_TERM_DDP_TAGGED_BOUNDS;
	return 0;
}

static int kw_rx_read_resp_place(struct kw_stream *s, struct kw_segment *seg,
				 struct kw_cursor *c, struct kw_orq_entry *e)
{
	struct kw_mem *mem;
	u16 code;

	code = kw_rx_read_resp_check(seg, e);
	if (code)
		return kw_rx_read_fail(s, e, IB_WC_BAD_RESP_ERR, code);
	code = kw_check_sink(s, &e->sink, e->done, seg->len, &mem);
	if (code)
		return kw_rx_read_fail(s, e, IB_WC_LOC_PROT_ERR, code);
	if (!kw_place_tagged(s, seg, c, mem, e->sink.length - e->done))
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	kw_predict(s, seg, s->rx.sink.length - seg->len, e);
	return 0;
}

/**
 * kw_rx_read_done() - the oldest request of ours is answered
 * @s: stream
 *
 * Context: inside s->mem_srcu, socket lock held.
 */
void kw_rx_read_done(struct kw_stream *s)
{
	const struct kw_orq_entry *e = &s->orq[s->orq_head];

	s->orq_head = (s->orq_head + 1) % kw_orq_size(s);
	s->orq_len--;
	/* For a WQE that waited for this, or for the teardown. */
	if (s->tx.held || s->state != KW_STREAM_OPEN)
		s->rx.kick = true;
	if (e->inv) {
		s->ops->invalidate(s, e->sink.lkey, false);
		s->cache.mem = NULL;
	}
	if (!e->rtr) {
		s->ops->wqe_done(s, e->sq_index, IB_WC_SUCCESS);
		kw_stream_retire(s);
	}
	s->rx.rx_events += !e->unsignaled;
}

/**
 * kw_rx_read_resp() - act on a segment of a Read Response
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0 or KW_RX_TERM(code).
 */
int kw_rx_read_resp(struct kw_stream *s, struct kw_segment *seg,
		    struct kw_cursor *c)
{
	struct kw_orq_entry *e = &s->orq[s->orq_head];
	int ret = 0;

	/* Responses come in the order of requests (RFC 7306 section 7). */
	if (!s->orq_len || e->atomic)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	if (seg->len)
		ret = kw_rx_read_resp_place(s, seg, c, e);
	if (ret || !seg->ddp.last)
		return ret;
	/* RFC 5040 section 5.2.2: the last segment ends what was requested. */
	if (e->done != e->sink.length)
		return kw_rx_read_fail(s, e, IB_WC_BAD_RESP_ERR,
				       KW_TERM_DDP_TAGGED_BOUNDS);
	kw_rx_read_done(s);
	return 0;
}

/* A message's first segment takes the next receive queue entry. */
static __always_inline int
kw_rx_queue0_open(struct kw_stream *s, const struct kw_segment *seg)
{
	int ret;

	if (seg->ddp.msn != s->rx.send_msn)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_MSN_RANGE);
	ret = s->ops->next_recv(s, &s->rx.recv);
	if (!ret)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_NO_BUFFER);
	if (ret < 0)
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	s->rx.recv_open = true;
	s->rx.recv_op = seg->op;
	s->rx.recv_got.nr = 0;
	s->rx.recv_mo = 0;
	kw_sg_start(&s->rx.recv_it, s->rx.recv.sge, s->rx.recv.num_sge,
		    IB_ACCESS_LOCAL_WRITE);
	return 0;
}

static __always_inline int kw_queue0_enter(struct kw_stream *s,
					   const struct kw_segment *seg)
{
	if (!s->rx.recv_open)
		return kw_rx_queue0_open(s, seg);
	if (seg->ddp.msn != s->rx.send_msn)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_MSN_RANGE);
	if (seg->op != s->rx.recv_op)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	return 0;
}

/**
 * kw_rx_queue0_enter() - take a receive queue entry, or go on with the one taken
 * @s: stream
 * @seg: segment of a message on queue 0
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0, with the entry in s->rx.recv, or KW_RX_TERM(code).
 */
int kw_rx_queue0_enter(struct kw_stream *s, const struct kw_segment *seg)
{
	return kw_queue0_enter(s, seg);
}

static int kw_rx_send_fail(struct kw_stream *s, u16 status, u16 code)
{
	s->reason = KIWARP_TERM_SENT | code;
	s->rx.recv_open = false;
	s->ops->recv_done(s, &s->rx.recv, status, 0, false, false, 0);
	return KW_RX_TERM(code);
}

static int kw_rx_send_last(struct kw_stream *s, const struct kw_segment *seg)
{
	bool inv = seg->op == KW_RDMAP_SEND_INV ||
		   seg->op == KW_RDMAP_SEND_SE_INV;
	bool solicited = seg->op == KW_RDMAP_SEND_SE ||
			 seg->op == KW_RDMAP_SEND_SE_INV;
	int ret = 0;

	/* RFC 5040 section 5.3: invalidation comes before delivery. */
	if (inv) {
		ret = s->ops->invalidate(s, seg->ddp.ulp_dword, true);
		s->cache.mem = NULL;
	}
	/* Sections 5.3 and 7.2: why the peer may not invalidate it. */
	if (ret)
		return kw_rx_send_fail(s, IB_WC_WR_FLUSH_ERR, ret == -ENOENT ?
				       KW_TERM_RDMAP_INV_STAG :
				       KW_TERM_RDMAP_PROT_CANT_INV);
	s->rx.recv_open = false;
	s->rx.write_len = 0;
	s->rx.send_msn++;
	s->rx.rx_events++;
	s->ops->recv_done(s, &s->rx.recv, IB_WC_SUCCESS,
			 seg->ddp.mo + seg->len, solicited, inv,
			 seg->ddp.ulp_dword);
	return 0;
}

/* The zero-length Send that starts the peer-to-peer model is not delivered. */
static bool kw_rx_rtr_send(struct kw_stream *s, const struct kw_segment *seg)
{
	return s->p.rtr_await & BIT(KW_RTR_SEND) && !s->rx.started &&
	       seg->op == KW_RDMAP_SEND && !seg->len && seg->ddp.last &&
	       seg->ddp.msn == s->rx.send_msn;
}

static int kw_rx_send_place(struct kw_stream *s, const struct kw_segment *seg,
			    struct kw_cursor *c)
{
	struct kw_rx *rx = &s->rx;
	const struct kw_ddp_got *got = &rx->recv_got;
	struct kw_sg_iter *it = &rx->recv_it;
	u32 end = seg->ddp.mo + seg->len, room = 0;

	if (seg->ddp.mo != rx->recv_mo)
		kw_sg_seek(it, rx->recv.sge, seg->ddp.mo);
	if (!kw_place(s, seg, c, it))
		return kw_rx_send_fail(s, IB_WC_LOC_PROT_ERR,
				       KW_TERM_RDMAP_CATASTROPHIC);
	/* A prediction needs that all bytes so far have come in order. */
	if (got->nr == 1 && !got->range[0].from && got->range[0].to == end)
		room = min(it->sge->length - it->off, U32_MAX - end);
	kw_predict(s, seg, room, NULL);
	return 0;
}

/**
 * kw_rx_send() - act on a segment of a Send of any kind
 * @s: stream
 * @seg: the segment
 * @c: cursor at its payload; moved
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0 or KW_RX_TERM(code).
 */
__hot int kw_rx_send(struct kw_stream *s, struct kw_segment *seg,
		     struct kw_cursor *c)
{
	u16 code;
	int ret;

	if (kw_rx_rtr_send(s, seg)) {
		s->rx.send_msn++;
		return 0;
	}
	ret = kw_queue0_enter(s, seg);
	if (ret)
		return ret;
	/* A message has at most 2^32-1 bytes, whatever the buffers hold. */
	code = kw_ddp_take(&s->rx.recv_got, &seg->ddp, seg->len,
			   min_t(u64, s->rx.recv.len, U32_MAX));
	if (code == KW_TERM_DDP_UNTAGGED_TOO_LONG)
		return kw_rx_send_fail(s, IB_WC_LOC_LEN_ERR, code);
	if (code)
		return KW_RX_TERM(code);
	ret = seg->len ? kw_rx_send_place(s, seg, c) : 0;
	if (ret || !seg->ddp.last)
		return ret;
	return kw_rx_send_last(s, seg);
}
