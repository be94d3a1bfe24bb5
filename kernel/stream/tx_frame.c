// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * From work requests to FPDUs: choosing the next message, segmenting it
 * (RFC 5041 section 5.2), framing each segment (RFC 5044 section 4).
 */
#include <linux/unaligned.h>
#include <rdma/ib_verbs.h>

#include "stream/counters.h"
#include "stream/owner.h"
#include "stream/place.h"
#include "stream/teardown.h"
#include "stream/tx.h"
#include "stream/tx_middle.h"
#include "stream/vec.h"
#include "stream/zcopy.h"
#include "trace.h"

/* RDMAP opcodes of the send queue's messages: [invalidate][solicited] */
static const u8 kw_send_ops[2][2] = {
	{ KW_RDMAP_SEND, KW_RDMAP_SEND_SE },
	{ KW_RDMAP_SEND_INV, KW_RDMAP_SEND_SE_INV },
};

/*
 * How many octets of payload the next FPDU carries, or -1 if it does not fit
 * into the chunk.
 */
static int kw_fpdu_payload(struct kw_chunk *ch, u32 hdr_len, u32 want)
{
	int n = kw_cut_payload(&ch->cut, ch->left, hdr_len, want);

	if (n >= 0)
		return n;
	ch->full = true;
	ch->eor = n == KW_CUT_SEGMENT;
	return -1;
}

/* The same for a ULPDU that is not divided: does it fit? */
static bool kw_fpdu_fits(struct kw_chunk *ch, u32 ulpdu_len)
{
	return !kw_fpdu_payload(ch, ulpdu_len, 0);
}

/* Where the ULPDU is to be put: behind room for the FPDU's markers. */
static u8 *kw_fpdu_ulpdu(struct kw_chunk *ch, u32 ulpdu_len)
{
	u8 *p = ch->p + KW_MPA_HDR_LEN;

	ch->summed = NULL;
	if (!ch->cut.markers)
		return p;
	return p + KW_MARKER_LEN * kw_markers_in(ch->cut.off,
						 kw_fpdu_len(ulpdu_len));
}

/*
 * Begin the CRC with what stands before the payload, so that it can be
 * continued while the payload is copied. Markers are in the way of that.
 */
static u32 *kw_fpdu_sum(const struct kw_stream *s, struct kw_chunk *ch,
			u8 *ulpdu, u32 hdr_len, u32 len)
{
	if (!s->p.crc || ch->cut.markers)
		return NULL;
	put_unaligned_be16(hdr_len + len, ulpdu - KW_MPA_HDR_LEN);
	ch->crc = kw_crc32c(KW_CRC_SEED, ch->p, KW_MPA_HDR_LEN + hdr_len);
	ch->summed = ulpdu + hdr_len + len;
	return &ch->crc;
}

static void kw_fpdu_put_crc(const struct kw_chunk *ch, u8 *field)
{
	const u8 *from = ch->summed ? ch->summed : ch->p;
	u32 crc = ch->summed ? ch->crc : KW_CRC_SEED;

	kw_crc_put(field, kw_long_crc32c(crc, from, field - from));
}

/* Around a ULPDU, which stands where kw_fpdu_ulpdu() said. */
static void kw_fpdu_finish(struct kw_stream *s, struct kw_chunk *ch,
			   u8 *ulpdu, u32 ulpdu_len)
{
	u32 pad = kw_fpdu_pad(ulpdu_len);
	u32 len = KW_MPA_HDR_LEN + ulpdu_len + pad + KW_MPA_CRC_LEN;
	u8 *crc;

	put_unaligned_be16(ulpdu_len, ulpdu - KW_MPA_HDR_LEN);
	memset(ulpdu + ulpdu_len, 0, pad);
	if (ch->cut.markers)
		len = kw_markers_insert(ch->p, ch->cut.off, len);
	crc = ch->p + len - KW_MPA_CRC_LEN;
	if (s->p.crc)
		kw_fpdu_put_crc(ch, crc);
	else
		memset(crc, 0, KW_MPA_CRC_LEN);
	ch->p += len;
	ch->left -= len;
	ch->fpdus++;
	kw_cut_advance(&ch->cut, len);
}

