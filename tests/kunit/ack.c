// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Acknowledgments: which messages are acknowledged with their answer, and that
 * the acknowledgment waits for no more than that.
 */
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"

#define KT_MSS		1448
#define KT_PAYLOAD	1416

static const struct kw_stream_params kt_params = {
	.crc = true,
	.initiator = true,
	.set.ack_segments = 4,
	.ird = 4,
	.ord = 4,
};

/* Far more than TCP acknowledges at once on a young connection. */
#define KT_YOUNG	20

/* Rounds that count, of the rounds behind those. */
#define KT_ROUNDS	10
#define KT_TRIES	200

static bool kt_acknowledged(const struct kt_link *l)
{
	const struct tcp_sock *tp = tcp_sk(l->s.sock->sk);

	return READ_ONCE(tp->rcv_wup) == READ_ONCE(tp->rcv_nxt);
}

/* A Send of @len bytes arrives as one piece. */
static void kt_arrives(struct kt_link *l, u32 len)
{
	struct kt_bytes o = kt_bytes_new(l->test, 2 * len);
	u32 msn = l->nr_recv + 1, off = 0;

	kt_post_recv(l, msn, 0, len);
	while (off < len) {
		u32 n = min_t(u32, len - off, KT_PAYLOAD);

		kt_send(&o, KW_RDMAP_SEND, msn, off, off + n == len,
			kt_at(l, KT_REMOTE, 2000), n);
		off += n;
	}
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(l->test, kt_until(READ_ONCE(l->nr_done) == msn));
	kunit_kfree(l->test, o.p);
}

static void kt_answer(struct kt_link *l)
{
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), 64, KT_STAG(KT_LOCAL) },
	};
	struct kt_segment seg;

	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_ASSERT_EQ(l->test, 1, kt_peer_fpdu(l, &seg));
	kunit_kfree(l->test, seg.ulpdu);
}

/*
 * Messages of @len bytes, each answered: how many of ten waited. Rounds in which
 * a tick ends, and with it the wait, do not count.
 */
static u32 kt_waited(struct kt_link *l, u32 len)
{
	u32 i, counted = 0, waited = 0;

	for (i = 0; i < KT_YOUNG + KT_TRIES && counted < KT_ROUNDS; i++) {
		unsigned long begun = jiffies;
		bool waits;

		kt_arrives(l, len);
		waits = !kt_acknowledged(l);
		if (i >= KT_YOUNG && !time_after(jiffies, begun)) {
			counted++;
			waited += waits;
		}
		kt_answer(l);
		KUNIT_EXPECT_TRUE(l->test, kt_acknowledged(l));
	}
	KUNIT_EXPECT_EQ(l->test, counted, KT_ROUNDS);
	return waited;
}

static void kt_test_short(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, KT_MSS, 0);

	KUNIT_EXPECT_EQ(test, kt_waited(l, 4096), KT_ROUNDS);
}

/* How many ticks the acknowledgment waits at most from now on. */
static long kt_wait(struct kt_link *l)
{
	struct inet_connection_sock *icsk = inet_csk(l->s.sock->sk);
	long ticks = 0;

	lock_sock(&icsk->icsk_inet.sk);
	if (icsk->icsk_ack.pending & ICSK_ACK_TIMER)
		ticks = icsk->icsk_ack.timeout - jiffies;
	release_sock(&icsk->icsk_inet.sk);
	return ticks;
}

static void kt_test_long(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, KT_MSS, 0);

	KUNIT_EXPECT_EQ(test, kt_waited(l, 4 * KT_MSS + 1), 0);
}

static void kt_test_off(struct kunit *test)
{
	struct kw_stream_params p = kt_params;
	struct kt_link *l;

	p.set.ack_segments = 0;
	l = kt_link_new(test, &p, KT_MSS, 0);
	KUNIT_EXPECT_EQ(test, kt_waited(l, 4096), 0);
}

/* Without an answer the acknowledgment waits not for long, and only once. */
static void kt_test_unanswered(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, KT_MSS, 0);
	u32 i;

	KUNIT_EXPECT_EQ(test, kt_waited(l, 4096), KT_ROUNDS);
	kt_arrives(l, 4096);
	KUNIT_EXPECT_LE(test, kt_wait(l), 1);
	KUNIT_EXPECT_TRUE(test, kt_until(kt_acknowledged(l)));
	for (i = 0; i < 3; i++) {
		kt_arrives(l, 4096);
		KUNIT_EXPECT_TRUE(test, kt_acknowledged(l));
	}
}

static struct kunit_case kt_ack_cases[] = {
	KUNIT_CASE(kt_test_short),
	KUNIT_CASE(kt_test_long),
	KUNIT_CASE(kt_test_off),
	KUNIT_CASE(kt_test_unanswered),
	{}
};

struct kunit_suite kt_ack_suite = {
	.name = "kiwarp_ack",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_ack_cases,
};
