// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Sockets and addresses for connection management.
 */
#include <linux/in6.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/tcp.h>
#include <net/inet_sock.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/tcp.h>
#include <rdma/rdma_cm.h>

#include "cm/cm.h"

/**
 * kw_sock_tune() - the options that every connection has
 * @sock: a TCP socket
 * @set: the device's settings
 *
 * No allocation may sleep: the stream sends from softirq too. But the frame of
 * start-up, which alone is copied to the socket, is sent by a task. It goes
 * into the task's page fragment: one of the socket's own would cost each
 * connection 32 KiB for its lifetime. Nagle's algorithm would hold back the end
 * of every message. Keepalive finds peers that vanish while nothing is
 * outstanding, the user time-out those that vanish while something is. Urgent
 * data is data like all other (RFC 6093): TCP would otherwise take a byte out of
 * the stream, and show none of what follows.
 *
 * Context: process.
 */
void kw_sock_tune(struct socket *sock, const struct kw_settings *set)
{
	struct sock *sk = sock->sk;

	/* sock_set_flag() is not atomic, and a FIN sets flags in softirq. */
	lock_sock(sk);
	sk->sk_allocation = GFP_ATOMIC;
	sock_set_flag(sk, SOCK_URGINLINE);
	release_sock(sk);
	tcp_sock_set_nodelay(sk);
	if (set->keepalive_idle_s) {
		tcp_sock_set_keepidle(sk, set->keepalive_idle_s);
		tcp_sock_set_keepintvl(sk, set->keepalive_interval_s);
		tcp_sock_set_keepcnt(sk, set->keepalive_probes);
		sock_set_keepalive(sk);
	}
	if (set->user_timeout_ms)
		tcp_sock_set_user_timeout(sk, set->user_timeout_ms);
}

/**
 * kw_dev_net() - the network namespace of a device's interface
 * @dev: the device
 * @ifindex: result, the interface's number in it
 *
 * Context: process.
 * Return: the namespace, referenced; NULL if interface or namespace are going.
 */
struct net *kw_dev_net(struct kw_device *dev, int *ifindex)
{
	struct net_device *netdev = ib_device_get_netdev(&dev->ib, 1);
	struct net *net;

	if (!netdev)
		return NULL;
	rcu_read_lock();
	net = maybe_get_net(dev_net(netdev));
	rcu_read_unlock();
	*ifindex = netdev->ifindex;
	dev_put(netdev);
	return net;
}

/**
 * kw_id_consumer() - the consumer's own identifier
 * @id: iw_cm's identifier
 *
 * iw_cm's one consumer is rdma_cm, whose identifier is the context.
 *
 * This call makes the module depend on rdma_cm's module, which therefore
 * registers first. When a device goes, the RDMA core thus calls this module
 * first, which ends its connections. rdma_cm waits for calls like
 * rdma_accept(), and these for the end of a start-up.
 *
 * Context: process; the consumer's call, which keeps its identifier.
 * Return: the identifier, or NULL if the context is anything else.
 */
struct rdma_cm_id *kw_id_consumer(const struct iw_cm_id *id)
{
	struct rdma_cm_id *cma = id->context;

	if (!cma || cma->device != id->device || rdma_iw_cm_id(cma) != id)
		return NULL;
	return cma;
}

/**
 * kw_id_net() - the network namespace of a consumer
 * @id: iw_cm's identifier
 *
 * iw_cm does not know the namespace of an identifier. It is not always
 * current's: when a device arrives after a listener, rdma_cm acts for another
 * process. rdma_cm's identifier has it.
 *
 * Context: process; the consumer's call, which keeps its identifier.
 * Return: the namespace, not referenced.
 */
struct net *kw_id_net(struct iw_cm_id *id)
{
	struct rdma_cm_id *cma = kw_id_consumer(id);

	if (cma && cma->route.addr.dev_addr.net)
		return cma->route.addr.dev_addr.net;
	return current->nsproxy ? current->nsproxy->net_ns : &init_net;
}

/**
 * kw_sock_create() - make a TCP socket
 * @net: network namespace, referenced by the caller
 * @family: AF_INET or AF_INET6
 * @sock: the result
 *
 * A kernel socket does not keep its network namespace alive; one with timers
 * that outlive its release must, or they would run in a freed namespace.
 *
 * A socket without memory for its inode is -ENFILE to socket(2), which speaks
 * of files. There is none here.
 *
 * Context: process.
 * Return: 0 or -errno.
 */
int kw_sock_create(struct net *net, int family, struct socket **sock)
{
	int ret;

	ret = sock_create_kern(net, family, SOCK_STREAM, IPPROTO_TCP, sock);
	if (ret)
		return ret == -ENFILE ? -ENOMEM : ret;
	sk_net_refcnt_upgrade((*sock)->sk);
	sock_set_reuseaddr((*sock)->sk);
	return 0;
}

