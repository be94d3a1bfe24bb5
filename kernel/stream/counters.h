/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
#ifndef KW_STREAM_COUNTERS_H
#define KW_STREAM_COUNTERS_H

#include <linux/percpu.h>
#include <linux/types.h>

/* Everything counted, per device; names for rdma statistic are in verbs/counters.c. */
enum kw_counter {
	KW_CNT_RX_FPDUS,
	KW_CNT_RX_OCTETS,
	KW_CNT_TX_FPDUS,
	KW_CNT_TX_OCTETS,
	KW_CNT_RX_CRC_ERRORS,
	KW_CNT_RX_MARKER_ERRORS,
	KW_CNT_RX_DDP_ERRORS,
	KW_CNT_RX_RDMAP_ERRORS,
	KW_CNT_RX_DROPPED,		/* arrivals, after an error */
	KW_CNT_TERM_SENT,
	KW_CNT_TERM_RECEIVED,
	KW_CNT_CONN_ESTABLISHED,
	KW_CNT_CONN_ACCEPTED,
	KW_CNT_CONN_REJECTED,
	KW_CNT_CONN_REFUSED,		/* by the peer */
	KW_CNT_CONN_TIMEOUTS,
	KW_CNT_CONN_BAD_START,		/* no valid MPA start-up frame */
	KW_CNT_CONN_RESET,
	KW_CNT_CONN_DENIED,		/* the queue pair is another's */
	KW_CNT_CONN_EVICTED,		/* silent peers dropped for new ones */
	KW_CNT_CONN_FALLBACKS,		/* asked again with an earlier revision */
	KW_CNT_CONN_ACCEPT_RETRIES,	/* no memory to accept a connection now */
	KW_CNT_LINGER_RESET,		/* closed before the peer had everything */
	KW_CNT_CQ_OVERFLOWS,
	KW_CNT_RX_NO_MEMORY,		/* to stage an FPDU; retried later */
	KW_CNT_TX_NO_MEMORY,		/* retried later */
	KW_CNT_TX_BLOCKED,		/* waited for room in the socket */
	KW_CNT_TX_BATCHED,		/* posts that waited for others */
	KW_CNT_TX_ZCOPY_OCTETS,		/* payload given to TCP without a copy */
	KW_CNT_TX_ZCOPY_COPIED,		/* messages of which the stack made a copy */
	KW_NR_COUNTERS,
};

/**
 * struct kw_counters - what one CPU has counted for a device or a stream
 * @v: by enum kw_counter
 *
 * A pass counts several times. Connections on different CPUs would contend for
 * the cache line, so each CPU has its own.
 */
struct kw_counters {
	u64 v[KW_NR_COUNTERS];
};

static inline void kw_counter_add(struct kw_counters __percpu *counters,
				  enum kw_counter c, u64 n)
{
	this_cpu_add(counters->v[c], n);
}

static inline u64 kw_counter_read(struct kw_counters __percpu *counters,
				  enum kw_counter c)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(counters, cpu)->v[c]);
	return sum;
}

#endif /* KW_STREAM_COUNTERS_H */
