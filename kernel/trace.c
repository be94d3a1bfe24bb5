// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Tracepoints: the values that they read from objects.
 */
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <trace/events/net_probe_common.h>

#include "cm/cm.h"
#include "stream/stream.h"
#include "verbs/verbs.h"
#include "wire/term.h"

/* A stream under test has no device. */
static inline const char *kw_trace_dev(const struct ib_device *ibdev)
{
	return ibdev ? dev_name(&ibdev->dev) : NULL;
}

struct kw_trace_addrs {
	u8 saddr[sizeof(struct sockaddr_in6)];
	u8 daddr[sizeof(struct sockaddr_in6)];
};

/* A running connection's addresses are its socket's, otherwise iw_cm's. */
static inline void kw_trace_addrs(const struct kw_ep *ep, u8 *local, u8 *peer)
{
	const struct iw_cm_id *id = ep->cm_id;
	struct kw_trace_addrs a = {};

	if (ep->sock) {
		const struct sock *sk = ep->sock->sk;
		const struct inet_sock *inet = inet_sk(sk);

		TP_STORE_ADDR_PORTS((&a), inet, sk);
	} else if (id) {
		memcpy(a.saddr, &id->m_local_addr, sizeof(a.saddr));
		memcpy(a.daddr, &id->m_remote_addr, sizeof(a.daddr));
	}
	memcpy(local, a.saddr, sizeof(a.saddr));
	memcpy(peer, a.daddr, sizeof(a.daddr));
}

#define CREATE_TRACE_POINTS
#include "trace.h"
