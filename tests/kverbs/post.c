// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The queues: lists, signalling, full queues, states, drain.
 */
#include <linux/kernel.h>

#include "ktest.h"

#define KT_DEPTH	16

static const struct kt_opts kt_usual;

static int kt_post_bad(struct kt_end *e, struct ib_rdma_wr *wr,
		       const struct ib_send_wr **bad)
{
	return ib_post_send(e->qp, &wr->wr, bad);
}

/* The third of a list is invalid: those before are posted, those after not. */
static void kt_list(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct ib_rdma_wr wr[5];
	const struct ib_send_wr *bad = NULL;
	struct kt_op *o[5], *r[5];
	struct ib_sge sge[5] = {};
	int i;

	if (!l)
		return;
	for (i = 0; i < 5; i++) {
		o[i] = kt_op(l);
		r[i] = kt_op(l);
		kt_equal(kt_recv(&l->b, r[i], NULL, 0), 0, "receive posted");
		wr[i] = kt_wr(IB_WR_SEND, o[i], NULL, 0);
		wr[i].wr.next = i < 4 ? &wr[i + 1].wr : NULL;
	}
	wr[2].wr.sg_list = sge;
	wr[2].wr.num_sge = 5;
	kt_equal(kt_post_bad(&l->a, wr, &bad), -EINVAL, "more SGEs than agreed");
	kt_fact(bad == &wr[2].wr, "which work request that is");
	wr[2].wr.num_sge = 0;
	bad = NULL;
	kt_equal(kt_post_bad(&l->a, &wr[2], &bad), 0, "the rest posted");
	for (i = 0; i < 5; i++) {
		kt_completes(&l->a, o[i], IB_WC_SUCCESS, "Send");
		kt_completes(&l->b, r[i], IB_WC_SUCCESS, "receive");
		kt_fact(!i || o[i - 1]->order < o[i]->order,
			"in the order of posting");
	}
	kt_close(l);
}

static void kt_recv_list(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	const struct ib_recv_wr *bad = NULL;
	struct ib_sge sge[5] = {};
	struct ib_recv_wr wr[3];
	struct kt_op *r[3];
	int i;

	if (!l)
		return;
	for (i = 0; i < 3; i++) {
		r[i] = kt_op(l);
		wr[i] = (struct ib_recv_wr){
			.wr_cqe = &r[i]->cqe,
			.next = i < 2 ? &wr[i + 1] : NULL,
		};
	}
	wr[1].sg_list = sge;
	wr[1].num_sge = 5;
	kt_equal(ib_post_recv(l->b.qp, wr, &bad), -EINVAL,
		 "more SGEs than agreed");
	kt_fact(bad == &wr[1], "which work request that is");
	kt_close(l);
}

