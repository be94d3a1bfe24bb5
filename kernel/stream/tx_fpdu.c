// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The FPDU encoder (RFC 5044 section 4): a message is a header template and a
 * walk over its bytes. FPDUs that fill a TCP segment each differ only in their
 * offset. As many of them are built at a time as fit the transmit buffer:
 * rights are checked once for an SGE, and vector registers saved once.
 */
#include <linux/unaligned.h>

#include "stream/sg.h"
#include "stream/tx.h"
#include "stream/vec.h"
#include "stream/zcopy.h"

/* Bytes of the transmit buffer that an FPDU with payload by reference needs. */
#define KW_FPDU_REF_MAX		64

/* Its payload takes none: for kw_segmenter_payload() the buffer has no end. */
#define KW_FPDU_REF_ROOM	0x20000

/* How payload becomes part of an FPDU, and when its CRC is computed. */
enum kw_fpdu_how {
	KW_FPDU_COPY,		/* copied; there is no CRC */
	KW_FPDU_COPY_CRC,	/* the CRC is computed with the copy */
	KW_FPDU_VEC,		/* copied by vector registers, the CRC last */
	KW_FPDU_VEC_CRC,	/* copied by vector registers, the CRC with the copy */
	KW_FPDU_MARKED,		/* copied, markers inserted, the CRC last */
	KW_FPDU_REF,		/* by reference: see zcopy.c */
};

/* The header of the FPDU at @p, by the template. */
static __always_inline void kw_fpdu_head(struct kw_tx_msg *m, u8 *p)
{
	if (m->tagged)
		m->head.ddp.tagged.to = cpu_to_be64(m->at);
	else
		m->head.ddp.untagged.mo = cpu_to_be32(m->at);
	/* More than a tagged header; what follows overwrites the rest. */
	memcpy(p, &m->head, sizeof(m->head));
}

/* The next bytes, which have to be of one run. */
static __always_inline u32 kw_fpdu_copy(struct kw_sg_iter *it, u32 crc, u8 *dst,
					u32 len, enum kw_fpdu_how how)
{
	if (how == KW_FPDU_VEC)
		kw_memcpy_vec(dst, it->run.va, len);
	else if (how == KW_FPDU_VEC_CRC)
		crc = kw_memcpy_crc32c_vec(crc, dst, it->run.va, len);
	else if (how == KW_FPDU_COPY_CRC)
		crc = kw_memcpy_crc32c(crc, dst, it->run.va, len);
	else if (how == KW_FPDU_MARKED)
		kw_memcpy_auto(dst, it->run.va, len);
	else
		kw_memcpy(dst, it->run.va, len);
	kw_sg_advance(it, len);
	return crc;
}

/* Copy across runs. Returns false, with @it where it was, without a right. */
static noinline bool kw_fpdu_copy_split(struct kw_stream *s,
					struct kw_sg_iter *it, u32 *crc,
					u8 *dst, u32 len, enum kw_fpdu_how how)
{
	const struct kiwarp_sge *sge = it->sge;
	u32 off = it->off, n;

	for (; len; dst += n, len -= n) {
		n = kw_sg_run(s, it, len);
		if (!n) {
			it->sge = sge;
			it->off = off;
			return false;
		}
		*crc = kw_fpdu_copy(it, *crc, dst, n, how);
	}
	return true;
}

/*
 * Build an FPDU of the next @len bytes, with @pad, at @start. Returns
 * its end, or NULL if a right is missing.
 */
