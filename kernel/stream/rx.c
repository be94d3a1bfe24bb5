// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The receive pass: from the socket's queue to whole, checked FPDUs.
 *
 * An FPDU is left in the socket until all of it is there. Its CRC is checked
 * before a single byte is placed, so that a damaged header can not direct
 * bytes into the wrong buffer (RFC 5044: an FPDU with a bad CRC is not given
 * to DDP); the second touch, to place, finds the bytes in the cache.
 */
#include <linux/unaligned.h>
#include <net/tcp.h>
#include <trace/events/sock.h>

#include "stream/counters.h"
#include "stream/priv.h"
#include "stream/rx.h"
#include "stream/vec.h"
#include "trace.h"
#include "wire/check.h"

static void kw_rx_count(struct kw_stream *s, enum kw_counter c, u64 n)
{
	kw_counter_add(s->counters, c, n);
}

static bool kw_rx_crc_ok_split(const struct kw_cursor *at, u32 len)
{
	struct kw_cursor c = *at;
	u8 field[KW_MPA_CRC_LEN];
	u32 crc = KW_CRC_SEED;

	return kw_cursor_crc(&c, len, &crc) &&
	       kw_cursor_copy(&c, field, KW_MPA_CRC_LEN) &&
	       kw_crc_get(field) == crc;
}

/*
 * The trailer: CRC32C over everything before it. The CRC field is there but
 * means nothing when neither side asked for it.
 */
static bool kw_rx_crc_ok(const struct kw_cursor *at, u32 fpdu_len)
{
	u32 len = fpdu_len - KW_MPA_CRC_LEN;

	if (at->left < fpdu_len)
		return kw_rx_crc_ok_split(at, len);
	return kw_crc_get(at->p + len) ==
	       kw_crc32c_auto(KW_CRC_SEED, at->p, len);
}

/* What a header says by itself is checked here, before anything is believed. */
static __always_inline int kw_rx_header(struct kw_segment *seg, u32 ulpdu_len)
{
	u32 hdr_len = kw_ddp_hdr_len(seg->raw[KW_MPA_HDR_LEN]);
	u16 code;

	if (ulpdu_len < hdr_len)
		return KW_RX_TERM(KW_TERM_MPA_MARKER);
	seg->len = ulpdu_len - hdr_len;
	kw_ddp_parse(seg->raw + KW_MPA_HDR_LEN, &seg->ddp);
	seg->op = kw_rdmap_op(seg->ddp.rsvd_ulp_ctrl);
	seg->read_req = NULL;
	code = kw_ddp_check_header(&seg->ddp);
	if (!code)
		code = kw_rdmap_check_header(&seg->ddp);
	return code ? KW_RX_TERM(code) : 0;
}

/*
 * Cursors are variables of functions that are called only where they are
 * needed: the kernel has every variable cleared when its function begins.
 */
static bool kw_rx_peek_split(const struct kw_stream *s,
			     const struct kw_cursor *at, u8 *raw)
{
	struct kw_cursor c = *at;

	if (s->p.rx_markers)
		kw_cursor_skip_markers(&c, kw_marker_dist(s->rx.stream_off));
	if (!kw_cursor_copy(&c, raw, KW_MPA_HDR_LEN))
		return false;
	kw_cursor_copy(&c, raw + KW_MPA_HDR_LEN,
		       KW_RX_RAW_LEN - KW_MPA_HDR_LEN);
	return true;
}

static bool kw_rx_markers_ok_split(const struct kw_cursor *at, u32 off, u32 span)
{
	u32 pos = kw_marker_dist(off), run = pos;
	struct kw_cursor c = *at;
	u8 marker[KW_MARKER_LEN];

	for (; pos < span; pos += KW_MARKER_INTERVAL) {
		if (!kw_cursor_skip(&c, run) ||
		    !kw_cursor_copy(&c, marker, KW_MARKER_LEN) ||
		    kw_marker_get(marker) != kw_marker_ptr(off, pos))
			return false;
		run = KW_MARKER_INTERVAL - KW_MARKER_LEN;
	}
	return true;
}

