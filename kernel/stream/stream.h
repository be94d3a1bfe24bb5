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
#include <linux/hrtimer_types.h>
#include <linux/mm_types_task.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

#include <rdma/kiwarp-abi.h>

#include "stream/mem.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
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
 * @tx_markers: the peer's M bit: markers go into what this side sends
 * @rx_markers: this side's M bit: markers are in what the peer sends
 * @initiator: this side sent the MPA request
 * @large_fpdu: both sides announced that FPDUs may be larger than a segment
 * @fpdu_max: longest FPDU to send, octets, all of it counted; 0: EMSS decides
 * @zcopy_min: messages of so many octets and more are sent without a copy; 0:
 *	none is
 * @batch_us: how long a message may wait for others to be sent with; 0: no one
 *	does
 * @ack_segments: messages of so many TCP segments are acknowledged together with
 *	the answer, if that comes soon; 0: as TCP does it
 * @gate_ms: responder: how long it waits for the initiator's first FPDU before
 *	it may send; 0: for ever
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
	bool tx_markers;
	bool rx_markers;
	bool initiator;
	bool large_fpdu;
	enum kw_rtr rtr;
	u32 fpdu_max;
	u32 zcopy_min;
	u32 batch_us;
	u32 ack_segments;
	u32 gate_ms;
	u32 ird;
	u32 ord;
};

/**
 * struct kw_wqe - a send queue entry: private, validated copy
 * @wr_id: of the work request
 * @index: its free-running index on the send ring
 * @len: octets of the message; for a Read, octets to read
 * @opcode: enum kiwarp_opcode
 * @flags: KIWARP_SQE_*
 * @num_sge: entries of @sge; 0 when inline
 * @status: enum ib_wc_status found while validating; anything but success
 *	fails the queue pair when the entry's turn comes
 * @raddr: remote address
 * @rkey: remote STag
 * @inv_stag: STag that a Send with Invalidate names
 * @sge: where the octets are
 * @inl: the octets themselves
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
 * @len: octets that the buffers hold
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

/**
 * struct kw_sg_pos - a position in an SGE list, moving forward only
 * @idx: entry
 * @off: octets into that entry
 */
struct kw_sg_pos {
	u32 idx;
	u32 off;
};

/**
 * struct kw_orq_entry - an outbound Read Request awaiting its response
 * @sink: where the response goes
 * @done: octets placed so far
 * @sq_index: the WQE it completes
 * @rtr: start-up's ready-to-receive request: completes nothing
 * @quiet: nor is the consumer told when it ends
 * @inv: Read with Invalidate: the sink's STag is invalidated at the end
 */
struct kw_orq_entry {
	struct kiwarp_sge sink;
	u32 done;
	u32 sq_index;
	bool rtr;
	bool quiet;
	bool inv;
};

/**
 * struct kw_rx_next - the segment that is expected next: see stream/rx_next.c
 * @mem: region that it goes to, held; NULL: none is expected
 * @off: where in the region
 * @run: octets of the region from there; its length may be 0
 * @room: octets from there that may be written to without further question
 * @at: its TO or MO
 * @head: octets 2 to 9 of its FPDU, in the order of memory
 * @queue: octets 8 to 15, likewise; not used with @tagged
 * @hdr_len: octets of its DDP header
 * @tagged: it is tagged
 * @vec: vector registers may be used: see stream/vec.h
 * @read: the Read that it answers, or NULL
 */
struct kw_rx_next {
	struct kw_mem *mem;
	u64 off;
	struct kw_run run;
	u32 room;
	u32 hdr_len;
	u64 at;
	u64 head;
	u64 queue;
	bool tagged;
	bool vec;
	struct kw_orq_entry *read;
};

/**
 * struct kw_rx - receive state; socket lock
 * @running: a pass is on the stack; data_ready can nest in it
 * @again: data_ready came while @running
 * @told: what has come that the consumer is told of, or can see in its memory:
 *	how much, modulo 2^32
 * @kick: something that transmission waited for has come
 * @started: an FPDU has been received
 * @need: octets that the next FPDU needs in the socket before a pass is of use
 * @partial: the last segment received was not the last of its message
 * @peer_mss: what TCP took for the peer's MSS; see kw_ack_delay()
 * @ack_mss: what it is to take for it
 * @stream_off: offset in the stream of the next FPDU; see wire/fpdu.h
 * @send_msn: next MSN expected on queue 0
 * @read_msn: next MSN expected on queue 1
 * @recv_open: a Send is being received into @recv
 * @recv_op: opcode of that Send's first segment
 * @recv_got: which of its octets have come
 * @recv_mo: where the segment placed last ended
 * @recv_pos: the same as a position in @recv
 * @recv: the receive queue entry in use
 * @req_got: which octets of @req have come: see kw_ddp_take_short()
 * @req: the Read Request being received
 * @term_got: which octets of @term have come, likewise
 * @term: as many of them as a Terminate can have
 * @mem: region last looked up, good within one pass
 * @mem_ext: its extent last copied to or from: see kw_mem_at()
 * @next: what is expected next, good within one pass
 * @stage: pages that hold the start of an FPDU larger than the socket buffer
 * @staged: octets in @stage
 */
struct kw_rx {
	bool running;
	bool again;
	bool kick;
	bool started;
	bool partial;
	u16 peer_mss;
	u16 ack_mss;
	u32 told;
	u32 need;
	u32 stream_off;
	u32 send_msn;
	u32 read_msn;
	bool recv_open;
	u8 recv_op;
	u32 recv_mo;
	struct kw_ddp_got recv_got;
	struct kw_sg_pos recv_pos;
	struct kw_recv recv;
	u64 req_got;
	u8 req[KW_READ_REQ_LEN];
	u64 term_got;
	u8 term[KW_TERM_MAX_LEN];
	struct kw_mem *mem;
	u32 mem_ext;
	struct kw_rx_next next;
	struct page **stage;
	u32 staged;
};

