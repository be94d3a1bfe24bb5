// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Transmission: which context does it, and passing finished FPDUs to TCP.
 *
 * FPDUs are built back to back in a transmit buffer; payload is copied, and its
 * CRC computed while it is in the cache. Each FPDU ends where a TCP segment
 * ends or leaves room for the next one to begin. The buffer then goes to TCP by
 * reference in one call, so that TSO cuts at FPDU boundaries. A work request
 * whose payload was copied is complete when TCP has the bytes: the consumer's
 * buffer is not read again. The payload of long messages can go by reference,
 * too: see zcopy.c.
 */
#include <linux/bvec.h>
#include <linux/sched/signal.h>
#include <net/tcp.h>

#include "stream/priv.h"
#include "stream/softirq.h"
#include "stream/tx.h"
#include "stream/tx_pool.h"
#include "stream/zcopy.h"
#include "trace.h"

/*
 * Room that a transmit buffer must have: that of the longest FPDU, within these
 * limits. A page has KW_SEGMENTER_BUF_MIN of it, which is enough.
 */
#define KW_TX_FRAG_MIN	512
#define KW_TX_FRAG_MAX	4096

/* More than TCP accounts for a buffer of FPDUs and a Terminate behind it. */
#define KW_TX_FLUSH_ROOM	(256 * 1024)

enum kw_tx_result {
	KW_TX_IDLE,		/* nothing to send */
	KW_TX_BLOCKED,		/* write_space continues */
	KW_TX_NOMEM,		/* try again later */
	KW_TX_STOPPED,		/* the socket takes no more */
	KW_TX_SPENT,		/* the budget is used up */
};

/* What the owner of the token has left to do. */
enum kw_tx_left {
	KW_LEFT_NONE,		/* or others continue */
	KW_LEFT_OWN,		/* what the consumer has posted */
	KW_LEFT_PEERS,		/* the peer's requests alone */
};

/* Bytes left in the TCP segment that the next byte goes to. */
static u32 kw_tx_room(struct sock *sk, u32 mss)
{
	struct sk_buff *skb = tcp_write_queue_tail(sk);

	if (!skb || !tcp_skb_can_collapse_to(skb))
		return mss;
	return mss - skb->len % mss;
}

static __hot int kw_tx_send(struct kw_stream *s, u32 flags)
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

/* Give TCP what is built. Returns KW_TX_IDLE if it took all. */
static __hot enum kw_tx_result kw_tx_push(struct kw_stream *s, bool more)
{
	const u32 flags = more ? MSG_MORE : 0;
	struct sock *sk = s->sock->sk;
	struct kw_tx *tx = &s->tx;

	while (tx->out_len) {
		int n = tx->out_list ? kw_zc_send(s, flags) :
				       kw_tx_send(s, flags);

		if (n > 0) {
			kw_pass_count(s, KW_CNT_TX_OCTETS, n);
			tx->out += n;
			tx->out_len -= n;
			continue;
		}
		if (n == -EAGAIN && !sk_stream_memory_free(sk))
			return KW_TX_BLOCKED;
		if (n == -EAGAIN || n == -ENOMEM || n == -ENOBUFS)
			return KW_TX_NOMEM;
		return KW_TX_STOPPED;
	}
	tx->out_eor = false;
	tx->out_list = false;
	kw_stream_retire(s);
	return KW_TX_IDLE;
}

/* Of a small MSS FPDUs, and not bytes, are what takes time. */
static void kw_tx_charge_fpdus(struct kw_tx *tx, u32 bytes, u32 fpdus)
{
	kw_tx_charge(tx, max(DIV_ROUND_UP(bytes, KW_TX_BUDGET_BYTES),
			     fpdus / KW_TX_BUDGET_FPDUS));
}

/*
 * Build FPDUs until the buffer is full (then @full), the budget is used up, or
 * no work is left.
 */
