/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * RDMAP: opcodes and message bodies (RFC 5040 section 4, RFC 7306).
 */
#ifndef KW_WIRE_RDMAP_H
#define KW_WIRE_RDMAP_H

#include "wire/ddp.h"
#include "wire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kw_rdmap_opcode {
	KW_RDMAP_WRITE		= 0,
	KW_RDMAP_READ_REQ	= 1,
	KW_RDMAP_READ_RESP	= 2,
	KW_RDMAP_SEND		= 3,
	KW_RDMAP_SEND_INV	= 4,
	KW_RDMAP_SEND_SE	= 5,
	KW_RDMAP_SEND_SE_INV	= 6,
	KW_RDMAP_TERMINATE	= 7,
	KW_RDMAP_IMM		= 8,
	KW_RDMAP_IMM_SE		= 9,
	KW_RDMAP_ATOMIC_REQ	= 10,
	KW_RDMAP_ATOMIC_RESP	= 11,
	KW_RDMAP_NR_OPS		= 16,	/* values of four bits */
};

#define KW_RDMAP_VERSION	1

/* The control byte of a message with opcode @op. */
#define KW_RDMAP_CTRL(op)	((u8)(KW_RDMAP_VERSION << 6 | (op)))

/**
 * kw_rdmap_op() - opcode of an RDMAP control byte
 * @ctrl: the byte
 *
 * Return: 0 to 15, an index of kw_rdmap_ops.
 */
static inline u8 kw_rdmap_op(u8 ctrl)
{
	return ctrl & 0x0f;
}

/**
 * kw_rdmap_set_version() - give a header the version of its connection
 * @hdr: first bytes of a DDP header; the versions are the RFCs' own
 * @version: of DDP and RDMAP: both are 1, or both 0 (RFC 5044 appendix C.1)
 */
static inline void kw_rdmap_set_version(u8 *hdr, u8 version)
{
	struct kw_ddp_ctrl *c = (struct kw_ddp_ctrl *)hdr;

	c->ctrl = (u8)((c->ctrl & ~KW_DDP_CTRL_DV_MASK) | version);
	c->ulp_ctrl = (u8)((c->ulp_ctrl & 0x3f) | version << 6);
}

/**
 * kw_rdmap_rv() - RDMAP version of a control byte
 * @ctrl: the byte
 *
 * Return: 0 to 3.
 */
static inline u8 kw_rdmap_rv(u8 ctrl)
{
	return ctrl >> 6;
}

/**
 * struct kw_read_req_body - the body of an RDMA Read Request (RFC 5040 section
 * 4.4); see struct kw_read_req
 * @sink_stag: STag of the requester's buffer
 * @sink_to: tagged offset in it
 * @size: bytes to read
 * @src_stag: STag of the responder's buffer
 * @src_to: tagged offset in it
 */
struct kw_read_req_body {
	__be32 sink_stag;
	__be64 sink_to;
	__be32 size;
	__be32 src_stag;
	__be64 src_to;
} __packed;

static_assert(offsetof(struct kw_read_req_body, sink_to) == 4, "RFC 5040");
static_assert(offsetof(struct kw_read_req_body, size) == 12, "RFC 5040");
static_assert(offsetof(struct kw_read_req_body, src_stag) == 16, "RFC 5040");
static_assert(offsetof(struct kw_read_req_body, src_to) == 20, "RFC 5040");
static_assert(sizeof(struct kw_read_req_body) == 28, "RFC 5040");

#define KW_READ_REQ_LEN		((u32)sizeof(struct kw_read_req_body))
#define KW_IMM_LEN		8

/**
 * struct kw_atomic_req_body - the body of an Atomic Request (RFC 7306 section
 * 5.2.1); see struct kw_atomic_req
 * @op: the operation, in the lowest four bits
 * @req_id: returned in the response
 * @stag: STag of the responder's buffer
 * @to: tagged offset in it
 * @add_swap: value to add or to store
 * @add_swap_mask: bits of it that take part
 * @compare: value to compare with
 * @compare_mask: bits of it that take part
 */
struct kw_atomic_req_body {
	__be32 op;
	__be32 req_id;
	__be32 stag;
	__be64 to;
	__be64 add_swap;
	__be64 add_swap_mask;
	__be64 compare;
	__be64 compare_mask;
} __packed;

