// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The receive state machine, on a real connection: bytes that come in any
 * pieces, messages that come in any order, and the reaction to invalid ones.
 */
#include <linux/random.h>
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"

static const struct kw_stream_params kt_responder = {
	.crc = true,
	.ird = 4,
	.ord = 4,
};

static const struct kw_stream_params kt_initiator = {
	.crc = true,
	.initiator = true,
	.ird = 4,
	.ord = 4,
};

/* A stream of every kind of message, and the memory expected afterwards. */
struct kt_dialogue {
	struct kt_bytes o;
	u8 *data;
};

#define KT_DIALOGUE_RECVS	3
#define KT_DIALOGUE_LEN		5000

/* Two Sends, the second of three segments; two Writes; a zero-length Send. */
static struct kt_dialogue kt_dialogue_new(struct kunit *test)
{
	const bool *markers = test->param_value;
	struct kt_dialogue d = { kt_bytes_new(test, 32768) };
	u64 base = KT_BASE(KT_REMOTE);
	u32 stag = KT_STAG(KT_REMOTE);

	d.data = kunit_kmalloc(test, KT_DIALOGUE_LEN, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, d.data);
	kt_pattern(d.data, KT_DIALOGUE_LEN, 3);
	d.o.markers = *markers;
	kt_send(&d.o, KW_RDMAP_SEND, 1, 0, true, d.data, 77);
	kt_write(&d.o, KW_RDMAP_WRITE, stag, base + 900, true, d.data, 301);
	kt_send(&d.o, KW_RDMAP_SEND_SE, 2, 0, false, d.data, 1400);
	kt_send(&d.o, KW_RDMAP_SEND_SE, 2, 1400, false, d.data + 1400, 1);
	kt_send(&d.o, KW_RDMAP_SEND_SE, 2, 1401, true, d.data + 1401, 99);
	kt_write(&d.o, KW_RDMAP_WRITE, stag, base + 3000, false, d.data, 2000);
	kt_write(&d.o, KW_RDMAP_WRITE, stag, base + 5000, true, d.data + 2000,
		 3000);
	kt_send(&d.o, KW_RDMAP_SEND, 3, 0, true, NULL, 0);
	return d;
}

/* A link whose far end sends the dialogue, with or without markers. */
static struct kt_link *kt_dialogue_link(struct kunit *test)
{
	const bool *markers = test->param_value;
	struct kw_stream_params p = kt_responder;
	struct kt_link *l;

	p.rx_markers = *markers;
	l = kt_link_new(test, &p, 0, 0);
	kt_post_recv(l, 11, 500, 77);
	kt_post_recv(l, 12, 900, 2000);
	kt_post_recv(l, 13, 4000, 0);
	return l;
}

static const bool kt_markers[] = { false, true };

static void kt_markers_name(const bool *markers, char *name)
{
	strscpy(name, *markers ? "markers" : "no markers",
		KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kt_markers, kt_markers, kt_markers_name);

static bool kt_same(struct kt_link *l, enum kt_region r, u32 off, const u8 *p,
		    u32 len)
{
	u32 i;

	for (i = 0; i < len; i++)
		if (*kt_at(l, r, off + i) != p[i])
			return false;
	return true;
}

static void kt_dialogue_check(struct kt_link *l, const struct kt_dialogue *d)
{
	struct kunit *test = l->test;

	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_done) ==
					 KT_DIALOGUE_RECVS));
	KUNIT_EXPECT_FALSE(test, l->failed);
	KUNIT_EXPECT_EQ(test, l->done[0].wr_id, 11);
	KUNIT_EXPECT_EQ(test, l->done[0].len, 77);
	KUNIT_EXPECT_EQ(test, l->done[1].wr_id, 12);
	KUNIT_EXPECT_EQ(test, l->done[1].len, 1500);
	KUNIT_EXPECT_TRUE(test, l->done[1].solicited);
	KUNIT_EXPECT_EQ(test, l->done[2].wr_id, 13);
	KUNIT_EXPECT_EQ(test, l->done[2].len, 0);
	KUNIT_EXPECT_TRUE(test, kt_same(l, KT_LOCAL, 500, d->data, 77));
	KUNIT_EXPECT_TRUE(test, kt_same(l, KT_LOCAL, 900, d->data, 1500));
	KUNIT_EXPECT_TRUE(test, kt_same(l, KT_REMOTE, 900, d->data, 301));
	KUNIT_EXPECT_TRUE(test, kt_same(l, KT_REMOTE, 3000, d->data, 5000));
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_LOCAL, 500, 2400));
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_REMOTE, 900, 8000));
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_READ_ONLY, 0, 0));
	KUNIT_EXPECT_EQ(test, kw_counter_read(l->counters, KW_CNT_RX_FPDUS), 8);
	KUNIT_EXPECT_EQ(test, kw_counter_read(l->counters, KW_CNT_RX_OCTETS),
			d->o.len);
}

