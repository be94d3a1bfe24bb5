// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The active side: TCP connects, the MPA request goes out, the reply comes in.
 * In revision 0 private data are exchanged before, in streaming mode, and the
 * Start Keys follow. The initiator is "passive" there and sends its own before
 * it has the responder's.
 */
#include <linux/slab.h>
#include <net/inet_sock.h>
#include <net/ip.h>
#include <net/net_namespace.h>

#include "cm/cm.h"
#include "compat.h"

/*
 * Find the namespace to connect in. The consumer and the interface are in one
 * namespace, with one exception: to a loopback address rdma_cm connects by the
 * first device that it finds. Then it is the consumer's namespace.
 */
static int kw_connect_find_net(struct kw_ep *ep)
{
	struct net *net = kw_id_net(ep->cm_id);
	struct kw_start *st = ep->start;

	st->net = kw_dev_net(ep->dev, &st->ifindex);
	if (!st->net)
		return -ENODEV;
	if (net_eq(net, st->net))
		return 0;
	if (!kw_addr_loopback(&ep->cm_id->m_remote_addr))
		return -EADDRNOTAVAIL;
	put_net(st->net);
	st->net = get_net(net);
	return 0;
}

/*
 * rdma_cm chooses a port from its own table if the consumer asks for none, and
 * cannot know that TCP has the port in use. Such a port may be replaced. One
 * that a consumer chose outside the ephemeral range may not.
 */
static bool kw_connect_port_taken(struct sock *sk, int err,
				  struct sockaddr_storage *local)
{
	__be16 *port = kw_addr_port(local);
	int low, high;

	if ((err != -EADDRINUSE && err != -EADDRNOTAVAIL) || !*port)
		return false;
	inet_sk_get_local_port_range(sk, &low, &high);
	if (ntohs(*port) < low || ntohs(*port) > high)
		return false;
	*port = 0;
	return true;
}

/* A port that the port mapper has mapped already is the one on the wire. */
static int kw_connect_find_peer(struct kw_ep *ep)
{
	struct sockaddr_storage *asked = &ep->cm_id->remote_addr;
	struct kw_start *st = ep->start;
	__be16 *port = kw_addr_port(&st->peer);

	st->peer = ep->cm_id->m_remote_addr;
	if (*port == *kw_addr_port(asked))
		*port = kw_settings_wire_port(&st->set, *port);
	kw_addr_set_scope(&st->peer, st->ifindex);
	return kw_steps_choose(ep);
}

static int kw_connect_once(struct kw_ep *ep, struct sockaddr_storage *local,
			   bool *again)
{
	struct kw_start *st = ep->start;
	struct socket *sock;
	int ret;

	kw_addr_set_scope(local, st->ifindex);
	*again = false;

	ret = kw_sock_create(st->net, local->ss_family, &sock);
	if (ret)
		return ret;
	/* The consumer itself makes the first one, the worker others. */
	if (current->flags & PF_WQ_WORKER)
		ret = kw_charge_sock(&st->charge, sock);
	else
		kw_charge_learn(&st->charge, sock);
	if (ret) {
		sock_release(sock);
		return ret;
	}
	kw_sock_tune(sock, &st->set);
	if (ep->cm_id->tos_set)
		kw_sock_set_tos(sock, ep->cm_id->tos);
	/* Without it bind() would look for a port free for every peer. */
	if (!*kw_addr_port(local))
		inet_set_bit(BIND_ADDRESS_NO_PORT, sock->sk);

	kw_ep_attach(ep, sock, NULL);
	ret = kernel_bind(sock, (struct sockaddr_unsized *)local, kw_addr_len(local));
	if (!ret)
		ret = kernel_connect(sock, (struct sockaddr_unsized *)&st->peer,
				     kw_addr_len(&st->peer), O_NONBLOCK);
	if (!ret || ret == -EINPROGRESS)
		return 0;
	*again = kw_connect_port_taken(sock->sk, ret, local);
	kw_ep_drop_sock(ep, true);
	return ret;
}

static int kw_connect_start(struct kw_ep *ep)
{
	struct sockaddr_storage local = ep->cm_id->m_local_addr;
	bool again;
	int ret;

	ret = kw_connect_once(ep, &local, &again);
	if (again)
		ret = kw_connect_once(ep, &local, &again);
	if (ret)
		return ret;
	memset(&ep->start->frame, 0, sizeof(ep->start->frame));
	ep->start->rx_len = 0;
	ep->start->key_len = 0;
	kw_ep_set_state(ep, KW_EP_CONNECTING);
	kw_ep_set_timer(ep, ep->start->set.connect_timeout_ms);
	kw_steps_add(ep->start->steps, ep);
	return 0;
}

