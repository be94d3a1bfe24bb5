// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What each RDMAP message does when it arrives: checks in the order of
 * RFC 5041 section 7.1 and RFC 5040 section 7, then placement, then delivery.
 */
#include <rdma/ib_verbs.h>

#include "stream/counters.h"
#include "stream/owner.h"
#include "stream/place.h"
#include "stream/rx.h"
#include "stream/teardown.h"

/* Codes of the same check differ between DDP (tagged) and RDMAP (Read Request). */
struct kw_mem_errors {
	u16 inv_stag;
	u16 assoc;
	u16 wrap;
	u16 bounds;
	u16 access;
};

static const struct kw_mem_errors kw_tagged_errors = {
	.inv_stag = KW_TERM_DDP_TAGGED_INV_STAG,
	.assoc = KW_TERM_DDP_TAGGED_STAG_NOT_ASSOC,
	.wrap = KW_TERM_DDP_TAGGED_TO_WRAP,
	.bounds = KW_TERM_DDP_TAGGED_BOUNDS,
	.access = KW_TERM_RDMAP_ACCESS,
};

static const struct kw_mem_errors kw_read_errors = {
	.inv_stag = KW_TERM_RDMAP_INV_STAG,
	.assoc = KW_TERM_RDMAP_STAG_NOT_ASSOC,
	.wrap = KW_TERM_RDMAP_TO_WRAP,
	.bounds = KW_TERM_RDMAP_BOUNDS,
	.access = KW_TERM_RDMAP_ACCESS,
};

/*
 * May the peer touch these octets? Both the region's rights and the queue
 * pair's are asked (RFC 5041 section 8.2: association by PD and by stream).
 */
static int kw_check_remote(struct kw_stream *s, const struct kw_mem *mem,
			   u64 to, u32 len, u32 access,
			   const struct kw_mem_errors *err)
{
	if (!mem)
		return KW_RX_TERM(err->inv_stag);
	if (mem->pd != s->pd)
		return KW_RX_TERM(err->assoc);
	if (to + len < to)
		return KW_RX_TERM(err->wrap);
	if (!kw_mem_covers(mem, to, len))
		return KW_RX_TERM(err->bounds);
	if (!(mem->access & access) || !(READ_ONCE(s->access) & access))
		return KW_RX_TERM(err->access);
	return 0;
}

static struct kw_mem *kw_remote_mem(struct kw_stream *s, u32 stag)
{
	struct kw_mem *mem = s->rx.mem;

	if (!mem || mem->stag != stag || !READ_ONCE(mem->valid)) {
		mem = kw_own_mem(s, stag);
		s->rx.mem = mem;
	}
	return mem;
}

static int kw_rx_write(struct kw_stream *s, struct kw_segment *seg,
		       struct kw_cursor *c)
{
	const struct kw_mem *mem;
	int rv;

	/* RFC 5041 section 5.2: STag and TO of an empty segment are not checked. */
	if (!seg->len)
		return 0;
	mem = kw_remote_mem(s, seg->ddp.stag);
	rv = kw_check_remote(s, mem, seg->ddp.to, seg->len,
			     IB_ACCESS_REMOTE_WRITE, &kw_tagged_errors);
	if (rv)
		return rv;
	if (kw_place_tagged(s, c, mem, seg->ddp.to, seg->len))
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	return 0;
}

static int kw_rx_read_req(struct kw_stream *s, struct kw_segment *seg,
			  struct kw_cursor *c)
{
	struct kw_read_req req;
	int rv;

	if (seg->ddp.msn != s->rx.read_msn)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_MSN_RANGE);
	if (s->irq_len == s->p.ird)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_NO_BUFFER);
	if (seg->ddp.mo)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_INV_MO);
	if (seg->len > KW_READ_REQ_LEN)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_TOO_LONG);
	if (seg->len < KW_READ_REQ_LEN || !seg->ddp.last)
		return KW_RX_TERM(KW_TERM_RDMAP_OP_UNSPEC);
	if (!kw_cursor_copy(c, seg->body, KW_READ_REQ_LEN))
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	seg->has_body = true;
	kw_read_req_parse(seg->body, &req);
	if (req.size) {
		rv = kw_check_remote(s, kw_remote_mem(s, req.src_stag),
				     req.src_to, req.size,
				     IB_ACCESS_REMOTE_READ, &kw_read_errors);
		if (rv)
			return rv;
	}
	s->rx.read_msn++;
	s->irq[(s->irq_head + s->irq_len++) % s->p.ird] = req;
	s->rx.kick = true;
	return 0;
}

