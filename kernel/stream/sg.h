/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Registered memory, run by run: the only walk over SGEs and extents, for what
 * is sent and for what is received.
 */
#ifndef KW_STREAM_SG_H
#define KW_STREAM_SG_H

#include "stream/stream.h"

struct kw_mem *kw_sg_find(struct kw_stream *s, u32 stag);
int kw_sg_check(struct kw_stream *s, const struct kiwarp_sge *sge, u32 num_sge,
		u32 access);
int kw_sg_check_inv(struct kw_stream *s, const struct kiwarp_sge *sge);
u16 kw_check_write(struct kw_stream *s, u32 stag, u64 to, u32 len,
		   struct kw_mem **mem);
u16 kw_check_read(struct kw_stream *s, u32 stag, u64 to, u32 len);
u16 kw_check_atomic(struct kw_stream *s, u32 stag, u64 to, struct kw_mem **mem,
		    u64 **at);
u16 kw_check_sink(struct kw_stream *s, const struct kiwarp_sge *sge, u32 off,
		  u32 len, struct kw_mem **mem);
bool kw_sg_next(struct kw_stream *s, struct kw_sg_iter *it);

/**
 * kw_sg_hold() - find a region, and hold it
 * @s: stream
 * @stag: its STag
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: the region, for the caller to kw_mem_put(), or NULL.
 */
static __always_inline struct kw_mem *kw_sg_hold(struct kw_stream *s, u32 stag)
{
	struct kw_mem *mem = s->cache.mem;

	if (!mem || mem->stag != stag || !READ_ONCE(mem->valid))
		mem = kw_sg_find(s, stag);
	return mem && kw_mem_get(mem, stag) ? mem : NULL;
}

/**
 * kw_sg_start() - walk over a list
 * @it: iterator; points to @sge, which has to stay
 * @sge: the list
 * @num_sge: its entries; 0 is a list without bytes
 * @access: IB_ACCESS_* that each region must have; 0 to send
 */
static inline void kw_sg_start(struct kw_sg_iter *it,
			       const struct kiwarp_sge *sge, u32 num_sge,
			       u32 access)
{
	it->sge = num_sge ? sge : NULL;
	it->end = sge + num_sge;
	it->off = 0;
	it->access = access;
	it->mem = NULL;
	it->run.len = 0;
}

/**
 * kw_sg_start_bytes() - walk over private memory
 * @it: iterator
 * @p: first byte
 * @len: how many
 */
static inline void kw_sg_start_bytes(struct kw_sg_iter *it, u8 *p, u32 len)
{
	it->sge = NULL;
	it->mem = NULL;
	it->run.va = p;
	it->run.len = len;
}

/**
 * kw_sg_seek() - move to a place in the list
 * @it: iterator that holds no region
 * @sge: its list
 * @off: bytes from the list's start; at most what it has
 */
static inline void kw_sg_seek(struct kw_sg_iter *it,
			      const struct kiwarp_sge *sge, u32 off)
{
	while (sge + 1 < it->end && off >= sge->length)
		off -= sge++->length;
	it->sge = sge;
	it->off = off;
}

/**
 * kw_sg_advance() - move within the run
 * @it: iterator
 * @len: bytes; at most the run's
 */
static __always_inline void kw_sg_advance(struct kw_sg_iter *it, u32 len)
{
	it->run.va += len;
	it->run.len -= len;
	it->off += len;
}

/**
 * kw_sg_run() - how many of the next bytes are contiguous
 * @s: stream
 * @it: iterator; it has a run if this is not 0
 * @len: bytes to go, at least 1
 *
 * Context: as kw_sg_next().
 * Return: at most @len; 0 if a right is missing or the list ends.
 */
static __always_inline u32 kw_sg_run(struct kw_stream *s, struct kw_sg_iter *it,
				     u32 len)
{
	if (!it->run.len && !kw_sg_next(s, it))
		return 0;
	/* Not min(): tests include this as C++. */
	return it->run.len < len ? it->run.len : len;
}

/**
 * kw_sg_release() - release the region
 * @it: iterator; its position stays
 */
static __always_inline void kw_sg_release(struct kw_sg_iter *it)
{
	if (!it->mem)
		return;
	kw_mem_put(it->mem);
	it->mem = NULL;
	it->run.len = 0;
}

#endif /* KW_STREAM_SG_H */
