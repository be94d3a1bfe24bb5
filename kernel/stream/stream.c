// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * A stream's beginning: taking over a socket after MPA start-up.
 */
#include <linux/slab.h>
#include <net/tcp.h>

#include "stream/owner.h"
#include "stream/rx.h"
#include "stream/stream.h"
#include "stream/teardown.h"
#include "stream/tx.h"
#include "stream/tx_batch.h"
#include "stream/zcopy.h"

/*
 * siw looks for an RTR only after its reply has left, and does not see one
 * that came before; its consumer then waits for data that may never come. A
 * zero-length Write changes nothing, so a second one does no harm.
 */
#define KW_RTR_REPEAT	(HZ / 20)

/**
 * kw_stream_init() - prepare a stream that has no connection
 * @s: stream
 * @mem_srcu: domain that keeps regions alive during a pass
 * @counters: the device's
 */
void kw_stream_init(struct kw_stream *s, struct srcu_struct *mem_srcu,
		    struct kw_counters __percpu *counters)
{
	memset(s, 0, sizeof(*s));
	s->mem_srcu = mem_srcu;
	s->counters = counters;
	INIT_DELAYED_WORK(&s->end_work, kw_end_work);
	INIT_DELAYED_WORK(&s->tx.work, kw_tx_work);
	kw_batch_init(s);
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
	sk->sk_state_change = kw_end_state_change;
	sk->sk_write_space = kw_tx_write_space;
	sk->sk_error_report = kw_end_error_report;
	write_unlock_bh(&sk->sk_callback_lock);
}

/*
 * How long to wait for the peer's first FPDU: see kw_end_first_wait(). RFC 5044
 * section 7.1.2: the responder sends nothing before it. Peers without the
 * peer-to-peer model (siw, revision 1) have consumers that let the responder
 * speak first all the same; they are long in FPDU mode when the grace time has
 * passed, and would wait for ever.
 */
static unsigned long kw_stream_first_wait(const struct kw_stream *s)
{
	if (s->tx.gate)
		return msecs_to_jiffies(s->p.gate_ms);
	return kw_stream_rtr_repeats(s) ? KW_RTR_REPEAT : 0;
}

static void kw_stream_await_first(struct kw_stream *s)
{
	unsigned long wait = kw_stream_first_wait(s);

	if (!wait)
		return;
	kw_stream_queue(s, &s->end_work, wait);
	/* The owner may have asked for the end meanwhile, which is not to wait. */
	if (READ_ONCE(s->abort))
		kw_stream_queue(s, &s->end_work, 0);
}

/**
 * kw_stream_start() - enter FPDU mode
 * @s: stream without a connection
 * @sock: connected socket whose MPA start-up is finished; passes to the stream
 *	if this returns 0
 * @p: what start-up settled
 *
 * Context: process. The owner holds a reference for the stream, which
 * kw_own_ended() gives back.
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
	s->tx.out_len = 0;
	s->tx.out_eor = false;
	s->tx.out_list = false;
	s->tx.stream_off = 0;
	s->tx.msg = KW_MSG_NONE;
	s->tx.held = false;
	s->tx.term_pending = false;
	s->tx.term_sent = false;
	s->tx.send_msn = 1;
	s->tx.read_msn = 1;
	s->tx.rtr_pending = p->initiator && p->rtr != KW_RTR_NONE;
	s->tx.gate = !p->initiator;

	lock_sock(sk);
	rv = kw_own_started(s);
	if (rv) {
		release_sock(sk);
		kw_zc_close(s);
		kw_stream_free_queues(s);
		s->sock = NULL;
		return rv;
	}
	WRITE_ONCE(s->state, KW_STREAM_OPEN);
	kw_stream_await_first(s);
	kw_stream_attach(s);
	kw_ack_init(s);
	/* FPDUs, or the end, may have come before the callbacks were set. */
	kw_rx_run(s);
	if (sk->sk_err || sk->sk_state == TCP_CLOSE)
		kw_end_state_change(sk);
	kw_stream_kick(s, KW_KICK_LOCKED);
	release_sock(sk);
	return 0;
}
