// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Connection requests, by peers that are plain TCP sockets.
 */
#include <linux/delay.h>
#include <linux/net.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "ktest.h"

#define KT_PEERS	12
#define KT_PORT		7900

/* iw_cm's limit of requests that wait for a consumer's handler. */
#define KT_BACKLOG	2

/**
 * struct kt_requests - the requests that a listener gets
 * @entered: the handler has been called
 * @go: it may return
 * @all: requests of all peers have come
 * @nr: requests so far
 * @peer: their peers
 */
struct kt_requests {
	struct completion entered;
	struct completion go;
	struct completion all;
	u32 nr;
	u8 peer[KT_PEERS];
};

/* iw_cm processes no other event until this returns. */
static int kt_request(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	const u8 *pd = ev->param.conn.private_data;
	struct kt_requests *r = id->context;

	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	if (!r->nr) {
		complete(&r->entered);
		wait_for_completion_timeout(&r->go, KT_TIMEOUT);
	}
	if (ev->param.conn.private_data_len && r->nr < KT_PEERS)
		r->peer[r->nr++] = *pd;
	if (r->nr == KT_PEERS)
		complete(&r->all);
	/* The new identifier is destroyed, and with it the connection. */
	return -ECONNREFUSED;
}

static struct socket *kt_peer(struct sockaddr_storage *dst, u8 number)
{
	u8 frame[21] = "MPA ID Req Frame\x40\x01\x00\x01";
	struct kvec vec = { .iov_base = frame, .iov_len = sizeof(frame) };
	struct msghdr msg = {};
	struct socket *sock;
	int ret;

	frame[20] = number;
	ret = sock_create_kern(&init_net, dst->ss_family, SOCK_STREAM,
			       IPPROTO_TCP, &sock);
	if (ret)
		return ERR_PTR(ret);
	ret = sock->ops->connect(sock, (void *)dst, sizeof(*dst), 0);
	if (!ret)
		ret = kernel_sendmsg(sock, &msg, &vec, 1, sizeof(frame));
	if (ret == sizeof(frame))
		return sock;
	sock_release(sock);
	return ERR_PTR(ret < 0 ? ret : -EIO);
}

static bool kt_connect_peers(struct kt_requests *r, struct socket **sock,
			     struct sockaddr_storage *dst)
{
	int i;

	for (i = 0; i < KT_PEERS; i++) {
		sock[i] = kt_peer(dst, i);
		if (!kt_equal(PTR_ERR_OR_ZERO(sock[i]), 0, "a peer connects")) {
			sock[i] = NULL;
			return false;
		}
		/* From then on iw_cm has room for a few. */
		if (!i && !kt_fact(wait_for_completion_timeout(&r->entered,
							       KT_TIMEOUT),
				   "its request is heard"))
			return false;
	}
	/* The longer this waits, the more of them have found no room. */
	msleep(200);
	return true;
}

/* A slow handler, and more requests than iw_cm has room for. */
static void kt_order(void)
{
	struct socket *sock[KT_PEERS] = {};
	struct kt_requests r = {};
	struct sockaddr_storage dst;
	struct rdma_cm_id *id;
	int i, ret;

	init_completion(&r.entered);
	init_completion(&r.go);
	init_completion(&r.all);
	id = rdma_create_id(&init_net, kt_request, &r, RDMA_PS_TCP, IB_QPT_RC);
	if (!kt_equal(PTR_ERR_OR_ZERO(id), 0, "an identifier"))
		return;
	ret = kt_addr(&dst, kt_server(), KT_PORT);
	ret = ret ?: rdma_bind_addr(id, (struct sockaddr *)&dst);
	ret = ret ?: rdma_listen(id, KT_BACKLOG);
	if (!kt_equal(ret, 0, "a listener"))
		goto out;
	if (!kt_connect_peers(&r, sock, &dst))
		goto out;
	complete_all(&r.go);
	kt_fact(wait_for_completion_timeout(&r.all, KT_TIMEOUT),
		"all requests are heard");
	for (i = 0; i < r.nr && r.peer[i] == i; i++)
		;
	kt_equal(i, KT_PEERS, "requests are heard in order");
out:
	complete_all(&r.go);
	rdma_destroy_id(id);
	for (i = 0; i < KT_PEERS; i++)
		if (sock[i])
			sock_release(sock[i]);
}

const struct kt_case kt_cm_cases[] = {
	{ "cm.order", kt_order },
	{}
};
