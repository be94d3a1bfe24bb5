// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* How an error begins the end of a stream: see teardown.c. */
#include "stream/priv.h"
#include "stream/zcopy.h"

/**
 * kw_stream_fail() - the stream can not go on
 * @s: stream
 * @why: for the queue pair
 * @terminate: s->tx.term holds the Terminate to send
 *
 * From here on nothing is placed, only the Terminate is sent, and the queue
 * pair flushes all work.
 *
 * Context: socket lock held.
 */
void kw_stream_fail(struct kw_stream *s, enum kw_fail why, bool terminate)
{
	if (s->state != KW_STREAM_OPEN && s->state != KW_STREAM_CLOSING)
		return;
	WRITE_ONCE(s->state, KW_STREAM_ERROR);
	if (!s->status)
		s->status = -ECONNRESET;
	if (terminate && s->fin_sent) {
		/* This half is closed: only a reset can still reach the peer. */
		terminate = false;
		s->reset = true;
	}
	if (terminate)
		s->reason = KIWARP_TERM_SENT | kw_term_get_code(&s->tx.term);
	s->tx.msg = KW_MSG_NONE;
	kw_zc_framed(s, false);
	s->tx.held = false;
	s->tx.rtr_pending = false;
	s->tx.term_pending = terminate;
	s->rx.kick = true;
	s->rx.recv_open = false;
	s->ops->failed(s, why);
	kw_stream_set_deadline(s, KW_ERROR_TIMEOUT);
	if (!terminate)
		kw_stream_queue(s, &s->end_work, 0);
}
