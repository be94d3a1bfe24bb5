// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Zero copy: when a work request completes, and that every end of a stream
 * completes what is in flight. The far end reads only when a test reads, so
 * that what is in flight stays so.
 */
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"

/* More than the far end's buffers hold while a test does not read. */
#define KT_LONG		KT_REGION_LEN

static const struct kw_stream_params kt_params = {
	.crc = true,
	.initiator = true,
	.set.zcopy_min = 4096,
	.ird = 4,
	.ord = 4,
};

static void kt_post_send(struct kt_link *l, u32 off, u32 len)
{
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL) + off, len, KT_STAG(KT_LOCAL) },
	};

	kt_post(l, &w);
}

/* Bytes of one message, FPDU by FPDU, all equal to the region's. */
static void kt_expect_send(struct kt_link *l, u32 from, u32 len)
{
	struct kunit *test = l->test;
	struct kt_segment seg;
	u32 off = 0, i, wrong = 0;

	do {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		for (i = 0; i < seg.len; i++)
			wrong += seg.body[i] !=
				 *kt_at(l, KT_LOCAL, from + off + i);
		off += seg.len;
		kunit_kfree(test, seg.ulpdu);
	} while (!seg.ddp.last);
	KUNIT_EXPECT_EQ(test, off, len);
	KUNIT_EXPECT_EQ(test, 0U, wrong);
}

static s64 kt_not_copied(struct kt_link *l)
{
	return kw_counter_read(l->counters, KW_CNT_TX_ZCOPY_OCTETS);
}

/* It completes when the peer has acknowledged all of it, and not before. */
static void kt_test_done_when_acked(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_post_send(l, 0, KT_LONG);
	kt_post_send(l, 5, 100);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_EXPECT_EQ(test, l->nr_zc_started, 1);
	/* The far end's buffer is full long before. */
	msleep(50);
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->nr_zc_done), 0);
	kt_expect_send(l, 0, KT_LONG);
	kt_expect_send(l, 5, 100);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->nr_wdone) == 2));
	KUNIT_EXPECT_EQ(test, l->nr_zc_done, 1);
	KUNIT_EXPECT_EQ(test, l->wdone[1].status, IB_WC_SUCCESS);
	KUNIT_EXPECT_GT(test, kt_not_copied(l), (s64)KT_LONG / 2);
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/* A message below the threshold is copied, and so is an inline one. */
static void kt_test_threshold(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_post_send(l, 0, 4095);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_EXPECT_EQ(test, l->nr_zc_started, 0);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 1);
	kt_post_send(l, 0, 4096);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_EXPECT_EQ(test, l->nr_zc_started, 1);
	kt_expect_send(l, 0, 4095);
	kt_expect_send(l, 0, 4096);
}

/* An abort does not wait for a peer that reads nothing. */
static void kt_test_abort(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_post_send(l, 0, KT_LONG);
	kt_post_send(l, 0, KT_LONG);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_EXPECT_GE(test, l->nr_zc_started, 1);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_NE(test, 0UL,
			wait_for_completion_timeout(&l->ended, 10 * HZ));
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 0);
}

/* A reference to the oldest message that TCP sends from, as a card's. */
static struct ubuf_info *kt_hold_message(struct kt_link *l)
{
	struct sock *sk = l->s.sock->sk;
	struct ubuf_info *ubuf;
	struct sk_buff *skb;

	lock_sock(sk);
	skb = tcp_rtx_queue_head(sk);
	ubuf = skb ? skb_zcopy(skb) : NULL;
	if (ubuf)
		net_zcopy_get(ubuf);
	release_sock(sk);
	return ubuf;
}

/*
 * A card still sends from a buffer when the socket is gone. The stream ends
 * when it is done, and not when the time for that is over.
 */
static void kt_test_abort_is_heard(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	struct ubuf_info *ubuf;

	kt_post_send(l, 0, KT_LONG);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	ubuf = kt_hold_message(l);
	KUNIT_ASSERT_NOT_NULL(test, ubuf);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_TRUE(test, kt_until(!READ_ONCE(l->s.sock) &&
					 timer_pending(&l->s.end_work.timer)));
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
	net_zcopy_put(ubuf);
	KUNIT_EXPECT_FALSE(test, timer_pending(&l->s.end_work.timer));
	KUNIT_EXPECT_NE(test, 0UL,
			wait_for_completion_timeout(&l->ended, 30 * HZ));
}

/*
 * A graceful end with an abort right behind it, as kernel consumers do: nothing
 * that was posted is lost, and the stream ends after TCP has released buffers.
 */
static void kt_test_close_and_abort(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_post_send(l, 0, 100000);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	kw_stream_close(&l->s);
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
	kt_expect_send(l, 0, 100000);
	KUNIT_EXPECT_NE(test, 0UL,
			wait_for_completion_timeout(&l->ended, 10 * HZ));
	KUNIT_EXPECT_EQ(test, l->nr_zc_done, 1);
	KUNIT_EXPECT_EQ(test, l->wdone[0].status, IB_WC_SUCCESS);
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/* In error the work requests in flight complete, but as failed work. */
static void kt_test_error(struct kunit *test)
{
	static const u8 nonsense[64] = { 0, 56 };
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	struct kt_segment seg = {};

	kt_post_send(l, 0, KT_LONG);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	kt_peer_write(l, nonsense, sizeof(nonsense));
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->failed)));
	KUNIT_EXPECT_EQ(test, READ_ONCE(l->nr_zc_done), 0);
	do {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	} while (seg.ddp.qn != KW_QN_TERMINATE);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->nr_zc_done) == 1));
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 0);
}

/* Memory that is withdrawn half-way ends the stream; pages in flight stay. */
static void kt_test_withdrawn(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	struct kt_segment seg = {};
	u32 off = 0, i, wrong = 0;

	/* Three of them are more than the send buffer takes at first. */
	for (i = 0; i < 3; i++)
		kt_post_send(l, 0, KT_LONG);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	l->mem[KT_LOCAL].valid = false;
	for (;;) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		if (seg.ddp.qn == KW_QN_TERMINATE)
			break;
		for (i = 0; i < seg.len; i++)
			wrong += seg.body[i] !=
				 *kt_at(l, KT_LOCAL, seg.ddp.mo + i);
		off += seg.len;
		kunit_kfree(test, seg.ulpdu);
	}
	KUNIT_EXPECT_EQ(test, 0U, wrong);
	KUNIT_EXPECT_LT(test, off, 3U * KT_LONG);
	KUNIT_EXPECT_TRUE(test, l->failed);
	KUNIT_EXPECT_EQ(test, l->why, KW_FAIL_LOCAL);
}

static struct kunit_case kt_zcopy_cases[] = {
	KUNIT_CASE(kt_test_done_when_acked),
	KUNIT_CASE(kt_test_threshold),
	KUNIT_CASE(kt_test_abort),
	KUNIT_CASE(kt_test_abort_is_heard),
	KUNIT_CASE(kt_test_close_and_abort),
	KUNIT_CASE(kt_test_error),
	KUNIT_CASE(kt_test_withdrawn),
	{}
};

struct kunit_suite kt_zcopy_suite = {
	.name = "kiwarp_zcopy",
	.init = kt_link_init,
	/* Unloading waits until TCP has released everything. */
	.exit = kt_link_exit,
	.test_cases = kt_zcopy_cases,
};
