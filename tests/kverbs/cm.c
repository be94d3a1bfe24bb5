// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Connection requests, from and to peers that are plain TCP sockets.
 */
#include <linux/delay.h>
#include <linux/net.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <rdma/iw_cm.h>

#include "ktest.h"

#define KT_PEERS	12
#define KT_PORT		7900
#define KT_STALL_PORT	7901

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

/**
 * struct kt_stall - a listener whose handler does not return
 * @entered: the handler has been called
 * @go: it may return
 * @id: the listener
 * @peer: whose request it is called for
 */
struct kt_stall {
	struct completion entered;
	struct completion go;
	struct rdma_cm_id *id;
	struct socket *peer;
};

static struct kt_stall kt_stalled;

/*
 * iw_cm processes no other event of this listener until this returns; of no
 * connection, if it is unpatched.
 */
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

/**
 * struct kt_rejection - the event of a connect that the peer rejects
 * @came: it has come
 * @event: the event
 * @connect: connects
 * @id: iw_cm's identifier
 * @qpn: number of the queue pair
 * @ret: of iw_cm_connect()
 */
struct kt_rejection {
	struct completion came;
	struct iw_cm_event event;
	struct work_struct connect;
	struct iw_cm_id *id;
	u32 qpn;
	int ret;
};

static void kt_connect_work(struct work_struct *work)
{
	struct kt_rejection *r = container_of(work, struct kt_rejection,
					      connect);
	struct iw_cm_conn_param param = {
		.qpn = r->qpn,
		.ird = 3,
		.ord = 2,
	};

	r->ret = iw_cm_connect(r->id, &param);
}

static int kt_reply(struct iw_cm_id *id, struct iw_cm_event *ev)
{
	struct kt_rejection *r = id->context;

	if (ev->event != IW_CM_EVENT_CONNECT_REPLY)
		return 0;
	r->event = *ev;
	complete(&r->came);
	return 0;
}

/* Take one request, and reject it with an IRD of 7 and an ORD of 5. */
static int kt_reject(struct socket *listener)
{
	u8 request[24];
	u8 reply[24] = "MPA ID Rep Frame\x70\x02\x00\x04\x80\x07\x80\x05";
	struct kvec in = { .iov_base = request, .iov_len = sizeof(request) };
	struct kvec out = { .iov_base = reply, .iov_len = sizeof(reply) };
	struct msghdr msg = {};
	struct socket *sock;
	int ret;

	listener->sk->sk_rcvtimeo = KT_TIMEOUT;
	ret = kernel_accept(listener, &sock, 0);
	if (ret)
		return ret;
	sock->sk->sk_rcvtimeo = KT_TIMEOUT;
	ret = kernel_recvmsg(sock, &msg, &in, 1, sizeof(request), MSG_WAITALL);
	if (ret == sizeof(request))
		ret = kernel_sendmsg(sock, &msg, &out, 1, sizeof(reply));
	sock_release(sock);
	if (ret == sizeof(reply))
		return 0;
	return ret < 0 ? ret : -EIO;
}

static struct socket *kt_listener(struct sockaddr_storage *addr)
{
	struct socket *sock;
	int ret;

	ret = sock_create_kern(&init_net, addr->ss_family, SOCK_STREAM,
			       IPPROTO_TCP, &sock);
	if (ret)
		return ERR_PTR(ret);
	ret = kernel_bind(sock, (void *)addr, sizeof(*addr));
	ret = ret ?: kernel_listen(sock, 1);
	if (!ret)
		return sock;
	sock_release(sock);
	return ERR_PTR(ret);
}

/*
 * Without an identifier of rdma_cm only a kernel thread may connect a kernel
 * consumer's queue pair.
 */
static int kt_connect_in_thread(struct kt_rejection *r)
{
	INIT_WORK_ONSTACK(&r->connect, kt_connect_work);
	schedule_work(&r->connect);
	flush_work(&r->connect);
	destroy_work_on_stack(&r->connect);
	return r->ret;
}

