// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Endpoints: lifetime, socket callbacks, timers and the end of a connection.
 */
#include <linux/memcontrol.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/rdma_cm.h>
#include <trace/events/sock.h>

#include "cm/cm.h"
#include "trace.h"
#include "verbs/qp_named.h"

struct workqueue_struct *kw_cm_wq;

static atomic_t kw_eps_alive;

static void kw_ep_work(struct work_struct *work);
static void kw_ep_timer(struct work_struct *work);

/* Those on the list are told when the device goes. None comes after that. */
static bool kw_ep_publish(struct kw_ep *ep)
{
	struct kw_device *dev = ep->dev;
	bool closed;

	spin_lock(&dev->eps_lock);
	closed = dev->eps_closed;
	if (!closed)
		list_add_tail(&ep->node, &dev->eps);
	spin_unlock(&dev->eps_lock);
	return !closed;
}

/**
 * kw_ep_create() - make an endpoint
 * @dev: the device, which the endpoint then holds
 * @charge: what to charge; NULL: the caller
 *
 * Context: process.
 * Return: the endpoint in state %KW_EP_NEW, with the reference that
 * kw_ep_end() drops; ERR_PTR(-ENOMEM), or ERR_PTR(-ENODEV) when the device goes
 * away.
 */
struct kw_ep *kw_ep_create(struct kw_device *dev,
			   const struct kw_charge *charge)
{
	struct kw_ep *ep = kzalloc(sizeof(*ep), GFP_KERNEL_ACCOUNT);

	if (!ep)
		return ERR_PTR(-ENOMEM);
	ep->start = kzalloc(sizeof(*ep->start), GFP_KERNEL_ACCOUNT);
	if (!ep->start) {
		kfree(ep);
		return ERR_PTR(-ENOMEM);
	}
	if (!ib_device_try_get(&dev->ib)) {
		kfree(ep->start);
		kfree(ep);
		return ERR_PTR(-ENODEV);
	}
	kref_init(&ep->ref);
	mutex_init(&ep->lock);
	INIT_WORK(&ep->work, kw_ep_work);
	INIT_DELAYED_WORK(&ep->timer, kw_ep_timer);
	ep->dev = dev;
	ep->start->ep = ep;
	INIT_LIST_HEAD(&ep->start->half);
	INIT_LIST_HEAD(&ep->start->request);
	if (charge)
		kw_charge_copy(&ep->start->charge, charge);
	else
		kw_charge_current(&ep->start->charge);
	kw_settings_get(dev, &ep->start->set);
	atomic_inc(&kw_eps_alive);
	if (kw_ep_publish(ep))
		return ep;
	kw_ep_put(ep);
	return ERR_PTR(-ENODEV);
}

/**
 * kw_ep_free_start() - free what only start-up needs
 * @ep: the endpoint; in %KW_EP_RUNNING, or not yet visible to others
 *
 * Context: process, kw_ep.lock held unless the endpoint is not yet visible.
 */
void kw_ep_free_start(struct kw_ep *ep)
{
	struct kw_start *start = ep->start;

	if (!start)
		return;
	if (start->net)
		put_net(start->net);
	if (start->steps)
		kw_steps_put(start->steps);
	kw_charge_drop(&start->charge);
	kfree(start->pd);
	kfree(start);
	ep->start = NULL;
}

static void kw_ep_free(struct kref *ref)
{
	struct kw_ep *ep = container_of(ref, struct kw_ep, ref);
	struct kw_device *dev = ep->dev;

	mutex_destroy(&ep->lock);
	kw_ep_free_start(ep);
	kfree(ep);
	atomic_dec(&kw_eps_alive);
	ib_device_put(&dev->ib);
}

/**
 * kw_ep_get() - take a reference
 * @ep: the endpoint
 *
 * Context: any.
 */
void kw_ep_get(struct kw_ep *ep)
{
	kref_get(&ep->ref);
}

/**
 * kw_ep_put() - drop a reference
 * @ep: the endpoint
 *
 * Context: process for the last one, otherwise any.
 */
