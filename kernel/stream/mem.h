/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Registered memory as the data path sees it.
 *
 * A region is a list of extents, contiguous in the direct map or a dma-buf's
 * mapping. Copies cross pages, not extents. The module depends on 64BIT: pinned
 * pages always have an address.
 *
 * A memory window is a part of a region with its own STag. Peers alone use it.
 * The region stays as long as a window is bound to it.
 *
 * Lifetime: the region's owner removes it from its table, waits with
 * synchronize_srcu() on the domain that every data-path pass holds, then frees
 * it. The data path takes no reference per segment. Only a region of a fast
 * registration, or a window, is held for each copy: a work request withdraws and
 * changes it in contexts that cannot wait for a domain.
 */
#ifndef KW_STREAM_MEM_H
#define KW_STREAM_MEM_H

#include <linux/atomic.h>
#include <linux/types.h>

/**
 * struct kw_extent - bytes that are contiguous in kernel address space
 * @off: offset of the first byte from the start of the region
 * @va: kernel address of that byte
 */
struct kw_extent {
	u64 off;
	u8 *va;
};

/**
 * struct kw_run - bytes of a region that are contiguous in kernel address space
 * @va: kernel address of the first
 * @len: how many
 */
struct kw_run {
	u8 *va;
	u64 len;
};

/**
 * struct kw_mem - a registered region, or a memory window
 * @stag: index and key, as in lkey and rkey
 * @access: IB_ACCESS_* bits
 * @pd: identity of the protection domain whose streams may use it for anything;
 *	compared, never dereferenced. NULL: a window, or a region of another
 *	domain; a stream's is never NULL
 * @window_pd: a window's protection domain, which verbs/mw.c follows. NULL: no
 *	window
 * @base: address (iova, and Tagged Offset) of the first byte
 * @len: bytes
 * @valid: false once invalidated; read without a lock
 * @fast: of a fast registration, or a window: can become something else
 * @copied: what is sent from it is always copied: TCP cannot keep its pages
 * @users: with @fast: copies to or from it that are under way
 * @nr_ext: entries of @ext
 * @ext: extents by ascending offset, the first at offset 0
 * @shift: offset in @ext of the first byte: not 0 for a window alone
 * @stream: identity of the only stream that a window is for, or NULL; compared,
 *	never dereferenced
 */
struct kw_mem {
	u32 stag;
	u32 access;
	const void *pd;
	const void *window_pd;
	u64 base;
	u64 len;
	bool valid;
	bool fast;
	bool copied;
	atomic_t users;
	u32 nr_ext;
	struct kw_extent *ext;
	u64 shift;
	const void *stream;
};

/**
 * kw_mem_domain() - identity of the protection domain of a region or window
 * @mem: which
 *
 * Context: any.
 * Return: the identity.
 */
static inline const void *kw_mem_domain(const struct kw_mem *mem)
{
	return mem->window_pd ?: mem->pd;
}

bool kw_mem_get_fast(struct kw_mem *mem, u32 stag);
void kw_mem_put_fast(struct kw_mem *mem);
void kw_mem_quiesce(struct kw_mem *mem);
struct kw_run kw_mem_find(const struct kw_mem *mem, u64 off, u32 *last);

/**
 * kw_mem_at() - find a byte of a region
 * @mem: the region; one without extents is addressed by kernel addresses
 * @off: offset of the byte from the region's start, less than @mem->len
 * @last: extent to try first, of this region or another: the last call's
 *
 * Context: any, inside the domain that protects @mem.
 * Return: the byte, and those of the region that follow it without a gap; those
 * behind a window, too: the caller's range ends within it.
 */
static inline struct kw_run kw_mem_at(const struct kw_mem *mem, u64 off,
				      u32 *last)
{
	const struct kw_extent *e = &mem->ext[*last];
	u64 end = mem->shift + mem->len;

	off += mem->shift;
	if (*last >= mem->nr_ext || e->off > off)
		return kw_mem_find(mem, off, last);
	if (*last + 1 < mem->nr_ext)
		end = e[1].off;
	if (off >= end)
		return kw_mem_find(mem, off, last);
	return (struct kw_run){ .va = e->va + (off - e->off), .len = end - off };
}

/**
 * kw_mem_get() - hold a region for one copy
 * @mem: the region
 * @stag: by which it was found
 *
 * Context: any but hard interrupt, inside the domain that protects @mem.
 * Return: false if it is no longer valid, or has another STag.
 */
static inline bool kw_mem_get(struct kw_mem *mem, u32 stag)
{
	return !mem->fast || kw_mem_get_fast(mem, stag);
}

/**
 * kw_mem_put() - undo kw_mem_get()
 * @mem: the region
 *
 * Context: as kw_mem_get().
 */
static inline void kw_mem_put(struct kw_mem *mem)
{
	if (mem->fast)
		kw_mem_put_fast(mem);
}

/**
 * kw_mem_covers() - whether a range of addresses lies within a region
 * @mem: the region
 * @addr: first byte's address
 * @len: bytes; may be 0
 *
 * Return: true if every byte of the range is in the region; never true for
 * a range that wraps past 2^64.
 */
static inline bool kw_mem_covers(const struct kw_mem *mem, u64 addr, u64 len)
{
	u64 off = addr - mem->base;

	return addr >= mem->base && off <= mem->len && len <= mem->len - off;
}

#endif /* KW_STREAM_MEM_H */
