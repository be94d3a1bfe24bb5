// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Posting from completion handlers: what they post may wait for the next
 * completions, but not for ever, and nothing is lost.
 */
#include "ktest.h"

#define KT_ANSWERS	8

/**
 * struct kt_answer - a receive whose handler posts a Send
 * @cqe: calls the handler
 * @l: the link
 * @send: the answer, at b
 * @recv: where a receives it
 * @fail: the handler moves b to the state Error then
 * @wait: the handler waits until it has arrived
 * @arrived: it has, while the handler waited
 * @ret: what posting returned
 * @done: the handler has returned
 */
struct kt_answer {
	struct ib_cqe cqe;
	struct kt_link *l;
	struct kt_op *send;
	struct kt_op *recv;
	bool fail;
	bool wait;
	bool arrived;
	int ret;
	struct completion done;
};

static void kt_answer_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_answer *a = container_of(wc->wr_cqe, struct kt_answer, cqe);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, a->send, NULL, 0);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	a->ret = wc->status ? -EIO : kt_post(&a->l->b, &wr);
	if (!a->ret && a->fail)
		a->ret = ib_modify_qp(a->l->b.qp, &attr, IB_QP_STATE);
	if (!a->ret && a->wait)
		a->arrived = kt_wait(&a->l->a, a->recv);
	complete(&a->done);
}

static bool kt_answer_init(struct kt_answer *a, struct kt_link *l)
{
	struct ib_recv_wr wr = { .wr_cqe = &a->cqe };

	*a = (struct kt_answer){
		.cqe.done = kt_answer_done,
		.l = l,
		.send = kt_op(l),
		.recv = kt_op(l),
	};
	init_completion(&a->done);
	return kt_equal(kt_recv(&l->a, a->recv, NULL, 0), 0,
			"receive posted at a") &&
	       kt_equal(ib_post_recv(l->b.qp, &wr, NULL), 0,
			"receive posted at b");
}

static bool kt_answered(struct kt_answer *a)
{
	return kt_fact(wait_for_completion_timeout(&a->done, KT_TIMEOUT),
		       "the handler returns") &&
	       kt_equal(a->ret, 0, "it has posted an answer");
}

/* Requests that arrive together, as a storage target's. */
static void kt_answers_of(enum ib_poll_context poll)
{
	struct kt_link *l = kt_open(&(struct kt_opts){ .poll = poll });
	struct kt_answer a[KT_ANSWERS];
	struct ib_rdma_wr wr[KT_ANSWERS];
	struct kt_op *o[KT_ANSWERS];
	int i;

	if (!l)
		return;
	for (i = 0; i < KT_ANSWERS; i++) {
		if (!kt_answer_init(&a[i], l))
			goto close;
		o[i] = kt_op(l);
		wr[i] = kt_wr(IB_WR_SEND, o[i], NULL, 0);
		if (i)
			wr[i - 1].wr.next = &wr[i].wr;
	}
	if (!kt_equal(kt_post(&l->a, wr), 0, "requests posted"))
		goto close;
	for (i = 0; i < KT_ANSWERS; i++) {
		kt_completes(&l->a, o[i], IB_WC_SUCCESS, "request");
		if (!kt_answered(&a[i]))
			break;
		kt_completes(&l->b, a[i].send, IB_WC_SUCCESS, "answer");
		kt_completes(&l->a, a[i].recv, IB_WC_SUCCESS, "receive");
		kt_fact(!i || a[i - 1].recv->order < a[i].recv->order,
			"answers in the order of posting");
	}
close:
	kt_close(l);
}

static void kt_batch_workqueue(void)
{
	kt_answers_of(IB_POLL_WORKQUEUE);
}

static void kt_batch_softirq(void)
{
	kt_answers_of(IB_POLL_SOFTIRQ);
}

static struct kt_link *kt_ask_one(struct kt_answer *a)
{
	struct kt_link *l = kt_open(&(struct kt_opts){
		.poll = IB_POLL_WORKQUEUE });

	if (l && !kt_answer_init(a, l)) {
		kt_close(l);
		l = NULL;
	}
	return l;
}

static void kt_ask(struct kt_link *l)
{
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, kt_op(l), NULL, 0);

	kt_equal(kt_post(&l->a, &wr), 0, "request posted");
}

/* It neither polls again nor arms the queue before the answer has arrived. */
static void kt_batch_waits(void)
{
	struct kt_answer a;
	struct kt_link *l = kt_ask_one(&a);

	if (!l)
		return;
	a.wait = true;
	kt_ask(l);
	if (kt_answered(&a))
		kt_fact(a.arrived, "it has arrived while the handler waits");
	kt_close(l);
}

/* Posted before the state changes, not transmitted yet: it completes. */
static void kt_batch_error(void)
{
	struct kt_answer a;
	struct kt_link *l = kt_ask_one(&a);

	if (!l)
		return;
	a.fail = true;
	kt_ask(l);
	if (kt_answered(&a))
		kt_fact(kt_wait(&l->b, a.send), "the answer completes");
	kt_close(l);
}

const struct kt_case kt_batch_cases[] = {
	{ "batch.workqueue", kt_batch_workqueue },
	{ "batch.softirq", kt_batch_softirq },
	{ "batch.waits", kt_batch_waits },
	{ "batch.error", kt_batch_error },
	{}
};
