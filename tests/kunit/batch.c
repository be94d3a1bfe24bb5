// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Batches of what a process posts one by one: what is held back, for how long,
 * and that it is sent in the end. A work request is done when TCP has it.
 */
#include <linux/delay.h>
#include <rdma/ib_verbs.h>

#include "link.h"

/* Doorbells that are answered at once, however soon they come. */
#define KT_AT_ONCE	4

/* So long that it does not come to that. */
static const struct kw_stream_params kt_params = {
	.crc = true,
	.initiator = true,
	.set.batch_us = 60 * USEC_PER_SEC,
	.ird = 4,
	.ord = 4,
};

/* Post @nr Sends of @len octets, each with its doorbell. */
static void kt_ring(struct kt_link *l, u32 nr, u32 len, bool soon)
{
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), len, KT_STAG(KT_LOCAL) },
	};

	for (; nr; nr--) {
		kt_post(l, &w);
		kw_stream_doorbell(&l->s, len, soon);
	}
}

static void kt_expect_sends(struct kt_link *l, u32 nr)
{
	struct kunit *test = l->test;
	struct kt_segment seg;

	for (; nr; nr--) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_TRUE(test, seg.ddp.last);
		kunit_kfree(test, seg.ulpdu);
	}
}

/* A streak is held back from its fifth doorbell on, until somebody waits. */
static void kt_test_held_back(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_ring(l, KT_AT_ONCE, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE);
	kt_ring(l, 10, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE);
	kt_ring(l, 1, 64, true);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE + 11);
	kt_ring(l, 1, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE + 11);
	kt_expect_sends(l, KT_AT_ONCE + 11);
}

/* Nobody rings again, and it goes out all the same. */
static void kt_test_time(struct kunit *test)
{
	struct kw_stream_params p = kt_params;
	struct kt_link *l;

	p.set.batch_us = 100 * USEC_PER_MSEC;
	l = kt_link_new(test, &p, 1448, 0);
	kt_ring(l, KT_AT_ONCE + 3, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->nr_wdone) ==
					 KT_AT_ONCE + 3));
	/* After a pause it is not a streak any more. */
	msleep(150);
	kt_ring(l, KT_AT_ONCE, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 2 * KT_AT_ONCE + 3);
	kt_expect_sends(l, 2 * KT_AT_ONCE + 3);
}

/* Whoever answers what arrives is answered at once. */
static void kt_test_conversation(struct kunit *test)
{
	static const u8 body[16] = {};
	struct kt_octets o = kt_octets_new(test, 4096);
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_post_recv(l, 1, 0, 64);
	kt_ring(l, KT_AT_ONCE + 1, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE);
	kt_send(&o, KW_RDMAP_SEND, 1, 0, true, body, sizeof(body));
	kt_peer_write(l, o.p, o.len);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->nr_done) == 1));
	kt_ring(l, 1, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE + 2);
	kt_expect_sends(l, KT_AT_ONCE + 2);
}

/* A process can wait for a Write by looking at its memory. */
static void kt_test_written(struct kunit *test)
{
	struct kt_octets o = kt_octets_new(test, 4096);
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	u8 body[16];

	memset(body, 0x5a, sizeof(body));
	kt_ring(l, KT_AT_ONCE + 1, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE);
	kt_write(&o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE), KT_BASE(KT_REMOTE),
		 true, body, sizeof(body));
	kt_peer_write(l, o.p, o.len);
	KUNIT_EXPECT_TRUE(test, kt_until(!memcmp(kt_at(l, KT_REMOTE, 0), body,
						 sizeof(body))));
	kt_ring(l, 1, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE + 2);
}

/* Enough octets do not wait for more. */
static void kt_test_octets(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 1 << 20);

	kt_ring(l, KT_AT_ONCE, 64, false);
	kt_ring(l, 7, 65536, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE);
	kt_ring(l, 1, 65536, false);
	KUNIT_EXPECT_GT(test, l->nr_wdone, KT_AT_ONCE);
}

/* What is held back when the stream is closed is sent before its end. */
static void kt_test_close(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_ring(l, KT_AT_ONCE + 3, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE);
	kw_stream_close(&l->s);
	kt_expect_sends(l, KT_AT_ONCE + 3);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE + 3);
}

/* The timer does not outlive the stream. */
static void kt_test_abort(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);

	kt_ring(l, KT_AT_ONCE + 3, 64, false);
	KUNIT_EXPECT_TRUE(test, hrtimer_active(&l->s.batch.timer));
	kw_stream_abort(&l->s);
	KUNIT_EXPECT_NE(test, 0UL,
			wait_for_completion_timeout(&l->ended, 10 * HZ));
	KUNIT_EXPECT_FALSE(test, hrtimer_active(&l->s.batch.timer));
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_AT_ONCE);
}

static void kt_test_off(struct kunit *test)
{
	struct kw_stream_params p = kt_params;
	struct kt_link *l;

	p.set.batch_us = 0;
	l = kt_link_new(test, &p, 1448, 0);
	kt_ring(l, 3 * KT_AT_ONCE, 64, false);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 3 * KT_AT_ONCE);
	kt_expect_sends(l, 3 * KT_AT_ONCE);
}

static struct kunit_case kt_batch_cases[] = {
	KUNIT_CASE(kt_test_held_back),
	KUNIT_CASE(kt_test_time),
	KUNIT_CASE(kt_test_conversation),
	KUNIT_CASE(kt_test_written),
	KUNIT_CASE(kt_test_octets),
	KUNIT_CASE(kt_test_close),
	KUNIT_CASE(kt_test_abort),
	KUNIT_CASE(kt_test_off),
	{}
};

struct kunit_suite kt_batch_suite = {
	.name = "kiwarp_batch",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_batch_cases,
};
