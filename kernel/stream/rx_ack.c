// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * When TCP acknowledges what has come.
 *
 * TCP acknowledges every second segment at once, or a sender that fills the
 * window would wait (RFC 5681 section 4.2). The sender of a short message with
 * nothing behind it waits for the answer, which carries the acknowledgment. So
 * the acknowledgment waits for the answer, as that of a single segment does. It
 * waits at most one tick: the peer's probe for a lost tail (RFC 8985 section 7)
 * stays the exception when the answer takes its time.
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
 * TCP acknowledges at once more bytes than it takes for the peer's MSS. After a
 * loss, and on a young connection, it acknowledges each segment regardless.
 *
 * Context: socket lock; before what has been received is released to TCP.
 */
void kw_ack_delay(struct kw_stream *s, bool whole)
{
	struct tcp_sock *tp = tcp_sk(s->sock->sk);
	u16 *mss = &inet_csk(s->sock->sk)->icsk_ack.rcv_mss;
	u32 most;

	if (!s->p.set.ack_segments)
		return;
	/* TCP measures it now and then, too. */
	if (*mss != s->rx.ack_mss)
		s->rx.peer_mss = *mss;
	most = min_t(u32, s->p.set.ack_segments * s->rx.peer_mss, U16_MAX);
	if (whole && tp->rcv_nxt - tp->rcv_wup <= most)
		*mss = most;
	else
		*mss = s->rx.peer_mss;
	s->rx.ack_mss = *mss;
}
