// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Listeners.
 *
 * rdma_cm opens a wildcard listener on every device at once. Each is a socket
 * bound to its device's interface, so that they can share the port with each
 * other and with other software RNICs. For TCP, packets of a host to its own
 * address come in by the interface that has the address, so that such
 * connections find the right listener too.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/inet_connection_sock.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/request_sock.h>
#include <trace/events/sock.h>

#include "cm/cm.h"
#include "compat.h"

/* Connections that are accepted before the work of other listeners may run. */
#define KW_ACCEPT_BATCH	64

/*
 * When to try again to accept after it failed for lack of memory, as with a
 * cgroup at its limit: the first delay, and the longest.
 */
#define KW_ACCEPT_RETRY_MIN	msecs_to_jiffies(10)
#define KW_ACCEPT_RETRY_MAX	msecs_to_jiffies(1000)

static DEFINE_MUTEX(kw_listeners_lock);
static LIST_HEAD(kw_listeners);

static void kw_listener_free(struct kref *ref)
{
	struct kw_listener *l = container_of(ref, struct kw_listener, ref);

	mutex_destroy(&l->lock);
	kw_charge_drop(&l->charge);
	kw_steps_put(l->steps);
	kfree(l);
}

/**
 * kw_listener_get() - take a reference
 * @l: the listener
 *
 * Context: any.
 */
void kw_listener_get(struct kw_listener *l)
{
	kref_get(&l->ref);
}

/**
 * kw_listener_put() - drop a reference
 * @l: the listener
 *
 * Context: process for the last one, otherwise any.
 */
void kw_listener_put(struct kw_listener *l)
{
	kref_put(&l->ref, kw_listener_free);
}

/* The caller holds a reference. */
static void kw_listener_kick(struct kw_listener *l)
{
	kw_listener_get(l);
	if (!queue_delayed_work(kw_cm_wq, &l->work, 0))
		kw_listener_put(l);
}

/*
 * The next connection would have it tried again, too, but may not come for
 * long. While a delay runs, connections that come do not shorten it.
 */
static void kw_listener_retry(struct kw_listener *l)
{
	l->retry = clamp(l->retry * 2, KW_ACCEPT_RETRY_MIN,
			 KW_ACCEPT_RETRY_MAX);
	kw_count(l->dev, KW_CNT_CONN_ACCEPT_RETRIES);
	kw_listener_get(l);
	if (!queue_delayed_work(kw_cm_wq, &l->work, l->retry))
		kw_listener_put(l);
}

/**
 * kw_listener_answered() - a start-up of a listener is over
 * @l: the listener; the endpoint's reference to it is dropped
 * @ep: the endpoint
 *
 * Context: process, kw_ep.lock held.
 */
void kw_listener_answered(struct kw_listener *l, struct kw_ep *ep)
{
	if (kw_half_left(l, ep))
		kw_listener_kick(l);
	kw_listener_put(l);
}

static void kw_listener_ready(struct sock *sk)
{
	struct kw_listener *l;

	trace_sk_data_ready(sk);
	/* Connections inherit the callback and keep it until accepted. */
	if (sk->sk_state != TCP_LISTEN)
		return;
	read_lock_bh(&sk->sk_callback_lock);
	l = __locked_read_sk_user_data_with_flags(sk, SK_USER_DATA_NOCOPY);
	if (l)
		kw_listener_kick(l);
	read_unlock_bh(&sk->sk_callback_lock);
}

static void kw_listener_drop(struct kw_ep *ep)
{
	kw_ep_get(ep);
	mutex_lock(&ep->lock);
	kw_ep_end(ep, true);
	mutex_unlock(&ep->lock);
	kw_ep_put(ep);
}

static void kw_listener_start(struct kw_listener *l, struct kw_ep *ep,
			      struct socket *sock)
{
	u32 peer;

