// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Segmentation: messages of every length, cut into FPDUs for connections of
 * several segment sizes, read back at the far end.
 */
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/net_namespace.h>
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"

static const struct kw_stream_params kt_params = {
	.crc = true,
	.initiator = true,
	.ird = 4,
	.ord = 4,
};

struct kt_sizes {
	int mss;
	u32 len;
	bool markers;
	bool zcopy;
	bool no_crc;
};

/* TCP takes no MSS under 88 from a socket option. */
static const struct kt_sizes kt_all_sizes[] = {
	{ 88, 0 }, { 88, 1 }, { 88, 500 },
	{ 200, 160 }, { 200, 161 }, { 200, 1000 },
	{ 536, 0 }, { 536, 505 }, { 536, 506 }, { 536, 5000 },
	{ 1448, 1 }, { 1448, 1424 }, { 1448, 1425 }, { 1448, 100000 },
	{ 8948, 8924 }, { 8948, 8925 }, { 8948, 200000 },
	{ 0, 65000 }, { 0, 250000 },
	{ 88, 500, true }, { 200, 1000, true }, { 536, 5000, true },
	{ 1448, 1416, true }, { 1448, 1417, true }, { 1448, 100000, true },
	{ 8948, 200000, true }, { 0, 250000, true },
	{ 536, 5000, false, true }, { 1448, 1425, false, true },
	{ 1448, 100001, false, true }, { 8948, 200003, false, true },
	{ 0, 65000, false, true }, { 0, 250000, false, true },
	/* Both are asked for: the peer's markers prevail. */
	{ 1448, 100000, true, true },
	/* The CRC's field is 0. */
	{ 1448, 1424, .no_crc = true }, { 1448, 100000, .no_crc = true },
	{ 1448, 100000, true, .no_crc = true },
	{ 1448, 100001, .zcopy = true, .no_crc = true },
};

static void kt_sizes_name(const struct kt_sizes *s, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "MSS %d, %u bytes%s%s%s", s->mss,
		 s->len, s->markers ? ", markers" : "",
		 s->zcopy ? ", not copied" : "", s->no_crc ? ", no CRC" : "");
}

KUNIT_ARRAY_PARAM(kt_sizes, kt_all_sizes, kt_sizes_name);

/* The far end's segments are one message, byte by byte. */
static void kt_expect_message(struct kt_link *l, u8 op, u32 len, u32 msn)
{
	struct kunit *test = l->test;
	u32 mss = tcp_sk(l->s.sock->sk)->mss_cache;
	struct kt_segment seg;
	u32 off = 0, i;
	bool same = true;

	do {
		u32 most;

		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_ASSERT_EQ(test, seg.ddp.rsvd_ulp_ctrl, KW_RDMAP_CTRL(op));
		if (seg.ddp.tagged) {
			KUNIT_EXPECT_EQ(test, seg.ddp.to, 0x7000 + off);
			KUNIT_EXPECT_EQ(test, seg.ddp.stag, 0x1234);
		} else {
			KUNIT_EXPECT_EQ(test, seg.ddp.mo, off);
			KUNIT_EXPECT_EQ(test, seg.ddp.msn, msn);
		}
		/* RFC 5044: an FPDU fits a segment, or is the smallest there is. */
		most = max_t(u32, mss, kw_fpdu_len(KW_MULPDU_MIN) +
			     (l->s.p.tx_markers ? KW_MARKER_LEN : 0));
		KUNIT_EXPECT_LE(test, seg.span, most);
		KUNIT_ASSERT_LE(test, off + seg.len, len);
		for (i = 0; i < seg.len; i++)
			same &= seg.body[i] == *kt_at(l, KT_LOCAL, 3 + off + i);
		KUNIT_EXPECT_EQ(test, seg.ddp.last, off + seg.len == len);
		off += seg.len;
		kunit_kfree(test, seg.ulpdu);
	} while (!seg.ddp.last);
	KUNIT_EXPECT_EQ(test, off, len);
	KUNIT_EXPECT_TRUE(test, same);
}

