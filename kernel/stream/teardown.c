// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How a stream ends.
 *
 * Graceful (RFC 5040 section 6.2), requested by either side: no new work, what
 * is posted is sent and answered, FIN, the peer's FIN. Linux has no half-closed
 * queue pair, so the peer's FIN is a request to end, too. It is an error if
 * something is missing that this side still waits for.
 *
 * In error: at most a Terminate is sent, then FIN. What still comes is taken
 * out of the socket and dropped: the close would otherwise become a reset,
 * which could overtake the Terminate.
 *
 * Abort: the stream ends at once, and the socket lingers, to send what has
 * completed and a FIN, or the Terminate (RFC 5040 section 6.2.1). It is reset
 * if TCP may still send out of consumers' memory. A kernel consumer's end waits
 * until what has completed has arrived, or is not sent any more.
 *
 * Each has a deadline, and what the peer's requests can delay has a limit. Only
 * kw_end_work() releases the socket.
 */
#include <linux/jiffies.h>
#include <net/tcp.h>

#include "stream/linger.h"
#include "stream/priv.h"
#include "stream/rx.h"
#include "stream/tx.h"
#include "stream/zcopy.h"

/* In a graceful end: how long there may be no progress at all. */
#define KW_CLOSE_TIMEOUT	(10 * HZ)

/* How long a kernel consumer's end waits for the peer; longer in KUnit. */
#ifndef KW_DELIVER_TIMEOUT
#define KW_DELIVER_TIMEOUT	HZ
#endif
#define KW_DELIVER_POLL		(HZ / 50)

static unsigned long kw_close_limit(const struct kw_stream *s)
{
	return max_t(unsigned long, KW_CLOSE_TIMEOUT,
		     msecs_to_jiffies(s->p.set.linger_timeout_ms));
}

/*
 * Whether the peer, since the last call, took bytes or sent some of a response.
 * What the consumer has posted may take any time (RFC 5041 section 6.2.1). Of
 * the peer's own requests there is no end: their responses move no limit.
 */
static bool kw_close_progress(struct kw_stream *s)
{
	u32 una = tcp_sk(s->sock->sk)->snd_una;
	u32 bytes = s->orq_len ? s->orq[s->orq_head].done : 0;
	bool taken = una != s->una;
	/* After both FINs the peer can ask for nothing more. */
	bool own = kw_zc_busy(s) || kw_tx_own_left(s) ||
		   (s->peer_fin && s->fin_sent);
	bool answered = bytes != s->answered || s->orq_head != s->answering;

	s->una = una;
	s->answered = bytes;
	s->answering = s->orq_head;
	if (answered || (taken && own))
		s->close_limit = jiffies + kw_close_limit(s);
	return taken || answered;
}

static void kw_stream_begin_close(struct kw_stream *s)
{
	if (s->state != KW_STREAM_OPEN)
		return;
	WRITE_ONCE(s->state, KW_STREAM_CLOSING);
	kw_close_progress(s);
	s->close_limit = jiffies + kw_close_limit(s);
	s->ops->closing(s);
	kw_stream_set_deadline(s, KW_CLOSE_TIMEOUT);
}

/*
 * The peer's half ends inside an FPDU or a message, or with Reads unanswered:
 * what is missing will never come. Other messages may have come behind the
 * first segments of one, so that each kind is looked at.
 */
static bool kw_stream_cut_off(const struct kw_stream *s)
{
	const struct kw_rx *rx = &s->rx;

	return tcp_inq(s->sock->sk) || rx->staged || rx->write_open ||
	       rx->term_got ||
	       rx->recv_open || rx->req_op || rx->partial || s->orq_len;
}

/**
 * kw_stream_check_peer() - check whether the peer has closed its half
 * @s: stream
 *
 * Context: socket lock held, after a receive pass.
 */
__hot void kw_stream_check_peer(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;

	/*
	 * A connection that was reset is shut down as well, and its error may
	 * have been reported to who sent: only tcp_fin() sets SOCK_DONE.
	 */
	if (s->peer_fin || sk->sk_err || !sock_flag(sk, SOCK_DONE))
		return;
	s->peer_fin = true;
	if (kw_stream_cut_off(s))
		kw_stream_fail(s, KW_FAIL_FATAL, false);
	kw_stream_begin_close(s);
	kw_stream_queue(s, &s->end_work, 0);
	s->rx.kick = true;
}

