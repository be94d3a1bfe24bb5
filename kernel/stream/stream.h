/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * One iWARP stream: one TCP connection in FPDU mode.
 *
 * The stream knows the wire (wire/) and the socket, and not the RDMA objects.
 * It calls the queue pair through the table of ops.h, which has the context of
 * each function.
 *
 * Contexts and locks: all receive and transmit state belongs to the socket
 * lock. Receiving runs in the socket's data_ready callback, which TCP calls
 * with that lock held, in softirq or while a process context processes the
 * backlog. Transmitting runs wherever the transmit token (tx.token) was taken:
 * in the doorbell's process context, at the end of a receive pass, in
 * write_space, or in the worker.
 */
#ifndef KW_STREAM_H
#define KW_STREAM_H

#include <linux/atomic.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>

#include <rdma/kiwarp-abi.h>

#include "stream/domain.h"

/* The Read Request that an RTR uses; its response is not a completion. */
enum kw_rtr {
	KW_RTR_NONE,
	KW_RTR_SEND,
	KW_RTR_WRITE,
	KW_RTR_READ,
};

/**
 * struct kw_stream_settings - the data path's settings
 * @fpdu_max: longest FPDU to send, bytes, all of it counted; 0: EMSS decides
 * @zcopy_min: messages of so many bytes and more are sent without a copy; 0:
 *	none is
 * @ack_segments: messages of so many TCP segments are acknowledged together
 *	with the answer, if that comes soon; 0: as TCP does it
 * @first_fpdu_timeout_ms: responder: how long it waits for the initiator's
 *	first FPDU before it may send; 0: for ever
 * @linger_timeout_ms: how long a socket may send what has completed after its
 *	stream has been aborted; 0: it is reset at once. And how long the peer's
 *	own requests may delay a graceful end, which is ten seconds at least
 * @immediate: Immediate Data of RFC 7306 is sent and served
 * @atomics: its atomic operations are
 *
 * All are u32: verbs/settings.c handles them by offset.
 */
struct kw_stream_settings {
	u32 fpdu_max;
	u32 zcopy_min;
	u32 ack_segments;
	u32 first_fpdu_timeout_ms;
	u32 linger_timeout_ms;
	u32 immediate;
	u32 atomics;
};

/**
 * struct kw_stream_params - what MPA start-up negotiated
 * @crc: CRC32C is generated and checked
 * @tx_markers: the peer's M bit: markers go into what this side sends
 * @rx_markers: this side's M bit: markers are in what the peer sends
 * @rdmac: DDP and RDMAP have version 0 (RFC 5044 appendix C), in both
 *	directions
 * @initiator: this side sent the MPA request
 * @large_fpdu: both sides announced that FPDUs may be larger than a segment
 * @rtr: initiator: the ready-to-receive FPDU, sent before anything else
 * @rtr_await: responder: BIT(enum kw_rtr) of those that the initiator may send.
 *	One comes, and nothing is sent before. 0: none comes
 * @ird: inbound Read Requests and Atomic Requests to hold, together
 * @ord: outbound ones that may be outstanding, likewise
 * @set: the administrator's settings
 *
 * Start-up reads its frame and no byte more: the first FPDU is still in the
 * socket when the stream takes over.
 */
struct kw_stream_params {
	bool crc;
	bool tx_markers;
	bool rx_markers;
	bool rdmac;
	bool initiator;
	bool large_fpdu;
	enum kw_rtr rtr;
	u32 rtr_await;
	u32 ird;
	u32 ord;
	struct kw_stream_settings set;
};

/**
 * struct kw_bind - what a memory window is bound to
 * @len: bytes; 0: to nothing
 * @access: IB_ACCESS_* of the window
 * @lkey: STag of the region
 */
