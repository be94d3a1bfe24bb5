// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What `rdma resource show -dd` says of queue pairs, completion queues,
 * shared receive queues and memory regions beyond what the RDMA core knows.
 *
 * Any user may ask, and no value waits for the object's owner: the socket lock
 * is not taken, since the task that has it may be kept from running. So the
 * values are of about the same time. No addresses of the kernel and no STags
 * are among them.
 */
#include <linux/inet.h>
#include <net/inet_sock.h>
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>

#include "verbs/cq.h"
#include "verbs/ops.h"
#include "verbs/qp.h"

/**
 * struct kw_detail - one value
 * @name: of the value
 * @value: the value
 */
struct kw_detail {
	const char *name;
	u64 value;
};

static int kw_put_details(struct sk_buff *msg, const struct kw_detail *d, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (rdma_nl_put_driver_u64(msg, d[i].name, d[i].value))
			return -EMSGSIZE;
	return 0;
}

static struct nlattr *kw_details_begin(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

static int kw_details_end(struct sk_buff *msg, struct nlattr *table, int ret)
{
	if (ret)
		nla_nest_cancel(msg, table);
	else
		nla_nest_end(msg, table);
	return ret;
}

static int kw_put_addr(struct sk_buff *msg, const char *name,
		       const struct sockaddr_storage *addr)
{
	char text[INET6_ADDRSTRLEN + sizeof("[]:65535")];

	snprintf(text, sizeof(text), "%pISpc", addr);
	return rdma_nl_put_driver_string(msg, name, text);
}

static void kw_addr_v4(struct sockaddr_storage *addr, __be32 ip, __be16 port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)addr;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = ip;
	in->sin_port = port;
}

static void kw_addr_v6(struct sockaddr_storage *addr, const struct in6_addr *ip,
		       __be16 port)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

	in6->sin6_family = AF_INET6;
	in6->sin6_addr = *ip;
	in6->sin6_port = port;
}

struct kw_addrs {
	struct sockaddr_storage local;
	struct sockaddr_storage peer;
};

/* A connected socket's addresses stay as they are until it is freed. */
static void kw_get_addrs(struct kw_addrs *a, const struct sock *sk)
{
	__be16 sport = READ_ONCE(inet_sk(sk)->inet_sport);
	__be16 dport = READ_ONCE(sk->sk_dport);

	kw_addr_v4(&a->local, READ_ONCE(sk->sk_rcv_saddr), sport);
	kw_addr_v4(&a->peer, READ_ONCE(sk->sk_daddr), dport);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		kw_addr_v6(&a->local, &sk->sk_v6_rcv_saddr, sport);
		kw_addr_v6(&a->peer, &sk->sk_v6_daddr, dport);
	}
#endif
}

/*
 * The asker may be anybody, and stopped by its cgroup's quota wherever it can
 * be preempted: it is no user that the stream's end would wait for.
 */
static void kw_get_stream(struct kw_stream *s, struct kw_stream_info *info,
			  struct kw_addrs *addrs)
{
	kw_users_lock(s);
	kw_stream_info(s, info);
	if (info->sk)
		kw_get_addrs(addrs, info->sk);
	kw_users_unlock(s);
}

static int kw_put_stream(struct sk_buff *msg, struct kw_stream *s)
{
	static const char *const states[] = {
		[KW_STREAM_IDLE] = "none",
		[KW_STREAM_OPEN] = "open",
		[KW_STREAM_CLOSING] = "closing",
		[KW_STREAM_ERROR] = "error",
		[KW_STREAM_DEAD] = "ended",
	};
	struct kw_addrs addrs = {};
	struct kw_stream_info info;
	int ret;

	kw_get_stream(s, &info, &addrs);
	ret = rdma_nl_put_driver_string(msg, "stream", states[info.state]);
	if (ret || !info.sk)
		return ret;
	ret = kw_put_addr(msg, "local", &addrs.local) ?:
	      kw_put_addr(msg, "peer", &addrs.peer);
	if (ret)
		return ret;
	return kw_put_details(msg, (struct kw_detail[]){
		{ "tx_send_msn", info.tx_send_msn },
		{ "tx_read_msn", info.tx_read_msn },
		{ "rx_send_msn", info.rx_send_msn },
		{ "rx_read_msn", info.rx_read_msn },
		{ "reads_out", info.reads_out },
		{ "reads_in", info.reads_in },
	}, 6);
}