/*
 * A list of @nr entries: the first ones short, one of four empty, the others of
 * two regions alternately.
 */
static void kt_scatter(struct kw_wqe *w, u32 len, u32 nr, enum kt_region other)
{
	enum kt_region r = KT_LOCAL, next = other;
	u32 i, from = 0;

	w->num_sge = nr;
	for (i = 0; i < nr; i++) {
		u32 to = (u64)len * (i + 1) * (i + 1) / (nr * nr);

		if (i % 4 == 1 && i < nr - 1)
			to = from;
		else
			swap(r, next);
		w->sge[i] = (struct kiwarp_sge){
			KT_BASE(r) + 3 + from, to - from, KT_STAG(r),
		};
		from = to;
	}
}

static void kt_test_message(struct kunit *test)
{
	static const u8 ops[][2] = {
		{ KIWARP_OP_SEND, KW_RDMAP_SEND },
		{ KIWARP_OP_WRITE, KW_RDMAP_WRITE },
		{ KIWARP_OP_SEND, KW_RDMAP_SEND },
	};
	const struct kt_sizes *size = test->param_value;
	struct kw_stream_params p = kt_params;
	struct kt_link *l;
	struct kw_wqe w = {
		.raddr = 0x7000,
		.rkey = 0x1234,
	};
	static const u32 entries[] = { 2, KIWARP_MAX_SGE, KIWARP_MAX_SGE };
	u32 i, msn = 1;

	p.crc = !size->no_crc;
	p.tx_markers = size->markers;
	p.set.zcopy_min = size->zcopy ? 512 : 0;
	l = kt_link_new(test, &p, size->mss, 0);
	/* Posted before the first is sent, so that they share segments. */
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		w.opcode = ops[i][0];
		kt_scatter(&w, size->len, entries[i], KT_LOCAL);
		kt_post(l, &w);
	}
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		kt_expect_message(l, ops[i][1], size->len, msn);
		msn += ops[i][1] == KW_RDMAP_SEND;
	}
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->nr_wdone) ==
					 ARRAY_SIZE(ops)));
	for (i = 0; i < l->nr_wdone; i++) {
		KUNIT_EXPECT_EQ(test, l->wdone[i].index, i);
		KUNIT_EXPECT_EQ(test, l->wdone[i].status, IB_WC_SUCCESS);
	}
	KUNIT_EXPECT_EQ(test, l->nr_zc_started, size->zcopy && !size->markers ?
			ARRAY_SIZE(ops) : 0);
	KUNIT_EXPECT_EQ(test, l->nr_zc_done, l->nr_zc_started);
}

/* What a region does not cover is not sent: the work request fails. */
static void kt_test_local_fault(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 0, 0);
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL) + KT_REGION_LEN - 9, 10,
			    KT_STAG(KT_LOCAL) },
	};
	struct kt_segment seg;

	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(test, seg.ddp.qn, KW_QN_TERMINATE);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 1);
	KUNIT_EXPECT_EQ(test, l->wdone[0].status, IB_WC_LOC_PROT_ERR);
	KUNIT_EXPECT_TRUE(test, l->failed);
	KUNIT_EXPECT_EQ(test, l->why, KW_FAIL_LOCAL);
}

/*
 * A region that is gone when its entry is reached: what precedes it in the list
 * is sent, as far as it fills FPDUs, and nothing in its place.
 */
