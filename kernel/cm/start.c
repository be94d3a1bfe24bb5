// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * MPA start-up: sending and reading its frames (RFC 5044 section 7, RFC 6581;
 * revision 0: draft-culley-iwarp-mpa-03 sections 8.1 and 13.3).
 */
#include <linux/minmax.h>
#include <net/tcp.h>

#include "cm/cm.h"
#include "trace.h"
#include "wire/crc.h"

static int kw_start_recv(struct kw_ep *ep, void *buf, size_t len, int flags)
{
	struct kvec vec = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = {};

	return kernel_recvmsg(ep->sock, &msg, &vec, 1, len,
			      flags | MSG_DONTWAIT);
}

/* Takes no byte beyond the frame: what follows a reply is the stream's. */
static int kw_start_fill(struct kw_ep *ep, u8 kinds, u8 *buf, u32 *len,
			 struct kw_mpa_frame *frame)
{
	for (;;) {
		int ret = kw_mpa_frame_parse(buf, *len, kinds, frame);
		u32 want;

		if (ret < 0)
			return -EPROTO;
		if (ret > 0)
			want = *len + ret;
		else
			want = kw_mpa_frame_len(frame->kind) + frame->pd_len;
		if (*len == want)
			return 0;

		ret = kw_start_recv(ep, buf + *len, want - *len, 0);
		if (!ret)
			return *len ? -ECONNRESET : -ESHUTDOWN;
		if (ret < 0)
			return ret;
		*len += ret;
	}
}

/**
 * kw_start_read() - read as much of the peer's first frame as there is
 * @ep: the endpoint
 * @kinds: the enum kw_mpa_kind that it may be
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 when kw_start.frame and .rx hold a valid frame; -EAGAIN when bytes
 * are missing; -EPROTO if it is not valid; -ESHUTDOWN when the peer has closed
 * instead, -ECONNRESET inside the frame; or TCP's error.
 */
int kw_start_read(struct kw_ep *ep, u8 kinds)
{
	struct kw_start *st = ep->start;

	return kw_start_fill(ep, kinds, st->rx, &st->rx_len, &st->frame);
}

/**
 * kw_start_read_key() - read as much of the Start Key behind private data
 * @ep: an endpoint in state %KW_EP_AWAIT_KEY
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 when kw_start.key holds a valid one; otherwise as kw_start_read().
 */
int kw_start_read_key(struct kw_ep *ep)
{
	struct kw_start *st = ep->start;

	return kw_start_fill(ep, KW_MPA_START, st->key_rx, &st->key_len,
			     &st->key);
}

/**
 * kw_start_peer_silent() - check that nothing follows the initiator's frame
 * @ep: a passive endpoint that has its initiator's frame
 *
 * Bytes before our answer are an error (RFC 5044 section 7.1.2), and a peer
 * that has closed its half can send no FPDU.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 if so, -EPROTO, -ESHUTDOWN or TCP's error.
 */
int kw_start_peer_silent(struct kw_ep *ep)
{
	u8 byte;
	int ret = kw_start_recv(ep, &byte, 1, MSG_PEEK);

	if (ret == -EAGAIN)
		return 0;
	if (!ret)
		return -ESHUTDOWN;
	return ret < 0 ? ret : -EPROTO;
}

/*
 * The socket has sent two frames before at most, so that a frame always fits
 * its buffer, whole. What TCP would wait for is memory.
 */
static int kw_start_push(struct kw_ep *ep, void *head, size_t head_len,
			 const void *pd, u32 pd_len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec vec[2] = {
		{ .iov_base = head, .iov_len = head_len },
		{ .iov_base = (void *)pd, .iov_len = pd_len },
	};
	int ret;

	ret = kernel_sendmsg(ep->sock, &msg, vec, pd_len ? 2 : 1,
			     head_len + pd_len);
	if (ret < 0)
		return ret == -EAGAIN ? -ENOMEM : ret;
	return ret == head_len + pd_len ? 0 : -ENOBUFS;
}