static int kw_rx_read_resp(struct kw_stream *s, struct kw_segment *seg,
			   struct kw_cursor *c)
{
	struct kw_orq_entry *e = &s->orq[s->orq_head];
	const struct kw_mem *mem;
	u32 left;

	if (!s->orq_len)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	left = e->sink.length - e->done;
	if (seg->len) {
		if (seg->ddp.stag != e->sink.lkey)
			return KW_RX_TERM(KW_TERM_DDP_TAGGED_INV_STAG);
		if (seg->ddp.to != e->sink.addr + e->done || seg->len > left)
			return KW_RX_TERM(KW_TERM_DDP_TAGGED_BOUNDS);
		mem = kw_remote_mem(s, e->sink.lkey);
		if (!mem)
			return KW_RX_TERM(KW_TERM_DDP_TAGGED_INV_STAG);
		if (mem->pd != s->pd ||
		    !(mem->access & IB_ACCESS_LOCAL_WRITE) ||
		    !kw_mem_covers(mem, e->sink.addr + e->done, seg->len))
			return KW_RX_TERM(KW_TERM_DDP_TAGGED_BOUNDS);
		if (kw_place_tagged(s, c, mem, seg->ddp.to, seg->len))
			return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
		e->done += seg->len;
		left -= seg->len;
	}
	if (!seg->ddp.last)
		return 0;
	/* RFC 5040 section 5.2.2: the last segment ends what was asked for. */
	if (left)
		return KW_RX_TERM(KW_TERM_DDP_TAGGED_BOUNDS);

	s->orq_head = (s->orq_head + 1) % s->p.ord;
	s->orq_len--;
	s->rx.kick = true;
	if (e->inv)
		kw_own_read_inv(s, e->sink.lkey);
	if (!e->rtr) {
		kw_own_wqe_done(s, e->sq_index, IB_WC_SUCCESS);
		kw_own_retire(s);
	}
	return 0;
}

static bool kw_op_invalidates(u8 op)
{
	return op == KW_RDMAP_SEND_INV || op == KW_RDMAP_SEND_SE_INV;
}

static bool kw_op_solicits(u8 op)
{
	return op == KW_RDMAP_SEND_SE || op == KW_RDMAP_SEND_SE_INV;
}

/* A Send's first segment takes the next receive queue entry. */
static int kw_rx_send_open(struct kw_stream *s, const struct kw_segment *seg)
{
	int rv;

	if (seg->ddp.msn != s->rx.send_msn)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_MSN_RANGE);
	rv = kw_own_next_recv(s, &s->rx.recv);
	if (!rv)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_NO_BUFFER);
	if (rv < 0)
		return KW_RX_TERM(KW_TERM_DDP_CATASTROPHIC);
	s->rx.recv_open = true;
	s->rx.recv_op = seg->op;
	s->rx.recv_len = 0;
	s->rx.recv_pos = (struct kw_sg_pos){};
	return 0;
}

static int kw_rx_send_fail(struct kw_stream *s, u16 status, u16 code)
{
	s->rx.recv_open = false;
	kw_own_recv_done(s, &s->rx.recv, status, 0, false, false, 0);
	return KW_RX_TERM(code);
}

static int kw_rx_send_last(struct kw_stream *s, const struct kw_segment *seg)
{
	bool inv = kw_op_invalidates(seg->op);

	/* RFC 5040 section 5.1: invalidation comes before delivery. */
	if (inv && kw_own_invalidate(s, seg->ddp.ulp_dword))
		return kw_rx_send_fail(s, IB_WC_WR_FLUSH_ERR,
				       KW_TERM_RDMAP_PROT_CANT_INV);
	s->rx.mem = NULL;
	s->rx.recv_open = false;
	s->rx.send_msn++;
	kw_own_recv_done(s, &s->rx.recv, IB_WC_SUCCESS, s->rx.recv_len,
			 kw_op_solicits(seg->op), inv, seg->ddp.ulp_dword);
	return 0;
}

/* The zero-length Send that starts the peer-to-peer model is not delivered. */
static bool kw_rx_rtr_send(struct kw_stream *s, const struct kw_segment *seg)
{
	return s->p.rtr == KW_RTR_SEND && !s->p.initiator && !s->rx.started &&
	       seg->op == KW_RDMAP_SEND && !seg->len && seg->ddp.last &&
	       seg->ddp.msn == s->rx.send_msn;
}

static int kw_rx_send(struct kw_stream *s, struct kw_segment *seg,
		      struct kw_cursor *c)
{
	int rv;

