// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The end of a connection whose last bytes have not arrived: once the queue
 * pair is drained, what it completed comes no more. The consumer does its work
 * again by another connection, and the old bytes would undo what was done since.
 */
#include <linux/mm.h>

#include "ktest.h"

#define KT_PAGES	4
#define KT_OLD		11
#define KT_NEW		99

static const struct kt_opts kt_usual;

/* It completes, as TCP takes it, but the wire lets nothing of it through. */
static bool kt_write_held(struct kt_link *l, struct kt_mr *m)
{
	struct kt_buf *from = kt_buf(l, KT_PAGES * PAGE_SIZE);
	struct ib_sge sge = kt_sge(&l->a, from, 0, from->len);
	struct kt_op *o = kt_op(l);
	struct ib_rdma_wr wr = kt_rdma(IB_WR_RDMA_WRITE, o, &sge, m->mr->iova,
				       m->mr->rkey);

	kt_fill(from->p, from->len, KT_NEW);
	return kt_equal(kt_stop_begin(l, 0), 0, "the wire stops") &&
	       kt_equal(kt_post(&l->a, &wr), 0, "a Write") &&
	       kt_completes(&l->a, o, IB_WC_SUCCESS, "the Write");
}

/* The stream fails by a Send out of memory of another protection domain. */
static bool kt_fail_here(struct kt_link *l)
{
	struct ib_sge sge = kt_sge(&l->a, kt_buf(l, 10), 0, 10);
	struct kt_op *o = kt_op(l);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, o, &sge, 1);

	sge.lkey = l->b.pd->local_dma_lkey;
	return kt_equal(kt_post(&l->a, &wr), 0, "a Send") &&
	       kt_completes(&l->a, o, IB_WC_LOC_PROT_ERR, "the Send");
}

static void kt_end_held(bool failed)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_mr *m;

	if (!l)
		return;
	m = kt_mr(&l->b, NULL, KT_PAGES);
	if (!m || !kt_reg(&l->b, m, IB_ACCESS_LOCAL_WRITE |
				    IB_ACCESS_REMOTE_WRITE))
		goto close;
	kt_mr_fill(m, KT_OLD);
	if (kt_write_held(l, m) && (!failed || kt_fail_here(l))) {
		kt_drain(&l->a);
		kt_stop_end();
		kt_fact(wait_for_completion_timeout(&l->b.down, KT_TIMEOUT),
			"the peer's connection ends");
		kt_fact(kt_mr_holds(m, 0, KT_PAGES * PAGE_SIZE, KT_OLD),
			"the drained queue pair's Write does not come any more");
	}
	kt_stop_end();
close:
	kt_close(l);
}

static void kt_end_drained(void)
{
	kt_end_held(false);
}

static void kt_end_failed(void)
{
	kt_end_held(true);
}

const struct kt_case kt_end_cases[] = {
	{ "end.drained", kt_end_drained },
	{ "end.failed", kt_end_failed },
	{ }
};