static bool kw_stream_lost(const struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;

	return sk->sk_err || sk->sk_state == TCP_CLOSE;
}

/* The connection is gone without an orderly close by both sides. */
static void kw_stream_reset(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	bool closing = s->state == KW_STREAM_CLOSING;

	if (s->state != KW_STREAM_OPEN && !closing)
		return;
	if (sk->sk_err && !s->status)
		s->status = -sk->sk_err;
	kw_stream_count(s, KW_CNT_CONN_RESET);
	kw_stream_fail(s, closing ? KW_FAIL_CLOSED : KW_FAIL_FATAL, false);
	s->ops->notify(s);
}

/**
 * kw_end_check_lost() - the socket's state_change and error_report callback
 * @sk: socket
 *
 * Context: called by TCP with the socket lock held.
 */
void kw_end_check_lost(struct sock *sk)
{
	struct kw_stream *s = sk->sk_user_data;

	if (!s)
		return;
	/* What came before the end, and the peer's FIN itself, count first. */
	kw_rx_run(s);
	if (kw_rx_unfinished(s) || !kw_stream_lost(s))
		return;
	if (sk->sk_err || !s->peer_fin || !s->fin_sent)
		kw_stream_reset(s);
	kw_stream_queue(s, &s->end_work, 0);
}

/* Has TCP bytes, other than the FIN, that the peer has not acknowledged? */
static bool kw_end_holds(const struct kw_stream *s)
{
	const struct tcp_sock *tp = tcp_sk(s->sock->sk);

	return !kw_stream_lost(s) && tp->write_seq - tp->snd_una > s->fin_sent;
}

/* Is anything to be sent, now or after the wait for the first FPDU? */
static bool kw_end_tx_more(struct kw_stream *s)
{
	bool more;
	int idx;

	s->cache.mem = NULL;
	idx = srcu_read_lock(s->mem_srcu);
	more = kw_tx_pending(s);
	srcu_read_unlock(s->mem_srcu, idx);
	return more;
}

/*
 * All that is to be sent was given to TCP, and no response is awaited. What has
 * come may have to be answered.
 */
static bool kw_end_is_drained(struct kw_stream *s)
{
	if (s->tx.out_len || kw_rx_unfinished(s))
		return false;
	if (s->tx.await_first && s->state == KW_STREAM_CLOSING) {
		/* Nothing may be sent any more if the initiator sent nothing. */
		if (s->peer_fin)
			return true;
		/*
		 * Its ready-to-receive FPDU is coming, and needs a response.
		 * What is posted is only looked at behind its first FPDU: if
		 * it fails, a Terminate is sent (RFC 5044 section 7.1.2).
		 */
		if (s->p.rtr_await || kw_tx_own_left(s))
			return false;
	}
	/* A request that is not answered is something to send, too. */
	if (kw_end_tx_more(s))
		return false;
	return s->state == KW_STREAM_ERROR ||
	       (!s->tx.held && !s->orq_len);
}

/* A slow peer has time as long as there is progress, up to the limit. */
static bool kw_end_is_late(struct kw_stream *s)
{
	bool moved;
	long left;

	if (time_before(jiffies, s->deadline))
		return false;
	if (s->state != KW_STREAM_CLOSING)
		return true;
	moved = kw_close_progress(s);
	left = s->close_limit - jiffies;
	if (!moved || left <= 0)
		return true;
	s->deadline = jiffies + min_t(long, left, KW_CLOSE_TIMEOUT);
	return false;
}

enum kw_end_step {
	KW_END_WAIT,
	KW_END_FIN,
	KW_END_FINISH,
	KW_END_LINGER,
	KW_END_RESET,
};

/*
 * Kernel consumers disconnect and at once move the queue pair to ERROR to drain
 * it. If all is sent and answered, the peer sees the graceful end that was
 * requested first, which then waits for TCP to release the consumer's buffers.
 * In all other cases with such buffers the consumer has them back at once, and
 * what TCP holds cannot be sent.
 */
static enum kw_end_step kw_end_abort(struct kw_stream *s)
{
	if (!kw_zc_busy(s))
		return KW_END_LINGER;
	if (s->state != KW_STREAM_CLOSING || !time_before(jiffies, s->deadline) ||
	    !(s->fin_sent || kw_end_is_drained(s)))
		return KW_END_RESET;
	if (!s->domain->user && inet_csk(s->sock->sk)->icsk_retransmits)
		return KW_END_RESET;
	return s->fin_sent ? KW_END_WAIT : KW_END_FIN;
}

