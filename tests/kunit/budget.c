// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Budgets: what one pass may do, and that what is left is done in order, and
 * before the stream ends.
 */
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"
#include "stream/priv.h"
#include "stream/rx.h"
#include "stream/softirq.h"
#include "stream/tx.h"

#define KT_SEND_LEN	16
#define KT_SENDS	1000
#define KT_RCVBUF	(8 << 20)

static const struct kw_stream_params kt_params = {
	.crc = true,
	.initiator = true,
	.ird = 4,
	.ord = 4,
};

/* A link whose socket takes all that a test sends. */
static struct kt_link *kt_wide_link(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	l->s.sock->sk->sk_sndbuf = 16 << 20;
	l->s.sock->sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	return l;
}

static void kt_post_sends(struct kt_link *l, u32 n, u32 len)
{
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), len, KT_STAG(KT_LOCAL) },
	};

	while (n--)
		kt_post(l, &w);
}

/* All of them, in order, and behind them nothing or the FIN. */
static void kt_expect_sends(struct kt_link *l, u32 n, u32 len)
{
	struct kunit *test = l->test;
	struct kt_segment seg;
	u32 msn, got;

	for (msn = 1; msn <= n; msn++) {
		got = 0;
		do {
			KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
			KUNIT_ASSERT_EQ(test, seg.ddp.msn, msn);
			KUNIT_ASSERT_EQ(test, seg.ddp.mo, got);
			got += seg.len;
			kunit_kfree(test, seg.ulpdu);
		} while (!seg.ddp.last);
		KUNIT_ASSERT_EQ(test, got, len);
	}
}

static void kt_expect_done(struct kt_link *l, u32 n)
{
	struct kunit *test = l->test;
	u32 i;

	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_wdone) == n));
	for (i = 0; i < n; i++) {
		KUNIT_EXPECT_EQ(test, l->wdone[i].index, i);
		KUNIT_EXPECT_EQ(test, l->wdone[i].status, IB_WC_SUCCESS);
	}
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/* Transmit as from softirq: the worker can not continue before this returns. */
static void kt_kick_locked(struct kt_link *l)
{
	struct sock *sk = l->s.sock->sk;

	lock_sock(sk);
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	KUNIT_EXPECT_GT(l->test, l->nr_wdone, 0U);
	KUNIT_EXPECT_LE(l->test, l->nr_wdone, (u32)KW_TX_BUDGET);
	/* MSG_MORE at the end of the pass would hold the last segment back. */
	KUNIT_EXPECT_NULL(l->test, tcp_send_head(sk));
	release_sock(sk);
}

/* A pass does what it may, and the worker does the rest. */
static void kt_test_messages(struct kunit *test)
{
	struct kt_link *l = kt_wide_link(test);

	kt_post_sends(l, KT_SENDS, KT_SEND_LEN);
	kt_kick_locked(l);
	kt_expect_sends(l, KT_SENDS, KT_SEND_LEN);
	kt_expect_done(l, KT_SENDS);
	KUNIT_EXPECT_LE(test, l->wdone_most, (u32)KW_TX_BUDGET);
}

/* The same by bytes. */
static void kt_test_bytes(struct kunit *test)
{
	const u32 most = KW_TX_BUDGET * KW_TX_BUDGET_BYTES;
	struct kt_link *l = kt_wide_link(test);
	struct sock *sk = l->s.sock->sk;
	u32 before, sent;

	kt_post_sends(l, 16, KT_REGION_LEN);
	lock_sock(sk);
	before = tcp_sk(sk)->write_seq;
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	sent = tcp_sk(sk)->write_seq - before;
	release_sock(sk);
	KUNIT_EXPECT_GT(test, sent, most / 2);
	/* The last transmit buffer may be the one that exceeds it. */
	KUNIT_EXPECT_LE(test, sent, most + (1 << 16));
	kt_expect_sends(l, 16, KT_REGION_LEN);
	kt_expect_done(l, 16);
}

/*
 * The same by FPDUs. With the peer's MSS of 192 what it may send of long
 * messages would be some 13,000.
 */
