/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * MPA: start-up frames (RFC 5044 section 7.1, RFC 6581, and for revision 0
 * draft-culley-iwarp-mpa-03).
 */
#ifndef KW_WIRE_MPA_H
#define KW_WIRE_MPA_H

#include "wire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KW_MPA_KEY_LEN		16

/**
 * struct kw_mpa_start_frame - a frame of revisions 1 and 2 (RFC 5044 section
 * 7.1.1), and revision 0's private data; the private data follow
 * @key: which frame it is
 * @flags: M, C, R and S
 * @rev: revision
 * @pd_len: bytes of private data
 */
struct kw_mpa_start_frame {
	u8 key[KW_MPA_KEY_LEN];
	u8 flags;
	u8 rev;
	__be16 pd_len;
} __packed;

/**
 * struct kw_mpa_enh_data - enhanced start-up data (RFC 6581 section 9)
 * @ird: A, B and IRD
 * @ord: C, D and ORD
 */
struct kw_mpa_enh_data {
	__be16 ird;
	__be16 ord;
} __packed;

static_assert(offsetof(struct kw_mpa_start_frame, flags) == 16, "RFC 5044");
static_assert(offsetof(struct kw_mpa_start_frame, rev) == 17, "RFC 5044");
static_assert(offsetof(struct kw_mpa_start_frame, pd_len) == 18, "RFC 5044");
static_assert(sizeof(struct kw_mpa_start_frame) == 20, "RFC 5044");
static_assert(offsetof(struct kw_mpa_enh_data, ord) == 2, "RFC 6581");
static_assert(sizeof(struct kw_mpa_enh_data) == 4, "RFC 6581");

#define KW_MPA_FRAME_LEN	((u32)sizeof(struct kw_mpa_start_frame))
#define KW_MPA_START_LEN	16	/* revision 0's Start Key */
#define KW_MPA_PD_MAX		512	/* private data, enhanced data included */
#define KW_MPA_ENH_LEN		((u32)sizeof(struct kw_mpa_enh_data))

/* Bits, so that a listener can accept several kinds. */
enum kw_mpa_kind {
	KW_MPA_REQ	= 0x1,	/* request; of revision 0 as RFC 5044 appendix C has it */
	KW_MPA_REP	= 0x2,	/* and reply */
	KW_MPA_START	= 0x4,	/* revision 0: Start Key */
	KW_MPA_PRIV	= 0x8,	/* revision 0: streaming-mode private data */
};

enum kw_mpa_err {
	KW_MPA_BAD_KEY		= -1,	/* not MPA, or the wrong kind of frame */
	KW_MPA_BAD_REV		= -2,	/* not a revision that the key goes with */
	KW_MPA_BAD_PD_LEN	= -3,	/* over 512, or enhanced and under 4 */
};

/**
 * struct kw_mpa_frame - a start-up frame
 * @kind: enum kw_mpa_kind
 * @rev: 0 to 2; after %KW_MPA_BAD_REV what the peer wrote
 * @markers: M, the sender of the frame wants markers on what it receives
 * @crc: C, the sender of the frame wants CRCs in both directions
 * @large_fpdu: an unofficial bit that siw introduced for "try_gso": the sender
 *	of the frame takes FPDUs that are larger than a TCP segment
 * @reject: R, meaningful in a reply, and in private data if an answer
 * @enhanced: S, the private data begin with enhanced data; revision 2 only
 * @pd_len: bytes of private data that follow, enhanced data included
 */
struct kw_mpa_frame {
	u8 kind;
	u8 rev;
	bool markers;
	bool crc;
	bool large_fpdu;
	bool reject;
	bool enhanced;
	u16 pd_len;
};

int kw_mpa_frame_parse(const u8 *buf, size_t len, u8 kinds,
		       struct kw_mpa_frame *out);
size_t kw_mpa_frame_build(u8 *buf, const struct kw_mpa_frame *f);

/**
 * kw_mpa_frame_len() - bytes of a frame without private data
 * @kind: enum kw_mpa_kind
 *
 * Return: the length.
 */
static inline size_t kw_mpa_frame_len(u8 kind)
{
	return kind == KW_MPA_START ? KW_MPA_START_LEN : KW_MPA_FRAME_LEN;
}

#define KW_MPA_DEPTH_MASK	0x3fff
#define KW_MPA_DEPTH_NONE	0x3fff	/* IRD or ORD is not negotiated */

/**
 * struct kw_mpa_enh - enhanced start-up data (RFC 6581)
 * @p2p: A, the initiator sends a ready-to-receive FPDU first
 * @rtr_send: B, a zero-length Send is offered (request) or chosen (reply)
 * @rtr_write: C, a zero-length RDMA Write, likewise
 * @rtr_read: D, a zero-length RDMA Read, likewise
 * @ird: reads and atomics that the sender of the frame can serve at a time,
 *	or %KW_MPA_DEPTH_NONE; 14 bits
 * @ord: reads and atomics that it wants to have outstanding; likewise
 */
struct kw_mpa_enh {
	bool p2p;
	bool rtr_send;
	bool rtr_write;
	bool rtr_read;
	u16 ird;
	u16 ord;
};

void kw_mpa_enh_parse(const u8 *buf, struct kw_mpa_enh *out);
size_t kw_mpa_enh_build(u8 *buf, const struct kw_mpa_enh *enh);

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_MPA_H */
