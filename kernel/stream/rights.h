/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the peer may do with registered memory, asked again for every segment:
 * a region can be deregistered at any time.
 */
#ifndef KW_STREAM_RIGHTS_H
#define KW_STREAM_RIGHTS_H

#include "stream/stream.h"

u16 kw_check_write(struct kw_stream *s, u32 stag, u64 to, u32 len,
		   struct kw_mem **mem);
u16 kw_check_read(struct kw_stream *s, u32 stag, u64 to, u32 len);
u16 kw_check_sink(struct kw_stream *s, const struct kiwarp_sge *sge, u32 off,
		  u32 len, struct kw_mem **mem);

#endif /* KW_STREAM_RIGHTS_H */