static int kw_start_send(struct kw_ep *ep, struct kw_mpa_frame *frame,
			 const struct kw_mpa_enh *enh, const void *pd,
			 u32 pd_len)
{
	u8 head[KW_MPA_FRAME_LEN + KW_MPA_ENH_LEN];
	size_t len;

	frame->enhanced = enh;
	frame->pd_len = (enh ? KW_MPA_ENH_LEN : 0) + pd_len;
	len = kw_mpa_frame_build(head, frame);
	if (enh)
		len += kw_mpa_enh_build(head + len, enh);
	return kw_start_push(ep, head, len, pd, pd_len);
}

/**
 * kw_start_key() - send a Start Key
 * @ep: an endpoint that speaks revision 0
 * @crc: ask for CRCs, or confirm them
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 or -errno.
 */
int kw_start_key(struct kw_ep *ep, bool crc)
{
	struct kw_mpa_frame frame = {
		.kind = KW_MPA_START,
		.markers = ep->start->set.markers,
		.crc = crc,
	};

	return kw_start_send(ep, &frame, NULL, NULL, 0);
}

/**
 * kw_start_request() - send the initiator's first frame
 * @ep: an active endpoint, connected
 *
 * In revision 0 that is the private data; without any there is no need for
 * streaming mode, and the Start Key goes out at once.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 or -errno.
 */
int kw_start_request(struct kw_ep *ep)
{
	struct kw_start *st = ep->start;
	struct kw_mpa_frame frame = {
		.kind = st->rev ? KW_MPA_REQ : KW_MPA_PRIV,
		.rev = st->rev,
		.markers = st->set.markers,
		.crc = st->set.crc,
		.large_fpdu = st->set.large_fpdu,
	};

	if (!st->rev && !st->pd_len)
		return kw_start_key(ep, st->set.crc);
	return kw_start_send(ep, &frame, st->rev == 2 ? &st->offer : NULL,
			     st->pd, st->pd_len);
}

static u8 kw_start_answer(u8 asked)
{
	return asked == KW_MPA_REQ ? KW_MPA_REP : asked;
}

/**
 * kw_start_reply() - send the frame that accepts
 * @ep: a passive endpoint
 * @params: what kw_negotiate_passive() negotiated
 * @pd: private data
 * @pd_len: bytes of @pd, at most kw_start_pd_room()
 *
 * C is set when CRCs are in use, whichever side asked: some initiators check
 * only the reply.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 or -errno.
 */
int kw_start_reply(struct kw_ep *ep, const struct kw_stream_params *params,
		   const void *pd, u32 pd_len)
{
	const struct kw_mpa_frame *asked = &ep->start->frame;
	struct kw_mpa_frame frame = {
		.kind = kw_start_answer(asked->kind),
		.rev = asked->rev,
		.markers = params->rx_markers,
		.crc = params->crc,
		.large_fpdu = params->large_fpdu,
	};
	struct kw_mpa_enh enh;

	if (asked->kind == KW_MPA_START)
		return kw_start_key(ep, params->crc);
	if (!asked->enhanced)
		return kw_start_send(ep, &frame, NULL, pd, pd_len);
	kw_negotiate_answer(ep, params, &enh);
	return kw_start_send(ep, &frame, &enh, pd, pd_len);
}

/**
 * kw_start_reject() - send the frame that rejects
 * @ep: a passive endpoint
 * @pd: private data
 * @pd_len: bytes of @pd, at most kw_start_pd_room()
 *
 * A Start Key has no rejection: the connection ends. Enhanced data are what
 * would have been negotiated: some initiators read them before they read R.
 *
 * Context: process, kw_ep.lock held.
 * Return: 0 or -errno.
 */