/* Work requests that can be posted, and those that cannot, with the errno. */
static void kt_opcodes(void)
{
	/* Those of RFC 7306 are the device's settings, which are off. */
	static const struct {
		enum ib_wr_opcode op;
		const char *name;
	} off[] = {
		{ IB_WR_SEND_WITH_IMM, "Send with Immediate" },
		{ IB_WR_RDMA_WRITE_WITH_IMM, "Write with Immediate" },
		{ IB_WR_ATOMIC_CMP_AND_SWP, "compare and swap" },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, "fetch and add" },
		{ IB_WR_MASKED_ATOMIC_CMP_AND_SWP, "masked compare and swap" },
		{ IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, "masked fetch and add" },
	};
	static const struct {
		enum ib_wr_opcode op;
		const char *name;
	} none[] = {
		{ IB_WR_BIND_MW, "bind of a memory window" },
		{ IB_WR_LSO, "LSO" },
		{ IB_WR_REG_MR_INTEGRITY, "registration with integrity" },
	};
	struct kt_link *l = kt_open(&kt_usual);
	const struct ib_send_wr *bad;
	struct ib_rdma_wr wr;
	struct ib_sge sge[2];
	struct kt_op *o;
	int i;

	if (!l)
		return;
	for (i = 0; i < ARRAY_SIZE(none); i++) {
		wr = kt_wr(none[i].op, kt_op(l), NULL, 0);
		bad = NULL;
		kt_equal(kt_post_bad(&l->a, &wr, &bad), -EINVAL,
			 "refused: %s", none[i].name);
		kt_fact(bad == &wr.wr, "which work request that is");
	}
	for (i = 0; i < ARRAY_SIZE(off); i++) {
		wr = kt_wr(off[i].op, kt_op(l), NULL, 0);
		kt_equal(kt_post_bad(&l->a, &wr, &bad), -EOPNOTSUPP,
			 "not supported: %s", off[i].name);
		kt_fact(bad == &wr.wr, "which work request that is");
	}
	sge[0] = kt_sge(&l->a, kt_buf(l, 8), 0, 8);
	sge[1] = sge[0];
	wr = kt_wr(IB_WR_RDMA_READ, kt_op(l), sge, 2);
	kt_equal(kt_post(&l->a, &wr), -EINVAL, "a Read into two SGEs");
	wr.wr.opcode = IB_WR_RDMA_READ_WITH_INV;
	kt_equal(kt_post(&l->a, &wr), -EINVAL,
		 "a Read with Invalidate into two SGEs");
	wr.wr.opcode = IB_WR_SEND;
	wr.wr.num_sge = -1;
	kt_equal(kt_post(&l->a, &wr), -EINVAL, "a Send of -1 SGEs");
	/* The connection has not been affected. */
	o = kt_op(l);
	kt_arm(l);
	wr = kt_wr(IB_WR_SEND, o, NULL, 0);
	kt_equal(kt_post(&l->a, &wr), 0, "a Send posted");
	kt_completes(&l->b, l->arm_b, IB_WC_SUCCESS, "receive");
	kt_close(l);
}

/* Of unsignalled work only the last has a completion; errors always have. */
static void kt_signals_of(bool all)
{
	struct kt_link *l = kt_open(&(struct kt_opts){ .sig_all = all });
	struct kt_op *o[8], *r;
	struct ib_rdma_wr wr;
	int i, done = 0;

	if (!l)
		return;
	for (i = 0; i < 8; i++) {
		r = kt_op(l);
		o[i] = kt_op(l);
		kt_equal(kt_recv(&l->b, r, NULL, 0), 0, "receive posted");
		wr = kt_wr(IB_WR_SEND, o[i], NULL, 0);
		wr.wr.send_flags = i == 7 ? IB_SEND_SIGNALED : 0;
		kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
		kt_completes(&l->b, r, IB_WC_SUCCESS, "receive");
	}
	kt_completes(&l->a, o[7], IB_WC_SUCCESS, "the signalled Send");
	for (i = 0; i < 7; i++)
		done += completion_done(&o[i]->done);
	kt_equal(done, all ? 7 : 0, "completions of the others");

	ib_drain_qp(l->a.qp);
	wr = kt_wr(IB_WR_SEND, o[0], NULL, 0);
	wr.wr.send_flags = 0;
	reinit_completion(&o[0]->done);
	kt_equal(kt_post(&l->a, &wr), 0, "unsignalled Send posted in ERR");
	kt_completes(&l->a, o[0], IB_WC_WR_FLUSH_ERR, "that Send");
	kt_close(l);
}

static void kt_signals(void)
{
	kt_signals_of(false);
	kt_signals_of(true);
}

/*
 * A Read that is never answered would fill the queue, but there is none. So the
 * work is posted in one list that is longer than the queue.
 */
