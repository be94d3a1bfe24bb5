// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * See link.h.
 */
#include <linux/in.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"
#include "wire/crc.h"

#define KT_TIMEOUT	(10 * HZ)

static const u32 kt_rights[KT_NR_REGIONS] = {
	[KT_REMOTE] = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
		      IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC,
	[KT_READ_ONLY] = IB_ACCESS_REMOTE_READ,
	[KT_LOCAL] = IB_ACCESS_LOCAL_WRITE,
};

static u8 kt_initial(u32 off)
{
	return off % 251;
}

static void kt_regions(struct kt_link *l)
{
	u32 len = KT_REGION_LEN, room = len + 3 * KT_GUARD;
	u32 i, r;

	for (r = 0; r < KT_NR_REGIONS; r++) {
		l->bytes[r] = kvmalloc(room, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(l->test, l->bytes[r]);
		for (i = 0; i < room; i++)
			l->bytes[r][i] = kt_initial(i);
		/* The second extent begins a guard later than the first ends. */
		l->ext[r][0] = (struct kw_extent){ 0, l->bytes[r] + KT_GUARD };
		l->ext[r][1] = (struct kw_extent){
			1001, l->bytes[r] + 2 * KT_GUARD + 1001,
		};
		l->mem[r] = (struct kw_mem){
			.stag = KT_STAG(r),
			.access = kt_rights[r],
			.pd = l,
			.base = KT_BASE(r),
			.len = len,
			.valid = true,
			.nr_ext = 2,
			.ext = l->ext[r],
		};
	}
}

/* The address of a byte of a region. */
u8 *kt_at(struct kt_link *l, enum kt_region r, u32 off)
{
	return l->bytes[r] + (off < 1001 ? 1 : 2) * KT_GUARD + off;
}

/* Whether all of a region but the bytes from @from to @to is unchanged. */
bool kt_untouched(struct kt_link *l, enum kt_region r, u32 from, u32 to)
{
	u8 *first = from < to ? kt_at(l, r, from) : NULL;
	u8 *last = from < to ? kt_at(l, r, to - 1) : NULL;
	u32 i;

	for (i = 0; i < KT_REGION_LEN + 3 * KT_GUARD; i++) {
		u8 *p = &l->bytes[r][i];
		bool gap = i >= KT_GUARD + 1001 && i < 2 * KT_GUARD + 1001;

		if (!gap && first && p >= first && p <= last)
			continue;
		if (*p != kt_initial(i))
			return false;
	}
	return true;
}

static int kt_option(struct socket *sock, int name, int value)
{
	return sock->ops->setsockopt(sock, SOL_TCP, name,
				     KERNEL_SOCKPTR(&value), sizeof(value));
}

/* struct kw_stream_ops, from the tables of the link. */

static struct kt_link *kt_of(struct kw_stream *s)
{
	return container_of(s, struct kt_link, s);
}

static bool kt_op_next_wqe(struct kw_stream *s, struct kw_wqe *w)
{
	struct kt_link *l = kt_of(s);

	if (l->next_wqe == l->nr_wqe)
		return false;
	*w = l->wqe[l->next_wqe++];
	return true;
}

static bool kt_op_wqes_left(struct kw_stream *s)
{
	struct kt_link *l = kt_of(s);

	return l->next_wqe < l->nr_wqe;
}

static void kt_op_wqe_done(struct kw_stream *s, u32 index, u16 status)
{
	struct kt_link *l = kt_of(s);

	l->wdone[l->nr_wdone] = (struct kt_wqe_done){ index, status };
	WRITE_ONCE(l->nr_wdone, l->nr_wdone + 1);
}

static void kt_op_wqe_zc_start(struct kw_stream *s, u32 index)
{
	kt_of(s)->nr_zc_started++;
}

static void kt_op_wqe_zc_done(struct kw_stream *s, u32 index, bool good)
{
	struct kt_link *l = kt_of(s);

	if (good)
		kt_op_wqe_done(s, index, IB_WC_SUCCESS);
	WRITE_ONCE(l->nr_zc_done, l->nr_zc_done + 1);
}

static bool kt_op_retire(struct kw_stream *s, u32 most)
{
	struct kt_link *l = kt_of(s);
	u32 n = min(l->to_retire, most);

	l->to_retire -= n;
	WRITE_ONCE(l->retired, l->retired + n);
	return l->to_retire;
}

static int kt_op_local_op(struct kw_stream *s, const struct kw_wqe *w)
{
	return IB_WC_LOC_QP_OP_ERR;
}

static int kt_op_next_recv(struct kw_stream *s, struct kw_recv *r)
{
	struct kt_link *l = kt_of(s);

	if (l->next_recv == l->nr_recv)
		return 0;
	*r = l->recv[l->next_recv++];
	return 1;
}

static void kt_op_recv_done(struct kw_stream *s, const struct kw_recv *r,
			    u16 status, u32 len, bool solicited,
			    bool invalidated, u32 inv_stag)
{
	struct kt_link *l = kt_of(s);

	l->done[l->nr_done] = (struct kt_recv_done){
		.wr_id = r->wr_id,
		.len = len,
		.inv_stag = inv_stag,
		.status = status,
		.solicited = solicited,
		.invalidated = invalidated,
	};
	WRITE_ONCE(l->nr_done, l->nr_done + 1);
}

static void kt_op_recv_imm(struct kw_stream *s, const struct kw_recv *r,
			   u32 len, bool solicited, __be32 imm)
{
	struct kt_link *l = kt_of(s);

	l->done[l->nr_done] = (struct kt_recv_done){
		.wr_id = r->wr_id,
		.len = len,
		.status = IB_WC_SUCCESS,
		.solicited = solicited,
		.with_imm = true,
		.imm = imm,
	};
	WRITE_ONCE(l->nr_done, l->nr_done + 1);
}

static struct kw_mem *kt_op_mem(struct kw_stream *s, u32 stag)
{
	struct kt_link *l = kt_of(s);
	u32 r;

	if (!l->lookups)
		return NULL;
	l->lookups--;
	for (r = 0; r < KT_NR_REGIONS; r++)
		if (l->mem[r].stag == stag && l->mem[r].valid)
			return &l->mem[r];
	return NULL;
}

static int kt_op_invalidate(struct kw_stream *s, u32 stag, bool remote)
{
	struct kw_mem *mem = kt_op_mem(s, stag);

	if (!mem)
		return -ENOENT;
	if (remote && !(mem->access & IB_ACCESS_REMOTE_WRITE))
		return -EPERM;
	mem->valid = false;
	return 0;
}

static void kt_op_notify(struct kw_stream *s)
{
	struct kt_link *l = kt_of(s);
	u32 fpdus = kw_counter_read(l->counters, KW_CNT_RX_FPDUS);
	u32 bytes = kw_counter_read(l->counters, KW_CNT_RX_OCTETS);

	l->wdone_most = max(l->wdone_most, l->nr_wdone - l->wdone_before);
	l->wdone_before = l->nr_wdone;
	l->retired_most = max(l->retired_most, l->retired - l->retired_before);
	l->retired_before = l->retired;
	l->fpdus_most = max(l->fpdus_most, fpdus - l->fpdus_before);
	l->fpdus_before = fpdus;
	l->rx_most = max(l->rx_most, bytes - l->rx_before);
	l->rx_before = bytes;
	if (current == l->task && !in_serving_softirq())
		l->passes++;
}

static int kt_op_started(struct kw_stream *s)
{
	struct kt_link *l = kt_of(s);

	if (l->used_at_start)
		KUNIT_EXPECT_TRUE(l->test, kw_stream_get(s));
	return l->start_error;
}

static void kt_op_closing(struct kw_stream *s)
{
	kt_of(s)->closing = true;
}

static void kt_op_failed(struct kw_stream *s, enum kw_fail why)
{
	struct kt_link *l = kt_of(s);

	l->why = why;
	WRITE_ONCE(l->failed, true);
}

/* As of a device that goes away. */
static int kt_op_linger(struct kw_stream *s, struct socket *sock,
			unsigned long limit)
{
	const struct tcp_sock *tp = tcp_sk(sock->sk);

	kt_of(s)->linger = limit;
	kt_of(s)->delivered = READ_ONCE(tp->snd_una) == READ_ONCE(tp->write_seq);
	return -ENODEV;
}

static void kt_op_ended(struct kw_stream *s)
{
	cancel_delayed_work(&s->end_work);
	complete_all(&kt_of(s)->ended);
}

static const struct kw_stream_ops kt_ops = {
	.next_wqe = kt_op_next_wqe,
	.wqes_left = kt_op_wqes_left,
	.wqe_done = kt_op_wqe_done,
	.wqe_zc_start = kt_op_wqe_zc_start,
	.wqe_zc_done = kt_op_wqe_zc_done,
	.retire = kt_op_retire,
	.local_op = kt_op_local_op,
	.next_recv = kt_op_next_recv,
	.recv_done = kt_op_recv_done,
	.recv_imm = kt_op_recv_imm,
	.mem = kt_op_mem,
	.invalidate = kt_op_invalidate,
	.notify = kt_op_notify,
	.started = kt_op_started,
	.closing = kt_op_closing,
	.failed = kt_op_failed,
	.linger = kt_op_linger,
	.ended = kt_op_ended,
};

/* A connection over lo: returns the stream's socket; @l->peer is the other. */
static struct socket *kt_connect(struct kt_link *l, int mss, int rcvbuf)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr *sa = (struct sockaddr *)&addr;
	struct kunit *test = l->test;
	struct socket *listener, *sock;

	KUNIT_ASSERT_EQ(test, 0, sock_create_kern(&init_net, AF_INET,
						  SOCK_STREAM, IPPROTO_TCP,
						  &listener));
	KUNIT_ASSERT_EQ(test, 0, sock_create_kern(&init_net, AF_INET,
						  SOCK_STREAM, IPPROTO_TCP,
						  &l->peer));
	if (rcvbuf) {
		listener->sk->sk_rcvbuf = rcvbuf;
		listener->sk->sk_userlocks |= SOCK_RCVBUF_LOCK;
	}
	if (mss) {
		KUNIT_ASSERT_EQ(test, 0, kt_option(l->peer, TCP_MAXSEG, mss));
		KUNIT_ASSERT_EQ(test, 0, kt_option(listener, TCP_MAXSEG, mss));
	}
	KUNIT_ASSERT_EQ(test, 0, kernel_bind(listener, sa, sizeof(addr)));
	KUNIT_ASSERT_EQ(test, 0, kernel_listen(listener, 1));
	KUNIT_ASSERT_GT(test, kernel_getsockname(listener, sa), 0);
	l->peer->sk->sk_sndtimeo = KT_TIMEOUT;
	l->peer->sk->sk_rcvtimeo = KT_TIMEOUT;
	KUNIT_ASSERT_EQ(test, 0, kernel_connect(l->peer, sa, sizeof(addr), 0));
	KUNIT_ASSERT_EQ(test, 0, kt_option(l->peer, TCP_NODELAY, 1));
	KUNIT_ASSERT_EQ(test, 0, kernel_accept(listener, &sock, 0));
	sock_release(listener);
	return sock;
}

