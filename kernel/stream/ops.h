/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Calls from a stream to the queue pair above it. */
#ifndef KW_STREAM_OPS_H
#define KW_STREAM_OPS_H

#include "stream/stream.h"

/* Why a stream failed, for the asynchronous event and the flushed work. */
enum kw_fail {
	KW_FAIL_LOCAL,		/* a local work request was at fault */
	KW_FAIL_REMOTE_ACCESS,	/* the peer violated a right: IB_EVENT_QP_ACCESS_ERR */
	KW_FAIL_REMOTE_REQUEST,	/* the peer's message was invalid: IB_EVENT_QP_REQ_ERR */
	KW_FAIL_FATAL,		/* the connection can not go on: IB_EVENT_QP_FATAL */
	KW_FAIL_CLOSED,		/* it ended in an orderly way: no event */
};

/**
 * struct kw_stream_ops - calls from a stream to its queue pair
 * @next_wqe: take the next entry off the send ring, as a private, validated
 *	copy; false if there is none. An invalid one has its status set.
 * @wqes_left: whether the send ring has entries that @next_wqe would take
 * @wqe_done: an entry has its result, enum ib_wc_status
 * @wqe_zc_start: TCP refers to an entry's buffers: it completes, or is flushed,
 *	after @wqe_zc_done or at @ended
 * @wqe_zc_done: TCP no longer refers to them; good: the entry has succeeded. In
 *	process context
 * @retire: complete the entries that are done, in the order of posting, but no
 *	more than so many; returns whether there are more. kw_stream_retire()
 *	calls it
 * @local_op: do an entry that sends nothing; returns enum ib_wc_status
 * @next_recv: take the next entry off the receive ring, as a private, validated
 *	copy, when the one before is done with. Returns 1, 0 if there is none,
 *	or -EINVAL if the entry is not valid
 * @recv_done: a receive entry has its result; inv_stag was invalidated by the
 *	message if @invalidated
 * @recv_imm: a receive entry was consumed by Immediate Data; len: bytes of the
 *	Write that came before it
 * @mem: find a region, to use inside kw_stream.mem_srcu; NULL if there is none
 * @invalidate: invalidate an STag; remote: the peer has asked for it. Returns
 *	0 or the -errno of kw_mem_invalidate()
 * @notify: end of a pass: raise completion events
 * @started: the stream is ready to run; returns 0, or -EINVAL if the queue pair
 *	is not
 * @closing: graceful teardown has begun, from either side: what is posted by
 *	now is sent, what is posted later is flushed (RFC 5041 section 6.2.1)
 * @failed: the stream works on the queues no longer, after an error
 * @linger: take over a socket that still has to send what has completed, for so
 *	many jiffies. Returns 0, -ENODEV if the device goes, or another -errno:
 *	the stream closes the socket. In process context, no lock held
 * @ended: the stream is over and its socket gone; it may be freed by this. In
 *	process context, no lock held
 *
 * Unless said otherwise they are called under the socket lock, in softirq or
 * process context, and may not sleep.
 */
struct kw_stream_ops {
	bool (*next_wqe)(struct kw_stream *s, struct kw_wqe *w);
	bool (*wqes_left)(struct kw_stream *s);
	void (*wqe_done)(struct kw_stream *s, u32 index, u16 status);
	void (*wqe_zc_start)(struct kw_stream *s, u32 index);
	void (*wqe_zc_done)(struct kw_stream *s, u32 index, bool good);
	bool (*retire)(struct kw_stream *s, u32 most);
	int (*local_op)(struct kw_stream *s, const struct kw_wqe *w);

	int (*next_recv)(struct kw_stream *s, struct kw_recv *r);
	void (*recv_done)(struct kw_stream *s, const struct kw_recv *r,
			  u16 status, u32 len, bool solicited,
			  bool invalidated, u32 inv_stag);
	void (*recv_imm)(struct kw_stream *s, const struct kw_recv *r, u32 len,
			 bool solicited, __be32 imm);

	struct kw_mem *(*mem)(struct kw_stream *s, u32 stag);
	int (*invalidate)(struct kw_stream *s, u32 stag, bool remote);

	void (*notify)(struct kw_stream *s);
	int (*started)(struct kw_stream *s);
	void (*closing)(struct kw_stream *s);
	void (*failed)(struct kw_stream *s, enum kw_fail why);
	int (*linger)(struct kw_stream *s, struct socket *sock,
		      unsigned long limit);
	void (*ended)(struct kw_stream *s);
};

#endif /* KW_STREAM_OPS_H */
