/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * One iWARP stream: one TCP connection in FPDU mode.
 *
 * The stream knows the wire (wire/) and the socket. It does not know the RDMA
 * objects: what it needs of them it asks its owner through owner.h, where
 * every function says in which context it is called.
 *
 * Contexts and locks: all receive and transmit state belongs to the socket
 * lock. Receiving runs in the socket's data_ready callback, which TCP calls
 * with that lock held, in softirq or while a process context works off the
 * backlog. Transmitting runs wherever the transmit token (tx.token) was won:
 * in the doorbell's process context, at the end of a receive pass, in
 * write_space, or in the worker.
 */
#ifndef KW_STREAM_H
#define KW_STREAM_H

#include <linux/atomic.h>
#include <linux/mm_types_task.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

#include <rdma/kiwarp-abi.h>

#include "stream/mem.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"
#include "wire/term.h"

/* The Read Request that an RTR uses; its response is not a completion. */
enum kw_rtr {
	KW_RTR_NONE,
	KW_RTR_SEND,
	KW_RTR_WRITE,
	KW_RTR_READ,
};

/**
 * struct kw_stream_params - what MPA start-up settled
 * @crc: CRC32C is generated and checked
 * @initiator: this side sent the MPA request
 * @rtr: the ready-to-receive FPDU: sent first by the initiator, awaited by
 *	the responder before it sends anything
 * @ird: inbound Read Requests to hold
 * @ord: outbound Read Requests that may be outstanding
 *
 * Start-up reads its frame and not one octet more, so that the first FPDU is
 * still in the socket when the stream takes over.
 */
struct kw_stream_params {
	bool crc;
	bool initiator;
	enum kw_rtr rtr;
	u32 ird;
	u32 ord;
};