	if (kw_charge_sock(&l->charge, sock)) {
		sock_no_linger(sock->sk);
		sock_release(sock);
		kw_listener_drop(ep);
		return;
	}
	mutex_lock(&ep->lock);
	kw_listener_get(l);
	WRITE_ONCE(ep->listener, l);
	ep->start->steps = l->steps;
	kref_get(&l->steps->ref);
	ep->port = l->port;
	kw_ep_set_state(ep, KW_EP_AWAIT_REQUEST);
	kw_sock_tune(sock, &ep->start->set);
	kw_ep_attach(ep, sock, l->data_ready);
	kw_half_enter(l, ep);
	peer = ep->start->half_peer;
	kw_ep_set_timer(ep, ep->start->set.start_timeout_ms);
	kw_steps_add(l->steps, ep);
	mutex_unlock(&ep->lock);
	kw_half_make_room(l, peer);
}

/* Allocate first: without memory the connection stays in TCP's queue. */
static int kw_listener_accept(struct kw_listener *l, struct socket *sock)
{
	struct socket *newsock;
	struct kw_ep *ep;
	int ret;

	if (reqsk_queue_empty(&inet_csk(sock->sk)->icsk_accept_queue))
		return -EAGAIN;
	ep = kw_ep_create(l->dev, &l->charge);
	if (IS_ERR(ep))
		return PTR_ERR(ep);
	ret = kernel_accept(sock, &newsock, O_NONBLOCK);
	if (ret)
		kw_listener_drop(ep);
	else
		kw_listener_start(l, ep, newsock);
	return ret;
}

/* How many may be accepted now, before others run. */
static u32 kw_listener_room(struct kw_listener *l)
{
	u32 room;

	spin_lock(&l->half.lock);
	room = kw_listener_full(l) ? 0 : KW_ACCEPT_BATCH;
	spin_unlock(&l->half.lock);
	return room;
}

static void kw_listener_work(struct work_struct *work)
{
	struct kw_listener *l = container_of(to_delayed_work(work),
					     struct kw_listener, work);
	struct mem_cgroup *before;
	struct socket *sock;
	int ret = 0;
	u32 room;

	mutex_lock(&l->lock);
	/* Closing clears it, then waits for this work. */
	sock = l->sock;
	mutex_unlock(&l->lock);
	if (!sock)
		goto out;
	before = set_active_memcg(l->charge.memcg);
	for (room = kw_listener_room(l); room; room--) {
		ret = kw_listener_accept(l, sock);
		if (ret)
			break;
		l->retry = 0;
		if (room == 1)
			kw_listener_kick(l);
	}
	set_active_memcg(before);
	/* -EINVAL: the socket does not listen, and never will again. */
	if (ret && ret != -EAGAIN && ret != -EINVAL && ret != -ENODEV)
		kw_listener_retry(l);
out:
	kw_listener_put(l);
}

static void kw_listener_close(struct kw_listener *l)
{
	struct socket *sock;
	struct sock *sk;

	mutex_lock(&l->lock);
	sock = l->sock;
	WRITE_ONCE(l->sock, NULL);
	mutex_unlock(&l->lock);
	if (!sock)
		return;
	sk = sock->sk;
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_data_ready = l->data_ready;
	rcu_assign_sk_user_data(sk, NULL);
	write_unlock_bh(&sk->sk_callback_lock);
	/* Work that is queued from now on finds no socket, and needs no delay. */
	if (cancel_delayed_work_sync(&l->work))
		kw_listener_put(l);
	sock_release(sock);
}

/**
 * kw_listeners_close() - close the sockets of a device's listeners
 * @dev: the device
 *
 * Context: process; RTNL may be held.
 */