/*
 * Report to the consumer. iw_cm copies private data without sleeping, and must
 * get a reply even if it has no memory for that.
 */
static int kw_connect_report(struct kw_ep *ep, struct iw_cm_event *event)
{
	struct iw_cm_id *id = ep->cm_id;
	int ret;

	event->event = IW_CM_EVENT_CONNECT_REPLY;
	if (event->private_data_len) {
		ret = id->event_handler(id, event);
		if (!ret)
			return 0;
		event->private_data_len = 0;
		if (!event->status)
			event->status = ret;
	}
	id->event_handler(id, event);
	return event->status;
}

/* All or none: a part would pass for the whole. Returns false for none. */
static bool kw_connect_give_pd(struct kw_ep *ep, struct iw_cm_event *event)
{
	u32 len;

	event->private_data = (void *)kw_start_pd(ep, &len);
	event->private_data_len = len > KW_CM_PD_MAX ? 0 : len;
	return len <= KW_CM_PD_MAX;
}

static void kw_connect_refused(struct kw_ep *ep)
{
	struct iw_cm_event event;

	kw_count(ep->dev, KW_CNT_CONN_REFUSED);
	kw_ep_fill_event(ep, &event);
	event.status = -ECONNREFUSED;
	kw_connect_give_pd(ep, &event);
	kw_connect_report(ep, &event);
	kw_ep_end(ep, true);
}

/**
 * kw_connect_fail() - report that the connection failed
 * @ep: an active endpoint that has reported no event to its consumer yet
 * @status: -errno for the consumer
 *
 * Context: process, kw_ep.lock held.
 */
void kw_connect_fail(struct kw_ep *ep, int status)
{
	struct iw_cm_event event;

	kw_ep_dbg(ep, "connect failed in state %d: %d\n", ep->state, status);
	kw_ep_fill_event(ep, &event);
	event.status = status;
	kw_connect_report(ep, &event);
	kw_ep_end(ep, true);
}

/* The same, with a Terminate: the peer is in FPDU mode from its reply on. */
static void kw_connect_terminate(struct kw_ep *ep, u16 code, int status)
{
	/* Revisions before 2 have none of these codes. */
	if (ep->start->rev == 2) {
		kw_start_terminate(ep, code);
		kw_ep_drop_sock(ep, false);
	}
	kw_connect_fail(ep, status);
}

/**
 * kw_connect_step() - continue when TCP may have connected
 * @ep: an endpoint in state %KW_EP_CONNECTING
 *
 * Context: process, kw_ep.lock held.
 */
void kw_connect_step(struct kw_ep *ep)
{
	int ret;

	/* A second call returns the outcome of the first. */
	ret = kernel_connect(ep->sock, (struct sockaddr_unsized *)&ep->start->peer,
			     kw_addr_len(&ep->start->peer), O_NONBLOCK);
	if (ret == -EALREADY || ret == -EINPROGRESS)
		return;
	if (!ret || ret == -EISCONN)
		ret = kw_start_request(ep);
	if (!ret) {
		kw_ep_set_state(ep, KW_EP_AWAIT_REPLY);
		kw_ep_set_timer(ep, ep->start->set.reply_timeout_ms);
		kw_reply_step(ep);
		return;
	}
	if (ret == -ECONNREFUSED)
		kw_count(ep->dev, KW_CNT_CONN_REFUSED);
	else if (ret == -ETIMEDOUT)
		kw_count(ep->dev, KW_CNT_CONN_TIMEOUTS);
	else if (ret == -ECONNRESET)
		kw_count(ep->dev, KW_CNT_CONN_RESET);
	kw_connect_fail(ep, ret);
}

/*
 * A reply of revision 0 to a request of revision 1, from an RNIC of the RDMA
 * Consortium's specifications: the connection continues with their versions.
 */
static bool kw_reply_is_rdmac(const struct kw_ep *ep)
{
	const struct kw_start *st = ep->start;

	return st->rev == 1 && !st->frame.rev && st->set.mpa_rev_accept & BIT(0);
}

static bool kw_connect_closed(int err)
{
	return err == -ESHUTDOWN || err == -ECONNRESET || err == -EPIPE;
}

/*
 * A responder that knows only an earlier revision answers with that, or closes.
 * It is asked once more on a new connection (RFC 6581 section 10), with the
 * next earlier revision that the settings allow.
 */
