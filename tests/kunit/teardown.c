// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How long a peer has at the end: in a graceful end as long as it takes what was
 * posted, or sends what is awaited; for its own requests, and after an abort, as
 * long as the setting says; after an error less.
 */
#include <net/tcp.h>

#include "link.h"
#include "stream/priv.h"

static const struct kw_stream_params kt_params = {
	.crc = true,
	.initiator = true,
	.ird = 4,
	.ord = 4,
	.set.linger_timeout_ms = 100 * MSEC_PER_SEC,
};

/* More than the far end's buffers hold while a test does not read. */
static void kt_close_behind_sends(struct kt_link *l)
{
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), KT_REGION_LEN,
			    KT_STAG(KT_LOCAL) },
	};
	int i;

	for (i = 0; i < 3; i++)
		kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	kw_stream_close(&l->s);
	KUNIT_EXPECT_EQ(l->test, READ_ONCE(l->s.state), KW_STREAM_CLOSING);
}

/* The worker looks whether the end has come. */
static void kt_look(struct kt_link *l)
{
	kw_stream_queue(&l->s, &l->s.end_work, 0);
	flush_work(&l->s.end_work.work);
}

/* The time is over: what comes of it? */
static void kt_deadline(struct kt_link *l)
{
	lock_sock(l->s.sock->sk);
	l->s.deadline = jiffies;
	release_sock(l->s.sock->sk);
	kt_look(l);
}

/* The same with the limit, which progress of some kinds moves. */
static void kt_limit(struct kt_link *l)
{
	WRITE_ONCE(l->s.close_limit, jiffies);
	kt_deadline(l);
}

static bool kt_acknowledged_all(struct kt_link *l)
{
	const struct tcp_sock *tp = tcp_sk(l->s.sock->sk);

	return READ_ONCE(tp->snd_una) == READ_ONCE(tp->write_seq);
}

static bool kt_acknowledged_more(struct kt_link *l)
{
	return READ_ONCE(tcp_sk(l->s.sock->sk)->snd_una) != l->s.una;
}

static void kt_test_takes_bytes(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_close_behind_sends(l);
	KUNIT_ASSERT_TRUE(test, kt_until(kt_acknowledged_more(l)));
	kt_deadline(l);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_CLOSING);
	KUNIT_EXPECT_TRUE(test, time_after(READ_ONCE(l->s.deadline), jiffies));
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
}

/* What the consumer has posted takes the time that it takes. */
static void kt_test_no_limit_for_own(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_close_behind_sends(l);
	KUNIT_EXPECT_TRUE(test, time_in_range(l->s.close_limit, jiffies + 50 * HZ,
					      jiffies + 100 * HZ));
	KUNIT_ASSERT_TRUE(test, kt_until(kt_acknowledged_more(l)));
	kt_limit(l);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_CLOSING);
	KUNIT_EXPECT_TRUE(test, time_after(READ_ONCE(l->s.close_limit),
					   jiffies + 50 * HZ));
}

static const struct kw_wqe kt_read = {
	.opcode = KIWARP_OP_READ,
	.num_sge = 1,
	.sge[0] = { KT_BASE(KT_LOCAL), 64, KT_STAG(KT_LOCAL) },
};

/* At once: a second look would find that the progress is over. */
static void kt_is_over(struct kt_link *l)
{
	KUNIT_EXPECT_EQ(l->test, READ_ONCE(l->s.state), KW_STREAM_DEAD);
	KUNIT_EXPECT_NE(l->test, 0UL,
			wait_for_completion_timeout(&l->ended, 30 * HZ));
}