/* The time is over. Sending what has completed may outlast the queue pair. */
static enum kw_end_step kw_end_late(struct kw_stream *s)
{
	const struct tcp_sock *tp = tcp_sk(s->sock->sk);

	return s->state == KW_STREAM_CLOSING && tp->snd_una != tp->write_seq &&
	       !kw_zc_busy(s) ? KW_END_LINGER : KW_END_RESET;
}

static enum kw_end_step kw_end_next(struct kw_stream *s)
{
	bool ending = s->state == KW_STREAM_CLOSING ||
		      s->state == KW_STREAM_ERROR;

	/* What came before is received first: see kw_end_check_lost(). */
	if (kw_stream_lost(s))
		return kw_rx_unfinished(s) && !READ_ONCE(s->abort) &&
		       !(ending && time_after_eq(jiffies, s->deadline)) ?
			KW_END_WAIT : KW_END_FINISH;
	if (s->reset)
		return KW_END_RESET;
	if (READ_ONCE(s->abort))
		return kw_end_abort(s);
	if (!ending)
		return KW_END_WAIT;
	if (kw_end_is_late(s))
		return kw_end_late(s);
	if (!s->fin_sent)
		return kw_end_is_drained(s) ? KW_END_FIN : KW_END_WAIT;
	if (!s->peer_fin || kw_zc_busy(s))
		return KW_END_WAIT;
	/* TCP sends the rest by itself, but for those who wait for that. */
	if (s->domain->user || !kw_end_holds(s))
		return KW_END_FINISH;
	return s->state == KW_STREAM_CLOSING ? KW_END_WAIT : KW_END_LINGER;
}

static void kw_end_detach(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;

	WRITE_ONCE(s->state, KW_STREAM_DEAD);
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = NULL;
	sk->sk_data_ready = s->save_data_ready;
	sk->sk_state_change = s->save_state_change;
	sk->sk_write_space = s->save_write_space;
	sk->sk_error_report = s->save_error_report;
	write_unlock_bh(&sk->sk_callback_lock);
}

/**
 * kw_stream_free_queues() - free what kw_stream_start() allocated
 * @s: stream that does not run
 */
void kw_stream_free_queues(struct kw_stream *s)
{
	kvfree(s->orq);
	kvfree(s->irq);
	s->orq = NULL;
	s->irq = NULL;
}

/* TCP may still use buffers: this does not wait for that. */
static void kw_end_buffers(struct kw_stream *s)
{
	if (!kw_zc_close(s))
		return;
	kw_stream_free_queues(s);
	s->ops->ended(s);
}

/* Nothing else uses the socket any more. A limit of 0 means no limit. */
static void kw_end_socket(struct kw_stream *s, unsigned long limit)
{
	int ret = limit ? s->ops->linger(s, s->sock, limit) : -ENODEV;

	if (!ret)
		return;
	if (ret != -ENODEV) {
		kw_sock_close(s->sock);
		return;
	}
	kw_sock_reset(s->sock);
}

static unsigned long kw_end_linger_limit(const struct kw_stream *s)
{
	unsigned long limit = msecs_to_jiffies(s->p.set.linger_timeout_ms);

	/* A peer that caused an error gets only the time for the Terminate. */
	return s->state == KW_STREAM_ERROR ? min(limit, KW_ERROR_TIMEOUT) : limit;
}

/*
 * A kernel consumer that has drained its queue pair does what it got back once
 * more, by another connection. What of the first try comes behind that, like
 * the response to a storage target's Read, undoes what was done since. So all
 * that TCP holds has arrived by then, or is thrown away: after a time, or when
 * TCP's timer sends it again. Processes do not wait when they exit: what they
 * have completed is sent.
 *
 * Returns false if end_work is to look again.
 */
static bool kw_end_delivered(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	bool held, over;

	if (s->domain->user || !s->linger)
		return true;
	lock_sock(sk);
	/* The peer may wait for room for what it sends. */
	kw_sock_drop(sk);
	held = kw_end_holds(s);
	over = inet_csk(sk)->icsk_retransmits || time_after_eq(jiffies, s->deadline);
	release_sock(sk);
	if (held && over) {
		s->linger = 0;
		kw_stream_count(s, KW_CNT_LINGER_RESET);
	} else if (held) {
		kw_stream_queue(s, &s->end_work, KW_DELIVER_POLL);
	}
	return !held || over;
}

