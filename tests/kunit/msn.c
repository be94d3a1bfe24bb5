// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Message sequence numbers across their wrap: 0xffffffff is followed by 0, and
 * not by 1, the first one (RFC 5041 section 4.3). A stream's counters are set
 * shortly before the wrap, as 2^32 messages would leave them.
 */
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"

#define KT_BEFORE	0xfffffffeU	/* two more, then 0 */
#define KT_MESSAGES	5

static struct kt_link *kt_msn_link(struct kunit *test)
{
	static const struct kw_stream_params p = {
		.crc = true,
		.initiator = true,
		.ird = KT_MESSAGES,
		.ord = KT_MESSAGES,
	};
	struct kt_link *l = kt_link_new(test, &p, 0, 0);
	struct sock *sk = l->s.sock->sk;

	lock_sock(sk);
	l->s.rx.send_msn = KT_BEFORE;
	l->s.rx.read_msn = KT_BEFORE;
	l->s.tx.send_msn = KT_BEFORE;
	l->s.tx.read_msn = KT_BEFORE;
	release_sock(sk);
	return l;
}

/* The far end gets this Terminate, about a segment with this MSN. */
static void kt_msn_refused(struct kt_link *l, u16 code, u32 msn)
{
	struct kunit *test = l->test;
	struct kt_segment seg;
	struct kw_ddp_hdr h;
	struct kw_term t;

	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_ASSERT_EQ(test, seg.ddp.qn, KW_QN_TERMINATE);
	KUNIT_EXPECT_EQ(test, seg.ddp.msn, KW_DDP_MSN_FIRST);
	KUNIT_ASSERT_EQ(test, 0, kw_term_parse(seg.body, seg.len, &t));
	KUNIT_EXPECT_EQ(test, kw_term_get_code(&t), code);
	KUNIT_ASSERT_TRUE(test, t.has_ddp);
	kw_ddp_parse(t.ddp_hdr, &h);
	KUNIT_EXPECT_EQ(test, h.msn, msn);
}

/* Sends of one segment, but for the one with MSN 0, which has two. */
static void kt_test_sends_in(struct kunit *test)
{
	struct kt_link *l = kt_msn_link(test);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	u32 i;

	for (i = 0; i < KT_MESSAGES; i++) {
		u32 msn = KT_BEFORE + i;

		kt_post_recv(l, i, i * 16, 16);
		kt_send(&o, KW_RDMAP_SEND, msn, 0, msn, "abcdefg", 8);
		if (!msn)
			kt_send(&o, KW_RDMAP_SEND, 0, 8, true, "hijk", i);
	}
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test,
			  kt_until(READ_ONCE(l->nr_done) == KT_MESSAGES));
	for (i = 0; i < KT_MESSAGES; i++) {
		KUNIT_EXPECT_EQ(test, l->done[i].wr_id, i);
		KUNIT_EXPECT_EQ(test, l->done[i].status, IB_WC_SUCCESS);
		KUNIT_EXPECT_EQ(test, l->done[i].len,
				KT_BEFORE + i ? 8 : 8 + i);
	}
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/**
 * struct kt_wrong_msn - an MSN that is not the next one
 * @before: valid messages ahead of it
 * @msn: its MSN
 */
struct kt_wrong_msn {
	u32 before;
	u32 msn;
};

static const struct kt_wrong_msn kt_wrong_msns[] = {
	{ 2, 1 },		/* the first one's follows the last */
	{ 2, 0xffffffff },	/* the last once more */
	{ 1, 0 },		/* the last left out */
	{ 3, 0 },		/* 0 once more */
	{ 3, 2 },
};

static void kt_wrong_msn_name(const struct kt_wrong_msn *w, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "0x%x instead of 0x%x", w->msn,
		 KT_BEFORE + w->before);
}

KUNIT_ARRAY_PARAM(kt_wrong_msn, kt_wrong_msns, kt_wrong_msn_name);

static void kt_test_wrong_send(struct kunit *test)
{
	const struct kt_wrong_msn *w = test->param_value;
	struct kt_link *l = kt_msn_link(test);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	u32 i;

	for (i = 0; i <= w->before; i++)
		kt_post_recv(l, i, i * 16, 16);
	for (i = 0; i < w->before; i++)
		kt_send(&o, KW_RDMAP_SEND, KT_BEFORE + i, 0, true, "abc", 4);
	kt_send(&o, KW_RDMAP_SEND, w->msn, 0, true, "abc", 4);
	kt_peer_write(l, o.p, o.len);
	kt_msn_refused(l, KW_TERM_DDP_UNTAGGED_MSN_RANGE, w->msn);
	KUNIT_EXPECT_EQ(test, l->nr_done, w->before);
}

