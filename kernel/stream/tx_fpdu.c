// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The FPDU encoder (RFC 5044 section 4): a message is a header template and a
 * walk over its bytes. FPDUs that fill a TCP segment each differ in their offset
 * only, and are built as many at a time as fit the chunk: rights are looked at
 * once for an entry of the list, and vector registers saved once.
 */
#include <linux/unaligned.h>

#include "stream/tx_fpdu.h"
#include "stream/vec.h"
#include "stream/zcopy.h"

/* Of the block of memory an FPDU whose payload is elsewhere takes less than: */
#define KW_FPDU_REF_MAX		64

/* Payload by reference takes no room in the block: it does not bound the FPDU. */
#define KW_FPDU_REF_ROOM	0x20000

/* How payload becomes part of an FPDU. */
enum kw_fpdu_how {
	KW_FPDU_COPY,		/* copied; if there is a CRC, it is made last */
	KW_FPDU_COPY_CRC,	/* the CRC is made on the way */
	KW_FPDU_VEC,		/* as KW_FPDU_COPY, by vector registers */
	KW_FPDU_REF,		/* by reference: see zcopy.c */
};

/* The header of the FPDU at @p, by the template. */
static __always_inline void kw_fpdu_head(struct kw_tx_msg *m, u8 *p)
{
	if (m->tagged)
		m->head.ddp.tagged.to = cpu_to_be64(m->at);
	else
		m->head.ddp.untagged.mo = cpu_to_be32(m->at);
	/* Of a tagged header this is more; what follows takes its place. */
	memcpy(p, &m->head, sizeof(m->head));
}

/* The next bytes, which have to be of one run. */
static __always_inline u32 kw_fpdu_copy(struct kw_sg_iter *it, u32 crc, u8 *dst,
					u32 len, enum kw_fpdu_how how)
{
	if (how == KW_FPDU_VEC)
		kw_vec_copy(dst, it->run.va, len);
	else if (how == KW_FPDU_COPY_CRC)
		crc = kw_crc32c_copy(crc, dst, it->run.va, len);
	else
		memcpy(dst, it->run.va, len);
	kw_sg_advance(it, len);
	return crc;
}

/* The same from run to run. Returns false, with @it where it was, without a right. */
static noinline bool kw_fpdu_copy_split(struct kw_stream *s,
					struct kw_sg_iter *it, u32 *crc,
					u8 *dst, u32 len, enum kw_fpdu_how how)
{
	const struct kiwarp_sge *sge = it->sge;
	u32 off = it->off;

	while (len) {
		u32 n = min_t(u64, it->run.len, len);

		if (n) {
			*crc = kw_fpdu_copy(it, *crc, dst, n, how);
			dst += n;
			len -= n;
		} else if (!kw_sg_next(s, it)) {
			it->sge = sge;
			it->off = off;
			return false;
		}
	}
	return true;
}

/* Build an FPDU of the next @len bytes; without markers it takes @fpdu_len. */
static __always_inline bool kw_fpdu_one(struct kw_stream *s,
					struct kw_chunk *ch,
					struct kw_tx_msg *m, u32 len,
					u32 fpdu_len, enum kw_fpdu_how how)
{
	const bool marked = ch->cut.markers;
	const bool last = how == KW_FPDU_COPY || how == KW_FPDU_VEC;
	u8 *p = ch->p, *payload, *tail, *field;
	u32 crc = KW_CRC_SEED;

	if (marked)
		p += KW_MARKER_LEN * kw_markers_in(ch->cut.off, fpdu_len);
	payload = p + KW_MPA_HDR_LEN + m->hdr_len;
	tail = payload + len;
	kw_fpdu_head(m, p);
	if (s->p.crc && !last)
		crc = kw_crc32c(crc, p, payload - p);
	if (how == KW_FPDU_REF) {
		tail = payload;
		crc = kw_zc_add(s, payload, crc);
	} else if (len - 1 < m->it.run.len) {
		crc = kw_fpdu_copy(&m->it, crc, payload, len, how);
	} else if (!kw_fpdu_copy_split(s, &m->it, &crc, payload, len, how)) {
		return false;
	}
	/* The pad, and what stands in the place of a CRC. */
	put_unaligned_le32(0, tail);
	field = tail + kw_fpdu_pad(m->hdr_len + len);
	if (marked) {
		fpdu_len = kw_markers_insert(ch->p, ch->cut.off, fpdu_len);
		field = ch->p + fpdu_len - KW_MPA_CRC_LEN;
	}
	if (!s->p.crc)
		put_unaligned_le32(0, field);
	else if (how == KW_FPDU_VEC)
		kw_crc_put(field, kw_vec_crc32c(crc, ch->p, field - ch->p));
	else if (last)
		kw_crc_put(field, kw_crc32c(crc, ch->p, field - ch->p));
	else if (tail == field)
		kw_crc_put(field, crc);
	else
		kw_crc_put(field, kw_crc32c(crc, tail, field - tail));
	m->at += len;
	m->left -= len;
	/* What is left stays a multiple of four: see kw_cut_payload(). */
	field += KW_MPA_CRC_LEN;
	ch->left = (ch->left - (u32)(field - ch->p)) & ~3u;
	ch->p = field;
	ch->fpdus++;
	kw_cut_advance(&ch->cut, fpdu_len);
	return true;
}

