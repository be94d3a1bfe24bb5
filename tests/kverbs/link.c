// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * A link: two queue pairs of this kernel, connected by rdma_cm.
 */
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/net_namespace.h>

#include "ktest.h"

static char *server = "10.1.0.1";
module_param(server, charp, 0444);
MODULE_PARM_DESC(server, "address of the accepting end");

static char *client = "10.1.0.2";
module_param(client, charp, 0444);
MODULE_PARM_DESC(client, "address of the connecting end");

/* Each link listens on a port of its own. */
static int kt_port = 7000;

/**
 * kt_server() - the address of the accepting end
 *
 * Return: its text.
 */
const char *kt_server(void)
{
	return server;
}

/**
 * kt_client() - the address of the connecting end
 *
 * Return: its text.
 */
const char *kt_client(void)
{
	return client;
}

/**
 * kt_addr() - an address from its text
 * @addr: result
 * @text: the address
 * @port: TCP port
 *
 * Return: 0 or -EINVAL.
 */
int kt_addr(struct sockaddr_storage *addr, const char *text, int port)
{
	char service[8];

	snprintf(service, sizeof(service), "%d", port);
	return inet_pton_with_scope(&init_net, AF_UNSPEC, text, service, addr);
}

/**
 * kt_event() - handler of asynchronous events
 * @ev: the event
 * @ctx: struct kt_end
 *
 * Context: any.
 */
void kt_event(struct ib_event *ev, void *ctx)
{
	struct kt_end *e = ctx;

	if (ev->event < KT_NR_EVENTS)
		atomic_inc(&e->events[ev->event]);
	complete(&e->event);
}

static struct ib_cq *kt_cq(struct kt_end *e, int vector)
{
	const struct kt_opts *o = &e->link->opts;
	struct ib_cq_init_attr attr = { .cqe = o->cqe, .comp_vector = vector };

	if (o->handler)
		return ib_create_cq(e->id->device, o->handler, kt_event, e,
				    &attr);
	return ib_alloc_cq(e->id->device, e, o->cqe, vector, o->poll);
}

static void kt_free_cq(struct kt_end *e, struct ib_cq *cq)
{
	if (IS_ERR_OR_NULL(cq))
		return;
	if (e->link->opts.handler)
		ib_destroy_cq(cq);
	else
		ib_free_cq(cq);
}

static int kt_srq(struct kt_end *e)
{
	struct ib_srq_init_attr attr = {
		.event_handler = kt_event,
		.srq_context = e,
		.attr.max_wr = e->link->opts.srq,
		.attr.max_sge = e->link->opts.sge,
		.srq_type = IB_SRQT_BASIC,
	};
	struct ib_srq *srq;

	if (e != &e->link->b || !attr.attr.max_wr)
		return 0;
	srq = ib_create_srq(e->pd, &attr);
	if (IS_ERR(srq))
		return PTR_ERR(srq);
	e->srq = srq;
	return 0;
}