/* A Read is sent, and acknowledged; others are held if they exceed the ORD. */
static void kt_close_behind_reads(struct kt_link *l, int n)
{
	struct kt_segment seg;

	while (n--)
		kt_post(l, &kt_read);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	kw_stream_close(&l->s);
	KUNIT_ASSERT_EQ(l->test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(l->test, seg.ddp.qn, KW_QN_READ_REQ);
	KUNIT_ASSERT_TRUE(l->test, kt_until(kt_acknowledged_all(l)));
}

/* What the peer acknowledges besides can only be responses to its requests. */
static void kt_test_limit(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_close_behind_reads(l, 1);
	l->s.una--;
	kt_deadline(l);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_CLOSING);
	l->s.una--;
	kt_limit(l);
	kt_is_over(l);
}

/* What waits for a response that the peer does not send moves no limit either. */
static void kt_test_limit_while_held(struct kunit *test)
{
	struct kw_stream_params params = kt_params;
	struct kt_link *l;

	params.ord = 1;
	l = kt_link_new(test, &params, 1448, 0);
	kt_close_behind_reads(l, 3);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(l->s.tx.held));
	l->s.una--;
	kt_limit(l);
	kt_is_over(l);
}

/* The peer takes nothing more, but the response to a Read is coming. */
static void kt_test_response_comes(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	struct kt_bytes o = kt_bytes_new(test, 256);
	static const u8 body[16];

	kt_close_behind_reads(l, 1);
	l->s.una = tcp_sk(l->s.sock->sk)->snd_una;
	kt_write(&o, KW_RDMAP_READ_RESP, KT_STAG(KT_LOCAL), KT_BASE(KT_LOCAL), false,
		 body, sizeof(body));
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->s.orq[0].done)));
	kt_limit(l);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_CLOSING);
	/* What else it sends does not count. */
	o.len = 0;
	kt_write(&o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE), KT_BASE(KT_REMOTE), false, body,
		 sizeof(body));
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->s.rx.write_open)));
	kt_deadline(l);
	kt_is_over(l);
}

static void kt_test_takes_nothing(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_close_behind_sends(l);
	lock_sock(l->s.sock->sk);
	l->s.una = tcp_sk(l->s.sock->sk)->snd_una;
	l->s.deadline = jiffies;
	kw_stream_queue(&l->s, &l->s.end_work, 0);
	release_sock(l->s.sock->sk);
	KUNIT_EXPECT_NE(test, 0UL,
			wait_for_completion_timeout(&l->ended, 30 * HZ));
}

static void kt_abort(struct kt_link *l)
{
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_NE(l->test, 0UL,
			wait_for_completion_timeout(&l->ended, 30 * HZ));
}

static void kt_test_linger(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_abort(l);
	KUNIT_EXPECT_EQ(test, l->linger, 100UL * HZ);
}

static void kt_test_linger_in_error(struct kunit *test)
{
	static const u8 nonsense[64] = { 0, 56 };
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_peer_write(l, nonsense, sizeof(nonsense));
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->failed)));
	kt_abort(l);
	KUNIT_EXPECT_EQ(test, l->linger, (unsigned long)KW_ERROR_TIMEOUT);
}

/*
 * What is sent and not acknowledged, since the peer's socket is in use. The
 * caller lets go of it. Of a kernel consumer, if not of @user.
 */
static struct kt_link *kt_abort_unacknowledged(struct kunit *test, bool user,
					       u32 rto)
{
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), 64, KT_STAG(KT_LOCAL) },
	};
	struct kt_link *l = kt_link_connect(test, 1448, 0);

	inet_csk(l->early->sk)->icsk_rto_min = rto;
	l->domain.user = user;
	kt_link_start(l, &kt_params);
	/* The time that TCP waits is computed when the first is acknowledged. */
	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_ASSERT_TRUE(test, kt_until(kt_acknowledged_all(l)));
	lock_sock_nested(l->peer->sk, SINGLE_DEPTH_NESTING);
	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.state) == KW_STREAM_DEAD));
	return l;
}

static void kt_ended(struct kt_link *l)
{
	KUNIT_EXPECT_NE(l->test, 0UL,
			wait_for_completion_timeout(&l->ended, 30 * HZ));
}