static void kt_test_fpdus(struct kunit *test)
{
	const u32 most = KW_TX_BUDGET * KW_TX_BUDGET_FPDUS;
	struct kt_link *l = kt_link_new(test, &kt_params, 192, KT_RCVBUF);
	struct sock *sk = l->s.sock->sk;
	u64 sent;

	sk->sk_sndbuf = 16 << 20;
	sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	kt_post_sends(l, 8, KT_REGION_LEN);
	lock_sock(sk);
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	sent = kw_counter_read(l->counters, KW_CNT_TX_FPDUS);
	release_sock(sk);
	KUNIT_EXPECT_GT(test, sent, (u64)most / 2);
	/* The last transmit buffer may be the one that exceeds it. */
	KUNIT_EXPECT_LE(test, sent, (u64)most + (1 << 16) / 128);
	kt_expect_sends(l, 8, KT_REGION_LEN);
	kt_expect_done(l, 8);
}

/* A process continues by itself, but lets go of the lock. */
static void kt_test_process(struct kunit *test)
{
	struct kt_link *l = kt_wide_link(test);

	kt_post_sends(l, KT_SENDS, KT_SEND_LEN);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, (u32)KT_SENDS);
	KUNIT_EXPECT_LE(test, l->wdone_most, (u32)KW_TX_BUDGET);
	kt_expect_sends(l, KT_SENDS, KT_SEND_LEN);
}

/* Requests for more than two passes, which have come but are not answered. */
#define KT_READS	16

static struct kt_link *kt_asked_link(struct kunit *test)
{
	static const struct kw_stream_params params = {
		.crc = true,
		.initiator = true,
		.ird = KT_READS,
		.ord = 4,
	};
	const struct kw_read_req req = {
		.sink_stag = KT_STAG(KT_LOCAL),
		.size = KT_REGION_LEN,
		.src_stag = KT_STAG(KT_READ_ONLY),
		.src_to = KT_BASE(KT_READ_ONLY),
	};
	struct kt_link *l = kt_link_new(test, &params, 1448, KT_RCVBUF);
	struct kt_bytes o = kt_bytes_new(test, KT_READS * 128);
	u8 body[KW_READ_REQ_LEN];
	u32 i;

	l->s.sock->sk->sk_sndbuf = 16 << 20;
	l->s.sock->sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	kw_read_req_build(body, &req);
	for (i = 1; i <= KT_READS; i++)
		kt_send(&o, KW_RDMAP_READ_REQ, i, 0, true, body, sizeof(body));
	/* As if another context transmitted. */
	atomic_or(KW_TX_OWNED, &l->s.tx.token);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->s.irq_len) == KT_READS));
	atomic_set(&l->s.tx.token, 0);
	l->task = current;
	return l;
}

static void kt_expect_answers(struct kt_link *l, u32 sends)
{
	struct kunit *test = l->test;
	struct kt_segment seg;
	u32 reads = 0;

	while (reads < KT_READS || sends) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		if (seg.ddp.last && seg.ddp.tagged)
			reads++;
		else if (seg.ddp.last)
			sends--;
		kunit_kfree(test, seg.ulpdu);
	}
	KUNIT_EXPECT_EQ(test, reads, (u32)KT_READS);
}

/* A process does not stay to answer the peer, */
static void kt_test_answers(struct kunit *test)
{
	struct kt_link *l = kt_asked_link(test);

	kt_post_sends(l, 1, KT_SEND_LEN);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_EXPECT_EQ(test, l->passes, 1U);
	kt_expect_answers(l, 1);
	kt_expect_done(l, 1);
}

/* but until all is sent that it has posted. */
static void kt_test_answers_between(struct kunit *test)
{
	struct kt_link *l = kt_asked_link(test);

	kt_post_sends(l, KT_SENDS, KT_SEND_LEN);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, (u32)KT_SENDS);
	KUNIT_EXPECT_GT(test, l->passes, 3U);
	kt_expect_answers(l, KT_SENDS);
	kt_expect_done(l, KT_SENDS);
}

/* What is left of a pass is sent before the FIN, whoever ends the stream. */
static void kt_expect_fin(struct kt_link *l)
{
	struct kunit *test = l->test;
	u8 byte;

	kt_expect_sends(l, KT_SENDS, KT_SEND_LEN);
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
	kt_expect_done(l, KT_SENDS);
	KUNIT_EXPECT_TRUE(test, l->closing);
}

/*
 * The first step of the end comes after the first pass, and before the others:
 * the worker and this step wait for the socket in that order.
 */
