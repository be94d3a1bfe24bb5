// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Shared receive queues: limits, errors, events, resizing, and what is left
 * when a queue pair ends.
 */
#include <linux/kernel.h>

#include "ktest.h"

#define KT_ENTRIES	16

static const struct kt_opts kt_shared = { .srq = KT_ENTRIES };
static const struct kt_opts kt_shared_polled = {
	.srq = KT_ENTRIES,
	.poll = IB_POLL_DIRECT,
};

static int kt_srq_recv(struct kt_end *e, struct kt_op *o, struct ib_sge *sge,
		       int n)
{
	const struct ib_recv_wr *bad = NULL;
	struct ib_recv_wr wr = {
		.wr_cqe = &o->cqe,
		.sg_list = sge,
		.num_sge = n,
	};
	int ret = ib_post_srq_recv(e->srq, &wr, &bad);

	kt_fact(!ret || bad == &wr, "which receive was refused");
	return ret;
}

static int kt_srq_modify(struct ib_srq *srq, int mask, u32 max_wr, u32 limit)
{
	struct ib_srq_attr attr = { .max_wr = max_wr, .srq_limit = limit };

	return ib_modify_srq(srq, &attr, mask);
}

static struct ib_srq_attr kt_srq_attr(struct ib_srq *srq)
{
	struct ib_srq_attr attr = {};

	kt_equal(ib_query_srq(srq, &attr), 0, "query");
	return attr;
}

static void kt_srq_refused(struct ib_pd *pd, u32 max_wr, u32 max_sge,
			   const char *what)
{
	struct ib_srq_init_attr attr = {
		.attr.max_wr = max_wr,
		.attr.max_sge = max_sge,
	};
	struct ib_srq *srq = ib_create_srq(pd, &attr);

	if (!kt_equal(PTR_ERR_OR_ZERO(srq), -EINVAL, "%s", what) && !IS_ERR(srq))
		ib_destroy_srq(srq);
}

static void kt_srq_limits(void)
{
	struct kt_link *l = kt_open(&kt_shared);
	struct ib_qp_init_attr qp_attr = {
		.cap.max_send_wr = 4,
		.cap.max_send_sge = 1,
		.qp_type = IB_QPT_RC,
	};
	const struct ib_device_attr *max;
	const struct ib_recv_wr *bad;
	struct ib_recv_wr wr = {};
	struct ib_srq_attr attr;
	struct ib_sge sge[5] = {};
	struct ib_qp *qp;
	int i;

	if (!l)
		return;
	max = &l->b.id->device->attrs;
	kt_fact(max->max_srq && max->max_srq_wr && max->max_srq_sge,
		"the device has some");
	kt_fact(max->device_cap_flags & IB_DEVICE_SRQ_RESIZE, "of any size");
	kt_srq_refused(l->b.pd, 0, 1, "a queue without entries");
	kt_srq_refused(l->b.pd, max->max_srq_wr + 1, 1, "too many entries");
	kt_srq_refused(l->b.pd, 1, max->max_srq_sge + 1, "too many SGEs");
	attr = kt_srq_attr(l->b.srq);
	kt_equal(attr.max_wr, KT_ENTRIES, "entries");
	kt_equal(attr.max_sge, l->opts.sge, "SGEs");
	kt_equal(attr.srq_limit, 0, "limit");

	qp_attr.send_cq = l->a.scq;
	qp_attr.recv_cq = l->a.rcq;
	qp_attr.srq = l->b.srq;
	qp = ib_create_qp(l->a.pd, &qp_attr);
	kt_equal(PTR_ERR_OR_ZERO(qp), -EINVAL,
		 "a queue pair of another protection domain");

	qp_attr.cap.max_recv_wr = max->max_qp_wr + 1;
	qp_attr.cap.max_recv_sge = max->max_recv_sge + 1;
	qp = ib_create_qp(l->b.pd, &qp_attr);
	if (kt_fact(!IS_ERR(qp), "what a receive queue of its own had to have is ignored"))
		ib_destroy_qp(qp);

	kt_equal(ib_post_recv(l->b.qp, &wr, &bad), -EINVAL,
		 "a receive posted to the queue pair");
	kt_equal(kt_srq_recv(&l->b, kt_op(l), sge, 5), -EINVAL, "too many SGEs");
	for (i = 0; i < KT_ENTRIES; i++)
		kt_equal(kt_srq_recv(&l->b, kt_op(l), NULL, 0), 0, "a receive");
	kt_equal(kt_srq_recv(&l->b, kt_op(l), NULL, 0), -ENOMEM,
		 "a receive too many");
	kt_equal(ib_destroy_srq_user(l->b.srq, NULL), -EBUSY,
		 "destroyed while a queue pair uses it");
	kt_close(l);
}