struct kw_bind {
	u64 len;
	u32 access;
	u32 lkey;
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
 * @raddr: remote address; to bind a window, that of its first byte
 * @rkey: remote STag; the window's
 * @inv_stag: STag that a Send with Invalidate names
 * @imm: KIWARP_OP_*_IMM: the immediate
 * @compare_add: KIWARP_OP_CMP_SWAP: value to compare with; KIWARP_OP_FETCH_ADD:
 *	to add; and those with masks
 * @swap: KIWARP_OP_CMP_SWAP: value to store; and that with masks
 * @compare_add_mask: KIWARP_OP_MASKED_CMP_SWAP: bits that are compared;
 *	KIWARP_OP_MASKED_FETCH_ADD: the highest bit of each field
 * @swap_mask: KIWARP_OP_MASKED_CMP_SWAP: bits that are stored
 * @sge: where the bytes are
 * @inl: the bytes themselves
 * @bind: to bind a window: the rest
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
		__be32 imm;
		struct {
			u64 compare_add;
			u64 swap;
			u64 compare_add_mask;
			u64 swap_mask;
		};
	};
	union {
		struct kiwarp_sge sge[KIWARP_MAX_SGE];
		u8 inl[KIWARP_MAX_INLINE];
		struct kw_bind bind;
	};
};

/**
 * struct kw_recv - a receive queue entry: private, validated copy
 * @wr_id: of the work request
 * @index: its free-running index on the receive ring
 * @len: bytes that the buffers hold
 * @num_sge: entries of @sge
 * @sge: the buffers; memory of the queue pair's, the same for each entry
 */
struct kw_recv {
	u64 wr_id;
	u64 len;
	u32 index;
	u32 num_sge;
	struct kiwarp_sge *sge;
};

/* Only stream/ uses the members of these. */
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
 * @ibdev: the device; for tracepoints alone
 * @qpn: the queue pair's number; likewise
 * @pd: identity of the protection domain
 * @access: IB_ACCESS_REMOTE_* that the queue pair allows
 * @domain: of the queue pair's owner
 * @mem_srcu: the domain's: it keeps regions alive during a pass
 * @counters: the device's, or those that the queue pair is bound to, by enum
 *	kw_counter
 * @users: those who use the socket without its lock, and the stream itself until
 *	its state is %KW_STREAM_DEAD: see kw_stream_get()
 * @unused: there are none any more; kw_domain.lock
 * @end_work: teardown
 * @rx_work: receives what is more than one pass may; with @retiring, completes
 *	entries, too
 * @tx: transmit state
 * @sock: owned from kw_stream_start() to the last step of kw_end_work(). From
 *	here on all members are of one connection, and 0 when that begins
 * @state: enum kw_stream_state
 * @peer_fin: the peer has closed its half, and all before that was received
 * @fin_sent: this side's half is closed
 * @abort: end at once, without the queue pair
 * @reset: with a reset
 * @retiring: more entries are done than one pass completes; socket lock
 * @deadline: jiffies by which teardown ends, unless there is progress
 * @close_limit: in a graceful end: jiffies by which it is over, if only the peer's
 *	requests make progress
 * @una: first byte that the peer had not acknowledged when @deadline was set
 * @answered: bytes that had been placed of the response to the oldest of @orq then
 * @answering: that Read's place in @orq
 * @status: why the stream ended: 0 or -errno
 * @reason: the Terminate that ended it, as in kiwarp_cqe.vendor_err, or 0
 * @linger: jiffies for which the socket may linger; 0: not at all
 * @lost: the socket has ended already
 * @p: what start-up negotiated
 * @zcopy_min: as in @p, but U32_MAX if nothing is sent without a copy
 * @zc: what is sent without a copy; NULL if nothing is
 * @orq: outbound Read Requests and Atomic Requests: kw_orq_size() entries
 * @orq_head: the oldest in @orq
 * @orq_len: entries in use
 * @irq: inbound ones: kw_irq_size() entries
 * @irq_head: the oldest in @irq
 * @irq_len: entries in use
 * @irq_counted: those of them that count against p.ird
 * @cache: the region in use
 * @rx: receive state
 * @first_work: ends the wait for the peer's first FPDU
 * @save_data_ready: the socket's own callback, to be put back
 * @save_state_change: likewise
 * @save_write_space: likewise
 * @save_error_report: likewise
 */
