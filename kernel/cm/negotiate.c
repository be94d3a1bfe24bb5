// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What the frames of MPA start-up negotiate: CRC, markers, depths, and which
 * side sends first (RFC 5044 section 7.1, RFC 6581 section 9).
 */
#include <linux/minmax.h>

#include "cm/cm.h"

/**
 * kw_negotiate_peer() - the frame that has the peer's M and C
 * @ep: an endpoint that has it
 *
 * Context: process, kw_ep.lock held.
 * Return: the frame.
 */
const struct kw_mpa_frame *kw_negotiate_peer(const struct kw_ep *ep)
{
	const struct kw_start *st = ep->start;

	return st->frame.kind == KW_MPA_PRIV ? &st->key : &st->frame;
}

/*
 * The peer's enhanced data. Without any, depths are those not negotiated, and
 * this returns false.
 */
static bool kw_negotiate_peer_enh(const struct kw_ep *ep,
				  struct kw_mpa_enh *enh)
{
	*enh = (struct kw_mpa_enh) {
		.ird = KW_MPA_DEPTH_NONE,
		.ord = KW_MPA_DEPTH_NONE,
	};
	if (ep->start->frame.enhanced)
		kw_mpa_enh_parse(ep->start->rx + KW_MPA_FRAME_LEN, enh);
	return ep->start->frame.enhanced;
}

/**
 * kw_negotiate_peer_depths() - the depths that the peer has sent, for the consumer
 * @ep: an endpoint
 * @event: result: its ird and ord are the peer's
 *
 * At most what the device has: librdmacm accepts no more when a consumer passes
 * them back. A depth that is not negotiated may be anything.
 *
 * Context: process, kw_ep.lock held.
 * Return: true if it has sent any.
 */
bool kw_negotiate_peer_depths(const struct kw_ep *ep, struct iw_cm_event *event)
{
	struct kw_mpa_enh enh;

	/* Only a part of a reply may have come. */
	if (!ep->start ||
	    ep->start->rx_len < KW_MPA_FRAME_LEN + KW_MPA_ENH_LEN ||
	    !kw_negotiate_peer_enh(ep, &enh))
		return false;
	event->ird = min_t(u32, enh.ird, KW_MAX_QP_RD_ATOM);
	event->ord = min_t(u32, enh.ord, KW_MAX_QP_RD_ATOM);
	return true;
}

/**
 * kw_negotiate_offer() - choose what the request asks for
 * @ep: an active endpoint with its ird and ord set
 *
 * Context: process, kw_ep.lock held.
 */
void kw_negotiate_offer(struct kw_ep *ep)
{
	u32 kinds = ep->start->set.p2p ? ep->start->set.rtr : 0;

	ep->start->offer = (struct kw_mpa_enh) {
		.p2p = ep->start->set.p2p,
		.rtr_send = kinds & BIT(KW_RTR_SEND),
		.rtr_write = kinds & BIT(KW_RTR_WRITE),
		.rtr_read = kinds & BIT(KW_RTR_READ),
		.ird = ep->ird,
		.ord = ep->ord,
	};
}

/* The kinds that the peer named and our setting has, as BIT(enum kw_rtr). */
static u32 kw_negotiate_kinds(const struct kw_ep *ep,
			      const struct kw_mpa_enh *enh)
{
	u32 kinds = (enh->rtr_send ? BIT(KW_RTR_SEND) : 0) |
		    (enh->rtr_write ? BIT(KW_RTR_WRITE) : 0) |
		    (enh->rtr_read ? BIT(KW_RTR_READ) : 0);

	return kinds & ep->start->set.rtr;
}

/* The cheapest kind. */
static enum kw_rtr kw_negotiate_rtr(u32 kinds)
{
	if (kinds & BIT(KW_RTR_WRITE))
		return KW_RTR_WRITE;
	if (kinds & BIT(KW_RTR_READ))
		return KW_RTR_READ;
	return kinds ? KW_RTR_SEND : KW_RTR_NONE;
}

/*
 * RFC 5044 appendix C: an RNIC of the RDMA Consortium's specifications, which
 * sends version 0 of DDP and RDMAP, and always markers and CRCs.
 */
static bool kw_negotiate_rdmac(const struct kw_mpa_frame *peer)
{
	return !peer->rev && (peer->kind == KW_MPA_REQ || peer->kind == KW_MPA_REP);
}

static void kw_negotiate_common(const struct kw_ep *ep,
				struct kw_stream_params *params)
{
	const struct kw_mpa_frame *peer = kw_negotiate_peer(ep);
	const struct kw_settings *set = &ep->start->set;
	bool rdmac = kw_negotiate_rdmac(peer);

	*params = (struct kw_stream_params) {
		.crc = set->crc || peer->crc || rdmac,
		.tx_markers = peer->markers,
		.rx_markers = set->markers || rdmac,
		.rdmac = rdmac,
		.large_fpdu = set->large_fpdu && peer->large_fpdu,
		.initiator = ep->active,
	};
}