static void kt_test_at_once(struct kunit *test)
{
	struct kt_dialogue d = kt_dialogue_new(test);
	struct kt_link *l = kt_dialogue_link(test);

	kt_peer_write(l, d.o.p, d.o.len);
	kt_dialogue_check(l, &d);
}

static void kt_test_byte_by_byte(struct kunit *test)
{
	struct kt_dialogue d = kt_dialogue_new(test);
	struct kt_link *l = kt_dialogue_link(test);
	size_t i;

	for (i = 0; i < d.o.len; i++)
		kt_peer_write(l, d.o.p + i, 1);
	kt_dialogue_check(l, &d);
}

static void kt_test_random_pieces(struct kunit *test)
{
	struct kt_dialogue d = kt_dialogue_new(test);
	struct kt_link *l;
	int round;

	for (round = 0; round < 20; round++) {
		size_t at = 0;

		l = kt_dialogue_link(test);
		while (at < d.o.len) {
			u32 most = min_t(size_t, d.o.len - at,
					 1 << get_random_u32_below(13));
			u32 n = get_random_u32_inclusive(1, most);

			kt_peer_write(l, d.o.p + at, n);
			at += n;
		}
		kt_dialogue_check(l, &d);
		test->priv = NULL;
		kt_link_end(l);
	}
}

/*
 * TCP is short of memory, and an FPDU comes in many segments: with one in its
 * queue, TCP may drop the next each time it comes.
 */
static void kt_test_memory_pressure(struct kunit *test)
{
	struct kt_dialogue d = kt_dialogue_new(test);
	struct kt_link *l = kt_dialogue_link(test);
	long *mem = l->s.sock->sk->sk_prot->sysctl_mem;
	const long before[] = { mem[0], mem[1] };
	const u32 part = 50;
	bool moved = true;
	u32 i;

	/* CPUs count what they have allocated by themselves: the sum may be 0. */
	mem[0] = -1;
	mem[1] = -1;
	WRITE_ONCE(tcp_memory_pressure, 1);
	for (i = 0; i < part && moved; i++) {
		kt_peer_write(l, d.o.p + i, 1);
		moved = kt_until(READ_ONCE(l->s.rx.staged) == i + 1);
	}
	mem[0] = before[0];
	mem[1] = before[1];
	WRITE_ONCE(tcp_memory_pressure, 0);
	KUNIT_EXPECT_TRUE(test, moved);
	KUNIT_EXPECT_EQ(test, 0, tcp_inq(l->s.sock->sk));
	kt_peer_write(l, d.o.p + part, d.o.len - part);
	kt_dialogue_check(l, &d);
}

#define KT_LONGEST_WRITE	(0xffff - KW_DDP_TAGGED_LEN)

/* A Write in the longest FPDU there can be. Returns its payload. */
static u8 *kt_longest_write(struct kunit *test, struct kt_bytes *o)
{
	u8 *data = kunit_kmalloc(test, KT_LONGEST_WRITE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, data);
	kt_pattern(data, KT_LONGEST_WRITE, 9);
	kt_write(o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE), KT_BASE(KT_REMOTE) + 10,
		 true, data, KT_LONGEST_WRITE);
	return data;
}