/**
 * kt_link_connect() - connect the two ends of a link
 * @test: the test, whose end the link does not outlive; its suite's exit
 *	function is kt_link_exit()
 * @mss: MSS that both ends announce; 0 for the interface's
 * @rcvbuf: bytes of the stream's receive buffer; 0 for the default
 *
 * Return: the link, for kt_link_start().
 */
struct kt_link *kt_link_connect(struct kunit *test, int mss, int rcvbuf)
{
	struct kt_link *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	l->test = test;
	l->lookups = U32_MAX;
	init_completion(&l->ended);
	KUNIT_ASSERT_EQ(test, 0, kw_domain_init(&l->domain, true));
	test->priv = l;
	l->counters = alloc_percpu(struct kw_counters);
	KUNIT_ASSERT_NOT_NULL(test, l->counters);
	kt_regions(l);
	l->early = kt_connect(l, mss, rcvbuf);
	kw_stream_init(&l->s, &kt_ops, &l->domain, l->counters);
	l->s.pd = l;
	l->s.access = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |
		      IB_ACCESS_REMOTE_ATOMIC;
	return l;
}

/**
 * kt_link_start() - start a link's stream
 * @l: the link, which may have failed to start before
 * @p: what start-up negotiated
 */
void kt_link_start(struct kt_link *l, const struct kw_stream_params *p)
{
	KUNIT_ASSERT_EQ(l->test, 0, kw_stream_start(&l->s, l->early, p));
	l->early = NULL;
	l->started = true;
}

