// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What the peer may do with registered memory.
 */
#include <rdma/ib_verbs.h>

#include "stream/rights.h"
#include "stream/sg.h"

/* Codes of the same check differ between DDP (tagged) and RDMAP (Read Request). */
struct kw_mem_errors {
	u16 inv_stag;
	u16 assoc;
	u16 wrap;
	u16 bounds;
};

static const struct kw_mem_errors kw_tagged_errors = {
	.inv_stag = KW_TERM_DDP_TAGGED_INV_STAG,
	.assoc = KW_TERM_DDP_TAGGED_STAG_NOT_ASSOC,
	.wrap = KW_TERM_DDP_TAGGED_TO_WRAP,
	.bounds = KW_TERM_DDP_TAGGED_BOUNDS,
};

/* It is not the peer who chose the place: that it can wrap is not told. */
static const struct kw_mem_errors kw_sink_errors = {
	.inv_stag = KW_TERM_DDP_TAGGED_INV_STAG,
	.assoc = KW_TERM_DDP_TAGGED_STAG_NOT_ASSOC,
	.wrap = KW_TERM_DDP_TAGGED_BOUNDS,
	.bounds = KW_TERM_DDP_TAGGED_BOUNDS,
};

static const struct kw_mem_errors kw_read_errors = {
	.inv_stag = KW_TERM_RDMAP_INV_STAG,
	.assoc = KW_TERM_RDMAP_STAG_NOT_ASSOC,
	.wrap = KW_TERM_RDMAP_TO_WRAP,
	.bounds = KW_TERM_RDMAP_BOUNDS,
};

/*
 * May these bytes be touched? If so, their region is held. A range that wraps is
 * also out of bounds: it is looked for first, or its error could never be told
 * (RFC 5041 section 7.1).
 */
static u16 kw_check(struct kw_stream *s, u32 stag, u64 to, u32 len, u32 access,
		    const struct kw_mem_errors *err, struct kw_mem **held)
{
	struct kw_mem *mem = kw_sg_hold(s, stag);
	u16 code = 0;

	if (!mem)
		return err->inv_stag;
	if (mem->pd != s->pd)
		code = err->assoc;
	else if (to + len < to)
		code = err->wrap;
	else if (!kw_mem_covers(mem, to, len))
		code = err->bounds;
	else if (!(mem->access & access))
		code = KW_TERM_RDMAP_ACCESS;
	if (code)
		kw_mem_put(mem);
	else
		*held = mem;
	return code;
}

/* The peer needs the right of the queue pair, too. */
static u16 kw_check_remote(struct kw_stream *s, u32 stag, u64 to, u32 len,
			   u32 access, const struct kw_mem_errors *err,
			   struct kw_mem **held)
{
	u16 code = kw_check(s, stag, to, len, access, err, held);

	if (code || READ_ONCE(s->access) & access)
		return code;
	kw_mem_put(*held);
	return KW_TERM_RDMAP_ACCESS;
}

/**
 * kw_check_write() - may the peer write there?
 * @s: stream
 * @stag: STag that the peer names
 * @to: tagged offset of the first octet
 * @len: octets, at least 1
 * @mem: result: if it may, the region, for the caller to kw_mem_put()
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or the enum kw_term_code to answer with.
 */
u16 kw_check_write(struct kw_stream *s, u32 stag, u64 to, u32 len,
		   struct kw_mem **mem)
{
	return kw_check_remote(s, stag, to, len, IB_ACCESS_REMOTE_WRITE,
			       &kw_tagged_errors, mem);
}

/**
 * kw_check_read() - may the peer read there?
 * @s: stream
 * @stag: STag that the peer names
 * @to: tagged offset of the first octet
 * @len: octets, at least 1
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or the enum kw_term_code to answer with.
 */
u16 kw_check_read(struct kw_stream *s, u32 stag, u64 to, u32 len)
{
	struct kw_mem *mem;
	u16 code = kw_check_remote(s, stag, to, len, IB_ACCESS_REMOTE_READ,
				   &kw_read_errors, &mem);

	if (!code)
		kw_mem_put(mem);
	return code;
}

/**
 * kw_check_sink() - may the answer to a Read of ours be placed there?
 * @s: stream
 * @sge: what the Read was posted with
 * @off: offset in it of the first octet
 * @len: octets, at least 1
 * @mem: result: if it may, the region, for the caller to kw_mem_put()
 *
 * Local rights are asked for: it is not the peer who chose the place. They were
 * asked for when the Read was sent too, but a region can go away at any time.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or the enum kw_term_code to answer with.
 */
u16 kw_check_sink(struct kw_stream *s, const struct kiwarp_sge *sge, u32 off,
		  u32 len, struct kw_mem **mem)
{
	return kw_check(s, sge->lkey, sge->addr + off, len,
			IB_ACCESS_LOCAL_WRITE, &kw_sink_errors, mem);
}
