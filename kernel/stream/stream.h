/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * One iWARP stream: one TCP connection in FPDU mode.
 *
 * The stream knows the wire (wire/) and the socket. It does not know the RDMA
 * objects: what it needs of them it asks the queue pair through the table of
 * ops.h, which says in which context each function is called.
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
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

#include <rdma/kiwarp-abi.h>

/* The Read Request that an RTR uses; its response is not a completion. */
enum kw_rtr {
	KW_RTR_NONE,
	KW_RTR_SEND,
	KW_RTR_WRITE,
	KW_RTR_READ,
};

/**
 * struct kw_stream_settings - what an administrator can choose of the data path
 * @fpdu_max: longest FPDU to send, bytes, all of it counted; 0: EMSS decides
 * @zcopy_min: messages of so many bytes and more are sent without a copy; 0:
 *	none is
 * @ack_segments: messages of so many TCP segments are acknowledged together with
 *	the answer, if that comes soon; 0: as TCP does it
 * @first_fpdu_timeout_ms: responder: how long it waits for the initiator's first FPDU before
 *	it may send; 0: for ever
 *
 * All are u32: verbs/settings.c handles them by offset.
 */
struct kw_stream_settings {
	u32 fpdu_max;
	u32 zcopy_min;
	u32 ack_segments;
	u32 first_fpdu_timeout_ms;
};

/**
 * struct kw_stream_params - what MPA start-up settled
 * @crc: CRC32C is generated and checked
 * @tx_markers: the peer's M bit: markers go into what this side sends
 * @rx_markers: this side's M bit: markers are in what the peer sends
 * @initiator: this side sent the MPA request
 * @large_fpdu: both sides announced that FPDUs may be larger than a segment
 * @rtr: the ready-to-receive FPDU: sent first by the initiator, awaited by
 *	the responder before it sends anything
 * @ird: inbound Read Requests to hold
 * @ord: outbound Read Requests that may be outstanding
 * @set: what the administrator has chosen
 *
 * Start-up reads its frame and not one byte more, so that the first FPDU is
 * still in the socket when the stream takes over.
 */
struct kw_stream_params {
	bool crc;
	bool tx_markers;
	bool rx_markers;
	bool initiator;
	bool large_fpdu;
	enum kw_rtr rtr;
	u32 ird;
	u32 ord;
	struct kw_stream_settings set;
};

/**
 * struct kw_wqe - a send queue entry: private, validated copy
 * @wr_id: of the work request
 * @index: its free-running index on the send ring
 * @len: bytes of the message; for a Read, bytes to read
 * @opcode: enum kiwarp_opcode
 * @flags: KIWARP_SQE_*
 * @num_sge: entries of @sge; 0 when inline
 * @status: enum ib_wc_status found while validating; anything but success
 *	fails the queue pair when the entry's turn comes
 * @raddr: remote address
 * @rkey: remote STag
 * @inv_stag: STag that a Send with Invalidate names
 * @sge: where the bytes are
 * @inl: the bytes themselves
 */
struct kw_wqe {
	u64 wr_id;
	u32 index;
	u32 len;
	u8 opcode;
	u8 flags;
	u16 num_sge;
	u16 status;
	u64 raddr;
	u32 rkey;
	u32 inv_stag;
	union {
		struct kiwarp_sge sge[KIWARP_MAX_SGE];
		u8 inl[KIWARP_MAX_INLINE];
	};
};

/**
 * struct kw_recv - a receive queue entry: private, validated copy
 * @wr_id: of the work request
 * @index: its free-running index on the receive ring
 * @len: bytes that the buffers hold
 * @num_sge: entries of @sge
 * @sge: the buffers; memory of the owner's, the same for each entry
 */
struct kw_recv {
	u64 wr_id;
	u64 len;
	u32 index;
	u32 num_sge;
	struct kiwarp_sge *sge;
};

/* Of these, and of what they are part of, stream/ alone knows the inside. */
#include "stream/state.h"

struct ib_device;
struct kw_stream_ops;
struct kw_zcopy;

enum kw_stream_state {
	KW_STREAM_IDLE,		/* no socket */
	KW_STREAM_OPEN,
	KW_STREAM_CLOSING,	/* no new work; FIN when the queues are empty */
	KW_STREAM_ERROR,	/* Terminate at most goes out, nothing comes in */
	KW_STREAM_DEAD,		/* the socket is gone */
};

