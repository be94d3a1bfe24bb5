// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * When TCP acknowledges what has come.
 *
 * It does so at once for every second segment, or who fills a window would have
 * to wait (RFC 5681 section 4.2). Whoever has sent a short message and nothing
 * behind it waits for something else: the answer, which carries the
 * acknowledgment. Then it waits for that as it does for a single segment, but
 * at most one tick, so that the peer's probe for a lost tail (RFC 8985 section
 * 7) stays the exception where the answer takes its time.
 */
#include <net/tcp.h>

#include "stream/rx.h"

/**
 * kw_ack_init() - prepare a socket for kw_ack_delay()
 * @s: stream
 *
 * Context: socket lock.
 */
void kw_ack_init(struct kw_stream *s)
{
	if (s->p.set.ack_segments)
		inet_csk(s->sock->sk)->icsk_delack_max = 1;
}

/**
 * kw_ack_delay() - say whether TCP may wait before it acknowledges
 * @s: stream
 * @whole: all that has come are whole messages that were delivered
 *
 * TCP acknowledges at once what is more than it takes for the peer's MSS. After
 * a loss, and when the connection is young, it acknowledges each segment
 * whatever that is.
 *
 * Context: socket lock; before what has been received is given back to TCP.
 */
void kw_ack_delay(struct kw_stream *s, bool whole)
{
	struct tcp_sock *tp = tcp_sk(s->sock->sk);
	u16 *mss = &inet_csk(s->sock->sk)->icsk_ack.rcv_mss;
	u32 most;

	if (!s->p.set.ack_segments)
		return;
	/* TCP finds out for itself, too, now and then. */
	if (*mss != s->rx.ack_mss)
		s->rx.peer_mss = *mss;
	most = min_t(u32, s->p.set.ack_segments * s->rx.peer_mss, U16_MAX);
	if (whole && tp->rcv_nxt - tp->rcv_wup <= most)
		*mss = most;
	else
		*mss = s->rx.peer_mss;
	s->rx.ack_mss = *mss;
}
