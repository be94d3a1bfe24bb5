// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What begins while a queue pair, or the device, goes.
 *
 * The RDMA core takes a device from its clients in turn, the latest first. The
 * device's driver is a client, too, and ends all connections when it is its
 * turn; clients that were there before it have the device until theirs. With
 * the parameter "late" this module is one, if it was loaded before kiwarp.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
/* Before rdma_counter.h, which cannot be included by itself in 7.2. */
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#include "ktest.h"
#include "versions.h"

static const struct kt_opts kt_usual;

/**
 * struct kt_destroyer - destroys a queue pair
 * @work: does it
 * @id: its id
 */
struct kt_destroyer {
	struct work_struct work;
	struct rdma_cm_id *id;
};

static void kt_destroy_work(struct work_struct *work)
{
	struct kt_destroyer *d = container_of(work, struct kt_destroyer, work);

	rdma_destroy_qp(d->id);
}

/* Until it is refused: the destroyer may not have begun. */
static int kt_bind_late(struct rdma_counter *counter, struct ib_qp *qp)
{
	unsigned long end = jiffies + KT_TIMEOUT;
	int ret;

	do {
		ret = kt_counter_bind(counter, qp);
		if (!ret) {
			kt_counter_unbind(qp);
			usleep_range(1000, 2000);
		}
	} while (!ret && time_before(jiffies, end));
	return ret;
}

/*
 * Before 6.12.117 an administrator could bind a queue pair to a counter while
 * it was being destroyed. Called by hand, as the core prevents that now.
 */
static void kt_leave_counter(void)
{
	struct rdma_counter *counter = kzalloc(sizeof(*counter), GFP_KERNEL | __GFP_NOFAIL);
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_destroyer d;
	struct ib_device *dev;
	struct ib_qp *qp;

	if (!l)
		goto free;
	qp = l->a.qp;
	dev = qp->device;
	counter->device = dev;
	counter->port = 1;
	/* Destroying may unbind it, too. */
	mutex_init(&counter->lock);
	refcount_set(&counter->kref.refcount, INT_MAX / 2);
	counter->stats = dev->ops.counter_alloc_stats(counter);
	if (!kt_fact(counter->stats, "a counter"))
		goto close;
	d.id = l->a.id;
	l->a.qp = NULL;
	INIT_WORK_ONSTACK(&d.work, kt_destroy_work);
	dev->ops.iw_add_ref(qp);
	queue_work(system_unbound_wq, &d.work);
	kt_equal(kt_bind_late(counter, qp), -EINVAL,
		 "a queue pair that is being destroyed is not bound to a counter");
	dev->ops.iw_rem_ref(qp);
	flush_work(&d.work);
	destroy_work_on_stack(&d.work);
	dev->ops.counter_dealloc(counter);
	rdma_free_hw_stats_struct(counter->stats);
close:
	kt_close(l);
free:
	kfree(counter);
}

const struct kt_case kt_leave_cases[] = {
	{ "leave.counter", kt_leave_counter },
	{ }
};

static bool kt_late;
module_param_named(late, kt_late, bool, 0444);
MODULE_PARM_DESC(late, "use devices until they are taken away");

/**
 * struct kt_late_user - what is done with a device that is being taken away
 * @lock: @armed
 * @armed: both ids are ready
 * @ready: the address, or the route, of @id is known, or @status says why not
 * @status: 0 or -errno
 * @id: could connect at once
 * @bound: could listen at once
 * @said: the outcome
 */
static struct kt_late_user {
	struct mutex lock;	/* armed */
	bool armed;
	struct completion ready;
	int status;
	struct rdma_cm_id *id;
	struct rdma_cm_id *bound;
	char said[96];
} kt_user = {
	.lock = __MUTEX_INITIALIZER(kt_user.lock),
};

static int kt_late_event(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	if (ev->event != RDMA_CM_EVENT_ADDR_RESOLVED &&
	    ev->event != RDMA_CM_EVENT_ROUTE_RESOLVED)
		kt_user.status = ev->status ?: -EPROTO;
	complete(&kt_user.ready);
	return 0;
}

static int kt_late_wait(void)
{
	if (!wait_for_completion_timeout(&kt_user.ready, KT_TIMEOUT))
		return -ETIMEDOUT;
	return kt_user.status;
}