/**
 * kw_sock_set_tos() - set the type of service or traffic class
 * @sock: a TCP socket, not yet connected
 * @tos: the byte as it goes into the IP header
 *
 * Context: process.
 */
void kw_sock_set_tos(struct socket *sock, u8 tos)
{
	int tclass = tos;

	ip_sock_set_tos(sock->sk, tos);
	if (sock->sk->sk_family == AF_INET6)
		sock->ops->setsockopt(sock, SOL_IPV6, IPV6_TCLASS,
				      KERNEL_SOCKPTR(&tclass), sizeof(tclass));
}

/* An IPv4 peer of a dual-stack listener is an IPv4 peer to the RDMA CM. */
static void kw_addr_unmap(struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (addr->ss_family != AF_INET6 || !ipv6_addr_v4mapped(&in6->sin6_addr))
		return;
	in.sin_port = in6->sin6_port;
	in.sin_addr.s_addr = in6->sin6_addr.s6_addr32[3];
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, &in, sizeof(in));
}

/**
 * kw_sock_names() - addresses of both ends
 * @sock: a TCP socket
 * @local: result, zeroed first
 * @peer: result, zeroed first
 *
 * Context: process.
 * Return: 0, or -ENOTCONN if the connection is gone.
 */
int kw_sock_names(struct socket *sock, struct sockaddr_storage *local,
		  struct sockaddr_storage *peer)
{
	int ret;

	memset(local, 0, sizeof(*local));
	memset(peer, 0, sizeof(*peer));
	ret = kernel_getsockname(sock, (struct sockaddr *)local);
	if (ret >= 0)
		ret = kernel_getpeername(sock, (struct sockaddr *)peer);
	if (ret < 0)
		return ret;
	kw_addr_unmap(local);
	kw_addr_unmap(peer);
	return 0;
}

/**
 * kw_addr_len() - bytes of an address
 * @addr: the address
 *
 * Context: any.
 * Return: its length; 0 if it is neither IPv4 nor IPv6.
 */
int kw_addr_len(const struct sockaddr_storage *addr)
{
	switch (addr->ss_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

/**
 * kw_addr_any() - is this the wildcard address?
 * @addr: an IPv4 or IPv6 address
 *
 * Context: any.
 * Return: true if it is.
 */
bool kw_addr_any(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_addr.s_addr ==
		       htonl(INADDR_ANY);
	return ipv6_addr_any(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

/**
 * kw_addr_loopback() - is this an address of the host itself?
 * @addr: an IPv4 or IPv6 address
 *
 * Context: any.
 * Return: true for 127.0.0.0/8 and ::1.
 */
bool kw_addr_loopback(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

	if (addr->ss_family == AF_INET)
		return ipv4_is_loopback(in->sin_addr.s_addr);
	return ipv6_addr_loopback(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

/**
 * kw_addr_set_scope() - complete a link-local address
 * @addr: an IPv4 or IPv6 address
 * @ifindex: the interface it is on
 *
 * Context: any.
 */
void kw_addr_set_scope(struct sockaddr_storage *addr, int ifindex)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)addr;

	if (addr->ss_family == AF_INET6 && !in6->sin6_scope_id &&
	    ipv6_addr_type(&in6->sin6_addr) & IPV6_ADDR_LINKLOCAL)
		in6->sin6_scope_id = ifindex;
}

/**
 * kw_addr_cmp() - order addresses
 * @a: an IPv4 or IPv6 address
 * @b: another
 *
 * Only the members of an address that say where it leads count. Padding and
 * flow label are as the consumer left them.
 *
 * Context: any.
 * Return: less than, equal to or greater than 0, as memcmp().
 */
int kw_addr_cmp(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a;
	const struct sockaddr_in6 *b6 = (const struct sockaddr_in6 *)b;
	const struct sockaddr_in *a4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in *b4 = (const struct sockaddr_in *)b;

	if (a->ss_family != b->ss_family)
		return a->ss_family < b->ss_family ? -1 : 1;
	/* Both families have the port at the same place. */
	if (a4->sin_port != b4->sin_port)
		return memcmp(&a4->sin_port, &b4->sin_port, sizeof(a4->sin_port));
	if (a->ss_family == AF_INET)
		return memcmp(&a4->sin_addr, &b4->sin_addr, sizeof(a4->sin_addr));
	if (a6->sin6_scope_id != b6->sin6_scope_id)
		return a6->sin6_scope_id < b6->sin6_scope_id ? -1 : 1;
	return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr));
}

/**
 * kw_addr_port() - where an address keeps its port
 * @addr: an IPv4 or IPv6 address
 *
 * Context: any.
 * Return: the place of the port.
 */
__be16 *kw_addr_port(struct sockaddr_storage *addr)
{
	/* Both families have it at the same place. */
	return &((struct sockaddr_in *)addr)->sin_port;
}