/* Such an FPDU and a receive buffer that never holds it. */
static void kt_test_larger_than_the_buffer(struct kunit *test)
{
	struct kt_bytes o = kt_bytes_new(test, 200000);
	u32 len = KT_LONGEST_WRITE;
	u8 *data = kt_longest_write(test, &o);
	struct kt_link *l;

	kt_write(&o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE),
		 KT_BASE(KT_REMOTE) + 10 + len, true, data, len);
	kt_send(&o, KW_RDMAP_SEND, 1, 0, true, data, 5);

	l = kt_link_new(test, &kt_responder, 0, 16384);
	kt_post_recv(l, 1, 0, 5);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_done) == 1));
	KUNIT_EXPECT_TRUE(test, kt_same(l, KT_REMOTE, 10, data, len));
	KUNIT_EXPECT_TRUE(test, kt_same(l, KT_REMOTE, 10 + len, data, len));
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_REMOTE, 10, 10 + 2 * len));
	KUNIT_EXPECT_EQ(test, kw_counter_read(l->counters, KW_CNT_RX_OCTETS),
			o.len);
}

static bool kt_has_fin(struct kt_link *l)
{
	return sock_flag(l->s.sock->sk, SOCK_DONE);
}

/* Memory ends in such an FPDU. The peer's FIN counts behind it. */
static void kt_test_no_memory_for_the_stage(struct kunit *test)
{
	struct kt_bytes o = kt_bytes_new(test, 100000);
	u32 len = KT_LONGEST_WRITE;
	u8 *data = kt_longest_write(test, &o);
	struct kt_link *l;

	kt_send(&o, KW_RDMAP_SEND, 1, 0, true, data, 5);

	l = kt_link_new(test, &kt_responder, 0, 0);
	kt_post_recv(l, 1, 0, 5);
	kt_stage_pages(2);
	kt_peer_write(l, o.p, o.len);
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	KUNIT_ASSERT_TRUE(test, kt_until(kt_has_fin(l)));
	KUNIT_EXPECT_TRUE(test, kt_until(kw_counter_read(l->counters,
							 KW_CNT_RX_NO_MEMORY) > 1));
	KUNIT_EXPECT_EQ(test, l->nr_done, 0);
	KUNIT_EXPECT_FALSE(test, l->failed);
	KUNIT_EXPECT_FALSE(test, l->closing);
	kt_stage_pages(INT_MAX);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_done) == 1));
	KUNIT_EXPECT_TRUE(test, kt_same(l, KT_REMOTE, 10, data, len));
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->closing)));
	KUNIT_EXPECT_FALSE(test, l->failed);
}

static void kt_test_read_request(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_responder, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	const struct kw_read_req req = {
		.sink_stag = 0xabcd01,
		.sink_to = 0xfffffffffffff000ULL,
		.size = 2500,
		.src_stag = KT_STAG(KT_READ_ONLY),
		.src_to = KT_BASE(KT_READ_ONLY) + 17,
	};
	u8 body[KW_READ_REQ_LEN];
	struct kt_segment seg;
	u32 got = 0;

	kw_read_req_build(body, &req);
	kt_send(&o, KW_RDMAP_READ_REQ, 1, 0, true, body, sizeof(body));
	kt_peer_write(l, o.p, o.len);
	do {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_TRUE(test, seg.ddp.tagged);
		KUNIT_EXPECT_EQ(test, seg.ddp.rsvd_ulp_ctrl,
				KW_RDMAP_CTRL(KW_RDMAP_READ_RESP));
		KUNIT_EXPECT_EQ(test, seg.ddp.stag, req.sink_stag);
		KUNIT_EXPECT_EQ(test, seg.ddp.to, req.sink_to + got);
		KUNIT_EXPECT_TRUE(test, kt_same(l, KT_READ_ONLY, 17 + got,
						seg.body, seg.len));
		got += seg.len;
	} while (!seg.ddp.last);
	KUNIT_EXPECT_EQ(test, got, req.size);
}

