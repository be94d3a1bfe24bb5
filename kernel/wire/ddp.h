/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * DDP segment headers (RFC 5041 section 4), and the checks of section 7.1 that
 * need nothing but a header. The headers are on the data path, hence inline.
 */
#ifndef KW_WIRE_DDP_H
#define KW_WIRE_DDP_H

#include "wire/fpdu.h"
#include "wire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KW_DDP_CTRL_TAGGED	0x80
#define KW_DDP_CTRL_LAST	0x40
#define KW_DDP_CTRL_DV_MASK	0x03

#define KW_DDP_VERSION		1
#define KW_DDP_VERSION_RDMAC	0	/* RFC 5044 appendix C */

/**
 * struct kw_ddp_ctrl - what the headers of both models begin with
 * @ctrl: KW_DDP_CTRL_*
 * @ulp_ctrl: the first byte of RsvdULP, RDMAP's control byte
 */
struct kw_ddp_ctrl {
	u8 ctrl;
	u8 ulp_ctrl;
};

/**
 * struct kw_ddp_tagged - the header of a tagged segment (RFC 5041 section 4.2)
 * @ctrl: KW_DDP_CTRL_*
 * @ulp_ctrl: the first byte of RsvdULP, RDMAP's control byte
 * @stag: STag
 * @to: tagged offset of the segment's first byte
 */
struct kw_ddp_tagged {
	u8 ctrl;
	u8 ulp_ctrl;
	__be32 stag;
	__be64 to;
} __packed;

/**
 * struct kw_ddp_untagged - the header of an untagged one (RFC 5041 section 4.3)
 * @ctrl: KW_DDP_CTRL_*
 * @ulp_ctrl: the first byte of RsvdULP, RDMAP's control byte
 * @ulp_dword: the rest of RsvdULP, RDMAP's Invalidate STag
 * @qn: queue number
 * @msn: message sequence number
 * @mo: offset in the message of the segment's first byte
 */
struct kw_ddp_untagged {
	u8 ctrl;
	u8 ulp_ctrl;
	__be32 ulp_dword;
	__be32 qn;
	__be32 msn;
	__be32 mo;
} __packed;

#define KW_DDP_TAGGED_LEN	((u32)sizeof(struct kw_ddp_tagged))
#define KW_DDP_UNTAGGED_LEN	((u32)sizeof(struct kw_ddp_untagged))
#define KW_DDP_HDR_MAX		KW_DDP_UNTAGGED_LEN

/**
 * struct kw_fpdu_head - what an FPDU begins with
 * @ulpdu_len: bytes of the ULPDU, which is the DDP header and the payload
 * @ddp: the DDP header
 * @ddp.tagged: in one form
 * @ddp.untagged: or the other
 */
struct kw_fpdu_head {
	__be16 ulpdu_len;
	union {
		struct kw_ddp_tagged tagged;
		struct kw_ddp_untagged untagged;
	} __packed ddp;
} __packed;

static_assert(offsetof(struct kw_ddp_ctrl, ulp_ctrl) == 1, "RFC 5041");
static_assert(offsetof(struct kw_ddp_tagged, ulp_ctrl) == 1, "RFC 5041");
static_assert(offsetof(struct kw_ddp_tagged, stag) == 2, "RFC 5041");
static_assert(offsetof(struct kw_ddp_tagged, to) == 6, "RFC 5041");
static_assert(sizeof(struct kw_ddp_tagged) == 14, "RFC 5041");
static_assert(offsetof(struct kw_ddp_untagged, ulp_ctrl) == 1, "RFC 5041");
static_assert(offsetof(struct kw_ddp_untagged, ulp_dword) == 2, "RFC 5041");
static_assert(offsetof(struct kw_ddp_untagged, qn) == 6, "RFC 5041");
static_assert(offsetof(struct kw_ddp_untagged, msn) == 10, "RFC 5041");
static_assert(offsetof(struct kw_ddp_untagged, mo) == 14, "RFC 5041");
static_assert(sizeof(struct kw_ddp_untagged) == 18, "RFC 5041");
static_assert(offsetof(struct kw_fpdu_head, ddp) == KW_MPA_HDR_LEN, "RFC 5044");
static_assert(sizeof(struct kw_fpdu_head) == KW_MPA_HDR_LEN + KW_DDP_HDR_MAX,
	      "RFC 5044");

/* Queue numbers of the untagged model (RFC 5040 section 4, RFC 7306). */
#define KW_QN_SEND		0
#define KW_QN_READ_REQ		1
#define KW_QN_TERMINATE		2
#define KW_QN_ATOMIC_RESP	3

/* RFC 5040 has queues 0 to 2. With atomic operations there is queue 3. */
#define KW_NR_QN		3
#define KW_NR_QN_ATOMICS	4

/* The first message on each queue (RFC 5041 section 4.3). */
#define KW_DDP_MSN_FIRST	1

/**
 * struct kw_ddp_hdr - a DDP segment header
 * @tagged: T
 * @last: L, last segment of its message
 * @dv: DDP version
 * @rsvd_ulp_ctrl: the first byte of RsvdULP, RDMAP's control byte
 * @stag: tagged only
 * @to: tagged only: tagged offset
 * @ulp_dword: untagged only: bits 8 to 39 of RsvdULP, RDMAP's Invalidate STag
 * @qn: untagged only: queue number
 * @msn: untagged only: message sequence number
 * @mo: untagged only: message offset
 */