static void kt_full(void)
{
	struct kt_link *l = kt_open(&(struct kt_opts){
		.send_wr = KT_DEPTH, .recv_wr = KT_DEPTH });
	struct ib_rdma_wr wr[KT_DEPTH + 1];
	const struct ib_send_wr *bad = NULL;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct kt_op *o[KT_DEPTH + 1], *r[KT_DEPTH];
	int i;

	if (!l)
		return;
	kt_equal(ib_query_qp(l->a.qp, &attr, IB_QP_CAP, &init), 0, "query");
	kt_equal(attr.cap.max_send_wr, KT_DEPTH, "depth of the send queue");
	kt_equal(attr.cap.max_recv_wr, KT_DEPTH, "depth of the receive queue");
	for (i = 0; i < KT_DEPTH; i++) {
		r[i] = kt_op(l);
		kt_equal(kt_recv(&l->b, r[i], NULL, 0), 0, "receive posted");
	}
	kt_equal(kt_recv(&l->b, kt_op(l), NULL, 0), -ENOMEM,
		 "one receive more than the queue takes");
	for (i = 0; i <= KT_DEPTH; i++) {
		o[i] = kt_op(l);
		wr[i] = kt_wr(IB_WR_SEND, o[i], NULL, 0);
		wr[i].wr.next = i < KT_DEPTH ? &wr[i + 1].wr : NULL;
	}
	kt_equal(kt_post_bad(&l->a, wr, &bad), -ENOMEM,
		 "one Send more than the queue takes");
	kt_fact(bad == &wr[KT_DEPTH].wr, "which work request that is");
	for (i = 0; i < KT_DEPTH; i++) {
		kt_completes(&l->a, o[i], IB_WC_SUCCESS, "Send");
		kt_completes(&l->b, r[i], IB_WC_SUCCESS, "receive");
	}
	kt_equal(kt_recv(&l->b, kt_op(l), NULL, 0), 0, "there is room again");
	kt_equal(kt_post(&l->a, &wr[KT_DEPTH]), 0, "there is room again");
	kt_close(l);
}

/* A queue pair that is not connected. */
static void kt_early_facts(struct kt_link *l, struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	struct kt_op *o = kt_op(l), *r = kt_op(l);
	const struct ib_send_wr *bad = NULL;
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, o, NULL, 0);
	struct ib_recv_wr rwr = { .wr_cqe = &r->cqe };

	kt_equal(ib_post_recv(qp, &rwr, NULL), 0, "receive in a new queue pair");
	attr.qp_state = IB_QPS_RESET;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), 0, "INIT to RESET");
	kt_equal(ib_post_send(qp, &wr.wr, &bad), -EINVAL, "Send in RESET");
	kt_fact(bad == &wr.wr, "which work request that is");
	attr.qp_state = IB_QPS_INIT;
	kt_equal(ib_post_recv(qp, &rwr, NULL), -EINVAL, "receive in RESET");
	attr.qp_access_flags = IB_ACCESS_REMOTE_READ;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_ACCESS_FLAGS), 0,
		 "RESET to INIT");
	kt_equal(ib_post_send(qp, &wr.wr, NULL), -EINVAL, "Send in INIT");
	kt_equal(ib_post_recv(qp, &rwr, NULL), 0, "receive in INIT");
	attr.qp_state = IB_QPS_RTS;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), -EINVAL,
		 "INIT to RTS without a connection");
	attr.qp_state = IB_QPS_SQD;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), -EINVAL, "INIT to SQD");
	attr.qp_state = IB_QPS_SQE;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), -EINVAL, "INIT to SQE");
	attr.qp_state = IB_QPS_ERR;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), 0, "INIT to ERR");
	kt_completes(&l->b, r, IB_WC_WR_FLUSH_ERR, "the receive posted in INIT");
	kt_equal(ib_post_send(qp, &wr.wr, NULL), 0, "Send in ERR");
	kt_completes(&l->b, o, IB_WC_WR_FLUSH_ERR, "that Send");
	reinit_completion(&r->done);
	kt_equal(ib_post_recv(qp, &rwr, NULL), 0, "receive in ERR");
	kt_completes(&l->b, r, IB_WC_WR_FLUSH_ERR, "that receive");
	attr.qp_state = IB_QPS_INIT;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), -EINVAL, "ERR to INIT");
	attr.qp_state = IB_QPS_RESET;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), 0, "ERR to RESET");
	kt_equal(ib_post_recv(qp, &rwr, NULL), -EINVAL, "receive in RESET");
}

