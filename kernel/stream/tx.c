// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Transmission: who does it, and handing finished FPDUs to TCP.
 *
 * FPDUs are built back to back in a page block of the stream's own (payload
 * copied and CRC computed while it is in the cache), each cut so that it ends
 * where a TCP segment ends or leaves room for the next one to begin. The
 * block then goes to TCP by reference in one call, so that TSO cuts at FPDU
 * boundaries. Since the payload was copied, the work request is complete when
 * TCP has the bytes: the consumer's buffer is not looked at again. The payload
 * of long messages can go by reference, too: see zcopy.c.
 */
#include <linux/bvec.h>
#include <net/tcp.h>

#include "stream/tx_pool.h"
#include "stream/counters.h"
#include "stream/priv.h"
#include "stream/tx.h"
#include "stream/zcopy.h"
#include "trace.h"

/*
 * What a page block must still have to be built in: room for the longest FPDU,
 * within these limits. A page gives KW_SEGMENTER_BLOCK_MIN of it, which is enough.
 */
#define KW_TX_FRAG_MIN	512
#define KW_TX_FRAG_MAX	4096

enum kw_tx_result {
	KW_TX_IDLE,		/* nothing to send */
	KW_TX_BLOCKED,		/* write_space will go on */
	KW_TX_NOMEM,		/* try again in a moment */
	KW_TX_STOPPED,		/* the socket takes no more */
};

/* How far the segment being filled has got: where does the next byte fall? */
static u32 kw_tx_room(struct sock *sk, u32 mss)
{
	struct sk_buff *skb = tcp_write_queue_tail(sk);

	if (!skb || !tcp_skb_can_collapse_to(skb))
		return mss;
	return mss - skb->len % mss;
}

static int kw_tx_send(struct kw_stream *s, u32 flags)
{
	struct kw_tx *tx = &s->tx;
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES |
			     MSG_NO_SHARED_FRAGS | flags |
			     (tx->out_eor ? MSG_EOR : 0),
	};
	struct bio_vec bv;

	bvec_set_page(&bv, tx->frag.page, tx->out_len, tx->out);
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &bv, 1, tx->out_len);
	return tcp_sendmsg_locked(s->sock->sk, &msg, tx->out_len);
}

/* Give TCP what is built. Returns false, with the result, if it took not all. */
static bool kw_tx_push(struct kw_stream *s, bool more, enum kw_tx_result *res)
{
	const u32 flags = more ? MSG_MORE : 0;
	struct sock *sk = s->sock->sk;
	struct kw_tx *tx = &s->tx;

	while (tx->out_len) {
		int n = tx->out_list ? kw_zc_send(s, flags) :
				       kw_tx_send(s, flags);

		if (n > 0) {
			kw_counter_add(s->counters, KW_CNT_TX_OCTETS, n);
			tx->out += n;
			tx->out_len -= n;
			continue;
		}
		if (n == -EAGAIN && !sk_stream_memory_free(sk))
			*res = KW_TX_BLOCKED;
		else if (n == -EAGAIN || n == -ENOMEM || n == -ENOBUFS)
			*res = KW_TX_NOMEM;
		else
			*res = KW_TX_STOPPED;
		return false;
	}
	tx->out_eor = false;
	tx->out_list = false;
	s->ops->retire(s);
	return true;
}

/* Build FPDUs until the block (then @full) or the work is used up. */
static bool kw_tx_build(struct kw_stream *s, bool *full)
{
	struct sock *sk = s->sock->sk;
	struct kw_tx *tx = &s->tx;
	/* TCP changes it with the path's MTU and the peer's MSS. */
	u32 emss = tcp_sk(sk)->mss_cache;
	struct kw_tx_buf ch = {
		.cut.off = tx->stream_off,
		.cut.markers = s->p.tx_markers,
	};
	u32 start, want, len;

	kw_segmenter_bound(&ch.cut, emss, s->p.set.fpdu_max, s->p.large_fpdu);
	ch.cut.room = kw_tx_room(sk, emss);
	if (kw_segmenter_is_tight(&ch.cut)) {
		/* Too little for an FPDU: let the segment end where it is. */
		TCP_SKB_CB(tcp_write_queue_tail(sk))->eor = 1;
		ch.cut.room = emss;
	}
	want = clamp_t(u32, ch.cut.limit + 64, KW_TX_FRAG_MIN, KW_TX_FRAG_MAX);
	if (!kw_tx_pool_get(&tx->frag, want))
		return false;
	start = tx->frag.offset;
	ch.p = page_address(tx->frag.page) + start;
	ch.start = ch.p;
	ch.left = (tx->frag.size - start) & ~3u;
	while (!ch.full && kw_tx_frame(s, &ch))
		;
	*full = ch.full;
	if (ch.fpdus)
		kw_counter_add(s->counters, KW_CNT_TX_FPDUS, ch.fpdus);
	trace_kw_fpdu_sent(s, ch.fpdus, ch.cut.off - tx->stream_off);

	tx->out = start;
	tx->out_len = ch.p - ch.start;
	tx->out_eor = ch.eor;
	tx->stream_off = ch.cut.off;
	/* Aligned, so that the next chunk's FPDUs are. */
	tx->frag.offset = ALIGN(start + tx->out_len, 4);
	len = kw_zc_finish(s, ch.p);
	if (len) {
		tx->out_len = len;
		tx->out_list = true;
	}
	return true;
}

/*
 * More to come may be promised to TCP only if it will come without waiting
 * for the peer: TCP holds the end of the queue back until then, and a peer
 * that sees no end delays its acknowledgment. So there has to be room for
 * another block like this one.
 */
