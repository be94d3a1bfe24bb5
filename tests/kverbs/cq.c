// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Completion queues: contexts of polling, arming, handlers, overflow.
 */
#include <linux/kernel.h>
#include <linux/sched.h>

#include "ktest.h"
#include "versions.h"

static const enum ib_cq_notify_flags kt_next =
	IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS;

static const struct {
	enum ib_poll_context poll;
	u32 seen;
	const char *name;
} kt_polls[] = {
	{ IB_POLL_DIRECT, KT_SEEN_TASK, "IB_POLL_DIRECT" },
	{ IB_POLL_SOFTIRQ, KT_SEEN_SOFTIRQ, "IB_POLL_SOFTIRQ" },
	{ IB_POLL_WORKQUEUE, KT_SEEN_TASK, "IB_POLL_WORKQUEUE" },
	{ IB_POLL_UNBOUND_WORKQUEUE, KT_SEEN_TASK,
	  "IB_POLL_UNBOUND_WORKQUEUE" },
};

/* One Send from a to b, with these flags. b's side is checked if asked for. */
static struct kt_op *kt_one_send(struct kt_link *l, int flags)
{
	struct kt_op *o = kt_op(l), *r = kt_op(l);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, o, NULL, 0);

	wr.wr.send_flags |= flags;
	kt_equal(kt_recv(&l->b, r, NULL, 0), 0, "receive posted");
	kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
	return r;
}

static void kt_contexts(void)
{
	struct kt_link *l;
	struct kt_op *r;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(kt_polls); i++) {
		l = kt_open(&(struct kt_opts){ .poll = kt_polls[i].poll });
		for (j = 0; l && j < 40; j++) {
			r = kt_one_send(l, 0);
			if (!kt_completes(&l->b, r, IB_WC_SUCCESS,
					  kt_polls[i].name))
				break;
			if (r->seen != kt_polls[i].seen)
				break;
		}
		kt_equal(j, 40, "%s, each completion in its context",
			 kt_polls[i].name);
		kt_close(l);
	}
}

/**
 * struct kt_watch - calls of a completion handler
 * @calls: how many
 * @running: of them under way
 * @twice: one began before another had ended
 * @poster: the task that posts at this moment, with softirqs off
 * @nested: one was called by the poster
 * @called: one was called
 */
static struct kt_watch {
	atomic_t calls;
	atomic_t running;
	atomic_t twice;
	struct task_struct *poster;
	atomic_t nested;
	struct completion called;
} kt_watch;

static void kt_watch_init(void)
{
	kt_watch = (struct kt_watch){};
	init_completion(&kt_watch.called);
}

static void kt_handler(struct ib_cq *cq, void *ctx)
{
	if (atomic_inc_return(&kt_watch.running) > 1)
		atomic_inc(&kt_watch.twice);
	if (READ_ONCE(kt_watch.poster) == current && !in_hardirq())
		atomic_inc(&kt_watch.nested);
	atomic_inc(&kt_watch.calls);
	atomic_dec(&kt_watch.running);
	complete(&kt_watch.called);
}

static bool kt_called(void)
{
	return wait_for_completion_timeout(&kt_watch.called, KT_TIMEOUT);
}

static void kt_arming_facts(struct kt_link *l)
{
	struct ib_cq *cq = l->b.rcq;
	struct kt_op *r;

	kt_equal(ib_req_notify_cq(cq, kt_next), 0, "armed, nothing missed");
	r = kt_one_send(l, 0);
	kt_fact(kt_called(), "the handler is called");
	kt_equal(ib_req_notify_cq(cq, kt_next), 1,
		 "armed with a completion in the queue: missed");
	kt_equal(ib_req_notify_cq(cq, IB_CQ_NEXT_COMP), 0,
		 "the same when not asked for what was missed");
	kt_completes(&l->b, r, IB_WC_SUCCESS, "receive");
	kt_equal(ib_req_notify_cq(cq, kt_next), 0, "armed, nothing missed");
	kt_completes(&l->b, kt_one_send(l, 0), IB_WC_SUCCESS, "receive");
	kt_fact(kt_called(), "the handler is called");
	/* Not armed: these three raise no event. */
	kt_completes(&l->b, kt_one_send(l, 0), IB_WC_SUCCESS, "receive");
	kt_completes(&l->b, kt_one_send(l, IB_SEND_SOLICITED), IB_WC_SUCCESS,
		     "receive");
	kt_equal(ib_req_notify_cq(cq, IB_CQ_SOLICITED), 0,
		 "armed for solicited ones");
	kt_completes(&l->b, kt_one_send(l, 0), IB_WC_SUCCESS, "receive");
	kt_completes(&l->b, kt_one_send(l, 0), IB_WC_SUCCESS, "receive");
	kt_equal(atomic_read(&kt_watch.calls), 2, "calls up to now");
	kt_one_send(l, IB_SEND_SOLICITED);
	kt_fact(kt_called(), "a solicited one: the handler is called");
	kt_equal(ib_req_notify_cq(cq, IB_CQ_SOLICITED), 0,
		 "armed for solicited ones");
	kt_drain(&l->b);
	kt_fact(kt_called(), "one in error: the handler is called");
	kt_equal(atomic_read(&kt_watch.calls), 4, "calls in all");
}

