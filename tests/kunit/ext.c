// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Messages of RFC 7306, on a real connection.
 */
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"

static const struct kw_stream_params kt_on = {
	.crc = true,
	.initiator = true,
	.ird = 4,
	.ord = 4,
	.set = { .zcopy_min = 4096, .immediate = 1, .atomics = 1 },
};

static void kt_imm(struct kt_bytes *o, u8 op, u32 msn, u32 imm)
{
	u8 body[KW_IMM_LEN];

	kw_imm_build(body, cpu_to_be32(imm));
	kt_send(o, op, msn, 0, true, body, sizeof(body));
}

/* Each consumes a receive, in order, and tells of the Write before it. */
static void kt_test_imm_received(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_on, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 32768);
	u64 to = KT_BASE(KT_REMOTE);
	u32 stag = KT_STAG(KT_REMOTE), i;
	u8 *data = kunit_kzalloc(test, 9000, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, data);
	for (i = 0; i < 4; i++)
		kt_post_recv(l, i, 0, 0);
	/* Segments alike, of which all but the ends are predicted. */
	for (i = 0; i < 9; i++)
		kt_write(&o, KW_RDMAP_WRITE, stag, to + i * 1000, i == 8,
			 data, 1000);
	kt_imm(&o, KW_RDMAP_IMM, 1, 0x01020304);
	kt_imm(&o, KW_RDMAP_IMM_SE, 2, 5);
	kt_write(&o, KW_RDMAP_WRITE, stag, to, true, data, 77);
	kt_send(&o, KW_RDMAP_SEND, 3, 0, true, NULL, 0);
	kt_imm(&o, KW_RDMAP_IMM, 4, ~0U);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_done) == 4));
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, l->done[i].wr_id, i);
		KUNIT_EXPECT_EQ(test, l->done[i].with_imm, i != 2);
		KUNIT_EXPECT_EQ(test, l->done[i].solicited, i == 1);
		KUNIT_EXPECT_EQ(test, l->done[i].len, i ? 0 : 9000);
	}
	KUNIT_EXPECT_EQ(test, be32_to_cpu(l->done[0].imm), 0x01020304);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(l->done[1].imm), 5);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(l->done[3].imm), ~0U);
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_LOCAL, 0, 0));
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/* Without the setting the opcode has no meaning. */
static void kt_test_off(struct kunit *test)
{
	struct kw_stream_params p = kt_on;
	struct kt_bytes o = kt_bytes_new(test, 4096);
	struct kt_segment seg;
	struct kt_link *l;
	struct kw_term t;

	p.set.immediate = 0;
	l = kt_link_new(test, &p, 0, 0);
	kt_post_recv(l, 1, 0, 16);
	kt_imm(&o, KW_RDMAP_IMM, 1, 1);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_ASSERT_EQ(test, seg.ddp.qn, KW_QN_TERMINATE);
	KUNIT_ASSERT_EQ(test, 0, kw_term_parse(seg.body, seg.len, &t));
	KUNIT_EXPECT_EQ(test, kw_term_get_code(&t), KW_TERM_RDMAP_OPCODE);
	KUNIT_EXPECT_EQ(test, l->next_recv, 0);
}

/* A Write of @len bytes, then at once its Immediate Data. */
static void kt_expect_write_imm(struct kt_link *l, u32 len, u32 msn, u32 imm)
{
	struct kunit *test = l->test;
	struct kt_segment seg;
	u32 got = 0;

	do {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_TRUE(test, seg.ddp.tagged);
		KUNIT_EXPECT_EQ(test, seg.ddp.to, 0x5000 + got);
		got += seg.len;
	} while (!seg.ddp.last);
	KUNIT_EXPECT_EQ(test, got, len);
	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(test, seg.ddp.rsvd_ulp_ctrl, KW_RDMAP_CTRL(KW_RDMAP_IMM));
	KUNIT_EXPECT_EQ(test, seg.ddp.qn, KW_QN_SEND);
	KUNIT_EXPECT_EQ(test, seg.ddp.msn, msn);
	KUNIT_ASSERT_EQ(test, seg.len, KW_IMM_LEN);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(kw_imm_parse(seg.body)), imm);
}

/*
 * Copied and by zero copy: the work request is done once, and not before its
 * Immediate Data is framed, though the peer has long acknowledged the Write.
 */