/* Do the markers agree with where the lengths say that this FPDU begins? */
static bool kw_rx_markers_ok(const struct kw_stream *s,
			     const struct kw_cursor *at, u32 span)
{
	if (at->left < span)
		return kw_rx_markers_ok_split(at, s->rx.stream_off, span);
	return kw_markers_ok(at->p, s->rx.stream_off, span);
}

/*
 * What follows is compiled twice, so that streams without markers, which are
 * the most, pay for a single question.
 */

/*
 * The MPA length and the DDP header, without markers. Only the length must
 * have been received; if not all of the rest has, the FPDU is not complete.
 */
static __always_inline bool kw_rx_peek(const struct kw_stream *s,
				       const struct kw_cursor *at, u8 *raw,
				       const bool marked)
{
	if (marked || at->left < KW_RX_RAW_LEN)
		return kw_rx_peek_split(s, at, raw);
	memcpy(raw, at->p, KW_RX_RAW_LEN);
	return true;
}

/* Give the segment to its handler, with a cursor at its payload. */
static __always_inline int kw_rx_deliver(struct kw_stream *s,
					 const struct kw_cursor *at,
					 struct kw_segment *seg, u32 ulpdu_len,
					 const bool marked)
{
	struct kw_cursor c = *at;

	if (marked)
		kw_cursor_skip_markers(&c, kw_marker_dist(s->rx.stream_off));
	kw_cursor_skip(&c, KW_MPA_HDR_LEN + ulpdu_len - seg->len);
	return kw_rx_segment(s, seg, &c);
}

/* Checks of a complete FPDU, in the order of RFC 5044 section 8. */
static __always_inline int kw_rx_check(const struct kw_stream *s,
				       const struct kw_cursor *c, u32 span,
				       struct kw_segment *seg,
				       const bool marked)
{
	u32 ulpdu_len = get_unaligned_be16(seg->raw);

	if (s->p.crc && !kw_rx_crc_ok(c, span))
		return KW_RX_TERM(KW_TERM_MPA_CRC);
	if (marked && !kw_rx_markers_ok(s, c, span))
		return KW_RX_TERM(KW_TERM_MPA_MARKER);
	if (ulpdu_len < KW_DDP_CTRL_LEN)
		return KW_RX_TERM(KW_TERM_MPA_MARKER);
	return kw_rx_header(seg, ulpdu_len);
}

/*
 * Handle the FPDU at the cursor, of which avail bytes have been received.
 * When not all of it is there, used is 0 and s->rx.need says what is; else
 * used is what it takes and the cursor moves past it. Returns as
 * kw_rx_segment().
 */
static __always_inline int kw_rx_fpdu_as(struct kw_stream *s,
					 struct kw_cursor *c, u32 avail,
					 u32 *used, struct kw_segment *seg,
					 const bool marked)
{
	u32 head_len = KW_MPA_HDR_LEN, ulpdu_len, span;
	int rv;

	*used = 0;
	/* A marker that stands between FPDUs precedes the length. */
	if (marked && !kw_marker_dist(s->rx.stream_off))
		head_len += KW_MARKER_LEN;
	if (avail < head_len) {
		s->rx.need = head_len;
		return 0;
	}
	if (!c->left)
		kw_cursor_next(c);
	if (!kw_rx_peek(s, c, seg->raw, marked))
		return KW_RX_TERM(KW_TERM_MPA_TCP_LOST);
	ulpdu_len = get_unaligned_be16(seg->raw);
	span = kw_fpdu_span(s->rx.stream_off, kw_fpdu_len(ulpdu_len), marked);
	if (avail < span) {
		s->rx.need = span;
		return 0;
	}
	*used = span;
	rv = kw_rx_check(s, c, span, seg, marked);
	if (rv)
		return rv;
	rv = kw_rx_deliver(s, c, seg, ulpdu_len, marked);
	if (!rv) {
		kw_cursor_skip(c, span);
		if (marked)
			s->rx.stream_off += span;
	}
	return rv;
}