static void kt_read_req(struct kt_bytes *o, u32 msn, u32 off)
{
	const struct kw_read_req req = {
		.sink_stag = 0xabcd01,
		.sink_to = off,
		.size = 8,
		.src_stag = KT_STAG(KT_READ_ONLY),
		.src_to = KT_BASE(KT_READ_ONLY) + off,
	};
	u8 body[KW_READ_REQ_LEN];

	kw_read_req_build(body, &req);
	kt_send(o, KW_RDMAP_READ_REQ, msn, 0, true, body, sizeof(body));
}

static void kt_test_reads_in(struct kunit *test)
{
	struct kt_link *l = kt_msn_link(test);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	struct kt_segment seg;
	u32 i;

	for (i = 0; i < KT_MESSAGES; i++)
		kt_read_req(&o, KT_BEFORE + i, i);
	kt_peer_write(l, o.p, o.len);
	for (i = 0; i < KT_MESSAGES; i++) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_ASSERT_TRUE(test, seg.ddp.tagged);
		KUNIT_EXPECT_EQ(test, seg.ddp.to, i);
		KUNIT_EXPECT_MEMEQ(test, seg.body, kt_at(l, KT_READ_ONLY, i), 8);
	}
	KUNIT_EXPECT_FALSE(test, l->failed);
}

static void kt_test_wrong_read(struct kunit *test)
{
	const struct kt_wrong_msn *w = test->param_value;
	struct kt_link *l = kt_msn_link(test);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	struct kt_segment seg;
	u32 i;

	for (i = 0; i < w->before; i++)
		kt_read_req(&o, KT_BEFORE + i, i);
	kt_peer_write(l, o.p, o.len);
	for (i = 0; i < w->before; i++) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_TRUE(test, seg.ddp.tagged);
	}
	o.len = 0;
	kt_read_req(&o, w->msn, 0);
	kt_peer_write(l, o.p, o.len);
	kt_msn_refused(l, KW_TERM_DDP_UNTAGGED_MSN_RANGE, w->msn);
}

static void kt_test_sends_out(struct kunit *test)
{
	struct kt_link *l = kt_msn_link(test);
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), 8, KT_STAG(KT_LOCAL) },
	};
	struct kt_segment seg;
	u32 i;

	for (i = 0; i < KT_MESSAGES; i++)
		kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	for (i = 0; i < KT_MESSAGES; i++) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_EQ(test, seg.ddp.qn, KW_QN_SEND);
		KUNIT_EXPECT_EQ(test, seg.ddp.msn, KT_BEFORE + i);
	}
	KUNIT_EXPECT_EQ(test, l->nr_wdone, KT_MESSAGES);
}

/* Read Requests from the far end, as many as may be outstanding. */
static void kt_reads_out(struct kt_link *l)
{
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_READ,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), 4, KT_STAG(KT_LOCAL) },
	};
	struct kt_segment seg;
	u32 i;

	for (i = 0; i < KT_MESSAGES; i++)
		kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	for (i = 0; i < KT_MESSAGES; i++) {
		KUNIT_ASSERT_EQ(l->test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_EQ(l->test, seg.ddp.qn, KW_QN_READ_REQ);
		KUNIT_EXPECT_EQ(l->test, seg.ddp.msn, KT_BEFORE + i);
	}
}

/* A Terminate from the far end about a segment of this stream's. */
static void kt_peer_terminates(struct kt_link *l, u8 op, u32 msn)
{
	struct kt_bytes o = kt_bytes_new(l->test, 4096);
	u8 hdr[KW_DDP_UNTAGGED_LEN], body[KW_TERM_MAX_LEN];
	struct kw_term t;

	kw_ddp_put_untagged(hdr, true, KW_RDMAP_CTRL(op), 0,
			    kw_rdmap_ops[op].qn, msn, 0);
	kw_term_set(&t, KW_TERM_DDP_UNTAGGED_NO_BUFFER, sizeof(hdr), hdr, NULL);
	kt_send(&o, KW_RDMAP_TERMINATE, 1, 0, true, body,
		kw_term_build(body, &t));
	kt_peer_write(l, o.p, o.len);
	KUNIT_EXPECT_TRUE(l->test, kt_until(READ_ONCE(l->failed)));
}

