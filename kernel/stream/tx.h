/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Between the parts of the transmit path: tx.c and tx_frame.c. */
#ifndef KW_STREAM_TX_H
#define KW_STREAM_TX_H

#include "stream/stream.h"

/*
 * The rest of a TCP segment is left empty when it is smaller than an FPDU of
 * the smallest MULPDU (RFC 5044: at least 128), with length and CRC.
 */
#define KW_TX_ROOM_MIN	(KW_MULPDU_MIN + KW_MPA_HDR_LEN + KW_MPA_CRC_LEN)

/**
 * struct kw_chunk - room that FPDUs are built in
 * @p: next free octet
 * @left: free octets
 * @mss: current EMSS
 * @room: octets left in the TCP segment that @p falls into
 * @full: nothing more fits; the caller sends and starts a new chunk
 * @eor: the chunk has to end its TCP segment
 */
struct kw_chunk {
	u8 *p;
	u32 left;
	u32 mss;
	u32 room;
	bool full;
	bool eor;
};

bool kw_tx_frame(struct kw_stream *s, struct kw_chunk *ch);
bool kw_tx_more(struct kw_stream *s);
void kw_tx_work(struct work_struct *work);
void kw_tx_write_space(struct sock *sk);

#endif /* KW_STREAM_TX_H */
