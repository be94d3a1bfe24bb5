/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Moving octets between a stream and registered memory, with every right
 * checked again for every segment: a region can be deregistered at any time.
 */
#ifndef KW_STREAM_PLACE_H
#define KW_STREAM_PLACE_H

#include "stream/cursor.h"
#include "stream/stream.h"

u16 kw_check_write(struct kw_stream *s, u32 stag, u64 to, u32 len,
		   struct kw_mem **mem);
u16 kw_check_read(struct kw_stream *s, u32 stag, u64 to, u32 len);
u16 kw_check_sink(struct kw_stream *s, const struct kiwarp_sge *sge, u32 off,
		  u32 len, struct kw_mem **mem);
int kw_place_tagged(struct kw_stream *s, struct kw_cursor *c,
		    const struct kw_mem *mem, u64 addr, u32 len);
int kw_place_sgl(struct kw_stream *s, struct kw_cursor *c,
		 struct kw_sg_iter *it, u32 len);

#endif /* KW_STREAM_PLACE_H */