/* After the last reference is dropped: doorbells hold them, and queue work. */
static void kw_end_finish(struct kw_stream *s)
{
	if (!kw_end_delivered(s))
		return;
	cancel_delayed_work_sync(&s->tx.work);
	cancel_delayed_work_sync(&s->rx_work);
	cancel_delayed_work_sync(&s->first_work);
	kw_zc_detach(s);
	kw_stage_free(s);
	lock_sock(s->sock->sk);
	kw_tx_drop_buffer(s);
	release_sock(s->sock->sk);
	if (s->lost)
		kw_sock_close(s->sock);
	else
		kw_end_socket(s, s->linger);
	s->sock = NULL;
	kw_end_buffers(s);
}

/*
 * Set when to check again, if nothing happens before. Called under the same
 * hold of the socket lock as the check. What the backlog brings afterwards
 * queues the next step at once, and that must not be delayed to the deadline.
 */
static void kw_end_wait(struct kw_stream *s)
{
	if (s->state != KW_STREAM_CLOSING && s->state != KW_STREAM_ERROR)
		return;
	kw_stream_queue(s, &s->end_work, max_t(long, 1, s->deadline - jiffies));
	/* An abort does not wait for the lock; it may wait for TCP. */
	if (READ_ONCE(s->abort))
		kw_stream_queue(s, &s->end_work, kw_zc_busy(s) ? HZ / 50 : 0);
}

/*
 * The work request that was the next to be sent may have failed the stream: see
 * kw_end_tx_more(). Nothing else transmits the Terminate.
 */
static void kw_end_kick(struct kw_stream *s)
{
	if (!s->rx.kick)
		return;
	s->rx.kick = false;
	kw_stream_kick(s, KW_KICK_LOCKED);
	s->ops->notify(s);
}

/* With the socket lock: what is to be done without it. */
static enum kw_end_step kw_end_advance(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;
	enum kw_end_step step;

	lock_sock(sk);
	step = kw_end_next(s);
	if (step == KW_END_FIN)
		s->fin_sent = true;
	s->lost = step == KW_END_FINISH;
	if (step == KW_END_LINGER) {
		s->linger = kw_end_linger_limit(s);
		kw_tx_flush(s);
		s->deadline = jiffies + min_t(unsigned long, s->linger,
					      KW_DELIVER_TIMEOUT);
	}
	if (step == KW_END_WAIT) {
		kw_end_wait(s);
		kw_end_kick(s);
	} else if (step != KW_END_FIN) {
		kw_end_detach(s);
	}
	release_sock(sk);
	return step;
}

/**
 * kw_end_work() - take teardown one step further
 * @work: kw_stream.end_work
 *
 * Context: process. After the last step the queue pair, and with it the stream,
 * may be gone.
 */
void kw_end_work(struct work_struct *work)
{
	struct kw_stream *s = container_of(to_delayed_work(work),
					   struct kw_stream, end_work);
	enum kw_end_step step;

	if (!s->sock) {
		kw_end_buffers(s);
		return;
	}
	if (s->state == KW_STREAM_DEAD) {
		if (kw_users_gone(s))
			kw_end_finish(s);
		return;
	}
	step = kw_end_advance(s);
	if (step == KW_END_FIN) {
		kernel_sock_shutdown(s->sock, SHUT_WR);
		/* The peer's may have come already. */
		step = kw_end_advance(s);
	}
	if (step != KW_END_WAIT && kw_users_end(s))
		kw_end_finish(s);
}

/**
 * kw_stream_close() - graceful teardown, requested by the consumer
 * @s: started stream
 *
 * Transmits what one pass may. The worker continues: to wait here for all that
 * the peer asks for would hold the caller as long as it asks.
 *
 * Context: process, with a reference of kw_stream_get() that was taken while the
 * stream ran, or where no other context ends it.
 */
void kw_stream_close(struct kw_stream *s)
{
	lock_sock(s->sock->sk);
	kw_stream_begin_close(s);
	kw_stream_kick(s, KW_KICK_LOCKED);
	release_sock(s->sock->sk);
}

/**
 * kw_stream_abort() - end the stream at once
 * @s: started stream whose kw_stream_ops.ended does not come meanwhile
 *
 * Nothing more is placed or taken off the queues. What has completed is sent.
 *
 * Context: any.
 */
void kw_stream_abort(struct kw_stream *s)
{
	WRITE_ONCE(s->abort, true);
	kw_stream_queue(s, &s->end_work, 0);
}
