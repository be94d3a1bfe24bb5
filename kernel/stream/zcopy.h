/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Sending payload without a copy: see zcopy.c. */
#ifndef KW_STREAM_ZCOPY_H
#define KW_STREAM_ZCOPY_H

#include "stream/stream.h"

int kw_zc_open(struct kw_stream *s);
void kw_zc_detach(struct kw_stream *s);
bool kw_zc_close(struct kw_stream *s);
void kw_zc_exit(void);

bool kw_zc_busy(const struct kw_stream *s);
void kw_zc_begin(struct kw_stream *s);
void kw_zc_framed(struct kw_stream *s, bool whole);

bool kw_zc_listed(const struct kw_stream *s);
bool kw_zc_list(struct kw_stream *s, u8 *start);
int kw_zc_collect(struct kw_stream *s, struct kw_sg_iter *it, u32 len);
u32 kw_zc_add(struct kw_stream *s, u8 *at, u32 crc);
u32 kw_zc_finish(struct kw_stream *s, const u8 *end);
int kw_zc_send(struct kw_stream *s, u32 flags);

#endif /* KW_STREAM_ZCOPY_H */