static void kt_test_peer_closes(struct kunit *test)
{
	struct kt_link *l = kt_wide_link(test);
	struct sock *sk = l->s.sock->sk;

	kt_post_sends(l, KT_SENDS, KT_SEND_LEN);
	/* The peer is another socket of this class. */
	lock_sock_nested(sk, SINGLE_DEPTH_NESTING);
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	KUNIT_EXPECT_LE(test, l->nr_wdone, (u32)KW_TX_BUDGET);
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	release_sock(sk);
	kt_expect_fin(l);
}

static void kt_test_close(struct kunit *test)
{
	struct kt_link *l = kt_wide_link(test);
	int idx;

	kt_post_sends(l, KT_SENDS, KT_SEND_LEN);
	kt_kick_locked(l);
	idx = srcu_read_lock(&l->domain.srcu);
	kw_stream_close(&l->s);
	srcu_read_unlock(&l->domain.srcu, idx);
	kt_expect_fin(l);
}

/* The far end's FPDUs wait in a socket that no stream reads yet. */
#define KT_WRITES	5000

static struct kt_link *kt_early_link(struct kunit *test, u32 n, u32 len)
{
	struct kt_link *l = kt_link_connect(test, 0, KT_RCVBUF);
	struct kt_bytes o = kt_bytes_new(test, n * (len + len / 64 + 64) + 64);
	u8 *data = kunit_kmalloc(test, len, GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, data);
	kt_pattern(data, len, 5);
	for (i = 0; i < n; i++)
		kt_write(&o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE),
			 KT_BASE(KT_REMOTE) + i % 256, true, data, len);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(tcp_inq(l->early->sk) == o.len));
	return l;
}

/* A softirq's share: FPDUs that one finds in the socket. */
#define KT_STORED	100

static const struct kw_stream_params kt_responder = {
	.crc = true,
	.ird = 4,
	.ord = 4,
};

static void kt_expect_fpdus(struct kt_link *l, u32 n)
{
	struct kunit *test = l->test;

	KUNIT_EXPECT_TRUE(test, kt_until(kw_counter_read(l->counters,
							 KW_CNT_RX_FPDUS) == n));
	KUNIT_EXPECT_LE(test, l->fpdus_most, (u32)KW_RX_BUDGET);
	KUNIT_EXPECT_LE(test, l->rx_most, (u32)KW_RX_BUDGET_BYTES);
}

/* What waits when the stream starts is received in several passes. */
static void kt_test_early_fpdus(struct kunit *test)
{
	struct kt_link *l = kt_early_link(test, KT_WRITES, 16);

	kt_link_start(l, &kt_responder);
	kt_expect_fpdus(l, KT_WRITES);
	KUNIT_EXPECT_FALSE(test, l->failed);
}