int kw_start_reject(struct kw_ep *ep, const void *pd, u32 pd_len)
{
	struct kw_stream_params params;
	const struct kw_mpa_frame *asked = &ep->start->frame;
	struct kw_mpa_frame frame = {
		.kind = kw_start_answer(asked->kind),
		.rev = asked->rev,
		.crc = asked->crc,
		.reject = true,
	};
	struct kw_mpa_enh enh;

	if (asked->kind == KW_MPA_START)
		return 0;
	ep->ird = ep->start->set.ird_max;
	ep->ord = ep->start->set.ord_max;
	kw_negotiate_passive(ep, &params);
	kw_negotiate_answer(ep, &params, &enh);
	return kw_start_send(ep, &frame, asked->enhanced ? &enh : NULL,
			     pd, pd_len);
}

/**
 * kw_start_terminate() - send a Terminate as the first and only FPDU
 * @ep: an active endpoint whose peer has answered
 * @code: enum kw_term_code
 *
 * The FPDU is short: it has at most the marker at the stream's beginning, which
 * the CRC covers (RFC 5044 section 4.3). A failure to send it is ignored: the
 * connection ends anyway.
 *
 * Context: process, kw_ep.lock held.
 */
void kw_start_terminate(struct kw_ep *ep, u16 code)
{
	const u32 ulpdu_len = KW_DDP_UNTAGGED_LEN + KW_TERM_CTRL_LEN;
	u8 buf[KW_MARKER_LEN + sizeof(struct kw_fpdu_head) + KW_TERM_MAX_LEN +
	       KW_MPA_CRC_LEN] = {};
	struct kw_fpdu_head *head;
	struct kw_term term = {};
	u8 *p = buf;

	if (kw_negotiate_peer(ep)->markers) {
		kw_marker_put(p, 0);
		p += KW_MARKER_LEN;
	}
	head = (struct kw_fpdu_head *)p;
	head->ulpdu_len = cpu_to_be16(ulpdu_len);
	kw_ddp_put_untagged((u8 *)&head->ddp.untagged, true,
			    KW_RDMAP_CTRL(KW_RDMAP_TERMINATE), 0,
			    KW_QN_TERMINATE, KW_DDP_MSN_FIRST, 0);
	kw_term_set_code(&term, code);
	kw_term_build((u8 *)(head + 1), &term);
	p += kw_fpdu_len(ulpdu_len) - KW_MPA_CRC_LEN;
	kw_crc_put(p, kw_crc32c(KW_CRC_SEED, buf, p - buf));
	p += KW_MPA_CRC_LEN;

	kw_ep_dbg(ep, "Terminate: %s\n", kw_term_str(code));
	if (kw_start_push(ep, buf, p - buf, NULL, 0))
		return;
	kw_count(ep->dev, KW_CNT_TERM_SENT);
	trace_kw_terminate_sent(&ep->dev->ib, ep->qp->ib.qp_num, code);
}

/**
 * kw_start_pd() - the peer's private data
 * @ep: an endpoint with a valid frame
 * @len: bytes of them, enhanced data not counted
 *
 * Context: process, kw_ep.lock held.
 * Return: where they are.
 */
const u8 *kw_start_pd(const struct kw_ep *ep, u32 *len)
{
	u32 skip = ep->start->frame.enhanced ? KW_MPA_ENH_LEN : 0;

	*len = ep->start->frame.pd_len - skip;
	return ep->start->rx + KW_MPA_FRAME_LEN + skip;
}

/**
 * kw_start_pd_room() - bytes of private data that an answer has room for
 * @ep: a passive endpoint with a valid frame
 *
 * Context: process, kw_ep.lock held.
 * Return: bytes; none if revision 0's initiator did without streaming mode.
 */
u32 kw_start_pd_room(const struct kw_ep *ep)
{
	if (ep->start->frame.kind == KW_MPA_START)
		return 0;
	return KW_MPA_PD_MAX - (ep->start->frame.enhanced ? KW_MPA_ENH_LEN : 0);
}
