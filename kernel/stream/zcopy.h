/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Sending payload without a copy: see zcopy.c. */
#ifndef KW_STREAM_ZCOPY_H
#define KW_STREAM_ZCOPY_H

#include "stream/tx.h"

/*
 * An FPDU with less payload is copied as ever: a reference to a page costs about
 * as much as copying this, and takes a fragment of the socket buffer besides.
 */
#define KW_ZC_PAYLOAD_MIN	512

/* Of the block of memory an FPDU whose payload is elsewhere takes less than: */
#define KW_ZC_BLOCK_MIN		64

/* Payload does not take room in the block: no limit of kw_cut_payload()'s. */
#define KW_ZC_LEFT		0x20000

int kw_zc_open(struct kw_stream *s);
void kw_zc_detach(struct kw_stream *s);
void kw_zc_close(struct kw_stream *s);
void kw_zc_exit(void);

bool kw_zc_busy(const struct kw_stream *s);
void kw_zc_lend(struct kw_stream *s);
void kw_zc_framed(struct kw_stream *s, bool whole);

bool kw_zc_begin(struct kw_stream *s, struct kw_chunk *ch);
int kw_zc_collect(struct kw_stream *s, u32 len);
u32 kw_zc_sum(const struct kw_stream *s, u32 crc, int pieces);
void kw_zc_add(struct kw_stream *s, const u8 *end, int pieces, u8 *next);
u32 kw_zc_finish(struct kw_stream *s, const u8 *end);
int kw_zc_send(struct kw_stream *s, u32 flags);

#endif /* KW_STREAM_ZCOPY_H */
