// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * MPA: start-up frames.
 */
#include "wire/mpa.h"

#define MPA_FLAG_MARKERS	0x80
#define MPA_FLAG_CRC		0x40
#define MPA_FLAG_REJECT		0x20
#define MPA_FLAG_ENHANCED	0x10
#define MPA_FLAG_LARGE_FPDU	0x08

#define START_REV_MASK		0x07	/* see Documentation/protocol.md */

#define ENH_FIRST		0x8000	/* A beside IRD, C beside ORD */
#define ENH_SECOND		0x4000	/* B beside IRD, D beside ORD */

/* The Start Key's own is a byte shorter: its flags take the last one. */
#define MPA_START_KEY_LEN	15

struct mpa_key {
	u8 kind;
	u8 len;
	char text[KW_MPA_KEY_LEN + 1];
};

/* The shortest frame first: see kw_mpa_frame_parse(). */
static const struct mpa_key mpa_keys[] = {
	{ KW_MPA_START, MPA_START_KEY_LEN, "MPA ident frame" },
	{ KW_MPA_REQ, KW_MPA_KEY_LEN, "MPA ID Req Frame" },
	{ KW_MPA_REP, KW_MPA_KEY_LEN, "MPA ID Rep Frame" },
	{ KW_MPA_PRIV, KW_MPA_KEY_LEN, "MPA private data" },
};

/* The first of the kinds that the bytes so far can become; or NULL. */
static const struct mpa_key *mpa_key_match(const u8 *buf, size_t len, u8 kinds)
{
	const struct mpa_key *k;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mpa_keys); i++) {
		k = &mpa_keys[i];
		if (k->kind & kinds &&
		    !memcmp(buf, k->text, len < k->len ? len : k->len))
			return k;
	}
	return NULL;
}

static const struct mpa_key *mpa_key_of(u8 kind)
{
	const struct mpa_key *k = mpa_keys;

	while (k->kind != kind)
		k++;
	return k;
}

static void mpa_start_parse(const u8 *buf, struct kw_mpa_frame *out)
{
	u8 flags = buf[MPA_START_KEY_LEN];

	out->rev = flags & START_REV_MASK;
	out->markers = flags & MPA_FLAG_MARKERS;
	out->crc = flags & MPA_FLAG_CRC;
}

static void mpa_rr_parse(const u8 *buf, struct kw_mpa_frame *out)
{
	const struct kw_mpa_start_frame *frame =
		(const struct kw_mpa_start_frame *)buf;
	u8 flags = frame->flags;

	out->rev = frame->rev;
	out->pd_len = be16_to_cpu(frame->pd_len);
	/* A flag is reserved where it has no meaning, and not checked. */
	if (out->kind != KW_MPA_REQ)
		out->reject = flags & MPA_FLAG_REJECT;
	if (out->kind == KW_MPA_PRIV)
		return;
	out->markers = flags & MPA_FLAG_MARKERS;
	out->crc = flags & MPA_FLAG_CRC;
	out->large_fpdu = flags & MPA_FLAG_LARGE_FPDU;
	out->enhanced = out->rev == 2 && flags & MPA_FLAG_ENHANCED;
}

static bool mpa_rev_valid(const struct kw_mpa_frame *f)
{
	if (f->kind == KW_MPA_START || f->kind == KW_MPA_PRIV)
		return !f->rev;
	return f->rev <= 2;
}

/**
 * kw_mpa_frame_parse() - read a start-up frame
 * @buf: the stream's first bytes, in private memory
 * @len: how many of them have arrived
 * @kinds: the enum kw_mpa_kind that may come
 * @out: result; filled unless bytes are missing or the key is wrong, so that
 *	the caller can see which revision the peer speaks
 *
 * A wrong key is found at its first wrong byte, without waiting for a whole
 * frame: a peer that speaks another protocol may never send one (RFC 5044
 * section 7.1.2). The private data are the caller's to collect.
 *
 * Context: any.
 * Return: 0 when @out holds a valid frame; a positive number of bytes that
 * are still missing at least; or a negative enum kw_mpa_err.
 */
int kw_mpa_frame_parse(const u8 *buf, size_t len, u8 kinds,
		       struct kw_mpa_frame *out)
{
	const struct mpa_key *key = mpa_key_match(buf, len, kinds);
	size_t need;