static noinline int kw_rx_fpdu_marked(struct kw_stream *s, struct kw_cursor *c,
				      u32 avail, u32 *used,
				      struct kw_segment *seg)
{
	return kw_rx_fpdu_as(s, c, avail, used, seg, true);
}

static int kw_rx_fpdu(struct kw_stream *s, struct kw_cursor *c, u32 avail,
		      u32 *used, struct kw_segment *seg)
{
	if (s->p.rx_markers)
		return kw_rx_fpdu_marked(s, c, avail, used, seg);
	return kw_rx_fpdu_as(s, c, avail, used, seg, false);
}

/* Failure reason and counter of an error in what the peer sent. */
static enum kw_fail kw_rx_count_error(struct kw_stream *s, u16 code)
{
	struct kw_term t;

	kw_term_set_code(&t, code);
	if (code == KW_TERM_MPA_CRC)
		kw_rx_count(s, KW_CNT_RX_CRC_ERRORS, 1);
	if (code == KW_TERM_MPA_MARKER)
		kw_rx_count(s, KW_CNT_RX_MARKER_ERRORS, 1);
	if (t.layer == KW_TERM_LAYER_LLP)
		return KW_FAIL_FATAL;
	kw_rx_count(s, t.layer == KW_TERM_LAYER_DDP ? KW_CNT_RX_DDP_ERRORS :
						      KW_CNT_RX_RDMAP_ERRORS, 1);
	switch (t.type) {
	case 0:
		return KW_FAIL_FATAL;
	case 1:
		return KW_FAIL_REMOTE_ACCESS;
	default:
		return KW_FAIL_REMOTE_REQUEST;
	}
}

/* Remember what to tell the peer, with the headers that it needs to see. */
static void kw_rx_error(struct kw_stream *s, int rv,
			const struct kw_segment *seg)
{
	u16 code = rv & 0xffff;

	if (rv == KW_RX_STOP)
		return;
	kw_term_set(&s->tx.term, code, get_unaligned_be16(seg->raw),
		    seg->raw + KW_MPA_HDR_LEN, seg->read_req);
	pr_debug_ratelimited("stream %p: %s\n", s, kw_term_str(code));
	kw_stream_fail(s, kw_rx_count_error(s, code), true);
}

/* After an error everything that still comes is dropped, silently. */
static void kw_rx_drop(struct kw_stream *s, u32 avail)
{
	kw_stage_free(s);
	if (avail) {
		kw_rx_count(s, KW_CNT_RX_DROPPED, 1);
		tcp_read_done(s->sock->sk, avail);
	}
}

static bool kw_rx_live(const struct kw_stream *s)
{
	return s->state == KW_STREAM_OPEN || s->state == KW_STREAM_CLOSING;
}

/*
 * An FPDU of which a part was staged: complete it, then handle it from the
 * stage. Returns whether the pass can go on.
 */
static bool kw_rx_staged(struct kw_stream *s)
{
	struct kw_segment seg = {};
	struct kw_cursor c;
	u32 used;
	int rv;

	kw_stage_fill(s, tcp_inq(s->sock->sk), s->rx.need - s->rx.staged);
	if (s->rx.staged < s->rx.need)
		return false;
	kw_cursor_at_pages(&c, s->rx.stage, s->rx.staged);
	rv = kw_rx_fpdu(s, &c, s->rx.staged, &used, &seg);
	kw_predict_end(s);
	kw_rx_count(s, KW_CNT_RX_OCTETS, used);
	kw_rx_count(s, KW_CNT_RX_FPDUS, !!used);
	trace_kw_fpdu_received(s, !!used, used);
	if (rv)
		kw_rx_error(s, rv, &seg);
	kw_stage_free(s);
	s->rx.need = KW_MPA_HDR_LEN;
	return !rv;
}

