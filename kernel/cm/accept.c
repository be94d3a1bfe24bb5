// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The passive side: the MPA request comes in, the consumer decides, the reply
 * goes out. In revision 0 private data may do so in streaming mode, and the
 * Start Keys follow: the responder, "active" there, waits for the initiator's.
 */
#include "cm/cm.h"

/* How soon to try iw_cm again that had no room for a request. */
#define KW_OFFER_RETRY_MS	10

/**
 * struct kw_accepting - a process that waits in kw_iw_accept()
 * @handler: the consumer's own, to be put back
 * @established: iw_cm has processed ESTABLISHED
 */
struct kw_accepting {
	iw_cm_handler handler;
	struct completion established;
};

/* Endpoints that wait for their consumer, by the number that iw_cm has. */
static DEFINE_XARRAY_FLAGS(kw_offers, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
static u32 kw_offers_next;

/**
 * kw_offer_exit() - free the table, when no endpoint is left
 *
 * Context: process.
 */
void kw_offer_exit(void)
{
	xa_destroy(&kw_offers);
}

/**
 * kw_offer_forget() - invalidate iw_cm's number for an endpoint
 * @ep: the endpoint
 *
 * Context: process, kw_ep.lock held.
 */
void kw_offer_forget(struct kw_ep *ep)
{
	if (ep->handle)
		xa_cmpxchg(&kw_offers, ep->handle, ep, NULL, GFP_KERNEL);
	ep->handle = 0;
}

/*
 * The caller that takes the endpoint out of the table answers. An endpoint in
 * the table is alive, so that taking a reference is safe.
 */
static struct kw_ep *kw_offer_claim(struct iw_cm_id *id)
{
	unsigned long handle = (unsigned long)id->provider_data;
	struct kw_ep *ep;

	xa_lock(&kw_offers);
	ep = __xa_erase(&kw_offers, handle);
	if (ep)
		kw_ep_get(ep);
	xa_unlock(&kw_offers);
	return ep;
}

static int kw_offer_send(struct kw_ep *ep, struct iw_cm_event *event)
{
	struct kw_listener *l = ep->listener;
	int ret = -ECONNABORTED;

	mutex_lock(&l->lock);
	if (l->cm_id)
		ret = l->cm_id->event_handler(l->cm_id, event);
	mutex_unlock(&l->lock);
	return ret;
}

/* Tell the peer of a rejection that is not the consumer's own. */
static void kw_accept_refuse(struct kw_ep *ep)
{
	kw_count(ep->dev, KW_CNT_CONN_REJECTED);
	kw_start_reject(ep, NULL, 0);
	kw_ep_end(ep, false);
}

/* Pass the request to the consumer. */
static void kw_request_offer(struct kw_ep *ep)
{
	struct iw_cm_event event;
	u32 len;
	int ret;

	if (!kw_half_is_next(ep))
		return;
	ret = xa_alloc_cyclic(&kw_offers, &ep->handle, ep, xa_limit_32b,
			      &kw_offers_next, GFP_KERNEL);
	if (ret < 0) {
		ep->handle = 0;
		kw_ep_end(ep, true);
		return;
	}
	/* A request without depths: the consumer may choose up to our limits. */
	ep->ird = ep->start->set.ird_max;
	ep->ord = ep->start->set.ord_max;
	kw_ep_fill_event(ep, &event);
	event.event = IW_CM_EVENT_CONNECT_REQUEST;
	event.provider_data = (void *)(unsigned long)ep->handle;
	event.private_data = (void *)kw_start_pd(ep, &len);
	event.private_data_len = len;

	ret = kw_offer_send(ep, &event);
	if (!ret) {
		kw_ep_set_state(ep, KW_EP_OFFERED);
		kw_ep_set_timer(ep, ep->start->set.offer_timeout_ms);
		kw_half_offered(ep->listener, ep);
		return;
	}
	kw_offer_forget(ep);
	if (ret == -ENOMEM)
		kw_ep_retry_in(ep, KW_OFFER_RETRY_MS);
	else
		kw_ep_end(ep, true);
}

static void kw_request_bad(struct kw_ep *ep, int err)
{
	kw_count(ep->dev, err == -EPROTO ? KW_CNT_CONN_BAD_START :
					   KW_CNT_CONN_RESET);
	kw_ep_dbg(ep, "start-up failed in state %d: %d\n", ep->state, err);
	kw_ep_end(ep, true);
}

static u8 kw_request_kinds(const struct kw_ep *ep)
{
	u8 kinds = KW_MPA_REQ;

	if (ep->start->set.mpa_rev_accept & BIT(0))
		kinds |= KW_MPA_START | KW_MPA_PRIV;
	return kinds;
}

/**
 * kw_request_step() - continue when the first frame came, there is a place for
 *	the request, or iw_cm has room
 * @ep: an endpoint in state %KW_EP_AWAIT_REQUEST or %KW_EP_HAVE_REQUEST
 *
 * Context: process, kw_ep.lock held.
 */
void kw_request_step(struct kw_ep *ep)
{
	const struct kw_start *st = ep->start;
	u32 len;
	int ret;

	if (!READ_ONCE(ep->listener->cm_id)) {
		kw_ep_end(ep, true);
		return;
	}
	if (ep->state == KW_EP_AWAIT_REQUEST) {
		ret = kw_start_read(ep, kw_request_kinds(ep));
		if (ret == -EAGAIN)
			return;
		if (!ret && !(st->set.mpa_rev_accept & BIT(st->frame.rev)))
			ret = -EPROTO;
		if (ret) {
			kw_request_bad(ep, ret);
			return;
		}
		kw_ep_set_state(ep, KW_EP_HAVE_REQUEST);
	}
	ret = kw_start_peer_silent(ep);
	if (ret) {
		kw_request_bad(ep, ret);
		return;
	}
	if (!kw_half_asked(ep))
		return;
	kw_start_pd(ep, &len);
	if (len > KW_CM_PD_MAX)
		kw_accept_refuse(ep);
	else
		kw_request_offer(ep);
}

/**
 * kw_offer_step() - something came from a peer that has to wait for our reply
 * @ep: an endpoint in state %KW_EP_OFFERED
 *
 * A consumer that answers after this gets -ECONNRESET.
 *
 * Context: process, kw_ep.lock held.
 */
void kw_offer_step(struct kw_ep *ep)
{
	int ret = kw_start_peer_silent(ep);

	if (ret)
		kw_request_bad(ep, ret);
}

/* Report ESTABLISHED. iw_cm keeps room for this event: it cannot fail. */
static void kw_accept_report(struct kw_ep *ep, struct iw_cm_event *event)
{
	event->event = IW_CM_EVENT_ESTABLISHED;
	ep->cm_id->event_handler(ep->cm_id, event);
}

static int kw_accept_run(struct kw_ep *ep, struct kw_qp *qp, const void *pd,
			 u32 pd_len)
{
	struct kw_stream_params params;
	struct iw_cm_event event;
	int ret;

	kw_negotiate_passive(ep, &params);
	kw_ep_fill_event(ep, &event);
	if (ep->state == KW_EP_AWAIT_KEY)
		ret = kw_start_key(ep, params.crc);
	else
		ret = kw_start_reply(ep, &params, pd, pd_len);
	if (!ret)
		ret = kw_ep_run(ep, qp, &params);
	if (ret)
		return ret;
	kw_count(ep->dev, KW_CNT_CONN_ACCEPTED);
	kw_accept_report(ep, &event);
	kw_ep_free_start(ep);
	return 0;
}

/*
 * The consumer has accepted. In revision 0 with private data the first answer
 * does not yet start the stream.
 */
static int kw_accept_private(struct kw_ep *ep, struct kw_qp *qp, const void *pd,
			     u32 pd_len)
{
	int ret = kw_ep_wait_with(ep, qp);

	if (ret)
		return ret;
	ret = kw_start_reply(ep, &(struct kw_stream_params) {}, pd, pd_len);
	if (ret)
		return ret;
	kw_ep_set_state(ep, KW_EP_AWAIT_KEY);
	kw_ep_set_timer(ep, ep->start->set.start_timeout_ms);
	kw_ep_kick(ep);
	return 0;
}

static int kw_accept_start(struct kw_ep *ep, struct iw_cm_id *id,
			   struct kw_qp *qp,
			   const struct iw_cm_conn_param *param)
{
	const void *pd = param->private_data;
	u32 pd_len = param->private_data_len;
	int ret;

	ret = kw_start_peer_silent(ep);
	if (ret)
		return ret == -ESHUTDOWN ? -ECONNRESET : ret;
	if (qp->owner && ep->listener->late) {
		ret = kw_charge_sock_current(ep->sock);
		if (ret)
			return ret;
	}
	ep->ird = param->ird;
	ep->ord = param->ord;
	id->add_ref(id);
	ep->cm_id = id;
	if (ep->start->frame.kind == KW_MPA_PRIV)
		return kw_accept_private(ep, qp, pd, pd_len);
	return kw_accept_run(ep, qp, pd, pd_len);
}

/**
 * kw_accept_fail() - end a connection that was accepted but not established
 * @ep: a passive endpoint in state %KW_EP_AWAIT_KEY
 * @status: -errno for the consumer
 *
 * After iw_accept has returned 0 iw_cm takes only this: the connection was
 * established, and is closed.
 *
 * Context: process, kw_ep.lock held.
 */
void kw_accept_fail(struct kw_ep *ep, int status)
{
	struct iw_cm_event event;
	struct kw_qp *qp = ep->qp;

	kw_ep_dbg(ep, "start-up failed after accept: %d\n", status);
	kw_ep_fill_event(ep, &event);
	event.status = status;
	kw_accept_report(ep, &event);
	/* Who hears of the end may connect the queue pair again. */
	kw_qp_start_failed(qp);
	event.event = IW_CM_EVENT_CLOSE;
	ep->cm_id->event_handler(ep->cm_id, &event);
	kw_ep_end(ep, true);
}

/**
 * kw_accept_key_step() - the initiator's Start Key may have come
 * @ep: a passive endpoint in state %KW_EP_AWAIT_KEY
 *
 * Context: process, kw_ep.lock held.
 */
void kw_accept_key_step(struct kw_ep *ep)
{
	struct kw_qp *qp = ep->qp;
	int ret = kw_start_read_key(ep);

	if (ret == -EAGAIN)
		return;
	if (!ret)
		ret = kw_start_peer_silent(ep);
	kw_qp_get(qp);
	if (!ret)
		ret = kw_accept_run(ep, qp, NULL, 0);
	if (ret) {
		kw_count(ep->dev, ret == -EPROTO ? KW_CNT_CONN_BAD_START :
						   KW_CNT_CONN_RESET);
		kw_accept_fail(ep, ret == -ESHUTDOWN ? -ECONNRESET : ret);
	}
	kw_qp_put(qp);
}

/* iw_cm has changed its state, and calls the consumer: the wait is over. */
static int kw_accept_heard(struct iw_cm_id *id, struct iw_cm_event *event)
{
	struct kw_accepting *acc = id->provider_data;
	iw_cm_handler handler = acc->handler;

	id->cm_handler = handler;
	id->provider_data = NULL;
	complete(&acc->established);
	return handler(id, event);
}

/*
 * Until iw_cm has processed ESTABLISHED it takes the request for unanswered. It
 * lets a second accept, or a reject, pass, and hits a BUG() when the event
 * comes. A process may try that at any time. rdma_ucm serialises calls per
 * identifier, so waiting here prevents a second answer. Kernel consumers accept
 * in iw_cm's own work item, where waiting would never end. They have no reason
 * to answer twice.
 */
static void kw_accept_listen_in(struct kw_accepting *acc, struct iw_cm_id *id)
{
	init_completion(&acc->established);
	acc->handler = id->cm_handler;
	id->provider_data = acc;
	id->cm_handler = kw_accept_heard;
}

static void kw_accept_unlisten(struct kw_accepting *acc, struct iw_cm_id *id)
{
	id->cm_handler = acc->handler;
	id->provider_data = NULL;
}

/*
 * iw_cm's work items do not wait for the peer, but start-up of revision 0 may.
 * Killing the process ends the wait.
 */
static void kw_accept_await(struct kw_accepting *acc, struct kw_ep *ep)
{
	if (!wait_for_completion_killable(&acc->established))
		return;
	set_bit(KW_EP_QP_GONE, &ep->flags);
	kw_ep_kick(ep);
	wait_for_completion(&acc->established);
}

/* The consumer's answer. kw_ep.lock held. */
static int kw_accept_answer(struct kw_ep *ep, struct iw_cm_id *id,
			    struct kw_qp *qp,
			    const struct iw_cm_conn_param *param,
			    struct kw_accepting *acc)
{
	int ret;

	if (qp->owner)
		kw_accept_listen_in(acc, id);
	ret = kw_accept_start(ep, id, qp, param);
	if (!ret)
		return 0;
	if (qp->owner)
		kw_accept_unlisten(acc, id);
	kw_ep_end(ep, true);
	return ret;
}

/**
 * kw_iw_accept() - accept a connection request (iw_accept)
 * @id: iw_cm's identifier for the new connection
 * @param: queue pair, depths and private data: at most 508 bytes if the
 *	request has enhanced data (revision 2), none if revision 0's initiator
 *	had none, 512 otherwise
 *
 * Every error ends the connection: iw_cm gives no second chance.
 *
 * Context: process; for a process's queue pair it waits until iw_cm has
 * processed the ESTABLISHED event.
 * Return: 0, and an ESTABLISHED event follows, or has come. -ECONNRESET if the
 * peer is gone; -EINVAL on a bad queue pair or too long private data; -EPERM if
 * the queue pair is another's; or -errno.
 */
int kw_iw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param)
{
	struct kw_ep *ep = kw_offer_claim(id);
	struct kw_qp *qp = NULL;
	struct kw_accepting acc;
	int ret;

	if (!ep)
		return -ECONNRESET;
	mutex_lock(&ep->lock);
	if (ep->state != KW_EP_OFFERED) {
		ret = -ECONNRESET;
	} else if (param->private_data_len > kw_start_pd_room(ep)) {
		ret = -EINVAL;
		kw_accept_refuse(ep);
	} else {
		ret = kw_ep_find_qp(ep, id, param->qpn, &qp);
		if (ret)
			kw_accept_refuse(ep);
		else
			ret = kw_accept_answer(ep, id, qp, param, &acc);
	}
	mutex_unlock(&ep->lock);
	if (!ret && qp->owner)
		kw_accept_await(&acc, ep);
	if (qp)
		kw_qp_put(qp);
	kw_ep_put(ep);
	return ret;
}

/**
 * kw_iw_reject() - reject a connection request (iw_reject)
 * @id: iw_cm's identifier for the new connection
 * @pdata: private data
 * @len: bytes of @pdata, none if revision 0's initiator had none
 *
 * Every error ends the connection.
 *
 * Context: process.
 * Return: 0; -ECONNRESET if the peer is gone; -EINVAL on too long private data;
 * or -errno.
 */
int kw_iw_reject(struct iw_cm_id *id, const void *pdata, u8 len)
{
	struct kw_ep *ep = kw_offer_claim(id);
	int ret = -ECONNRESET;

	if (!ep)
		return ret;
	mutex_lock(&ep->lock);
	if (ep->state == KW_EP_OFFERED && len > kw_start_pd_room(ep)) {
		ret = -EINVAL;
		kw_accept_refuse(ep);
	} else if (ep->state == KW_EP_OFFERED) {
		kw_count(ep->dev, KW_CNT_CONN_REJECTED);
		ret = kw_start_reject(ep, pdata, len);
		kw_ep_end(ep, ret);
	}
	mutex_unlock(&ep->lock);
	kw_ep_put(ep);
	return ret;
}