static bool kw_frame_term(struct kw_stream *s, struct kw_chunk *ch)
{
	u8 body[KW_TERM_MAX_LEN];
	u32 len = kw_term_build(body, &s->tx.term);
	u8 *p;

	if (!kw_fpdu_fits(ch, KW_DDP_UNTAGGED_LEN + len))
		return false;
	p = kw_fpdu_ulpdu(ch, KW_DDP_UNTAGGED_LEN + len);
	kw_ddp_put_untagged(p, true, KW_RDMAP_CTRL(KW_RDMAP_TERMINATE), 0,
			    KW_QN_TERMINATE, 1, 0);
	memcpy(p + KW_DDP_UNTAGGED_LEN, body, len);
	kw_fpdu_finish(s, ch, p, KW_DDP_UNTAGGED_LEN + len);
	s->tx.term_pending = false;
	s->tx.term_sent = true;
	kw_counter_add(s->counters, KW_CNT_TERM_SENT, 1);
	trace_kw_terminate_sent(s->ibdev, s->qpn, s->reason);
	return true;
}

static void kw_orq_push(struct kw_stream *s, const struct kw_orq_entry *e)
{
	s->orq[(s->orq_head + s->orq_len++) % s->p.ord] = *e;
}

static bool kw_frame_read_req(struct kw_stream *s, struct kw_chunk *ch,
			      const struct kw_read_req *req)
{
	const u32 len = KW_DDP_UNTAGGED_LEN + KW_READ_REQ_LEN;
	u8 *p;

	if (!kw_fpdu_fits(ch, len))
		return false;
	p = kw_fpdu_ulpdu(ch, len);
	kw_ddp_put_untagged(p, true, KW_RDMAP_CTRL(KW_RDMAP_READ_REQ), 0,
			    KW_QN_READ_REQ, s->tx.read_msn++, 0);
	kw_read_req_build(p + KW_DDP_UNTAGGED_LEN, req);
	kw_fpdu_finish(s, ch, p, len);
	return true;
}

/* RFC 6581 section 5: the FPDU that opens the peer-to-peer model. */
static bool kw_frame_rtr(struct kw_stream *s, struct kw_chunk *ch)
{
	const struct kw_orq_entry rtr = { .rtr = true };
	const struct kw_read_req req = {};
	u8 *p;

	switch (s->p.rtr) {
	case KW_RTR_READ:
		if (!kw_frame_read_req(s, ch, &req))
			return false;
		kw_orq_push(s, &rtr);
		break;
	case KW_RTR_SEND:
		if (!kw_fpdu_fits(ch, KW_DDP_UNTAGGED_LEN))
			return false;
		p = kw_fpdu_ulpdu(ch, KW_DDP_UNTAGGED_LEN);
		kw_ddp_put_untagged(p, true, KW_RDMAP_CTRL(KW_RDMAP_SEND), 0,
				    KW_QN_SEND, s->tx.send_msn++, 0);
		kw_fpdu_finish(s, ch, p, KW_DDP_UNTAGGED_LEN);
		break;
	default:
		if (!kw_fpdu_fits(ch, KW_DDP_TAGGED_LEN))
			return false;
		p = kw_fpdu_ulpdu(ch, KW_DDP_TAGGED_LEN);
		kw_ddp_put_tagged(p, true, KW_RDMAP_CTRL(KW_RDMAP_WRITE), 0, 0);
		kw_fpdu_finish(s, ch, p, KW_DDP_TAGGED_LEN);
	}
	s->tx.rtr_pending = false;
	return true;
}

static bool kw_wqe_is_read(const struct kw_wqe *w)
{
	return w->opcode == KIWARP_OP_READ || w->opcode == KIWARP_OP_READ_INV;
}

static bool kw_wqe_may_start(const struct kw_stream *s, const struct kw_wqe *w)
{
	if ((w->flags & KIWARP_SQE_FENCE) && s->orq_len)
		return false;
	/* With no Reads allowed at all, kw_wqe_check() is to say so. */
	return !kw_wqe_is_read(w) || !s->p.ord || s->orq_len < s->p.ord;
}

/* A local fault: the WQE completes in error and the stream ends. */
static void kw_wqe_fail(struct kw_stream *s, u16 status)
{
	s->tx.msg = KW_MSG_NONE;
	s->tx.held = false;
	kw_own_wqe_done(s, s->tx.wqe.index, status);
	kw_term_set(&s->tx.term, KW_TERM_RDMAP_CATASTROPHIC, 0, NULL, NULL);
	kw_stream_fail(s, KW_FAIL_LOCAL, true);
}