void kw_listeners_close(struct kw_device *dev)
{
	struct kw_listener *l;

	mutex_lock(&kw_listeners_lock);
again:
	list_for_each_entry(l, &kw_listeners, node) {
		if (l->dev != dev || !READ_ONCE(l->sock))
			continue;
		kw_listener_get(l);
		mutex_unlock(&kw_listeners_lock);
		kw_listener_close(l);
		kw_listener_put(l);
		mutex_lock(&kw_listeners_lock);
		goto again;
	}
	mutex_unlock(&kw_listeners_lock);
}

static int kw_listener_bind(struct kw_listener *l, struct socket *sock,
			    struct iw_cm_id *id, int ifindex, int backlog)
{
	struct sockaddr_storage addr = id->m_local_addr;
	struct sock *sk = sock->sk;
	struct kw_settings set;
	int ret;

	if (id->tos_set)
		kw_sock_set_tos(sock, id->tos);
	if (addr.ss_family == AF_INET6 && id->afonly)
		ip6_sock_set_v6only(sk);
	if (kw_addr_any(&addr))
		sk->sk_bound_dev_if = ifindex;
	kw_addr_set_scope(&addr, ifindex);
	kw_settings_get(l->dev, &set);
	*kw_addr_port(&addr) = kw_settings_wire_port(&set, l->port);

	ret = kernel_bind(sock, (struct sockaddr_unsized *)&addr, kw_addr_len(&addr));
	if (ret)
		return ret;
	/* A burst of connections waits here until it is accepted. */
	backlog = max(backlog, KW_MIN_HALF_OPEN);
	return kernel_listen(sock, min(backlog,
			READ_ONCE(sock_net(sk)->core.sysctl_somaxconn)));
}

static int kw_listener_open(struct kw_listener *l, struct iw_cm_id *id,
			    struct net *net, int ifindex, int backlog)
{
	struct socket *sock;
	struct sock *sk;
	int ret;

	ret = kw_sock_create(net, id->m_local_addr.ss_family, &sock);
	if (ret)
		return ret;
	sk = sock->sk;
	if (!l->late)
		kw_charge_learn(&l->charge, sock);
	mutex_lock(&l->lock);
	l->sock = sock;
	write_lock_bh(&sk->sk_callback_lock);
	l->data_ready = sk->sk_data_ready;
	sk->sk_data_ready = kw_listener_ready;
	/* Connections must not inherit it: they would count as listeners. */
	__rcu_assign_sk_user_data_with_flags(sk, l, SK_USER_DATA_NOCOPY);
	write_unlock_bh(&sk->sk_callback_lock);
	mutex_unlock(&l->lock);
	ret = kw_listener_bind(l, sock, id, ifindex, backlog);
	if (ret)
		kw_listener_close(l);
	return ret;
}

/*
 * RDMA devices are seen from all network namespaces unless the administrator
 * says otherwise; interfaces are not. A wildcard means every interface of the
 * listener's namespace, and so none here if the interface is in another.
 * rdma_cm treats a loopback address as a wildcard: it belongs to a device on a
 * loopback interface, and other devices do not listen.
 *
 * A namespace may have the interface and not the device ("rdma system set netns
 * exclusive"). rdma_cm would refuse every connection, so there is no port to
 * take. When the device moves there, rdma_cm listens again. So it does when a
 * device that goes comes back. To fail would end wildcards on all devices.
 */
static int kw_listener_begin(struct kw_listener *l, struct iw_cm_id *id,
			     int backlog)
{
	bool loopback = kw_addr_loopback(&id->m_local_addr);
	struct net *net;
	int ifindex;
	int ret = 0;

	net = READ_ONCE(l->dev->eps_closed) ? NULL : kw_dev_net(l->dev, &ifindex);
	if (!net)
		return loopback || kw_addr_any(&id->m_local_addr) ? 0 : -ENODEV;
	if (net_eq(kw_id_net(id), net) &&
	    rdma_dev_access_netns(&l->dev->ib, net) &&
	    (!loopback || ifindex == LOOPBACK_IFINDEX))
		ret = kw_listener_open(l, id, net, ifindex, backlog);
	else if (!loopback && !kw_addr_any(&id->m_local_addr))
		ret = -EADDRNOTAVAIL;
	put_net(net);
	return ret;
}