static bool kw_tx_has_room(const struct kw_stream *s)
{
	const struct sock *sk = s->sock->sk;

	return READ_ONCE(sk->sk_wmem_queued) + 2 * s->tx.out_len <
	       READ_ONCE(sk->sk_sndbuf);
}

static enum kw_tx_result kw_tx_run(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	enum kw_tx_result res = KW_TX_IDLE;
	bool full;

	if (s->state == KW_STREAM_DEAD || s->state == KW_STREAM_IDLE)
		return KW_TX_STOPPED;
	s->cache.mem = NULL;
	if (s->tx.out_len && !kw_tx_push(s, false, &res))
		return res;
	do {
		if (!sk_stream_memory_free(sk)) {
			if (!kw_tx_more(s))
				return KW_TX_IDLE;
			set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
			return KW_TX_BLOCKED;
		}
		if (!kw_tx_build(s, &full))
			return KW_TX_NOMEM;
		if (WARN_ON_ONCE(full && !s->tx.out_len))
			return KW_TX_NOMEM;
		full = full && kw_tx_more(s);
		if (!kw_tx_push(s, full && kw_tx_has_room(s), &res))
			return res;
	} while (full);
	return KW_TX_IDLE;
}

/*
 * The owner of the token transmits until WANTED stays clear. Returns false if
 * it keeps the token because the worker is to go on.
 */
static bool kw_tx_loop(struct kw_stream *s)
{
	struct kw_tx *tx = &s->tx;
	enum kw_tx_result res;
	int idx;

	do {
		atomic_andnot(KW_TX_WANTED, &tx->token);
		/* What was posted before WANTED was set is seen below. */
		smp_mb__after_atomic();
		idx = srcu_read_lock(s->mem_srcu);
		res = kw_tx_run(s);
		if (!tx->out_len)
			kw_tx_pool_put(&tx->frag);
		srcu_read_unlock(s->mem_srcu, idx);
		if (res == KW_TX_NOMEM) {
			kw_counter_add(s->counters, KW_CNT_TX_NO_MEMORY, 1);
			kw_stream_queue(s, &tx->work, 1);
			return false;
		}
		if (res == KW_TX_BLOCKED)
			kw_counter_add(s->counters, KW_CNT_TX_BLOCKED, 1);
		if (res == KW_TX_IDLE)
			kw_stream_drained(s);
	} while (atomic_cmpxchg(&tx->token, KW_TX_OWNED, 0) != KW_TX_OWNED);

	s->ops->notify(s);
	return true;
}

static bool kw_tx_claim(struct kw_stream *s)
{
	return !(atomic_fetch_or(KW_TX_OWNED | KW_TX_WANTED, &s->tx.token) &
		 KW_TX_OWNED);
}

/*
 * Transmit as softirq does, under the socket's spin lock alone, if no process
 * owns the socket. A process that owned it instead would be handed all that
 * arrives meanwhile when it lets go, and while it works that off TCP counts
 * the backlog as occupied buffer, closes the window, and has no occasion to
 * say so when it is open again: a stall until the delayed acknowledgment.
 *
 * A context that may not wait only tries the lock, since its caller may hold
 * another stream's.
 */
static bool kw_tx_try(struct kw_stream *s, bool wait)
{
	struct sock *sk = s->sock->sk;
	bool done = false;

	if (in_hardirq() || irqs_disabled())
		return false;
	local_bh_disable();
	if (wait)
		bh_lock_sock(sk);
	else if (!spin_trylock(&sk->sk_lock.slock))
		goto out;
	if (!sock_owned_by_user(sk)) {
		kw_tx_loop(s);
		done = true;
	}
	bh_unlock_sock(sk);
out:
	local_bh_enable();
	return done;
}

/* In process context wait for the owner of the socket lock. */
static void kw_tx_wait(struct kw_stream *s)
{
	if (kw_tx_try(s, true))
		return;
	lock_sock(s->sock->sk);
	kw_tx_loop(s);
	release_sock(s->sock->sk);
}

/**
 * kw_stream_kick() - transmit what there is to transmit
 * @s: started stream
 * @how: what the calling context allows
 *
 * If another context transmits already, WANTED makes it go on.
 *
 * Context: as @how says; the caller makes sure that the stream does not end
 * meanwhile (socket lock, or a reference and kw_stream.state).
 */
void kw_stream_kick(struct kw_stream *s, enum kw_kick how)
{
	if (!kw_tx_claim(s))
		return;
	switch (how) {
	case KW_KICK_LOCKED:
		kw_tx_loop(s);
		return;
	case KW_KICK_SLEEP:
		kw_tx_wait(s);
		return;
	case KW_KICK_ATOMIC:
		if (!kw_tx_try(s, false))
			kw_stream_queue(s, &s->tx.work, 0);
		return;
	}
}

/**
 * kw_tx_work() - transmit for an owner of the token that could not
 * @work: kw_tx.work
 *
 * Context: process; the token is held and passes to this.
 */
void kw_tx_work(struct work_struct *work)
{
	struct kw_stream *s = container_of(to_delayed_work(work),
					   struct kw_stream, tx.work);

	kw_tx_wait(s);
}

/**
 * kw_tx_write_space() - the socket's write_space callback
 * @sk: socket
 *
 * Context: called by TCP with the socket lock held when acknowledgments have
 * made room, and by tcp_sendmsg_locked() itself.
 */
void kw_tx_write_space(struct sock *sk)
{
	struct kw_stream *s = sk->sk_user_data;

	if (!s || !sk_stream_is_writeable(sk))
		return;
	clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	kw_stream_kick(s, KW_KICK_LOCKED);
}