/* Checks that are made once, before the first octet of a message goes out. */
static u16 kw_wqe_check(struct kw_stream *s, const struct kw_wqe *w)
{
	u32 access = kw_wqe_is_read(w) ? IB_ACCESS_LOCAL_WRITE : 0;

	if (w->status != IB_WC_SUCCESS)
		return w->status;
	if (kw_wqe_is_read(w) && !s->p.ord)
		return IB_WC_LOC_QP_OP_ERR;
	/* Of a single entry, gathering the first octet checks all of it. */
	if ((access || w->num_sge > 1) &&
	    kw_check_sgl(s, w->sge, w->num_sge, access))
		return IB_WC_LOC_PROT_ERR;
	if (w->opcode == KIWARP_OP_READ_INV &&
	    (!w->num_sge || kw_check_inv(s, &w->sge[0])))
		return IB_WC_LOC_PROT_ERR;
	return IB_WC_SUCCESS;
}

static bool kw_wqe_is_local(const struct kw_wqe *w)
{
	return w->opcode == KIWARP_OP_LOCAL_INV ||
	       w->opcode == KIWARP_OP_REG_MR;
}

/* Start the held WQE. Returns false if the stream failed over it. */
static bool kw_wqe_start(struct kw_stream *s)
{
	struct kw_wqe *w = &s->tx.wqe;
	u16 status = kw_wqe_check(s, w);

	if (status == IB_WC_SUCCESS && kw_wqe_is_local(w)) {
		status = kw_own_local_op(s, w);
		if (status == IB_WC_SUCCESS) {
			s->tx.held = false;
			kw_own_wqe_done(s, w->index, status);
			return true;
		}
	}
	if (status != IB_WC_SUCCESS) {
		kw_wqe_fail(s, status);
		return false;
	}
	s->tx.held = false;
	s->tx.msg = KW_MSG_WQE;
	s->tx.off = 0;
	s->tx.pos = (struct kw_sg_pos){};
	if (w->len >= s->zcopy_min && !kw_wqe_is_read(w))
		kw_zc_lend(s);
	return true;
}

static bool kw_sq_work(const struct kw_stream *s)
{
	return s->state == KW_STREAM_OPEN || s->state == KW_STREAM_CLOSING;
}

/* Take the next WQE that may start. */
static bool kw_next_wqe(struct kw_stream *s)
{
	while (kw_sq_work(s) && s->tx.msg == KW_MSG_NONE) {
		if (!s->tx.held && !kw_own_next_wqe(s, &s->tx.wqe))
			return false;
		s->tx.held = true;
		if (!kw_wqe_may_start(s, &s->tx.wqe))
			return false;
		if (!kw_wqe_start(s))
			return false;
	}
	return s->tx.msg != KW_MSG_NONE;
}

/*
 * Choose the next message. Messages do not interleave (RFC 5041 section 5.3),
 * so Read Responses and the send queue take turns, message by message.
 */
static bool kw_next_msg(struct kw_stream *s)
{
	if (!kw_sq_work(s))
		return false;
	if (s->irq_len && !(s->tx.responded && kw_next_wqe(s))) {
		s->tx.msg = KW_MSG_READ_RESP;
		s->tx.off = 0;
		return true;
	}
	return kw_next_wqe(s);
}

static bool kw_frame_wqe_read(struct kw_stream *s, struct kw_chunk *ch)
{
	const struct kw_wqe *w = &s->tx.wqe;
	struct kw_orq_entry e = {
		.sq_index = w->index,
		.quiet = !(w->flags & KIWARP_SQE_SIGNALED),
		.inv = w->opcode == KIWARP_OP_READ_INV,
	};
	struct kw_read_req req;

	if (w->num_sge)
		e.sink = w->sge[0];
	req = (struct kw_read_req){
		.sink_stag = e.sink.lkey,
		.sink_to = e.sink.addr,
		.size = e.sink.length,
		.src_stag = w->rkey,
		.src_to = w->raddr,
	};
	if (!kw_frame_read_req(s, ch, &req))
		return false;
	kw_orq_push(s, &e);
	s->tx.msg = KW_MSG_NONE;
	return true;
}