/*
 * While a device is registered, rdma_cm listens on it for all wildcard
 * identifiers that there are. If one fails rdma_cm drops the device, which any
 * process could cause by binding a port. So the listener has no socket then.
 */
static int kw_listener_begin_late(struct kw_listener *l, struct iw_cm_id *id,
				  int backlog)
{
	int ret = kw_listener_begin(l, id, backlog);

	if (!ret || (!kw_addr_any(&id->m_local_addr) &&
		     !kw_addr_loopback(&id->m_local_addr)))
		return ret;
	ibdev_warn_ratelimited(&l->dev->ib, "no listener on port %u: error %d\n",
			       be16_to_cpu(l->port), ret);
	return 0;
}

/**
 * kw_iw_create_listen() - listen (iw_create_listen)
 * @id: iw_cm's identifier with the local address
 * @backlog: connections that may wait, in TCP and as requests not yet answered
 *
 * While a device is registered rdma_cm calls this for listeners of others.
 *
 * Context: process.
 * Return: 0 or -errno, as bind() and listen() give it.
 */
int kw_iw_create_listen(struct iw_cm_id *id, int backlog)
{
	struct kw_listener *l;
	int ret;

	if (!kw_addr_len(&id->m_local_addr))
		return -EAFNOSUPPORT;
	l = kzalloc(sizeof(*l), GFP_KERNEL_ACCOUNT);
	if (!l)
		return -ENOMEM;
	l->steps = kw_steps_create();
	if (!l->steps) {
		kfree(l);
		return -ENOMEM;
	}
	kref_init(&l->ref);
	mutex_init(&l->lock);
	INIT_DELAYED_WORK(&l->work, kw_listener_work);
	kw_half_init(&l->half);
	INIT_LIST_HEAD(&l->requests);
	l->dev = to_kw_dev(id->device);
	l->limit = max(backlog, KW_MIN_PENDING);
	l->max_half = max(backlog, KW_MIN_HALF_OPEN);
	l->cm_id = id;
	l->port = *kw_addr_port(&id->local_addr);
	l->late = READ_ONCE(l->dev->announcer) == current;
	if (l->late) {
		kw_charge_root(&l->charge);
		ret = kw_listener_begin_late(l, id, backlog);
	} else {
		kw_charge_current(&l->charge);
		ret = kw_listener_begin(l, id, backlog);
	}
	if (ret) {
		kw_listener_put(l);
		return ret;
	}
	id->add_ref(id);
	id->provider_data = l;
	mutex_lock(&kw_listeners_lock);
	list_add_tail(&l->node, &kw_listeners);
	mutex_unlock(&kw_listeners_lock);
	/* kw_listeners_close() may have come before that. */
	if (READ_ONCE(l->dev->eps_closed))
		kw_listener_close(l);
	return 0;
}

/**
 * kw_iw_destroy_listen() - stop listening (iw_destroy_listen)
 * @id: iw_cm's identifier
 *
 * Start-ups that the consumer has not seen end; those that iw_cm has no room
 * for when they try again. Requests that iw_cm holds stay valid.
 *
 * Context: process.
 * Return: 0.
 */
int kw_iw_destroy_listen(struct iw_cm_id *id)
{
	struct kw_listener *l = id->provider_data;

	if (!l)
		return 0;
	id->provider_data = NULL;
	mutex_lock(&kw_listeners_lock);
	list_del(&l->node);
	mutex_unlock(&kw_listeners_lock);

	kw_listener_close(l);
	mutex_lock(&l->lock);
	WRITE_ONCE(l->cm_id, NULL);
	mutex_unlock(&l->lock);
	kw_half_kick(l);
	kw_listener_put(l);
	id->rem_ref(id);
	return 0;
}
