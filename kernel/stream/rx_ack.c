// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Delayed acknowledgments.
 *
 * TCP acknowledges every second segment at once, for senders that fill the
 * window (RFC 5681 section 4.2). The sender of a short message waits for the
 * reply, which can carry the acknowledgment. So it is delayed, as that of a
 * single segment is. One tick is the limit: the peer's tail loss probe
 * (RFC 8985 section 7) should not fire when the reply takes longer.
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
__hot void kw_ack_delay(struct kw_stream *s, bool whole)
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