static bool kw_connect_fall_back(struct kw_ep *ep, int err)
{
	const struct kw_start *st = ep->start;
	u32 earlier = st->set.mpa_rev_accept & (BIT(st->rev) - 1);

	if (!earlier || (err && !kw_connect_closed(err)) ||
	    (!err && kw_reply_is_rdmac(ep)))
		return false;
	return err || st->frame.rev < st->rev;
}

static void kw_connect_retry(struct kw_ep *ep)
{
	struct kw_start *st = ep->start;
	int ret;

	st->rev = __fls(st->set.mpa_rev_accept & (BIT(st->rev) - 1));
	kw_count(ep->dev, KW_CNT_CONN_FALLBACKS);
	kw_ep_dbg(ep, "trying MPA revision %u\n", st->rev);
	kw_ep_drop_sock(ep, true);
	ret = kw_connect_start(ep);
	if (ret)
		kw_connect_fail(ep, ret);
}

static void kw_connect_run(struct kw_ep *ep, struct kw_stream_params *params)
{
	struct kw_qp *qp = ep->qp;
	struct iw_cm_event event;
	int ret;

	kw_qp_get(qp);
	kw_ep_fill_event(ep, &event);
	kw_connect_give_pd(ep, &event);

	ret = kw_ep_run(ep, qp, params);
	if (ret) {
		kw_connect_terminate(ep, KW_TERM_MPA_CATASTROPHIC, ret);
		goto out;
	}
	if (kw_connect_report(ep, &event)) {
		/* The consumer has seen no connection, and gets no CLOSE. */
		ep->cm_id->rem_ref(ep->cm_id);
		ep->cm_id = NULL;
		kw_qp_fail(qp);
	} else {
		kw_count(ep->dev, KW_CNT_CONN_ESTABLISHED);
	}
	kw_ep_free_start(ep);
out:
	kw_qp_put(qp);
}

static void kw_connect_done(struct kw_ep *ep)
{
	struct kw_stream_params params;
	u16 code = kw_negotiate_active(ep, &params);
	u32 len;

	kw_start_pd(ep, &len);
	if (!code && len > KW_CM_PD_MAX) {
		kw_connect_terminate(ep, KW_TERM_MPA_CATASTROPHIC, -EMSGSIZE);
		return;
	}
	if (!code) {
		kw_connect_run(ep, &params);
		return;
	}
	kw_count(ep->dev, KW_CNT_CONN_BAD_START);
	kw_connect_terminate(ep, code, code == KW_TERM_MPA_NO_IRD ? -ENOMEM :
								    -EPROTO);
}

static enum kw_counter kw_reply_counter(int err)
{
	switch (err) {
	case -EPROTO:
		return KW_CNT_CONN_BAD_START;
	case -ETIMEDOUT:
		return KW_CNT_CONN_TIMEOUTS;
	default:
		return KW_CNT_CONN_RESET;
	}
}

/* The frame that is awaited can not come any more, or is not valid. */
static void kw_reply_bad(struct kw_ep *ep, int err)
{
	if (err == -ESHUTDOWN && !ep->start->rev) {
		kw_connect_refused(ep);
		return;
	}
	kw_count(ep->dev, kw_reply_counter(err));
	kw_connect_fail(ep, kw_connect_closed(err) ? -ECONNRESET : err);
}

static u8 kw_reply_kind(const struct kw_ep *ep)
{
	if (ep->start->rev)
		return KW_MPA_REP;
	return ep->start->pd_len ? KW_MPA_PRIV : KW_MPA_START;
}

/* Does the reply fit the request? Enhanced data are answered with such. */
static bool kw_reply_fits(const struct kw_ep *ep)
{
	const struct kw_start *st = ep->start;

	if (kw_reply_is_rdmac(ep))
		return true;
	return st->frame.rev == st->rev &&
	       (st->frame.enhanced || st->frame.reject || st->rev != 2);
}

/**
 * kw_reply_step() - continue when the responder's first frame may have come
 * @ep: an endpoint in state %KW_EP_AWAIT_REPLY
 *
 * Context: process, kw_ep.lock held.
 */
void kw_reply_step(struct kw_ep *ep)
{
	int ret = kw_start_read(ep, kw_reply_kind(ep));

	if (ret == -EAGAIN)
		return;
	if (kw_connect_fall_back(ep, ret)) {
		kw_connect_retry(ep);
		return;
	}
	if (!ret && !kw_reply_fits(ep))
		ret = -EPROTO;
	if (!ret && ep->start->frame.reject) {
		kw_connect_refused(ep);
		return;
	}
	if (!ret && ep->start->frame.kind == KW_MPA_PRIV)
		ret = kw_start_key(ep, ep->start->set.crc);
	if (ret) {
		kw_reply_bad(ep, ret);
	} else if (ep->start->frame.kind == KW_MPA_PRIV) {
		kw_ep_set_state(ep, KW_EP_AWAIT_KEY);
		kw_ep_set_timer(ep, ep->start->set.start_timeout_ms);
		kw_reply_key_step(ep);
	} else {
		kw_connect_done(ep);
	}
}