static __always_inline u8 *kw_fpdu_one(struct kw_stream *s,
				       const struct kw_tx_buf *buf,
				       struct kw_tx_msg *m, u8 *start, u32 len,
				       u32 pad, const enum kw_fpdu_how how)
{
	const u32 fpdu_len = KW_MPA_OVERHEAD + m->hdr_len + len + pad;
	const bool on_the_way = s->p.crc && (how == KW_FPDU_COPY_CRC ||
					     how == KW_FPDU_VEC_CRC ||
					     how == KW_FPDU_REF);
	u8 *p = start, *payload, *tail, *field;
	u32 crc = KW_CRC_SEED;

	if (how == KW_FPDU_MARKED)
		p += KW_MARKER_LEN * kw_markers_in(buf->seg.off, fpdu_len);
	payload = p + KW_MPA_HDR_LEN + m->hdr_len;
	tail = how == KW_FPDU_REF ? payload : payload + len;
	kw_fpdu_head(m, p);
	if (on_the_way)
		crc = kw_crc32c(crc, p, payload - p);
	if (how == KW_FPDU_REF)
		crc = kw_zc_add(s, payload, crc);
	else if (len - 1 < m->it.run.len)
		crc = kw_fpdu_copy(&m->it, crc, payload, len, how);
	else if (!kw_fpdu_copy_split(s, &m->it, &crc, payload, len, how))
		return NULL;
	/* The pad, and what stands in the place of a CRC. */
	put_unaligned_le32(0, tail);
	field = tail + pad;
	if (how == KW_FPDU_MARKED)
		field = start + kw_markers_insert(start, buf->seg.off, fpdu_len) -
			KW_MPA_CRC_LEN;
	if (!s->p.crc)
		put_unaligned_le32(0, field);
	else if (on_the_way && tail == field)
		kw_crc_put(field, crc);
	else if (on_the_way)
		kw_crc_put(field, kw_crc32c(crc, tail, field - tail));
	else if (how == KW_FPDU_VEC)
		kw_crc_put(field, kw_crc32c_vec(crc, start, field - start));
	else
		kw_crc_put(field, kw_crc32c_auto(crc, start, field - start));
	m->at += len;
	return field + KW_MPA_CRC_LEN;
}

/*
 * Build at most @nr FPDUs of @len bytes each. If they are several, each fills a
 * TCP segment. Returns how many were built.
 */
static __always_inline u32 kw_fpdu_loop(struct kw_stream *s,
					struct kw_tx_buf *buf,
					struct kw_tx_msg *m, u32 len, u32 nr,
					const enum kw_fpdu_how how)
{
	const u32 pad = kw_fpdu_pad(m->hdr_len + len);
	const u32 fpdu_len = KW_MPA_OVERHEAD + m->hdr_len + len + pad;
	u8 *p = buf->p, *end;
	u32 i;

	for (i = 0; i < nr; i++, p = end) {
		end = kw_fpdu_one(s, buf, m, p, len, pad, how);
		if (!end)
			break;
	}
	if (!i)
		return 0;
	m->left -= i * len;
	buf->fpdus += i;
	buf->seg.off += (i - 1) * fpdu_len;
	kw_segmenter_advance(&buf->seg, how == KW_FPDU_MARKED ? (u32)(p - buf->p) :
							 fpdu_len);
	/* What is left stays a multiple of four: see kw_segmenter_payload(). */
	buf->left = (buf->left - (u32)(p - buf->p)) & ~3u;
	buf->p = p;
	return i;
}

/* kw_fpdu_loop() by vector registers. Returns 0 if they may not be used. */
static u32 kw_fpdu_vec(struct kw_stream *s, struct kw_tx_buf *buf,
		       struct kw_tx_msg *m, u32 len, u32 nr)
{
	const u32 most = KW_VEC_MAX / (len + 1) + 1;
	const bool folds = kw_vec_folds && s->p.crc;
	u32 done = 0, now, n;

	while (kw_vec_begin(min(nr - done, most) * len)) {
		now = min(nr - done, most);
		n = folds ? kw_fpdu_loop(s, buf, m, len, now, KW_FPDU_VEC_CRC) :
			    kw_fpdu_loop(s, buf, m, len, now, KW_FPDU_VEC);
		kw_vec_end(true);
		if (!n)
			break;
		done += n;
	}
	return done;
}