/* Protection domain, queues and queue pair, when the device is known. */
static int kt_setup(struct kt_end *e)
{
	const struct kt_opts *o = &e->link->opts;
	struct ib_qp_init_attr attr = {
		.event_handler = kt_event,
		.qp_context = e,
		.cap.max_send_wr = o->send_wr,
		.cap.max_recv_wr = o->recv_wr,
		.cap.max_send_sge = o->sge,
		.cap.max_recv_sge = o->sge,
		.cap.max_inline_data = o->inl,
		.sq_sig_type = o->sig_all ? IB_SIGNAL_ALL_WR :
					    IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	int ret;

	e->pd = ib_alloc_pd(e->id->device, o->pd_flags);
	if (IS_ERR(e->pd))
		return PTR_ERR(e->pd);
	e->scq = kt_cq(e, 0);
	if (IS_ERR(e->scq))
		return PTR_ERR(e->scq);
	e->rcq = kt_cq(e, 1 % e->id->device->num_comp_vectors);
	if (IS_ERR(e->rcq))
		return PTR_ERR(e->rcq);
	ret = kt_srq(e);
	if (ret)
		return ret;
	attr.send_cq = e->scq;
	attr.recv_cq = e->rcq;
	attr.srq = e->srq;
	ret = rdma_create_qp(e->id, e->pd, &attr);
	e->qp = ret ? NULL : e->id->qp;
	return ret;
}

static struct rdma_conn_param kt_conn_param(void)
{
	return (struct rdma_conn_param){
		.responder_resources = 16,
		.initiator_depth = 16,
	};
}

static void kt_is_up(struct kt_end *e, int status)
{
	e->status = status;
	complete(&e->up);
}

/* Events that mean the same to either end. */
static void kt_either_event(struct kt_end *e, struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		kt_is_up(e, 0);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		complete_all(&e->down);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		kt_is_up(e, ev->status ?: -EPROTO);
	}
}

static int kt_client_event(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = kt_conn_param();
	struct kt_end *e = id->context;
	int ret = 0;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = rdma_resolve_route(id, 10000);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ret = kt_setup(e);
		if (!ret)
			ret = rdma_connect_locked(id, &param);
		break;
	default:
		kt_either_event(e, ev);
	}
	if (ret)
		kt_is_up(e, ret);
	/* Only kt_close() destroys the id. */
	return 0;
}

static int kt_server_event(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = kt_conn_param();
	struct kt_end *e = id->context;
	int ret;

	switch (ev->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (e->id)
			return -EBUSY;
		e->id = id;
		ret = kt_setup(e);
		if (!ret)
			ret = rdma_accept(id, &param);
		if (ret)
			kt_is_up(e, ret);
		break;
	default:
		kt_either_event(e, ev);
	}
	return 0;
}

static void kt_end_init(struct kt_end *e, struct kt_link *l, const char *name)
{
	e->link = l;
	e->name = name;
	init_completion(&e->up);
	init_completion(&e->down);
	init_completion(&e->event);
}

