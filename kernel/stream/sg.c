// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Finding and holding regions, the rights of local SGE lists, and walking over
 * their bytes.
 */
#include <rdma/ib_verbs.h>

#include "stream/ops.h"
#include "stream/sg.h"

/**
 * kw_sg_find() - find a region that is not the last one found
 * @s: stream
 * @stag: its STag
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: the region, or NULL.
 */
struct kw_mem *kw_sg_find(struct kw_stream *s, u32 stag)
{
	s->cache.mem = s->ops->mem(s, stag);
	return s->cache.mem;
}

/* The region of an entry, all of which may be used that way; or NULL. */
static __always_inline struct kw_mem *
kw_sg_hold_sge(struct kw_stream *s, const struct kiwarp_sge *sge, u32 access)
{
	struct kw_mem *mem = kw_sg_hold(s, sge->lkey);

	if (!mem)
		return NULL;
	if (mem->pd == s->pd && (mem->access & access) == access &&
	    kw_mem_covers(mem, sge->addr, sge->length))
		return mem;
	kw_mem_put(mem);
	return NULL;
}

/**
 * kw_sg_check() - check the rights to every byte of a local SGE list
 * @s: stream
 * @sge: the list
 * @num_sge: entries
 * @access: IB_ACCESS_* that each region must have
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or -EACCES. Entries of length 0 are not checked, as no byte of
 * their regions is touched.
 */
int kw_sg_check(struct kw_stream *s, const struct kiwarp_sge *sge, u32 num_sge,
		u32 access)
{
	struct kw_mem *mem;
	u32 i;

	for (i = 0; i < num_sge; i++) {
		if (!sge[i].length)
			continue;
		mem = kw_sg_hold_sge(s, &sge[i], access);
		if (!mem)
			return -EACCES;
		kw_mem_put(mem);
	}
	return 0;
}

/**
 * kw_sg_check_inv() - can a Read with Invalidate withdraw its sink?
 * @s: stream
 * @sge: the sink
 *
 * What registers all memory can not be withdrawn, and to find that out when
 * the answer is there would be too late.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or -EACCES.
 */
int kw_sg_check_inv(struct kw_stream *s, const struct kiwarp_sge *sge)
{
	struct kw_mem *mem = kw_sg_hold(s, sge->lkey);
	bool good;

	if (!mem)
		return -EACCES;
	good = mem->nr_ext && mem->pd == s->pd;
	kw_mem_put(mem);
	return good ? 0 : -EACCES;
}

/* Go on to the next entry that has bytes, and hold its region. */
static bool kw_sg_enter(struct kw_stream *s, struct kw_sg_iter *it)
{
	kw_sg_release(it);
	while (it->off == it->sge->length) {
		if (it->sge + 1 == it->end)
			return false;
		it->sge++;
		it->off = 0;
	}
	it->mem = kw_sg_hold_sge(s, it->sge, it->access);
	return it->mem;
}

/**
 * kw_sg_next() - find the next run of contiguous bytes
 * @s: stream
 * @it: iterator whose run is used up; holds the region until kw_sg_release()
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: false if a right is missing or the list ends.
 */
bool kw_sg_next(struct kw_stream *s, struct kw_sg_iter *it)
{
	if (!it->sge)
		return false;
	if ((!it->mem || it->off == it->sge->length) && !kw_sg_enter(s, it))
		return false;
	it->run = kw_mem_at(it->mem, it->sge->addr + it->off - it->mem->base,
			    &s->cache.ext);
	it->run.len = min(it->run.len, it->sge->length - it->off);
	return true;
}