struct kw_ddp_hdr {
	bool tagged;
	bool last;
	u8 dv;
	u8 rsvd_ulp_ctrl;
	u32 stag;
	u64 to;
	u32 ulp_dword;
	u32 qn;
	u32 msn;
	u32 mo;
};

/**
 * kw_ddp_hdr_len() - length of a DDP header
 * @first_byte: the header's first byte
 *
 * Return: KW_DDP_TAGGED_LEN or KW_DDP_UNTAGGED_LEN.
 */
static inline u32 kw_ddp_hdr_len(u8 first_byte)
{
	return first_byte & KW_DDP_CTRL_TAGGED ? KW_DDP_TAGGED_LEN :
						  KW_DDP_UNTAGGED_LEN;
}

/**
 * kw_ddp_parse() - read a DDP header
 * @p: kw_ddp_hdr_len(*@p) bytes, in private memory
 * @h: result; the fields of the other model are not written
 *
 * Nothing is checked: which error a wrong field gives depends on the queue
 * pair's state (RFC 5041 section 7.1).
 */
static inline void kw_ddp_parse(const u8 *p, struct kw_ddp_hdr *h)
{
	const struct kw_ddp_ctrl *c = (const struct kw_ddp_ctrl *)p;

	h->tagged = c->ctrl & KW_DDP_CTRL_TAGGED;
	h->last = c->ctrl & KW_DDP_CTRL_LAST;
	h->dv = c->ctrl & KW_DDP_CTRL_DV_MASK;
	h->rsvd_ulp_ctrl = c->ulp_ctrl;
	if (h->tagged) {
		const struct kw_ddp_tagged *t = (const struct kw_ddp_tagged *)p;

		h->stag = be32_to_cpu(t->stag);
		h->to = be64_to_cpu(t->to);
	} else {
		const struct kw_ddp_untagged *u =
			(const struct kw_ddp_untagged *)p;

		h->ulp_dword = be32_to_cpu(u->ulp_dword);
		h->qn = be32_to_cpu(u->qn);
		h->msn = be32_to_cpu(u->msn);
		h->mo = be32_to_cpu(u->mo);
	}
}

/**
 * kw_ddp_put_tagged() - write a tagged header
 * @p: KW_DDP_TAGGED_LEN bytes
 * @last: last segment of the message
 * @rdmap_ctrl: RDMAP's control byte
 * @stag: STag
 * @to: tagged offset of the segment's first byte
 */
static inline void kw_ddp_put_tagged(u8 *p, bool last, u8 rdmap_ctrl, u32 stag,
				     u64 to)
{
	struct kw_ddp_tagged *t = (struct kw_ddp_tagged *)p;

	t->ctrl = KW_DDP_CTRL_TAGGED | KW_DDP_VERSION |
		  (last ? KW_DDP_CTRL_LAST : 0);
	t->ulp_ctrl = rdmap_ctrl;
	t->stag = cpu_to_be32(stag);
	t->to = cpu_to_be64(to);
}

/**
 * kw_ddp_put_untagged() - write an untagged header
 * @p: KW_DDP_UNTAGGED_LEN bytes
 * @last: last segment of the message
 * @rdmap_ctrl: RDMAP's control byte
 * @ulp_dword: Invalidate STag of a Send with Invalidate, else 0
 * @qn: queue number
 * @msn: message sequence number
 * @mo: offset in the message of the segment's first byte
 */
static inline void kw_ddp_put_untagged(u8 *p, bool last, u8 rdmap_ctrl,
				       u32 ulp_dword, u32 qn, u32 msn, u32 mo)
{
	struct kw_ddp_untagged *u = (struct kw_ddp_untagged *)p;

	u->ctrl = KW_DDP_VERSION | (last ? KW_DDP_CTRL_LAST : 0);
	u->ulp_ctrl = rdmap_ctrl;
	u->ulp_dword = cpu_to_be32(ulp_dword);
	u->qn = cpu_to_be32(qn);
	u->msn = cpu_to_be32(msn);
	u->mo = cpu_to_be32(mo);
}

/*
 * How many separate parts of an untagged message may be there at a time. One
 * is enough for a source that sends in the order of MO, or in the opposite
 * one; 32 are for any order of a message of 64 segments.
 */
#define KW_DDP_MAX_RANGES	32

/**
 * struct kw_ddp_range - bytes of a message
 * @from: offset of the first
 * @to: offset behind the last
 */
struct kw_ddp_range {
	u32 from;
	u32 to;
};

/**
 * struct kw_ddp_got - what has come of an untagged message
 * @nr: ranges in use; 0 to begin with
 * @range: the bytes that have come, ascending, no two of them touching
 */
struct kw_ddp_got {
	u32 nr;
	struct kw_ddp_range range[KW_DDP_MAX_RANGES];
};

u16 kw_ddp_take(struct kw_ddp_got *got, const struct kw_ddp_hdr *h, u32 len,
		u32 room);

/* Of a message that has no more bytes than this, a bit is kept for each. */
#define KW_DDP_SHORT_MAX	63

u16 kw_ddp_take_short(u64 *got, const struct kw_ddp_hdr *h, u32 len, u32 room);

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_DDP_H */
