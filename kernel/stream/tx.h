/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Between the parts of the transmit path: tx.c, tx_msg.c and tx_fpdu.c. */
#ifndef KW_STREAM_TX_H
#define KW_STREAM_TX_H

#include "stream/stream.h"

/*
 * Budget of a pass, which runs with softirqs off: one per message and per
 * KW_TX_BUDGET_SGES of its buffers, per KW_TX_BUDGET_BYTES or
 * KW_TX_BUDGET_FPDUS sent, per restart. That is 1 MiB of long messages, or less
 * where the MSS, which the peer may choose, is below 1 KiB. The fuzzer's budget
 * is smaller.
 */
#ifndef KW_TX_BUDGET
#define KW_TX_BUDGET		256
#endif
#define KW_TX_BUDGET_SGES	4
#define KW_TX_BUDGET_BYTES	4096
#define KW_TX_BUDGET_FPDUS	4

/**
 * struct kw_tx_buf - the part of a transmit buffer that is being filled
 * @start: where the first FPDU begins
 * @p: where the next FPDU begins
 * @left: free bytes
 * @seg: where in the stream @p is
 * @fpdus: FPDUs built
 * @full: nothing more fits; the caller sends and starts again
 * @eor: the last FPDU has to end its TCP segment
 */
struct kw_tx_buf {
	const u8 *start;
	u8 *p;
	u32 left;
	struct kw_segmenter seg;
	u32 fpdus;
	bool full;
	bool eor;
};

static inline void kw_tx_charge(struct kw_tx *tx, u32 n)
{
	tx->budget -= min(tx->budget, n);
}

int kw_fpdu_build(struct kw_stream *s, struct kw_tx_buf *buf,
		  struct kw_tx_msg *m);
bool kw_tx_frame(struct kw_stream *s, struct kw_tx_buf *buf);
bool kw_tx_pending(struct kw_stream *s);
bool kw_tx_own_left(struct kw_stream *s);
bool kw_tx_more(struct kw_stream *s);
void kw_tx_drop_buffer(struct kw_stream *s);
void kw_tx_flush(struct kw_stream *s);
void kw_tx_work(struct work_struct *work);
void kw_tx_write_space(struct sock *sk);

#endif /* KW_STREAM_TX_H */