/**
 * kt_link_new() - connect a link, and start its stream
 * @test: as of kt_link_connect()
 * @p: what start-up negotiated
 * @mss: as of kt_link_connect()
 * @rcvbuf: likewise
 *
 * Return: the link.
 */
struct kt_link *kt_link_new(struct kunit *test,
			    const struct kw_stream_params *p, int mss,
			    int rcvbuf)
{
	struct kt_link *l = kt_link_connect(test, mss, rcvbuf);

	kt_link_start(l, p);
	return l;
}

/**
 * kt_link_end() - free all that a link has, the stream first
 * @l: the link, in any state
 */
void kt_link_end(struct kt_link *l)
{
	u32 r;

	if (l->started && !completion_done(&l->ended))
		kw_stream_abort(&l->s);
	if (l->started)
		KUNIT_EXPECT_NE(l->test, 0UL,
				wait_for_completion_timeout(&l->ended,
							    KT_TIMEOUT));
	if (l->early)
		sock_release(l->early);
	if (l->peer)
		sock_release(l->peer);
	for (r = 0; r < KT_NR_REGIONS; r++)
		kvfree(l->bytes[r]);
	kw_domain_exit(&l->domain);
	free_percpu(l->counters);
}

static atomic_t kt_pages_left;

/**
 * kt_stage_pages() - how many pages for staging there are from now on
 * @n: number
 */
