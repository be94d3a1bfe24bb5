/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Placement of received payload, and header prediction: see place.c. */
#ifndef KW_STREAM_PLACE_H
#define KW_STREAM_PLACE_H

#include "stream/rx.h"
#include "stream/sg.h"

bool kw_place(struct kw_stream *s, const struct kw_segment *seg,
	      struct kw_cursor *c, struct kw_sg_iter *it);
bool kw_place_tagged(struct kw_stream *s, const struct kw_segment *seg,
		     struct kw_cursor *c, struct kw_mem *mem, u32 most);
void kw_predict(struct kw_stream *s, const struct kw_segment *seg, u32 room,
		struct kw_orq_entry *read);
u32 kw_predict_take(struct kw_stream *s, struct kw_cursor *c, u32 avail,
		    u32 *fpdus);
void kw_predict_end(struct kw_stream *s);

#endif /* KW_STREAM_PLACE_H */