/* Requests that wait to be answered, and a Send: they take turns. */
static void kt_test_responses_alternate(struct kunit *test)
{
	static const u8 order[] = { KW_RDMAP_READ_RESP, KW_RDMAP_SEND,
				    KW_RDMAP_READ_RESP, KW_RDMAP_READ_RESP };
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	struct kw_read_req req = {
		.sink_stag = 0xabcd01,
		.size = 8,
		.src_stag = KT_STAG(KT_READ_ONLY),
		.src_to = KT_BASE(KT_READ_ONLY),
	};
	const struct kw_wqe send = {
		.opcode = KIWARP_OP_SEND,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL), 8, KT_STAG(KT_LOCAL) },
	};
	u8 body[KW_READ_REQ_LEN];
	struct kt_segment seg;
	u32 i;

	kw_read_req_build(body, &req);
	for (i = 0; i < 3; i++)
		kt_send(&o, KW_RDMAP_READ_REQ, i + 1, 0, true, body, sizeof(body));
	/* All requests have come when the stream starts. */
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(tcp_inq(l->early->sk) == o.len));
	kt_post(l, &send);
	kt_link_start(l, &kt_responder);
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_EXPECT_EQ(test, KW_RDMAP_CTRL(order[i]), seg.ulpdu[1]);
	}
}

static u64 kt_counted(struct kt_link *l, enum kw_counter c)
{
	return kw_counter_read(l->counters, c);
}

static const struct kw_read_req kt_whole_region = {
	.sink_stag = 0xabcd01,
	.sink_to = 0xfffffffffffff000ULL,
	.size = KT_REGION_LEN,
	.src_stag = KT_STAG(KT_READ_ONLY),
	.src_to = KT_BASE(KT_READ_ONLY),
};

/* The peer asks for more than TCP takes, and reads nothing of it. */
static struct kt_link *kt_blocked(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_responder, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	u8 body[KW_READ_REQ_LEN];

	l->s.sock->sk->sk_sndbuf = 16384;
	l->s.sock->sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	kw_read_req_build(body, &kt_whole_region);
	kt_send(&o, KW_RDMAP_READ_REQ, 1, 0, true, body, sizeof(body));
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(kt_counted(l, KW_CNT_TX_BLOCKED)));
	return l;
}

/*
 * The right to read is withdrawn between two segments of a Read Response: the
 * Terminate quotes what is left of the request (RFC 5040 section 4.8).
 */
static void kt_read_withdrawn(struct kunit *test,
			      void (*withdraw)(struct kt_link *l), u16 code)
{
	const struct kw_read_req *req = &kt_whole_region;
	struct kt_link *l = kt_blocked(test);
	struct kw_read_req left;
	struct kt_segment seg;
	struct kw_term t;
	u32 got = 0;

	withdraw(l);
	for (;;) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		if (!seg.ddp.tagged)
			break;
		got += seg.len;
	}
	KUNIT_EXPECT_GT(test, got, 0);
	KUNIT_EXPECT_LT(test, got, req->size);
	KUNIT_ASSERT_EQ(test, 0, kw_term_parse(seg.body, seg.len, &t));
	KUNIT_EXPECT_EQ(test, kw_term_get_code(&t), code);
	KUNIT_ASSERT_TRUE(test, t.has_rdmap);
	kw_ddp_parse(t.ddp_hdr, &seg.ddp);
	KUNIT_EXPECT_EQ(test, seg.ddp.qn, KW_QN_READ_REQ);
	KUNIT_EXPECT_EQ(test, seg.ddp.msn, 1);
	kw_read_req_parse(t.rr_hdr, &left);
	KUNIT_EXPECT_EQ(test, left.sink_stag, req->sink_stag);
	KUNIT_EXPECT_EQ(test, left.src_stag, req->src_stag);
	KUNIT_EXPECT_EQ(test, left.sink_to, req->sink_to + got);
	KUNIT_EXPECT_EQ(test, left.src_to, req->src_to + got);
	KUNIT_EXPECT_EQ(test, left.size, req->size - got);
}

static void kt_withdraw_region(struct kt_link *l)
{
	l->mem[KT_READ_ONLY].valid = false;
}

static void kt_test_read_source_goes(struct kunit *test)
{
	kt_read_withdrawn(test, kt_withdraw_region, KW_TERM_RDMAP_INV_STAG);
}

/* As ibv_modify_qp() withdraws it. */
static void kt_withdraw_access(struct kt_link *l)
{
	WRITE_ONCE(l->s.access, IB_ACCESS_REMOTE_WRITE);
}

static void kt_test_read_right_goes(struct kunit *test)
{
	kt_read_withdrawn(test, kt_withdraw_access, KW_TERM_RDMAP_ACCESS);
}