void kt_stage_pages(int n)
{
	atomic_set(&kt_pages_left, n);
}

/**
 * kt_stage_page() - KW_STAGE_PAGE of kernel/stream/rx_stage.c
 * @gfp: how to allocate it
 *
 * Context: any.
 * Return: a page, or NULL if there are no more.
 */
struct page *kt_stage_page(gfp_t gfp)
{
	return atomic_add_unless(&kt_pages_left, -1, 0) ? alloc_page(gfp) : NULL;
}

/**
 * kt_link_init() - set up before each test that makes a link
 * @test: the test
 *
 * Return: 0 or -errno.
 */
int kt_link_init(struct kunit *test)
{
	kt_stage_pages(INT_MAX);
	return kw_streams_init();
}

/**
 * kt_link_exit() - clean up after each test: free the link, if any
 * @test: the test
 */
void kt_link_exit(struct kunit *test)
{
	if (test->priv)
		kt_link_end(test->priv);
	kw_streams_exit();
}

void kt_post_recv(struct kt_link *l, u64 wr_id, u32 off, u32 len)
{
	l->recv_sge[l->nr_recv] = (struct kiwarp_sge){
		KT_BASE(KT_LOCAL) + off, len, KT_STAG(KT_LOCAL)
	};
	l->recv[l->nr_recv] = (struct kw_recv){
		.wr_id = wr_id,
		.index = l->nr_recv,
		.len = len,
		.num_sge = 1,
		.sge = &l->recv_sge[l->nr_recv],
	};
	l->nr_recv++;
}