/* The payload of an FPDU, behind its header, which is complete. */
static int kw_wqe_gather(struct kw_stream *s, struct kw_chunk *ch, u8 *ulpdu,
			 u32 hdr_len, u32 len)
{
	struct kw_wqe *w = &s->tx.wqe;

	if (w->flags & KIWARP_SQE_INLINE) {
		memcpy(ulpdu + hdr_len, w->inl + s->tx.off, len);
		return 0;
	}
	return kw_gather_sgl(s, ulpdu + hdr_len, w->sge, w->num_sge,
			     &s->tx.pos, len, 0,
			     kw_fpdu_sum(s, ch, ulpdu, hdr_len, len));
}

static u32 kw_wqe_hdr_len(const struct kw_wqe *w)
{
	return w->opcode == KIWARP_OP_WRITE ? KW_DDP_TAGGED_LEN :
					      KW_DDP_UNTAGGED_LEN;
}

/* The DDP header of the FPDU that carries the next @len octets. */
static void kw_wqe_header(const struct kw_stream *s, u8 *p, u32 len)
{
	const struct kw_wqe *w = &s->tx.wqe;
	bool inv = w->opcode == KIWARP_OP_SEND_INV;
	bool last = s->tx.off + len == w->len;
	u8 op;

	if (w->opcode == KIWARP_OP_WRITE) {
		kw_ddp_put_tagged(p, last, KW_RDMAP_CTRL(KW_RDMAP_WRITE),
				  w->rkey, w->raddr + s->tx.off);
		return;
	}
	op = kw_send_ops[inv][!!(w->flags & KIWARP_SQE_SOLICITED)];
	kw_ddp_put_untagged(p, last, KW_RDMAP_CTRL(op), inv ? w->inv_stag : 0,
			    KW_QN_SEND, s->tx.send_msn, s->tx.off);
}

/* The FPDU that carries them is built. */
static void kw_wqe_advance(struct kw_stream *s, u32 len)
{
	const struct kw_wqe *w = &s->tx.wqe;

	s->tx.off += len;
	if (s->tx.off != w->len)
		return;
	if (w->opcode != KIWARP_OP_WRITE)
		s->tx.send_msn++;
	s->tx.msg = KW_MSG_NONE;
	s->tx.responded = false;
	if (s->tx.lent)
		kw_zc_framed(s, true);
	else
		kw_own_wqe_done(s, w->index, IB_WC_SUCCESS);
}

/* What kw_frame_wqe_lent() has done. */
enum kw_lent {
	KW_LENT_BUILT,
	KW_LENT_STOP,		/* the chunk is full, or the stream has failed */
	KW_LENT_COPY,		/* nothing: this FPDU's payload is to be copied */
};

/* An FPDU of payload that stays where it is: see zcopy.c. */
static enum kw_lent kw_frame_wqe_lent(struct kw_stream *s, struct kw_chunk *ch)
{
	const struct kw_wqe *w = &s->tx.wqe;
	u32 ulpdu_len, pad, hdr_len = kw_wqe_hdr_len(w);
	u8 *field, *end = ch->p + KW_MPA_HDR_LEN + hdr_len;
	int len, pieces;

	ch->full = true;
	ch->eor = true;
	if (!kw_zc_begin(s, ch) || ch->left < KW_ZC_BLOCK_MIN)
		return KW_LENT_STOP;
	len = kw_cut_payload(&ch->cut, KW_ZC_LEFT, hdr_len, w->len - s->tx.off);
	if (len < 0)
		return KW_LENT_STOP;
	pieces = len < KW_ZC_PAYLOAD_MIN ? 0 : kw_zc_collect(s, len);
	if (pieces == -EMSGSIZE)
		return KW_LENT_STOP;
	ch->full = false;
	ch->eor = false;
	if (!pieces)
		return KW_LENT_COPY;
	if (pieces < 0) {
		kw_wqe_fail(s, IB_WC_LOC_PROT_ERR);
		return KW_LENT_STOP;
	}
	ulpdu_len = hdr_len + len;
	pad = kw_fpdu_pad(ulpdu_len);
	put_unaligned_be16(ulpdu_len, ch->p);
	kw_wqe_header(s, ch->p + KW_MPA_HDR_LEN, len);
	memset(end, 0, pad);
	field = end + pad;
	memset(field, 0, KW_MPA_CRC_LEN);
	if (s->p.crc) {
		u32 crc = kw_crc32c(KW_CRC_SEED, ch->p, end - ch->p);

		crc = kw_zc_sum(s, crc, pieces);
		kw_crc_put(field, kw_crc32c(crc, end, pad));
	}
	kw_zc_add(s, end, pieces, end);
	field += KW_MPA_CRC_LEN;
	/* What is left stays a multiple of four: see kw_cut_payload(). */
	ch->left = (ch->left - (u32)(field - ch->p)) & ~3u;
	ch->p = field;
	ch->fpdus++;
	kw_cut_advance(&ch->cut, kw_fpdu_len(ulpdu_len));
	kw_wqe_advance(s, len);
	return KW_LENT_BUILT;
}