/* What TCP has accounted for, of all sockets. */
static long kt_tcp_memory(void)
{
	long pages = atomic_long_read(tcp_prot.memory_allocated);
	int cpu;

	for_each_possible_cpu(cpu)
		pages += *per_cpu_ptr(tcp_prot.per_cpu_fw_alloc, cpu);
	return pages << PAGE_SHIFT;
}

/* What a socket has of that for its own buffers, or in reserve. */
static long kt_sock_memory(const struct socket *sock)
{
	const struct sock *sk = sock->sk;

	return READ_ONCE(sk->sk_wmem_queued) + sk_rmem_alloc_get(sk) +
	       READ_ONCE(sk->sk_forward_alloc);
}

/* Its transmit buffer is charged to the socket for as long. */
static void kt_test_blocked_buffer(struct kunit *test)
{
	long before = kt_tcp_memory();
	struct kt_link *l = kt_blocked(test);
	struct kt_segment seg;
	u32 got = 0;

	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.tx.charged)));
	KUNIT_EXPECT_EQ(test, l->s.tx.charged, l->s.tx.frag.size);
	KUNIT_EXPECT_GE(test, l->s.tx.charged, l->s.tx.out_len);
	KUNIT_EXPECT_TRUE(test, kt_until(kt_tcp_memory() - before ==
					 kt_sock_memory(l->s.sock) +
					 kt_sock_memory(l->peer) +
					 l->s.tx.charged));
	while (got < KT_REGION_LEN) {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		got += seg.len;
	}
	KUNIT_EXPECT_TRUE(test, kt_until(!READ_ONCE(l->s.tx.frag.page)));
	KUNIT_EXPECT_EQ(test, l->s.tx.charged, 0);
}

static void kt_test_blocked_buffer_at_the_end(struct kunit *test)
{
	long before = kt_tcp_memory();
	struct kt_link *l = kt_blocked(test);

	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->s.tx.charged)));
	test->priv = NULL;
	kt_link_end(l);
	KUNIT_EXPECT_TRUE(test, kt_until(kt_tcp_memory() == before));
}

static void kt_test_read_response(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_initiator, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 8192);
	const struct kw_wqe read = {
		.opcode = KIWARP_OP_READ,
		.num_sge = 1,
		.sge[0] = { KT_BASE(KT_LOCAL) + 990, 1500, KT_STAG(KT_LOCAL) },
		.rkey = 0x4321,
		.raddr = 0x5000,
	};
	struct kw_read_req req;
	struct kt_segment seg;
	static u8 data[1500];	/* too large for the stack */

	kt_pattern(data, sizeof(data), 77);
	kt_post(l, &read);
	kw_stream_kick(&l->s, KW_KICK_SLEEP);
	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_ASSERT_EQ(test, seg.ddp.qn, KW_QN_READ_REQ);
	kw_read_req_parse(seg.body, &req);
	KUNIT_EXPECT_EQ(test, req.size, 1500);
	KUNIT_EXPECT_EQ(test, req.src_stag, 0x4321);
	KUNIT_EXPECT_EQ(test, l->nr_wdone, 0);

	kt_write(&o, KW_RDMAP_READ_RESP, req.sink_stag, req.sink_to, false,
		 data, 700);
	kt_write(&o, KW_RDMAP_READ_RESP, req.sink_stag, req.sink_to + 700, true,
		 data + 700, 800);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_wdone) == 1));
	KUNIT_EXPECT_EQ(test, l->wdone[0].status, IB_WC_SUCCESS);
	KUNIT_EXPECT_TRUE(test, kt_same(l, KT_LOCAL, 990, data, 1500));
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_LOCAL, 990, 2490));
}

static void kt_test_invalidate(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_responder, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);

	kt_post_recv(l, 1, 0, 8);
	kt_send(&o, KW_RDMAP_SEND_INV, 1, 0, true, "invalid", 8);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_done) == 1));
	KUNIT_EXPECT_TRUE(test, l->done[0].invalidated);
	KUNIT_EXPECT_EQ(test, l->done[0].inv_stag, KT_STAG(KT_REMOTE));
	KUNIT_EXPECT_FALSE(test, l->mem[KT_REMOTE].valid);
}

