/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The checks that every segment's header passes first (RFC 5041 section 7.1,
 * RFC 5040 section 7.2): on the data path, hence inline.
 */
#ifndef KW_WIRE_CHECK_H
#define KW_WIRE_CHECK_H

#include "wire/ddp.h"
#include "wire/rdmap.h"
#include "wire/term.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * kw_ddp_check_header() - the checks of a header that come before all others
 * @h: header
 * @version: of DDP and RDMAP, as the connection has it
 * @nr_qn: how many queues the connection has
 *
 * Return: 0, or the enum kw_term_code for a wrong version or queue number.
 */
static inline u16 kw_ddp_check_header(const struct kw_ddp_hdr *h, u8 version,
				      u32 nr_qn)
{
	if (h->dv != version)
		return h->tagged ? KW_TERM_DDP_TAGGED_VERSION :
				   KW_TERM_DDP_UNTAGGED_VERSION;
	if (!h->tagged && h->qn >= nr_qn)
		return KW_TERM_DDP_UNTAGGED_INV_QN;
	return 0;
}

/**
 * kw_rdmap_check_header() - does a message fit the buffer model it came by?
 * @h: header that kw_ddp_check_header() has passed
 * @version: likewise
 *
 * To DDP all queues of the stream are alike. That an opcode came by a queue
 * that is not its own is an RDMAP error (RFC 5040 section 4.1).
 *
 * Return: 0, or the enum kw_term_code for a wrong version or opcode.
 */
static inline u16 kw_rdmap_check_header(const struct kw_ddp_hdr *h, u8 version)
{
	const struct kw_rdmap_op_info *op;

	if (kw_rdmap_rv(h->rsvd_ulp_ctrl) != version)
		return KW_TERM_RDMAP_VERSION;
	op = &kw_rdmap_ops[kw_rdmap_op(h->rsvd_ulp_ctrl)];
	if (!op->valid || op->tagged != h->tagged ||
	    (!op->tagged && op->qn != h->qn))
		return KW_TERM_RDMAP_OPCODE;
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_CHECK_H */