static void kt_test_early_bytes(struct kunit *test)
{
	struct kt_link *l = kt_early_link(test, 30, 50000);

	kt_link_start(l, &kt_responder);
	kt_expect_fpdus(l, 30);
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/* The peer's FIN counts behind all that came before. */
static void kt_test_early_fin(struct kunit *test)
{
	struct kt_link *l = kt_early_link(test, KT_WRITES, 16);

	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	kt_link_start(l, &kt_responder);
	kt_expect_fpdus(l, KT_WRITES);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
	KUNIT_EXPECT_TRUE(test, l->closing);
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/* And so does a reset. */
static void kt_test_early_reset(struct kunit *test)
{
	struct kt_link *l = kt_early_link(test, KT_WRITES, 16);

	sock_no_linger(l->peer->sk);
	sock_release(l->peer);
	l->peer = NULL;
	kt_link_start(l, &kt_responder);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
	kt_expect_fpdus(l, KT_WRITES);
	KUNIT_EXPECT_TRUE(test, l->failed);
	KUNIT_EXPECT_EQ(test, l->s.status, -ECONNRESET);
}

/* An abort does not wait for what is left. */
static void kt_test_early_abort(struct kunit *test)
{
	struct kt_link *l = kt_early_link(test, KT_WRITES, 16);

	kt_link_start(l, &kt_responder);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/**
 * struct kt_softirq - a softirq, which is a timer's
 * @timer: the timer
 * @each: what it does
 * @l: the stream
 * @others: what other streams have done in this softirq before
 * @left: the budget at its beginning
 * @same_tick: it was over before the next tick, which renews the budget
 * @done: it is over
 * @sent: send queue entries that it has completed
 * @received: FPDUs that it has received
 * @after: the budget at its end
 */
struct kt_softirq {
	struct timer_list timer;
	void (*each)(struct kt_softirq *q);
	struct kt_link *l;
	u32 others;
	u32 left;
	bool same_tick;
	bool done;
	u32 sent;
	u64 received;
	u32 after;
};

static void kt_softirq_run(struct timer_list *timer)
{
	struct kt_softirq *q = container_of(timer, struct kt_softirq, timer);
	unsigned long tick = jiffies;

	q->left = kw_softirq_left();
	kw_softirq_charge(q->others);
	q->each(q);
	q->after = kw_softirq_left();
	q->same_tick = !time_after(jiffies, tick);
	/* Pairs with that of kt_in_softirq(): the results are there. */
	smp_store_release(&q->done, true);
}

static struct kt_softirq *kt_in_softirq(struct kunit *test, struct kt_link *l,
					u32 others,
					void (*each)(struct kt_softirq *q))
{
	struct kt_softirq *q = kunit_kzalloc(test, sizeof(*q), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, q);
	q->l = l;
	q->others = others;
	q->each = each;
	timer_setup(&q->timer, kt_softirq_run, 0);
	mod_timer(&q->timer, jiffies + 1);
	/* Pairs with that of kt_softirq_run(). */
	KUNIT_ASSERT_TRUE(test, kt_until(smp_load_acquire(&q->done)));
	timer_delete_sync(&q->timer);
	KUNIT_EXPECT_EQ(test, q->left, (u32)KW_SOFTIRQ_BUDGET);
	return q;
}

/* The socket is no process's: TCP would not call the stream either. */
static void kt_softirq_stream(struct kt_softirq *q)
{
	struct kw_stream *s = &q->l->s;
	struct sock *sk = s->sock->sk;

	bh_lock_sock(sk);
	s->rx.later = false;
	sk->sk_data_ready(sk);
	kw_stream_kick(s, KW_KICK_LOCKED);
	q->sent = q->l->nr_wdone;
	q->received = kw_counter_read(q->l->counters, KW_CNT_RX_FPDUS);
	bh_unlock_sock(sk);
}

/* What a softirq may send is limited for all of its CPU's streams together, */
static void kt_softirq_sends(struct kunit *test, u32 left, u32 most)
{
	struct kt_link *l = kt_wide_link(test);
	struct kt_softirq *q;

	kt_post_sends(l, KT_SENDS, KT_SEND_LEN);
	q = kt_in_softirq(test, l, KW_SOFTIRQ_BUDGET - left, kt_softirq_stream);
	KUNIT_EXPECT_GE(test, q->sent, most / 2);
	if (q->same_tick) {
		KUNIT_EXPECT_LE(test, q->sent, most);
		/* There was more to do than there was budget for. */
		KUNIT_EXPECT_EQ(test, q->after, (u32)KW_SOFTIRQ_LEAST);
	}
	kt_expect_sends(l, KT_SENDS, KT_SEND_LEN);
	kt_expect_done(l, KT_SENDS);
}

static void kt_test_softirq_sends(struct kunit *test)
{
	kt_softirq_sends(test, 10, 10);
}

/* but for what each may in any case. */
static void kt_test_softirq_sends_least(struct kunit *test)
{
	kt_softirq_sends(test, 0, KW_SOFTIRQ_LEAST);
}

/* And what it may receive is, by FPDUs */
static void kt_softirq_receives(struct kunit *test, u32 left, u32 len,
				bool one, u64 most)
{
	struct kt_link *l = kt_link_new(test, &kt_responder, 0, KT_RCVBUF);
	struct kt_bytes o = kt_bytes_new(test, KT_STORED * (len + len / 64 + 64));
	u8 *data = kunit_kzalloc(test, len, GFP_KERNEL);
	struct sock *sk = l->s.sock->sk;
	struct kt_softirq *q;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, data);
	for (i = 0; i < KT_STORED; i++)
		kt_write(&o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE),
			 KT_BASE(KT_REMOTE) + (one ? i * len : 0),
			 !one || i == KT_STORED - 1, data, len);
	/* As if the worker were to receive it, until the softirq does. */
	lock_sock(sk);
	l->s.rx.later = true;
	release_sock(sk);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(tcp_inq(sk) == o.len));
	q = kt_in_softirq(test, l, KW_SOFTIRQ_BUDGET - left, kt_softirq_stream);
	KUNIT_EXPECT_GE(test, q->received, most / 2);
	if (q->same_tick) {
		KUNIT_EXPECT_LE(test, q->received, most);
		KUNIT_EXPECT_EQ(test, q->after, (u32)KW_SOFTIRQ_LEAST);
	}
	KUNIT_EXPECT_TRUE(test, kt_until(kw_counter_read(l->counters,
							 KW_CNT_RX_FPDUS) == KT_STORED));
	KUNIT_EXPECT_FALSE(test, l->failed);
}