struct kw_stream {
	const struct kw_stream_ops *ops;
	const struct ib_device *ibdev;
	u32 qpn;
	const void *pd;
	u32 access;
	struct kw_domain *domain;
	struct srcu_struct *mem_srcu;
	struct kw_counters __percpu *counters;
	atomic_t users;
	bool unused;
	struct delayed_work end_work;
	struct delayed_work rx_work;
	struct kw_tx tx;

	struct socket *sock;
	u8 state;
	bool peer_fin;
	bool fin_sent;
	bool abort;
	bool reset;
	bool retiring;
	unsigned long deadline;
	unsigned long close_limit;
	u32 una;
	u32 answered;
	u32 answering;
	int status;
	u32 reason;
	bool lost;
	unsigned long linger;
	struct kw_stream_params p;
	u32 zcopy_min;
	struct kw_zcopy *zc;

	struct kw_orq_entry *orq;
	u32 orq_head, orq_len;
	struct kw_irq_entry *irq;
	u32 irq_head, irq_len, irq_counted;

	struct kw_mem_cache cache;
	struct kw_rx rx;

	struct delayed_work first_work;
	void (*save_data_ready)(struct sock *sk);
	void (*save_state_change)(struct sock *sk);
	void (*save_write_space)(struct sock *sk);
	void (*save_error_report)(struct sock *sk);
};

/*
 * The state as seen without the socket lock. To who has a reference there is a
 * socket in %KW_STREAM_OPEN and %KW_STREAM_CLOSING: see kw_stream_start().
 */
static inline u8 kw_stream_state(const struct kw_stream *s)
{
	/* Pairs with kw_stream_start(). */
	return smp_load_acquire(&s->state);
}

/* Whether FPDUs are left that TCP did not take: for kw_stream_ops.failed and .ended. */
static inline bool kw_stream_has_unsent(const struct kw_stream *s)
{
	return s->tx.out_len;
}

/* What kw_stream_kick() may do to transmit. */
enum kw_kick {
	KW_KICK_SLEEP,		/* process context: wait for the socket lock */
	KW_KICK_ATOMIC,		/* any context: try, else leave it to the worker */
	KW_KICK_LOCKED,		/* the caller runs under the socket lock */
};

/**
 * struct kw_stream_info - a running stream, for "rdma resource"
 * @state: enum kw_stream_state
 * @sk: its socket, good until kw_users_unlock(); NULL in other states than
 *	%KW_STREAM_OPEN and %KW_STREAM_CLOSING. Then the rest is 0
 * @tx_send_msn: next MSN to be sent on queue 0
 * @tx_read_msn: on queue 1
 * @rx_send_msn: next MSN expected on queue 0
 * @rx_read_msn: on queue 1
 * @reads_out: Read Requests and Atomic Requests that await their response
 * @reads_in: the peer's that are not answered yet
 */
struct kw_stream_info {
	u8 state;
	const struct sock *sk;
	u32 tx_send_msn;
	u32 tx_read_msn;
	u32 rx_send_msn;
	u32 rx_read_msn;
	u32 reads_out;
	u32 reads_in;
};

void kw_stream_info(const struct kw_stream *s, struct kw_stream_info *info);
void kw_stream_init(struct kw_stream *s, const struct kw_stream_ops *ops,
		    struct kw_domain *domain,
		    struct kw_counters __percpu *counters);
void kw_stream_set_counters(struct kw_stream *s,
			    struct kw_counters __percpu *counters);
int kw_stream_start(struct kw_stream *s, struct socket *sock,
		    const struct kw_stream_params *p);
void kw_users_lock(struct kw_stream *s);
void kw_users_unlock(struct kw_stream *s);
bool kw_stream_get(struct kw_stream *s);
void kw_stream_put(struct kw_stream *s);
void kw_stream_kick(struct kw_stream *s, enum kw_kick how);
void kw_stream_close(struct kw_stream *s);
void kw_stream_retire(struct kw_stream *s);
bool kw_stream_run(struct kw_stream *s, struct work_struct *work);
void kw_stream_abort(struct kw_stream *s);

int kw_streams_init(void);
void kw_streams_queue(struct delayed_work *work, unsigned long delay);
void kw_streams_exit(void);

#endif /* KW_STREAM_H */
