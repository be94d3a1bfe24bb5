/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * FPDUs: their size, the markers in them, and segmentation of messages
 * (RFC 5044 section 4).
 *
 * An offset counts bytes of one direction of the TCP stream from the first
 * byte after start-up, markers included. Only its value modulo the marker
 * interval matters, which divides 2^32: it may wrap. An FPDU begins where its
 * ULPDU_Length stands or, if that is preceded by a marker, where the marker
 * stands: a marker between two FPDUs belongs to the second. FPDUs are
 * multiples of four bytes long, so offsets of FPDUs and of markers are too,
 * and a marker never splits ULPDU_Length or the CRC field.
 */
#ifndef KW_WIRE_FPDU_H
#define KW_WIRE_FPDU_H

#include "wire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KW_MPA_HDR_LEN		2	/* ULPDU_Length */
#define KW_MPA_CRC_LEN		4
#define KW_MPA_OVERHEAD		(KW_MPA_HDR_LEN + KW_MPA_CRC_LEN)

#define KW_MARKER_INTERVAL	512	/* bytes of the stream, markers included */
#define KW_MARKER_LEN		4

#define KW_MULPDU_MIN		128
#define KW_MULPDU_MAX		64768

/**
 * kw_fpdu_pad() - bytes of PAD in an FPDU (RFC 5044 section 4.1)
 * @ulpdu_len: bytes of the ULPDU
 *
 * Return: 0 to 3.
 */
static inline u32 kw_fpdu_pad(u32 ulpdu_len)
{
	return -(KW_MPA_HDR_LEN + ulpdu_len) & 3;
}

/**
 * kw_fpdu_len() - bytes of an FPDU with header, PAD and CRC, without markers
 * @ulpdu_len: bytes of the ULPDU, at most 65535
 *
 * Return: the length, a multiple of four.
 */
static inline u32 kw_fpdu_len(u32 ulpdu_len)
{
	return KW_MPA_HDR_LEN + ulpdu_len + kw_fpdu_pad(ulpdu_len) +
	       KW_MPA_CRC_LEN;
}

/**
 * kw_marker_dist() - bytes from a place in the stream to the next marker
 * @off: offset in the stream
 *
 * Return: 0 (a marker begins at @off) to 511.
 */
static inline u32 kw_marker_dist(u32 off)
{
	return -off & (KW_MARKER_INTERVAL - 1);
}

/**
 * kw_markers_in() - count the markers that a run of bytes takes
 * @off: offset in the stream of the run's first byte or of the marker that
 *	precedes it
 * @len: bytes of the run, markers not counted
 *
 * A marker that falls directly behind the run is not counted: it belongs to
 * what follows (RFC 5044 section 4.3).
 *
 * Return: the number of markers, KW_MARKER_LEN bytes each.
 */
static inline u32 kw_markers_in(u32 off, u32 len)
{
	u32 dist = kw_marker_dist(off);

	if (len <= dist)
		return 0;
	return 1 + (len - dist - 1) / (KW_MARKER_INTERVAL - KW_MARKER_LEN);
}

/**
 * kw_fpdu_span() - bytes of the stream that an FPDU takes
 * @off: offset at which it begins
 * @len: its length without markers, from kw_fpdu_len()
 * @markers: it has markers
 *
 * Return: the length with markers.
 */
static inline u32 kw_fpdu_span(u32 off, u32 len, bool markers)
{
	return markers ? len + KW_MARKER_LEN * kw_markers_in(off, len) : len;
}

/**
 * kw_marker_ptr() - the FPDUPTR that a marker must have
 * @off: offset at which the FPDU with the marker begins
 * @at: bytes from there to the marker
 *
 * Return: bytes from ULPDU_Length to the marker, 0 for a marker that stands
 * before it. More than 16 bits hold if, and only if, the ULPDU is longer than
 * KW_MULPDU_MAX.
 */
static inline u32 kw_marker_ptr(u32 off, u32 at)
{
	if (at && !kw_marker_dist(off))
		return at - KW_MARKER_LEN;
	return at;
}

/**
 * struct kw_marker - a marker (RFC 5044 section 4.3)
 * @rsvd: 0
 * @fpduptr: bytes from ULPDU_Length to the marker
 */
struct kw_marker {
	__be16 rsvd;
	__be16 fpduptr;
} __packed;

static_assert(offsetof(struct kw_marker, fpduptr) == 2, "RFC 5044");
static_assert(sizeof(struct kw_marker) == KW_MARKER_LEN, "RFC 5044");

/**
 * kw_marker_put() - write a marker
 * @buf: KW_MARKER_LEN bytes
 * @fpduptr: from kw_marker_ptr()
 */
