// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Copying between received octets, outgoing FPDUs and registered memory.
 */
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "stream/owner.h"
#include "stream/place.h"
#include "stream/vec.h"

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

static const struct kw_mem_errors kw_read_errors = {
	.inv_stag = KW_TERM_RDMAP_INV_STAG,
	.assoc = KW_TERM_RDMAP_STAG_NOT_ASSOC,
	.wrap = KW_TERM_RDMAP_TO_WRAP,
	.bounds = KW_TERM_RDMAP_BOUNDS,
};

/* The last region found is good until the pass ends: see struct kw_rx.mem. */
static __always_inline struct kw_mem *kw_find_mem(struct kw_stream *s,
						  u32 stag)
{
	struct kw_mem *mem = s->rx.mem;

	if (mem && mem->stag == stag && READ_ONCE(mem->valid))
		return mem;
	mem = kw_own_mem(s, stag);
	s->rx.mem = mem;
	return mem;
}

/* The same, held for a copy: see kw_mem_get(). */
static __always_inline struct kw_mem *kw_hold_mem(struct kw_stream *s,
						  u32 stag)
{
	struct kw_mem *mem = kw_find_mem(s, stag);

	return mem && kw_mem_get(mem, stag) ? mem : NULL;
}

/* Lets go of a region that failed a check. */
static u16 kw_release_on(u16 code, struct kw_mem **mem)
{
	if (code && *mem) {
		kw_mem_put(*mem);
		*mem = NULL;
	}
	return code;
}

/*
 * May the peer touch these octets? Both the region's rights and the queue
 * pair's are asked. A range that wraps is also out of bounds: it is looked for
 * first, or its error could never be told (RFC 5041 section 7.1).
 */
static u16 kw_check_remote(struct kw_stream *s, const struct kw_mem *mem,
			   u64 to, u32 len, u32 access,
			   const struct kw_mem_errors *err)
{
	if (!mem)
		return err->inv_stag;
	if (mem->pd != s->pd)
		return err->assoc;
	if (to + len < to)
		return err->wrap;
	if (!kw_mem_covers(mem, to, len))
		return err->bounds;
	if (!(mem->access & access) || !(READ_ONCE(s->access) & access))
		return KW_TERM_RDMAP_ACCESS;
	return 0;
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
	*mem = kw_hold_mem(s, stag);
	return kw_release_on(kw_check_remote(s, *mem, to, len,
					     IB_ACCESS_REMOTE_WRITE,
					     &kw_tagged_errors), mem);
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
	struct kw_mem *mem = kw_hold_mem(s, stag);
	u16 code = kw_check_remote(s, mem, to, len, IB_ACCESS_REMOTE_READ,
				   &kw_read_errors);

	if (mem)
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
	u16 code = 0;

	*mem = kw_hold_mem(s, sge->lkey);
	if (!*mem)
		code = KW_TERM_DDP_TAGGED_INV_STAG;
	else if ((*mem)->pd != s->pd)
		code = KW_TERM_DDP_TAGGED_STAG_NOT_ASSOC;
	else if (!kw_mem_covers(*mem, sge->addr + off, len))
		code = KW_TERM_DDP_TAGGED_BOUNDS;
	else if (!((*mem)->access & IB_ACCESS_LOCAL_WRITE))
		code = KW_TERM_RDMAP_ACCESS;
	return kw_release_on(code, mem);
}

/* The region of an entry, for the caller to kw_mem_put(), or NULL. */
static __always_inline struct kw_mem *
kw_hold_sge(struct kw_stream *s, const struct kiwarp_sge *sge, u32 access)
{
	struct kw_mem *mem = kw_hold_mem(s, sge->lkey);

	if (!mem)
		return NULL;
	if (mem->pd == s->pd && (mem->access & access) == access &&
	    kw_mem_covers(mem, sge->addr, sge->length))
		return mem;
	kw_mem_put(mem);
	return NULL;
}

/**
 * kw_get_sge() - the region of an entry of a local SGE list
 * @s: stream
 * @sge: the entry
 * @access: IB_ACCESS_* that the region must have
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: the region, for the caller to kw_mem_put(); NULL if a right is
 * missing.
 */
struct kw_mem *kw_get_sge(struct kw_stream *s, const struct kiwarp_sge *sge,
			  u32 access)
{
	return kw_hold_sge(s, sge, access);
}

/**
 * kw_check_sgl() - check the rights to every octet of a local SGE list
 * @s: stream
 * @sge: the list
 * @num_sge: entries
 * @access: IB_ACCESS_* that each region must have
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or -EACCES. Entries of length 0 are not checked, as no octet of
 * their regions is touched.
 */
int kw_check_sgl(struct kw_stream *s, const struct kiwarp_sge *sge,
		 u32 num_sge, u32 access)
{
	struct kw_mem *mem;
	u32 i;

	for (i = 0; i < num_sge; i++) {
		if (!sge[i].length)
			continue;
		mem = kw_hold_sge(s, &sge[i], access);
		if (!mem)
			return -EACCES;
		kw_mem_put(mem);
	}
	return 0;
}

