// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * MPA start-up: sending and reading the frames, and what they settle
 * (RFC 5044 section 7, RFC 6581).
 */
#include <linux/minmax.h>
#include <net/tcp.h>

#include "cm/cm.h"

static int kw_start_recv(struct kw_ep *ep, void *buf, size_t len, int flags)
{
	struct kvec vec = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = {};

	return kernel_recvmsg(ep->sock, &msg, &vec, 1, len,
			      flags | MSG_DONTWAIT);
}

/**
 * kw_start_read - read as much of the peer's frame as there is
 * @ep: the endpoint
 * @kind: which frame
 *
 * Takes not one octet beyond the frame: what follows a reply is the stream's.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 when @ep->frame and @ep->rx hold a valid frame, -EAGAIN when
 * octets are missing, -EPROTO on a frame that is none, -ECONNRESET when the
 * peer has closed, or TCP's error.
 */
int kw_start_read(struct kw_ep *ep, enum kw_mpa_kind kind)
{
	for (;;) {
		int ret = kw_mpa_frame_parse(ep->rx, ep->rx_len, kind,
					     &ep->frame);
		u32 want;

		if (ret < 0)
			return -EPROTO;
		if (ret > 0)
			want = KW_MPA_FRAME_LEN;
		else
			want = KW_MPA_FRAME_LEN + ep->frame.pd_len;
		if (ep->rx_len == want)
			return 0;

		ret = kw_start_recv(ep, ep->rx + ep->rx_len,
				    want - ep->rx_len, 0);
		if (!ret)
			return -ECONNRESET;
		if (ret < 0)
			return ret;
		ep->rx_len += ret;
	}
}

/**
 * kw_start_quiet - has the initiator kept silent after its request?
 * @ep: a passive endpoint that has its request
 *
 * Octets before our reply are an error (RFC 5044 section 7.1.2), and a peer
 * that has closed its half can send no FPDU.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 if it is silent and there, -EPROTO, -ECONNRESET or TCP's error.
 */
int kw_start_quiet(struct kw_ep *ep)
{
	u8 octet;
	int ret = kw_start_recv(ep, &octet, 1, MSG_PEEK);

	if (ret == -EAGAIN)
		return 0;
	if (!ret)
		return -ECONNRESET;
	return ret < 0 ? ret : -EPROTO;
}

/*
 * The socket has sent nothing yet but a request at most, so that a frame
 * always fits its buffer, whole.
 */
static int kw_start_send(struct kw_ep *ep, struct kw_mpa_frame *frame,
			 const struct kw_mpa_enh *enh, const void *pd,
			 u32 pd_len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	u8 head[KW_MPA_FRAME_LEN + KW_MPA_ENH_LEN];
	struct kvec vec[2];
	size_t len;
	int ret;

	frame->enhanced = enh;
	frame->pd_len = (enh ? KW_MPA_ENH_LEN : 0) + pd_len;
	len = kw_mpa_frame_build(head, frame);
	if (enh)
		len += kw_mpa_enh_build(head + len, enh);
	vec[0].iov_base = head;
	vec[0].iov_len = len;
	vec[1].iov_base = (void *)pd;
	vec[1].iov_len = pd_len;
	len += pd_len;

	ret = kernel_sendmsg(ep->sock, &msg, vec, pd_len ? 2 : 1, len);
	if (ret < 0)
		return ret;
	return ret == len ? 0 : -ENOBUFS;
}

/**
 * kw_start_request - send the MPA request
 * @ep: an active endpoint, connected
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 or -errno.
 */
int kw_start_request(struct kw_ep *ep)
{
	struct kw_mpa_frame frame = {
		.kind = KW_MPA_REQ,
		.rev = ep->rev,
		.markers = ep->markers,
		.crc = ep->crc,
	};

	return kw_start_send(ep, &frame, ep->rev == 2 ? &ep->offer : NULL,
			     ep->pd, ep->pd_len);
}

