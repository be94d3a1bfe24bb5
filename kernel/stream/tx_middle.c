// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The short way for the middle of a long message: FPDUs that each fill a TCP
 * segment, with payload from one extent of a region, differ in nothing but
 * their offset. Rights are checked once for all that go into a block, while
 * the region is held.
 */
#include <linux/unaligned.h>

#include "stream/place.h"
#include "stream/tx_middle.h"
#include "wire/copy.h"
#include "wire/crc.h"

/* Build one FPDU of @len octets at @p, with payload from @va. */
static void kw_middle_fpdu(const struct kw_stream *s, u8 *p, u32 hdr_len,
			   const u8 *va, u32 len)
{
	u8 *payload = p + KW_MPA_HDR_LEN + hdr_len;
	u8 *field = payload + len;

	if (s->p.crc) {
		u32 crc = kw_crc32c(KW_CRC_SEED, p, KW_MPA_HDR_LEN + hdr_len);

		kw_crc_put(field, kw_crc32c_copy(crc, payload, va, len));
	} else {
		kw_copy(payload, va, len);
		put_unaligned_le32(0, field);
	}
}

static void kw_middle_build(const struct kw_stream *s, struct kw_chunk *ch,
			    struct kw_middle *m, const u8 *va, u32 hdr_len,
			    u32 len, u32 nr)
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
		kw_middle_fpdu(s, p, hdr_len, va, len);
		m->at += len;
		p += ch->cut.full;
		va += len;
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
 * the extent ends before, or because a right is missing.
 */
u32 kw_middle_frame(struct kw_stream *s, struct kw_chunk *ch,
		    struct kw_middle *m)
{
	u32 hdr_len = m->tagged ? KW_DDP_TAGGED_LEN : KW_DDP_UNTAGGED_LEN;
	u32 len = ch->cut.full - KW_MPA_OVERHEAD - hdr_len;
	/* The last FPDU is different. */
	u32 most = min(m->sge->length - m->off, m->left - 1);
	struct kw_run run;
	struct kw_mem *mem;
	u32 nr;

	mem = kw_get_sge(s, m->sge, m->access);
	if (!mem)
		return 0;
	run = kw_mem_at(mem, m->sge->addr + m->off - mem->base,
			&s->rx.mem_ext);
	nr = min((u32)min_t(u64, run.len, most) / len,
		 ch->left / ch->cut.full);
	kw_middle_build(s, ch, m, run.va, hdr_len, len, nr);
	kw_mem_put(mem);
	ch->p += nr * ch->cut.full;
	ch->left -= nr * ch->cut.full;
	ch->cut.off += nr * ch->cut.full;
	ch->fpdus += nr;
	return nr * len;
}
