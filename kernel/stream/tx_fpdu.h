/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The FPDU encoder: see tx_fpdu.c. */
#ifndef KW_STREAM_TX_FPDU_H
#define KW_STREAM_TX_FPDU_H

#include "stream/sg.h"
#include "stream/tx.h"

/**
 * kw_msg_tagged() - the header template of a tagged message
 * @m: message; where its bytes are is for the caller to say
 * @op: enum kw_rdmap_opcode
 * @stag: STag
 * @to: tagged offset of the first byte
 * @len: bytes
 */
static inline void kw_msg_tagged(struct kw_tx_msg *m, u8 op, u32 stag, u64 to,
				 u32 len)
{
	kw_ddp_put_tagged((u8 *)&m->head.ddp, false, KW_RDMAP_CTRL(op),
			  stag, to);
	m->tagged = true;
	m->hdr_len = KW_DDP_TAGGED_LEN;
	m->left = len;
	m->at = to;
}

/**
 * kw_msg_untagged() - the header template of an untagged message
 * @m: message; where its bytes are is for the caller to say
 * @op: enum kw_rdmap_opcode
 * @inv_stag: STag to invalidate, or 0
 * @qn: queue number
 * @msn: message sequence number
 * @len: bytes
 */
static inline void kw_msg_untagged(struct kw_tx_msg *m, u8 op, u32 inv_stag,
				   u32 qn, u32 msn, u32 len)
{
	kw_ddp_put_untagged((u8 *)&m->head.ddp, false,
			    KW_RDMAP_CTRL(op), inv_stag, qn, msn, 0);
	m->tagged = false;
	m->hdr_len = KW_DDP_UNTAGGED_LEN;
	m->left = len;
	m->at = 0;
}

int kw_fpdu_build(struct kw_stream *s, struct kw_chunk *ch,
		  struct kw_tx_msg *m);

#endif /* KW_STREAM_TX_FPDU_H */