static bool kw_tx_build(struct kw_stream *s, bool *full)
{
	struct sock *sk = s->sock->sk;
	struct kw_tx *tx = &s->tx;
	/* TCP changes it with the path's MTU and the peer's MSS. */
	u32 emss = tcp_sk(sk)->mss_cache;
	struct kw_tx_buf buf = {
		.seg.off = tx->stream_off,
		.seg.markers = s->p.tx_markers,
	};
	u32 start, want, len;

	kw_segmenter_bound(&buf.seg, emss, s->p.set.fpdu_max, s->p.large_fpdu);
	buf.seg.room = kw_tx_room(sk, emss);
	if (kw_segmenter_is_tight(&buf.seg)) {
		/* Too little for an FPDU: let the segment end where it is. */
		TCP_SKB_CB(tcp_write_queue_tail(sk))->eor = 1;
		buf.seg.room = emss;
	}
	want = clamp_t(u32, buf.seg.limit + 64, KW_TX_FRAG_MIN, KW_TX_FRAG_MAX);
	if (!kw_tx_pool_get(&tx->frag, want))
		return false;
	start = tx->frag.offset;
	buf.p = page_address(tx->frag.page) + start;
	buf.start = buf.p;
	buf.left = (tx->frag.size - start) & ~3u;
	while (!buf.full && tx->budget && kw_tx_frame(s, &buf))
		;
	*full = buf.full;
	kw_tx_charge_fpdus(tx, buf.seg.off - tx->stream_off, buf.fpdus);
	if (buf.fpdus)
		kw_pass_count(s, KW_CNT_TX_FPDUS, buf.fpdus);
	trace_kw_fpdu_sent(s, buf.fpdus, buf.seg.off - tx->stream_off);

	tx->out = start;
	tx->out_len = buf.p - buf.start;
	tx->out_eor = buf.eor;
	tx->stream_off = buf.seg.off;
	/* Aligned, so that the next FPDUs are. */
	tx->frag.offset = ALIGN(start + tx->out_len, 4);
	len = kw_zc_finish(s, buf.p);
	if (len) {
		tx->out_len = len;
		tx->out_list = true;
	}
	return true;
}

/*
 * Set MSG_MORE only if more comes without waiting for the peer, and in this
 * pass. TCP holds the end of the queue back until then, and a peer that sees no
 * end delays its acknowledgment. So there has to be room for another buffer
 * like this one.
 */
static bool kw_tx_goes_on(const struct kw_stream *s)
{
	const struct sock *sk = s->sock->sk;

	return s->tx.budget && s->tx.msg != KW_MSG_LOCAL &&
	       READ_ONCE(sk->sk_wmem_queued) + 2 * s->tx.out_len <
	       READ_ONCE(sk->sk_sndbuf);
}

static __hot enum kw_tx_result kw_tx_run(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	enum kw_tx_result res = KW_TX_IDLE;
	bool full, more;

	if (s->state == KW_STREAM_DEAD || s->state == KW_STREAM_IDLE)
		return KW_TX_STOPPED;
	s->cache.mem = NULL;
	if (s->tx.out_len)
		res = kw_tx_push(s, false);
	if (res != KW_TX_IDLE)
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
		more = (full || !s->tx.budget) && kw_tx_more(s);
		res = kw_tx_push(s, more && kw_tx_goes_on(s));
	} while (more && s->tx.budget && res == KW_TX_IDLE);
	return more && res == KW_TX_IDLE ? KW_TX_SPENT : res;
}

/*
 * FPDUs that TCP does not take yet keep the buffer, for as long as the peer
 * likes. The socket is charged for it, beyond its send buffer: with less room
 * in that it might never become writeable. Without memory it is tried again
 * when TCP again does not take all.
 */
static void kw_tx_charge_buffer(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	struct kw_tx *tx = &s->tx;

	if (tx->charged || !sk_wmem_schedule(sk, tx->frag.size))
		return;
	tx->charged = tx->frag.size;
	sk_mem_charge(sk, tx->charged);
}

/**
 * kw_tx_drop_buffer() - give the transmit buffer back
 * @s: stream with a socket
 *
 * Context: socket lock held.
 */
__hot void kw_tx_drop_buffer(struct kw_stream *s)
{
	struct kw_tx *tx = &s->tx;

	if (unlikely(tx->charged)) {
		sk_mem_uncharge(s->sock->sk, tx->charged);
		tx->charged = 0;
	}
	kw_tx_pool_put(&tx->frag);
}

/*
 * The owner of the token transmits until WANTED stays clear, or passes the
 * token to the worker, which continues. If something is left, since the budget
 * is used up, the owner has to continue: not before others had the lock.
 */
static __hot enum kw_tx_left kw_tx_loop(struct kw_stream *s, u32 budget)
{
	struct kw_tx *tx = &s->tx;
	enum kw_tx_result res;
	int idx;

	tx->budget = budget;
	while (tx->budget) {
		if (atomic_read(&tx->token) & KW_TX_WANTED) {
			atomic_andnot(KW_TX_WANTED, &tx->token);
			/* Entries posted before WANTED was set are seen below. */
			smp_mb__after_atomic();
		}
		idx = srcu_read_lock(s->mem_srcu);
		res = kw_tx_run(s);
		if (!tx->out_len)
			kw_tx_drop_buffer(s);
		else
			kw_tx_charge_buffer(s);
		srcu_read_unlock(s->mem_srcu, idx);
		if (res == KW_TX_NOMEM) {
			kw_stream_count(s, KW_CNT_TX_NO_MEMORY);
			kw_stream_queue(s, &tx->work, 1);
			/* What has completed may be what frees memory. */
			s->ops->notify(s);
			return KW_LEFT_NONE;
		}
		if (res == KW_TX_BLOCKED)
			kw_stream_count(s, KW_CNT_TX_BLOCKED);
		if (res == KW_TX_IDLE)
			kw_stream_drained(s);
		if (res != KW_TX_SPENT &&
		    atomic_cmpxchg(&tx->token, KW_TX_OWNED, 0) == KW_TX_OWNED) {
			s->ops->notify(s);
			return KW_LEFT_NONE;
		}
		kw_tx_charge(tx, 1);
	}
	s->ops->notify(s);
	return kw_tx_own_left(s) ? KW_LEFT_OWN : KW_LEFT_PEERS;
}