/*
 * The FPDU at the cursor; or as many as there are that were predicted. fpdus is
 * how many it were in all.
 */
static __always_inline int kw_rx_next_fpdu(struct kw_stream *s,
					   struct kw_cursor *c, u32 avail,
					   u32 *used, u32 *fpdus,
					   struct kw_segment *seg)
{
	int rv;

	if (s->rx.next.it) {
		*used = kw_predict_take(s, c, avail, fpdus);
		if (*used)
			return 0;
		kw_predict_end(s);
	}
	rv = kw_rx_fpdu(s, c, avail, used, seg);
	*fpdus += !!*used;
	return rv;
}

static void kw_rx_pass(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	u32 avail, done = 0, used = 0, fpdus = 0, rx_events = s->rx.rx_events;
	bool begun = s->rx.partial;
	struct kw_segment seg = {};
	struct kw_cursor c;
	int rv = 0;

	if (s->rx.staged && kw_rx_live(s) && !kw_rx_staged(s) && kw_rx_live(s))
		return;
	avail = tcp_inq(sk);
	if (!kw_rx_live(s)) {
		kw_rx_drop(s, avail);
		return;
	}
	if (!avail || !kw_cursor_at_socket(&c, sk))
		return;

	while (done < avail) {
		rv = kw_rx_next_fpdu(s, &c, avail - done, &used, &fpdus, &seg);
		if (rv || !used)
			break;
		done += used;
		s->rx.need = KW_MPA_HDR_LEN;
	}
	kw_predict_end(s);
	if (rv) {
		kw_rx_error(s, rv, &seg);
		done = avail;
	}
	kw_rx_count(s, KW_CNT_RX_FPDUS, fpdus);
	trace_kw_fpdu_received(s, fpdus, done);
	if (done) {
		kw_rx_count(s, KW_CNT_RX_OCTETS, done);
		kw_ack_delay(s, !begun && done == avail && s->rx.rx_events != rx_events);
		tcp_read_done(sk, done);
	}
	if (!rv && done < avail && kw_stage_needed(s, s->rx.need))
		kw_stage_fill(s, avail - done, s->rx.need);
}

/**
 * kw_rx_run() - receive all that can be received
 * @s: stream
 *
 * Context: socket lock held; softirq or process. May nest in itself, because
 * transmitting can work off the socket's backlog: then the outer call goes on.
 */
void kw_rx_run(struct kw_stream *s)
{
	int idx;

	if (s->rx.running) {
		s->rx.again = true;
		return;
	}
	s->rx.running = true;
	do {
		s->rx.again = false;
		idx = srcu_read_lock(s->mem_srcu);
		s->cache.mem = NULL;
		kw_rx_pass(s);
		srcu_read_unlock(s->mem_srcu, idx);
	} while (s->rx.again);
	s->rx.running = false;

	kw_stream_check_peer(s);
	s->ops->notify(s);
	if (s->rx.kick) {
		s->rx.kick = false;
		kw_stream_kick(s, KW_KICK_LOCKED);
	}
}

/**
 * kw_rx_data_ready() - the socket's data_ready callback
 * @sk: socket
 *
 * Context: called by TCP with the socket lock held, in softirq or process.
 */
void kw_rx_data_ready(struct sock *sk)
{
	struct kw_stream *s = sk->sk_user_data;

	trace_sk_data_ready(sk);
	if (!s)
		return;
	if (s->rx.need <= tcp_inq(sk) || s->rx.staged || !kw_rx_live(s) ||
	    (sk->sk_shutdown & RCV_SHUTDOWN) ||
	    kw_stage_needed(s, s->rx.need))
		kw_rx_run(s);
}