/**
 * struct kw_atomic_resp_body - the body of an Atomic Response (section 5.2.2)
 * @req_id: of the request that it answers
 * @orig: value before the operation
 */
struct kw_atomic_resp_body {
	__be32 req_id;
	__be64 orig;
} __packed;

static_assert(offsetof(struct kw_atomic_req_body, req_id) == 4, "RFC 7306");
static_assert(offsetof(struct kw_atomic_req_body, stag) == 8, "RFC 7306");
static_assert(offsetof(struct kw_atomic_req_body, to) == 12, "RFC 7306");
static_assert(offsetof(struct kw_atomic_req_body, add_swap) == 20, "RFC 7306");
static_assert(offsetof(struct kw_atomic_req_body, add_swap_mask) == 28,
	      "RFC 7306");
static_assert(offsetof(struct kw_atomic_req_body, compare) == 36, "RFC 7306");
static_assert(offsetof(struct kw_atomic_req_body, compare_mask) == 44,
	      "RFC 7306");
static_assert(sizeof(struct kw_atomic_req_body) == 52, "RFC 7306");
static_assert(offsetof(struct kw_atomic_resp_body, orig) == 4, "RFC 7306");
static_assert(sizeof(struct kw_atomic_resp_body) == 12, "RFC 7306");

#define KW_ATOMIC_REQ_LEN	((u32)sizeof(struct kw_atomic_req_body))
#define KW_ATOMIC_RESP_LEN	((u32)sizeof(struct kw_atomic_resp_body))

/**
 * struct kw_rdmap_op_info - what an opcode requires of its message
 * @valid: the opcode is defined
 * @tagged: it uses the tagged model
 * @qn: queue number if it uses the untagged model
 * @body_len: bytes of the DDP message, 0 if any number will do
 */
struct kw_rdmap_op_info {
	bool valid;
	bool tagged;
	u8 qn;
	u8 body_len;
};

extern const struct kw_rdmap_op_info kw_rdmap_ops[KW_RDMAP_NR_OPS];

/**
 * struct kw_read_req - body of an RDMA Read Request
 * @sink_stag: STag of the requester's buffer
 * @size: bytes to read
 * @sink_to: tagged offset in the requester's buffer
 * @src_stag: STag of the responder's buffer
 * @src_to: tagged offset in the responder's buffer
 */
struct kw_read_req {
	u32 sink_stag;
	u32 size;
	u64 sink_to;
	u32 src_stag;
	u64 src_to;
};

void kw_read_req_parse(const u8 *buf, struct kw_read_req *out);
size_t kw_read_req_build(u8 *buf, const struct kw_read_req *req);

__be32 kw_imm_parse(const u8 *buf);
size_t kw_imm_build(u8 *buf, __be32 imm);

enum kw_atomic_op {
	KW_ATOMIC_FETCH_ADD	= 0,
	KW_ATOMIC_CMP_SWAP	= 2,
};

/**
 * struct kw_atomic_req - body of an Atomic Request
 * @op: enum kw_atomic_op, or another of 0 to 15 that the peer wrote
 * @req_id: returned in the response
 * @stag: STag of the responder's buffer
 * @to: tagged offset of the 8 bytes to change
 * @add_swap: value to add or to store
 * @add_swap_mask: bits of it that take part
 * @compare: value to compare with
 * @compare_mask: bits of it that take part
 */
struct kw_atomic_req {
	u8 op;
	u32 req_id;
	u32 stag;
	u64 to;
	u64 add_swap;
	u64 add_swap_mask;
	u64 compare;
	u64 compare_mask;
};

void kw_atomic_req_parse(const u8 *buf, struct kw_atomic_req *out);
size_t kw_atomic_req_build(u8 *buf, const struct kw_atomic_req *req);
u64 kw_atomic_result(const struct kw_atomic_req *req, u64 orig);

/**
 * struct kw_atomic_resp - body of an Atomic Response
 * @req_id: of the request that it answers
 * @orig: value before the operation
 */
struct kw_atomic_resp {
	u32 req_id;
	u64 orig;
};

void kw_atomic_resp_parse(const u8 *buf, struct kw_atomic_resp *out);
size_t kw_atomic_resp_build(u8 *buf, const struct kw_atomic_resp *resp);

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_RDMAP_H */
