// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * FPDUs: markers, and segmentation of messages.
 */
#include "wire/fpdu.h"

/* The FPDU of the smallest MULPDU, and that with the one marker it can have. */
#define FPDU_MIN	(KW_MPA_OVERHEAD + KW_MULPDU_MIN + 2)
#define FPDU_MIN_SPAN	(FPDU_MIN + KW_MARKER_LEN)

/*
 * The longest FPDU. Payload is cut at multiples of four bytes, and DDP headers
 * are two bytes more than such a multiple: so is the largest ULPDU.
 */
#define FPDU_MAX	(KW_MPA_OVERHEAD + KW_MULPDU_MAX - 2)

/**
 * kw_markers_insert() - put the markers into an FPDU that was built without
 * @p: where it will begin
 * @off: offset in the stream of @p
 * @len: its length without markers, from kw_fpdu_len(); it stands behind the
 *	room that its markers take, at @p + KW_MARKER_LEN * kw_markers_in()
 *
 * What precedes a marker moves to the front, piece by piece; what follows the
 * last one is in its place already. The CRC, which covers the markers, is the
 * caller's to compute afterwards, over all but the last KW_MPA_CRC_LEN bytes.
 *
 * Context: any.
 * Return: the length with markers.
 */
u32 kw_markers_insert(u8 *p, u32 off, u32 len)
{
	const u8 *from = p + KW_MARKER_LEN * kw_markers_in(off, len);
	u32 run = kw_marker_dist(off);
	u8 *to = p;

	while (to != from) {
		memmove(to, from, run);
		to += run;
		from += run;
		kw_marker_put(to, (u16)kw_marker_ptr(off, (u32)(to - p)));
		to += KW_MARKER_LEN;
		len -= run;
		run = KW_MARKER_INTERVAL - KW_MARKER_LEN;
	}
	return (u32)(to - p) + len;
}

/**
 * kw_markers_ok() - compare the markers of an FPDU with its place in the stream
 * @p: the FPDU, with markers
 * @off: offset in the stream of @p, which follows from the lengths of all
 *	FPDUs before it
 * @span: its length with markers
 *
 * Context: any.
 * Return: false if a marker does not point to the FPDU's ULPDU_Length: then
 * markers and lengths disagree (RFC 5044 section 8).
 */
bool kw_markers_ok(const u8 *p, u32 off, u32 span)
{
	u32 at;

	for (at = kw_marker_dist(off); at < span; at += KW_MARKER_INTERVAL)
		if (kw_marker_get(p + at) != kw_marker_ptr(off, at))
			return false;
	return true;
}

/*
 * Bytes without markers, a multiple of four, of the longest FPDU that takes
 * at most @room bytes of the stream. For a full segment this is the MULPDU of
 * RFC 5044 section 4.5 and its 6 bytes of overhead. That formula leaves room
 * for as many markers as the worst offset gives. Here the offset is known ("MAY
 * dynamically adjust the MULPDU").
 */
static u32 fpdu_fit(const struct kw_segmenter *seg, u32 room)
{
	u32 dist = kw_marker_dist(seg->off);

	room &= ~3u;
	if (!seg->markers || room <= dist)
		return room;
	return room - KW_MARKER_LEN *
		      (1 + (room - dist - 1) / KW_MARKER_INTERVAL);
}

/**
 * kw_segmenter_is_tight_rest() - kw_segmenter_is_tight() in a begun segment
 * @seg: see there
 *
 * Context: any.
 * Return: see there.
 */
bool kw_segmenter_is_tight_rest(const struct kw_segmenter *seg)
{
	return fpdu_fit(seg, seg->room) < FPDU_MIN;
}

/*
 * How many of @most bytes an FPDU takes: to the end of the TCP segment that it
 * begins in or, if @most allows it, of a later one.
 */
static u32 seg_reach(const struct kw_segmenter *seg, u32 most)
{
	if (most < seg->room)
		return most;
	if (most - seg->room < seg->emss)
		return seg->room;
	return most - (most - seg->room) % seg->emss;
}

/**
 * kw_segmenter_bound() - how long an FPDU may be
 * @seg: where it stands; its offset and its markers are known
 * @emss: bytes of a full TCP segment
 * @fpdu_max: an administrator's limit to the bytes of an FPDU, or 0
 * @large: the peer has announced that it takes FPDUs larger than a segment
 *
 * An FPDU fits a TCP segment (RFC 5044 section 5.1) unless the administrator
 * wants more and the peer agrees. MULPDU is never under 128.
 *
 * Context: any.
 */
__hot void kw_segmenter_bound(struct kw_segmenter *seg, u32 emss, u32 fpdu_max,
			      bool large)
{
	u32 limit = fpdu_max;

	if (!fpdu_max || (fpdu_max > emss && !large))
		limit = emss;
	seg->emss = emss;
	seg->limit = limit > FPDU_MIN_SPAN ? limit : FPDU_MIN_SPAN;
	seg->full = 0;
	if (!seg->markers && limit == emss && emss >= FPDU_MIN_SPAN &&
	    emss <= FPDU_MAX)
		seg->full = emss & ~3u;
}

/**
 * kw_segmenter_payload_any() - kw_segmenter_payload() in all cases
 * @seg: see there
 * @left: see there
 * @hdr_len: see there
 * @want: see there
 *
 * Context: any.
 * Return: see there.
 */
int kw_segmenter_payload_any(const struct kw_segmenter *seg, u32 left, u32 hdr_len,
			     u32 want)
{
	u32 fit = fpdu_fit(seg, seg_reach(seg, seg->limit));
	u32 whole = FPDU_MAX + 4;	/* more than fits, and sums hold it */
	u32 len;

	if (want <= KW_MULPDU_MAX - hdr_len)
		whole = kw_fpdu_len(hdr_len + want);
	if (fit < FPDU_MIN && whole > fit) {
		if (seg->room != seg->emss)
			return KW_SEGMENTER_SEGMENT;
		fit = FPDU_MIN;
	}
	if (fit > FPDU_MAX)
		fit = FPDU_MAX;
	len = whole < fit ? whole : fit;
	if (kw_fpdu_span(seg->off, len, seg->markers) > left) {
		if (left < KW_SEGMENTER_BUF_MIN)
			return KW_SEGMENTER_END_BUF;
		fit = fpdu_fit(seg, seg_reach(seg, left));
		if (fit < FPDU_MIN)
			fit = fpdu_fit(seg, left);
		len = whole < fit ? whole : fit;
	}
	if (len == whole)
		return (int)want;
	return (int)((len - KW_MPA_OVERHEAD - hdr_len) & ~3u);
}