static void kt_test_softirq_fpdus(struct kunit *test)
{
	kt_softirq_receives(test, 3, 16, false, 3 * KW_SOFTIRQ_RX_FPDUS);
}

/* also those of one message, which are predicted, */
static void kt_test_softirq_predicted(struct kunit *test)
{
	kt_softirq_receives(test, 3, 16, true, 3 * KW_SOFTIRQ_RX_FPDUS);
}

/* and by bytes. */
static void kt_test_softirq_bytes(struct kunit *test)
{
	kt_softirq_receives(test, 3, 2000, false,
			    3 * KW_SOFTIRQ_RX_BYTES / 2000);
}

static void kt_test_softirq_receives_least(struct kunit *test)
{
	kt_softirq_receives(test, 0, 16, false,
			    KW_SOFTIRQ_LEAST * KW_SOFTIRQ_RX_FPDUS);
}

#define KT_CHARGED	100

/* Another run of a softirq has a budget of its own, */
static void kt_softirq_next_run(struct kt_softirq *q)
{
	q->sent = kw_softirq_left();
	kstat_incr_softirqs_this_cpu(NET_RX_SOFTIRQ);
}

static void kt_test_softirq_next_run(struct kunit *test)
{
	struct kt_softirq *q = kt_in_softirq(test, kt_wide_link(test), KT_CHARGED,
					     kt_softirq_next_run);

	if (q->same_tick)
		KUNIT_EXPECT_EQ(test, q->sent, (u32)KW_SOFTIRQ_BUDGET - KT_CHARGED);
	KUNIT_EXPECT_EQ(test, q->after, (u32)KW_SOFTIRQ_BUDGET);
}

/* and so has the next tick. */
static void kt_softirq_next_tick(struct kt_softirq *q)
{
	unsigned long tick = jiffies;

	while (!time_after(jiffies, tick))
		cpu_relax();
}

static void kt_test_softirq_next_tick(struct kunit *test)
{
	struct kt_softirq *q = kt_in_softirq(test, kt_wide_link(test), KT_CHARGED,
					     kt_softirq_next_tick);

	KUNIT_EXPECT_EQ(test, q->after, (u32)KW_SOFTIRQ_BUDGET);
}

/* A message of many buffers counts as several. */
static void kt_test_sges(struct kunit *test)
{
	struct kt_link *l = kt_wide_link(test);
	struct sock *sk = l->s.sock->sk;
	struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 16,
	};
	u32 i;

	for (i = 0; i < w.num_sge; i++)
		w.sge[i] = (struct kiwarp_sge) { KT_BASE(KT_LOCAL), 1, KT_STAG(KT_LOCAL) };
	for (i = 0; i < KT_SENDS; i++)
		kt_post(l, &w);
	lock_sock(sk);
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	KUNIT_EXPECT_LE(test, l->nr_wdone,
			(u32)KW_TX_BUDGET / (1 + w.num_sge / KW_TX_BUDGET_SGES) + 1);
	KUNIT_EXPECT_GT(test, l->nr_wdone, 0U);
	release_sock(sk);
	kt_expect_sends(l, KT_SENDS, w.num_sge);
	kt_expect_done(l, KT_SENDS);
}