/**
 * struct kt_fault - an invalid FPDU, and the answer
 * @name: of the case
 * @code: of the Terminate
 * @op: opcode of the FPDU
 * @msn: its MSN
 * @mo: its MO
 * @stag: its STag
 * @off: offset in the region that @stag names
 * @len: bytes of payload
 * @flip: byte of the FPDU that is changed after the CRC was computed, or 0
 * @set: byte of the FPDU that is changed before, or 0
 * @to: its new value
 */
struct kt_fault {
	const char *name;
	u16 code;
	u8 op;
	u32 msn;
	u32 mo;
	u32 stag;
	u64 off;
	u32 len;
	u32 flip;
	u32 set;
	u8 to;
};

#define KT_TAGGED(n, c, s, o, l) \
	{ .name = n, .code = c, .op = KW_RDMAP_WRITE, .stag = s, .off = o, .len = l }
#define KT_UNTAGGED(n, c, o, m, off, l) \
	{ .name = n, .code = c, .op = o, .msn = m, .mo = off, .len = l }

static const struct kt_fault kt_faults[] = {
	KT_TAGGED("tagged: unknown STag", KW_TERM_DDP_TAGGED_INV_STAG,
		  KT_STAG(KT_REMOTE) + 1, 0, 4),
	KT_TAGGED("tagged: beyond the end", KW_TERM_DDP_TAGGED_BOUNDS,
		  KT_STAG(KT_REMOTE), KT_REGION_LEN - 3, 4),
	KT_TAGGED("tagged: before the base", KW_TERM_DDP_TAGGED_BOUNDS,
		  KT_STAG(KT_REMOTE), -1ULL, 4),
	KT_TAGGED("tagged: offset wraps", KW_TERM_DDP_TAGGED_TO_WRAP,
		  KT_STAG(KT_REMOTE), -KT_BASE(KT_REMOTE) - 2, 4),
	KT_TAGGED("tagged: no right to write", KW_TERM_RDMAP_ACCESS,
		  KT_STAG(KT_READ_ONLY), 0, 4),
	KT_UNTAGGED("untagged: no buffer", KW_TERM_DDP_UNTAGGED_NO_BUFFER,
		    KW_RDMAP_SEND, 2, 0, 4),
	KT_UNTAGGED("untagged: MSN too high", KW_TERM_DDP_UNTAGGED_MSN_RANGE,
		    KW_RDMAP_SEND, 9, 0, 4),
	KT_UNTAGGED("untagged: MO not 0", KW_TERM_DDP_UNTAGGED_INV_MO,
		    KW_RDMAP_SEND, 1, 4, 4),
	KT_UNTAGGED("untagged: too long", KW_TERM_DDP_UNTAGGED_TOO_LONG,
		    KW_RDMAP_SEND, 1, 0, 17),
	KT_UNTAGGED("Read Request: MSN", KW_TERM_DDP_UNTAGGED_MSN_RANGE,
		    KW_RDMAP_READ_REQ, 2, 0, KW_READ_REQ_LEN),
	KT_UNTAGGED("Read Request: too long", KW_TERM_DDP_UNTAGGED_TOO_LONG,
		    KW_RDMAP_READ_REQ, 1, 0, KW_READ_REQ_LEN + 1),
	KT_UNTAGGED("Read Request: unknown STag", KW_TERM_RDMAP_INV_STAG,
		    KW_RDMAP_READ_REQ, 1, 0, KW_READ_REQ_LEN),
	{ "CRC", KW_TERM_MPA_CRC, KW_RDMAP_SEND, 1, 0, .len = 4, .flip = 22 },
	{ "DDP version, untagged", KW_TERM_DDP_UNTAGGED_VERSION, KW_RDMAP_SEND,
	  1, 0, .len = 4, .set = 2, .to = 0x42 },
	{ "DDP version, tagged", KW_TERM_DDP_TAGGED_VERSION, KW_RDMAP_WRITE,
	  .stag = KT_STAG(KT_REMOTE), .len = 4, .set = 2, .to = 0xc0 },
	{ "RDMAP version", KW_TERM_RDMAP_VERSION, KW_RDMAP_SEND, 1, 0,
	  .len = 4, .set = 3, .to = 0x83 },
	{ "opcode", KW_TERM_RDMAP_OPCODE, KW_RDMAP_SEND, 1, 0, .len = 4,
	  .set = 3, .to = 0x4f },
	{ "queue number", KW_TERM_DDP_UNTAGGED_INV_QN, KW_RDMAP_SEND, 1, 0,
	  .len = 4, .set = 11, .to = 9 },
	{ "Read Response nobody asked for", KW_TERM_RDMAP_OPCODE,
	  KW_RDMAP_READ_RESP, .stag = KT_STAG(KT_LOCAL), .len = 4 },
};