void kt_post(struct kt_link *l, const struct kw_wqe *w)
{
	u32 i;

	l->wqe[l->nr_wqe] = *w;
	l->wqe[l->nr_wqe].index = l->nr_wqe;
	for (i = 0; i < w->num_sge; i++)
		l->wqe[l->nr_wqe].len += w->sge[i].length;
	l->nr_wqe++;
}

void kt_peer_write(struct kt_link *l, const u8 *p, size_t n)
{
	struct msghdr msg = {};
	struct kvec kv = { (void *)p, n };

	KUNIT_ASSERT_EQ(l->test, (int)n,
			kernel_sendmsg(l->peer, &msg, &kv, 1, n));
}

/* Bytes read, fewer than asked for only at the end. */
int kt_peer_read(struct kt_link *l, u8 *p, size_t n)
{
	struct msghdr msg = {};
	struct kvec kv = { p, n };

	return kernel_recvmsg(l->peer, &msg, &kv, 1, n, MSG_WAITALL);
}

/*
 * Read bytes of an FPDU that began at @start of the stream. Markers among them
 * are removed, if they point to where they have to.
 */
static int kt_peer_take(struct kt_link *l, u32 *start, u8 *p, u32 n, u32 *crc)
{
	u8 marker[KW_MARKER_LEN];
	u32 run;

	for (; n; n -= run, p += run) {
		if (l->s.p.tx_markers && !kw_marker_dist(l->peer_off)) {
			if (kt_peer_read(l, marker, sizeof(marker)) !=
				    sizeof(marker) ||
			    get_unaligned_be32(marker) != l->peer_off - *start)
				return -EBADMSG;
			*crc = kw_crc32c(*crc, marker, sizeof(marker));
			/* The FPDU begins behind a marker that precedes it. */
			if (*start == l->peer_off)
				*start += KW_MARKER_LEN;
			l->peer_off += KW_MARKER_LEN;
		}
		run = l->s.p.tx_markers ? min(n, kw_marker_dist(l->peer_off)) : n;
		if (kt_peer_read(l, p, run) != run)
			return -EBADMSG;
		*crc = kw_crc32c(*crc, p, run);
		l->peer_off += run;
	}
	return 0;
}

/**
 * kt_peer_fpdu() - receive an FPDU at the far end
 * @l: link
 * @seg: filled
 *
 * Return: 1, or -EBADMSG.
 */
int kt_peer_fpdu(struct kt_link *l, struct kt_segment *seg)
{
	u32 len, ulpdu_len, hdr_len, start = l->peer_off, begin = start;
	u8 head[KW_MPA_HDR_LEN], field[KW_MPA_CRC_LEN], *p;
	u32 crc = KW_CRC_SEED, covered;

	if (kt_peer_take(l, &start, head, sizeof(head), &crc))
		return -EBADMSG;
	ulpdu_len = get_unaligned_be16(head);
	len = kw_fpdu_len(ulpdu_len) - KW_MPA_HDR_LEN - KW_MPA_CRC_LEN;
	p = kunit_kmalloc(l->test, len, GFP_KERNEL);
	if (!p || ulpdu_len < KW_DDP_TAGGED_LEN ||
	    kt_peer_take(l, &start, p, len, &crc))
		return -EBADMSG;
	/* A marker before the field is covered by it, the field is not. */
	covered = crc;
	if (l->s.p.tx_markers && !kw_marker_dist(l->peer_off)) {
		put_unaligned_be32(l->peer_off - start, field);
		covered = kw_crc32c(crc, field, sizeof(field));
	}
	if (kt_peer_take(l, &start, field, sizeof(field), &crc) ||
	    (l->s.p.crc ? kw_crc_get(field) != covered :
			  !!get_unaligned_le32(field)))
		return -EBADMSG;
	hdr_len = kw_ddp_hdr_len(p[0]);
	kw_ddp_parse(p, &seg->ddp);
	seg->ulpdu = p;
	seg->body = p + hdr_len;
	seg->len = ulpdu_len - hdr_len;
	seg->span = l->peer_off - begin;
	return 1;
}

