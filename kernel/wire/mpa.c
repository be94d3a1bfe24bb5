// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * MPA: start-up frames, MULPDU and markers.
 */
#include "wire/mpa.h"

#define MPA_FLAG_MARKERS	0x80
#define MPA_FLAG_CRC		0x40
#define MPA_FLAG_REJECT		0x20
#define MPA_FLAG_ENHANCED	0x10

#define ENH_FIRST		0x8000	/* A beside IRD, C beside ORD */
#define ENH_SECOND		0x4000	/* B beside IRD, D beside ORD */

/* Without the terminating NUL: the key fills its field. */
static const char mpa_req_key[] = "MPA ID Req Frame";
static const char mpa_rep_key[] = "MPA ID Rep Frame";

static const char *mpa_key(u8 kind)
{
	return kind == KW_MPA_REQ ? mpa_req_key : mpa_rep_key;
}

/**
 * kw_mpa_frame_parse - read a request or reply frame
 * @buf: the stream's first octets, in memory that nobody else writes to
 * @len: how many of them have arrived
 * @expect_kind: enum kw_mpa_kind
 * @out: result; filled unless octets are missing or the key is wrong, so that
 *	the caller can see which revision the peer speaks
 *
 * A wrong key is found at its first wrong octet, without waiting for a whole
 * frame: a peer that speaks another protocol may never send one (RFC 5044
 * section 7.1.2). The private data are the caller's to collect.
 *
 * Context: any.
 * Return: 0 when @out holds a valid frame; a positive number of octets that
 * are still missing; or a negative enum kw_mpa_err.
 */
int kw_mpa_frame_parse(const u8 *buf, size_t len, u8 expect_kind,
		       struct kw_mpa_frame *out)
{
	size_t key_len = len < KW_MPA_KEY_LEN ? len : KW_MPA_KEY_LEN;
	u8 flags;

	if (memcmp(buf, mpa_key(expect_kind), key_len))
		return KW_MPA_BAD_KEY;
	if (len < KW_MPA_FRAME_LEN)
		return (int)(KW_MPA_FRAME_LEN - len);

	flags = buf[KW_MPA_KEY_LEN];
	out->kind = expect_kind;
	out->rev = buf[KW_MPA_KEY_LEN + 1];
	out->pd_len = get_unaligned_be16(buf + KW_MPA_KEY_LEN + 2);
	out->markers = flags & MPA_FLAG_MARKERS;
	out->crc = flags & MPA_FLAG_CRC;
	/* Both are reserved, so not looked at, where they have no meaning. */
	out->reject = expect_kind == KW_MPA_REP && flags & MPA_FLAG_REJECT;
	out->enhanced = out->rev == 2 && flags & MPA_FLAG_ENHANCED;

	if (out->rev != 1 && out->rev != 2)
		return KW_MPA_BAD_REV;
	if (out->pd_len > KW_MPA_PD_MAX)
		return KW_MPA_BAD_PD_LEN;
	if (out->enhanced && out->pd_len < KW_MPA_ENH_LEN)
		return KW_MPA_BAD_PD_LEN;
	return 0;
}

/**
 * kw_mpa_frame_build - write a request or reply frame
 * @buf: KW_MPA_FRAME_LEN octets
 * @f: the frame
 *
 * Context: any.
 * Return: octets written.
 */
size_t kw_mpa_frame_build(u8 *buf, const struct kw_mpa_frame *f)
{
	memcpy(buf, mpa_key(f->kind), KW_MPA_KEY_LEN);
	buf[KW_MPA_KEY_LEN] = (f->markers ? MPA_FLAG_MARKERS : 0) |
			      (f->crc ? MPA_FLAG_CRC : 0) |
			      (f->reject ? MPA_FLAG_REJECT : 0) |
			      (f->enhanced ? MPA_FLAG_ENHANCED : 0);
	buf[KW_MPA_KEY_LEN + 1] = f->rev;
	put_unaligned_be16(f->pd_len, buf + KW_MPA_KEY_LEN + 2);
	return KW_MPA_FRAME_LEN;
}

/**
 * kw_mpa_enh_parse - read enhanced start-up data (RFC 6581 section 9)
 * @buf: KW_MPA_ENH_LEN octets
 * @out: result; every value is a valid one
 *
 * Context: any.
 */
void kw_mpa_enh_parse(const u8 *buf, struct kw_mpa_enh *out)
{
	u16 ird = get_unaligned_be16(buf);
	u16 ord = get_unaligned_be16(buf + 2);

	out->p2p = ird & ENH_FIRST;
	out->rtr_send = ird & ENH_SECOND;
	out->ird = ird & KW_MPA_DEPTH_MASK;
	out->rtr_write = ord & ENH_FIRST;
	out->rtr_read = ord & ENH_SECOND;
	out->ord = ord & KW_MPA_DEPTH_MASK;
}

/**
 * kw_mpa_enh_build - write enhanced start-up data (RFC 6581 section 9)
 * @buf: KW_MPA_ENH_LEN octets
 * @enh: the data; a depth above 14 bits becomes %KW_MPA_DEPTH_NONE
 *
 * Context: any.
 * Return: octets written.
 */
size_t kw_mpa_enh_build(u8 *buf, const struct kw_mpa_enh *enh)
{
	u16 ird = enh->ird < KW_MPA_DEPTH_NONE ? enh->ird : KW_MPA_DEPTH_NONE;
	u16 ord = enh->ord < KW_MPA_DEPTH_NONE ? enh->ord : KW_MPA_DEPTH_NONE;

	put_unaligned_be16((enh->p2p ? ENH_FIRST : 0) |
			   (enh->rtr_send ? ENH_SECOND : 0) | ird, buf);
	put_unaligned_be16((enh->rtr_write ? ENH_FIRST : 0) |
			   (enh->rtr_read ? ENH_SECOND : 0) | ord, buf + 2);
	return KW_MPA_ENH_LEN;
}

/**
 * kw_mulpdu - longest ULPDU whose FPDU fits a TCP segment
 * @emss: effective maximum segment size of the connection, octets
 * @markers: markers are sent
 *
 * With markers the room is for as many as the worst alignment needs
 * (RFC 5044 section 4.5).
 *
 * Context: any.
 * Return: octets, KW_MULPDU_MIN to KW_MULPDU_MAX. At an @emss too small
 * for the minimum an FPDU takes several segments.
 */
u32 kw_mulpdu(u32 emss, bool markers)
{
	u32 taken = KW_MPA_HDR_LEN + KW_MPA_CRC_LEN + emss % 4;

	if (markers)
		taken += KW_MARKER_LEN * (emss / KW_MARKER_INTERVAL +
					  !!(emss % KW_MARKER_INTERVAL));
	if (emss < taken + KW_MULPDU_MIN)
		return KW_MULPDU_MIN;
	return emss - taken < KW_MULPDU_MAX ? emss - taken : KW_MULPDU_MAX;
}

/**
 * kw_markers_in - count the markers that a run of octets takes
 * @off: offset in the stream of the run's first octet or of the marker that
 *	precedes it
 * @len: octets of the run, markers not counted
 *
 * A marker that falls directly behind the run is not counted: it belongs to
 * what follows (RFC 5044 section 4.3).
 *
 * Context: any.
 * Return: the number of markers, KW_MARKER_LEN octets each.
 */
u32 kw_markers_in(u32 off, u32 len)
{
	u32 dist = kw_marker_dist(off);

	if (len <= dist)
		return 0;
	return 1 + (len - dist - 1) / (KW_MARKER_INTERVAL - KW_MARKER_LEN);
}
