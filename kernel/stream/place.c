// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Placement of received payload, and header prediction.
 *
 * All segments of a long message but the first and the last have the same
 * header apart from their place, so that the checks of one hold for the next. A
 * handler in rx_msg.c that has checked a segment has it placed by kw_place(),
 * through an iterator that stays where the message continues. With kw_predict()
 * it leaves what the next header has to be. As in TCP's receive path, a segment
 * with exactly that header is placed at once, through the same iterator. A
 * segment that differs in anything goes to its handler, which finds every
 * error. A prediction holds for one pass at most, and until another segment has
 * come.
 */
#include <linux/unaligned.h>

#include "stream/rx.h"
#include "stream/vec.h"

/*
 * The parts of a header that are compared, as two words in memory order: all
 * but ULPDU_Length and TO, or MO. The first word has all of a tagged one.
 */
#define KW_PREDICT_HEAD		offsetof(struct kw_fpdu_head, ddp)
#define KW_PREDICT_QUEUE	offsetof(struct kw_fpdu_head, ddp.untagged.qn)

static_assert(KW_PREDICT_QUEUE + 8 == offsetof(struct kw_fpdu_head,
					       ddp.untagged.mo),
	      "a word is all from the queue number to MO");

/* The next bytes, which have to be of one run. */
static __always_inline void kw_place_run(struct kw_sg_iter *it, const u8 *p,
					 u32 len, bool vec)
{
	if (vec)
		kw_memcpy_vec(it->run.va, p, len);
	else
		kw_memcpy(it->run.va, p, len);
	kw_sg_advance(it, len);
}

/* The same from run to run. Returns false if a right is missing. */
static noinline bool kw_place_split(struct kw_stream *s, struct kw_sg_iter *it,
				    const u8 *p, u32 len, bool vec)
{
	u32 n;

	for (; len; p += n, len -= n) {
		n = kw_sg_run(s, it, len);
		if (!n)
			return false;
		kw_place_run(it, p, n, vec);
	}
	return true;
}

static __always_inline bool kw_place_bytes(struct kw_stream *s,
					   struct kw_sg_iter *it, const u8 *p,
					   u32 len, bool vec)
{
	if (len > it->run.len)
		return kw_place_split(s, it, p, len, vec);
	kw_place_run(it, p, len, vec);
	return true;
}

/* Bound the time without preemption: after KW_VEC_MAX bytes a new section. */
static void kw_place_vec(struct kw_rx_next *next, u32 bytes)
{
	if (next->vec_len < KW_VEC_MAX)
		return;
	kw_vec_end(next->vec);
	next->vec = kw_vec_begin(bytes);
	next->vec_len = 0;
}

/**
 * kw_place() - place a segment's payload
 * @s: stream
 * @seg: the segment
 * @c: its payload; moved
 * @it: where the first byte goes; moved past the last
 *
 * The region stays held for the next segment, unless this fails: kw_predict()
 * has to follow.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: false if a right is missing, or the payload is not all there (it was
 * counted before, so this says that the socket's queue is damaged).
 */
__hot bool kw_place(struct kw_stream *s, const struct kw_segment *seg,
		    struct kw_cursor *c, struct kw_sg_iter *it)
{
	struct kw_rx_next *next = &s->rx.next;
	u32 len = seg->len, n;
	bool good;

	next->it = it;
	/* Segments that are predicted continue in the section begun here. */
	next->vec = kw_vec_begin(seg->ddp.last ? len : max(len, c->left));
	next->vec_len = 0;
	for (good = it->run.len || kw_sg_next(s, it); good && len; len -= n) {
		if (!c->left && !kw_cursor_next(c))
			break;
		kw_place_vec(next, len);
		n = min3(len, c->left, (u32)KW_VEC_MAX);
		good = kw_place_bytes(s, it, c->p, n, next->vec);
		next->vec_len += n;
		c->p += n;
		c->left -= n;
	}
	if (good && !len)
		return true;
	kw_predict_end(s);
	return false;
}

/**
 * kw_place_tagged() - place a tagged segment's payload
 * @s: stream
 * @seg: the segment
 * @c: its payload; moved
 * @mem: the region, held, whose rights to it were checked; passes to this
 * @most: bytes from the segment's first that the message may have
 *
 * Context: as kw_place(), which this calls.
 * Return: as kw_place().
 */
bool kw_place_tagged(struct kw_stream *s, const struct kw_segment *seg,
		     struct kw_cursor *c, struct kw_mem *mem, u32 most)
{
	struct kw_rx *rx = &s->rx;
	u64 to = seg->ddp.to;

	rx->sink.addr = to;
	rx->sink.length = min_t(u64, mem->len - (to - mem->base), most);
	kw_sg_start(&rx->sink_it, &rx->sink, 1, 0);
	rx->sink_it.mem = mem;
	return kw_place(s, seg, c, &rx->sink_it);
}

static u64 kw_predict_word(const u8 *p)
{
	return get_unaligned((const u64 *)p);
}

/* Count @len more bytes of a message as placed, up to TO or MO @end. */
static __always_inline void kw_place_count(struct kw_rx *rx, bool tagged,
					   struct kw_orq_entry *read, u64 end,
					   u32 len)
{
	if (read)
		read->done += len;
	else if (tagged)
		rx->write_len += len;
	else
		rx->recv_mo = end;
}