static void kt_test_write_imm(struct kunit *test)
{
	static const u32 lens[] = { 0, 100, 4095, 4096, 100000, KT_REGION_LEN };
	struct kt_link *l = kt_link_new(test, &kt_on, 1448, 0);
	struct kw_wqe w = {
		.opcode = KIWARP_OP_WRITE_IMM,
		.num_sge = 1,
		.rkey = 0x4321,
		.raddr = 0x5000,
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		w.sge[0] = (struct kiwarp_sge){ KT_BASE(KT_LOCAL), lens[i],
						KT_STAG(KT_LOCAL) };
		w.imm = cpu_to_be32(i + 7);
		kt_post(l, &w);
		kw_stream_kick(&l->s, KW_KICK_SLEEP);
		kt_expect_write_imm(l, lens[i], i + 1, i + 7);
		KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->nr_wdone) == i + 1));
		KUNIT_EXPECT_EQ(test, l->wdone[i].status, IB_WC_SUCCESS);
	}
	KUNIT_EXPECT_EQ(test, l->nr_zc_started, 3);
	KUNIT_EXPECT_EQ(test, l->nr_zc_done, 3);
	KUNIT_EXPECT_FALSE(test, l->failed);
}

static void kt_atomic(struct kt_bytes *o, u32 msn, u64 off, u64 add)
{
	const struct kw_atomic_req req = {
		.op = KW_ATOMIC_FETCH_ADD,
		.req_id = 100 + msn,
		.stag = KT_STAG(KT_REMOTE),
		.to = KT_BASE(KT_REMOTE) + off,
		.add_swap = add,
	};
	u8 body[KW_ATOMIC_REQ_LEN];

	kw_atomic_req_build(body, &req);
	kt_send(o, KW_RDMAP_ATOMIC_REQ, msn, 0, true, body, sizeof(body));
}

static void kt_expect_answer(struct kt_link *l, u32 msn, u32 req_id, u64 orig)
{
	struct kunit *test = l->test;
	struct kw_atomic_resp resp;
	struct kt_segment seg;

	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(test, seg.ddp.rsvd_ulp_ctrl,
			KW_RDMAP_CTRL(KW_RDMAP_ATOMIC_RESP));
	KUNIT_EXPECT_EQ(test, seg.ddp.qn, KW_QN_ATOMIC_RESP);
	KUNIT_EXPECT_EQ(test, seg.ddp.msn, msn);
	KUNIT_ASSERT_EQ(test, seg.len, KW_ATOMIC_RESP_LEN);
	kw_atomic_resp_parse(seg.body, &resp);
	KUNIT_EXPECT_EQ(test, resp.req_id, req_id);
	KUNIT_EXPECT_EQ(test, resp.orig, orig);
}

static void kt_expect_terminate(struct kt_link *l, u16 code, struct kw_term *t)
{
	struct kunit *test = l->test;
	struct kt_segment seg;

	do {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	} while (seg.ddp.tagged || seg.ddp.qn != KW_QN_TERMINATE);
	KUNIT_ASSERT_EQ(test, 0, kw_term_parse(seg.body, seg.len, t));
	KUNIT_EXPECT_EQ(test, kw_term_get_code(t), code);
	KUNIT_EXPECT_FALSE(test, t->has_rdmap);
}

/* The address has to be aligned, and not the offset, which is odd here. */
static void kt_test_atomic_alignment(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_on, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	u64 *at = (u64 *)kt_at(l, KT_REMOTE, 16);
	struct kw_term t;
	u64 before;

	KUNIT_ASSERT_TRUE(test, IS_ALIGNED((uintptr_t)at, 8));
	*at = 41;
	kt_atomic(&o, 1, 16, 1);
	kt_peer_write(l, o.p, o.len);
	kt_expect_answer(l, 1, 101, 41);
	KUNIT_EXPECT_EQ(test, *at, 42);

	before = *at;
	o.len = 0;
	kt_atomic(&o, 2, 16 + 5, 1);
	KUNIT_ASSERT_TRUE(test, IS_ALIGNED(KT_BASE(KT_REMOTE) + 16 + 5, 8));
	kt_peer_write(l, o.p, o.len);
	kt_expect_terminate(l, KW_TERM_RDMAP_STREAM_CATASTROPHIC, &t);
	KUNIT_EXPECT_EQ(test, *at, before);
}

/*
 * Behind a Read whose response does not get into the socket nothing is worked.
 * When the response can go the operation is worked once; if its region has gone
 * meanwhile the Terminate names it, and no more is worked.
 */