/* Data arrives in the buffers in the order of posting. */
static void kt_srq_data(void)
{
	struct kt_link *l = kt_open(&kt_shared);
	struct kt_op *o, *r[4];
	struct kt_buf *from, *to[4];
	struct ib_rdma_wr wr;
	struct ib_sge sge;
	int i;

	if (!l)
		return;
	from = kt_buf(l, 70000);
	for (i = 0; i < 4; i++) {
		r[i] = kt_op(l);
		to[i] = kt_buf(l, 70000);
		sge = kt_sge(&l->b, to[i], 0, 70000);
		kt_equal(kt_srq_recv(&l->b, r[i], &sge, 1), 0, "a receive");
	}
	for (i = 0; i < 4; i++) {
		u32 len = i ? 1000 * i : 65000;

		kt_fill(from->p, len, i);
		o = kt_op(l);
		sge = kt_sge(&l->a, from, 0, len);
		wr = kt_wr(IB_WR_SEND, o, &sge, 1);
		kt_equal(kt_post(&l->a, &wr), 0, "a Send");
		kt_completes(&l->a, o, IB_WC_SUCCESS, "Send");
		if (!kt_completes(&l->b, r[i], IB_WC_SUCCESS, "receive"))
			continue;
		kt_equal(r[i]->wc.byte_len, len, "length");
		kt_fact(r[i]->wc.qp == l->b.qp, "queue pair");
		kt_fact(kt_holds(to[i], 0, len, i), "every byte");
	}
	kt_close(l);
}

static void kt_srq_send(struct kt_link *l, struct kt_op *r)
{
	struct kt_op *o = kt_op(l);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, o, NULL, 0);

	kt_equal(kt_post(&l->a, &wr), 0, "a Send");
	kt_completes(&l->b, r, IB_WC_SUCCESS, "receive");
}

/* The event is raised below the limit, once, and then disarmed. */
static void kt_srq_limit(void)
{
	struct kt_link *l = kt_open(&kt_shared);
	struct kt_op *r[6];
	atomic_t *events;
	int i;

	if (!l)
		return;
	events = &l->b.events[IB_EVENT_SRQ_LIMIT_REACHED];
	for (i = 0; i < 6; i++) {
		r[i] = kt_op(l);
		kt_equal(kt_srq_recv(&l->b, r[i], NULL, 0), 0, "a receive");
	}
	kt_equal(kt_srq_modify(l->b.srq, IB_SRQ_LIMIT, 0, KT_ENTRIES + 1),
		 -EINVAL, "a limit over the size");
	kt_equal(kt_srq_modify(l->b.srq, IB_SRQ_LIMIT, 0, 5), 0, "arm");
	kt_equal(kt_srq_attr(l->b.srq).srq_limit, 5, "limit");
	kt_srq_send(l, r[0]);
	kt_equal(kt_srq_attr(l->b.srq).srq_limit, 5, "limit");
	kt_equal(atomic_read(events), 0, "no event at the limit");
	kt_srq_send(l, r[1]);
	kt_fact(kt_wait_event(&l->b, IB_EVENT_SRQ_LIMIT_REACHED), "event");
	kt_equal(kt_srq_attr(l->b.srq).srq_limit, 0, "limit afterwards");
	kt_srq_send(l, r[2]);
	kt_equal(atomic_read(events), 1, "one event");

	kt_equal(kt_srq_modify(l->b.srq, IB_SRQ_LIMIT, 0, 2), 0, "arm");
	kt_equal(kt_srq_modify(l->b.srq, IB_SRQ_LIMIT, 0, 0), 0, "disarm");
	kt_srq_send(l, r[3]);
	kt_srq_send(l, r[4]);
	kt_equal(atomic_read(events), 1, "no event without a limit");
	atomic_set(events, 0);
	kt_equal(kt_srq_modify(l->b.srq, IB_SRQ_LIMIT, 0, 2), 0, "arm");
	kt_fact(kt_wait_event(&l->b, IB_EVENT_SRQ_LIMIT_REACHED),
		"event, below the limit already");
	kt_close(l);
}