/**
 * struct kw_stream - one iWARP stream
 * @ops: the queue pair's
 * @sock: owned from kw_stream_start() to the last step of kw_end_work()
 * @state: enum kw_stream_state
 * @peer_fin: the peer has closed its half, and all before that was received
 * @fin_sent: this side's half is closed
 * @abort: end at once
 * @deadline: jiffies by which teardown ends, however far it got
 * @first_fpdu_deadline: jiffies by which tx.await_first opens during teardown
 * @una: first byte that the peer had not acknowledged when @deadline was set
 * @status: why the stream ended: 0 or -errno
 * @reason: the Terminate that ended it, as in kiwarp_cqe.vendor_err, or 0
 * @ibdev: the device; for tracepoints alone
 * @qpn: the queue pair's number, likewise
 * @pd: identity of the protection domain
 * @access: IB_ACCESS_REMOTE_* that the queue pair allows
 * @mem_srcu: domain that keeps regions alive during a pass
 * @counters: the device's, by enum kw_counter
 * @p: what start-up settled
 * @zcopy_min: as in @p, but U32_MAX if nothing is sent without a copy
 * @zc: what is sent without a copy; NULL if nothing is
 * @orq: outbound Read Requests: p.ord entries
 * @orq_head: the oldest in @orq
 * @orq_len: entries in use
 * @irq: inbound ones: p.ird entries
 * @irq_head: the oldest in @irq
 * @irq_len: entries in use
 * @rx: receive state
 * @tx: transmit state
 * @cache: the region in use
 * @end_work: teardown
 * @save_data_ready: the socket's own callback, to be put back
 * @save_state_change: likewise
 * @save_write_space: likewise
 * @save_error_report: likewise
 */
struct kw_stream {
	const struct kw_stream_ops *ops;
	struct socket *sock;
	u8 state;
	bool peer_fin;
	bool fin_sent;
	bool abort;
	unsigned long deadline;
	unsigned long first_fpdu_deadline;
	u32 una;
	int status;
	u32 reason;
	const struct ib_device *ibdev;
	u32 qpn;
	const void *pd;
	u32 access;
	struct srcu_struct *mem_srcu;
	struct kw_counters __percpu *counters;
	struct kw_stream_params p;
	u32 zcopy_min;
	struct kw_zcopy *zc;

	struct kw_orq_entry *orq;
	u32 orq_head, orq_len;
	struct kw_read_req *irq;
	u32 irq_head, irq_len;

	struct kw_mem_cache cache;
	struct kw_rx rx;
	struct kw_tx tx;

	struct delayed_work end_work;
	void (*save_data_ready)(struct sock *sk);
	void (*save_state_change)(struct sock *sk);
	void (*save_write_space)(struct sock *sk);
	void (*save_error_report)(struct sock *sk);
};

/*
 * The state as seen without the socket lock. In %KW_STREAM_OPEN and
 * %KW_STREAM_CLOSING there is a socket, for as long as mem_srcu is held: see
 * kw_stream_start().
 */
static inline u8 kw_stream_state(const struct kw_stream *s)
{
	/* Pairs with kw_stream_start(). */
	return smp_load_acquire(&s->state);
}

/* What kw_stream_kick() may do to transmit. */
enum kw_kick {
	KW_KICK_SLEEP,		/* process context: wait for the socket lock */
	KW_KICK_ATOMIC,		/* any context: try, else leave it to the worker */
	KW_KICK_LOCKED,		/* the caller runs under the socket lock */
};

void kw_stream_init(struct kw_stream *s, const struct kw_stream_ops *ops,
		    struct srcu_struct *mem_srcu,
		    struct kw_counters __percpu *counters);
int kw_stream_start(struct kw_stream *s, struct socket *sock,
		    const struct kw_stream_params *p);
void kw_stream_kick(struct kw_stream *s, enum kw_kick how);
void kw_stream_close(struct kw_stream *s);
void kw_stream_abort(struct kw_stream *s);

int kw_streams_init(void);
void kw_streams_exit(void);

#endif /* KW_STREAM_H */