/* A kernel consumer's end comes when all has arrived, */
static void kt_test_delivers(struct kunit *test)
{
	struct kt_link *l = kt_abort_unacknowledged(test, false, 60 * HZ);

	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.unused)));
	flush_delayed_work(&l->s.end_work);
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
	release_sock(l->peer->sk);
	kt_ended(l);
	KUNIT_EXPECT_TRUE(test, l->delivered);
	KUNIT_EXPECT_EQ(test, l->linger, 100UL * HZ);
}

static void kt_expect_thrown_away(struct kt_link *l)
{
	struct kunit *test = l->test;
	int ret;
	u8 byte;

	kt_ended(l);
	release_sock(l->peer->sk);
	KUNIT_EXPECT_EQ(test, l->linger, 0UL);
	KUNIT_EXPECT_EQ(test, 1ULL, kw_counter_read(l->counters, KW_CNT_LINGER_RESET));
	do
		ret = kt_peer_read(l, &byte, 1);
	while (ret > 0);
	KUNIT_EXPECT_EQ(test, ret, -ECONNRESET);
}

/* or when the time is over, */
static void kt_test_delivers_in_time(struct kunit *test)
{
	struct kt_link *l = kt_abort_unacknowledged(test, false, 60 * HZ);

	/* From here on no other sets it. */
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.unused)));
	WRITE_ONCE(l->s.deadline, jiffies);
	kt_expect_thrown_away(l);
}

/* or when TCP sends it again; */
static void kt_test_delivers_once(struct kunit *test)
{
	kt_expect_thrown_away(kt_abort_unacknowledged(test, false, 0));
}

/* at once if only the FIN is on its way; */
static void kt_test_delivers_but_fin(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 1448, 0);

	inet_csk(l->early->sk)->icsk_rto_min = 60 * HZ;
	l->domain.user = false;
	kt_link_start(l, &kt_params);
	lock_sock_nested(l->peer->sk, SINGLE_DEPTH_NESTING);
	kw_stream_close(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.fin_sent)));
	kw_stream_abort(&l->s);
	kt_ended(l);
	release_sock(l->peer->sk);
	KUNIT_EXPECT_EQ(test, l->linger, 100UL * HZ);
	KUNIT_EXPECT_EQ(test, 0ULL, kw_counter_read(l->counters, KW_CNT_LINGER_RESET));
}

/* if the peer has ended first, in an end in order: as long as it takes; */
static void kt_test_delivers_to_who_ends(struct kunit *test)
{
	static const struct kw_stream_params params = {
		.crc = true,
		.initiator = true,
	};
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), 64, KT_STAG(KT_LOCAL) },
	};
	struct kt_link *l = kt_link_connect(test, 1448, 0);
	struct sock *sk = l->early->sk;
	struct kt_segment seg;
	u8 byte;

	inet_csk(sk)->icsk_rto_min = 60 * HZ;
	l->domain.user = false;
	kt_link_start(l, &params);
	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_ASSERT_TRUE(test, kt_until(kt_acknowledged_all(l)));
	/* The FIN is received when the Send is on its way. */
	lock_sock_nested(sk, SINGLE_DEPTH_NESTING);
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	lock_sock_nested(l->peer->sk, SINGLE_DEPTH_NESTING + 1);
	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_LOCKED);
	release_sock(sk);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.fin_sent)));
	flush_delayed_work(&l->s.end_work);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_CLOSING);
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
	/* A peer that has taken some since the last look has no limit. */
	l->s.una--;
	kt_limit(l);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_CLOSING);
	release_sock(l->peer->sk);
	kt_ended(l);
	KUNIT_EXPECT_TRUE(test, l->closing);
	KUNIT_EXPECT_EQ(test, 0ULL, kw_counter_read(l->counters, KW_CNT_LINGER_RESET));
	KUNIT_EXPECT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
}

