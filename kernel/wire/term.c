// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The Terminate message.
 */
#include "wire/term.h"

#define TERM_FLAG_LEN		0x80	/* M */
#define TERM_FLAG_DDP		0x40	/* D */
#define TERM_FLAG_RDMAP		0x20	/* R */

struct term_text {
	u16 packed;
	const char *text;
};

static const struct term_text term_texts[] = {
	{ KW_TERM_RDMAP_CATASTROPHIC, "RDMAP: local catastrophic error" },
	{ KW_TERM_RDMAP_INV_STAG, "RDMAP: invalid STag" },
	{ KW_TERM_RDMAP_BOUNDS, "RDMAP: base or bounds violation" },
	{ KW_TERM_RDMAP_ACCESS, "RDMAP: access rights violation" },
	{ KW_TERM_RDMAP_STAG_NOT_ASSOC,
	  "RDMAP: STag not associated with the stream" },
	{ KW_TERM_RDMAP_TO_WRAP, "RDMAP: tagged offset wraps" },
	{ KW_TERM_RDMAP_PROT_CANT_INV,
	  "RDMAP: STag cannot be invalidated (protection)" },
	{ KW_TERM_RDMAP_PROT_UNSPEC, "RDMAP: unspecified protection error" },
	{ KW_TERM_RDMAP_VERSION, "RDMAP: invalid RDMAP version" },
	{ KW_TERM_RDMAP_OPCODE, "RDMAP: unexpected opcode" },
	{ KW_TERM_RDMAP_STREAM_CATASTROPHIC,
	  "RDMAP: catastrophic error of the stream" },
	{ KW_TERM_RDMAP_GLOBAL_CATASTROPHIC,
	  "RDMAP: catastrophic error of the device" },
	{ KW_TERM_RDMAP_OP_CANT_INV,
	  "RDMAP: STag cannot be invalidated (operation)" },
	{ KW_TERM_RDMAP_OP_UNSPEC, "RDMAP: unspecified operation error" },
	{ KW_TERM_DDP_CATASTROPHIC, "DDP: local catastrophic error" },
	{ KW_TERM_DDP_TAGGED_INV_STAG, "DDP tagged: invalid STag" },
	{ KW_TERM_DDP_TAGGED_BOUNDS, "DDP tagged: base or bounds violation" },
	{ KW_TERM_DDP_TAGGED_STAG_NOT_ASSOC,
	  "DDP tagged: STag not associated with the stream" },
	{ KW_TERM_DDP_TAGGED_TO_WRAP, "DDP tagged: tagged offset wraps" },
	{ KW_TERM_DDP_TAGGED_VERSION, "DDP tagged: invalid DDP version" },
	{ KW_TERM_DDP_UNTAGGED_INV_QN, "DDP untagged: invalid queue number" },
	{ KW_TERM_DDP_UNTAGGED_NO_BUFFER,
	  "DDP untagged: no buffer available for the MSN" },
	{ KW_TERM_DDP_UNTAGGED_MSN_RANGE, "DDP untagged: MSN out of range" },
	{ KW_TERM_DDP_UNTAGGED_INV_MO, "DDP untagged: invalid message offset" },
	{ KW_TERM_DDP_UNTAGGED_TOO_LONG,
	  "DDP untagged: message too long for the buffer" },
	{ KW_TERM_DDP_UNTAGGED_VERSION, "DDP untagged: invalid DDP version" },
	{ KW_TERM_MPA_TCP_LOST, "MPA: TCP connection closed, ended or lost" },
	{ KW_TERM_MPA_CRC, "MPA: CRC mismatch" },
	{ KW_TERM_MPA_MARKER, "MPA: marker and ULPDU length disagree" },
	{ KW_TERM_MPA_START_FRAME, "MPA: invalid start-up frame" },
	{ KW_TERM_MPA_CATASTROPHIC, "MPA: local catastrophic error" },
	{ KW_TERM_MPA_NO_IRD, "MPA: insufficient IRD" },
	{ KW_TERM_MPA_NO_RTR, "MPA: no matching RTR" },
};

static const char *term_lookup(u16 packed)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(term_texts); i++)
		if (term_texts[i].packed == packed)
			return term_texts[i].text;
	return NULL;
}

/*
 * A local catastrophe is not about a segment of the peer's. After an error of
 * the layer below DDP no header can be trusted (RFC 5040 section 4.8).
 */
static bool term_quotes(const struct kw_term *t)
{
	return t->layer != KW_TERM_LAYER_LLP && t->type;
}

/**
 * kw_term_set() - describe an error, with the headers that go with it
 * @t: result
 * @packed: enum kw_term_code
 * @seg_len: bytes of the segment at fault, its header included
 * @ddp_hdr: that header as it came over the wire; NULL if no segment of the
 *	peer's is at fault
 * @read_req: the KW_READ_REQ_LEN bytes of the Read Request that the segment
 *	carried; NULL if it was no Read Request, or one that is not whole
 *
 * A DDP error quotes no more than the DDP header: DDP does not read the rest.
 *
 * Context: any.
 */
void kw_term_set(struct kw_term *t, u16 packed, u16 seg_len, const u8 *ddp_hdr,
		 const u8 *read_req)
{
	memset(t, 0, sizeof(*t));
	kw_term_set_code(t, packed);
	if (!ddp_hdr || !term_quotes(t))
		return;
	t->has_len = true;
	t->seg_len = seg_len;
	t->has_ddp = true;
	t->ddp_hdr_len = kw_ddp_hdr_len(*ddp_hdr);
	memcpy(t->ddp_hdr, ddp_hdr, t->ddp_hdr_len);
	if (!read_req || t->layer != KW_TERM_LAYER_RDMAP)
		return;
	t->has_rdmap = true;
	memcpy(t->rr_hdr, read_req, KW_READ_REQ_LEN);
}

