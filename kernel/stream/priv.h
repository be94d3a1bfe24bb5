/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A stream's states and their work, for the other parts of stream/. */
#ifndef KW_STREAM_PRIV_H
#define KW_STREAM_PRIV_H

#include "stream/ops.h"
#include "stream/stream.h"

/* stream.c */
void kw_stream_free_queues(struct kw_stream *s);
void kw_stream_queue(struct kw_stream *s, struct delayed_work *work,
		     unsigned long delay);
bool kw_first_is_timed(const struct kw_stream *s);
void kw_first_wait(struct kw_stream *s);
bool kw_first_tx_more(struct kw_stream *s);

/* teardown.c */
void kw_stream_fail(struct kw_stream *s, enum kw_fail why, bool terminate);
void kw_stream_check_peer(struct kw_stream *s);
void kw_stream_drained(struct kw_stream *s);
void kw_end_work(struct work_struct *work);
void kw_end_check_lost(struct sock *sk);

#endif /* KW_STREAM_PRIV_H */