/* a process's at once. */
static void kt_test_user_lingers(struct kunit *test)
{
	struct kt_link *l = kt_abort_unacknowledged(test, true, 60 * HZ);

	kt_ended(l);
	release_sock(l->peer->sk);
	KUNIT_EXPECT_FALSE(test, l->delivered);
	KUNIT_EXPECT_EQ(test, l->linger, 100UL * HZ);
}

/* What an abort is to end may fail before the worker looks: it ends at once. */
static void kt_test_fails_in_an_abort(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	struct sock *sk = l->s.sock->sk;
	bool waits;

	lock_sock(sk);
	preempt_disable();
	kw_stream_abort(&l->s);
	kw_stream_set_deadline(&l->s, KW_ERROR_TIMEOUT);
	waits = timer_pending(&l->s.end_work.timer);
	preempt_enable();
	release_sock(sk);
	KUNIT_EXPECT_FALSE(test, waits);
	kt_ended(l);
}

/* A reset is no FIN, even if who sent something has taken TCP's error. */
static void kt_test_reset_is_no_fin(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 1448, 0);
	struct sock *sk = l->early->sk;

	lock_sock(l->peer->sk);
	tcp_disconnect(l->peer->sk, 0);
	release_sock(l->peer->sk);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(sk->sk_state) == TCP_CLOSE));
	KUNIT_EXPECT_EQ(test, -ECONNRESET, sock_error(sk));
	kt_link_start(l, &kt_params);
	kt_ended(l);
	KUNIT_EXPECT_FALSE(test, l->closing);
	KUNIT_EXPECT_EQ(test, l->why, KW_FAIL_FATAL);
}

/* Into memory that is not registered. */
static const struct kw_wqe kt_bad_read = {
	.opcode = KIWARP_OP_READ,
	.num_sge = 1,
	.sge[0] = { KT_BASE(KT_LOCAL), 64, KT_STAG(KT_NR_REGIONS) },
};

static void kt_terminated(struct kt_link *l)
{
	struct kt_segment seg;

	KUNIT_ASSERT_EQ(l->test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(l->test, seg.ddp.qn, KW_QN_TERMINATE);
	KUNIT_EXPECT_TRUE(l->test, kt_until(READ_ONCE(l->failed)));
	KUNIT_EXPECT_EQ(l->test, l->nr_wdone, 1);
}

/*
 * Whether there is something to send is looked at in a graceful end, too, as
 * here for what has no doorbell. What cannot be sent ends it with a Terminate.
 */
static void kt_test_fails_at_the_end(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_close_behind_reads(l, 1);
	kt_post(l, &kt_bad_read);
	kt_look(l);
	kt_terminated(l);
}

/* A responder's Terminate does not come before the initiator's first FPDU. */
static void kt_test_fails_behind_the_first(struct kunit *test)
{
	struct kw_stream_params p = kt_params;
	struct kt_bytes o = kt_bytes_new(test, 4096);
	struct kt_link *l;

	p.initiator = false;
	l = kt_link_new(test, &p, 1448, 0);
	kt_post(l, &kt_bad_read);
	kw_stream_close(&l->s);
	kt_look(l);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_CLOSING);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 0);
	kt_write(&o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE), KT_BASE(KT_REMOTE), true,
		 NULL, 0);
	kt_peer_write(l, o.p, o.len);
	kt_terminated(l);
}

/*
 * The end waits for those who use the socket, like a process that is kept from
 * running in a doorbell. No worker waits with it that others may need.
 */
static void kt_test_end_waits(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 0, 0);

	KUNIT_ASSERT_TRUE(test, kw_stream_get(&l->s));
	KUNIT_ASSERT_TRUE(test, kw_stream_get(&l->s));
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.state) == KW_STREAM_DEAD));
	/* Others may ask for the end once more. */
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(!work_busy(&l->s.end_work.work)));
	kw_stream_put(&l->s);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(!work_busy(&l->s.end_work.work)));
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
	/* They get no more. */
	KUNIT_EXPECT_FALSE(test, kw_stream_get(&l->s));
	kw_stream_put(&l->s);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
}