static inline void kw_marker_put(u8 *buf, u16 fpduptr)
{
	struct kw_marker *m = (struct kw_marker *)buf;

	m->rsvd = 0;
	m->fpduptr = cpu_to_be16(fpduptr);
}

/**
 * kw_marker_get() - read a marker's FPDUPTR
 * @buf: KW_MARKER_LEN bytes
 *
 * The first half is reserved and not checked; the low two bits of the pointer
 * count as zero on receive (RFC 5044 section 4.3).
 *
 * Return: bytes from the start of the FPDU to the marker.
 */
static inline u16 kw_marker_get(const u8 *buf)
{
	return be16_to_cpu(((const struct kw_marker *)buf)->fpduptr) & 0xfffc;
}

u32 kw_markers_insert(u8 *p, u32 off, u32 len);
bool kw_markers_ok(const u8 *p, u32 off, u32 span);

/**
 * struct kw_segmenter - where the sender's next FPDU stands, and what bounds it
 * @emss: bytes of a full TCP segment
 * @room: bytes left in the segment that the FPDU begins in; @emss if it
 *	begins one
 * @limit: bytes of the stream that an FPDU may take
 * @full: bytes of an FPDU that begins a segment and fills it, or 0 if that
 *	depends on the offset
 * @off: offset of the FPDU in the stream
 * @markers: markers are sent
 */
struct kw_segmenter {
	u32 emss;
	u32 room;
	u32 limit;
	u32 full;
	u32 off;
	bool markers;
};

/* What kw_segmenter_payload() returns besides an amount of payload. */
#define KW_SEGMENTER_SEGMENT	-1	/* let this TCP segment end here */
#define KW_SEGMENTER_END_BUF	-2	/* let this transmit buffer end here */

/* The rest of a transmit buffer below which no shorter FPDU fills it. */
#define KW_SEGMENTER_BUF_MIN	4032

void kw_segmenter_bound(struct kw_segmenter *seg, u32 emss, u32 fpdu_max, bool large);
bool kw_segmenter_is_tight_rest(const struct kw_segmenter *seg);
int kw_segmenter_payload_any(const struct kw_segmenter *seg, u32 left, u32 hdr_len,
			     u32 want);

/**
 * kw_segmenter_is_tight() - whether the rest of a segment is too small to use
 * @seg: where the next FPDU stands
 *
 * Return: true if it has no room for the smallest MULPDU and is not a whole
 * segment.
 */
static inline bool kw_segmenter_is_tight(const struct kw_segmenter *seg)
{
	return seg->room != seg->emss && kw_segmenter_is_tight_rest(seg);
}

/**
 * kw_segmenter_payload() - how much of a message the next FPDU carries
 * @seg: where it stands
 * @left: bytes that the transmit buffer has for it, a multiple of four
 * @hdr_len: bytes of its DDP header; all bytes of a ULPDU that is not divided
 * @want: bytes of payload that are to be sent
 *
 * Preferably the FPDU ends with its TCP segment. Where the rest of the
 * segment is too small for the smallest MULPDU, it stays empty. Only if a
 * whole segment is too small does the FPDU span segments (RFC 5044 section
 * 4.5).
 *
 * Return: bytes of payload, @want or a multiple of four; KW_SEGMENTER_SEGMENT,
 * unless @seg begins a segment; KW_SEGMENTER_END_BUF, unless @left is at least
 * KW_SEGMENTER_BUF_MIN or @seg->limit.
 */
static inline int kw_segmenter_payload(const struct kw_segmenter *seg, u32 left,
				       u32 hdr_len, u32 want)
{
	u32 len;

	/* The middle of a long message, and a short message that fits. */
	if (want >= seg->full) {
		if (seg->full && seg->room == seg->emss && seg->full <= left)
			return (int)(seg->full - KW_MPA_OVERHEAD - hdr_len);
	} else {
		len = kw_fpdu_len(hdr_len + want);
		if (len <= seg->room && len <= left && len <= seg->full)
			return (int)want;
	}
	return kw_segmenter_payload_any(seg, left, hdr_len, want);
}

/**
 * kw_segmenter_advance() - move behind an FPDU
 * @seg: where it stands
 * @span: bytes of the stream that it takes
 */
static inline void kw_segmenter_advance(struct kw_segmenter *seg, u32 span)
{
	seg->off += span;
	if (span < seg->room)
		seg->room -= span;
	else if (span == seg->room)
		seg->room = seg->emss;
	else
		seg->room = seg->emss - (span - seg->room) % seg->emss;
}

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_FPDU_H */