static bool kw_start_peer_enh(const struct kw_ep *ep, struct kw_mpa_enh *enh)
{
	memset(enh, 0, sizeof(*enh));
	if (!ep->frame.enhanced)
		return false;
	kw_mpa_enh_parse(ep->rx + KW_MPA_FRAME_LEN, enh);
	return true;
}

/**
 * kw_start_reply - send the MPA reply that accepts
 * @ep: a passive endpoint
 * @params: what kw_start_settle_passive() settled
 * @pd: private data
 * @pd_len: octets of @pd, at most kw_start_pd_room()
 *
 * C is set when CRCs are in use, whoever asked: some initiators look only at
 * the reply.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 or -errno.
 */
int kw_start_reply(struct kw_ep *ep, const struct kw_stream_params *params,
		   const void *pd, u32 pd_len)
{
	struct kw_mpa_frame frame = {
		.kind = KW_MPA_REP,
		.rev = ep->frame.rev,
		.markers = params->rx_markers,
		.crc = params->crc,
	};
	struct kw_mpa_enh enh = {
		.p2p = params->rtr != KW_RTR_NONE,
		.rtr_send = params->rtr == KW_RTR_SEND,
		.rtr_write = params->rtr == KW_RTR_WRITE,
		.rtr_read = params->rtr == KW_RTR_READ,
		.ird = params->ird,
		.ord = params->ord,
	};

	return kw_start_send(ep, &frame, ep->frame.enhanced ? &enh : NULL,
			     pd, pd_len);
}

/**
 * kw_start_reject - send the MPA reply that rejects
 * @ep: a passive endpoint
 * @pd: private data
 * @pd_len: octets of @pd, at most kw_start_pd_room()
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 or -errno.
 */
int kw_start_reject(struct kw_ep *ep, const void *pd, u32 pd_len)
{
	struct kw_mpa_frame frame = {
		.kind = KW_MPA_REP,
		.rev = ep->frame.rev,
		.crc = ep->frame.crc,
		.reject = true,
	};
	struct kw_mpa_enh enh = {};

	return kw_start_send(ep, &frame, ep->frame.enhanced ? &enh : NULL,
			     pd, pd_len);
}

/**
 * kw_start_pd - the peer's private data
 * @ep: an endpoint with a valid frame
 * @len: octets of them, enhanced data not counted
 *
 * Context: process, kw_ep.lock held.
 * Return: where they are.
 */
const u8 *kw_start_pd(const struct kw_ep *ep, u32 *len)
{
	u32 skip = ep->frame.enhanced ? KW_MPA_ENH_LEN : 0;

	*len = ep->frame.pd_len - skip;
	return ep->rx + KW_MPA_FRAME_LEN + skip;
}

/**
 * kw_start_pd_room - octets of private data that a reply has room for
 * @ep: a passive endpoint with a valid request
 *
 * Context: process, kw_ep.lock held.
 * Return: octets.
 */
u32 kw_start_pd_room(const struct kw_ep *ep)
{
	return KW_MPA_PD_MAX - (ep->frame.enhanced ? KW_MPA_ENH_LEN : 0);
}

/**
 * kw_start_offer - decide what to ask for
 * @ep: an active endpoint with its ird and ord set
 *
 * A zero-length Send is not offered as ready-to-receive, as it would take one
 * of the responder's receives.
 *
 * Context: process, kw_ep.lock held.
 */
void kw_start_offer(struct kw_ep *ep)
{
	bool p2p = READ_ONCE(ep->dev->settings.p2p);

	ep->crc = READ_ONCE(ep->dev->settings.crc);
	ep->markers = READ_ONCE(ep->dev->settings.markers);
	ep->offer = (struct kw_mpa_enh) {
		.p2p = p2p,
		.rtr_write = p2p,
		.rtr_read = p2p,
		.ird = ep->ird,
		.ord = ep->ord,
	};
}

