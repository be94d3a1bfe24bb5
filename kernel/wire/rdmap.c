// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * RDMAP: the table of opcodes and the bodies of requests and responses.
 */
#include "wire/ddp.h"
#include "wire/rdmap.h"

const struct kw_rdmap_op_info kw_rdmap_ops[KW_RDMAP_NR_OPS] = {
	[KW_RDMAP_WRITE] = { .valid = true, .tagged = true },
	[KW_RDMAP_READ_REQ] = { .valid = true, .qn = KW_QN_READ_REQ,
				.body_len = KW_READ_REQ_LEN },
	[KW_RDMAP_READ_RESP] = { .valid = true, .tagged = true },
	[KW_RDMAP_SEND] = { .valid = true, .qn = KW_QN_SEND },
	[KW_RDMAP_SEND_INV] = { .valid = true, .qn = KW_QN_SEND },
	[KW_RDMAP_SEND_SE] = { .valid = true, .qn = KW_QN_SEND },
	[KW_RDMAP_SEND_SE_INV] = { .valid = true, .qn = KW_QN_SEND },
	[KW_RDMAP_TERMINATE] = { .valid = true, .qn = KW_QN_TERMINATE },
	[KW_RDMAP_IMM] = { .valid = true, .qn = KW_QN_SEND,
			   .body_len = KW_IMM_LEN },
	[KW_RDMAP_IMM_SE] = { .valid = true, .qn = KW_QN_SEND,
			      .body_len = KW_IMM_LEN },
	[KW_RDMAP_ATOMIC_REQ] = { .valid = true, .qn = KW_QN_READ_REQ,
				  .body_len = KW_ATOMIC_REQ_LEN },
	[KW_RDMAP_ATOMIC_RESP] = { .valid = true, .qn = KW_QN_ATOMIC_RESP,
				   .body_len = KW_ATOMIC_RESP_LEN },
};

/**
 * kw_read_req_parse() - read the body of an RDMA Read Request (RFC 5040, 4.4)
 * @buf: KW_READ_REQ_LEN bytes, in private memory
 * @out: result, nothing of it checked
 *
 * Context: any.
 */
void kw_read_req_parse(const u8 *buf, struct kw_read_req *out)
{
	const struct kw_read_req_body *b = (const struct kw_read_req_body *)buf;

	out->sink_stag = be32_to_cpu(b->sink_stag);
	out->sink_to = be64_to_cpu(b->sink_to);
	out->size = be32_to_cpu(b->size);
	out->src_stag = be32_to_cpu(b->src_stag);
	out->src_to = be64_to_cpu(b->src_to);
}

/**
 * kw_read_req_build() - write the body of an RDMA Read Request
 * @buf: KW_READ_REQ_LEN bytes
 * @req: the request
 *
 * Context: any.
 * Return: bytes written.
 */
size_t kw_read_req_build(u8 *buf, const struct kw_read_req *req)
{
	struct kw_read_req_body *b = (struct kw_read_req_body *)buf;

	b->sink_stag = cpu_to_be32(req->sink_stag);
	b->sink_to = cpu_to_be64(req->sink_to);
	b->size = cpu_to_be32(req->size);
	b->src_stag = cpu_to_be32(req->src_stag);
	b->src_to = cpu_to_be64(req->src_to);
	return KW_READ_REQ_LEN;
}

/**
 * kw_imm_parse() - read the body of an Immediate Data message (RFC 7306, 6.2)
 * @buf: KW_IMM_LEN bytes, in private memory
 *
 * The RFC has eight bytes without a structure, and verbs have four, in network
 * byte order. They are the first four, as with cxgb4; the others are ignored.
 *
 * Context: any.
 * Return: the four bytes of verbs.
 */
__be32 kw_imm_parse(const u8 *buf)
{
	__be32 imm;

	memcpy(&imm, buf, sizeof(imm));
	return imm;
}

/**
 * kw_imm_build() - write the body of an Immediate Data message
 * @buf: KW_IMM_LEN bytes
 * @imm: the four bytes of verbs; those behind them are 0
 *
 * Context: any.
 * Return: bytes written.
 */
