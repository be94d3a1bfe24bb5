/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The state of a stream's data path: members of struct kw_stream that only
 * stream/ uses. Included by stream.h alone.
 */
#ifndef KW_STREAM_STATE_H
#define KW_STREAM_STATE_H

#include <linux/mm_types_task.h>

#include "stream/mem.h"
#include "wire/ddp.h"
#include "wire/fpdu.h"
#include "wire/rdmap.h"
#include "wire/term.h"

/**
 * struct kw_sg_iter - a walk over the bytes of a message, forward only
 * @sge: current entry; NULL: the bytes are those of @run alone
 * @end: end of the list
 * @off: bytes into @sge
 * @access: IB_ACCESS_* that each region must have
 * @mem: region of @sge, held; NULL if none is
 * @run: contiguous bytes from the current position on
 */
struct kw_sg_iter {
	const struct kiwarp_sge *sge;
	const struct kiwarp_sge *end;
	u32 off;
	u32 access;
	struct kw_mem *mem;
	struct kw_run run;
};

/**
 * struct kw_irq_entry - an inbound request that is not answered yet
 * @is_atomic: it is an Atomic Request
 * @read: a Read Request
 * @atomic: an Atomic Request, executed when its turn to be answered comes
 */
struct kw_irq_entry {
	bool is_atomic;
	union {
		struct kw_read_req read;
		struct kw_atomic_req atomic;
	};
};

/**
 * struct kw_orq_entry - an outbound request awaiting its response
 * @sink: where the response goes
 * @done: bytes placed so far
 * @sq_index: the WQE it completes
 * @rtr: start-up's ready-to-receive request: completes nothing
 * @unsignaled: the consumer gets no completion when it ends
 * @inv: Read with Invalidate: the sink's STag is invalidated at the end
 * @atomic: it is an Atomic Request
 */
struct kw_orq_entry {
	struct kiwarp_sge sink;
	u32 done;
	u32 sq_index;
	bool rtr;
	bool unsignaled;
	bool inv;
	bool atomic;
};

/**
 * struct kw_rx_next - the segment that is expected next: see stream/place.c
 * @it: where its payload goes; the region is held. NULL: nothing is expected
 * @room: bytes from there that may be written to without further checks
 * @hdr_len: bytes of its DDP header
 * @at: its TO or MO
 * @head: the first bytes of its DDP header, in the order of memory
 * @queue: its queue number and MSN, likewise; not used with @tagged
 * @tagged: it is tagged
 * @vec: vector registers may be used: see stream/vec.h
 * @vec_len: bytes placed since they may
 * @read: the Read that it answers, or NULL
 */
struct kw_rx_next {
	struct kw_sg_iter *it;
	u32 room;
	u32 hdr_len;
	u64 at;
	u64 head;
	u64 queue;
	bool tagged;
	bool vec;
	u32 vec_len;
	struct kw_orq_entry *read;
};

/**
 * struct kw_mem_cache - the region last looked up; socket lock
 * @mem: the region, good within one pass over the stream, or NULL
 * @ext: its extent last copied to or from: see kw_mem_at()
 */
struct kw_mem_cache {
	struct kw_mem *mem;
	u32 ext;
};

/**
 * struct kw_rx - receive state; socket lock
 * @running: a pass is on the stack; data_ready can nest in it
 * @again: data_ready came while @running
 * @later: the budget is used up: rx_work continues, and nothing else before
 * @starved: no memory for the stage: rx_work tries again
 * @rx_events: messages and Writes delivered to the consumer, modulo 2^32
 * @kick: something that transmission waited for has come
 * @started: an FPDU has been received
 * @need: bytes that the next FPDU needs in the socket before a pass is of use
 * @partial: the last segment received was not the last of its message
 * @peer_mss: TCP's estimate of the peer's MSS; see kw_ack_delay()
 * @ack_mss: the value that replaces it
 * @stream_off: offset in the stream of the next FPDU; see wire/fpdu.h
 * @send_msn: next MSN expected on queue 0
 * @read_msn: next MSN expected on queue 1
 * @recv_open: a Send is being received into @recv
 * @recv_op: opcode of that Send's first segment
 * @recv_got: which of its bytes have come
 * @recv_mo: where the segment placed last ended
 * @imm_got: which bytes of @imm have come: see kw_ddp_take_short()
 * @imm: the Immediate Data being received
 * @write_open: more segments of a Write are to come
 * @write_len: bytes of the last Write since a message on queue 0
 * @recv_it: the same as a position in @recv
 * @recv: the receive queue entry in use
 * @sink: where a tagged segment goes, to the end of its region or of its Read
 * @sink_it: the same as a position in it
 * @req_op: opcode of the first segment of @req; 0: none has come
 * @req_got: which bytes of @req have come: see kw_ddp_take_short()
 * @req: the Read Request or Atomic Request being received
 * @resp_msn: next MSN expected on queue 3
 * @resp_got: which bytes of @resp have come, likewise
 * @resp: the Atomic Response being received
 * @term_got: which bytes of @term have come, likewise
 * @term: as many of them as a Terminate can have
 * @next: what is expected next, good within one pass
 * @stage: pages that hold the start of an FPDU larger than the socket buffer
 * @staged: bytes in @stage
 */
