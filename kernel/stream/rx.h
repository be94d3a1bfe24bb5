/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Between the parts of the receive path, in rx*.c. */
#ifndef KW_STREAM_RX_H
#define KW_STREAM_RX_H

#include "stream/cursor.h"
#include "stream/sg.h"

/*
 * The result of handling an FPDU: 0, KW_RX_TERM(code) with the enum
 * kw_term_code for the Terminate, or KW_RX_STOP if the stream has ended without
 * a Terminate to send.
 */
#define KW_RX_TERM(code)	(0x10000 | (code))
#define KW_RX_STOP		0x20000

#define KW_RX_RAW_LEN	(KW_MPA_HDR_LEN + KW_DDP_HDR_MAX)

/*
 * Budget of a pass: FPDUs, and bytes. TCP brings more at a time only after a
 * lost segment, or before the stream has started. The fuzzer's is smaller.
 */
#ifndef KW_RX_BUDGET
#define KW_RX_BUDGET		1024
#endif
#define KW_RX_BUDGET_BYTES	(512 * 1024)

/* Entries of the send queue that are completed in a row. */
#define KW_RETIRE_BUDGET	256

/**
 * struct kw_segment - a DDP segment whose FPDU is complete and checked
 * @ddp: parsed header
 * @op: enum kw_rdmap_opcode
 * @len: bytes of payload
 * @raw: MPA length and DDP header as received, for a Terminate
 * @read_req: the Read Request as received, likewise, once it is whole; or NULL
 */
struct kw_segment {
	struct kw_ddp_hdr ddp;
	u8 op;
	u32 len;
	u8 raw[KW_RX_RAW_LEN];
	const u8 *read_req;
};

void kw_rx_data_ready(struct sock *sk);
void kw_rx_run(struct kw_stream *s);
void kw_rx_work(struct work_struct *work);

int kw_rx_write(struct kw_stream *s, struct kw_segment *seg,
		struct kw_cursor *c);
int kw_rx_read_resp(struct kw_stream *s, struct kw_segment *seg,
		    struct kw_cursor *c);
int kw_rx_send(struct kw_stream *s, struct kw_segment *seg,
	       struct kw_cursor *c);
int kw_rx_request(struct kw_stream *s, struct kw_segment *seg,
		  struct kw_cursor *c);
int kw_rx_read_req(struct kw_stream *s, struct kw_segment *seg,
		   struct kw_cursor *c);
bool kw_rx_irq_has_room(const struct kw_stream *s);
void kw_rx_irq_push(struct kw_stream *s, const struct kw_irq_entry *e);
int kw_rx_read_fail(struct kw_stream *s, const struct kw_orq_entry *e,
		    u16 status, u16 code);
void kw_rx_read_done(struct kw_stream *s);

int kw_rx_queue0_enter(struct kw_stream *s, const struct kw_segment *seg);
int kw_rx_imm(struct kw_stream *s, struct kw_segment *seg,
	      struct kw_cursor *c);
int kw_rx_atomic_req(struct kw_stream *s, struct kw_segment *seg,
		     struct kw_cursor *c);
int kw_rx_atomic_resp(struct kw_stream *s, struct kw_segment *seg,
		      struct kw_cursor *c);

int kw_rx_terminate(struct kw_stream *s, struct kw_segment *seg,
		    struct kw_cursor *c);

bool kw_place(struct kw_stream *s, const struct kw_segment *seg,
	      struct kw_cursor *c, struct kw_sg_iter *it);
bool kw_place_tagged(struct kw_stream *s, const struct kw_segment *seg,
		     struct kw_cursor *c, struct kw_mem *mem, u32 most);
void kw_predict(struct kw_stream *s, const struct kw_segment *seg, u32 room,
		struct kw_orq_entry *read);
u32 kw_predict_take(struct kw_stream *s, struct kw_cursor *c, u32 avail,
		    u32 most, u32 *fpdus);
void kw_predict_end(struct kw_stream *s);

void kw_ack_init(struct kw_stream *s);
void kw_ack_delay(struct kw_stream *s, bool whole);

u32 kw_stage_fill(struct kw_stream *s, u32 avail, u32 want);
bool kw_stage_needed(const struct kw_stream *s);
void kw_stage_free(struct kw_stream *s);

#endif /* KW_STREAM_RX_H */