/* Indices run freely modulo 2^32. A process can write any into "posted". */
static int kw_put_rings(struct sk_buff *msg, const struct kw_qp *qp)
{
	return kw_put_details(msg, (struct kw_detail[]){
		{ "sq_entries", kw_ring_entries(&qp->sq) },
		{ "sq_posted", READ_ONCE(kw_ctrl(&qp->sq)->producer) },
		{ "sq_taken", READ_ONCE(qp->sq_next) },
		{ "sq_done", READ_ONCE(qp->sq_done) },
		{ "rq_entries", kw_ring_entries(&qp->rq) },
		{ "rq_posted", READ_ONCE(kw_ctrl(&qp->rq)->producer) },
		{ "rq_taken", READ_ONCE(qp->rq_next) },
		{ "rq_done", READ_ONCE(qp->rq_done) },
	}, 8);
}

/**
 * kw_fill_res_qp() - ib_device_ops.fill_res_qp_entry
 * @msg: netlink message
 * @ibqp: queue pair; the RDMA core keeps the object, though destroy_qp may be
 *	under way or over
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int kw_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct kw_qp *qp = kw_qp_find(to_kw_dev(ibqp->device), ibqp->qp_num);
	struct nlattr *table;
	int ret = 0;

	/* The reference keeps the rings. */
	if (!qp)
		return 0;
	if (qp == to_kw_qp(ibqp)) {
		table = kw_details_begin(msg);
		ret = table ? 0 : -EMSGSIZE;
		if (!ret)
			ret = kw_details_end(msg, table,
					     kw_put_stream(msg, &qp->stream) ?:
					     kw_put_rings(msg, qp));
	}
	kw_qp_put(qp);
	return ret;
}

/**
 * kw_fill_res_cq() - ib_device_ops.fill_res_cq_entry
 * @msg: netlink message
 * @ibcq: completion queue; destroy_cq may be under way or over
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int kw_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct nlattr *table;
	struct kw_cq_info info;

	if (!kw_cq_get_info(to_kw_cq(ibcq), &info))
		return 0;
	table = kw_details_begin(msg);
	if (!table)
		return -EMSGSIZE;
	return kw_details_end(msg, table,
			      kw_put_details(msg, (struct kw_detail[]){
		{ "entries", info.entries },
		{ "unpolled", info.producer - info.consumer },
		{ "completions", info.producer },
		{ "armed", !!(info.armed & KIWARP_CQ_ARM_ANY) },
		{ "armed_solicited", !!(info.armed & KIWARP_CQ_ARM_SOLICITED) },
		{ "overflow", info.overflow },
	}, 6));
}

/**
 * kw_fill_res_mr() - ib_device_ops.fill_res_mr_entry
 * @msg: netlink message
 * @ibmr: memory region; the RDMA core keeps dereg_mr() waiting
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int kw_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct kw_mem *mem = &to_kw_mr(ibmr)->mem;
	struct nlattr *table = kw_details_begin(msg);
	u32 access = READ_ONCE(mem->access);

	if (!table)
		return -EMSGSIZE;
	return kw_details_end(msg, table,
			      rdma_nl_put_driver_u32_hex(msg, "access", access) ?:
			      kw_put_details(msg, (struct kw_detail[]){
		{ "bytes", READ_ONCE(mem->len) },
		{ "extents", READ_ONCE(mem->nr_ext) },
		{ "valid", READ_ONCE(mem->valid) },
		{ "fast", mem->fast },
	}, 4));
}

/**
 * kw_fill_res_srq() - ib_device_ops.fill_res_srq_entry
 * @msg: netlink message
 * @ibsrq: shared receive queue; destroy_srq may be under way or over
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int kw_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct nlattr *table;
	struct kw_srq_info info;

	if (!kw_srq_get_info(to_kw_srq(ibsrq), &info))
		return 0;
	table = kw_details_begin(msg);
	if (!table)
		return -EMSGSIZE;
	return kw_details_end(msg, table,
			      kw_put_details(msg, (struct kw_detail[]){
		{ "entries", info.entries },
		{ "posted", info.posted },
		{ "taken", info.taken },
		{ "limit", info.limit },
	}, 4));
}