	if (kw_rx_rtr_send(s, seg)) {
		s->rx.send_msn++;
		return 0;
	}
	if (!s->rx.recv_open) {
		rv = kw_rx_send_open(s, seg);
		if (rv)
			return rv;
	} else if (seg->ddp.msn != s->rx.send_msn) {
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_MSN_RANGE);
	} else if (seg->op != s->rx.recv_op) {
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	}
	/* TCP keeps the order, so a segment continues where the last one ended. */
	if (seg->ddp.mo != s->rx.recv_len)
		return KW_RX_TERM(KW_TERM_DDP_UNTAGGED_INV_MO);
	if (seg->len > s->rx.recv.len - s->rx.recv_len)
		return kw_rx_send_fail(s, IB_WC_LOC_LEN_ERR,
				       KW_TERM_DDP_UNTAGGED_TOO_LONG);
	rv = kw_place_sgl(s, c, s->rx.recv.sge, s->rx.recv.num_sge,
			  &s->rx.recv_pos, seg->len);
	if (rv)
		return kw_rx_send_fail(s, IB_WC_LOC_PROT_ERR,
				       KW_TERM_RDMAP_CATASTROPHIC);
	s->rx.recv_len += seg->len;
	return seg->ddp.last ? kw_rx_send_last(s, seg) : 0;
}

/* The outbound Read that a Terminate names, by its MSN on queue 1. */
static struct kw_orq_entry *kw_term_read(struct kw_stream *s,
					 const struct kw_term *t)
{
	struct kw_ddp_hdr h;
	u32 back;

	if (!t->has_ddp || t->ddp_hdr_len != KW_DDP_UNTAGGED_LEN)
		return NULL;
	kw_ddp_parse(t->ddp_hdr, &h);
	if (h.tagged || h.qn != KW_QN_READ_REQ)
		return NULL;
	/* tx.read_msn is the next one's; the youngest outstanding is one back. */
	back = s->tx.read_msn - h.msn;
	if (!back || back > s->orq_len)
		return NULL;
	return &s->orq[(s->orq_head + s->orq_len - back) % s->p.ord];
}

static int kw_rx_terminate(struct kw_stream *s, struct kw_segment *seg,
			   struct kw_cursor *c)
{
	struct kw_orq_entry *e;
	u8 buf[KW_TERM_MAX_LEN];
	struct kw_term t;
	u32 len = min_t(u32, seg->len, sizeof(buf));

	atomic64_inc(&s->counters[KW_CNT_TERM_RECEIVED]);
	if (kw_cursor_copy(c, buf, len) && !kw_term_parse(buf, len, &t)) {
		pr_debug_ratelimited("stream %p: peer terminated: %s\n", s,
				     kw_term_str(kw_term_get_code(&t)));
		e = kw_term_read(s, &t);
		if (e && !e->rtr)
			kw_own_wqe_done(s, e->sq_index, IB_WC_REM_ACCESS_ERR);
	}
	kw_stream_fail(s, KW_FAIL_FATAL, false);
	return KW_RX_STOP;
}

typedef int (*kw_rx_handler)(struct kw_stream *s, struct kw_segment *seg,
			     struct kw_cursor *c);

static const kw_rx_handler kw_rx_handlers[KW_RDMAP_NR_OPS] = {
	[KW_RDMAP_WRITE] = kw_rx_write,
	[KW_RDMAP_READ_REQ] = kw_rx_read_req,
	[KW_RDMAP_READ_RESP] = kw_rx_read_resp,
	[KW_RDMAP_SEND] = kw_rx_send,
	[KW_RDMAP_SEND_INV] = kw_rx_send,
	[KW_RDMAP_SEND_SE] = kw_rx_send,
	[KW_RDMAP_SEND_SE_INV] = kw_rx_send,
	[KW_RDMAP_TERMINATE] = kw_rx_terminate,
};

/**
 * kw_rx_segment() - act on one DDP segment
 * @s: stream
 * @seg: the segment; its header is parsed and its versions are right
 * @c: cursor at its payload; moved
 *
 * Context: inside s->mem_srcu, socket lock held.
 * Return: 0, KW_RX_TERM(code) or KW_RX_STOP.
 */
int kw_rx_segment(struct kw_stream *s, struct kw_segment *seg,
		  struct kw_cursor *c)
{
	kw_rx_handler handler = kw_rx_handlers[seg->op];
	int rv;

	if (!handler)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	rv = handler(s, seg, c);
	if (!s->rx.started) {
		/* The initiator speaks first: from now on this side may. */
		s->rx.started = true;
		s->tx.gate = false;
		s->rx.kick = true;
	}
	return rv;
}