/*
 * As many FPDUs as the short way has room for. Returns whether there are any.
 * Not inline, because the kernel clears variables when their function begins.
 */
static noinline bool kw_frame_wqe_middle(struct kw_stream *s,
					 struct kw_chunk *ch)
{
	const struct kw_wqe *w = &s->tx.wqe;
	struct kw_sg_pos *pos = &s->tx.pos;
	struct kw_middle m = {
		.sge = &w->sge[pos->idx],
		.end = &w->sge[w->num_sge],
		.off = pos->off,
		.left = w->len - s->tx.off,
		.tagged = w->opcode == KIWARP_OP_WRITE,
		.at = s->tx.off,
	};
	u32 len;

	if ((w->flags & KIWARP_SQE_INLINE) || s->tx.lent ||
	    pos->idx >= w->num_sge)
		return false;
	if (m.tagged)
		m.at += w->raddr;
	kw_wqe_header(s, m.head + KW_MPA_HDR_LEN, 0);
	len = kw_middle_frame(s, ch, &m);
	pos->idx = m.sge - w->sge;
	pos->off = m.off;
	s->tx.off += len;
	return len;
}

static bool kw_frame_wqe(struct kw_stream *s, struct kw_chunk *ch)
{
	const struct kw_wqe *w = &s->tx.wqe;
	u32 hdr_len, len;
	u8 *p;
	int n;

	if (kw_wqe_is_read(w))
		return kw_frame_wqe_read(s, ch);
	if (s->tx.lent) {
		enum kw_lent lent = kw_frame_wqe_lent(s, ch);

		if (lent != KW_LENT_COPY)
			return lent == KW_LENT_BUILT;
	}
	if (kw_middle_is(ch, w->len - s->tx.off) && kw_frame_wqe_middle(s, ch))
		return true;

	hdr_len = kw_wqe_hdr_len(w);
	n = kw_fpdu_payload(ch, hdr_len, w->len - s->tx.off);
	if (n < 0)
		return false;
	len = n;
	p = kw_fpdu_ulpdu(ch, hdr_len + len);
	kw_wqe_header(s, p, len);
	if (kw_wqe_gather(s, ch, p, hdr_len, len)) {
		kw_wqe_fail(s, IB_WC_LOC_PROT_ERR);
		return false;
	}
	kw_fpdu_finish(s, ch, p, hdr_len + len);
	kw_wqe_advance(s, len);
	return true;
}

/*
 * The source may have been deregistered since the request was checked. The
 * peer is shown what is left of the request (RFC 5040 section 4.8).
 */
static void kw_read_resp_fail(struct kw_stream *s, u32 len)
{
	struct kw_read_req left = s->irq[s->irq_head];
	u16 code;
	u8 hdr[KW_DDP_UNTAGGED_LEN];
	u8 body[KW_READ_REQ_LEN];

	left.sink_to += s->tx.off;
	left.src_to += s->tx.off;
	left.size -= s->tx.off;
	code = kw_check_read(s, left.src_stag, left.src_to, len);
	/* Those held have successive MSNs, and this is the oldest. */
	kw_ddp_put_untagged(hdr, true, KW_RDMAP_CTRL(KW_RDMAP_READ_REQ), 0,
			    KW_QN_READ_REQ, s->rx.read_msn - s->irq_len, 0);
	kw_read_req_build(body, &left);
	s->tx.msg = KW_MSG_NONE;
	kw_term_set(&s->tx.term, code ? code : KW_TERM_RDMAP_INV_STAG,
		    sizeof(hdr) + sizeof(body), hdr, body);
	kw_stream_fail(s, KW_FAIL_REMOTE_ACCESS, true);
}