/* At most @nr FPDUs of @len bytes each. Returns how many were built. */
static u32 kw_fpdu_alike(struct kw_stream *s, struct kw_chunk *ch,
			 struct kw_tx_msg *m, u32 len, u32 nr, bool ref)
{
	const u32 fpdu_len = kw_fpdu_len(m->hdr_len + len);
	const bool vec = !ref && kw_vec_begin(nr * len);
	enum kw_fpdu_how how = KW_FPDU_COPY;
	u32 i;

	if (ref)
		how = KW_FPDU_REF;
	else if (vec)
		how = KW_FPDU_VEC;
	else if (s->p.crc && !ch->cut.markers)
		how = KW_FPDU_COPY_CRC;
	m->head.ulpdu_len = cpu_to_be16(m->hdr_len + len);
	if (len == m->left)
		m->head.ddp.tagged.ctrl |= KW_DDP_CTRL_LAST;
	/* What is left to kw_fpdu_one() is mostly within a run. */
	if (len && !ref && !m->it.run.len && !kw_sg_next(s, &m->it))
		nr = 0;
	for (i = 0; i < nr; i++)
		if (!kw_fpdu_one(s, ch, m, len, fpdu_len, how))
			break;
	kw_vec_end(vec);
	kw_sg_release(&m->it);
	return i;
}

/*
 * The next FPDU, if its payload can stay where it is. Returns as
 * kw_fpdu_build(), or -EAGAIN if this payload is to be copied.
 */
static int kw_fpdu_build_ref(struct kw_stream *s, struct kw_chunk *ch,
			     struct kw_tx_msg *m)
{
	int len, rv;

	ch->full = true;
	ch->eor = true;
	if (!kw_zc_listed(s)) {
		if (ch->p != ch->start || !kw_zc_list(s, ch->p))
			return 0;
		/* The list is a socket buffer of its own. */
		ch->cut.room = ch->cut.emss;
	}
	if (ch->left < KW_FPDU_REF_MAX)
		return 0;
	len = kw_cut_payload(&ch->cut, KW_FPDU_REF_ROOM, m->hdr_len, m->left);
	if (len < 0)
		return 0;
	rv = kw_zc_collect(s, &m->it, len);
	if (rv == -EMSGSIZE)
		return 0;
	ch->full = false;
	ch->eor = false;
	return rv ? rv : kw_fpdu_alike(s, ch, m, len, 1, true);
}

/**
 * kw_fpdu_build() - build the next FPDU of a message, or several that are alike
 * @s: stream
 * @ch: where to
 * @m: message
 *
 * Context: inside s->mem_srcu, socket lock held, transmit token owned.
 * Return: a positive number if it has; 0 if there is no room, and @ch->full is
 * set; -EACCES if a right is missing.
 */
int kw_fpdu_build(struct kw_stream *s, struct kw_chunk *ch,
		  struct kw_tx_msg *m)
{
	u32 nr = 1;
	int len, rv;

	if (s->tx.lent) {
		rv = kw_fpdu_build_ref(s, ch, m);
		if (rv != -EAGAIN)
			return rv;
	}
	len = kw_cut_payload(&ch->cut, ch->left, m->hdr_len, m->left);
	if (len < 0) {
		ch->full = true;
		ch->eor = len == KW_CUT_SEGMENT;
		return 0;
	}
	if ((u32)len < m->left && !s->tx.lent &&
	    ch->cut.full == ch->cut.emss && ch->cut.room == ch->cut.emss &&
	    kw_fpdu_len(m->hdr_len + len) == ch->cut.full)
		nr = min((m->left - 1) / len, ch->left / ch->cut.full);
	return kw_fpdu_alike(s, ch, m, len, nr, false) ? 1 : -EACCES;
}
