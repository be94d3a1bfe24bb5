// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Copying between received octets, outgoing FPDUs and registered memory.
 */
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "stream/owner.h"
#include "stream/place.h"

/* The last region found is good until the pass ends: see struct kw_rx.mem. */
static struct kw_mem *kw_local_mem(struct kw_stream *s, u32 lkey)
{
	struct kw_mem *mem = s->rx.mem;

	if (mem && mem->stag == lkey && READ_ONCE(mem->valid))
		return mem;
	mem = kw_own_mem(s, lkey);
	s->rx.mem = mem;
	return mem;
}

static struct kw_mem *kw_check_sge(struct kw_stream *s,
				   const struct kiwarp_sge *sge, u32 access)
{
	struct kw_mem *mem = kw_local_mem(s, sge->lkey);

	if (!mem || mem->pd != s->pd || (mem->access & access) != access ||
	    !kw_mem_covers(mem, sge->addr, sge->length))
		return NULL;
	return mem;
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
	u32 i;

	for (i = 0; i < num_sge; i++)
		if (sge[i].length && !kw_check_sge(s, &sge[i], access))
			return -EACCES;
	return 0;
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
		u64 run;
		u8 *va = kw_mem_at(mem, off, &run);
		u32 n = min_t(u64, run, len);

		if (!kw_cursor_copy(c, va, n))
			return -EIO;
		off += n;
		len -= n;
	}
	return 0;
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
		const struct kw_mem *mem;
		int rv;

		if (n) {
			mem = kw_check_sge(s, e, IB_ACCESS_LOCAL_WRITE);
			if (!mem)
				return -EACCES;
			rv = kw_place_tagged(s, c, mem, e->addr + pos->off, n);
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

static void kw_gather(u8 *dst, const struct kw_mem *mem, u64 off, u32 len)
{
	while (len) {
		u64 run;
		const u8 *va = kw_mem_at(mem, off, &run);
		u32 n = min_t(u64, run, len);

		memcpy(dst, va, n);
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
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or -EACCES if a right is missing or the list is too short.
 */
int kw_gather_sgl(struct kw_stream *s, u8 *dst, const struct kiwarp_sge *sge,
		  u32 num_sge, struct kw_sg_pos *pos, u32 len, u32 access)
{
	while (len && pos->idx < num_sge) {
		const struct kiwarp_sge *e = &sge[pos->idx];
		u32 n = min(len, e->length - pos->off);
		const struct kw_mem *mem;

		if (n) {
			mem = kw_check_sge(s, e, access);
			if (!mem)
				return -EACCES;
			kw_gather(dst, mem, e->addr + pos->off - mem->base, n);
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