static void kt_fault_name(const struct kt_fault *f, char *name)
{
	strscpy(name, f->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kt_fault, kt_faults, kt_fault_name);

static void kt_fault_fpdu(struct kt_bytes *o, const struct kt_fault *f,
			  const u8 *body)
{
	u8 hdr[KW_DDP_HDR_MAX];
	u32 hdr_len = KW_DDP_UNTAGGED_LEN;
	u64 base = f->stag == KT_STAG(KT_READ_ONLY) ? KT_BASE(KT_READ_ONLY) :
						      KT_BASE(KT_REMOTE);

	if (kw_rdmap_ops[f->op].tagged) {
		hdr_len = KW_DDP_TAGGED_LEN;
		kw_ddp_put_tagged(hdr, true, KW_RDMAP_CTRL(f->op), f->stag,
				  base + f->off);
	} else {
		kw_ddp_put_untagged(hdr, true, KW_RDMAP_CTRL(f->op), 0,
				    kw_rdmap_ops[f->op].qn, f->msn, f->mo);
	}
	if (f->set)
		hdr[f->set - KW_MPA_HDR_LEN] = f->to;
	kt_fpdu(o, hdr, hdr_len, body, f->len);
	if (f->flip)
		o->p[f->flip] ^= 0x10;
}

/*
 * A valid Write follows the invalid FPDU. The answer is one Terminate with the
 * headers at fault, then the end, and nothing more is placed.
 */
static void kt_test_fault(struct kunit *test)
{
	const struct kt_fault *f = test->param_value;
	struct kt_link *l = kt_link_new(test, &kt_responder, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	struct kt_segment seg;
	struct kw_term t;
	u8 body[64] = {};
	size_t at;
	u8 byte;

	/* A Read Request without bytes would be valid. */
	body[15] = 1;
	kt_post_recv(l, 1, 64, 16);
	/* For the error "no buffer" the one there is has to be used first. */
	if (f->code == KW_TERM_DDP_UNTAGGED_NO_BUFFER)
		kt_send(&o, KW_RDMAP_SEND, 1, 0, true, body, 4);
	at = o.len;
	kt_fault_fpdu(&o, f, body);
	kt_write(&o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE), KT_BASE(KT_REMOTE),
		 true, body, sizeof(body));
	kt_peer_write(l, o.p, o.len);

	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_ASSERT_EQ(test, seg.ddp.qn, KW_QN_TERMINATE);
	KUNIT_ASSERT_EQ(test, 0, kw_term_parse(seg.body, seg.len, &t));
	KUNIT_EXPECT_EQ(test, kw_term_get_code(&t), f->code);
	KUNIT_EXPECT_EQ(test, t.has_ddp, t.layer != KW_TERM_LAYER_LLP);
	if (t.has_ddp)
		KUNIT_EXPECT_MEMEQ(test, t.ddp_hdr, o.p + at + KW_MPA_HDR_LEN,
				   t.ddp_hdr_len);
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
	KUNIT_EXPECT_TRUE(test, l->failed);
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_REMOTE, 0, 0));
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_READ_ONLY, 0, 0));
	KUNIT_EXPECT_EQ(test, kw_counter_read(l->counters, KW_CNT_TERM_SENT), 1);
}

static void kt_test_peer_terminates(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_initiator, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);
	struct kw_term t = {};
	u8 body[KW_TERM_MAX_LEN];

	kw_term_set_code(&t, KW_TERM_DDP_TAGGED_BOUNDS);
	kt_send(&o, KW_RDMAP_TERMINATE, 1, 0, true, body,
		kw_term_build(body, &t));
	kt_peer_write(l, o.p, o.len);
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->failed)));
	KUNIT_EXPECT_EQ(test,
			kw_counter_read(l->counters, KW_CNT_TERM_RECEIVED), 1);
	/* A Terminate is not answered by another. */
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, body, 1));
}