struct kt_bytes kt_bytes_new(struct kunit *test, size_t size)
{
	struct kt_bytes o = {
		.p = kunit_kmalloc(test, size, GFP_KERNEL),
		.size = size,
	};

	KUNIT_ASSERT_NOT_NULL(test, o.p);
	return o;
}

/* Append bytes, and a marker wherever one is due, to the stream and the CRC. */
static void kt_put(struct kt_bytes *o, const u8 *p, u32 len, u32 start,
		   u32 *crc)
{
	while (len) {
		u32 n = len;

		if (o->markers && !kw_marker_dist(o->len)) {
			kw_marker_put(o->p + o->len, o->len - start);
			*crc = kw_crc32c(*crc, o->p + o->len, KW_MARKER_LEN);
			o->len += KW_MARKER_LEN;
		}
		if (o->markers)
			n = min(n, kw_marker_dist(o->len));
		memcpy(o->p + o->len, p, n);
		*crc = kw_crc32c(*crc, p, n);
		o->len += n;
		p += n;
		len -= n;
	}
}

/* Append a valid FPDU. */
void kt_fpdu(struct kt_bytes *o, const u8 *hdr, u32 hdr_len, const u8 *body,
	     u32 len)
{
	static const u8 zero[3];
	u8 head[KW_MPA_HDR_LEN], field[KW_MPA_CRC_LEN];
	u32 crc = KW_CRC_SEED, unused = 0, start;

	WARN_ON(o->len + len + len / 64 + 64 > o->size);
	put_unaligned_be16(hdr_len + len, head);
	/* A marker before the first byte says 0, and the FPDU starts behind it. */
	start = o->len;
	if (o->markers && !kw_marker_dist(o->len))
		start += KW_MARKER_LEN;
	if (start != o->len) {
		kw_marker_put(o->p + o->len, 0);
		crc = kw_crc32c(crc, o->p + o->len, KW_MARKER_LEN);
		o->len = start;
	}
	kt_put(o, head, sizeof(head), start, &crc);
	kt_put(o, hdr, hdr_len, start, &crc);
	kt_put(o, body, len, start, &crc);
	kt_put(o, zero, kw_fpdu_pad(hdr_len + len), start, &crc);
	if (o->markers && !kw_marker_dist(o->len)) {
		kw_marker_put(o->p + o->len, o->len - start);
		crc = kw_crc32c(crc, o->p + o->len, KW_MARKER_LEN);
		o->len += KW_MARKER_LEN;
	}
	kw_crc_put(field, crc);
	kt_put(o, field, sizeof(field), start, &unused);
}

void kt_send(struct kt_bytes *o, u8 op, u32 msn, u32 mo, bool last,
	     const u8 *body, u32 len)
{
	u8 hdr[KW_DDP_UNTAGGED_LEN];

	kw_ddp_put_untagged(hdr, last, KW_RDMAP_CTRL(op), KT_STAG(KT_REMOTE),
			    kw_rdmap_ops[op].qn, msn, mo);
	kt_fpdu(o, hdr, sizeof(hdr), body, len);
}

void kt_write(struct kt_bytes *o, u8 op, u32 stag, u64 to, bool last,
	      const u8 *body, u32 len)
{
	u8 hdr[KW_DDP_TAGGED_LEN];

	kw_ddp_put_tagged(hdr, last, KW_RDMAP_CTRL(op), stag, to);
	kt_fpdu(o, hdr, sizeof(hdr), body, len);
}

void kt_pattern(u8 *p, u32 len, u8 seed)
{
	u32 i;

	for (i = 0; i < len; i++)
		p[i] = seed + i * 7;
}
