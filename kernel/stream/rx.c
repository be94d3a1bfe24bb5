// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The receive pass: from the socket's queue to whole, checked FPDUs.
 *
 * An FPDU stays in the socket until all of it is there. Its CRC is checked
 * before a single byte is placed: DDP gets no FPDU with a bad CRC (RFC 5044).
 * Otherwise a damaged header could direct bytes into the wrong buffer. When the
 * bytes are read again, for placement, they are in the cache.
 */
#include <linux/indirect_call_wrapper.h>
#include <linux/unaligned.h>
#include <net/tcp.h>
#include <trace/events/sock.h>

#include "stream/priv.h"
#include "stream/rx.h"
#include "stream/softirq.h"
#include "stream/vec.h"
#include "trace.h"
#include "wire/check.h"

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
 * The CRC32C over everything before it. The field is there but without meaning
 * when neither side asked for CRCs.
 */
static bool kw_rx_crc_ok(const struct kw_cursor *at, u32 fpdu_len)
{
	u32 len = fpdu_len - KW_MPA_CRC_LEN;

	if (at->left < fpdu_len)
		return kw_rx_crc_ok_split(at, len);
	return kw_crc_get(at->p + len) ==
	       kw_crc32c_auto(KW_CRC_SEED, at->p, len);
}

/*
 * Cursors are variables of functions that are called only where they are
 * needed: the kernel clears every variable when its function begins.
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
 * The MPA length and the DDP header, without markers. Only the length must
 * have been received; if not all of the rest has, the FPDU is not complete.
 */
static bool kw_rx_peek(const struct kw_stream *s, const struct kw_cursor *at,
		       u8 *raw)
{
	if (s->p.rx_markers || at->left < KW_RX_RAW_LEN)
		return kw_rx_peek_split(s, at, raw);
	memcpy(raw, at->p, KW_RX_RAW_LEN);
	return true;
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
	[KW_RDMAP_IMM] = kw_rx_imm,
	[KW_RDMAP_IMM_SE] = kw_rx_imm,
	[KW_RDMAP_ATOMIC_REQ] = kw_rx_atomic_req,
	[KW_RDMAP_ATOMIC_RESP] = kw_rx_atomic_resp,
};

/*
 * Act on one DDP segment: its header is parsed and its versions are right.
 * Returns 0, KW_RX_TERM(code) or KW_RX_STOP.
 */
static __hot int kw_rx_segment(struct kw_stream *s, struct kw_segment *seg,
			       struct kw_cursor *c)
{
	kw_rx_handler handler = kw_rx_handlers[seg->op];
	int ret;

	if (!handler)
		return KW_RX_TERM(KW_TERM_RDMAP_OPCODE);
	ret = INDIRECT_CALL_2(handler, kw_rx_send, kw_rx_write, s, seg, c);
	s->rx.partial = !seg->ddp.last;
	if (!s->rx.started) {
		/* The initiator has sent: from now on this side may. */
		s->rx.started = true;
		s->tx.await_first = false;
		/* A repeated RTR that has not gone out is not needed any more. */
		if (s->tx.imm_may_follow)
			s->tx.rtr_pending = false;
		s->rx.kick = true;
	}
	return ret;
}

static noinline int kw_rx_deliver_split(struct kw_stream *s, struct kw_cursor *at,
					struct kw_segment *seg, u32 hdr_len,
					u32 span)
{
	struct kw_cursor c = *at;
	int ret;

	if (s->p.rx_markers)
		kw_cursor_skip_markers(&c, kw_marker_dist(s->rx.stream_off));
	kw_cursor_skip(&c, hdr_len);
	ret = kw_rx_segment(s, seg, &c);
	kw_cursor_skip(at, span);
	return ret;
}

/*
 * Pass the segment to its handler, with a cursor at its payload. Then move past
 * the FPDU.
 */
static int kw_rx_deliver(struct kw_stream *s, struct kw_cursor *c,
			 struct kw_segment *seg, u32 ulpdu_len, u32 span)
{
	const u32 hdr_len = KW_MPA_HDR_LEN + ulpdu_len - seg->len;
	const u8 *end = c->p + span;
	int ret;