/*
 * A reply's ORD must not exceed our IRD. If it does, we raise ours if we can.
 * Its IRD may be less than our ORD, which we then lower.
 */
static u16 kw_negotiate_reply_enh(struct kw_ep *ep, const struct kw_mpa_enh *enh,
				  struct kw_stream_params *params)
{
	if (enh->ird != KW_MPA_DEPTH_NONE)
		ep->ord = min_t(u32, ep->ord, enh->ird);
	if (enh->ord != KW_MPA_DEPTH_NONE && enh->ord > ep->ird) {
		if (enh->ord > ep->start->set.ird_max)
			return KW_TERM_MPA_NO_IRD;
		ep->ird = enh->ord;
	}
	if (!enh->p2p || !ep->start->offer.p2p)
		return 0;
	params->rtr = kw_negotiate_rtr(kw_negotiate_kinds(ep, enh));
	return params->rtr == KW_RTR_NONE ? KW_TERM_MPA_NO_RTR : 0;
}

/**
 * kw_negotiate_active() - what the responder's frame means for the stream
 * @ep: an active endpoint with a valid frame that does not reject
 * @params: the result
 *
 * Context: process, kw_ep.lock held.
 * Return: 0; or the Terminate code for the peer, enum kw_term_code.
 */
u16 kw_negotiate_active(struct kw_ep *ep, struct kw_stream_params *params)
{
	struct kw_mpa_enh enh;
	u16 code = 0;

	kw_negotiate_common(ep, params);
	if (kw_negotiate_peer_enh(ep, &enh))
		code = kw_negotiate_reply_enh(ep, &enh, params);
	params->ird = ep->ird;
	params->ord = ep->ord;
	return code;
}

/*
 * A Read of no length has a place in any case, but some initiators need an IRD
 * of 1 for it. That would permit other Reads, too: without an IRD it is named
 * only if no other kind is known.
 */
static u32 kw_negotiate_await(const struct kw_ep *ep,
			      const struct kw_mpa_enh *enh)
{
	u32 kinds = kw_negotiate_kinds(ep, enh) ?: ep->start->set.rtr;
	u32 others = kinds & ~BIT(KW_RTR_READ);

	return !ep->ird && others ? others : kinds;
}

/**
 * kw_negotiate_passive() - what the initiator's frame means for the stream
 * @ep: a passive endpoint with a valid frame; its ird and ord are what its
 *	consumer asks for, and become what it gets
 * @params: the result
 *
 * Our ORD never exceeds the request's IRD. Our IRD may be below the request's
 * ORD, which the initiator then lowers. Any kind of RTR that both sides know is
 * accepted. If there is none, the answer names those that this side knows, and
 * the initiator ends the connection (RFC 6581 section 9.2).
 *
 * Context: process, kw_ep.lock held.
 */
void kw_negotiate_passive(struct kw_ep *ep, struct kw_stream_params *params)
{
	struct kw_mpa_enh enh;

	kw_negotiate_common(ep, params);
	ep->ird = min(ep->ird, ep->start->set.ird_max);
	ep->ord = min(ep->ord, ep->start->set.ord_max);
	if (kw_negotiate_peer_enh(ep, &enh)) {
		if (enh.ird != KW_MPA_DEPTH_NONE)
			ep->ord = min_t(u32, ep->ord, enh.ird);
		if (enh.p2p)
			params->rtr_await = kw_negotiate_await(ep, &enh);
	}
	if (params->rtr_await & BIT(KW_RTR_READ))
		ep->ird = max(ep->ird, 1U);
	params->ird = ep->ird;
	params->ord = ep->ord;
}

/**
 * kw_negotiate_answer() - the enhanced data of a reply
 * @ep: a passive endpoint whose request has enhanced data
 * @params: what kw_negotiate_passive() negotiated
 * @enh: result
 *
 * A depth that the initiator does not negotiate is not negotiated in the reply.
 *
 * Context: process, kw_ep.lock held.
 */
void kw_negotiate_answer(const struct kw_ep *ep,
			 const struct kw_stream_params *params,
			 struct kw_mpa_enh *enh)
{
	u32 kinds = params->rtr_await;
	struct kw_mpa_enh peer;

	kw_negotiate_peer_enh(ep, &peer);
	*enh = (struct kw_mpa_enh) {
		.p2p = peer.p2p,
		.rtr_send = kinds & BIT(KW_RTR_SEND),
		.rtr_write = kinds & BIT(KW_RTR_WRITE),
		.rtr_read = kinds & BIT(KW_RTR_READ),
		.ird = peer.ord == KW_MPA_DEPTH_NONE ? KW_MPA_DEPTH_NONE :
						       params->ird,
		.ord = peer.ird == KW_MPA_DEPTH_NONE ? KW_MPA_DEPTH_NONE :
						       params->ord,
	};
}