static void kt_test_revoked(struct kunit *test)
{
	const u32 len = 200000;
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	struct kw_wqe w = { .opcode = KIWARP_OP_SEND };
	u32 i, off = 0, before = 0, nr = 0;
	struct kt_segment seg;
	bool same = true;

	kt_scatter(&w, len, KIWARP_MAX_SGE, KT_REMOTE);
	/* All are looked up when the message begins, and then one after the other. */
	for (i = 0; i < KIWARP_MAX_SGE; i++)
		l->lookups = (nr += !!w.sge[i].length) + 9;
	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	for (;;) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		if (seg.ddp.qn == KW_QN_TERMINATE)
			break;
		KUNIT_EXPECT_EQ(test, seg.ddp.mo, off);
		KUNIT_EXPECT_FALSE(test, seg.ddp.last);
		for (i = 0; i < seg.len; i++)
			same &= seg.body[i] == *kt_at(l, KT_LOCAL, 3 + off + i);
		off += seg.len;
		kunit_kfree(test, seg.ulpdu);
	}
	KUNIT_EXPECT_TRUE(test, same);
	/* Some are looked up twice, where TCP has made the stream wait. */
	for (i = 0, nr = 0; i < KIWARP_MAX_SGE && before < off; i++) {
		before += w.sge[i].length;
		nr += !!w.sge[i].length;
	}
	KUNIT_EXPECT_LT(test, before - off, 1448);
	KUNIT_EXPECT_GE(test, nr, 4);
	KUNIT_EXPECT_LE(test, nr, 9);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 1);
	KUNIT_EXPECT_EQ(test, l->wdone[0].status, IB_WC_LOC_PROT_ERR);
}

/* No more Reads are outstanding than were negotiated. */
static void kt_test_read_depth(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_READ,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), 4, KT_STAG(KT_LOCAL) },
	};
	struct kt_segment seg;
	u32 i;

	for (i = 0; i < kt_params.ord + 1; i++)
		kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	for (i = 0; i < kt_params.ord; i++) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_EQ(test, seg.ddp.msn, i + 1);
	}
	KUNIT_EXPECT_EQ(test, 0, tcp_inq(l->peer->sk));
	kt_write(&o, KW_RDMAP_READ_RESP, KT_STAG(KT_LOCAL), KT_BASE(KT_LOCAL),
		 true, "abc", 4);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_EXPECT_EQ(test, seg.ddp.msn, kt_params.ord + 1);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 1);
}

static void kt_post_send(struct kt_link *l, u32 len)
{
	const struct kw_wqe w = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), len, KT_STAG(KT_LOCAL) },
	};

	kt_post(l, &w);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
}

/*
 * A message that TCP holds since the peer's window is closed, and one behind it.
 * Returns the bytes of the first TCP segment, and of the first two FPDUs.
 */
static u32 kt_two_messages(struct kt_link *l, u32 first, u32 span[2])
{
	struct sock *sk = l->s.sock->sk;
	struct kt_segment seg;
	struct sk_buff *skb;
	u32 len = 0, i;

	lock_sock(sk);
	tcp_sk(sk)->snd_wnd = 0;
	release_sock(sk);
	kt_post_send(l, first);
	kt_post_send(l, 5000);
	lock_sock(sk);
	skb = tcp_send_head(sk);
	if (skb)
		len = min(skb->len, tcp_sk(sk)->mss_cache);
	tcp_sk(sk)->snd_wnd = 65535;
	release_sock(sk);
	/* TCP's probe of the window has them sent. */
	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(l->test, 1, kt_peer_fpdu(l, &seg));
		span[i] = seg.span;
	}
	return len;
}

/* What is left of a TCP segment has an FPDU that ends with it. */
static void kt_test_rest_of_segment(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	u32 mss = tcp_sk(l->s.sock->sk)->mss_cache, span[2], len;

	len = kt_two_messages(l, 100, span);
	KUNIT_EXPECT_EQ(test, len, span[0] + span[1]);
	KUNIT_EXPECT_LE(test, span[0] + span[1], mss);
	KUNIT_EXPECT_GT(test, span[0] + span[1], mss - 4);
}

/* Where it is too small for an FPDU the next one starts a segment of its own. */
static void kt_test_tight_segment(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	u32 mss = tcp_sk(l->s.sock->sk)->mss_cache, span[2], len;

	len = kt_two_messages(l, mss - 60, span);
	KUNIT_EXPECT_LT(test, span[0], mss);
	KUNIT_EXPECT_EQ(test, len, span[0]);
	KUNIT_EXPECT_GT(test, span[1], mss - 4);
}

/* A path's MTU, not under IPv6's least. */
#define KT_SMALL_MTU	1300