	if (s->p.rx_markers || c->left < span)
		return kw_rx_deliver_split(s, c, seg, hdr_len, span);
	c->p += hdr_len;
	c->left -= hdr_len;
	ret = kw_rx_segment(s, seg, c);
	/* Handlers stop within the payload, which is of one run here. */
	c->left -= end - c->p;
	c->p = end;
	return ret;
}

/*
 * Checks of a complete FPDU in the order of RFC 5044 section 8, and of its DDP
 * header by itself. Nothing of it is used before.
 */
static int kw_rx_check(const struct kw_stream *s, const struct kw_cursor *c,
		       u32 span, struct kw_segment *seg, u32 ulpdu_len)
{
	u32 hdr_len = kw_ddp_hdr_len(seg->raw[KW_MPA_HDR_LEN]);
	u16 code;

	if (s->p.crc && !kw_rx_crc_ok(c, span))
		return KW_RX_TERM(KW_TERM_MPA_CRC);
	if (s->p.rx_markers && !kw_rx_markers_ok(s, c, span))
		return KW_RX_TERM(KW_TERM_MPA_MARKER);
	if (ulpdu_len < hdr_len)
		return KW_RX_TERM(KW_TERM_MPA_MARKER);
	seg->len = ulpdu_len - hdr_len;
	kw_ddp_parse(seg->raw + KW_MPA_HDR_LEN, &seg->ddp);
	seg->op = kw_rdmap_op(seg->ddp.rsvd_ulp_ctrl);
	seg->read_req = NULL;
	code = kw_ddp_check_header(&seg->ddp, kw_stream_version(s),
				   kw_stream_queues(s));
	if (!code)
		code = kw_rdmap_check_header(&seg->ddp, kw_stream_version(s));
	return code ? KW_RX_TERM(code) : 0;
}

/*
 * Handle the FPDU at the cursor, of which avail bytes have been received. If it
 * is not complete, used is 0 and s->rx.need is set. Otherwise used is its
 * length and the cursor moves past it. Returns as kw_rx_segment().
 */
static __hot int kw_rx_fpdu(struct kw_stream *s, struct kw_cursor *c, u32 avail,
			    u32 *used, struct kw_segment *seg)
{
	const bool marked = s->p.rx_markers;
	u32 head_len = KW_MPA_HDR_LEN, ulpdu_len, span;
	int ret;

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
	if (!kw_rx_peek(s, c, seg->raw))
		return KW_RX_TERM(KW_TERM_MPA_TCP_LOST);
	ulpdu_len = get_unaligned_be16(seg->raw);
	span = kw_fpdu_span(s->rx.stream_off, kw_fpdu_len(ulpdu_len), marked);
	if (avail < span) {
		s->rx.need = span;
		return 0;
	}
	*used = span;
	s->rx.need = KW_MPA_HDR_LEN;
	ret = kw_rx_check(s, c, span, seg, ulpdu_len);
	if (!ret)
		ret = kw_rx_deliver(s, c, seg, ulpdu_len, span);
	if (marked)
		s->rx.stream_off += span;
	return ret;
}

/* Count an error in what the peer sent; returns the reason of the failure. */
static enum kw_fail kw_rx_count_error(struct kw_stream *s, u16 code)
{
	struct kw_term t;

	kw_term_set_code(&t, code);
	if (code == KW_TERM_MPA_CRC)
		kw_pass_count(s, KW_CNT_RX_CRC_ERRORS, 1);
	if (code == KW_TERM_MPA_MARKER)
		kw_pass_count(s, KW_CNT_RX_MARKER_ERRORS, 1);
	if (t.layer == KW_TERM_LAYER_LLP)
		return KW_FAIL_FATAL;
	kw_pass_count(s, t.layer == KW_TERM_LAYER_DDP ?
		      KW_CNT_RX_DDP_ERRORS : KW_CNT_RX_RDMAP_ERRORS, 1);
	switch (t.type) {
	case 0:
		return KW_FAIL_FATAL;
	case 1:
		return KW_FAIL_REMOTE_ACCESS;
	default:
		return KW_FAIL_REMOTE_REQUEST;
	}
}