/**
 * kw_term_build() - write the body of a Terminate (RFC 5040 section 4.8)
 * @buf: KW_TERM_MAX_LEN bytes
 * @t: the message; @t->ddp_hdr_len is KW_DDP_TAGGED_LEN or
 *	KW_DDP_UNTAGGED_LEN where @t->has_ddp
 *
 * Context: any.
 * Return: bytes written.
 */
size_t kw_term_build(u8 *buf, const struct kw_term *t)
{
	struct kw_term_ctrl *ctrl = (struct kw_term_ctrl *)buf;
	u8 *p = buf + KW_TERM_CTRL_LEN;

	ctrl->code = cpu_to_be16(kw_term_get_code(t));
	ctrl->flags = (t->has_len ? TERM_FLAG_LEN : 0) |
		      (t->has_ddp ? TERM_FLAG_DDP : 0) |
		      (t->has_rdmap ? TERM_FLAG_RDMAP : 0);
	ctrl->rsvd = 0;
	if (t->has_len) {
		((struct kw_term_seg *)p)->len = cpu_to_be16(t->seg_len);
		p += KW_TERM_SEG_LEN;
	}
	if (t->has_ddp) {
		memcpy(p, t->ddp_hdr, t->ddp_hdr_len);
		p += t->ddp_hdr_len;
	}
	if (t->has_rdmap) {
		memcpy(p, t->rr_hdr, KW_READ_REQ_LEN);
		p += KW_READ_REQ_LEN;
	}
	return p - buf;
}

static bool term_of_read_req(const struct kw_term *t)
{
	const struct kw_ddp_ctrl *c = (const struct kw_ddp_ctrl *)t->ddp_hdr;

	return t->ddp_hdr_len == KW_DDP_UNTAGGED_LEN &&
	       kw_rdmap_op(c->ulp_ctrl) == KW_RDMAP_READ_REQ;
}

/**
 * kw_term_parse() - read the body of a Terminate message
 * @buf: the message, in private memory
 * @len: its bytes
 * @out: result; layer, type and code are set unless %KW_TERM_SHORT, so that a
 *	peer's reason is not lost with a malformed rest
 *
 * Of all messages only a Read Request has an RDMAP header behind its DDP
 * header. siw sets R for protection errors of any message, so R announces 28
 * bytes only where the copied DDP header is that of a Read Request. Bytes
 * behind the announced ones are ignored: siw adds some for tagged segments.
 *
 * Context: any.
 * Return: 0, or a negative enum kw_term_err.
 */
int kw_term_parse(const u8 *buf, size_t len, struct kw_term *out)
{
	const struct kw_term_ctrl *ctrl = (const struct kw_term_ctrl *)buf;
	const u8 *p;
	size_t left;
	u8 flags;

	memset(out, 0, sizeof(*out));
	if (len < KW_TERM_CTRL_LEN)
		return KW_TERM_SHORT;
	p = buf + KW_TERM_CTRL_LEN;
	left = len - KW_TERM_CTRL_LEN;
	kw_term_set_code(out, be16_to_cpu(ctrl->code));
	flags = ctrl->flags;

	if (flags & TERM_FLAG_RDMAP && !(flags & TERM_FLAG_DDP))
		return KW_TERM_BAD_FLAGS;

	if (flags & TERM_FLAG_LEN) {
		if (left < KW_TERM_SEG_LEN)
			return KW_TERM_TRUNCATED;
		out->seg_len = be16_to_cpu(((const struct kw_term_seg *)p)->len);
		out->has_len = true;
		p += KW_TERM_SEG_LEN;
		left -= KW_TERM_SEG_LEN;
	}
	if (flags & TERM_FLAG_DDP) {
		if (!left || left < kw_ddp_hdr_len(*p))
			return KW_TERM_TRUNCATED;
		out->ddp_hdr_len = kw_ddp_hdr_len(*p);
		memcpy(out->ddp_hdr, p, out->ddp_hdr_len);
		out->has_ddp = true;
		p += out->ddp_hdr_len;
		left -= out->ddp_hdr_len;
	}
	if (flags & TERM_FLAG_RDMAP && term_of_read_req(out)) {
		if (left < KW_READ_REQ_LEN)
			return KW_TERM_TRUNCATED;
		memcpy(out->rr_hdr, p, KW_READ_REQ_LEN);
		out->has_rdmap = true;
	}
	return 0;
}

/**
 * kw_term_unswap() - read a received error code leniently
 * @packed: layer, type and code as received
 *
 * siw on little-endian machines exchanges the nibbles of the first byte, the
 * layer and the type. A code that no specification defines is therefore read
 * with its nibbles exchanged, if that is defined. A code that is defined both
 * ways (0x20 05, MPA, and 0x02 05, RDMAP) is read as the specification has it:
 * nothing in the message distinguishes the two peers.
 *
 * Context: any.
 * Return: an enum kw_term_code, or @packed if it is none either way.
 */
u16 kw_term_unswap(u16 packed)
{
	u16 swapped = (packed & 0x0f00) << 4 | (packed & 0xf000) >> 4 |
		      (packed & 0x00ff);

	return !term_lookup(packed) && term_lookup(swapped) ? swapped : packed;
}

/**
 * kw_term_str() - describe an error in words
 * @packed: layer, type and code
 *
 * Context: any.
 * Return: a constant string, never NULL.
 */
const char *kw_term_str(u16 packed)
{
	const char *text = term_lookup(packed);

	return text ? text : "unknown error";
}
