// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Invalidation by messages: Send with Invalidate, Read with Invalidate.
 */
#include <linux/kernel.h>
#include <linux/mm.h>

#include "ktest.h"

#define KT_RW	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
		 IB_ACCESS_REMOTE_WRITE)

static const struct kt_opts kt_usual;

/* A Send with Invalidate of @buf's bytes; the result is not yet checked. */
static struct kt_op *kt_send_inv(struct kt_end *from, struct kt_buf *buf,
				 u32 stag, int flags)
{
	struct ib_sge sge = kt_sge(from, buf, 0, buf->len);
	struct kt_op *o = kt_op(from->link);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND_WITH_INV, o, &sge, 1);

	wr.wr.send_flags |= flags;
	wr.wr.ex.invalidate_rkey = stag;
	kt_equal(kt_post(from, &wr), 0, "Send with Invalidate posted");
	return o;
}

/* @from withdraws a region of @to's. */
static bool kt_withdraws(struct kt_end *from, struct kt_end *to,
			 struct kt_mr *m, u32 len, int flags)
{
	struct kt_buf *src = kt_buf(to->link, len), *dst = kt_buf(to->link, len);
	struct ib_sge rsge = kt_sge(to, dst, 0, len);
	struct kt_op *recv = kt_op(to->link), *send;

	kt_fill(src->p, len, 30);
	kt_equal(kt_recv(to, recv, &rsge, 1), 0, "receive posted");
	send = kt_send_inv(from, src, m->mr->rkey, flags);
	return kt_completes(to, recv, IB_WC_SUCCESS, "receive") &&
	       kt_completes(from, send, IB_WC_SUCCESS, "Send with Invalidate") &&
	       kt_equal(recv->wc.wc_flags, IB_WC_WITH_INVALIDATE,
			"flags of the receive") &&
	       kt_equal(recv->wc.ex.invalidate_rkey, m->mr->rkey,
			"what was invalidated") &&
	       kt_equal(recv->wc.byte_len, len, "bytes received") &&
	       kt_equal(send->wc.opcode, IB_WC_SEND, "opcode of the Send") &&
	       kt_fact(kt_holds(dst, 0, len, 30), "each byte");
}

/* A Read by the other end of a region that is not valid any more. */
static void kt_is_gone(struct kt_end *from, struct kt_end *to, struct kt_mr *m)
{
	struct kt_link *l = from->link;
	struct kt_buf *buf = kt_buf(l, 16);
	struct ib_sge sge = kt_sge(from, buf, 0, 16);
	struct kt_op *o = kt_op(l);
	struct ib_rdma_wr wr = kt_rdma(IB_WR_RDMA_READ, o, &sge, m->mr->iova,
				       m->mr->rkey);

	kt_arm(l);
	kt_equal(kt_post(from, &wr), 0, "Read posted");
	kt_completes(from, o, IB_WC_REM_ACCESS_ERR,
		     "Read of what was invalidated");
	kt_terminated(l, to, KW_TERM_RDMAP_INV_STAG);
}

static void kt_remote_of(bool from_a)
{
	static const int flags[] = { 0, IB_SEND_SOLICITED, 0 };
	static const u32 len[] = { 100, 5000, 0 };
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_end *from, *to;
	struct kt_mr *m;
	int i;

	if (!l)
		return;
	from = from_a ? &l->a : &l->b;
	to = from_a ? &l->b : &l->a;
	m = kt_mr(to, NULL, 2);
	for (i = 0; m && i < 3; i++) {
		/* Once with another key, once with the same. */
		if (i == 1)
			ib_update_fast_reg_key(m->mr, ib_inc_rkey(m->mr->rkey));
		if (!kt_reg(to, m, KT_RW) ||
		    !kt_withdraws(from, to, m, len[i], flags[i]))
			break;
	}
	/* Its consumer may not know yet that the peer has withdrawn it. */
	if (i == 3 && kt_inv(to, m->mr->rkey))
		kt_is_gone(from, to, m);
	kt_close(l);
}

static void kt_remote(void)
{
	kt_remote_of(true);
	kt_remote_of(false);
}

/* @from may not withdraw @stag of @to's. */
static void kt_may_not(struct kt_end *from, struct kt_end *to, u32 stag,
		       u16 code)
{
	struct kt_buf *src = kt_buf(to->link, 10), *dst = kt_buf(to->link, 10);
	struct ib_sge rsge = kt_sge(to, dst, 0, 10);
	struct kt_op *recv = kt_op(to->link);

	kt_equal(kt_recv(to, recv, &rsge, 1), 0, "receive posted");
	kt_arm(to->link);
	kt_send_inv(from, src, stag, 0);
	kt_completes(to, recv, IB_WC_WR_FLUSH_ERR, "receive of the message");
	kt_terminated(to->link, to, code);
	kt_fact(kt_wait_event(to, IB_EVENT_QP_ACCESS_ERR),
		"the event QP_ACCESS_ERR");
}