static void kt_arming(void)
{
	struct kt_link *l;

	kt_watch_init();
	l = kt_open(&(struct kt_opts){ .handler = kt_handler });
	if (!l)
		return;
	kt_arming_facts(l);
	kt_close(l);
}

/* Receives complete at b; the handler is called for every third. */
static void kt_moderation_facts(struct kt_link *l)
{
	struct ib_cq *cq = l->b.rcq;
	int i;

	kt_equal(rdma_set_cq_moderation(cq, 3, 0), 0, "three to a call");
	kt_equal(ib_req_notify_cq(cq, kt_next), 0, "armed, nothing missed");
	for (i = 0; i < 2; i++)
		kt_completes(&l->b, kt_one_send(l, 0), IB_WC_SUCCESS,
			     "receive");
	kt_equal(atomic_read(&kt_watch.calls), 0, "calls after two");
	kt_completes(&l->b, kt_one_send(l, 0), IB_WC_SUCCESS, "receive");
	kt_fact(kt_called(), "the handler is called for the third");

	kt_equal(rdma_set_cq_moderation(cq, 3, 1000), 0,
		 "three to a call, or 1 ms");
	kt_equal(ib_req_notify_cq(cq, kt_next), 0, "armed, nothing missed");
	kt_completes(&l->b, kt_one_send(l, 0), IB_WC_SUCCESS, "receive");
	kt_fact(kt_called(), "the handler is called after the time");

	kt_equal(rdma_set_cq_moderation(cq, 3, 0), 0, "three to a call");
	kt_equal(ib_req_notify_cq(cq, kt_next), 0, "armed, nothing missed");
	kt_completes(&l->b, kt_one_send(l, 0), IB_WC_SUCCESS, "receive");
	kt_equal(rdma_set_cq_moderation(cq, 0, 0), 0, "no moderation");
	kt_fact(kt_called(), "the handler is called for what was held back");
	kt_equal(atomic_read(&kt_watch.calls), 3, "calls in all");
}

static void kt_moderation(void)
{
	struct kt_link *l;

	kt_watch_init();
	l = kt_open(&(struct kt_opts){ .handler = kt_handler });
	if (!l)
		return;
	kt_moderation_facts(l);
	kt_close(l);
}

/*
 * Documentation/infiniband/core_locking.rst: a post calls no handler, since the
 * caller may hold the lock that the handler takes.
 */
static void kt_nesting_facts(struct kt_link *l)
{
	struct kt_op *o, *r;
	struct ib_rdma_wr wr;
	int i, calls = 0;

	for (i = 0; i < 50; i++) {
		o = kt_op(l);
		r = kt_op(l);
		wr = kt_wr(IB_WR_SEND, o, NULL, 0);
		if (kt_recv(&l->b, r, NULL, 0))
			break;
		ib_req_notify_cq(l->a.scq, IB_CQ_NEXT_COMP);
		local_bh_disable();
		WRITE_ONCE(kt_watch.poster, current);
		if (kt_post(&l->a, &wr))
			i = 1000;
		WRITE_ONCE(kt_watch.poster, NULL);
		local_bh_enable();
		calls += kt_called();
		if (!kt_wait(&l->a, o) || !kt_wait(&l->b, r))
			break;
	}
	kt_equal(i, 50, "Sends");
	kt_equal(calls, 50, "the handler is called for each");
	kt_equal(atomic_read(&kt_watch.nested), 0,
		 "calls from inside post_send");

	/* The same for work that is flushed as it is posted. */
	kt_drain(&l->a);
	kt_watch_init();
	o = kt_op(l);
	r = kt_op(l);
	wr = kt_wr(IB_WR_SEND, o, NULL, 0);
	ib_req_notify_cq(l->a.scq, IB_CQ_NEXT_COMP);
	ib_req_notify_cq(l->a.rcq, IB_CQ_NEXT_COMP);
	local_bh_disable();
	WRITE_ONCE(kt_watch.poster, current);
	i = kt_post(&l->a, &wr) ?: kt_recv(&l->a, r, NULL, 0);
	WRITE_ONCE(kt_watch.poster, NULL);
	local_bh_enable();
	kt_equal(i, 0, "posted in ERR");
	kt_fact(kt_called() && kt_called(), "the handler is called for both");
	kt_equal(atomic_read(&kt_watch.nested), 0,
		 "calls from inside post_send and post_recv");
	kt_completes(&l->a, o, IB_WC_WR_FLUSH_ERR, "Send");
	kt_completes(&l->a, r, IB_WC_WR_FLUSH_ERR, "receive");
}

