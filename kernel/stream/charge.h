/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What a stream is charged to: the memory cgroup of its socket.
 */
#ifndef KW_STREAM_CHARGE_H
#define KW_STREAM_CHARGE_H

#include <linux/sched/mm.h>
#include <net/sock.h>

/**
 * kw_sk_memcg() - the memory cgroup of a socket
 * @sk: the socket
 *
 * Context: any.
 * Return: the cgroup, which lives as long as the socket; NULL if it has none.
 */
static inline struct mem_cgroup *kw_sk_memcg(const struct sock *sk)
{
#ifdef CONFIG_MEMCG
	return sk->sk_memcg;
#else
	return NULL;
#endif
}

#endif /* KW_STREAM_CHARGE_H */