struct kw_rx {
	bool running;
	bool again;
	bool later;
	bool starved;
	bool kick;
	bool started;
	bool partial;
	u16 peer_mss;
	u16 ack_mss;
	u32 rx_events;
	u32 need;
	u32 stream_off;
	u32 send_msn;
	u32 read_msn;
	bool recv_open;
	u8 recv_op;
	u32 recv_mo;
	struct kw_ddp_got recv_got;
	struct kw_sg_iter recv_it;
	struct kw_recv recv;
	u64 imm_got;
	u8 imm[KW_IMM_LEN];
	bool write_open;
	u32 write_len;
	struct kiwarp_sge sink;
	struct kw_sg_iter sink_it;
	u8 req_op;
	u64 req_got;
	u8 req[KW_ATOMIC_REQ_LEN];
	u32 resp_msn;
	u64 resp_got;
	u8 resp[KW_ATOMIC_RESP_LEN];
	u64 term_got;
	u8 term[KW_TERM_MAX_LEN];
	struct kw_rx_next next;
	struct page **stage;
	u32 staged;
};

struct kw_zc_msg;

/**
 * struct kw_tx_msg - a message being framed: a header template and its bytes
 * @head: header of the next FPDU
 * @tagged: tagged model
 * @hdr_len: bytes of the DDP header
 * @left: bytes of payload that are not framed yet
 * @at: TO or MO of the next of them
 * @it: where they are
 */
struct kw_tx_msg {
	struct kw_fpdu_head head;
	bool tagged;
	u32 hdr_len;
	u32 left;
	u64 at;
	struct kw_sg_iter it;
};

enum kw_tx_kind {
	KW_MSG_NONE,
	KW_MSG_WQE,		/* a Send or Write */
	KW_MSG_IMM,		/* a WQE's Immediate Data */
	KW_MSG_READ,		/* a WQE's Read Request or Atomic Request */
	KW_MSG_READ_RESP,	/* or an Atomic Response */
	KW_MSG_RTR,
	KW_MSG_TERM,
	KW_MSG_LOCAL,		/* a WQE that sends nothing */
};

#define KW_TX_OWNED	0x1
#define KW_TX_WANTED	0x2

/**
 * struct kw_tx - transmit state; socket lock
 * @token: KW_TX_*: the context that sets OWNED transmits, others set WANTED
 * @budget: what the pass may still do: see KW_TX_BUDGET
 * @work: transmits when the owner of the token can not
 * @frag: transmit buffer, while there are FPDUs to send
 * @charged: its bytes that the socket is charged for: see kw_tx_charge_buffer()
 * @out: bytes of @frag built and not yet taken by TCP start here
 * @out_len: how many
 * @out_eor: they end a TCP segment
 * @out_list: @out_len is of the list of zcopy.c instead
 * @stream_off: offset in the stream of the next FPDU; see wire/fpdu.h
 * @msg: enum kw_tx_kind of the message being sent
 * @m: that message
 * @src: of a Read Response: the source
 * @body: of a message that carries no payload of the consumer's: its bytes
 * @wqe: current or held send queue entry
 * @held: @wqe is taken off the ring but may not start yet
 * @zc_msg: the message, if it is sent without a copy: see zcopy.c
 * @responded: the last message was a Read Response: the send queue's turn
 * @rtr_pending: the RTR FPDU has not been framed
 * @imm_may_follow: the send queue's last message was a Write, whose length the
 *	peer reports with Immediate Data that follows
 * @term_pending: @term has not been framed
 * @await_first: responder: nothing may be sent before the first FPDU is
 *	received
 * @send_msn: next MSN on queue 0
 * @read_msn: next MSN on queue 1
 * @resp_msn: next MSN on queue 3
 * @await_msn: that of the answer to the next Atomic Request
 * @term: the Terminate to send
 */
struct kw_tx {
	atomic_t token;
	u32 budget;
	struct delayed_work work;
	struct page_frag frag;
	u32 charged;
	u32 out;
	u32 out_len;
	u32 stream_off;
	bool out_eor;
	bool out_list;
	u8 msg;
	bool held;
	bool responded;
	bool rtr_pending;
	bool imm_may_follow;
	bool term_pending;
	bool await_first;
	struct kw_tx_msg m;
	struct kiwarp_sge src;
	u8 body[KW_TERM_MAX_LEN];
	struct kw_zc_msg *zc_msg;
	u32 send_msn;
	u32 read_msn;
	u32 resp_msn;
	u32 await_msn;
	struct kw_wqe wqe;
	struct kw_term term;
};

#endif /* KW_STREAM_STATE_H */