static void kt_connect_rejected(struct ib_qp *qp)
{
	struct kt_rejection r = { .qpn = qp->qp_num };
	struct socket *listener;
	struct iw_cm_id *id;
	int ret;

	init_completion(&r.came);
	id = iw_create_cm_id(qp->device, kt_reply, &r);
	if (!kt_equal(PTR_ERR_OR_ZERO(id), 0, "an identifier of iw_cm"))
		return;
	r.id = id;
	ret = kt_addr(&id->local_addr, kt_server(), 0) ?:
	      kt_addr(&id->remote_addr, kt_client(), KT_PORT);
	listener = ret ? ERR_PTR(ret) : kt_listener(&id->remote_addr);
	if (!kt_equal(PTR_ERR_OR_ZERO(listener), 0, "a peer listens"))
		goto out;
	if (kt_equal(kt_connect_in_thread(&r), 0, "a connect begins") &&
	    kt_equal(kt_reject(listener), 0, "the peer rejects") &&
	    kt_fact(wait_for_completion_timeout(&r.came, KT_TIMEOUT),
		    "the rejection is heard")) {
		kt_equal(r.event.status, -ECONNREFUSED, "its status");
		kt_equal(r.event.ird, 7, "its IRD is the peer's");
		kt_equal(r.event.ord, 5, "its ORD is the peer's");
	}
	sock_release(listener);
out:
	iw_destroy_cm_id(id);
}

/*
 * RFC 6581 section 9.1: depths are the consumer's to know, of a rejection as
 * well. rdma_cm does not pass those on, so this uses iw_cm.
 */
static void kt_rejected(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	struct ib_qp_init_attr init = {
		.cap.max_send_wr = 1,
		.cap.max_recv_wr = 1,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.qp_type = IB_QPT_RC,
	};
	struct rdma_cm_id *bound = kt_bound_id();
	struct ib_cq *cq;
	struct ib_pd *pd;
	struct ib_qp *qp;

	if (!kt_equal(PTR_ERR_OR_ZERO(bound), 0, "a device"))
		return;
	pd = ib_alloc_pd(bound->device, 0);
	cq = ib_alloc_cq(bound->device, NULL, 4, 0, IB_POLL_DIRECT);
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = IS_ERR(pd) || IS_ERR(cq) ? ERR_PTR(-ENOMEM) :
					ib_create_qp(pd, &init);
	if (kt_equal(PTR_ERR_OR_ZERO(qp), 0, "a queue pair")) {
		if (kt_equal(ib_modify_qp(qp, &attr, IB_QP_STATE), 0, "INIT"))
			kt_connect_rejected(qp);
		ib_destroy_qp(qp);
	}
	if (!IS_ERR(cq))
		ib_free_cq(cq);
	if (!IS_ERR(pd))
		ib_dealloc_pd(pd);
	rdma_destroy_id(bound);
}

static int kt_stall_request(struct rdma_cm_id *id, struct rdma_cm_event *ev)
{
	struct kt_stall *s = id->context;

	if (ev->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	complete(&s->entered);
	wait_for_completion_state(&s->go, TASK_IDLE);
	return -ECONNREFUSED;
}

static int kt_stall_begin(struct kt_stall *s)
{
	struct sockaddr_storage dst;
	int ret;

	ret = kt_addr(&dst, kt_server(), KT_STALL_PORT);
	ret = ret ?: rdma_bind_addr(s->id, (struct sockaddr *)&dst);
	ret = ret ?: rdma_listen(s->id, 1);
	if (ret)
		return ret;
	s->peer = kt_peer(&dst, 0);
	if (IS_ERR(s->peer)) {
		ret = PTR_ERR(s->peer);
		s->peer = NULL;
		return ret;
	}
	return wait_for_completion_timeout(&s->entered, KT_TIMEOUT) ? 0 :
								      -ETIMEDOUT;
}

static void kt_stall_end(struct kt_stall *s)
{
	complete_all(&s->go);
	rdma_destroy_id(s->id);
	if (s->peer)
		sock_release(s->peer);
	memset(s, 0, sizeof(*s));
}

/**
 * kt_stall() - let a handler of iw_cm's events wait
 * @on: true: until the next call. false: no more
 *
 * Context: process, one call at a time.
 * Return: 0 if the state is as asked for, or -errno.
 */
int kt_stall(bool on)
{
	struct kt_stall *s = &kt_stalled;
	int ret;

	if (on == !!s->id)
		return 0;
	if (!on) {
		kt_stall_end(s);
		return 0;
	}
	init_completion(&s->entered);
	init_completion(&s->go);
	s->id = rdma_create_id(&init_net, kt_stall_request, s, RDMA_PS_TCP,
			       IB_QPT_RC);
	if (IS_ERR(s->id)) {
		ret = PTR_ERR(s->id);
		s->id = NULL;
		return ret;
	}
	ret = kt_stall_begin(s);
	if (ret)
		kt_stall_end(s);
	return ret;
}

const struct kt_case kt_cm_cases[] = {
	{ "cm.order", kt_order },
	{ "cm.reject", kt_rejected },
	{}
};