/* Note the error for the Terminate, with the headers that it quotes. */
static void kw_rx_error(struct kw_stream *s, int ret,
			const struct kw_segment *seg)
{
	u16 code = ret & 0xffff;

	if (ret == KW_RX_STOP)
		return;
	kw_term_set(&s->tx.term, code, get_unaligned_be16(seg->raw),
		    seg->raw + KW_MPA_HDR_LEN, seg->read_req);
	pr_debug_ratelimited("stream %p: %s\n", s, kw_term_str(code));
	kw_stream_fail(s, kw_rx_count_error(s, code), true);
}

/* After an error everything that still comes is dropped. */
static void kw_rx_drop(struct kw_stream *s, u32 avail)
{
	kw_stage_free(s);
	if (avail) {
		kw_pass_count(s, KW_CNT_RX_DROPPED, 1);
		tcp_read_done(s->sock->sk, avail);
	}
}

/* Account for FPDUs that were handled; @ret is what the last of them gave. */
static __hot void kw_rx_handled(struct kw_stream *s, u32 fpdus, u32 bytes,
				int ret, const struct kw_segment *seg)
{
	kw_predict_end(s);
	if (ret)
		kw_rx_error(s, ret, seg);
	kw_pass_count(s, KW_CNT_RX_FPDUS, fpdus);
	kw_pass_count(s, KW_CNT_RX_OCTETS, bytes);
	kw_softirq_charge(max(DIV_ROUND_UP(bytes, KW_SOFTIRQ_RX_BYTES),
			      DIV_ROUND_UP(fpdus, KW_SOFTIRQ_RX_FPDUS)));
	trace_kw_fpdu_received(s, fpdus, bytes);
}

/*
 * An FPDU of which a part was staged: complete it, then handle it from the
 * stage. While its length is not staged, rx.need is where that ends. Returns
 * whether the pass can go on.
 */
static bool kw_rx_staged(struct kw_stream *s)
{
	struct kw_segment seg = {};
	struct kw_cursor c;
	u32 used;
	int ret;

	do {
		kw_stage_fill(s, tcp_inq(s->sock->sk), s->rx.need - s->rx.staged);
		if (s->rx.staged < s->rx.need)
			return false;
		kw_cursor_at_pages(&c, s->rx.stage, s->rx.staged);
		ret = kw_rx_fpdu(s, &c, s->rx.staged, &used, &seg);
	} while (!used && !ret);
	kw_rx_handled(s, !!used, used, ret, &seg);
	kw_stage_free(s);
	return !ret;
}

/*
 * Handle the FPDU at the cursor, or as many as were predicted. Their number is
 * added to fpdus, up to most.
 */
static __always_inline int kw_rx_next_fpdu(struct kw_stream *s,
					   struct kw_cursor *c, u32 avail,
					   u32 most, u32 *used, u32 *fpdus,
					   struct kw_segment *seg)
{
	int ret;

	if (s->rx.next.it) {
		*used = kw_predict_take(s, c, avail, most, fpdus);
		if (*used)
			return 0;
		kw_predict_end(s);
	}
	ret = kw_rx_fpdu(s, c, avail, used, seg);
	*fpdus += !!*used;
	return ret;
}

/*
 * Handle what the socket has, within the budgets of the pass and of the
 * softirq. Returns whether there is more to handle.
 */
static __hot bool kw_rx_pass(struct kw_stream *s)
{
	u32 inq, units, avail, most, done = 0, used = 0, fpdus = 0;
	bool begun = s->rx.partial, later;
	u32 rx_events = s->rx.rx_events;
	struct sock *sk = s->sock->sk;
	struct kw_segment seg = {};
	struct kw_cursor c;
	int ret = 0;

	if (s->rx.staged && kw_stream_live(s) && !kw_rx_staged(s) && kw_stream_live(s))
		return false;
	inq = tcp_inq(sk);
	if (!kw_stream_live(s)) {
		kw_rx_drop(s, inq);
		return false;
	}
	if (!inq || !kw_cursor_at_socket(&c, sk))
		return false;

	units = kw_softirq_left();
	most = min_t(u32, KW_RX_BUDGET, units * KW_SOFTIRQ_RX_FPDUS);
	avail = min3(inq, (u32)KW_RX_BUDGET_BYTES, units * KW_SOFTIRQ_RX_BYTES);
	while (done < avail && fpdus < most) {
		ret = kw_rx_next_fpdu(s, &c, avail - done, most, &used, &fpdus,
				      &seg);
		if (ret || !used)
			break;
		done += used;
	}
	if (ret)
		done = inq;
	kw_rx_handled(s, fpdus, done, ret, &seg);
	if (done) {
		kw_ack_delay(s, !begun && done == inq && s->rx.rx_events != rx_events);
		tcp_read_done(sk, done);
	}
	inq -= done;
	later = inq && s->rx.need <= inq;
	if (inq && !later && kw_stage_needed(s))
		kw_stage_fill(s, inq, s->rx.need);
	return later;
}

