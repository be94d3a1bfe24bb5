// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Half-open connections: TCP is connected, the peer's request has not come, or
 * has no place. Silent peers, and those that send many requests to a consumer
 * that answers slowly, do not keep others from connecting.
 */
#include <linux/random.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>

#include "cm/cm.h"

/**
 * kw_half_init() - prepare a listener's table of half-open connections
 * @h: a listener's
 *
 * Context: process.
 */
void kw_half_init(struct kw_half_open *h)
{
	int i;

	spin_lock_init(&h->lock);
	get_random_bytes(&h->key, sizeof(h->key));
	for (i = 0; i < KW_PEER_BUCKETS; i++) {
		INIT_LIST_HEAD(&h->peer[i].eps);
		INIT_LIST_HEAD(&h->peer[i].waiting);
	}
}

/* A host has one IPv4 address, but may use all IPv6 addresses of a subnet. */
static u32 kw_half_peer(const struct kw_half_open *h, const struct sock *sk)
{
	u64 who;

	if (sk->sk_family == AF_INET)
		who = (__force u32)sk->sk_daddr;
	else if (ipv6_addr_v4mapped(&sk->sk_v6_daddr))
		who = (__force u32)sk->sk_v6_daddr.s6_addr32[3];
	else
		who = (u64)(__force u32)sk->sk_v6_daddr.s6_addr32[0] << 32 |
		      (__force u32)sk->sk_v6_daddr.s6_addr32[1];
	return siphash_1u64(who, &h->key) % KW_PEER_BUCKETS;
}

/**
 * kw_half_enter() - a peer has connected
 * @l: the listener
 * @ep: the endpoint, which has a socket
 *
 * Context: process, kw_ep.lock held.
 */
void kw_half_enter(struct kw_listener *l, struct kw_ep *ep)
{
	struct kw_half_open *h = &l->half;
	struct kw_start *st = ep->start;

	st->half_peer = kw_half_peer(h, ep->sock->sk);
	st->half_since = jiffies;
	spin_lock(&h->lock);
	list_add_tail(&st->half, &h->peer[st->half_peer].eps);
	h->peer[st->half_peer].nr++;
	h->nr++;
	spin_unlock(&h->lock);
}

static bool kw_half_del(struct kw_half_open *h, struct kw_start *st)
{
	if (list_empty(&st->half))
		return false;
	list_del_init(&st->half);
	h->peer[st->half_peer].nr--;
	h->nr--;
	return true;
}

/* With the lock: the endpoint waits no more. */
static void kw_half_unwait(struct kw_half_open *h, struct kw_start *st)
{
	if (list_empty(&st->request))
		return;
	list_del_init(&st->request);
	h->waiting--;
}

/* With the lock: whether a bucket's peers may have one more unanswered request. */
static bool kw_half_has_place(const struct kw_listener *l, u32 peer)
{
	if (l->asked < l->limit / 2)
		return true;
	return l->asked < l->limit &&
	       l->half.peer[peer].asked < l->limit / KW_PENDING_SHARE;
}

/*
 * With the lock: does it get a place? Not before those of its bucket that wait.
 */
static bool kw_half_is_let_in(const struct kw_listener *l,
			      const struct kw_start *st)
{
	const struct list_head *waiting = &l->half.peer[st->half_peer].waiting;

	return (list_empty(waiting) || list_is_first(&st->request, waiting)) &&
	       kw_half_has_place(l, st->half_peer);
}

/* With the lock: the first that waits in a bucket tries again. */
static void kw_half_next(struct kw_listener *l, u32 peer)
{
	struct kw_start *st =
		list_first_entry_or_null(&l->half.peer[peer].waiting,
					 struct kw_start, request);

	/* An endpoint in the list is alive. */
	if (st && kw_half_has_place(l, peer))
		kw_steps_add(l->steps, st->ep);
}

/**
 * kw_half_asked() - a peer has sent its request
 * @ep: the endpoint, which has a listener
 *
 * Without a place it stays half-open, and may be evicted.
 *
 * Context: process, kw_ep.lock held.
 * Return: true if the request has a place; otherwise the endpoint gets a step
 * when there may be one.
 */
bool kw_half_asked(struct kw_ep *ep)
{
	struct kw_listener *l = ep->listener;
	struct kw_start *st = ep->start;
	bool has = true;

	spin_lock(&l->half.lock);
	if (list_empty(&st->half)) {
		/* It had one before. */
	} else if (kw_half_is_let_in(l, st)) {
		kw_half_unwait(&l->half, st);
		kw_half_del(&l->half, st);
		l->asked++;
		l->half.peer[st->half_peer].asked++;
		list_add_tail(&st->request, &l->requests);
		kw_half_next(l, st->half_peer);
	} else {
		has = false;
		if (list_empty(&st->request)) {
			list_add_tail(&st->request,
				      &l->half.peer[st->half_peer].waiting);
			l->half.waiting++;
		}
	}
	spin_unlock(&l->half.lock);
	return has;
}

/**
 * kw_listener_full() - whether there is no place for any request
 * @l: the listener
 *
 * Context: kw_half_open.lock held.
 * Return: true if there is none.
 */
bool kw_listener_full(const struct kw_listener *l)
{
	return l->asked >= l->limit;
}