static void kt_blocked(struct kunit *test, bool goes)
{
	struct kt_link *l = kt_link_new(test, &kt_on, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	const struct kw_read_req req = {
		.sink_stag = 0xabcd01,
		.size = KT_REGION_LEN,
		.src_stag = KT_STAG(KT_READ_ONLY),
		.src_to = KT_BASE(KT_READ_ONLY),
	};
	u64 *at = (u64 *)kt_at(l, KT_REMOTE, 8);
	u8 body[KW_READ_REQ_LEN];
	struct kt_segment seg;
	struct kw_ddp_hdr h;
	struct kw_term t;

	*at = 7;
	l->s.sock->sk->sk_sndbuf = 16384;
	l->s.sock->sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	kw_read_req_build(body, &req);
	kt_send(&o, KW_RDMAP_READ_REQ, 1, 0, true, body, sizeof(body));
	kt_atomic(&o, 2, 8, 10);
	kt_atomic(&o, 3, 8, 100);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(kw_counter_read(l->counters,
							 KW_CNT_TX_BLOCKED)));
	KUNIT_EXPECT_EQ(test, READ_ONCE(*at), 7);
	if (goes)
		WRITE_ONCE(l->mem[KT_REMOTE].valid, false);
	do {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		kunit_kfree(test, seg.ulpdu);
	} while (!seg.ddp.last);
	if (!goes) {
		kt_expect_answer(l, 1, 102, 7);
		kt_expect_answer(l, 2, 103, 17);
		KUNIT_EXPECT_EQ(test, *at, 117);
		return;
	}
	kt_expect_terminate(l, KW_TERM_RDMAP_INV_STAG, &t);
	kw_ddp_parse(t.ddp_hdr, &h);
	KUNIT_EXPECT_EQ(test, h.qn, KW_QN_READ_REQ);
	KUNIT_EXPECT_EQ(test, h.msn, 2);
	KUNIT_EXPECT_EQ(test, kw_rdmap_op(h.rsvd_ulp_ctrl), KW_RDMAP_ATOMIC_REQ);
	KUNIT_EXPECT_EQ(test, *at, 7);
}

static void kt_test_atomic_in_turn(struct kunit *test)
{
	kt_blocked(test, false);
}

static void kt_test_atomic_region_goes(struct kunit *test)
{
	kt_blocked(test, true);
}

/* The value goes into eight bytes anywhere, here into two extents. */
static void kt_test_atomic_sent(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_on, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_CMP_SWAP,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL) + 997, 8, KT_STAG(KT_LOCAL) },
		.rkey = 0x4321,
		.raddr = 0x5000,
		.compare_add = 5,
		.swap = 6,
	};
	struct kw_atomic_resp resp = { .orig = 0x0102030405060708 };
	u8 body[KW_ATOMIC_RESP_LEN], value[8];
	struct kw_atomic_req req;
	struct kt_segment seg;
	u32 i;

	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(test, seg.ddp.qn, KW_QN_READ_REQ);
	KUNIT_ASSERT_EQ(test, seg.len, KW_ATOMIC_REQ_LEN);
	kw_atomic_req_parse(seg.body, &req);
	KUNIT_EXPECT_EQ(test, req.op, KW_ATOMIC_CMP_SWAP);
	KUNIT_EXPECT_EQ(test, req.stag, 0x4321);
	KUNIT_EXPECT_EQ(test, req.to, 0x5000);
	KUNIT_EXPECT_EQ(test, req.compare, 5);
	KUNIT_EXPECT_EQ(test, req.compare_mask, ~0ULL);
	KUNIT_EXPECT_EQ(test, req.add_swap, 6);
	KUNIT_EXPECT_EQ(test, req.add_swap_mask, ~0ULL);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 0);

	resp.req_id = req.req_id;
	kw_atomic_resp_build(body, &resp);
	kt_send(&o, KW_RDMAP_ATOMIC_RESP, 1, 0, true, body, sizeof(body));
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_wdone) == 1));
	KUNIT_EXPECT_EQ(test, l->wdone[0].status, IB_WC_SUCCESS);
	memcpy(value, &resp.orig, sizeof(value));
	for (i = 0; i < sizeof(value); i++)
		KUNIT_EXPECT_EQ(test, *kt_at(l, KT_LOCAL, 997 + i), value[i]);
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_LOCAL, 997, 1005));
}

static struct kunit_case kt_cases[] = {
	KUNIT_CASE(kt_test_imm_received),
	KUNIT_CASE(kt_test_off),
	KUNIT_CASE(kt_test_write_imm),
	KUNIT_CASE(kt_test_atomic_alignment),
	KUNIT_CASE(kt_test_atomic_in_turn),
	KUNIT_CASE(kt_test_atomic_region_goes),
	KUNIT_CASE(kt_test_atomic_sent),
	{}
};

struct kunit_suite kt_ext_suite = {
	.name = "kiwarp_ext",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_cases,
};