static void kt_set_mtu(void *mtu)
{
	rtnl_lock();
	WARN_ON(dev_set_mtu(init_net.loopback_dev, (unsigned long)mtu));
	rtnl_unlock();
}

/* Reads a Send of @len bytes, whose FPDUs fit @most; the longest one's bytes. */
static u32 kt_expect_spans(struct kt_link *l, u32 len, u32 most)
{
	struct kt_segment seg;
	u32 got = 0, span = 0;

	do {
		KUNIT_ASSERT_EQ(l->test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_LE(l->test, seg.span, most);
		span = max(span, seg.span);
		got += seg.len;
		kunit_kfree(l->test, seg.ulpdu);
	} while (!seg.ddp.last);
	KUNIT_EXPECT_EQ(l->test, got, len);
	return span;
}

/*
 * The path's MTU falls under a message that TCP holds a part of, and rises
 * again. What was built by then stays as it is, what is built when TCP knows
 * of it fits the new one. TCP looks when it next sends.
 */
static void kt_test_mtu_changes(struct kunit *test)
{
	const unsigned long mtu = READ_ONCE(init_net.loopback_dev->mtu);
	const u32 len = 200000;
	struct kt_link *l = kt_link_new(test, &kt_params, 1448, 0);
	struct sock *sk = l->s.sock->sk;
	u32 mss = tcp_sk(sk)->mss_cache, small = mss - 1488 + KT_SMALL_MTU;
	u32 off = 0, got = 0, nr_old = 0, nr_new = 0, built;
	struct kt_segment seg;
	bool same = true;
	u32 i;

	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, kt_set_mtu,
							   (void *)mtu));
	lock_sock(sk);
	tcp_sk(sk)->snd_wnd = 0;
	release_sock(sk);
	kt_post_send(l, len);
	kt_set_mtu((void *)KT_SMALL_MTU);
	lock_sock(sk);
	built = l->s.tx.stream_off;
	tcp_sk(sk)->snd_wnd = 65535;
	release_sock(sk);
	do {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_EQ(test, seg.ddp.mo, got);
		for (i = 0; i < seg.len; i++)
			same &= seg.body[i] == *kt_at(l, KT_LOCAL, got + i);
		if (off < built) {
			KUNIT_EXPECT_GT(test, seg.span, mss - 4);
			KUNIT_EXPECT_LE(test, seg.span, mss);
			nr_old++;
		} else {
			KUNIT_EXPECT_LE(test, seg.span, small);
			nr_new++;
		}
		off += seg.span;
		got += seg.len;
		kunit_kfree(test, seg.ulpdu);
	} while (!seg.ddp.last);
	KUNIT_EXPECT_EQ(test, got, len);
	KUNIT_EXPECT_TRUE(test, same);
	KUNIT_EXPECT_GT(test, nr_old, 9);
	KUNIT_EXPECT_GT(test, nr_new, 9);
	KUNIT_EXPECT_EQ(test, tcp_sk(sk)->mss_cache, small);

	kt_post_send(l, 5000);
	KUNIT_EXPECT_GT(test, kt_expect_spans(l, 5000, small), small - 4);
	kt_set_mtu((void *)mtu);
	kt_post_send(l, 1);
	kt_expect_spans(l, 1, small);
	kt_post_send(l, 5000);
	KUNIT_EXPECT_GT(test, kt_expect_spans(l, 5000, mss), mss - 4);
}

static struct kunit_case kt_segment_cases[] = {
	KUNIT_CASE_PARAM(kt_test_message, kt_sizes_gen_params),
	KUNIT_CASE(kt_test_local_fault),
	KUNIT_CASE(kt_test_revoked),
	KUNIT_CASE(kt_test_read_depth),
	KUNIT_CASE(kt_test_rest_of_segment),
	KUNIT_CASE(kt_test_tight_segment),
	KUNIT_CASE(kt_test_mtu_changes),
	{}
};

struct kunit_suite kt_segment_suite = {
	.name = "kiwarp_segment",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_segment_cases,
};
