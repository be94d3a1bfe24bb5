// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * DDP's checks at the data sink, as far as they need nothing but the header
 * and the size of a buffer (RFC 5041 section 7.1).
 */
#include "wire/ddp.h"
#include "wire/term.h"

/* Note that bytes @from to @to have come, unless some of them have before. */
static bool ddp_got_add(struct kw_ddp_got *got, u32 from, u32 to)
{
	struct kw_ddp_range *r = got->range;
	bool joins_before, joins_behind;
	u32 i = got->nr;

	while (i && r[i - 1].from > from)
		i--;
	if ((i && r[i - 1].to > from) || (i < got->nr && r[i].from < to))
		return false;
	joins_before = i && r[i - 1].to == from;
	joins_behind = i < got->nr && r[i].from == to;
	if (joins_before && joins_behind) {
		r[i - 1].to = r[i].to;
		got->nr--;
		memmove(&r[i], &r[i + 1], (got->nr - i) * sizeof(*r));
	} else if (joins_before) {
		r[i - 1].to = to;
	} else if (joins_behind) {
		r[i].from = from;
	} else {
		if (got->nr == KW_DDP_MAX_RANGES)
			return false;
		memmove(&r[i + 1], &r[i], (got->nr - i) * sizeof(*r));
		r[i].from = from;
		r[i].to = to;
		got->nr++;
	}
	return true;
}

/* Is what has come the message's first @len bytes, and nothing else? */
static bool ddp_got_all(const struct kw_ddp_got *got, u32 len)
{
	if (!got->nr)
		return !len;
	return got->nr == 1 && !got->range[0].from && got->range[0].to == len;
}

/* RFC 5041 section 7.1: do the bytes lie in the buffer? */
static u16 ddp_check_room(const struct kw_ddp_hdr *h, u32 len, u32 room)
{
	if (len && h->mo > room)
		return KW_TERM_DDP_UNTAGGED_INV_MO;
	if (len && len > room - h->mo)
		return KW_TERM_DDP_UNTAGGED_TOO_LONG;
	return 0;
}

/**
 * kw_ddp_take() - may a segment be placed in its untagged buffer?
 * @got: what has come of its message; the segment is added to it
 * @h: untagged header
 * @len: bytes of payload
 * @room: bytes of the buffer, at most U32_MAX
 *
 * The source only should send in the order of MO (RFC 5041 section 5.3), so a
 * segment may lie anywhere in the buffer. But a message is cut into segments,
 * each at the offset of its part (section 5.2): no byte comes twice, since
 * below DDP nothing is repeated (section 3). The last segment has the highest
 * MO (section 4.1): what came before it must then fill all up to there, or
 * bytes would be delivered that never came. A message that lies in more than
 * KW_DDP_MAX_RANGES parts is refused likewise: no more is kept of what has
 * come.
 *
 * Context: any.
 * Return: 0, or the enum kw_term_code for a wrong MO or too long a message.
 */
__hot u16 kw_ddp_take(struct kw_ddp_got *got, const struct kw_ddp_hdr *h,
		      u32 len, u32 room)
{
	u16 code = ddp_check_room(h, len, room);

	if (code)
		return code;
	if (len && !ddp_got_add(got, h->mo, h->mo + len))
		return KW_TERM_DDP_UNTAGGED_INV_MO;
	if (h->last && !ddp_got_all(got, h->mo + len))
		return KW_TERM_DDP_UNTAGGED_INV_MO;
	return 0;
}

/**
 * kw_ddp_take_short() - kw_ddp_take() for a short message, in any order
 * @got: bit N: byte N has come; 0 to begin with; the segment is added
 * @h: untagged header
 * @len: bytes of payload
 * @room: bytes of the buffer, at most KW_DDP_SHORT_MAX
 *
 * Context: any.
 * Return: as kw_ddp_take().
 */
u16 kw_ddp_take_short(u64 *got, const struct kw_ddp_hdr *h, u32 len, u32 room)
{
	u16 code = ddp_check_room(h, len, room);
	u64 part;

	if (code)
		return code;
	part = len ? ((1ULL << len) - 1) << h->mo : 0;
	if (*got & part)
		return KW_TERM_DDP_UNTAGGED_INV_MO;
	*got |= part;
	if (h->last &&
	    (h->mo > room || *got != (1ULL << (h->mo + len)) - 1))
		return KW_TERM_DDP_UNTAGGED_INV_MO;
	return 0;
}