/* As when a Read is answered that many entries have waited for. */
static void kt_test_retire(struct kunit *test)
{
	struct kt_link *l = kt_wide_link(test);
	struct sock *sk = l->s.sock->sk;

	l->to_retire = KT_SENDS;
	lock_sock(sk);
	kt_post_sends(l, 1, KT_SEND_LEN);
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	KUNIT_EXPECT_EQ(test, l->retired, (u32)KW_RETIRE_BUDGET);
	/* What is done meanwhile waits for the worker. */
	kt_post_sends(l, 1, KT_SEND_LEN);
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	KUNIT_EXPECT_EQ(test, l->retired, (u32)KW_RETIRE_BUDGET);
	release_sock(sk);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->retired) == KT_SENDS));
	lock_sock(sk);
	KUNIT_EXPECT_LE(test, l->retired_most, (u32)KW_RETIRE_BUDGET);
	KUNIT_EXPECT_FALSE(test, l->s.retiring);
	release_sock(sk);
	kt_expect_done(l, 2);
}

/* The end does not wait for them. */
static void kt_test_retire_abort(struct kunit *test)
{
	struct kt_link *l = kt_wide_link(test);
	struct sock *sk = l->s.sock->sk;

	l->to_retire = U32_MAX;
	lock_sock(sk);
	kt_post_sends(l, 1, KT_SEND_LEN);
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	release_sock(sk);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
	KUNIT_EXPECT_FALSE(test, work_busy(&l->s.rx_work.work));
}

struct kt_stuck {
	struct work_struct work;
	struct completion go;
};

static void kt_stuck_work(struct work_struct *work)
{
	wait_for_completion(&container_of(work, struct kt_stuck, work)->go);
}

/*
 * Work of a process's streams waits for sockets that the process owns while it
 * is kept from running. That of kernel consumers' streams goes on.
 */
static void kt_test_own_queue(struct kunit *test)
{
	struct kt_link *l = kt_wide_link(test);
	struct kt_stuck stuck;
	struct kw_domain *other =
		kunit_kzalloc(test, sizeof(*other), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_ASSERT_EQ(test, 0, kw_domain_init(other, false));
	workqueue_set_max_active(l->domain.streams_wq, 1);
	init_completion(&stuck.go);
	INIT_WORK_ONSTACK(&stuck.work, kt_stuck_work);
	queue_work(l->domain.streams_wq, &stuck.work);
	/* As of a kernel consumer: only where its work runs counts. */
	swap(l->domain.streams_wq, other->streams_wq);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.state) == KW_STREAM_DEAD));
	swap(l->domain.streams_wq, other->streams_wq);
	complete(&stuck.go);
	flush_work(&stuck.work);
	destroy_work_on_stack(&stuck.work);
	workqueue_set_max_active(l->domain.streams_wq, WQ_MAX_ACTIVE);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
	kw_domain_exit(other);
}

static struct kunit_case kt_budget_cases[] = {
	KUNIT_CASE(kt_test_messages),
	KUNIT_CASE(kt_test_bytes),
	KUNIT_CASE(kt_test_fpdus),
	KUNIT_CASE(kt_test_process),
	KUNIT_CASE(kt_test_answers),
	KUNIT_CASE(kt_test_answers_between),
	KUNIT_CASE(kt_test_peer_closes),
	KUNIT_CASE(kt_test_close),
	KUNIT_CASE(kt_test_early_fpdus),
	KUNIT_CASE(kt_test_early_bytes),
	KUNIT_CASE(kt_test_early_fin),
	KUNIT_CASE(kt_test_early_reset),
	KUNIT_CASE(kt_test_early_abort),
	KUNIT_CASE(kt_test_own_queue),
	KUNIT_CASE(kt_test_softirq_sends),
	KUNIT_CASE(kt_test_softirq_sends_least),
	KUNIT_CASE(kt_test_softirq_fpdus),
	KUNIT_CASE(kt_test_softirq_predicted),
	KUNIT_CASE(kt_test_softirq_bytes),
	KUNIT_CASE(kt_test_softirq_receives_least),
	KUNIT_CASE(kt_test_softirq_next_run),
	KUNIT_CASE(kt_test_softirq_next_tick),
	KUNIT_CASE(kt_test_sges),
	KUNIT_CASE(kt_test_retire),
	KUNIT_CASE(kt_test_retire_abort),
	{}
};

struct kunit_suite kt_budget_suite = {
	.name = "kiwarp_budget",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_budget_cases,
};