/* In a context that cannot continue: the worker has the token then. */
static void kw_tx_pass(struct kw_stream *s)
{
	const u32 budget = min_t(u32, KW_TX_BUDGET, kw_softirq_left());
	enum kw_tx_left left = kw_tx_loop(s, budget);

	kw_softirq_charge(budget - s->tx.budget);
	if (left != KW_LEFT_NONE)
		kw_stream_queue(s, &s->tx.work, 0);
}

/*
 * Transmit as softirq does, under the socket's spin lock alone, if no process
 * owns the socket. If this process owned the socket, what arrives meanwhile
 * would go to the backlog, which it processes when it releases the socket. TCP
 * counts the backlog as occupied buffer, closes the window, and does not
 * announce that it is open again: a stall until the delayed acknowledgment.
 *
 * A context that may not wait only tries the lock, since its caller may hold
 * another stream's.
 */
static bool kw_tx_try(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	bool done = false;

	if (in_hardirq() || irqs_disabled())
		return false;
	local_bh_disable();
	if (spin_trylock(&sk->sk_lock.slock)) {
		if (!sock_owned_by_user(sk)) {
			kw_tx_pass(s);
			done = true;
		}
		bh_unlock_sock(sk);
	}
	local_bh_enable();
	return done;
}

/*
 * The same in process context, which waits for the lock. Returns as
 * kw_tx_loop().
 */
static __hot enum kw_tx_left kw_tx_wait(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	enum kw_tx_left left;

	local_bh_disable();
	bh_lock_sock(sk);
	if (!sock_owned_by_user(sk)) {
		left = kw_tx_loop(s, KW_TX_BUDGET);
		bh_unlock_sock(sk);
		local_bh_enable();
		return left;
	}
	bh_unlock_sock(sk);
	local_bh_enable();
	lock_sock(sk);
	left = kw_tx_loop(s, KW_TX_BUDGET);
	release_sock(sk);
	return left;
}

/*
 * A process goes on by itself with what was posted, so that its cgroup is
 * charged: a worker's CPU time is charged to none. But it can be killed while
 * others post. Of a peer's requests there is no end: the worker answers them.
 */
static void kw_tx_all(struct kw_stream *s)
{
	enum kw_tx_left left;

	while ((left = kw_tx_wait(s)) != KW_LEFT_NONE) {
		if (left == KW_LEFT_PEERS || fatal_signal_pending(current)) {
			kw_stream_queue(s, &s->tx.work, 0);
			return;
		}
		cond_resched();
	}
}

/**
 * kw_stream_kick() - transmit what there is to transmit
 * @s: started stream
 * @how: what the calling context allows
 *
 * If another context transmits already, WANTED makes it go on.
 *
 * Context: as @how says; with the socket lock, or a reference of kw_stream_get()
 * to a stream that is open or closing, or where no other context ends it.
 */
__hot void kw_stream_kick(struct kw_stream *s, enum kw_kick how)
{
	if (atomic_cmpxchg(&s->tx.token, 0, KW_TX_OWNED) &&
	    atomic_fetch_or(KW_TX_OWNED | KW_TX_WANTED, &s->tx.token) &
	    KW_TX_OWNED)
		return;
	if (how == KW_KICK_LOCKED)
		kw_tx_pass(s);
	else if (how == KW_KICK_SLEEP)
		kw_tx_all(s);
	else if (!kw_tx_try(s))
		kw_stream_queue(s, &s->tx.work, 0);
}

/**
 * kw_tx_flush() - give TCP what is framed, even if its buffer is full
 * @s: stream that is to send nothing after this
 *
 * Work requests that are framed whole count as done. After an error this sends
 * the Terminate.
 *
 * Context: process, socket lock held.
 */
void kw_tx_flush(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	int idx, room;

	/* TCP may process the backlog meanwhile: nothing else may transmit. */
	atomic_or(KW_TX_OWNED, &s->tx.token);
	room = READ_ONCE(sk->sk_wmem_queued) + KW_TX_FLUSH_ROOM;
	if (sk->sk_sndbuf < room)
		WRITE_ONCE(sk->sk_sndbuf, room);
	s->tx.budget = KW_TX_BUDGET;
	idx = srcu_read_lock(s->mem_srcu);
	if (kw_tx_push(s, false) == KW_TX_IDLE && s->tx.term_pending)
		kw_tx_run(s);
	srcu_read_unlock(s->mem_srcu, idx);
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

	if (kw_tx_wait(s) != KW_LEFT_NONE)
		kw_stream_queue(s, &s->tx.work, 0);
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
