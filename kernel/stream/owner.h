/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What a stream asks of its owner, the queue pair. verbs/ implements these.
 *
 * Unless said otherwise they are called under the socket lock, in softirq or
 * process context, and may not sleep.
 */
#ifndef KW_STREAM_OWNER_H
#define KW_STREAM_OWNER_H

#include "stream/stream.h"

/* Why a stream failed, for the asynchronous event and the flushed work. */
enum kw_fail {
	KW_FAIL_LOCAL,		/* a local work request was at fault */
	KW_FAIL_REMOTE_ACCESS,	/* the peer violated a right: IB_EVENT_QP_ACCESS_ERR */
	KW_FAIL_REMOTE_REQUEST,	/* the peer's message was invalid: IB_EVENT_QP_REQ_ERR */
	KW_FAIL_FATAL,		/* the connection can not go on: IB_EVENT_QP_FATAL */
	KW_FAIL_CLOSED,		/* it ended in an orderly way: no event */
};

bool kw_own_next_wqe(struct kw_stream *s, struct kw_wqe *w);
void kw_own_wqe_done(struct kw_stream *s, u32 index, u16 status);
void kw_own_wqe_lent(struct kw_stream *s, u32 index);
void kw_own_wqe_back(struct kw_stream *s, u32 index, bool good);
void kw_own_retire(struct kw_stream *s);
int kw_own_local_op(struct kw_stream *s, const struct kw_wqe *w);

int kw_own_next_recv(struct kw_stream *s, struct kw_recv *r);
void kw_own_recv_done(struct kw_stream *s, const struct kw_recv *r, u16 status,
		      u32 len, bool solicited, bool invalidated, u32 inv_stag);

struct kw_mem *kw_own_mem(struct kw_stream *s, u32 stag);
void kw_own_read_inv(struct kw_stream *s, u32 stag);
int kw_own_invalidate(struct kw_stream *s, u32 stag);

void kw_own_notify(struct kw_stream *s);
int kw_own_started(struct kw_stream *s);
void kw_own_closing(struct kw_stream *s);
void kw_own_failed(struct kw_stream *s, enum kw_fail why);
void kw_own_ended(struct kw_stream *s);

#endif /* KW_STREAM_OWNER_H */