/**
 * kw_predict() - count a segment, and set what the next one has to be
 * @s: stream
 * @seg: the segment that kw_place() has placed
 * @room: bytes that its message may have behind it in the same entry
 * @read: the Read that it answers, or NULL
 *
 * With markers nothing is predicted: they shift what is compared.
 *
 * Context: inside s->mem_srcu, socket lock.
 */
__hot void kw_predict(struct kw_stream *s, const struct kw_segment *seg,
		      u32 room, struct kw_orq_entry *read)
{
	struct kw_rx_next *next = &s->rx.next;

	next->at = (seg->ddp.tagged ? seg->ddp.to : seg->ddp.mo) + seg->len;
	kw_place_count(&s->rx, seg->ddp.tagged, read, next->at, seg->len);
	if (seg->ddp.last || s->p.rx_markers || !room) {
		kw_predict_end(s);
		return;
	}
	next->room = room;
	next->read = read;
	next->tagged = seg->ddp.tagged;
	next->hdr_len = next->tagged ? KW_DDP_TAGGED_LEN : KW_DDP_UNTAGGED_LEN;
	next->head = kw_predict_word(seg->raw + KW_PREDICT_HEAD);
	next->queue = kw_predict_word(seg->raw + KW_PREDICT_QUEUE);
}

/* Is it the header that is expected behind @placed bytes? */
static __always_inline bool kw_predict_is(const struct kw_rx_next *next,
					  const u8 *p, u32 placed)
{
	const struct kw_fpdu_head *head = (const struct kw_fpdu_head *)p;
	u64 at = next->at + placed;

	if (kw_predict_word(p + KW_PREDICT_HEAD) != next->head)
		return false;
	if (next->tagged)
		return be64_to_cpu(head->ddp.tagged.to) == at;
	return kw_predict_word(p + KW_PREDICT_QUEUE) == next->queue &&
	       be32_to_cpu(head->ddp.untagged.mo) == at;
}

/* Is the CRC right? */
static bool kw_predict_crc_ok(const struct kw_rx_next *next, const u8 *p,
			      const u8 *field)
{
	u32 len = field - p;

	return kw_crc_get(field) == (next->vec ?
				     kw_crc32c_vec(KW_CRC_SEED, p, len) :
				     kw_crc32c(KW_CRC_SEED, p, len));
}

/* Place the FPDU at @p, if it is the one expected behind @placed bytes. */
static __always_inline u32 kw_predict_one(struct kw_stream *s, const u8 *p,
					  u32 avail, u32 *placed)
{
	struct kw_rx_next *next = &s->rx.next;
	u32 ulpdu_len, span, len;

	if (avail < KW_RX_RAW_LEN)
		return 0;
	ulpdu_len = get_unaligned_be16(p);
	span = kw_fpdu_len(ulpdu_len);
	/* One without payload, or shorter than its header, goes to its handler. */
	if (avail < span || ulpdu_len <= next->hdr_len ||
	    !kw_predict_is(next, p, *placed) || !READ_ONCE(next->it->mem->valid))
		return 0;
	len = ulpdu_len - next->hdr_len;
	if (len > next->room - *placed)
		return 0;
	if (s->p.crc && !kw_predict_crc_ok(next, p, p + span - KW_MPA_CRC_LEN))
		return 0;
	p += KW_MPA_HDR_LEN + next->hdr_len;
	if (!kw_place_bytes(s, next->it, p, len, next->vec))
		return 0;
	*placed += len;
	return span;
}

/* The same, but what was too short for a section may be followed by more. */
static void kw_predict_vec(struct kw_rx_next *next, u32 bytes)
{
	if (!next->vec)
		next->vec_len = KW_VEC_MAX;
	kw_place_vec(next, bytes);
}

/**
 * kw_predict_take() - place the next segments, as far as they are as predicted
 * @s: stream with a prediction
 * @c: cursor at an FPDU; moved past those that are taken
 * @avail: bytes received from there
 * @most: @fpdus, which the pass may handle
 * @fpdus: those taken are added to it
 *
 * FPDUs may be in memory that changes meanwhile. Of each header only the length
 * is used, read once. The rest must equal the prediction.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: bytes that the FPDUs take, or 0 if one has to go to its handler.
 */
u32 kw_predict_take(struct kw_stream *s, struct kw_cursor *c, u32 avail,
		    u32 most, u32 *fpdus)
{
	struct kw_rx_next *next = &s->rx.next;
	u32 span, taken = 0, placed = 0;

	if (!c->left)
		kw_cursor_next(c);
	avail = min(avail, c->left);
	kw_predict_vec(next, min(avail, next->room));
	while (taken < KW_VEC_MAX && *fpdus < most) {
		span = kw_predict_one(s, c->p + taken, avail - taken, &placed);
		if (!span)
			break;
		taken += span;
		++*fpdus;
	}
	next->vec_len += taken;
	next->room -= placed;
	next->at += placed;
	kw_place_count(&s->rx, next->tagged, next->read, next->at, placed);
	if (!next->tagged)
		s->rx.recv_got.range[0].to = next->at;
	c->p += taken;
	c->left -= taken;
	return taken;
}

/**
 * kw_predict_end() - drop the prediction, and release the region
 * @s: stream
 *
 * Context: inside s->mem_srcu, socket lock.
 */
__hot void kw_predict_end(struct kw_stream *s)
{
	struct kw_rx_next *next = &s->rx.next;

	if (!next->it)
		return;
	kw_vec_end(next->vec);
	next->vec = false;
	kw_sg_release(next->it);
	next->it = NULL;
}