/* What is posted moves with the queue, and stays in its order. */
static void kt_srq_resize(void)
{
	static const u32 sizes[] = { 4 * KT_ENTRIES, 4, 4096, 8 };
	struct kt_link *l = kt_open(&kt_shared);
	struct kt_op *r[8 * ARRAY_SIZE(sizes)];
	u32 posted = 0, done = 0;
	struct ib_srq *srq;
	int i, j;

	if (!l)
		return;
	srq = l->b.srq;
	kt_equal(kt_srq_modify(srq, IB_SRQ_MAX_WR, 0, 0), -EINVAL, "to nothing");
	kt_equal(kt_srq_modify(srq, IB_SRQ_MAX_WR,
			       l->b.id->device->attrs.max_srq_wr + 1, 0),
		 -EINVAL, "over the limit");
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		while (posted - done < 4) {
			r[posted] = kt_op(l);
			kt_equal(kt_srq_recv(&l->b, r[posted++], NULL, 0), 0,
				 "a receive");
		}
		kt_equal(kt_srq_modify(srq, IB_SRQ_MAX_WR, 3, 0), 0,
			 "to what is posted");
		kt_equal(kt_srq_modify(srq, IB_SRQ_MAX_WR, 2, 0), -EINVAL,
			 "to less than is posted");
		kt_equal(kt_srq_modify(srq, IB_SRQ_MAX_WR | IB_SRQ_LIMIT,
				       sizes[i], sizes[i] + 1), -EINVAL,
			 "with a limit over the new size");
		kt_equal(kt_srq_modify(srq, IB_SRQ_MAX_WR, sizes[i], 0), 0,
			 "to %u", sizes[i]);
		kt_equal(kt_srq_attr(srq).max_wr, sizes[i], "entries");
		for (j = 0; j < 3; j++)
			kt_srq_send(l, r[done++]);
	}
	kt_close(l);
}

/*
 * Without an entry the peer gets a Terminate. What is posted after that stays,
 * and the last event of the queue pair comes once.
 */
static void kt_srq_empty(void)
{
	struct kt_link *l = kt_open(&kt_shared);
	struct kt_op *o, *r, *arm;
	struct ib_rdma_wr wr;

	if (!l)
		return;
	o = kt_op(l);
	arm = kt_op(l);
	r = kt_op(l);
	kt_equal(kt_recv(&l->a, arm, NULL, 0), 0, "receive posted at a");
	wr = kt_wr(IB_WR_SEND, o, NULL, 0);
	kt_equal(kt_post(&l->a, &wr), 0, "a Send");
	if (kt_completes(&l->a, arm, IB_WC_WR_FLUSH_ERR, "receive at a"))
		kt_equal(arm->wc.vendor_err, KIWARP_TERM_RECEIVED |
			 KW_TERM_DDP_UNTAGGED_NO_BUFFER, "Terminate at a");
	kt_fact(kt_wait_event(&l->b, IB_EVENT_QP_LAST_WQE_REACHED),
		"last WQE reached");
	kt_fact(kt_wait_down(l), "both ends are told");
	kt_equal(kt_srq_recv(&l->b, r, NULL, 0), 0, "a receive");
	kt_equal(kt_state(&l->b), IB_QPS_ERR, "state of b");
	kt_fact(!completion_done(&r->done), "it stays for others");
	kt_equal(atomic_read(&l->b.events[IB_EVENT_QP_LAST_WQE_REACHED]), 1,
		 "last WQE reached, once");
	kt_close(l);
}

/* A message that does not fit: its entry completes with the error, no other. */
static void kt_srq_too_long(void)
{
	struct kt_link *l = kt_open(&kt_shared);
	struct kt_op *o, *r[2];
	struct kt_buf *from, *to;
	struct ib_rdma_wr wr;
	struct ib_sge sge;
	int i;

	if (!l)
		return;
	from = kt_buf(l, 200);
	to = kt_buf(l, 100);
	for (i = 0; i < 2; i++) {
		r[i] = kt_op(l);
		sge = kt_sge(&l->b, to, 0, 100);
		kt_equal(kt_srq_recv(&l->b, r[i], &sge, 1), 0, "a receive");
	}
	o = kt_op(l);
	sge = kt_sge(&l->a, from, 0, 200);
	wr = kt_wr(IB_WR_SEND, o, &sge, 1);
	kt_equal(kt_post(&l->a, &wr), 0, "a Send");
	kt_completes(&l->b, r[0], IB_WC_LOC_LEN_ERR, "receive");
	kt_fact(kt_wait_event(&l->b, IB_EVENT_QP_LAST_WQE_REACHED),
		"last WQE reached");
	kt_fact(kt_wait_down(l), "both ends are told");
	kt_fact(!completion_done(&r[1]->done), "the next entry stays");
	kt_close(l);
}

