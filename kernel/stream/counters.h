/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
#ifndef KW_STREAM_COUNTERS_H
#define KW_STREAM_COUNTERS_H

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
	KW_CNT_RX_DROPPED,		/* FPDUs dropped after an error */
	KW_CNT_TERM_SENT,
	KW_CNT_TERM_RECEIVED,
	KW_CNT_CONN_ESTABLISHED,
	KW_CNT_CONN_ACCEPTED,
	KW_CNT_CONN_REJECTED,
	KW_CNT_CONN_REFUSED,		/* by the peer */
	KW_CNT_CONN_TIMEOUTS,
	KW_CNT_CONN_BAD_START,		/* no valid MPA start-up frame */
	KW_CNT_CONN_RESET,
	KW_CNT_CQ_OVERFLOWS,
	KW_CNT_TX_NO_MEMORY,		/* retried later */
	KW_CNT_TX_BLOCKED,		/* waited for room in the socket */
	KW_CNT_TX_ZCOPY_OCTETS,		/* payload given to TCP without a copy */
	KW_CNT_TX_ZCOPY_COPIED,		/* messages of which the stack made a copy */
	KW_NR_COUNTERS,
};

#endif /* KW_STREAM_COUNTERS_H */