static int kt_listen(struct kt_link *l, struct sockaddr_storage *addr)
{
	struct rdma_cm_id *id;
	int ret;

	id = rdma_create_id(&init_net, kt_server_event, &l->b, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	l->listener = id;
	ret = rdma_bind_addr(id, (struct sockaddr *)addr);
	return ret ?: rdma_listen(id, 4);
}

static int kt_wait_up(struct kt_end *e)
{
	if (!wait_for_completion_timeout(&e->up, KT_TIMEOUT))
		return -ETIMEDOUT;
	return e->status;
}

static int kt_connect(struct kt_link *l)
{
	struct sockaddr_storage src, dst;
	struct rdma_cm_id *id;
	int ret;

	ret = kt_addr(&dst, server, kt_port++) ?: kt_addr(&src, client, 0);
	if (!ret)
		ret = kt_listen(l, &dst);
	if (ret)
		return ret;
	id = rdma_create_id(&init_net, kt_client_event, &l->a, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	l->a.id = id;
	ret = rdma_resolve_addr(id, (struct sockaddr *)&src,
				(struct sockaddr *)&dst, 10000);
	ret = ret ?: kt_wait_up(&l->a);
	return ret ?: kt_wait_up(&l->b);
}

/**
 * kt_open() - connect two queue pairs
 * @opts: its options
 *
 * Context: process. A failure is stated as a fact.
 * Return: the link, for kt_close(), or NULL.
 */
struct kt_link *kt_open(const struct kt_opts *opts)
{
	struct kt_link *l = kzalloc(sizeof(*l), GFP_KERNEL);
	int ret;

	if (!kt_fact(l, "memory for a link"))
		return NULL;
	l->opts = *opts;
	l->opts.cqe = opts->cqe ?: 512;
	l->opts.send_wr = opts->send_wr ?: 128;
	l->opts.recv_wr = opts->recv_wr ?: 128;
	l->opts.sge = opts->sge ?: 4;
	INIT_LIST_HEAD(&l->ops);
	INIT_LIST_HEAD(&l->bufs);
	INIT_LIST_HEAD(&l->mrs);
	kt_end_init(&l->a, l, "a");
	kt_end_init(&l->b, l, "b");
	ret = kt_connect(l);
	if (!kt_equal(ret, 0, "two queue pairs connect")) {
		kt_close(l);
		return NULL;
	}
	return l;
}

static void kt_free_end(struct kt_end *e)
{
	if (e->qp)
		rdma_destroy_qp(e->id);
	if (e->srq)
		ib_destroy_srq(e->srq);
	kt_free_cq(e, e->scq);
	kt_free_cq(e, e->rcq);
	if (!IS_ERR_OR_NULL(e->pd))
		ib_dealloc_pd(e->pd);
	if (e->id)
		rdma_destroy_id(e->id);
}

/**
 * kt_close() - end a link, and free all that was taken from it
 * @l: the link, or NULL
 *
 * Context: process.
 */
void kt_close(struct kt_link *l)
{
	struct kt_mr *m, *next_m;
	struct kt_buf *b, *next_b;
	struct kt_op *o, *next_o;

	if (!l)
		return;
	if (l->a.qp && l->b.qp)
		rdma_disconnect(l->a.id);
	if (l->a.qp)
		kt_drain(&l->a);
	if (l->b.qp)
		kt_drain(&l->b);
	list_for_each_entry_safe(m, next_m, &l->mrs, list)
		kt_mr_free(m);
	kt_free_end(&l->a);
	kt_free_end(&l->b);
	if (l->listener)
		rdma_destroy_id(l->listener);
	list_for_each_entry_safe(b, next_b, &l->bufs, list) {
		kvfree(b->whole);
		kfree(b);
	}
	list_for_each_entry_safe(o, next_o, &l->ops, list)
		kfree(o);
	kfree(l);
}

/**
 * kt_wait_down() - wait until both ends have the event of the connection's end
 * @l: the link
 *
 * Context: process.
 * Return: false after a time-out.
 */
bool kt_wait_down(struct kt_link *l)
{
	return wait_for_completion_timeout(&l->a.down, KT_TIMEOUT) &&
	       wait_for_completion_timeout(&l->b.down, KT_TIMEOUT);
}

/**
 * kt_wait_event() - wait for an asynchronous event
 * @e: end
 * @type: event
 *
 * Context: process.
 * Return: false after a time-out.
 */
bool kt_wait_event(struct kt_end *e, enum ib_event_type type)
{
	while (!atomic_read(&e->events[type])) {
		if (!wait_for_completion_timeout(&e->event, KT_TIMEOUT))
			return false;
	}
	return true;
}

/**
 * kt_state() - state of a queue pair
 * @e: end
 *
 * Context: process.
 * Return: enum ib_qp_state, or -errno.
 */
int kt_state(struct kt_end *e)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int ret = ib_query_qp(e->qp, &attr, IB_QP_STATE, &init);

	return ret ?: attr.qp_state;
}

/**
 * kt_bound_id() - an id that is bound to the accepting end's device
 *
 * Context: process.
 * Return: the id, for rdma_destroy_id(), or an error.
 */
struct rdma_cm_id *kt_bound_id(void)
{
	struct sockaddr_storage addr;
	struct rdma_cm_id *id;
	int ret;

	id = rdma_create_id(&init_net, kt_server_event, NULL, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return id;
	ret = kt_addr(&addr, server, kt_port++);
	ret = ret ?: rdma_bind_addr(id, (struct sockaddr *)&addr);
	if (!ret && id->device)
		return id;
	rdma_destroy_id(id);
	return ERR_PTR(ret ?: -ENODEV);
}
