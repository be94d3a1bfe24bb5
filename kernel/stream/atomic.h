/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The responder's part of atomic operations: see atomic.c. */
#ifndef KW_STREAM_ATOMIC_H
#define KW_STREAM_ATOMIC_H

#include "stream/stream.h"

u16 kw_atomic_check(struct kw_stream *s, const struct kw_atomic_req *req);
u16 kw_atomic_work(struct kw_stream *s, const struct kw_atomic_req *req,
		   u64 *orig);

#endif /* KW_STREAM_ATOMIC_H */