static void kt_test_end_between_messages(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_responder, 0, 0);
	u8 byte;

	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
	KUNIT_EXPECT_TRUE(test, l->closing);
	KUNIT_EXPECT_FALSE(test, l->failed);
}

static void kt_test_end_inside_an_fpdu(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_responder, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);

	kt_post_recv(l, 1, 0, 4);
	kt_send(&o, KW_RDMAP_SEND, 1, 0, true, "abc", 4);
	kt_peer_write(l, o.p, o.len - 1);
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->failed)));
	KUNIT_EXPECT_EQ(test, l->nr_done, 0);
}

static void kt_test_end_inside_a_message(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_responder, 0, 0);
	struct kt_bytes o = kt_bytes_new(test, 4096);

	kt_post_recv(l, 1, 0, 8);
	kt_send(&o, KW_RDMAP_SEND, 1, 0, false, "abc", 4);
	kt_peer_write(l, o.p, o.len);
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->failed)));
	KUNIT_EXPECT_EQ(test, l->nr_done, 0);
}

static void kt_test_close_from_this_side(struct kunit *test)
{
	struct kt_link *l = kt_link_new(test, &kt_initiator, 0, 0);
	u8 byte;
	int idx = srcu_read_lock(&l->domain.srcu);

	kw_stream_close(&l->s);
	srcu_read_unlock(&l->domain.srcu, idx);
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
	KUNIT_EXPECT_FALSE(test, completion_done(&l->ended));
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	KUNIT_EXPECT_NE(test, 0UL, wait_for_completion_timeout(&l->ended,
							       5 * HZ));
	KUNIT_EXPECT_FALSE(test, l->failed);
}

/* The peer-to-peer model: a zero-length Send is awaited and not delivered. */
static void kt_test_rtr_send(struct kunit *test)
{
	struct kw_stream_params p = kt_responder;
	struct kt_bytes o = kt_bytes_new(test, 4096);
	struct kt_link *l;

	p.rtr_await = BIT(KW_RTR_SEND);
	l = kt_link_new(test, &p, 0, 0);
	kt_post_recv(l, 1, 0, 4);
	kt_send(&o, KW_RDMAP_SEND, 1, 0, true, NULL, 0);
	kt_send(&o, KW_RDMAP_SEND, 2, 0, true, "abc", 4);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(READ_ONCE(l->nr_done) == 1));
	KUNIT_EXPECT_EQ(test, l->done[0].len, 4);
}

static struct kunit_case kt_receive_cases[] = {
	KUNIT_CASE_PARAM(kt_test_at_once, kt_markers_gen_params),
	KUNIT_CASE_PARAM(kt_test_byte_by_byte, kt_markers_gen_params),
	KUNIT_CASE_PARAM(kt_test_random_pieces, kt_markers_gen_params),
	KUNIT_CASE_PARAM(kt_test_memory_pressure, kt_markers_gen_params),
	KUNIT_CASE(kt_test_larger_than_the_buffer),
	KUNIT_CASE(kt_test_no_memory_for_the_stage),
	KUNIT_CASE(kt_test_read_request),
	KUNIT_CASE(kt_test_responses_alternate),
	KUNIT_CASE(kt_test_read_source_goes),
	KUNIT_CASE(kt_test_read_right_goes),
	KUNIT_CASE(kt_test_blocked_buffer),
	KUNIT_CASE(kt_test_blocked_buffer_at_the_end),
	KUNIT_CASE(kt_test_read_response),
	KUNIT_CASE(kt_test_invalidate),
	KUNIT_CASE_PARAM(kt_test_fault, kt_fault_gen_params),
	KUNIT_CASE(kt_test_peer_terminates),
	KUNIT_CASE(kt_test_end_between_messages),
	KUNIT_CASE(kt_test_end_inside_an_fpdu),
	KUNIT_CASE(kt_test_end_inside_a_message),
	KUNIT_CASE(kt_test_close_from_this_side),
	KUNIT_CASE(kt_test_rtr_send),
	{}
};

struct kunit_suite kt_receive_suite = {
	.name = "kiwarp_receive",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_receive_cases,
};