struct ib_device;
struct kw_zcopy;
struct kw_zc_msg;

enum kw_tx_msg {
	KW_MSG_NONE,
	KW_MSG_WQE,
	KW_MSG_READ_RESP,
};

#define KW_TX_OWNED	0x1
#define KW_TX_WANTED	0x2

/**
 * struct kw_tx - transmit state; socket lock
 * @token: KW_TX_*: who sets OWNED transmits, everybody else sets WANTED
 * @work: transmits when the owner of the token can not
 * @frag: block that FPDUs are built in, while there are any to send
 * @out: octets of @frag built and not yet taken by TCP start here
 * @out_len: how many
 * @out_eor: they end a TCP segment
 * @out_list: @out_len is of the list of zcopy.c instead
 * @stream_off: offset in the stream of the next FPDU; see wire/fpdu.h
 * @msg: kind of the message being sent
 * @off: octets of it framed so far
 * @pos: position in the WQE's SGEs
 * @wqe: current or held send queue entry
 * @held: @wqe is taken off the ring but may not start yet
 * @lent: the message, if it is sent without a copy: see zcopy.c
 * @responded: the last message was a Read Response: the send queue's turn
 * @rtr_pending: the RTR FPDU has not been framed
 * @term_pending: @term has not been framed
 * @term_sent: it has, and nothing may follow
 * @gate: responder: nothing may be sent before the first FPDU is received
 * @send_msn: next MSN on queue 0
 * @read_msn: next MSN on queue 1
 * @term: the Terminate to send
 */
struct kw_tx {
	atomic_t token;
	struct delayed_work work;
	struct page_frag frag;
	u32 out;
	u32 out_len;
	u32 stream_off;
	bool out_eor;
	bool out_list;
	u8 msg;
	bool held;
	bool responded;
	bool rtr_pending;
	bool term_pending;
	bool term_sent;
	bool gate;
	u32 off;
	struct kw_sg_pos pos;
	struct kw_zc_msg *lent;
	u32 send_msn;
	u32 read_msn;
	struct kw_wqe wqe;
	struct kw_term term;
};

enum kw_stream_state {
	KW_STREAM_IDLE,		/* no socket */
	KW_STREAM_OPEN,
	KW_STREAM_CLOSING,	/* no new work; FIN when the queues are empty */
	KW_STREAM_ERROR,	/* Terminate at most goes out, nothing comes in */
	KW_STREAM_DEAD,		/* the socket is gone */
};

/**
 * struct kw_batch - doorbells that came one soon after the other
 * @timer: queued: something may have been held back; it sends it
 * @rung: when the last doorbell was done with, by local_clock()
 * @heard: kw_rx.told at the beginning of the streak
 * @streak: how many doorbells there were
 * @octets: how much may have been held back
 */
struct kw_batch {
	struct hrtimer timer;
	u64 rung;
	u32 heard;
	u32 streak;
	u32 octets;
};

/**
 * struct kw_stream - one iWARP stream
 * @sock: owned from kw_stream_start() to the end of kw_stream_end()
 * @state: enum kw_stream_state
 * @peer_fin: the peer has closed its half, and all before that was received
 * @fin_sent: this side's half is closed
 * @abort: end at once
 * @deadline: jiffies by which teardown ends, however far it got
 * @gate_end: jiffies by which tx.gate opens during teardown
 * @una: first octet that the peer had not acknowledged when @deadline was set
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
 * @batch: doorbells, and what is held back
 * @end_work: teardown
 * @save_data_ready: the socket's own callback, to be put back
 * @save_state_change: likewise
 * @save_write_space: likewise
 * @save_error_report: likewise
 */
struct kw_stream {
	struct socket *sock;
	u8 state;
	bool peer_fin;
	bool fin_sent;
	bool abort;
	unsigned long deadline;
	unsigned long gate_end;
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

	struct kw_rx rx;
	struct kw_tx tx;
	struct kw_batch batch;

	struct delayed_work end_work;
	void (*save_data_ready)(struct sock *sk);
	void (*save_state_change)(struct sock *sk);
	void (*save_write_space)(struct sock *sk);
	void (*save_error_report)(struct sock *sk);
};

/* A zero-length Write alone can be sent again: it uses up nothing. */
static inline bool kw_stream_rtr_repeats(const struct kw_stream *s)
{
	return s->p.initiator && s->p.rtr == KW_RTR_WRITE;
}

/* What kw_stream_kick() may do to transmit. */
enum kw_kick {
	KW_KICK_SLEEP,		/* process context: wait for the socket lock */
	KW_KICK_ATOMIC,		/* any context: try, else leave it to the worker */
	KW_KICK_LOCKED,		/* the caller runs under the socket lock */
};

void kw_stream_init(struct kw_stream *s, struct srcu_struct *mem_srcu,
		    struct kw_counters __percpu *counters);
int kw_stream_start(struct kw_stream *s, struct socket *sock,
		    const struct kw_stream_params *p);
void kw_stream_free_queues(struct kw_stream *s);
void kw_stream_kick(struct kw_stream *s, enum kw_kick how);
void kw_stream_doorbell(struct kw_stream *s, u32 octets, bool soon);
void kw_stream_close(struct kw_stream *s);
void kw_stream_abort(struct kw_stream *s);

int kw_streams_init(void);
void kw_streams_exit(void);

#endif /* KW_STREAM_H */