/**
 * kw_reply_key_step() - continue when the responder's Start Key may have come
 * @ep: an active endpoint in state %KW_EP_AWAIT_KEY
 *
 * Context: process, kw_ep.lock held.
 */
void kw_reply_key_step(struct kw_ep *ep)
{
	int ret = kw_start_read_key(ep);

	if (ret == -EAGAIN)
		return;
	if (ret)
		kw_reply_bad(ep, ret);
	else
		kw_connect_done(ep);
}

static int kw_connect_check(struct iw_cm_id *id, struct iw_cm_conn_param *param,
			    u8 rev)
{
	u32 room = KW_MPA_PD_MAX - (rev == 2 ? KW_MPA_ENH_LEN : 0);

	if (!kw_addr_len(&id->m_remote_addr) ||
	    id->m_local_addr.ss_family != id->m_remote_addr.ss_family)
		return -EAFNOSUPPORT;
	return param->private_data_len > room ? -EINVAL : 0;
}

static int kw_connect_fill(struct kw_ep *ep, struct iw_cm_conn_param *param)
{
	struct kw_start *st = ep->start;

	ep->active = true;
	ep->ird = min(param->ird, st->set.ird_max);
	ep->ord = min(param->ord, st->set.ord_max);
	if (param->private_data_len) {
		st->pd = kmemdup(param->private_data, param->private_data_len,
				 GFP_KERNEL_ACCOUNT);
		if (!st->pd)
			return -ENOMEM;
		st->pd_len = param->private_data_len;
	}
	kw_negotiate_offer(ep);
	return 0;
}

static int kw_connect_find_qp(struct kw_ep *ep, u32 qpn)
{
	struct kw_qp *qp;
	int ret;

	ret = kw_ep_find_qp(ep, ep->cm_id, qpn, &qp);
	if (ret)
		return ret;
	ret = kw_ep_wait_with(ep, qp);
	kw_qp_put(qp);
	return ret;
}

/**
 * kw_iw_connect() - connect a queue pair (iw_connect)
 * @id: iw_cm's identifier with both addresses
 * @param: queue pair, depths and private data: at most 508 bytes with
 *	revision 2, 512 with revisions 1 and 0
 *
 * Returns as soon as TCP has begun to connect. Exactly one CONNECT_REPLY event
 * has the outcome. Its status is 0 or:
 *
 * -ECONNREFUSED: the peer refused or rejected; then with its private data,
 * unless they are more than %KW_CM_PD_MAX.
 * -EMSGSIZE: the peer accepted, but its private data are more than that.
 * -ECONNRESET: the peer closed the connection.
 * -ETIMEDOUT: a time-out of the settings.
 * -EPROTO: the peer does not speak MPA, or offers no way to start that we know.
 * -ENOMEM: the peer wants more reads than we serve.
 * -ENODEV: the device goes away.
 * -ECONNABORTED: the queue pair goes away.
 * Otherwise TCP's error.
 *
 * Context: process.
 * Return: 0; or -errno, and no event follows: -EPERM if the queue pair is
 * another's, -EINVAL if there is none or the private data are too long, -ENODEV
 * if the device goes away.
 */
int kw_iw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct kw_device *dev = to_kw_dev(id->device);
	struct kw_ep *ep;
	int ret;

	ep = kw_ep_create(dev, NULL);
	if (IS_ERR(ep))
		return PTR_ERR(ep);

	kw_ep_get(ep);
	mutex_lock(&ep->lock);
	ep->start->rev = ep->start->set.mpa_rev;
	id->add_ref(id);
	ep->cm_id = id;
	ret = kw_connect_check(id, param, ep->start->rev);
	if (!ret)
		ret = kw_connect_find_qp(ep, param->qpn);
	if (!ret)
		ret = kw_connect_find_net(ep);
	if (!ret)
		ret = kw_connect_fill(ep, param);
	if (!ret)
		ret = kw_connect_find_peer(ep);
	if (!ret)
		ret = kw_connect_start(ep);
	if (ret)
		kw_ep_end(ep, true);
	mutex_unlock(&ep->lock);
	kw_ep_put(ep);
	return ret;
}