/*
 * The core's drain of such a queue pair waits for its last event, for a minute
 * at most and in silence: what is to be shown is that the event came, and that
 * all the queue pair had taken was complete when the drain returned.
 */
static void kt_srq_drained(struct kt_link *l)
{
	kt_drain(&l->b);
	kt_fact(kt_wait_event(&l->b, IB_EVENT_QP_LAST_WQE_REACHED),
		"last WQE reached");
	kt_equal(kt_state(&l->b), IB_QPS_ERR, "state of b");
	kt_fact(kt_wait_down(l), "both ends are told");
	kt_equal(atomic_read(&l->b.events[IB_EVENT_QP_LAST_WQE_REACHED]), 1,
		 "last WQE reached, once");
}

/* Nothing is open; what is posted, if anything is, stays for others. */
static void kt_srq_drain(void)
{
	struct kt_link *l;
	struct kt_op *r;
	int posted;

	for (posted = 0; posted < 2; posted++) {
		l = kt_open(&kt_shared);
		if (!l)
			return;
		r = kt_op(l);
		if (posted)
			kt_equal(kt_srq_recv(&l->b, r, NULL, 0), 0, "a receive");
		kt_srq_drained(l);
		kt_fact(!completion_done(&r->done), "what is posted stays");
		kt_close(l);
	}
}

/* Of a message a part has come: the limit's event says so. */
static bool kt_srq_begin(struct kt_link *l, const struct kt_buf *from)
{
	struct ib_sge sge = kt_sge(&l->a, from, 0, from->len);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, kt_op(l), &sge, 1);

	return kt_equal(kt_srq_modify(l->b.srq, IB_SRQ_LIMIT, 0, 2), 0, "arm") &&
	       kt_equal(kt_stop_begin(l, 1), 0, "the wire stops") &&
	       kt_equal(kt_post(&l->a, &wr), 0, "a Send") &&
	       kt_fact(kt_wait_event(&l->b, IB_EVENT_SRQ_LIMIT_REACHED),
		       "a receive is open");
}

/*
 * The receive that is open is flushed, and then the drain returns. Nobody else
 * polls.
 */
static void kt_srq_drain_open(void)
{
	struct kt_link *l = kt_open(&kt_shared_polled);
	struct kt_buf *from, *to;
	struct kt_op *r[2];
	struct ib_sge sge;
	int i;

	if (!l)
		return;
	from = kt_buf(l, 300000);
	to = kt_buf(l, 300000);
	for (i = 0; i < 2; i++) {
		r[i] = kt_op(l);
		sge = kt_sge(&l->b, to, 0, 300000);
		kt_equal(kt_srq_recv(&l->b, r[i], &sge, 1), 0, "a receive");
	}
	if (kt_srq_begin(l, from)) {
		kt_fact(!completion_done(&r[0]->done), "it is not complete");
		kt_srq_drained(l);
		if (kt_fact(completion_done(&r[0]->done),
			    "it is, when the drain returns"))
			kt_equal(r[0]->wc.status, IB_WC_WR_FLUSH_ERR, "flushed");
		kt_fact(!completion_done(&r[1]->done), "the next entry stays");
	}
	kt_stop_end();
	kt_close(l);
}

const struct kt_case kt_srq_cases[] = {
	{ "srq.limits", kt_srq_limits },
	{ "srq.data", kt_srq_data },
	{ "srq.limit", kt_srq_limit },
	{ "srq.resize", kt_srq_resize },
	{ "srq.empty", kt_srq_empty },
	{ "srq.too_long", kt_srq_too_long },
	{ "srq.drain", kt_srq_drain },
	{ "srq.drain_open", kt_srq_drain_open },
	{}
};