/**
 * kw_rx_run() - receive what can be received, within the budget
 * @s: stream
 *
 * If there is more, s->rx.later or s->rx.starved says so, and rx_work receives
 * it. The peer's FIN counts behind that.
 *
 * Context: socket lock held; softirq or process. May nest in itself, because
 * transmitting can process the socket's backlog: then the outer call continues.
 */
__hot void kw_rx_run(struct kw_stream *s)
{
	int idx;

	if (s->rx.running) {
		s->rx.again = true;
		return;
	}
	s->rx.running = true;
	do {
		s->rx.again = false;
		s->rx.starved = false;
		idx = srcu_read_lock(s->mem_srcu);
		s->cache.mem = NULL;
		s->rx.later = kw_rx_pass(s);
		srcu_read_unlock(s->mem_srcu, idx);
	} while (s->rx.again && !s->rx.later);
	s->rx.running = false;

	if (s->rx.later)
		kw_stream_queue(s, &s->rx_work, 0);
	else if (!s->rx.starved)
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
__hot void kw_rx_data_ready(struct sock *sk)
{
	struct kw_stream *s = sk->sk_user_data;

	trace_sk_data_ready(sk);
	if (!s || s->rx.later)
		return;
	if (s->rx.need <= tcp_inq(sk) || s->rx.staged || !kw_stream_live(s) ||
	    (sk->sk_shutdown & RCV_SHUTDOWN) || kw_stage_needed(s))
		kw_rx_run(s);
}

/**
 * kw_stream_retire() - complete the send queue's entries that are done
 * @s: stream
 *
 * The answer to a Read can let all that was posted behind it complete. After
 * KW_RETIRE_BUDGET entries rx_work continues, and what is done meanwhile waits
 * for it. What is left when the stream ends is the queue pair's to complete.
 *
 * Context: socket lock held, softirq or process.
 */
__hot void kw_stream_retire(struct kw_stream *s)
{
	if (s->retiring)
		return;
	s->retiring = s->ops->retire(s, KW_RETIRE_BUDGET);
	if (unlikely(s->retiring) && kw_stream_live(s))
		kw_stream_queue(s, &s->rx_work, 0);
}

/* With the socket's lock, in rx_work. */
static void kw_rx_continue(struct kw_stream *s)
{
	if (s->retiring) {
		s->retiring = false;
		kw_stream_retire(s);
		s->ops->notify(s);
	}
	/* The end may have come meanwhile. */
	kw_end_check_lost(s->sock->sk);
	if (!kw_rx_unfinished(s))
		kw_stream_drained(s);
}

/**
 * kw_rx_work() - receive, or complete, what was more than a pass may
 * @work: kw_stream.rx_work
 *
 * Like a softirq, as kw_tx_try() does and for its reason, unless a process owns
 * the socket.
 *
 * Context: process.
 */
void kw_rx_work(struct work_struct *work)
{
	struct kw_stream *s = container_of(to_delayed_work(work),
					   struct kw_stream, rx_work);
	struct sock *sk = s->sock->sk;

	local_bh_disable();
	bh_lock_sock(sk);
	if (!sock_owned_by_user(sk)) {
		kw_rx_continue(s);
		bh_unlock_sock(sk);
		local_bh_enable();
		return;
	}
	bh_unlock_sock(sk);
	local_bh_enable();
	lock_sock(sk);
	kw_rx_continue(s);
	release_sock(sk);
}
