/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* How a stream ends; used by the receive and transmit paths. */
#ifndef KW_STREAM_TEARDOWN_H
#define KW_STREAM_TEARDOWN_H

#include "stream/ops.h"
#include "stream/stream.h"

void kw_stream_fail(struct kw_stream *s, enum kw_fail why, bool terminate);
void kw_stream_check_peer(struct kw_stream *s);
void kw_stream_drained(struct kw_stream *s);
void kw_stream_queue(struct kw_stream *s, struct delayed_work *work,
		     unsigned long delay);
void kw_end_work(struct work_struct *work);
void kw_end_state_change(struct sock *sk);
void kw_end_error_report(struct sock *sk);

#endif /* KW_STREAM_TEARDOWN_H */