/* Regions of @to's that @from may not withdraw, and why. */
struct kt_forbidden {
	const char *what;
	bool (*prepare)(struct kt_end *to, struct kt_mr *m, u32 *stag);
	u16 code;
};

static bool kt_prep_never(struct kt_end *to, struct kt_mr *m, u32 *stag)
{
	*stag = m->mr->rkey;
	return true;
}

static bool kt_prep_twice(struct kt_end *to, struct kt_mr *m, u32 *stag)
{
	*stag = m->mr->rkey;
	return kt_reg(to, m, KT_RW) && kt_inv(to, m->mr->rkey);
}

static bool kt_prep_stale(struct kt_end *to, struct kt_mr *m, u32 *stag)
{
	*stag = ib_inc_rkey(m->mr->rkey);
	return kt_reg(to, m, KT_RW);
}

static bool kt_prep_zero(struct kt_end *to, struct kt_mr *m, u32 *stag)
{
	*stag = 0;
	return true;
}

static bool kt_prep_local(struct kt_end *to, struct kt_mr *m, u32 *stag)
{
	*stag = m->mr->rkey;
	return kt_reg(to, m, IB_ACCESS_LOCAL_WRITE);
}

static bool kt_prep_dma_lkey(struct kt_end *to, struct kt_mr *m, u32 *stag)
{
	*stag = to->pd->local_dma_lkey;
	return true;
}

static bool kt_prep_dma_rkey(struct kt_end *to, struct kt_mr *m, u32 *stag)
{
	*stag = to->pd->unsafe_global_rkey;
	return kt_fact(*stag, "an STag for all memory");
}

static const struct kt_forbidden kt_forbidden[] = {
	{ "never registered", kt_prep_never, KW_TERM_RDMAP_INV_STAG },
	{ "invalidated before", kt_prep_twice, KW_TERM_RDMAP_INV_STAG },
	{ "with another key", kt_prep_stale, KW_TERM_RDMAP_INV_STAG },
	{ "STag 0", kt_prep_zero, KW_TERM_RDMAP_INV_STAG },
	{ "a local region", kt_prep_local, KW_TERM_RDMAP_PROT_CANT_INV },
	{ "the local_dma_lkey", kt_prep_dma_lkey,
	  KW_TERM_RDMAP_PROT_CANT_INV },
	{ "all memory", kt_prep_dma_rkey, KW_TERM_RDMAP_PROT_CANT_INV },
};

static void kt_remote_bad_of(const struct kt_forbidden *f, bool from_a)
{
	struct kt_link *l = kt_open(&(struct kt_opts){
		.pd_flags = IB_PD_UNSAFE_GLOBAL_RKEY });
	struct kt_end *from, *to;
	struct kt_mr *m;
	u32 stag;

	if (!l)
		return;
	from = from_a ? &l->a : &l->b;
	to = from_a ? &l->b : &l->a;
	m = kt_mr(to, NULL, 2);
	if (m && f->prepare(to, m, &stag)) {
		kt_fact(true, "Send with Invalidate from %s: %s", from->name,
			f->what);
		kt_may_not(from, to, stag, f->code);
	}
	kt_close(l);
}

static void kt_remote_bad(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kt_forbidden); i++) {
		kt_remote_bad_of(&kt_forbidden[i], true);
		kt_remote_bad_of(&kt_forbidden[i], false);
	}
}

/* A valid region of another domain: of another connection's. */
static void kt_remote_other_pd(void)
{
	struct kt_link *l = kt_open(&kt_usual), *other = kt_open(&kt_usual);
	struct kt_buf *buf;
	struct kt_mr *m;
	struct kt_op *o;
	struct ib_sge sge;
	struct ib_rdma_wr wr;

	if (!l || !other)
		goto out;
	m = kt_mr(&other->b, NULL, 2);
	if (!m || !kt_reg(&other->b, m, KT_RW))
		goto out;
	kt_may_not(&l->a, &l->b, m->mr->rkey, KW_TERM_RDMAP_PROT_CANT_INV);
	/* In its own domain the region has not changed. */
	kt_mr_fill(m, 2);
	buf = kt_buf(other, 100);
	sge = kt_sge(&other->a, buf, 0, 100);
	o = kt_op(other);
	wr = kt_rdma(IB_WR_RDMA_READ, o, &sge, m->mr->iova, m->mr->rkey);
	kt_equal(kt_post(&other->a, &wr), 0, "Read posted");
	if (kt_completes(&other->a, o, IB_WC_SUCCESS,
			 "Read by the region's own connection"))
		kt_fact(kt_holds(buf, 0, 100, 2), "each byte");
out:
	kt_close(other);
	kt_close(l);
}