/**
 * kw_half_is_next() - may an endpoint's request be passed to iw_cm?
 * @ep: the endpoint, which has a listener and has sent its request
 *
 * While iw_cm has no room for one request, later ones wait behind it.
 *
 * Context: process, kw_ep.lock held.
 * Return: true if it may; otherwise it gets a step when it may.
 */
bool kw_half_is_next(struct kw_ep *ep)
{
	struct kw_listener *l = ep->listener;
	bool next;

	spin_lock(&l->half.lock);
	next = list_is_first(&ep->start->request, &l->requests);
	spin_unlock(&l->half.lock);
	return next;
}

/**
 * kw_half_offered() - iw_cm has an endpoint's request, or will never have it
 * @l: the listener
 * @ep: the endpoint
 *
 * Context: process, kw_ep.lock held.
 */
void kw_half_offered(struct kw_listener *l, struct kw_ep *ep)
{
	struct kw_start *st = ep->start;

	spin_lock(&l->half.lock);
	if (!list_empty(&st->half)) {
		kw_half_unwait(&l->half, st);
	} else if (!list_empty(&st->request)) {
		list_del_init(&st->request);
		st = list_first_entry_or_null(&l->requests, struct kw_start,
					      request);
		/* An endpoint in the list is alive. */
		if (st)
			kw_steps_add(l->steps, st->ep);
	}
	spin_unlock(&l->half.lock);
}

/**
 * kw_half_left() - an endpoint is no longer the listener's
 * @l: the listener
 * @ep: the endpoint
 *
 * Context: process, kw_ep.lock held.
 * Return: true if the listener may accept again after it could not.
 */
bool kw_half_left(struct kw_listener *l, struct kw_ep *ep)
{
	u32 peer = ep->start->half_peer, i;
	bool again = false;

	kw_half_offered(l, ep);
	spin_lock(&l->half.lock);
	if (!kw_half_del(&l->half, ep->start)) {
		again = kw_listener_full(l);
		l->half.peer[peer].asked--;
		l->asked--;
		/* Such a place is for any peer. */
		if (l->half.waiting && (again || l->asked < l->limit / 2))
			for (i = 0; i < KW_PEER_BUCKETS; i++)
				kw_half_next(l, i);
	}
	kw_half_next(l, peer);
	spin_unlock(&l->half.lock);
	return again;
}

static struct kw_start *kw_half_first(struct kw_half_open *h, u32 peer)
{
	return list_first_entry_or_null(&h->peer[peer].eps, struct kw_start,
					half);
}

static struct kw_start *kw_half_oldest(struct kw_half_open *h)
{
	struct kw_start *oldest = NULL, *st;
	u32 i;

	for (i = 0; i < KW_PEER_BUCKETS; i++) {
		st = kw_half_first(h, i);
		if (st && (!oldest || time_before(st->half_since,
						  oldest->half_since)))
			oldest = st;
	}
	return oldest;
}

/* The endpoint to evict, or NULL; referenced. */
static struct kw_ep *kw_half_victim(struct kw_listener *l, u32 peer)
{
	struct kw_half_open *h = &l->half;
	struct kw_start *st = NULL;
	struct kw_ep *ep = NULL;

	spin_lock(&h->lock);
	if (h->peer[peer].nr > l->max_half / KW_HALF_OPEN_SHARE)
		st = kw_half_first(h, peer);
	else if (h->nr > l->max_half)
		st = kw_half_oldest(h);
	if (st) {
		/* An endpoint in the list is alive. */
		ep = st->ep;
		kw_ep_get(ep);
	}
	spin_unlock(&h->lock);
	return ep;
}

/* kw_ep.lock held: has the endpoint no place as a request? */
static bool kw_half_is_open(struct kw_listener *l, const struct kw_ep *ep)
{
	bool open;

	if (ep->state != KW_EP_AWAIT_REQUEST && ep->state != KW_EP_HAVE_REQUEST)
		return false;
	spin_lock(&l->half.lock);
	open = !list_empty(&ep->start->half);
	spin_unlock(&l->half.lock);
	return open;
}

/**
 * kw_half_make_room() - evict the oldest if there is no place for a new one
 * @l: the listener
 * @peer: the bucket of the new one
 *
 * Context: process, no kw_ep.lock held.
 */
void kw_half_make_room(struct kw_listener *l, u32 peer)
{
	struct kw_ep *ep = kw_half_victim(l, peer);

	if (!ep)
		return;
	/* Its request may have come, and not be processed yet. */
	kw_ep_step(ep);
	mutex_lock(&ep->lock);
	if (kw_half_is_open(l, ep)) {
		kw_count(ep->dev, KW_CNT_CONN_EVICTED);
		kw_ep_dbg(ep, "%s gives way\n",
			  ep->state == KW_EP_AWAIT_REQUEST ?
				  "a silent peer" :
				  "a request that has no place");
		kw_ep_end(ep, true);
	}
	mutex_unlock(&ep->lock);
	kw_ep_put(ep);
}

/**
 * kw_half_kick() - let the endpoints notice that their listener is closed
 * @l: the listener
 *
 * Context: process.
 */
void kw_half_kick(struct kw_listener *l)
{
	struct kw_half_open *h = &l->half;
	struct kw_start *st;
	u32 i;

	spin_lock(&h->lock);
	for (i = 0; i < KW_PEER_BUCKETS; i++)
		list_for_each_entry(st, &h->peer[i].eps, half)
			kw_steps_add(l->steps, st->ep);
	spin_unlock(&h->lock);
}
