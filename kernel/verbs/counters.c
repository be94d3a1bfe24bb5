// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Counters, for "rdma statistic" and hw_counters in sysfs.
 */
#include "verbs/ops.h"

static const struct rdma_stat_desc kw_counter_descs[KW_NR_COUNTERS] = {
	[KW_CNT_RX_FPDUS].name = "rx_fpdus",
	[KW_CNT_RX_OCTETS].name = "rx_octets",
	[KW_CNT_TX_FPDUS].name = "tx_fpdus",
	[KW_CNT_TX_OCTETS].name = "tx_octets",
	[KW_CNT_RX_CRC_ERRORS].name = "rx_crc_errors",
	[KW_CNT_RX_MARKER_ERRORS].name = "rx_marker_errors",
	[KW_CNT_RX_DDP_ERRORS].name = "rx_ddp_errors",
	[KW_CNT_RX_RDMAP_ERRORS].name = "rx_rdmap_errors",
	[KW_CNT_RX_DROPPED].name = "rx_dropped",
	[KW_CNT_TERM_SENT].name = "terminates_sent",
	[KW_CNT_TERM_RECEIVED].name = "terminates_received",
	[KW_CNT_CONN_ESTABLISHED].name = "conn_established",
	[KW_CNT_CONN_ACCEPTED].name = "conn_accepted",
	[KW_CNT_CONN_REJECTED].name = "conn_rejected",
	[KW_CNT_CONN_REFUSED].name = "conn_refused",
	[KW_CNT_CONN_TIMEOUTS].name = "conn_timeouts",
	[KW_CNT_CONN_BAD_START].name = "conn_bad_start",
	[KW_CNT_CONN_RESET].name = "conn_reset",
	[KW_CNT_CONN_DENIED].name = "conn_denied",
	[KW_CNT_CONN_EVICTED].name = "conn_evicted",
	[KW_CNT_CONN_ACCEPT_RETRIES].name = "conn_accept_retries",
	[KW_CNT_LINGER_RESET].name = "linger_resets",
	[KW_CNT_CQ_OVERFLOWS].name = "cq_overflows",
	[KW_CNT_TX_NO_MEMORY].name = "tx_no_memory",
	[KW_CNT_TX_BLOCKED].name = "tx_blocked",
	[KW_CNT_TX_BATCHED].name = "tx_batched_posts",
	[KW_CNT_TX_ZCOPY_OCTETS].name = "tx_zcopy_octets",
	[KW_CNT_TX_ZCOPY_COPIED].name = "tx_zcopy_copied",
};

/**
 * kw_alloc_hw_port_stats() - describe the counters to the RDMA core
 * @ibdev: device
 * @port: 1
 *
 * Context: process.
 * Return: what rdma_free_hw_stats_struct() frees, or NULL.
 */
struct rdma_hw_stats *kw_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(kw_counter_descs, KW_NR_COUNTERS,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/**
 * kw_get_hw_stats() - read the counters
 * @ibdev: device
 * @stats: result
 * @port: 1; 0 asks for counters of the device, which has none
 * @index: the one that is requested; all are updated
 *
 * Context: process, stats->lock.
 * Return: how many counters were updated, or -EOPNOTSUPP.
 */
int kw_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		    u32 port, int index)
{
	struct kw_device *dev = to_kw_dev(ibdev);
	int i;

	if (!port)
		return -EOPNOTSUPP;
	for (i = 0; i < KW_NR_COUNTERS; i++)
		stats->value[i] = kw_counter_read(dev->counters, i);
	return KW_NR_COUNTERS;
}