void kw_ep_put(struct kw_ep *ep)
{
	kref_put(&ep->ref, kw_ep_free);
}

/**
 * kw_ep_set_state() - change the connection's state
 * @ep: the endpoint
 * @state: where it is now
 *
 * Context: process, kw_ep.lock held.
 */
void kw_ep_set_state(struct kw_ep *ep, enum kw_ep_state state)
{
	trace_kw_connection_state(ep, state);
	ep->state = state;
}

/**
 * kw_ep_kick() - schedule the endpoint's next step
 * @ep: the endpoint; the caller holds a reference in some way
 *
 * Context: any.
 */
void kw_ep_kick(struct kw_ep *ep)
{
	kw_ep_get(ep);
	if (!queue_work(kw_cm_wq, &ep->work))
		kw_ep_put(ep);
}

/**
 * kw_ep_retry_in() - run the timer early, without moving the deadline
 * @ep: the endpoint
 * @ms: when, milliseconds
 *
 * Context: process, kw_ep.lock held.
 */
void kw_ep_retry_in(struct kw_ep *ep, u32 ms)
{
	kw_ep_get(ep);
	if (mod_delayed_work(kw_cm_wq, &ep->timer, msecs_to_jiffies(ms)))
		kw_ep_put(ep);
}

/**
 * kw_ep_set_timer() - bound the current step
 * @ep: the endpoint
 * @ms: from now, milliseconds
 *
 * Context: process, kw_ep.lock held.
 */
void kw_ep_set_timer(struct kw_ep *ep, u32 ms)
{
	ep->start->deadline = jiffies + msecs_to_jiffies(ms);
	kw_ep_retry_in(ep, ms);
}

/* A timer that is running waits for kw_ep.lock, and then sees the new state. */
static void kw_ep_stop_timer(struct kw_ep *ep)
{
	if (cancel_delayed_work(&ep->timer))
		kw_ep_put(ep);
}

/*
 * Data, a change of state or an error: the step finds out which. While the
 * endpoint has the socket it has kw_ep.start, and its listener.
 */
