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
int kw_check_inv(struct kw_stream *s, const struct kiwarp_sge *sge);
int kw_place_tagged(struct kw_stream *s, struct kw_cursor *c,
		    const struct kw_mem *mem, u64 addr, u32 len);
struct kw_sg_pos kw_sg_seek(const struct kiwarp_sge *sge, u32 num_sge, u32 off);
int kw_place_sgl(struct kw_stream *s, struct kw_cursor *c,
		 const struct kiwarp_sge *sge, u32 num_sge,
		 struct kw_sg_pos *pos, u32 len);
int kw_gather_sgl(struct kw_stream *s, u8 *dst, const struct kiwarp_sge *sge,
		  u32 num_sge, struct kw_sg_pos *pos, u32 len, u32 access,
		  u32 *crc);
struct kw_mem *kw_get_sge(struct kw_stream *s, const struct kiwarp_sge *sge,
			  u32 access);
int kw_check_sgl(struct kw_stream *s, const struct kiwarp_sge *sge,
		 u32 num_sge, u32 access);

#endif /* KW_STREAM_PLACE_H */
