// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The short way for the middle of a long message: FPDUs that each fill a TCP
 * segment, with payload from one entry of the list, differ in nothing but
 * their offset. Rights are checked once for all that go into a block, while
 * the region is held.
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

/* The same from extent to extent. */
static noinline u32 kw_middle_copy_split(struct kw_stream *s,
					 const struct kw_mem *mem,
					 struct kw_middle *m, u32 crc, u8 *dst,
					 u32 len)
{
	while (len) {
		u32 n = min_t(u64, m->run.len, len);

		if (!n) {
			m->run = kw_mem_at(mem, m->sge->addr + m->off -
					   mem->base, &s->rx.mem_ext);
			continue;
		}
		crc = kw_middle_copy(m, crc, dst, n, s->p.crc);
		dst += n;
		len -= n;
	}
	return crc;
}

/* Build the FPDU at @p, with @len octets of payload from @payload on. */
static __always_inline void kw_middle_fpdu(struct kw_stream *s,
					   const struct kw_mem *mem,
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
	else
		crc = kw_middle_copy_split(s, mem, m, crc, payload, len);
	if (!s->p.crc)
		put_unaligned_le32(0, field);
	else if (m->vec)
		kw_crc_put(field, kw_vec_crc32c(crc, p, field - p));
	else
		kw_crc_put(field, crc);
}

static void kw_middle_build(struct kw_stream *s, const struct kw_mem *mem,
			    struct kw_chunk *ch, struct kw_middle *m,
			    u32 hdr_len, u32 len, u32 nr)
{
	u8 *p = ch->p;

	put_unaligned_be16(hdr_len + len, m->head);
	for (; nr; nr--) {
		if (m->tagged)
			put_unaligned_be64(m->at, m->head + 8);
		else
			put_unaligned_be32(m->at, m->head + 16);
		/* Of a tagged header this is more; payload takes its place. */
		memcpy(p, m->head, sizeof(m->head));
		kw_middle_fpdu(s, mem, m, p, p + KW_MPA_HDR_LEN + hdr_len, len);
		m->at += len;
		p += ch->cut.full;
	}
}

/**
 * kw_middle_frame() - build FPDUs of the middle of a message
 * @s: stream
 * @ch: where to, for which kw_middle_is() is true; moved behind them
 * @m: the message
 *
 * Context: inside s->mem_srcu, socket lock held, transmit token owned.
 * Return: octets of payload in the FPDUs built; 0 if there are none, because
 * @m->sge ends before, or because a right is missing.
 */
u32 kw_middle_frame(struct kw_stream *s, struct kw_chunk *ch,
		    struct kw_middle *m)
{
	u32 hdr_len = m->tagged ? KW_DDP_TAGGED_LEN : KW_DDP_UNTAGGED_LEN;
	u32 len = ch->cut.full - KW_MPA_OVERHEAD - hdr_len;
	/* The last FPDU is different. */
	u32 most = min(m->sge->length - m->off, m->left - 1);
	struct kw_mem *mem;
	u32 nr;

	mem = kw_get_sge(s, m->sge, m->access);
	if (!mem)
		return 0;
	nr = min(most / len, ch->left / ch->cut.full);
	m->run.len = 0;
	m->vec = kw_vec_begin(nr * len);
	kw_middle_build(s, mem, ch, m, hdr_len, len, nr);
	kw_vec_end(m->vec);
	kw_mem_put(mem);
	ch->p += nr * ch->cut.full;
	ch->left -= nr * ch->cut.full;
	ch->cut.off += nr * ch->cut.full;
	ch->fpdus += nr;
	return nr * len;
}