static noinline bool kw_frame_read_resp_middle(struct kw_stream *s,
					       struct kw_chunk *ch)
{
	const struct kw_read_req *r = &s->irq[s->irq_head];
	const struct kiwarp_sge src = {
		.addr = r->src_to, .lkey = r->src_stag, .length = r->size,
	};
	struct kw_middle m = {
		.sge = &src,
		.end = &src + 1,
		.off = s->tx.off,
		.left = r->size - s->tx.off,
		.access = IB_ACCESS_REMOTE_READ,
		.tagged = true,
		.at = r->sink_to + s->tx.off,
	};
	u32 len;

	kw_ddp_put_tagged(m.head + KW_MPA_HDR_LEN, false,
			  KW_RDMAP_CTRL(KW_RDMAP_READ_RESP), r->sink_stag, 0);
	len = kw_middle_frame(s, ch, &m);
	s->tx.off += len;
	return len;
}

static bool kw_frame_read_resp(struct kw_stream *s, struct kw_chunk *ch)
{
	const struct kw_read_req *r = &s->irq[s->irq_head];
	struct kiwarp_sge src = {
		.addr = r->src_to + s->tx.off, .lkey = r->src_stag,
	};
	struct kw_sg_pos pos = {};
	bool last;
	u8 *p;
	int n;

	if (kw_middle_is(ch, r->size - s->tx.off) &&
	    kw_frame_read_resp_middle(s, ch))
		return true;
	n = kw_fpdu_payload(ch, KW_DDP_TAGGED_LEN, r->size - s->tx.off);
	if (n < 0)
		return false;
	src.length = n;
	p = kw_fpdu_ulpdu(ch, KW_DDP_TAGGED_LEN + n);
	last = s->tx.off + n == r->size;
	kw_ddp_put_tagged(p, last, KW_RDMAP_CTRL(KW_RDMAP_READ_RESP),
			  r->sink_stag, r->sink_to + s->tx.off);
	if (kw_gather_sgl(s, p + KW_DDP_TAGGED_LEN, &src, 1, &pos, n,
			  IB_ACCESS_REMOTE_READ,
			  kw_fpdu_sum(s, ch, p, KW_DDP_TAGGED_LEN, n))) {
		kw_read_resp_fail(s, n);
		return false;
	}
	kw_fpdu_finish(s, ch, p, KW_DDP_TAGGED_LEN + n);
	s->tx.off += n;
	if (last) {
		s->irq_head = (s->irq_head + 1) % s->p.ird;
		s->irq_len--;
		s->tx.msg = KW_MSG_NONE;
		s->tx.responded = true;
	}
	return true;
}

/**
 * kw_tx_more() - whether there is something to frame
 * @s: stream
 *
 * Takes a WQE off the send queue if that is what comes next.
 *
 * Context: inside s->mem_srcu, socket lock held, transmit token owned.
 * Return: true if kw_tx_frame() has something to do.
 */
bool kw_tx_more(struct kw_stream *s)
{
	if (s->tx.term_pending)
		return true;
	if (s->tx.term_sent || !kw_sq_work(s))
		return false;
	if (s->tx.rtr_pending)
		return true;
	if (s->tx.gate)
		return false;
	return s->tx.msg != KW_MSG_NONE || kw_next_msg(s) ||
	       s->tx.term_pending;
}

/**
 * kw_tx_frame() - build the next FPDU, or FPDUs
 * @s: stream
 * @ch: where to
 *
 * Context: as kw_tx_more().
 * Return: true if an FPDU, or several, were built; else @ch->full says whether a
 * new chunk is wanted or there is nothing (more) to do.
 */
bool kw_tx_frame(struct kw_stream *s, struct kw_chunk *ch)
{
	bool built;

	if (!kw_tx_more(s))
		return false;
	if (s->tx.term_pending)
		return kw_frame_term(s, ch);
	if (s->tx.rtr_pending)
		return kw_frame_rtr(s, ch);
	if (s->tx.msg == KW_MSG_READ_RESP)
		built = kw_frame_read_resp(s, ch);
	else
		built = kw_frame_wqe(s, ch);
	/* Memory that may not be read leaves a Terminate in its place. */
	if (!built && s->tx.term_pending)
		built = kw_frame_term(s, ch);
	return built;
}