static void kt_early(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = 4,
		.cap.max_recv_wr = 4,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp *qp;

	if (!l)
		return;
	attr.send_cq = l->b.scq;
	attr.recv_cq = l->b.rcq;
	qp = ib_create_qp(l->b.pd, &attr);
	if (kt_fact(!IS_ERR(qp), "a queue pair without a connection")) {
		kt_early_facts(l, qp);
		ib_destroy_qp(qp);
	}
	kt_close(l);
}

/* Queues without entries: a receive is refused in INIT, a Send in ERR. */
static void kt_empty_facts(struct kt_link *l, struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, kt_op(l), NULL, 0);
	struct ib_recv_wr rwr = { .wr_cqe = &kt_op(l)->cqe };
	const struct ib_send_wr *bad = NULL;
	const struct ib_recv_wr *rbad = NULL;
	struct ib_qp_init_attr init;

	kt_equal(ib_query_qp(qp, &attr, IB_QP_CAP, &init), 0, "query");
	kt_equal(attr.cap.max_send_wr, 0, "depth of the send queue");
	kt_equal(attr.cap.max_recv_wr, 0, "depth of the receive queue");
	attr.qp_state = IB_QPS_INIT;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), 0, "RESET to INIT");
	kt_equal(ib_post_recv(qp, &rwr, &rbad), -ENOMEM, "receive in INIT");
	kt_fact(rbad == &rwr, "which work request that is");
	attr.qp_state = IB_QPS_ERR;
	kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), 0, "INIT to ERR");
	kt_equal(ib_post_send(qp, &wr.wr, &bad), -ENOMEM, "Send in ERR");
	kt_fact(bad == &wr.wr, "which work request that is");
	kt_equal(ib_post_recv(qp, &rwr, NULL), -ENOMEM, "receive in ERR");
}

static void kt_empty(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct ib_qp_init_attr attr = { .qp_type = IB_QPT_RC };
	struct ib_qp *qp;

	if (!l)
		return;
	attr.send_cq = l->b.scq;
	attr.recv_cq = l->b.rcq;
	qp = ib_create_qp(l->b.pd, &attr);
	if (kt_fact(!IS_ERR(qp), "a queue pair whose queues have no entries")) {
		kt_empty_facts(l, qp);
		ib_destroy_qp(qp);
	}
	kt_close(l);
}

/* Drain: when it returns all is complete, also work that was never started. */
static void kt_drain_facts(struct kt_link *l)
{
	struct kt_op *o[8], *r[8];
	struct ib_rdma_wr wr;
	int i, bad = 0;

	for (i = 0; i < 8; i++) {
		r[i] = kt_op(l);
		o[i] = kt_op(l);
		kt_equal(kt_recv(&l->a, r[i], NULL, 0), 0, "receive posted");
	}
	ib_drain_rq(l->a.qp);
	for (i = 0; i < 8; i++)
		bad += !completion_done(&r[i]->done) ||
		       r[i]->wc.status != IB_WC_WR_FLUSH_ERR;
	kt_equal(bad, 0, "receives are flushed when drain_rq returns");
	for (i = 0, bad = 0; i < 8; i++) {
		wr = kt_wr(IB_WR_SEND, o[i], NULL, 0);
		kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
	}
	ib_drain_sq(l->a.qp);
	for (i = 0; i < 8; i++)
		bad += !completion_done(&o[i]->done) ||
		       o[i]->wc.status != IB_WC_WR_FLUSH_ERR;
	kt_equal(bad, 0, "Sends are flushed when drain_sq returns");
	ib_drain_qp(l->a.qp);
	kt_fact(kt_wait_down(l), "both ends are told");
	ib_drain_qp(l->b.qp);
	kt_equal(kt_state(&l->a), IB_QPS_ERR, "state of a");
	kt_equal(kt_state(&l->b), IB_QPS_ERR, "state of b");
}

