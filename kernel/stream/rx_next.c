// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The short way for the segment that is expected next.
 *
 * A handler in rx_msg.c that has placed a segment, but not the last, of its
 * message leaves here what the next one's header has to be, and where its
 * payload may go without any further question: the rest of a region, or of a
 * buffer in it. A segment that is different in anything goes the long way, which
 * knows every error. What is expected holds for one pass at most, and only
 * until another segment has gone the long way.
 */
#include <linux/unaligned.h>

#include "stream/rx_next.h"
#include "stream/vec.h"

static u64 kw_next_octets(const u8 *p)
{
	return get_unaligned((const u64 *)p);
}

/* Expect the continuation of @seg at @addr of a region, which stays held. */
static void kw_next_expect(struct kw_stream *s, const struct kw_segment *seg,
			   struct kw_mem *mem, u64 addr, u64 room)
{
	struct kw_rx_next *next = &s->rx.next;

	next->mem = mem;
	next->off = addr - mem->base;
	next->run.len = 0;
	next->room = min3(mem->len - next->off, room, (u64)U32_MAX);
	next->tagged = seg->ddp.tagged;
	next->hdr_len = next->tagged ? KW_DDP_TAGGED_LEN : KW_DDP_UNTAGGED_LEN;
	next->head = kw_next_octets(seg->raw + 2);
	next->queue = kw_next_octets(seg->raw + 8);
	if (next->tagged)
		next->at = seg->ddp.to + seg->len;
	else
		next->at = seg->ddp.mo + seg->len;
	next->read = NULL;
}

/* Markers move octets about, and are not worth a short way. */
static bool kw_next_follows(const struct kw_stream *s,
			    const struct kw_segment *seg)
{
	return !seg->ddp.last && !s->p.rx_markers;
}

/**
 * kw_next_write() - expect more of a Write
 * @s: stream
 * @seg: a segment of it, placed
 * @mem: the region, held by the caller for the segment
 *
 * Context: inside s->mem_srcu, socket lock.
 */
void kw_next_write(struct kw_stream *s, const struct kw_segment *seg,
		   struct kw_mem *mem)
{
	u64 addr = seg->ddp.to + seg->len;

	if (kw_next_follows(s, seg) && addr - mem->base < mem->len)
		kw_next_expect(s, seg, mem, addr, U64_MAX);
	else
		kw_mem_put(mem);
}

/**
 * kw_next_read_resp() - expect more of a Read Response
 * @s: stream
 * @seg: a segment of it, placed
 * @mem: the sink's region, held by the caller for the segment
 * @e: the Read, @seg accounted for
 *
 * Context: inside s->mem_srcu, socket lock.
 */
void kw_next_read_resp(struct kw_stream *s, const struct kw_segment *seg,
		       struct kw_mem *mem, struct kw_orq_entry *e)
{
	if (!kw_next_follows(s, seg) || e->done == e->sink.length) {
		kw_mem_put(mem);
		return;
	}
	kw_next_expect(s, seg, mem, e->sink.addr + e->done,
		       e->sink.length - e->done);
	s->rx.next.read = e;
}

/**
 * kw_next_send() - expect more of a Send
 * @s: stream
 * @seg: a segment of it, placed
 *
 * Only where the message has come in order so far, and goes on in the buffer
 * that was written to last. Its region was let go: that of a fast registration
 * may be another one by now.
 *
 * Context: inside s->mem_srcu, socket lock.
 */
void kw_next_send(struct kw_stream *s, const struct kw_segment *seg)
{
	const struct kw_rx *rx = &s->rx;
	const struct kw_ddp_got *got = &rx->recv_got;
	const struct kiwarp_sge *e = rx->recv_it.sge;
	u32 off = rx->recv_it.off;

	if (!kw_next_follows(s, seg) || got->nr != 1 || got->range[0].from ||
	    got->range[0].to != rx->recv_mo)
		return;
	if (off == e->length || !s->cache.mem || s->cache.mem->fast || s->cache.mem->stag != e->lkey)
		return;
	kw_next_expect(s, seg, s->cache.mem, e->addr + off,
		       min(e->length - off, U32_MAX - rx->recv_mo));
}

/* Is it the header that is expected behind @placed octets? */
static __always_inline bool kw_next_is(const struct kw_rx_next *next,
				       const u8 *p, u32 placed)
{
	u64 at = next->at + placed;

	if (kw_next_octets(p + 2) != next->head)
		return false;
	if (next->tagged)
		return get_unaligned_be64(p + 8) == at;
	return kw_next_octets(p + 8) == next->queue &&
	       get_unaligned_be32(p + 16) == at;
}