static int kt_late_resolve(struct rdma_cm_id *id)
{
	struct sockaddr_storage src, dst;
	int ret;

	ret = kt_addr(&src, kt_server(), 0) ?: kt_addr(&dst, kt_client(), KT_NO_PORT);
	ret = ret ?: rdma_resolve_addr(id, (struct sockaddr *)&src,
				       (struct sockaddr *)&dst, 10000);
	ret = ret ?: kt_late_wait();
	ret = ret ?: rdma_resolve_route(id, 10000);
	return ret ?: kt_late_wait();
}

static struct rdma_cm_id *kt_late_id(void)
{
	return rdma_create_id(&init_net, kt_late_event, NULL, RDMA_PS_TCP,
			      IB_QPT_RC);
}

/**
 * kt_late_arm() - use the accepting end's device when it is taken away
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int kt_late_arm(void)
{
	struct kt_late_user *u = &kt_user;
	int ret;

	if (!kt_late || u->armed)
		return -EINVAL;
	init_completion(&u->ready);
	u->status = 0;
	u->id = kt_late_id();
	if (IS_ERR(u->id))
		return PTR_ERR(u->id);
	ret = kt_late_resolve(u->id);
	if (ret)
		goto destroy;
	u->bound = kt_bound_id();
	ret = PTR_ERR_OR_ZERO(u->bound);
	if (ret)
		goto destroy;
	mutex_lock(&u->lock);
	u->armed = true;
	mutex_unlock(&u->lock);
	return 0;
destroy:
	rdma_destroy_id(u->id);
	return ret;
}

/**
 * kt_late_said() - the outcome of what was done last
 *
 * Context: process.
 * Return: the calls' results, or an empty text.
 */
const char *kt_late_said(void)
{
	return kt_user.said;
}

/* A queue pair made before would be in ERROR by now. */
static int kt_late_connect(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { };
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = 1,
		.cap.max_recv_wr = 1,
		.qp_type = IB_QPT_RC,
	};
	struct ib_pd *pd = ib_alloc_pd(id->device, 0);
	struct ib_cq *cq;
	int ret;

	if (IS_ERR(pd))
		return PTR_ERR(pd);
	cq = ib_alloc_cq(id->device, NULL, 2, 0, IB_POLL_DIRECT);
	ret = PTR_ERR_OR_ZERO(cq);
	if (ret)
		goto dealloc;
	attr.send_cq = cq;
	attr.recv_cq = cq;
	ret = rdma_create_qp(id, pd, &attr);
	if (!ret) {
		ret = rdma_connect(id, &param);
		rdma_destroy_qp(id);
	}
	ib_free_cq(cq);
dealloc:
	ib_dealloc_pd(pd);
	return ret;
}

/* On all devices, of which this is one. */
static int kt_late_wildcard(void)
{
	struct rdma_cm_id *id = kt_late_id();
	struct sockaddr_storage any;
	int ret;

	if (IS_ERR(id))
		return PTR_ERR(id);
	ret = kt_addr(&any, "0.0.0.0", KT_NO_PORT);
	ret = ret ?: rdma_bind_addr(id, (struct sockaddr *)&any);
	ret = ret ?: rdma_listen(id, 1);
	rdma_destroy_id(id);
	return ret;
}

static int kt_late_add(struct ib_device *dev)
{
	return 0;
}

static void kt_late_remove(struct ib_device *dev, void *data)
{
	struct kt_late_user *u = &kt_user;
	int connect, listen, wildcard;

	mutex_lock(&u->lock);
	if (u->armed && u->id->device == dev) {
		u->armed = false;
		connect = kt_late_connect(u->id);
		listen = rdma_listen(u->bound, 1);
		wildcard = kt_late_wildcard();
		scnprintf(u->said, sizeof(u->said),
			  "connect %d listen %d wildcard %d\n", connect,
			  listen, wildcard);
		rdma_destroy_id(u->id);
		rdma_destroy_id(u->bound);
	}
	mutex_unlock(&u->lock);
}

static struct ib_client kt_late_client = {
	.name = "kiwarp_ktest",
	.add = kt_late_add,
	.remove = kt_late_remove,
};

/**
 * kt_late_init() - become a client, if the parameter says so
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int kt_late_init(void)
{
	return kt_late ? ib_register_client(&kt_late_client) : 0;
}

/**
 * kt_late_exit() - undo kt_late_init()
 *
 * Context: process.
 */
void kt_late_exit(void)
{
	if (kt_late)
		ib_unregister_client(&kt_late_client);
}