/**
 * struct kt_blame - a Terminate about a Read Request
 * @msn: that it names
 * @index: the work request that is to fail, -1 for none
 */
struct kt_blame {
	u32 msn;
	int index;
};

/* The first Read has been answered by then. */
static const struct kt_blame kt_blames[] = {
	{ 0xfffffffd, -1 }, { 0xfffffffe, -1 }, { 0xffffffff, 1 },
	{ 0, 2 }, { 1, 3 }, { 2, 4 }, { 3, -1 },
};

static void kt_blame_name(const struct kt_blame *b, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "MSN 0x%x", b->msn);
}

KUNIT_ARRAY_PARAM(kt_blame, kt_blames, kt_blame_name);

static void kt_test_terminated_read(struct kunit *test)
{
	const struct kt_blame *b = test->param_value;
	struct kt_link *l = kt_msn_link(test);
	struct kt_bytes o = kt_bytes_new(test, 4096);

	kt_reads_out(l);
	kt_write(&o, KW_RDMAP_READ_RESP, KT_STAG(KT_LOCAL), KT_BASE(KT_LOCAL),
		 true, "abc", 4);
	kt_peer_write(l, o.p, o.len);
	kt_peer_terminates(l, KW_RDMAP_READ_REQ, b->msn);
	KUNIT_ASSERT_EQ(test, l->nr_wdone, b->index < 0 ? 1 : 2);
	KUNIT_EXPECT_EQ(test, l->wdone[0].index, 0);
	KUNIT_EXPECT_EQ(test, l->wdone[0].status, IB_WC_SUCCESS);
	if (b->index < 0)
		return;
	KUNIT_EXPECT_EQ(test, l->wdone[1].index, b->index);
	KUNIT_EXPECT_EQ(test, l->wdone[1].status, IB_WC_REM_INV_REQ_ERR);
}

/* Of Sends only the one that is being sent can still be identified. */
static void kt_terminated_send(struct kunit *test, u32 msn, bool blamed)
{
	struct kt_link *l = kt_msn_link(test);
	struct kw_wqe w = { .opcode = KIWARP_OP_SEND };
	u32 i;

	/* More than TCP takes while the far end reads nothing. */
	l->s.sock->sk->sk_sndbuf = 16384;
	l->s.sock->sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	for (i = 0; i < 2; i++)
		kt_post(l, &w);
	w.num_sge = KIWARP_MAX_SGE;
	for (i = 0; i < KIWARP_MAX_SGE; i++)
		w.sge[i] = (struct kiwarp_sge){ KT_BASE(KT_LOCAL),
						KT_REGION_LEN,
						KT_STAG(KT_LOCAL) };
	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_ASSERT_EQ(test, l->nr_wdone, 2);
	kt_peer_terminates(l, KW_RDMAP_SEND, msn);
	KUNIT_ASSERT_EQ(test, l->nr_wdone, blamed ? 3 : 2);
	if (blamed)
		KUNIT_EXPECT_EQ(test, l->wdone[2].status,
				IB_WC_REM_INV_REQ_ERR);
}

static void kt_test_terminated_send(struct kunit *test)
{
	kt_terminated_send(test, 0, true);
}

static void kt_test_terminated_earlier_send(struct kunit *test)
{
	kt_terminated_send(test, 0xffffffff, false);
}

static struct kunit_case kt_msn_cases[] = {
	KUNIT_CASE(kt_test_sends_in),
	KUNIT_CASE_PARAM(kt_test_wrong_send, kt_wrong_msn_gen_params),
	KUNIT_CASE(kt_test_reads_in),
	KUNIT_CASE_PARAM(kt_test_wrong_read, kt_wrong_msn_gen_params),
	KUNIT_CASE(kt_test_sends_out),
	KUNIT_CASE_PARAM(kt_test_terminated_read, kt_blame_gen_params),
	KUNIT_CASE(kt_test_terminated_send),
	KUNIT_CASE(kt_test_terminated_earlier_send),
	{}
};

struct kunit_suite kt_msn_suite = {
	.name = "kiwarp_msn",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_msn_cases,
};
