/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The Terminate message (RFC 5040 section 4.8) and every error that it can
 * report (RFC 5040, RFC 5041, RFC 5044, RFC 6581).
 */
#ifndef KW_WIRE_TERM_H
#define KW_WIRE_TERM_H

#include "wire/ddp.h"
#include "wire/rdmap.h"
#include "wire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kw_term_layer {
	KW_TERM_LAYER_RDMAP	= 0,
	KW_TERM_LAYER_DDP	= 1,
	KW_TERM_LAYER_LLP	= 2,
};

/* Layer, type and code in one value: the message's first two bytes. */
#define KW_TERM(layer, type, code)	((layer) << 12 | (type) << 8 | (code))

enum kw_term_code {
	/* RDMAP, local catastrophic error */
	KW_TERM_RDMAP_CATASTROPHIC		= KW_TERM(0, 0, 0x00),

	/* RDMAP, remote protection error */
	KW_TERM_RDMAP_INV_STAG			= KW_TERM(0, 1, 0x00),
	KW_TERM_RDMAP_BOUNDS			= KW_TERM(0, 1, 0x01),
	KW_TERM_RDMAP_ACCESS			= KW_TERM(0, 1, 0x02),
	KW_TERM_RDMAP_STAG_NOT_ASSOC		= KW_TERM(0, 1, 0x03),
	KW_TERM_RDMAP_TO_WRAP			= KW_TERM(0, 1, 0x04),
	KW_TERM_RDMAP_PROT_CANT_INV		= KW_TERM(0, 1, 0x09),
	KW_TERM_RDMAP_PROT_UNSPEC		= KW_TERM(0, 1, 0xff),

	/* RDMAP, remote operation error */
	KW_TERM_RDMAP_VERSION			= KW_TERM(0, 2, 0x05),
	KW_TERM_RDMAP_OPCODE			= KW_TERM(0, 2, 0x06),
	KW_TERM_RDMAP_STREAM_CATASTROPHIC	= KW_TERM(0, 2, 0x07),
	KW_TERM_RDMAP_GLOBAL_CATASTROPHIC	= KW_TERM(0, 2, 0x08),
	KW_TERM_RDMAP_OP_CANT_INV		= KW_TERM(0, 2, 0x09),
	KW_TERM_RDMAP_OP_UNSPEC			= KW_TERM(0, 2, 0xff),

	/* DDP, local catastrophic error */
	KW_TERM_DDP_CATASTROPHIC		= KW_TERM(1, 0, 0x00),

	/* DDP, tagged buffer error */
	KW_TERM_DDP_TAGGED_INV_STAG		= KW_TERM(1, 1, 0x00),
	KW_TERM_DDP_TAGGED_BOUNDS		= KW_TERM(1, 1, 0x01),
	KW_TERM_DDP_TAGGED_STAG_NOT_ASSOC	= KW_TERM(1, 1, 0x02),
	KW_TERM_DDP_TAGGED_TO_WRAP		= KW_TERM(1, 1, 0x03),
	KW_TERM_DDP_TAGGED_VERSION		= KW_TERM(1, 1, 0x04),

	/* DDP, untagged buffer error */
	KW_TERM_DDP_UNTAGGED_INV_QN		= KW_TERM(1, 2, 0x01),
	KW_TERM_DDP_UNTAGGED_NO_BUFFER		= KW_TERM(1, 2, 0x02),
	KW_TERM_DDP_UNTAGGED_MSN_RANGE		= KW_TERM(1, 2, 0x03),
	KW_TERM_DDP_UNTAGGED_INV_MO		= KW_TERM(1, 2, 0x04),
	KW_TERM_DDP_UNTAGGED_TOO_LONG		= KW_TERM(1, 2, 0x05),
	KW_TERM_DDP_UNTAGGED_VERSION		= KW_TERM(1, 2, 0x06),