/* Build at most @nr FPDUs of @len bytes; chooses once how to copy them. */
static __hot u32 kw_fpdu_alike(struct kw_stream *s, struct kw_tx_buf *buf,
			       struct kw_tx_msg *m, u32 len, u32 nr, bool ref)
{
	u32 done;

	m->head.ulpdu_len = cpu_to_be16(m->hdr_len + len);
	if (len == m->left)
		m->head.ddp.tagged.ctrl |= KW_DDP_CTRL_LAST;
	if (ref)
		return kw_fpdu_loop(s, buf, m, len, nr, KW_FPDU_REF);
	/* The run found here usually serves all of the FPDUs. */
	if (len && !m->it.run.len && !kw_sg_next(s, &m->it))
		return 0;
	if (buf->seg.markers)
		return kw_fpdu_loop(s, buf, m, len, nr, KW_FPDU_MARKED);
	if (len * nr >= KW_VEC_MIN) {
		done = kw_fpdu_vec(s, buf, m, len, nr);
		if (done)
			return done;
	}
	if (s->p.crc)
		return kw_fpdu_loop(s, buf, m, len, nr, KW_FPDU_COPY_CRC);
	return kw_fpdu_loop(s, buf, m, len, nr, KW_FPDU_COPY);
}

/*
 * Build the next FPDU, if its payload can go by reference. Returns as
 * kw_fpdu_build(), or -EAGAIN if this payload is to be copied.
 */
static int kw_fpdu_build_ref(struct kw_stream *s, struct kw_tx_buf *buf,
			     struct kw_tx_msg *m)
{
	int len, ret;

	buf->full = true;
	buf->eor = true;
	if (!kw_zc_listed(s)) {
		if (buf->p != buf->start || !kw_zc_list(s, buf->p))
			return 0;
		/* The list becomes a socket buffer of its own. */
		buf->seg.room = buf->seg.emss;
	}
	if (buf->left < KW_FPDU_REF_MAX)
		return 0;
	len = kw_segmenter_payload(&buf->seg, KW_FPDU_REF_ROOM, m->hdr_len, m->left);
	if (len < 0)
		return 0;
	ret = kw_zc_collect(s, &m->it, len);
	if (ret == -EMSGSIZE)
		return 0;
	buf->full = false;
	buf->eor = false;
	if (!ret)
		ret = kw_fpdu_alike(s, buf, m, len, 1, true);
	kw_sg_release(&m->it);
	return ret;
}

/**
 * kw_fpdu_build() - build the next FPDU of a message, or several that are alike
 * @s: stream
 * @buf: where to
 * @m: message
 *
 * Context: inside s->mem_srcu, socket lock held, transmit token owned.
 * Return: a positive number if it was built; 0 if there is no room, and
 * @buf->full is set; -EACCES if a right is missing.
 */
__hot int kw_fpdu_build(struct kw_stream *s, struct kw_tx_buf *buf,
			struct kw_tx_msg *m)
{
	u32 nr = 1;
	int len, ret;

	if (s->tx.zc_msg) {
		ret = kw_fpdu_build_ref(s, buf, m);
		if (ret != -EAGAIN)
			return ret;
	}
	len = kw_segmenter_payload(&buf->seg, buf->left, m->hdr_len, m->left);
	if (len < 0) {
		buf->full = true;
		buf->eor = len == KW_SEGMENTER_SEGMENT;
		return 0;
	}
	if ((u32)len < m->left && !s->tx.zc_msg &&
	    buf->seg.full == buf->seg.emss && buf->seg.room == buf->seg.emss &&
	    kw_fpdu_len(m->hdr_len + len) == buf->seg.full)
		nr = min((m->left - 1) / len, buf->left / buf->seg.full);
	nr = kw_fpdu_alike(s, buf, m, len, nr, false);
	kw_sg_release(&m->it);
	return nr ? nr : -EACCES;
}