/* Reads from b into a region of a's, which the Read withdraws. */
static struct kt_op *kt_read_inv(struct kt_link *l, struct ib_sge *sge, int n,
				 struct kt_mr *src)
{
	struct kt_op *o = kt_op(l);
	struct ib_rdma_wr wr = kt_wr(IB_WR_RDMA_READ_WITH_INV, o, sge, n);

	wr.remote_addr = src->mr->iova;
	wr.rkey = src->mr->rkey;
	if (n)
		wr.wr.ex.invalidate_rkey = sge->lkey;
	kt_equal(kt_post(&l->a, &wr), 0, "Read with Invalidate posted");
	return o;
}

static void kt_read_inv_facts(struct kt_link *l, struct kt_mr *src,
			      struct kt_mr *sink, int access)
{
	/* Part of each of three pages. */
	const u32 len = 2 * PAGE_SIZE + 808;
	struct kt_op *o;
	struct ib_sge sge;

	kt_mr_fill(src, 70);
	kt_mr_fill(sink, 0);
	if (!kt_reg(&l->a, sink, access))
		return;
	sge = (struct ib_sge){ sink->mr->iova + 8, len, sink->mr->lkey };
	o = kt_read_inv(l, &sge, 1, src);
	if (!kt_completes(&l->a, o, IB_WC_SUCCESS, "Read with Invalidate"))
		return;
	kt_equal(o->wc.opcode, IB_WC_RDMA_READ, "its opcode");
	kt_equal(o->wc.byte_len, len, "bytes read");
	kt_fact(kt_mr_holds(sink, 0, 8, 0) &&
		kt_mr_holds(sink, 8, 8 + len, 70 - 8) &&
		kt_mr_holds(sink, 8 + len, 3 * PAGE_SIZE, 0),
		"each byte, and nothing around them");
}

static void kt_reads_inv(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_mr *src, *sink;

	if (!l)
		return;
	src = kt_mr(&l->b, NULL, 3);
	sink = kt_mr(&l->a, NULL, 3);
	if (!src || !sink || !kt_reg(&l->b, src, IB_ACCESS_REMOTE_READ))
		goto out;
	kt_read_inv_facts(l, src, sink, IB_ACCESS_LOCAL_WRITE);
	kt_read_inv_facts(l, src, sink, KT_RW);
	ib_update_fast_reg_key(sink->mr, ib_inc_rkey(sink->mr->rkey));
	kt_read_inv_facts(l, src, sink, KT_RW);
	kt_inv(&l->a, sink->mr->lkey);
out:
	kt_close(l);
}

/* A Read that cannot withdraw its sink is refused before anything is sent. */
static void kt_read_inv_bad(bool any)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_mr *src;
	struct kt_buf *dst;
	struct ib_sge sge;
	struct kt_op *o;

	if (!l)
		return;
	src = kt_mr(&l->b, NULL, 1);
	if (!src || !kt_reg(&l->b, src, IB_ACCESS_REMOTE_READ))
		goto out;
	dst = kt_buf(l, 100);
	sge = kt_sge(&l->a, dst, 0, 100);
	kt_arm(l);
	o = kt_read_inv(l, &sge, any ? 1 : 0, src);
	kt_completes(&l->a, o, IB_WC_LOC_PROT_ERR,
		     any ? "Read with Invalidate into the local_dma_lkey" :
			   "Read with Invalidate into nothing");
	kt_terminated(l, &l->a, KW_TERM_RDMAP_CATASTROPHIC);
	kt_fact(kt_holds(dst, 0, 0, 0), "nothing was placed");
out:
	kt_close(l);
}

static void kt_reads_inv_bad(void)
{
	kt_read_inv_bad(true);
	kt_read_inv_bad(false);
}

const struct kt_case kt_inv_cases[] = {
	{ "inv.send", kt_remote },
	{ "inv.send_bad", kt_remote_bad },
	{ "inv.send_other_pd", kt_remote_other_pd },
	{ "inv.read", kt_reads_inv },
	{ "inv.read_bad", kt_reads_inv_bad },
	{}
};
