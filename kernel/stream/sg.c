// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Finding and holding regions, checking access rights, and walking over the
 * bytes of regions.
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

/*
 * A window is for peers' accesses, not for local sources (0) and sinks. One of
 * type 2 is for one stream. Not inline: most regions are not windows.
 */
static noinline bool kw_window_is_for(const struct kw_mem *mem,
				      const struct kw_stream *s, u32 access)
{
	return mem->window_pd == s->pd && access & ~IB_ACCESS_LOCAL_WRITE &&
	       (!mem->stream || mem->stream == s);
}

/*
 * Is it for this stream, and for such an access? RFC 5041 section 8.2 has two
 * associations: with the streams of a protection domain, or with one of them.
 */
static __always_inline bool kw_mem_is_for(const struct kw_mem *mem,
					  const struct kw_stream *s, u32 access)
{
	return mem->pd == s->pd || kw_window_is_for(mem, s, access);
}

/* Hold the region of an entry, if all of the entry has the access rights. */
static __always_inline struct kw_mem *
kw_sg_hold_sge(struct kw_stream *s, const struct kiwarp_sge *sge, u32 access)
{
	struct kw_mem *mem = kw_sg_hold(s, sge->lkey);

	if (!mem)
		return NULL;
	if (kw_mem_is_for(mem, s, access) && (mem->access & access) == access &&
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
 * Only fast registrations can be invalidated. That is checked before the Read
 * is sent: when the response is there it is too late.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or -EACCES.
 */
int kw_sg_check_inv(struct kw_stream *s, const struct kiwarp_sge *sge)
{
	struct kw_mem *mem = kw_sg_hold(s, sge->lkey);
	bool good = mem && mem->fast && mem->pd == s->pd;

	if (mem)
		kw_mem_put(mem);
	return good ? 0 : -EACCES;
}

/* DDP (tagged) and RDMAP (Read Request) have different codes for a check. */
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

/*
 * May these bytes be accessed? If so, their region is held. A range that wraps
 * is also out of bounds, so wrapping is checked first (RFC 5041 section 7.1).
 * The peer needs the right of the queue pair, too.
 */
static u16 kw_check(struct kw_stream *s, u32 stag, u64 to, u32 len, u32 access,
		    const struct kw_mem_errors *err, struct kw_mem **held)
{
	const u32 allowed = READ_ONCE(s->access) | IB_ACCESS_LOCAL_WRITE;
	struct kw_mem *mem = kw_sg_hold(s, stag);
	u16 code = 0;

	if (!mem)
		return err->inv_stag;
	if (!kw_mem_is_for(mem, s, access))
		code = err->assoc;
	else if (to + len < to)
		code = err->wrap;
	else if (!kw_mem_covers(mem, to, len))
		code = err->bounds;
	else if (!(mem->access & allowed & access))
		code = KW_TERM_RDMAP_ACCESS;
	if (code)
		kw_mem_put(mem);
	else
		*held = mem;
	return code;
}

/**
 * kw_check_write() - may the peer write there?
 * @s: stream
 * @stag: STag that the peer names
 * @to: tagged offset of the first byte
 * @len: bytes, at least 1
 * @mem: result: if it may, the region, for the caller to kw_mem_put()
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or the enum kw_term_code to answer with.
 */
u16 kw_check_write(struct kw_stream *s, u32 stag, u64 to, u32 len,
		   struct kw_mem **mem)
{
	return kw_check(s, stag, to, len, IB_ACCESS_REMOTE_WRITE,
			&kw_tagged_errors, mem);
}

/**
 * kw_check_read() - may the peer read there?
 * @s: stream
 * @stag: STag that the peer names
 * @to: tagged offset of the first byte
 * @len: bytes, at least 1
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or the enum kw_term_code to answer with.
 */
u16 kw_check_read(struct kw_stream *s, u32 stag, u64 to, u32 len)
{
	struct kw_mem *mem;
	u16 code = kw_check(s, stag, to, len, IB_ACCESS_REMOTE_READ,
			    &kw_read_errors, &mem);

	if (!code)
		kw_mem_put(mem);
	return code;
}

/**
 * kw_check_atomic() - may the peer have an atomic operation executed there?
 * @s: stream
 * @stag: STag that the peer names
 * @to: tagged offset of the first of eight bytes
 * @mem: result: if it may, the region, for the caller to kw_mem_put()
 * @at: result: where the bytes are
 *
 * It is the address that has to be aligned, whatever the offset is (RFC 7306
 * section 5.2.1). A page of the consumer's and its mapping here are aligned
 * alike, and aligned bytes are in one page.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or the enum kw_term_code to answer with.
 */
u16 kw_check_atomic(struct kw_stream *s, u32 stag, u64 to, struct kw_mem **mem,
		    u64 **at)
{
	struct kw_run run;
	u16 code;

	code = kw_check(s, stag, to, sizeof(**at), IB_ACCESS_REMOTE_ATOMIC,
			&kw_read_errors, mem);
	if (code)
		return code;
	run = kw_mem_at(*mem, to - (*mem)->base, &s->cache.ext);
	*at = (u64 *)run.va;
	if (IS_ALIGNED((uintptr_t)run.va, sizeof(**at)) &&
	    run.len >= sizeof(**at))
		return 0;
	kw_mem_put(*mem);
	return KW_TERM_RDMAP_STREAM_CATASTROPHIC;
}

/**
 * kw_check_sink() - may the answer to a Read of ours be placed there?
 * @s: stream
 * @sge: what the Read was posted with
 * @off: offset in it of the first byte
 * @len: bytes, at least 1
 * @mem: result: if it may, the region, for the caller to kw_mem_put()
 *
 * Local rights are checked: the peer did not choose the place. They were
 * checked when the Read was sent, but a region can go away at any time. The
 * caller makes sure that the range does not wrap.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or the enum kw_term_code to answer with.
 */
u16 kw_check_sink(struct kw_stream *s, const struct kiwarp_sge *sge, u32 off,
		  u32 len, struct kw_mem **mem)
{
	return kw_check(s, sge->lkey, sge->addr + off, len,
			IB_ACCESS_LOCAL_WRITE, &kw_tagged_errors, mem);
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
__hot bool kw_sg_next(struct kw_stream *s, struct kw_sg_iter *it)
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
