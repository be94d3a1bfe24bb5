/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Between tx_frame.c and tx_middle.c. */
#ifndef KW_STREAM_TX_MIDDLE_H
#define KW_STREAM_TX_MIDDLE_H

#include "stream/tx.h"

/**
 * struct kw_middle - what is to be sent of a long message
 * @sge: entry of its list where the first of them is in memory
 * @end: end of the list
 * @off: octets into @sge
 * @left: octets of the message that are left to be sent
 * @access: IB_ACCESS_* that the region must have
 * @tagged: the FPDUs are
 * @at: TO or MO of the first
 * @mem: the region of @sge, held; NULL if it is not
 * @run: octets of @sge from @off on, as far as they are contiguous in memory
 * @vec: vector registers may be used: see stream/vec.h
 * @head: the octets of an FPDU before its payload, all but ULPDU_Length, TO and MO
 */
struct kw_middle {
	const struct kiwarp_sge *sge;
	const struct kiwarp_sge *end;
	u32 off;
	u32 left;
	u32 access;
	bool tagged;
	u64 at;
	struct kw_mem *mem;
	struct kw_run run;
	bool vec;
	u8 head[KW_MPA_HDR_LEN + KW_DDP_HDR_MAX];
};

u32 kw_middle_frame(struct kw_stream *s, struct kw_chunk *ch,
		    struct kw_middle *m);

/**
 * kw_middle_is() - whether it may be worth calling kw_middle_frame()
 * @ch: where to
 * @left: octets of the message that are left to be sent
 *
 * Return: true if the next FPDU can be a whole segment of a message that goes
 * on behind it.
 */
static inline bool kw_middle_is(const struct kw_chunk *ch, u32 left)
{
	return left >= ch->cut.emss && ch->cut.full == ch->cut.emss &&
	       ch->cut.room == ch->cut.emss && ch->left >= ch->cut.emss;
}

#endif /* KW_STREAM_TX_MIDDLE_H */