static void kw_ep_wake(struct sock *sk)
{
	struct kw_ep *ep;

	read_lock_bh(&sk->sk_callback_lock);
	ep = sk->sk_user_data;
	if (ep)
		kw_steps_add(ep->start->steps, ep);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void kw_ep_data_ready(struct sock *sk)
{
	trace_sk_data_ready(sk);
	kw_ep_wake(sk);
}

/**
 * kw_ep_attach() - take a socket
 * @ep: the endpoint
 * @sock: the socket, the endpoint's from now on
 * @data_ready: the socket's own callback if sk_data_ready is not it, because
 *	the socket inherited a listener's; otherwise NULL
 *
 * What came before is not signalled again: the caller kicks the endpoint.
 *
 * Context: process, kw_ep.lock held.
 */
void kw_ep_attach(struct kw_ep *ep, struct socket *sock,
		  void (*data_ready)(struct sock *sk))
{
	struct kw_sock_ops *orig = &ep->start->orig;
	struct sock *sk = sock->sk;

	ep->sock = sock;
	write_lock_bh(&sk->sk_callback_lock);
	orig->data_ready = data_ready ?: sk->sk_data_ready;
	orig->state_change = sk->sk_state_change;
	orig->error_report = sk->sk_error_report;
	sk->sk_data_ready = kw_ep_data_ready;
	sk->sk_state_change = kw_ep_wake;
	sk->sk_error_report = kw_ep_wake;
	sk->sk_user_data = ep;
	write_unlock_bh(&sk->sk_callback_lock);
}

/* Take the socket, if there is one, from the endpoint: it is the caller's. */
static struct socket *kw_ep_detach(struct kw_ep *ep)
{
	struct socket *sock = ep->sock;
	struct kw_sock_ops *orig;
	struct sock *sk;

	if (!sock)
		return NULL;
	orig = &ep->start->orig;
	sk = sock->sk;
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_data_ready = orig->data_ready;
	sk->sk_state_change = orig->state_change;
	sk->sk_error_report = orig->error_report;
	sk->sk_user_data = NULL;
	write_unlock_bh(&sk->sk_callback_lock);
	ep->sock = NULL;
	return sock;
}

/**
 * kw_ep_drop_sock() - close the socket
 * @ep: the endpoint
 * @abort: reset the connection instead of letting the peer read to the end
 *
 * Context: process, kw_ep.lock held.
 */
void kw_ep_drop_sock(struct kw_ep *ep, bool abort)
{
	struct socket *sock = kw_ep_detach(ep);

	if (!sock)
		return;
	if (!abort) {
		kw_sock_close(sock);
		return;
	}
	sock_no_linger(sock->sk);
	sock_release(sock);
}

static void kw_ep_leave_listener(struct kw_ep *ep)
{
	struct kw_listener *l = ep->listener;

	if (!l)
		return;
	WRITE_ONCE(ep->listener, NULL);
	kw_listener_answered(l, ep);
}

/*
 * A consumer names its queue pair by number, which may be another's. A kernel
 * consumer's identifier has the queue pair that rdma_create_qp() made for it,
 * and goes with no other. A process's has none: it goes with queue pairs of
 * that process. A kernel thread is not a process: an identifier of its own
 * without a queue pair is still a kernel consumer's.
 */
static bool kw_ep_may_use(struct iw_cm_id *id, const struct kw_qp *qp)
{
	const struct rdma_cm_id *cma = kw_id_consumer(id);

	if (cma && cma->qp)
		return cma->qp == &qp->ib;
	if (qp->owner)
		return kw_qp_is_callers(qp);
	return current->flags & PF_KTHREAD;
}

/**
 * kw_ep_find_qp() - find the queue pair that a consumer names
 * @ep: the endpoint
 * @id: iw_cm's identifier
 * @qpn: number
 * @result: the queue pair, to which the caller then has a reference
 *
 * Context: process; the consumer's call.
 * Return: 0; -EINVAL if there is none, -EPERM if it is another's.
 */
int kw_ep_find_qp(struct kw_ep *ep, struct iw_cm_id *id, u32 qpn,
		  struct kw_qp **result)
{
	struct kw_qp *qp = kw_qp_find(ep->dev, qpn);

	if (!qp)
		return -EINVAL;
	if (kw_ep_may_use(id, qp)) {
		/* A kernel consumer's identifier has had this one all along. */
		if (!qp->owner || kw_qp_was_named(qp)) {
			*result = qp;
			return 0;
		}
		/* iw_cm was given another queue pair of this number. */
		kw_qp_put(qp);
		return -EINVAL;
	}
	kw_qp_put(qp);
	kw_count(ep->dev, KW_CNT_CONN_DENIED);
	kw_ep_dbg(ep, "QP %u is not %s's\n", qpn, current->comm);
	return -EPERM;
}

/* Under kw_qp.lock, which keeps the endpoint. */
static void kw_ep_qp_gone(struct kw_ep *ep)
{
	set_bit(KW_EP_QP_GONE, &ep->flags);
	kw_ep_kick(ep);
}

/**
 * kw_ep_wait_with() - end start-up if a queue pair ends
 * @ep: the endpoint
 * @qp: the queue pair; referenced until start-up is over
 *
 * iw_cm keeps a queue pair, and blocks its destruction, until start-up is over.
 * Waiting for a silent peer meanwhile is of no use.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0; -EBUSY if another connection is being made with it, -EINVAL
 * if it is in ERROR, as it is from the first step of destroy_qp on.
 */
int kw_ep_wait_with(struct kw_ep *ep, struct kw_qp *qp)
{
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	qp->waiter_gone = kw_ep_qp_gone;
	if (qp->waiter)
		ret = -EBUSY;
	else if (qp->state == KIWARP_QPS_ERROR)
		ret = -EINVAL;
	else
		qp->waiter = ep;
	spin_unlock_irqrestore(&qp->lock, flags);
	if (ret)
		return ret;
	kw_qp_get(qp);
	ep->qp = qp;
	return 0;
}

static void kw_ep_leave_qp(struct kw_ep *ep)
{
	struct kw_qp *qp = ep->qp;
	unsigned long flags;

	if (!qp)
		return;
	spin_lock_irqsave(&qp->lock, flags);
	qp->waiter = NULL;
	spin_unlock_irqrestore(&qp->lock, flags);
	ep->qp = NULL;
	kw_qp_put(qp);
}

/**
 * kw_ep_end() - end an endpoint
 * @ep: the endpoint; the caller holds a reference of its own
 * @abort: reset the connection, if the endpoint still owns it
 *
 * Sends no event.
 *
 * Context: process, kw_ep.lock held.
 */
void kw_ep_end(struct kw_ep *ep, bool abort)
{
	if (ep->state == KW_EP_DEAD)
		return;
	kw_ep_set_state(ep, KW_EP_DEAD);
	kw_ep_stop_timer(ep);
	kw_ep_leave_qp(ep);
	kw_offer_forget(ep);
	kw_ep_drop_sock(ep, abort);
	kw_ep_leave_listener(ep);
	if (ep->cm_id) {
		ep->cm_id->rem_ref(ep->cm_id);
		ep->cm_id = NULL;
	}
	spin_lock(&ep->dev->eps_lock);
	list_del(&ep->node);
	spin_unlock(&ep->dev->eps_lock);
	kw_ep_put(ep);
}

/**
 * kw_ep_fill_event() - fill the fields that all events have
 * @ep: the endpoint
 * @event: the event; all of it is written
 *
 * The depths are the peer's own (RFC 6581 section 9.1), or ours if it sent
 * none. rdma_cm reads the peer's IRD as the bound of what we may initiate. The
 * port of a passive endpoint is the consumer's, which iw_cm passes on. That of
 * an active endpoint is the wire's: iw_cm keeps it as the mapped port, and
 * gives the consumer its own.
 *
 * Context: process, kw_ep.lock held.
 */
void kw_ep_fill_event(struct kw_ep *ep, struct iw_cm_event *event)
{
	memset(event, 0, sizeof(*event));
	if (!kw_negotiate_peer_depths(ep, event)) {
		event->ird = ep->ord;
		event->ord = ep->ird;
	}
	if (ep->sock && !kw_sock_names(ep->sock, &event->local_addr,
				       &event->remote_addr)) {
		if (ep->port)
			*kw_addr_port(&event->local_addr) = ep->port;
		return;
	}
	if (ep->cm_id) {
		event->local_addr = ep->cm_id->local_addr;
		event->remote_addr = ep->cm_id->remote_addr;
	}
}

static void kw_ep_stream_closed(void *ctx, int status)
{
	struct kw_ep *ep = ctx;

	/*
	 * This may come before kw_qp_connect() has returned. The events wait
	 * for kw_ep.lock, and so for the event that establishes.
	 */
	ep->close_status = status;
	smp_mb__before_atomic();	/* status before flag */
	set_bit(KW_EP_CLOSED, &ep->flags);
	kw_ep_kick(ep);
}

/**
 * kw_ep_run() - start-up is finished: give the socket to the queue pair
 * @ep: the endpoint
 * @qp: the queue pair, to which the caller has a reference
 * @params: what start-up negotiated
 *
 * Context: process, kw_ep.lock held.
 * Return: 0; or kw_qp_connect()'s -errno: the endpoint still has the socket and
 * its state, and the caller ends it.
 */
int kw_ep_run(struct kw_ep *ep, struct kw_qp *qp,
	      struct kw_stream_params *params)
{
	struct kw_cm_link link = { .closed = kw_ep_stream_closed, .ctx = ep };
	struct socket *sock = kw_ep_detach(ep);
	int ret;

	kw_ep_stop_timer(ep);
	ret = kw_qp_connect(qp, sock, params, &link);
	if (ret) {
		kw_ep_attach(ep, sock, NULL);
		return ret;
	}
	kw_ep_leave_qp(ep);
	kw_ep_leave_listener(ep);
	kw_ep_set_state(ep, KW_EP_RUNNING);
	return 0;
}

static void kw_ep_closed(struct kw_ep *ep)
{
	struct iw_cm_id *id = ep->cm_id;
	struct iw_cm_event event;

	if (id) {
		kw_ep_fill_event(ep, &event);
		event.event = IW_CM_EVENT_DISCONNECT;
		id->event_handler(id, &event);
		event.event = IW_CM_EVENT_CLOSE;
		event.status = ep->close_status;
		id->event_handler(id, &event);
	}
	kw_ep_end(ep, true);
}

/* End start-up early. */
static void kw_ep_fail(struct kw_ep *ep, int status)
{
	switch (ep->state) {
	case KW_EP_CONNECTING:
	case KW_EP_AWAIT_REPLY:
		kw_connect_fail(ep, status);
		break;
	case KW_EP_AWAIT_KEY:
		if (ep->active)
			kw_connect_fail(ep, status);
		else
			kw_accept_fail(ep, status);
		break;
	case KW_EP_AWAIT_REQUEST:
	case KW_EP_HAVE_REQUEST:
	case KW_EP_OFFERED:
		kw_ep_end(ep, true);
		break;
	default:
		break;
	}
}

/*
 * What a worker allocates for the endpoint is charged to the process that
 * connects or listens. Start-up may end meanwhile, and free kw_ep.start.
 */
static struct mem_cgroup *kw_ep_charge(struct kw_ep *ep,
				       struct mem_cgroup **before)
{
	struct mem_cgroup *memcg = ep->start ? ep->start->charge.memcg : NULL;

	if (!mem_cgroup_tryget(memcg))
		memcg = NULL;
	*before = set_active_memcg(memcg);
	return memcg;
}

static void kw_ep_uncharge(struct mem_cgroup *memcg, struct mem_cgroup *before)
{
	set_active_memcg(before);
	mem_cgroup_put(memcg);
}

/**
 * kw_ep_step() - check for events of an endpoint and act on them
 * @ep: the endpoint; the caller holds a reference
 *
 * Context: process.
 */
void kw_ep_step(struct kw_ep *ep)
{
	struct mem_cgroup *memcg, *before;

	mutex_lock(&ep->lock);
	memcg = kw_ep_charge(ep, &before);
	if (test_bit(KW_EP_KILLED, &ep->flags))
		kw_ep_fail(ep, -ENODEV);
	else if (test_bit(KW_EP_QP_GONE, &ep->flags))
		kw_ep_fail(ep, -ECONNABORTED);
	switch (ep->state) {
	case KW_EP_CONNECTING:
		kw_connect_step(ep);
		break;
	case KW_EP_AWAIT_REPLY:
		kw_reply_step(ep);
		break;
	case KW_EP_AWAIT_REQUEST:
	case KW_EP_HAVE_REQUEST:
		kw_request_step(ep);
		break;
	case KW_EP_OFFERED:
		kw_offer_step(ep);
		break;
	case KW_EP_AWAIT_KEY:
		if (ep->active)
			kw_reply_key_step(ep);
		else
			kw_accept_key_step(ep);
		break;
	case KW_EP_RUNNING:
		/* The flag before the status: see kw_ep_stream_closed(). */
		if (test_bit_acquire(KW_EP_CLOSED, &ep->flags))
			kw_ep_closed(ep);
		break;
	default:
		break;
	}
	kw_ep_uncharge(memcg, before);
	mutex_unlock(&ep->lock);
}

static void kw_ep_work(struct work_struct *work)
{
	struct kw_ep *ep = container_of(work, struct kw_ep, work);

	kw_ep_step(ep);
	kw_ep_put(ep);
}

static void kw_ep_timer(struct work_struct *work)
{
	struct kw_ep *ep = container_of(to_delayed_work(work), struct kw_ep,
					timer);
	struct mem_cgroup *memcg, *before;

	mutex_lock(&ep->lock);
	memcg = kw_ep_charge(ep, &before);
	if (ep->state == KW_EP_RUNNING || ep->state == KW_EP_DEAD) {
		/* The timer was already running when it was stopped. */
	} else if (time_before(jiffies, ep->start->deadline)) {
		if (ep->state == KW_EP_HAVE_REQUEST)
			kw_request_step(ep);
	} else {
		kw_count(ep->dev, KW_CNT_CONN_TIMEOUTS);
		kw_ep_dbg(ep, "time-out in state %d\n", ep->state);
		kw_ep_fail(ep, -ETIMEDOUT);
	}
	kw_ep_uncharge(memcg, before);
	mutex_unlock(&ep->lock);
	kw_ep_put(ep);
}

/*
 * A device that moves to another network namespace is registered again. The
 * RDMA core calls this before rdma_cm listens on it.
 */
static int kw_cm_enable(struct ib_device *ibdev)
{
	struct kw_device *dev = to_kw_dev(ibdev);

	WRITE_ONCE(dev->announcer, current);
	spin_lock(&dev->eps_lock);
	if (!test_bit(0, &dev->gone))
		WRITE_ONCE(dev->eps_closed, false);
	spin_unlock(&dev->eps_lock);
	return 0;
}

/**
 * kw_cm_device_gone() - end a device's connections that are not streams yet
 * @dev: the device
 *
 * Listeners' sockets are closed; connections in start-up end, active ones with
 * a CONNECT_REPLY of -ENODEV. No others begin: the RDMA core takes the device
 * from its users one after the other, and processes have it until it comes to
 * theirs. Does nothing when there is nothing left to do.
 *
 * Context: process; RTNL may be held.
 */
void kw_cm_device_gone(struct kw_device *dev)
{
	struct kw_ep *ep;
	LIST_HEAD(eps);

	spin_lock(&dev->eps_lock);
	WRITE_ONCE(dev->eps_closed, true);
	spin_unlock(&dev->eps_lock);
	kw_listeners_close(dev);
	spin_lock(&dev->eps_lock);
	list_splice_init(&dev->eps, &eps);
	while (!list_empty(&eps)) {
		ep = list_first_entry(&eps, struct kw_ep, node);
		list_move_tail(&ep->node, &dev->eps);
		set_bit(KW_EP_KILLED, &ep->flags);
		kw_ep_kick(ep);
		/* Those that end meanwhile leave either list. */
		cond_resched_lock(&dev->eps_lock);
	}
	spin_unlock(&dev->eps_lock);
	flush_workqueue(kw_cm_wq);
}

/* The operations for iw_cm; those of the queue pair are in verbs/device.c. */
const struct ib_device_ops kw_cm_ops = {
	.enable_driver = kw_cm_enable,
	.iw_accept = kw_iw_accept,
	.iw_connect = kw_iw_connect,
	.iw_create_listen = kw_iw_create_listen,
	.iw_destroy_listen = kw_iw_destroy_listen,
	.iw_reject = kw_iw_reject,
};

/**
 * kw_cm_init() - set up connection management
 *
 * Context: process, before the first device.
 * Return: 0 or -errno.
 */
int kw_cm_init(void)
{
	/*
	 * A step waits for no peer, but may wait for memory of its own user.
	 * Storage over RDMA reconnects while memory is being reclaimed.
	 */
	kw_cm_wq = alloc_workqueue("kiwarp_cm", WQ_MEM_RECLAIM | WQ_UNBOUND,
				   WQ_MAX_ACTIVE);
	return kw_cm_wq ? 0 : -ENOMEM;
}

/**
 * kw_cm_exit() - undo kw_cm_init()
 *
 * Context: process, after the last device is gone.
 */
void kw_cm_exit(void)
{
	destroy_workqueue(kw_cm_wq);
	kw_offer_exit();
	kw_steps_exit();
	WARN_ON(atomic_read(&kw_eps_alive));
}
