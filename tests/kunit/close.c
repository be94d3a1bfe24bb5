// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * How a connection's socket is closed: what the peer is told, in every state
 * that TCP may be in.
 */
#include <net/tcp.h>

#include "link.h"
#include "stream/linger.h"

static struct socket *kt_take_socket(struct kt_link *l)
{
	struct socket *sock = l->early;

	l->early = NULL;
	return sock;
}

/* What the peer reads next: 0 for a FIN, -ECONNRESET for a reset. */
static int kt_peer_end(struct kt_link *l)
{
	u8 byte;

	return kt_peer_read(l, &byte, 1);
}

static void kt_test_in_order(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);

	kw_sock_close(kt_take_socket(l));
	KUNIT_EXPECT_EQ(test, 0, kt_peer_end(l));
}

/* Both have sent a FIN: only the peer's acknowledgment is awaited. */
static void kt_test_after_fin(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct socket *sock = kt_take_socket(l);

	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(sock->sk->sk_state) ==
					 TCP_CLOSE_WAIT));
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(sock, SHUT_WR));
	kw_sock_close(sock);
	KUNIT_EXPECT_EQ(test, 0, kt_peer_end(l));
}

/* What tcp_shutdown() leaves behind if tcp_send_fin() finds no memory. */
static void kt_lose_fin(struct socket *sock, int state)
{
	struct sock *sk = sock->sk;

	lock_sock(sk);
	WRITE_ONCE(sk->sk_shutdown, sk->sk_shutdown | SEND_SHUTDOWN);
	tcp_set_state(sk, state);
	release_sock(sk);
}

static void kt_test_lost_fin(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct socket *sock = kt_take_socket(l);

	kt_lose_fin(sock, TCP_FIN_WAIT1);
	kw_sock_close(sock);
	KUNIT_EXPECT_EQ(test, -ECONNRESET, kt_peer_end(l));
}

static void kt_test_lost_last_fin(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct socket *sock = kt_take_socket(l);
	struct sock *sk = sock->sk;

	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	/* Otherwise it would send its FIN again, and have a reset for that. */
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(l->peer->sk->sk_state) ==
					 TCP_FIN_WAIT2));
	kt_lose_fin(sock, TCP_LAST_ACK);
	sock_hold(sk);
	kw_sock_close(sock);
	KUNIT_EXPECT_EQ(test, TCP_CLOSE, sk->sk_state);
	sock_put(sk);
	/* The peer can still receive, and would wait for more. */
	l->peer->sk->sk_rcvtimeo = 30 * HZ;
	KUNIT_EXPECT_EQ(test, -ECONNRESET, kt_peer_end(l));
}

static void kt_test_unread(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct socket *sock = kt_take_socket(l);
	struct sk_buff_head *queue = &sock->sk->sk_receive_queue;

	kt_peer_write(l, "bytes", 5);
	KUNIT_EXPECT_TRUE(test, kt_until(!skb_queue_empty_lockless(queue)));
	kw_sock_close(sock);
	KUNIT_EXPECT_EQ(test, -ECONNRESET, kt_peer_end(l));
}

static struct kunit_case kt_close_cases[] = {
	KUNIT_CASE(kt_test_in_order),
	KUNIT_CASE(kt_test_after_fin),
	KUNIT_CASE(kt_test_lost_fin),
	KUNIT_CASE(kt_test_lost_last_fin),
	KUNIT_CASE(kt_test_unread),
	{}
};

struct kunit_suite kt_close_suite = {
	.name = "kiwarp_close",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_close_cases,
};