static void kt_nesting(void)
{
	struct kt_link *l;

	kt_watch_init();
	l = kt_open(&(struct kt_opts){ .handler = kt_handler });
	if (!l)
		return;
	kt_nesting_facts(l);
	kt_close(l);
}

/* A handler of a kind that polls and posts itself, as krping's does. */
static struct kt_echo {
	struct kt_link *l;
	struct kt_op *ping[200];
	struct kt_op *pong[200];
	atomic_t running, twice, left;
	enum ib_wc_status want;
	int ret;
	struct completion done;
} kt_echo;

static void kt_echo_next(int i)
{
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, kt_echo.ping[i], NULL, 0);

	kt_echo.ret = kt_echo.ret ?: kt_post(&kt_echo.l->a, &wr);
}

static void kt_echo_handler(struct ib_cq *cq, void *ctx)
{
	struct kt_end *e = ctx;
	struct ib_wc wc;
	int left;

	if (cq != e->scq || e != &e->link->a)
		return;
	if (atomic_inc_return(&kt_echo.running) > 1)
		atomic_inc(&kt_echo.twice);
	/* First, so that each entry which comes from here on makes a call. */
	ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
	while (ib_poll_cq(cq, 1, &wc) == 1) {
		if (wc.status != kt_echo.want || !atomic_read(&kt_echo.left)) {
			wc.wr_cqe->done(cq, &wc);
			continue;
		}
		left = atomic_dec_return(&kt_echo.left);
		if (left > 0)
			kt_echo_next(left);
		else
			complete(&kt_echo.done);
	}
	atomic_dec(&kt_echo.running);
}

/* @n Sends, each posted by the handler of the one before. */
static void kt_echo_run(int n, enum ib_wc_status want, const char *what)
{
	kt_echo.want = want;
	reinit_completion(&kt_echo.done);
	atomic_set(&kt_echo.left, n);
	ib_req_notify_cq(kt_echo.l->a.scq, IB_CQ_NEXT_COMP);
	kt_echo_next(0);
	kt_fact(wait_for_completion_timeout(&kt_echo.done, KT_TIMEOUT),
		"%d Sends, each posted by the handler of the one before%s", n,
		what);
	kt_equal(kt_echo.ret, 0, "all were posted%s", what);
	kt_equal(atomic_read(&kt_echo.twice), 0,
		 "calls while the handler was running%s", what);
}

static void kt_echoes(void)
{
	struct kt_opts opts = { .handler = kt_echo_handler, .recv_wr = 256 };
	struct kt_link *l;
	int i, bad = 0;

	memset(&kt_echo, 0, sizeof(kt_echo));
	init_completion(&kt_echo.done);
	l = kt_open(&opts);
	if (!l)
		return;
	kt_echo.l = l;
	for (i = 0; i < ARRAY_SIZE(kt_echo.ping); i++) {
		kt_echo.ping[i] = kt_op(l);
		kt_echo.pong[i] = kt_op(l);
		bad += !!kt_recv(&l->b, kt_echo.pong[i], NULL, 0);
	}
	kt_equal(bad, 0, "receives posted");
	kt_echo_run(ARRAY_SIZE(kt_echo.ping), IB_WC_SUCCESS, "");
	/* What is flushed as it is posted has its entry before post returns. */
	kt_drain(&l->a);
	kt_echo_run(20, IB_WC_WR_FLUSH_ERR, ", in ERR");
	kt_close(l);
}

/* Nothing that it did would complete. */
static void kt_dead_refused(struct kt_link *l, struct ib_cq *scq, struct ib_cq *rcq,
			    const char *what)
{
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = 1,
		.cap.max_recv_wr = 1,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.qp_type = IB_QPT_RC,
		.send_cq = scq,
		.recv_cq = rcq,
	};
	struct ib_qp *qp = ib_create_qp(l->b.pd, &attr);

	if (!kt_equal(PTR_ERR_OR_ZERO(qp), -EINVAL, "a dead queue gets no new queue pair, as %s",
		      what) && !IS_ERR(qp))
		ib_destroy_qp(qp);
}

