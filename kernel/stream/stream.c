// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What all streams share, and a stream's beginning: taking over a socket after
 * MPA start-up, and the wait for the peer's first FPDU.
 */
#include <linux/slab.h>
#include <net/tcp.h>

#include "stream/tx_pool.h"
#include "stream/priv.h"
#include "stream/rx.h"
#include "stream/tx.h"
#include "stream/vec.h"
#include "stream/zcopy.h"

static struct workqueue_struct *kw_stream_wq;

/**
 * kw_streams_init() - what all streams share
 *
 * Context: module load.
 * Return: 0 or -ENOMEM.
 */
int kw_streams_init(void)
{
	/* Reclaim may depend on storage behind a stream (NVMe-oF, iSER, NFS). */
	kw_stream_wq = alloc_workqueue("kiwarp", WQ_UNBOUND | WQ_MEM_RECLAIM |
				       WQ_HIGHPRI, 0);
	kw_vec_init();
	return kw_stream_wq ? 0 : -ENOMEM;
}

/**
 * kw_streams_exit() - undo kw_streams_init()
 *
 * Context: module unload, when there are no streams any more.
 */
void kw_streams_exit(void)
{
	kw_zc_exit();
	destroy_workqueue(kw_stream_wq);
	kw_tx_pool_exit();
}

/**
 * kw_stream_queue() - run a stream's work in process context
 * @s: stream
 * @work: its tx.work or end_work
 * @delay: jiffies
 *
 * Context: any. Work that is already waiting is moved to the new time.
 */
void kw_stream_queue(struct kw_stream *s, struct delayed_work *work,
		     unsigned long delay)
{
	mod_delayed_work(kw_stream_wq, work, delay);
}

/**
 * kw_stream_init() - prepare a stream that has no connection
 * @s: stream
 * @ops: the queue pair's
 * @mem_srcu: domain that keeps regions alive during a pass
 * @counters: the device's
 */
