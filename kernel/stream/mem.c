// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * From an offset in a registered region to an address.
 */
#include "stream/mem.h"

/* The last extent that does not begin after @off. */
static u32 kw_extent_find(const struct kw_mem *mem, u64 off)
{
	u32 lo = 0, hi = mem->nr_ext;

	while (hi - lo > 1) {
		u32 mid = lo + (hi - lo) / 2;

		if (mem->ext[mid].off <= off)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/**
 * kw_mem_at() - find an octet of a region
 * @mem: the region; one without extents is addressed by kernel addresses
 * @off: offset of the octet from the region's start, less than @mem->len
 * @run: result: octets from this one that are contiguous in kernel address
 *	space, at least 1, and all in the region
 *
 * Context: any, inside the domain that protects @mem.
 * Return: the octet's kernel address.
 */
u8 *kw_mem_at(const struct kw_mem *mem, u64 off, u64 *run)
{
	const struct kw_extent *e;
	u64 end = mem->len;
	u32 i;

	if (!mem->nr_ext) {
		*run = end - off;
		return (u8 *)(uintptr_t)(mem->base + off);
	}

	i = kw_extent_find(mem, off);
	e = &mem->ext[i];
	if (i + 1 < mem->nr_ext)
		end = e[1].off;
	*run = end - off;
	return e->va + (off - e->off);
}