/* The next octets, which have to be of one extent. */
static __always_inline void kw_next_copy(struct kw_rx_next *next, const u8 *p,
					 u32 len)
{
	if (next->vec)
		kw_vec_copy(next->run.va, p, len);
	else
		kw_copy(next->run.va, p, len);
	next->run.va += len;
	next->run.len -= len;
	next->off += len;
}

/* The same from extent to extent. */
static noinline void kw_next_copy_split(struct kw_stream *s, const u8 *p,
					u32 len)
{
	struct kw_rx_next *next = &s->rx.next;

	while (len) {
		u32 n = min_t(u64, next->run.len, len);

		if (!n) {
			next->run = kw_mem_at(next->mem, next->off,
					      &s->cache.ext);
			continue;
		}
		kw_next_copy(next, p, n);
		p += n;
		len -= n;
	}
}

/* Note that @len octets more have been placed. */
static __always_inline void kw_next_placed(struct kw_rx *rx, u32 len)
{
	struct kw_rx_next *next = &rx->next;

	next->room -= len;
	next->at += len;
	if (next->read) {
		next->read->done += len;
	} else if (!next->tagged) {
		rx->recv_got.range[0].to += len;
		rx->recv_it.off += len;
		rx->recv_mo += len;
	}
}

/* Is the CRC right? */
static bool kw_next_crc_ok(const struct kw_rx_next *next, const u8 *p,
			   const u8 *field)
{
	u32 len = field - p;

	return kw_crc_get(field) == (next->vec ?
				     kw_vec_crc32c(KW_CRC_SEED, p, len) :
				     kw_crc32c(KW_CRC_SEED, p, len));
}

/* Take the FPDU at @p, as kw_next_take() does, behind @placed octets of others. */
static __always_inline u32 kw_next_take_one(struct kw_stream *s, const u8 *p,
					    u32 avail, u32 *placed)
{
	struct kw_rx_next *next = &s->rx.next;
	u32 ulpdu_len, span, len;

	if (avail < KW_RX_RAW_LEN)
		return 0;
	ulpdu_len = get_unaligned_be16(p);
	span = kw_fpdu_len(ulpdu_len);
	len = ulpdu_len - next->hdr_len;
	if (avail < span || !kw_next_is(next, p, *placed) ||
	    !READ_ONCE(next->mem->valid))
		return 0;
	/* One that is shorter than its header has a negative len. */
	if (len - 1 >= next->room - *placed)
		return 0;
	if (s->p.crc && !kw_next_crc_ok(next, p, p + span - KW_MPA_CRC_LEN))
		return 0;
	p += KW_MPA_HDR_LEN + next->hdr_len;
	if (len <= next->run.len)
		kw_next_copy(next, p, len);
	else
		kw_next_copy_split(s, p, len);
	*placed += len;
	return span;
}

/**
 * kw_next_take() - place the next segments, as far as they are those expected
 * @s: stream; @s->rx.next.mem is not NULL
 * @c: cursor at an FPDU; moved past those that are taken
 * @avail: octets received from there
 * @fpdus: those taken are added to it
 *
 * FPDUs may be in memory that somebody else writes to. What is taken from
 * each is its length, read once, and what it must be equal to anyway.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: octets that the FPDUs take, or 0 if one has to go the long way.
 */
u32 kw_next_take(struct kw_stream *s, struct kw_cursor *c, u32 avail,
		 u32 *fpdus)
{
	struct kw_rx_next *next = &s->rx.next;
	u32 span, taken = 0, placed = 0, nr = 0;

	if (!c->left)
		kw_cursor_next(c);
	avail = min(avail, c->left);
	if (!next->vec)
		next->vec = kw_vec_begin(min(avail, next->room));
	for (;;) {
		span = kw_next_take_one(s, c->p + taken, avail - taken,
					&placed);
		if (!span)
			break;
		taken += span;
		nr++;
	}
	kw_next_placed(&s->rx, placed);
	*fpdus += nr;
	c->p += taken;
	c->left -= taken;
	return taken;
}

/**
 * kw_next_end() - expect nothing any more
 * @s: stream
 *
 * Context: inside s->mem_srcu, socket lock.
 */
void kw_next_end(struct kw_stream *s)
{
	if (!s->rx.next.mem)
		return;
	kw_vec_end(s->rx.next.vec);
	s->rx.next.vec = false;
	kw_mem_put(s->rx.next.mem);
	s->rx.next.mem = NULL;
}
