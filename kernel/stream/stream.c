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

/**
 * kw_streams_init() - allocate what all streams share
 *
 * Context: module load.
 * Return: 0 or -ENOMEM.
 */
int kw_streams_init(void)
{
	kw_vec_init();
	return kw_work_init();
}

/**
 * kw_streams_exit() - undo kw_streams_init()
 *
 * Context: module unload, when there are no streams any more.
 */
void kw_streams_exit(void)
{
	kw_zc_exit();
	kw_work_exit();
	kw_tx_pool_exit();
}

/**
 * kw_stream_init() - prepare a stream that has no connection
 * @s: stream
 * @ops: the queue pair's
 * @domain: that of the queue pair's owner
 * @counters: the device's
 */
void kw_stream_init(struct kw_stream *s, const struct kw_stream_ops *ops,
		    struct kw_domain *domain,
		    struct kw_counters __percpu *counters)
{
	memset(s, 0, sizeof(*s));
	s->ops = ops;
	s->domain = domain;
	s->mem_srcu = &domain->srcu;
	s->counters = counters;
	INIT_DELAYED_WORK(&s->end_work, kw_end_work);
	INIT_DELAYED_WORK(&s->rx_work, kw_rx_work);
	INIT_DELAYED_WORK(&s->tx.work, kw_tx_work);
}

/**
 * kw_stream_set_counters() - where a stream counts from now on
 * @s: stream
 * @counters: the device's, or those of a struct rdma_counter
 *
 * Those before may still be used until synchronize_srcu() of mem_srcu returns,
 * or the stream is gone.
 *
 * Context: any.
 */
void kw_stream_set_counters(struct kw_stream *s,
			    struct kw_counters __percpu *counters)
{
	WRITE_ONCE(s->counters, counters);
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
 * siw looks for an RTR only after its reply has left, and does not see one that
 * came before. Its consumer then waits for data that may never come. A second
 * zero-length Write is harmless where kw_next_msg() sends it.
 */
#define KW_RTR_REPEAT	(HZ / 20)

/* Only a zero-length Write can be sent again: it uses no MSN and no buffer. */
static bool kw_first_repeats(const struct kw_stream *s)
{
	return s->p.initiator && s->p.rtr == KW_RTR_WRITE;
}

/*
 * The time is over. A responder may send from now on, in a graceful end, too,
 * unless the peer can send no more. An initiator repeats an RTR that may have
 * been missed.
 */
static void kw_first_work(struct work_struct *work)
{
	struct kw_stream *s = container_of(to_delayed_work(work),
					   struct kw_stream, first_work);
	bool may;

	lock_sock(s->sock->sk);
	may = s->state == KW_STREAM_OPEN || (s->state == KW_STREAM_CLOSING &&
					     s->tx.await_first && !s->peer_fin);
	if (may && !s->rx.started && !READ_ONCE(s->abort)) {
		s->tx.await_first = false;
		s->tx.rtr_pending = kw_first_repeats(s);
		kw_stream_kick(s, KW_KICK_LOCKED);
	}
	release_sock(s->sock->sk);
}

/*
 * How long to wait for the peer's first FPDU: the responder sends nothing
 * before it (RFC 5044 section 7.1.2). Peers without the peer-to-peer model
 * (siw, revision 1) have consumers that let the responder send first all the
 * same. They are in FPDU mode long before the time is over, and would wait for
 * ever. A ready-to-receive message comes when the peer can receive, which takes
 * any time if its hardware is busy. What is sent before that ends the
 * connection.
 */
static void kw_first_await(struct kw_stream *s)
{
	unsigned long wait = kw_first_repeats(s) ? KW_RTR_REPEAT : 0;

	INIT_DELAYED_WORK(&s->first_work, kw_first_work);
	if (s->tx.await_first && !s->p.rtr_await)
		wait = msecs_to_jiffies(s->p.set.first_fpdu_timeout_ms);
	if (wait)
		kw_stream_queue(s, &s->first_work, wait);
}

/**
 * kw_stream_info() - describe a stream, without its socket lock
 * @s: stream
 * @info: result
 *
 * Context: process, between kw_users_lock() and kw_users_unlock(), which bound
 * the use of info->sk.
 */
void kw_stream_info(const struct kw_stream *s, struct kw_stream_info *info)
{
	memset(info, 0, sizeof(*info));
	info->state = kw_stream_state(s);
	if (info->state != KW_STREAM_OPEN && info->state != KW_STREAM_CLOSING)
		return;
	info->sk = s->sock->sk;
	info->tx_send_msn = READ_ONCE(s->tx.send_msn);
	info->tx_read_msn = READ_ONCE(s->tx.read_msn);
	info->rx_send_msn = READ_ONCE(s->rx.send_msn);
	info->rx_read_msn = READ_ONCE(s->rx.read_msn);
	info->reads_out = READ_ONCE(s->orq_len);
	info->reads_in = READ_ONCE(s->irq_len);
}

/**
 * kw_stream_start() - enter FPDU mode
 * @s: stream without a connection
 * @sock: connected socket whose MPA start-up is finished; passes to the stream
 *	if this returns 0
 * @p: what start-up negotiated
 *
 * Context: process. The queue pair holds a reference for the stream, which
 * kw_stream_ops.ended drops.
 * Return: 0; -ENOMEM, or -EINVAL if the queue pair is not ready, with no
 * reference kept.
 */
int kw_stream_start(struct kw_stream *s, struct socket *sock,
		    const struct kw_stream_params *p)
{
	struct sock *sk = sock->sk;
	int ret;

	memset_startat(s, 0, sock);
	s->p = *p;
	s->orq = kvcalloc(kw_orq_size(s), sizeof(*s->orq), GFP_KERNEL_ACCOUNT);
	s->irq = kvcalloc(kw_irq_size(s), sizeof(*s->irq), GFP_KERNEL_ACCOUNT);
	ret = s->orq && s->irq ? kw_zc_open(s) : -ENOMEM;
	if (ret)
		goto free;
	s->sock = sock;
	s->rx.need = KW_MPA_HDR_LEN;
	s->rx.send_msn = 1;
	s->rx.read_msn = 1;
	s->rx.resp_msn = 1;
	atomic_set(&s->tx.token, 0);
	memset_startat(&s->tx, 0, out);
	s->tx.send_msn = 1;
	s->tx.read_msn = 1;
	s->tx.resp_msn = 1;
	s->tx.await_msn = 1;
	s->tx.rtr_pending = p->initiator && p->rtr != KW_RTR_NONE;
	s->tx.await_first = !p->initiator;

	lock_sock(sk);
	/* Before others can know that there is a connection. */
	kw_users_begin(s);
	ret = s->ops->started(s);
	if (ret)
		goto release;
	/* Pairs with kw_stream_state(): a reader of it sees the socket. */
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
release:
	release_sock(sk);
	kw_users_end(s);
	s->sock = NULL;
free:
	kw_zc_close(s);
	kw_stream_free_queues(s);
	return ret;
}
