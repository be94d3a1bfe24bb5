// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The short way for the middle of a long message: FPDUs that each fill a TCP
 * segment differ in nothing but their offset. Rights are checked once for all
 * that go into a block from one entry of the list, while its region is held.
 */
#include <linux/unaligned.h>

#include "stream/place.h"
#include "stream/tx_middle.h"
#include "stream/vec.h"

/* The next octets of payload, which have to be of one extent. */
static __always_inline u32 kw_middle_copy(struct kw_middle *m, u32 crc, u8 *dst,
					  u32 len, bool sum)
{
	const u8 *src = m->run.va;

	m->run.va += len;
	m->run.len -= len;
	m->off += len;
	if (m->vec)
		kw_vec_copy(dst, src, len);
	else if (sum)
		crc = kw_crc32c_copy(crc, dst, src, len);
	else
		kw_copy(dst, src, len);
	return crc;
}

/* Hold the region of the entry where the next octets are. */
static bool kw_middle_entry(struct kw_stream *s, struct kw_middle *m)
{
	if (m->mem)
		kw_mem_put(m->mem);
	m->mem = NULL;
	while (m->off == m->sge->length) {
		if (m->sge + 1 == m->end)
			return false;
		m->sge++;
		m->off = 0;
	}
	m->mem = kw_get_sge(s, m->sge, m->access);
	return m->mem;
}

/* Find the octets that follow a run that is used up. */
static bool kw_middle_run(struct kw_stream *s, struct kw_middle *m)
{
	if ((!m->mem || m->off == m->sge->length) && !kw_middle_entry(s, m))
		return false;
	m->run = kw_mem_at(m->mem, m->sge->addr + m->off - m->mem->base,
			   &s->rx.mem_ext);
	m->run.len = min(m->run.len, m->sge->length - m->off);
	return true;
}

/*
 * The same from run to run. Returns false if a right is missing, with @m where
 * it was.
 */
static noinline bool kw_middle_copy_split(struct kw_stream *s,
					  struct kw_middle *m, u32 *crc,
					  u8 *dst, u32 len)
{
	const struct kiwarp_sge *sge = m->sge;
	u32 off = m->off;

	while (len) {
		u32 n = min_t(u64, m->run.len, len);

		if (n) {
			*crc = kw_middle_copy(m, *crc, dst, n, s->p.crc);
			dst += n;
			len -= n;
		} else if (!kw_middle_run(s, m)) {
			m->sge = sge;
			m->off = off;
			return false;
		}
	}
	return true;
}

/*
 * Build the FPDU at @p, with @len octets of payload from @payload on. Returns
 * false if a right is missing.
 */
static __always_inline bool kw_middle_fpdu(struct kw_stream *s,
					   struct kw_middle *m, u8 *p,
					   u8 *payload, u32 len)
{
	u8 *field = payload + len;
	u32 crc = KW_CRC_SEED;

	/* In a section the sum comes last: see wire/vec.h. */
	if (s->p.crc && !m->vec)
		crc = kw_crc32c(crc, p, payload - p);
	if (len <= m->run.len)
		crc = kw_middle_copy(m, crc, payload, len, s->p.crc);
	else if (!kw_middle_copy_split(s, m, &crc, payload, len))
		return false;
	if (!s->p.crc)
		put_unaligned_le32(0, field);
	else if (m->vec)
		kw_crc_put(field, kw_vec_crc32c(crc, p, field - p));
	else
		kw_crc_put(field, crc);
	return true;
}

/* Build at most @nr FPDUs. Returns how many. */
static u32 kw_middle_build(struct kw_stream *s, struct kw_chunk *ch,
			   struct kw_middle *m, u32 hdr_len, u32 len, u32 nr)
{
	u8 *p = ch->p;
	u32 i;

	put_unaligned_be16(hdr_len + len, m->head);
	for (i = 0; i < nr; i++) {
		if (m->tagged)
			put_unaligned_be64(m->at, m->head + 8);
		else
			put_unaligned_be32(m->at, m->head + 16);
		/* Of a tagged header this is more; payload takes its place. */
		memcpy(p, m->head, sizeof(m->head));
		if (!kw_middle_fpdu(s, m, p, p + KW_MPA_HDR_LEN + hdr_len, len))
			break;
		m->at += len;
		p += ch->cut.full;
	}
	return i;
}

/**
 * kw_middle_frame() - build FPDUs of the middle of a message
 * @s: stream
 * @ch: where to, for which kw_middle_is() is true; moved behind them
 * @m: the message, with no region held; @m->sge and @m->off are moved
 *
 * Context: inside s->mem_srcu, socket lock held, transmit token owned.
 * Return: octets of payload in the FPDUs built; 0 if there are none, because
 * the list ends before, or because a right is missing.
 */
u32 kw_middle_frame(struct kw_stream *s, struct kw_chunk *ch,
		    struct kw_middle *m)
{
	u32 hdr_len = m->tagged ? KW_DDP_TAGGED_LEN : KW_DDP_UNTAGGED_LEN;
	u32 len = ch->cut.full - KW_MPA_OVERHEAD - hdr_len;
	/* The last FPDU is different. */
	u32 nr = min((m->left - 1) / len, ch->left / ch->cut.full);

	m->vec = kw_vec_begin(nr * len);
	nr = kw_middle_build(s, ch, m, hdr_len, len, nr);
	kw_vec_end(m->vec);
	if (m->mem)
		kw_mem_put(m->mem);
	ch->p += nr * ch->cut.full;
	ch->left -= nr * ch->cut.full;
	ch->cut.off += nr * ch->cut.full;
	ch->fpdus += nr;
	return nr * len;
}
