/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The short way for the segment that is expected next. Of a long message, all
 * segments but the first and the last say the same, but for where they go: the
 * checks that one has passed hold for the next.
 */
#ifndef KW_STREAM_RX_NEXT_H
#define KW_STREAM_RX_NEXT_H

#include "stream/cursor.h"
#include "stream/rx.h"

void kw_next_write(struct kw_stream *s, const struct kw_segment *seg,
		   struct kw_mem *mem);
void kw_next_read_resp(struct kw_stream *s, const struct kw_segment *seg,
		       struct kw_mem *mem, struct kw_orq_entry *e);
void kw_next_send(struct kw_stream *s, const struct kw_segment *seg);
u32 kw_next_take(struct kw_stream *s, struct kw_cursor *c, u32 avail,
		 u32 *fpdus);
void kw_next_end(struct kw_stream *s);

#endif /* KW_STREAM_RX_NEXT_H */