	if (!key)
		return KW_MPA_BAD_KEY;
	/* The shortest of the kinds still possible, so as not to read past the frame. */
	need = kw_mpa_frame_len(key->kind);
	if (len < need)
		return (int)(need - len);

	memset(out, 0, sizeof(*out));
	out->kind = key->kind;
	if (key->kind == KW_MPA_START)
		mpa_start_parse(buf, out);
	else
		mpa_rr_parse(buf, out);

	if (!mpa_rev_valid(out))
		return KW_MPA_BAD_REV;
	if (out->pd_len > KW_MPA_PD_MAX)
		return KW_MPA_BAD_PD_LEN;
	if (out->enhanced && out->pd_len < KW_MPA_ENH_LEN)
		return KW_MPA_BAD_PD_LEN;
	return 0;
}

/**
 * kw_mpa_frame_build() - write a start-up frame
 * @buf: KW_MPA_FRAME_LEN bytes; KW_MPA_START_LEN for a Start Key
 * @f: the frame; fields that its kind does not have are left out
 *
 * Context: any.
 * Return: bytes written.
 */
size_t kw_mpa_frame_build(u8 *buf, const struct kw_mpa_frame *f)
{
	const struct mpa_key *key = mpa_key_of(f->kind);
	struct kw_mpa_start_frame *frame;
	u8 flags = (f->markers ? MPA_FLAG_MARKERS : 0) |
		   (f->crc ? MPA_FLAG_CRC : 0);

	memcpy(buf, key->text, key->len);
	if (f->kind == KW_MPA_START) {
		buf[MPA_START_KEY_LEN] = flags | f->rev;
		return KW_MPA_START_LEN;
	}
	flags |= (f->large_fpdu ? MPA_FLAG_LARGE_FPDU : 0) |
		 (f->enhanced ? MPA_FLAG_ENHANCED : 0);
	if (f->kind == KW_MPA_PRIV)
		flags = 0;
	frame = (struct kw_mpa_start_frame *)buf;
	frame->flags = flags | (f->reject ? MPA_FLAG_REJECT : 0);
	frame->rev = f->rev;
	frame->pd_len = cpu_to_be16(f->pd_len);
	return KW_MPA_FRAME_LEN;
}

/**
 * kw_mpa_enh_parse() - read enhanced start-up data (RFC 6581 section 9)
 * @buf: KW_MPA_ENH_LEN bytes
 * @out: result; every value is a valid one
 *
 * Context: any.
 */
void kw_mpa_enh_parse(const u8 *buf, struct kw_mpa_enh *out)
{
	const struct kw_mpa_enh_data *enh = (const struct kw_mpa_enh_data *)buf;
	u16 ird = be16_to_cpu(enh->ird);
	u16 ord = be16_to_cpu(enh->ord);

	out->p2p = ird & ENH_FIRST;
	out->rtr_send = ird & ENH_SECOND;
	out->ird = ird & KW_MPA_DEPTH_MASK;
	out->rtr_write = ord & ENH_FIRST;
	out->rtr_read = ord & ENH_SECOND;
	out->ord = ord & KW_MPA_DEPTH_MASK;
}

/**
 * kw_mpa_enh_build() - write enhanced start-up data (RFC 6581 section 9)
 * @buf: KW_MPA_ENH_LEN bytes
 * @enh: the data; a depth above 14 bits becomes %KW_MPA_DEPTH_NONE
 *
 * Context: any.
 * Return: bytes written.
 */
size_t kw_mpa_enh_build(u8 *buf, const struct kw_mpa_enh *enh)
{
	u16 ird = enh->ird < KW_MPA_DEPTH_NONE ? enh->ird : KW_MPA_DEPTH_NONE;
	u16 ord = enh->ord < KW_MPA_DEPTH_NONE ? enh->ord : KW_MPA_DEPTH_NONE;
	struct kw_mpa_enh_data *data = (struct kw_mpa_enh_data *)buf;

	ird |= (enh->p2p ? ENH_FIRST : 0) | (enh->rtr_send ? ENH_SECOND : 0);
	ord |= (enh->rtr_write ? ENH_FIRST : 0) |
	       (enh->rtr_read ? ENH_SECOND : 0);
	data->ird = cpu_to_be16(ird);
	data->ord = cpu_to_be16(ord);
	return KW_MPA_ENH_LEN;
}