void kw_stream_init(struct kw_stream *s, const struct kw_stream_ops *ops,
		    struct srcu_struct *mem_srcu,
		    struct kw_counters __percpu *counters)
{
	memset(s, 0, sizeof(*s));
	s->ops = ops;
	s->mem_srcu = mem_srcu;
	s->counters = counters;
	INIT_DELAYED_WORK(&s->end_work, kw_end_work);
	INIT_DELAYED_WORK(&s->tx.work, kw_tx_work);
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

static int kw_stream_alloc_queues(struct kw_stream *s)
{
	s->orq = kvcalloc(max(s->p.ord, 1U), sizeof(*s->orq),
			  GFP_KERNEL_ACCOUNT);
	s->irq = kvcalloc(max(s->p.ird, 1U), sizeof(*s->irq),
			  GFP_KERNEL_ACCOUNT);
	if (s->orq && s->irq)
		return 0;
	kw_stream_free_queues(s);
	return -ENOMEM;
}

static void kw_stream_attach(struct kw_stream *s)
{
	struct sock *sk = s->sock->sk;

	/* Softirq transmits, so allocations may neither sleep nor use current. */
	sk->sk_allocation = GFP_ATOMIC;
	sk->sk_use_task_frag = false;
	tcp_sk(sk)->nonagle |= TCP_NAGLE_OFF;

	write_lock_bh(&sk->sk_callback_lock);
	s->save_data_ready = sk->sk_data_ready;
	s->save_state_change = sk->sk_state_change;
	s->save_write_space = sk->sk_write_space;
	s->save_error_report = sk->sk_error_report;
	sk->sk_user_data = s;
	sk->sk_data_ready = kw_rx_data_ready;
	sk->sk_state_change = kw_end_check_lost;
	sk->sk_write_space = kw_tx_write_space;
	sk->sk_error_report = kw_end_check_lost;
	write_unlock_bh(&sk->sk_callback_lock);
}

/*
 * siw looks for an RTR only after its reply has left, and does not see one
 * that came before; its consumer then waits for data that may never come. A
 * zero-length Write changes nothing, so a second one does no harm.
 */
#define KW_RTR_REPEAT	(HZ / 20)

/* A zero-length Write alone can be sent again: it uses up nothing. */
static bool kw_first_repeats(const struct kw_stream *s)
{
	return s->p.initiator && s->p.rtr == KW_RTR_WRITE;
}

/*
 * How long to wait for the peer's first FPDU. RFC 5044 section 7.1.2: the
 * responder sends nothing before it. Peers without the peer-to-peer model (siw,
 * revision 1) have consumers that let the responder speak first all the same;
 * they are long in FPDU mode when the grace time has passed, and would wait for
 * ever.
 */
static void kw_first_await(struct kw_stream *s)
{
	unsigned long wait = kw_first_repeats(s) ? KW_RTR_REPEAT : 0;

	if (s->tx.await_first)
		wait = msecs_to_jiffies(s->p.set.first_fpdu_timeout_ms);
	if (!wait)
		return;
	kw_stream_queue(s, &s->end_work, wait);
	/* The owner may have asked for the end meanwhile, which is not to wait. */
	if (READ_ONCE(s->abort))
		kw_stream_queue(s, &s->end_work, 0);
}

/**
 * kw_first_is_timed() - whether leave to send comes with time, during teardown
 * @s: stream
 *
 * Context: socket lock held.
 * Return: true if it comes at s->first_fpdu_deadline, unless the peer's first FPDU comes
 * before.
 */
bool kw_first_is_timed(const struct kw_stream *s)
{
	return s->state == KW_STREAM_CLOSING && s->tx.await_first &&
	       s->p.set.first_fpdu_timeout_ms && !s->peer_fin;
}

/**
 * kw_first_wait() - end the wait for the peer's first FPDU, if its time is over
 * @s: stream; the time is that of its end_work
 *
 * A responder waits no longer for leave to send, an initiator repeats an RTR
 * that may have been missed.
 *
 * Context: process, socket lock held.
 */
void kw_first_wait(struct kw_stream *s)
{
	bool over = s->state == KW_STREAM_OPEN ||
		    (kw_first_is_timed(s) &&
		     time_after_eq(jiffies, s->first_fpdu_deadline));

	if (!over || s->rx.started || s->abort)
		return;
	s->tx.await_first = false;
	if (kw_first_repeats(s))
		s->tx.rtr_pending = true;
	kw_stream_kick(s, KW_KICK_LOCKED);
}

/**
 * kw_first_tx_more() - whether anything is to be sent, be it only after the wait
 * @s: stream
 *
 * Context: process, socket lock held.
 * Return: true if there is.
 */
bool kw_first_tx_more(struct kw_stream *s)
{
	bool await_first = s->tx.await_first;
	bool more;
	int idx;

	s->cache.mem = NULL;
	idx = srcu_read_lock(s->mem_srcu);
	s->tx.await_first = false;
	more = kw_tx_more(s);
	s->tx.await_first = await_first;
	srcu_read_unlock(s->mem_srcu, idx);
	return more;
}

/**
 * kw_stream_start() - enter FPDU mode
 * @s: stream without a connection
 * @sock: connected socket whose MPA start-up is finished; passes to the stream
 *	if this returns 0
 * @p: what start-up settled
 *
 * Context: process. The owner holds a reference for the stream, which
 * kw_stream_ops.ended gives back.
 * Return: 0; -ENOMEM or -EINVAL (the owner is not ready) with no reference
 * kept.
 */
int kw_stream_start(struct kw_stream *s, struct socket *sock,
		    const struct kw_stream_params *p)
{
	struct sock *sk = sock->sk;
	int rv;

	s->p = *p;
	rv = kw_stream_alloc_queues(s);
	if (rv)
		return rv;
	rv = kw_zc_open(s);
	if (rv) {
		kw_stream_free_queues(s);
		return rv;
	}
	s->sock = sock;
	s->status = 0;
	s->reason = 0;
	s->peer_fin = false;
	s->fin_sent = false;
	s->abort = false;
	s->orq_head = 0;
	s->orq_len = 0;
	s->irq_head = 0;
	s->irq_len = 0;
	memset(&s->rx, 0, sizeof(s->rx));
	s->rx.need = KW_MPA_HDR_LEN;
	s->rx.send_msn = 1;
	s->rx.read_msn = 1;
	atomic_set(&s->tx.token, 0);
	memset_startat(&s->tx, 0, out);
	s->tx.send_msn = 1;
	s->tx.read_msn = 1;
	s->tx.rtr_pending = p->initiator && p->rtr != KW_RTR_NONE;
	s->tx.await_first = !p->initiator;

	lock_sock(sk);
	rv = s->ops->started(s);
	if (rv) {
		release_sock(sk);
		kw_zc_close(s);
		kw_stream_free_queues(s);
		s->sock = NULL;
		return rv;
	}
	/* Pairs with kw_stream_state(): whoever sees this sees the socket. */
	smp_store_release(&s->state, KW_STREAM_OPEN);
	kw_first_await(s);
	kw_stream_attach(s);
	kw_ack_init(s);
	/* FPDUs, or the end, may have come before the callbacks were set. */
	kw_rx_run(s);
	if (sk->sk_err || sk->sk_state == TCP_CLOSE)
		kw_end_check_lost(sk);
	kw_stream_kick(s, KW_KICK_LOCKED);
	release_sock(sk);
	return 0;
}