static void kt_drains(void)
{
	static const enum ib_poll_context poll[] = {
		IB_POLL_DIRECT, IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE,
		IB_POLL_UNBOUND_WORKQUEUE,
	};
	struct kt_link *l;
	int i;

	for (i = 0; i < ARRAY_SIZE(poll); i++) {
		l = kt_open(&(struct kt_opts){ .poll = poll[i] });
		if (l)
			kt_drain_facts(l);
		kt_close(l);
	}
}

/* No receive for a Send: the sender's Reads behind it fail. */
static void kt_no_receive(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct ib_rdma_wr wr;

	if (!l)
		return;
	kt_arm(l);
	wr = kt_wr(IB_WR_SEND, kt_op(l), NULL, 0);
	kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
	kt_completes(&l->b, l->arm_b, IB_WC_SUCCESS, "receive");
	l->arm_b = kt_op(l);
	wr = kt_wr(IB_WR_SEND, kt_op(l), NULL, 0);
	kt_equal(kt_post(&l->a, &wr), 0, "Send posted, with no receive left");
	if (kt_completes(&l->a, l->arm_a, IB_WC_WR_FLUSH_ERR, "receive at a"))
		kt_equal(l->arm_a->wc.vendor_err, KIWARP_TERM_RECEIVED |
			 KW_TERM_DDP_UNTAGGED_NO_BUFFER, "Terminate at a");
	kt_fact(kt_wait_down(l), "both ends are told");
	kt_close(l);
}

static void kt_too_long(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_buf *src, *dst;
	struct ib_sge sge, rsge;
	struct ib_rdma_wr wr;
	struct kt_op *r;

	if (!l)
		return;
	src = kt_buf(l, 101);
	dst = kt_buf(l, 100);
	sge = kt_sge(&l->a, src, 0, 101);
	rsge = kt_sge(&l->b, dst, 0, 100);
	r = kt_op(l);
	kt_equal(kt_recv(&l->b, r, &rsge, 1), 0, "receive posted");
	kt_arm(l);
	wr = kt_wr(IB_WR_SEND, kt_op(l), &sge, 1);
	kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
	kt_completes(&l->b, r, IB_WC_LOC_LEN_ERR, "receive that is too short");
	kt_terminated(l, &l->b, KW_TERM_DDP_UNTAGGED_TOO_LONG);
	kt_fact(kt_holds(dst, 0, 0, 0), "nothing was placed");
	kt_close(l);
}

/* An invalid lkey. */
static void kt_bad_lkey(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_op *o;
	struct ib_sge sge;
	struct ib_rdma_wr wr;

	if (!l)
		return;
	sge = kt_sge(&l->a, kt_buf(l, 10), 0, 10);
	sge.lkey = l->b.pd->local_dma_lkey;
	o = kt_op(l);
	kt_arm(l);
	wr = kt_wr(IB_WR_SEND, o, &sge, 1);
	kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
	kt_completes(&l->a, o, IB_WC_LOC_PROT_ERR,
		     "Send with another domain's lkey");
	kt_terminated(l, &l->a, KW_TERM_RDMAP_CATASTROPHIC);
	kt_close(l);
}

const struct kt_case kt_post_cases[] = {
	{ "post.list", kt_list },
	{ "post.recv_list", kt_recv_list },
	{ "post.opcodes", kt_opcodes },
	{ "post.signalled", kt_signals },
	{ "post.full", kt_full },
	{ "post.states", kt_early },
	{ "post.empty", kt_empty },
	{ "post.drain", kt_drains },
	{ "post.no_receive", kt_no_receive },
	{ "post.too_long", kt_too_long },
	{ "post.bad_lkey", kt_bad_lkey },
	{}
};