/* Who uses a running stream does not end it. */
static void kt_test_users_come_and_go(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 0, 0);
	int i;

	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_TRUE(test, kw_stream_get(&l->s));
		kw_stream_put(&l->s);
	}
	kt_look(l);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_OPEN);
	KUNIT_EXPECT_FALSE(test, l->s.unused);
}

/*
 * Who looks whether the next connection is there, just as it fails to start, or
 * starts after all.
 */
static void kt_test_user_of_a_start(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);

	KUNIT_EXPECT_FALSE(test, kw_stream_get(&l->s));
	l->start_error = -EINVAL;
	l->used_at_start = true;
	KUNIT_EXPECT_EQ(test, -EINVAL,
			kw_stream_start(&l->s, l->early, &kt_params));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&l->s.users));
	l->start_error = 0;
	l->used_at_start = false;
	kt_link_start(l, &kt_params);
	/* Of the start that failed. */
	kw_stream_put(&l->s);
	KUNIT_EXPECT_FALSE(test, l->s.unused);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->s.state), KW_STREAM_OPEN);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
}

/*
 * Of a start that failed, and of which nothing is to be ended. The next one has
 * users of its own.
 */
static void kt_test_last_user_of_a_start(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);

	l->start_error = -EINVAL;
	l->used_at_start = true;
	KUNIT_EXPECT_EQ(test, -EINVAL,
			kw_stream_start(&l->s, l->early, &kt_params));
	kw_stream_put(&l->s);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&l->s.users));
	KUNIT_EXPECT_FALSE(test, work_busy(&l->s.end_work.work));
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
	l->start_error = 0;
	kt_link_start(l, &kt_params);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.state) == KW_STREAM_DEAD));
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(!work_busy(&l->s.end_work.work)));
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
	kw_stream_put(&l->s);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
}

/*
 * There is nothing to wait for when the FIN goes out, as the peer's has come:
 * the peer may never acknowledge it.
 */
static void kt_test_ends_with_its_fin(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 0, 0);
	struct sock *peer = l->peer->sk;

	/* The peer's FIN waits in the backlog until its end is deaf. */
	lock_sock_nested(l->s.sock->sk, SINGLE_DEPTH_NESTING);
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	lock_sock(peer);
	release_sock(l->s.sock->sk);
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
	KUNIT_EXPECT_FALSE(test, l->failed);
	release_sock(peer);
}

static struct kunit_case kt_teardown_cases[] = {
	KUNIT_CASE(kt_test_end_waits),
	KUNIT_CASE(kt_test_users_come_and_go),
	KUNIT_CASE(kt_test_user_of_a_start),
	KUNIT_CASE(kt_test_last_user_of_a_start),
	KUNIT_CASE(kt_test_ends_with_its_fin),
	KUNIT_CASE(kt_test_takes_bytes),
	KUNIT_CASE(kt_test_no_limit_for_own),
	KUNIT_CASE(kt_test_limit),
	KUNIT_CASE(kt_test_limit_while_held),
	KUNIT_CASE(kt_test_response_comes),
	KUNIT_CASE(kt_test_takes_nothing),
	KUNIT_CASE(kt_test_linger),
	KUNIT_CASE(kt_test_linger_in_error),
	KUNIT_CASE(kt_test_delivers),
	KUNIT_CASE(kt_test_delivers_in_time),
	KUNIT_CASE(kt_test_delivers_once),
	KUNIT_CASE(kt_test_delivers_but_fin),
	KUNIT_CASE(kt_test_delivers_to_who_ends),
	KUNIT_CASE(kt_test_user_lingers),
	KUNIT_CASE(kt_test_fails_in_an_abort),
	KUNIT_CASE(kt_test_reset_is_no_fin),
	KUNIT_CASE(kt_test_fails_at_the_end),
	KUNIT_CASE(kt_test_fails_behind_the_first),
	{}
};

struct kunit_suite kt_teardown_suite = {
	.name = "kiwarp_teardown",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_teardown_cases,
};