/* More completions than the queue holds. */
static void kt_overflow_facts(struct kt_link *l)
{
	int i, entries = l->b.rcq->cqe;
	struct ib_rdma_wr wr;
	struct kt_op *o;

	for (i = 0; i <= entries; i++) {
		o = kt_op(l);
		wr = kt_wr(IB_WR_SEND, o, NULL, 0);
		kt_equal(kt_recv(&l->b, kt_op(l), NULL, 0), 0,
			 "receive posted");
		kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
		kt_completes(&l->a, o, IB_WC_SUCCESS, "Send");
	}
	kt_fact(kt_wait_event(&l->b, IB_EVENT_CQ_ERR), "the event CQ_ERR");
	kt_fact(kt_wait_event(&l->b, IB_EVENT_QP_FATAL), "the event QP_FATAL");
	kt_fact(kt_wait_down(l), "both ends are told");
	kt_equal(kt_state(&l->b), IB_QPS_ERR, "state of b");
	kt_equal(atomic_read(&l->b.events[IB_EVENT_CQ_ERR]), 1,
		 "events CQ_ERR");
	kt_dead_refused(l, l->b.rcq, l->b.scq, "its sender");
	kt_dead_refused(l, l->b.scq, l->b.rcq, "its receiver");
}

static void kt_drop(struct ib_cq *cq, void *ctx)
{
}

static void kt_free_raw(struct kt_link *l)
{
	struct ib_wc wc;

	/* Its queue is dead: a drain would wait for ever. */
	rdma_disconnect(l->b.id);
	kt_equal(ib_poll_cq(l->b.rcq, 1, &wc), 1, "an entry is polled");
	kt_fact(wc.qp == l->b.qp, "it is of b");
	rdma_destroy_qp(l->b.id);
	l->b.qp = NULL;
	kt_equal(ib_poll_cq(l->b.rcq, 1, &wc), 0,
		 "entries after their queue pair was destroyed");
	kt_close(l);
}

static void kt_overflow(void)
{
	struct kt_link *l = kt_open(&(struct kt_opts){
		.handler = kt_drop, .cqe = 8 });

	if (!l)
		return;
	kt_equal(l->b.rcq->cqe, 8, "entries of the queue");
	kt_overflow_facts(l);
	kt_free_raw(l);
}

/* Valid and invalid numbers of entries. */
static void kt_sizes(void)
{
	struct rdma_cm_id *id = kt_bound_id();
	struct ib_cq_init_attr attr = {};
	struct ib_cq *cq;

	if (!kt_fact(!IS_ERR(id), "an id with a device"))
		return;
#ifdef KT_EMPTY_CQ
	cq = ib_create_cq(id->device, kt_drop, NULL, NULL, &attr);
	kt_equal(PTR_ERR_OR_ZERO(cq), -EINVAL, "a queue of no entries");
#endif
	attr.cqe = id->device->attrs.max_cqe + 1;
	cq = ib_create_cq(id->device, kt_drop, NULL, NULL, &attr);
	kt_equal(PTR_ERR_OR_ZERO(cq), -EINVAL, "one entry more than the limit");
	attr.cqe = 5;
	attr.flags = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	cq = ib_create_cq(id->device, kt_drop, NULL, NULL, &attr);
	kt_equal(PTR_ERR_OR_ZERO(cq), -EOPNOTSUPP, "timestamps");
	attr.flags = 0;
	cq = ib_create_cq(id->device, kt_drop, NULL, NULL, &attr);
	if (kt_fact(!IS_ERR(cq), "a queue of 5 entries")) {
		kt_fact(cq->cqe >= 5, "it has %d", cq->cqe);
#ifdef KT_RESIZE_CQ
		kt_equal(ib_resize_cq(cq, 10), -EOPNOTSUPP, "resizing it");
#endif
		ib_destroy_cq(cq);
	}
	rdma_destroy_id(id);
}

const struct kt_case kt_cq_cases[] = {
	{ "cq.context", kt_contexts },
	{ "cq.arm", kt_arming },
	{ "cq.moderation", kt_moderation },
	{ "cq.nesting", kt_nesting },
	{ "cq.echo", kt_echoes },
	{ "cq.overflow", kt_overflow },
	{ "cq.sizes", kt_sizes },
	{}
};