/* The cheapest that is both offered and chosen. */
static enum kw_rtr kw_start_pick_rtr(const struct kw_mpa_enh *enh)
{
	if (enh->rtr_write)
		return KW_RTR_WRITE;
	if (enh->rtr_read)
		return KW_RTR_READ;
	return enh->rtr_send ? KW_RTR_SEND : KW_RTR_NONE;
}

/**
 * kw_start_settle_active - what a reply means for the stream
 * @ep: an active endpoint with a valid reply that does not reject
 * @params: the result
 *
 * The peer may answer with less IRD than our ORD, which we then lower, and
 * must not ask for more ORD than the IRD that we announced; where it does, we
 * grant it if we can (RFC 6581 section 9.1).
 *
 * Context: process, kw_ep.lock held.
 * Return: 0; -EPROTO on a ready-to-receive kind that was not offered; -ENOMEM
 * on too high an ORD.
 */
int kw_start_settle_active(struct kw_ep *ep, struct kw_stream_params *params)
{
	struct kw_mpa_enh enh;

	*params = (struct kw_stream_params) {
		.crc = ep->crc || ep->frame.crc,
		.tx_markers = ep->frame.markers,
		.rx_markers = ep->markers,
		.initiator = true,
	};

	if (kw_start_peer_enh(ep, &enh)) {
		if (enh.ird != KW_MPA_DEPTH_NONE)
			ep->ord = min_t(u32, ep->ord, enh.ird);
		if (enh.ord != KW_MPA_DEPTH_NONE && enh.ord > ep->ird) {
			if (enh.ord > KW_MAX_QP_RD_ATOM)
				return -ENOMEM;
			ep->ird = enh.ord;
		}
		if (enh.p2p) {
			enh.rtr_send &= ep->offer.rtr_send;
			enh.rtr_write &= ep->offer.rtr_write;
			enh.rtr_read &= ep->offer.rtr_read;
			params->rtr = kw_start_pick_rtr(&enh);
			if (params->rtr == KW_RTR_NONE)
				return -EPROTO;
		}
	}
	/* The read that says "ready to receive" needs a place as any other. */
	if (params->rtr == KW_RTR_READ)
		ep->ord = max(ep->ord, 1U);
	params->ird = ep->ird;
	params->ord = ep->ord;
	return 0;
}

/**
 * kw_start_settle_passive - what to answer, and what that means for the stream
 * @ep: a passive endpoint with a valid request
 * @ird: inbound RDMA Reads that the consumer wants to serve
 * @ord: outbound RDMA Reads that the consumer wants
 * @params: the result
 *
 * Our ORD never exceeds the request's IRD; our IRD may be below the request's
 * ORD, which the initiator then lowers (RFC 6581 section 9.1).
 *
 * Context: process, kw_ep.lock held.
 */
void kw_start_settle_passive(struct kw_ep *ep, u32 ird, u32 ord,
			     struct kw_stream_params *params)
{
	struct kw_mpa_enh enh;

	*params = (struct kw_stream_params) {
		.crc = ep->frame.crc || READ_ONCE(ep->dev->settings.crc),
		.tx_markers = ep->frame.markers,
		.rx_markers = READ_ONCE(ep->dev->settings.markers),
	};
	ep->ird = min_t(u32, ird, KW_MAX_QP_RD_ATOM);
	ep->ord = min_t(u32, ord, KW_MAX_QP_RD_ATOM);
	if (kw_start_peer_enh(ep, &enh)) {
		if (enh.ird != KW_MPA_DEPTH_NONE)
			ep->ord = min_t(u32, ep->ord, enh.ird);
		if (enh.p2p)
			params->rtr = kw_start_pick_rtr(&enh);
	}
	if (params->rtr == KW_RTR_READ)
		ep->ird = max(ep->ird, 1U);
	params->ird = ep->ird;
	params->ord = ep->ord;
}
