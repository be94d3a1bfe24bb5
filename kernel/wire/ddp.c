// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * DDP's checks at the data sink, as far as they need nothing but the header
 * and the size of a buffer (RFC 5041 section 7.1).
 */
#include "wire/ddp.h"
#include "wire/term.h"

/**
 * kw_ddp_check_offset - may a segment be placed in its untagged buffer?
 * @h: untagged header
 * @len: octets of payload
 * @room: octets of the buffer
 * @placed: octets placed of this message so far
 *
 * The source only should send in the order of MO (RFC 5041 section 5.3), so a
 * segment may lie anywhere in the buffer. The last one has the highest MO
 * (section 4.1): what was placed before it must then fill all up to there, or
 * octets would be delivered that never came.
 *
 * Context: any.
 * Return: 0, or the enum kw_term_code for a wrong MO or too long a message.
 */
u16 kw_ddp_check_offset(const struct kw_ddp_hdr *h, u32 len, u64 room,
			u64 placed)
{
	if (len && h->mo > room)
		return KW_TERM_DDP_UNTAGGED_INV_MO;
	if (len && len > room - h->mo)
		return KW_TERM_DDP_UNTAGGED_TOO_LONG;
	if (h->last && placed != h->mo)
		return KW_TERM_DDP_UNTAGGED_INV_MO;
	return 0;
}