	/* MPA */
	KW_TERM_MPA_TCP_LOST			= KW_TERM(2, 0, 0x01),
	KW_TERM_MPA_CRC				= KW_TERM(2, 0, 0x02),
	KW_TERM_MPA_MARKER			= KW_TERM(2, 0, 0x03),
	KW_TERM_MPA_START_FRAME			= KW_TERM(2, 0, 0x04),
	KW_TERM_MPA_CATASTROPHIC		= KW_TERM(2, 0, 0x05),
	KW_TERM_MPA_NO_IRD			= KW_TERM(2, 0, 0x06),
	KW_TERM_MPA_NO_RTR			= KW_TERM(2, 0, 0x07),
};

/**
 * struct kw_term_ctrl - what a Terminate begins with (RFC 5040 section 4.8)
 * @code: layer, type and code: enum kw_term_code
 * @flags: M, D and R
 * @rsvd: 0
 */
struct kw_term_ctrl {
	__be16 code;
	u8 flags;
	u8 rsvd;
} __packed;

/**
 * struct kw_term_seg - what follows it with M
 * @len: DDP segment length
 */
struct kw_term_seg {
	__be16 len;
} __packed;

static_assert(offsetof(struct kw_term_ctrl, flags) == 2, "RFC 5040");
static_assert(sizeof(struct kw_term_ctrl) == 4, "RFC 5040");
static_assert(sizeof(struct kw_term_seg) == 2, "RFC 5040");

#define KW_TERM_CTRL_LEN	((u32)sizeof(struct kw_term_ctrl))
#define KW_TERM_SEG_LEN		((u32)sizeof(struct kw_term_seg))
#define KW_TERM_MAX_LEN		(KW_TERM_CTRL_LEN + KW_TERM_SEG_LEN + \
				 KW_DDP_HDR_MAX + KW_READ_REQ_LEN)

enum kw_term_err {
	KW_TERM_SHORT		= -1,	/* not even the control field */
	KW_TERM_TRUNCATED	= -2,	/* a flag announces more than there is */
	KW_TERM_BAD_FLAGS	= -3,	/* an RDMAP header without a DDP header */
};

/**
 * struct kw_term - a Terminate message
 * @layer: enum kw_term_layer, 4 bits
 * @type: error type, 4 bits
 * @code: error code
 * @ddp_hdr_len: bytes of @ddp_hdr in use
 * @has_len: M, @seg_len is valid
 * @has_ddp: D, the header of the offending segment is in @ddp_hdr
 * @has_rdmap: R, the Read Request that it carried is in @rr_hdr
 * @seg_len: DDP segment length: the offending ULPDU's bytes
 * @ddp_hdr: as it came over the wire
 * @rr_hdr: as it came over the wire
 */
struct kw_term {
	u8 layer;
	u8 type;
	u8 code;
	u8 ddp_hdr_len;
	bool has_len;
	bool has_ddp;
	bool has_rdmap;
	u16 seg_len;
	u8 ddp_hdr[KW_DDP_HDR_MAX];
	u8 rr_hdr[KW_READ_REQ_LEN];
};

/**
 * kw_term_set_code() - fill layer, type and code
 * @t: the message
 * @packed: enum kw_term_code
 */
static inline void kw_term_set_code(struct kw_term *t, u16 packed)
{
	t->layer = packed >> 12;
	t->type = packed >> 8 & 0x0f;
	t->code = packed & 0xff;
}

/**
 * kw_term_get_code() - layer, type and code in one value
 * @t: the message
 *
 * Return: enum kw_term_code, or what else the peer wrote.
 */
static inline u16 kw_term_get_code(const struct kw_term *t)
{
	return KW_TERM(t->layer, t->type, t->code);
}

void kw_term_set(struct kw_term *t, u16 packed, u16 seg_len, const u8 *ddp_hdr,
		 const u8 *read_req);
size_t kw_term_build(u8 *buf, const struct kw_term *t);
int kw_term_parse(const u8 *buf, size_t len, struct kw_term *out);
u16 kw_term_unswap(u16 packed);
const char *kw_term_str(u16 packed);

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_TERM_H */