/**
 * kw_check_inv() - can a Read with Invalidate withdraw its sink?
 * @s: stream
 * @sge: the sink
 *
 * What registers all memory can not be withdrawn, and to find that out when
 * the answer is there would be too late.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or -EACCES.
 */
int kw_check_inv(struct kw_stream *s, const struct kiwarp_sge *sge)
{
	struct kw_mem *mem = kw_hold_mem(s, sge->lkey);
	bool good;

	if (!mem)
		return -EACCES;
	good = mem->nr_ext && mem->pd == s->pd;
	kw_mem_put(mem);
	return good ? 0 : -EACCES;
}

/**
 * kw_place_tagged() - place payload into a region whose rights were checked
 * @s: stream
 * @c: the payload
 * @mem: region that covers the range
 * @addr: address of the first octet
 * @len: octets
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or -EIO if the payload is not all there (it was counted before,
 * so this says that the socket's queue is damaged).
 */
int kw_place_tagged(struct kw_stream *s, struct kw_cursor *c,
		    const struct kw_mem *mem, u64 addr, u32 len)
{
	u64 off = addr - mem->base;

	while (len) {
		struct kw_run run = kw_mem_at(mem, off, &s->rx.mem_ext);
		u32 n = min_t(u64, run.len, len);

		if (!kw_cursor_copy(c, run.va, n))
			return -EIO;
		off += n;
		len -= n;
	}
	return 0;
}

/**
 * kw_sg_seek() - find an offset in a local SGE list
 * @sge: the list
 * @num_sge: entries
 * @off: octets from its start; at most what the list has
 *
 * Return: the position.
 */
struct kw_sg_pos kw_sg_seek(const struct kiwarp_sge *sge, u32 num_sge, u32 off)
{
	struct kw_sg_pos pos = { .off = off };

	while (pos.idx < num_sge && pos.off >= sge[pos.idx].length)
		pos.off -= sge[pos.idx++].length;
	return pos;
}

/**
 * kw_place_sgl() - place payload at a position of a local SGE list
 * @s: stream
 * @c: the payload
 * @sge: the list
 * @num_sge: entries
 * @pos: where the first octet goes; moved past the last
 * @len: octets; the caller made sure that the list has room for them
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, -EACCES if a right is missing, -EIO as kw_place_tagged().
 */
int kw_place_sgl(struct kw_stream *s, struct kw_cursor *c,
		 const struct kiwarp_sge *sge, u32 num_sge,
		 struct kw_sg_pos *pos, u32 len)
{
	while (len && pos->idx < num_sge) {
		const struct kiwarp_sge *e = &sge[pos->idx];
		u32 n = min(len, e->length - pos->off);
		struct kw_mem *mem;
		int rv;

		if (n) {
			mem = kw_hold_sge(s, e, IB_ACCESS_LOCAL_WRITE);
			if (!mem)
				return -EACCES;
			rv = kw_place_tagged(s, c, mem, e->addr + pos->off, n);
			kw_mem_put(mem);
			if (rv)
				return rv;
			pos->off += n;
			len -= n;
		}
		if (pos->off == e->length) {
			pos->idx++;
			pos->off = 0;
		}
	}
	return len ? -EACCES : 0;
}

static void kw_gather(struct kw_stream *s, u8 *dst, const struct kw_mem *mem,
		      u64 off, u32 len, u32 *crc)
{
	while (len) {
		struct kw_run run = kw_mem_at(mem, off, &s->rx.mem_ext);
		u32 n = min_t(u64, run.len, len);

		if (crc)
			*crc = kw_long_crc32c_copy(*crc, dst, run.va, n);
		else
			kw_long_copy(dst, run.va, n);
		dst += n;
		off += n;
		len -= n;
	}
}

/**
 * kw_gather_sgl() - copy octets from a position of a local SGE list
 * @s: stream
 * @dst: where to
 * @sge: the list
 * @num_sge: entries
 * @pos: where the first octet is; moved past the last
 * @len: octets
 * @access: IB_ACCESS_* that each region must have; 0 to send
 * @crc: a CRC32C to continue over them on the way, or NULL
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or -EACCES if a right is missing or the list is too short.
 */
int kw_gather_sgl(struct kw_stream *s, u8 *dst, const struct kiwarp_sge *sge,
		  u32 num_sge, struct kw_sg_pos *pos, u32 len, u32 access,
		  u32 *crc)
{
	while (len && pos->idx < num_sge) {
		const struct kiwarp_sge *e = &sge[pos->idx];
		u32 n = min(len, e->length - pos->off);
		struct kw_mem *mem;

		if (n) {
			mem = kw_hold_sge(s, e, access);
			if (!mem)
				return -EACCES;
			kw_gather(s, dst, mem, e->addr + pos->off - mem->base,
				  n, crc);
			kw_mem_put(mem);
			dst += n;
			pos->off += n;
			len -= n;
		}
		if (pos->off == e->length) {
			pos->idx++;
			pos->off = 0;
		}
	}
	return len ? -EACCES : 0;
}