size_t kw_imm_build(u8 *buf, __be32 imm)
{
	memset(buf, 0, KW_IMM_LEN);
	memcpy(buf, &imm, sizeof(imm));
	return KW_IMM_LEN;
}

/**
 * kw_atomic_req_parse() - read the body of an Atomic Request (RFC 7306)
 * @buf: KW_ATOMIC_REQ_LEN bytes, in private memory
 * @out: result, nothing of it checked
 *
 * Context: any.
 */
void kw_atomic_req_parse(const u8 *buf, struct kw_atomic_req *out)
{
	const struct kw_atomic_req_body *b =
		(const struct kw_atomic_req_body *)buf;

	out->op = be32_to_cpu(b->op) & 0x0f;
	out->req_id = be32_to_cpu(b->req_id);
	out->stag = be32_to_cpu(b->stag);
	out->to = be64_to_cpu(b->to);
	out->add_swap = be64_to_cpu(b->add_swap);
	out->add_swap_mask = be64_to_cpu(b->add_swap_mask);
	out->compare = be64_to_cpu(b->compare);
	out->compare_mask = be64_to_cpu(b->compare_mask);
}

/**
 * kw_atomic_req_build() - write the body of an Atomic Request
 * @buf: KW_ATOMIC_REQ_LEN bytes
 * @req: the request
 *
 * Context: any.
 * Return: bytes written.
 */
size_t kw_atomic_req_build(u8 *buf, const struct kw_atomic_req *req)
{
	struct kw_atomic_req_body *b = (struct kw_atomic_req_body *)buf;

	b->op = cpu_to_be32(req->op & 0x0f);
	b->req_id = cpu_to_be32(req->req_id);
	b->stag = cpu_to_be32(req->stag);
	b->to = cpu_to_be64(req->to);
	b->add_swap = cpu_to_be64(req->add_swap);
	b->add_swap_mask = cpu_to_be64(req->add_swap_mask);
	b->compare = cpu_to_be64(req->compare);
	b->compare_mask = cpu_to_be64(req->compare_mask);
	return KW_ATOMIC_REQ_LEN;
}

/* Fields of any length are added, each by itself: @tops are their highest bits. */
static u64 add_fields(u64 a, u64 b, u64 tops)
{
	/* Without these bits no carry leaves a field; they are added without one. */
	u64 sum = (a & ~tops) + (b & ~tops);

	return sum ^ ((a ^ b) & tops);
}

/**
 * kw_atomic_result() - what an atomic operation makes of a value
 * @req: the request; its @op is one of enum kw_atomic_op
 * @orig: value in memory, in the byte order of this machine
 *
 * RFC 7306 sections 5.1.1 and 5.1.2.
 *
 * Context: any.
 * Return: the value to store; @orig if a comparison fails.
 */
u64 kw_atomic_result(const struct kw_atomic_req *req, u64 orig)
{
	if (req->op == KW_ATOMIC_FETCH_ADD)
		return add_fields(orig, req->add_swap, req->add_swap_mask);
	if ((orig ^ req->compare) & req->compare_mask)
		return orig;
	return (orig & ~req->add_swap_mask) |
	       (req->add_swap & req->add_swap_mask);
}

/**
 * kw_atomic_resp_parse() - read the body of an Atomic Response (RFC 7306)
 * @buf: KW_ATOMIC_RESP_LEN bytes, in private memory
 * @out: result
 *
 * Context: any.
 */
void kw_atomic_resp_parse(const u8 *buf, struct kw_atomic_resp *out)
{
	const struct kw_atomic_resp_body *b =
		(const struct kw_atomic_resp_body *)buf;

	out->req_id = be32_to_cpu(b->req_id);
	out->orig = be64_to_cpu(b->orig);
}

/**
 * kw_atomic_resp_build() - write the body of an Atomic Response
 * @buf: KW_ATOMIC_RESP_LEN bytes
 * @resp: the response
 *
 * Context: any.
 * Return: bytes written.
 */
size_t kw_atomic_resp_build(u8 *buf, const struct kw_atomic_resp *resp)
{
	struct kw_atomic_resp_body *b = (struct kw_atomic_resp_body *)buf;

	b->req_id = cpu_to_be32(resp->req_id);
	b->orig = cpu_to_be64(resp->orig);
	return KW_ATOMIC_RESP_LEN;
}
