/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Between tx_batch.c and the rest of the stream. */
#ifndef KW_STREAM_TX_BATCH_H
#define KW_STREAM_TX_BATCH_H

#include "stream/stream.h"

void kw_batch_init(struct kw_stream *s);
void kw_batch_end(struct kw_stream *s);

#endif /* KW_STREAM_TX_BATCH_H */
