/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The contract between kiwarp.ko and its rdma-core provider.
 *
 * Both sides include this file: the module as C11, the provider as C++20.
 * Every structure has fixed-width members, no implicit padding and a size
 * that is asserted, so that 32- and 64-bit user space agree with the kernel.
 *
 * Queues are rings in memory that the kernel allocates and user space maps. A
 * completion queue has one mapping, as has a shared receive queue. Both rings
 * of a queue pair share one.
 *
 * Each ring starts with a control structure: struct kiwarp_cq_ctrl for
 * completion queues, struct kiwarp_ring_ctrl for all others. The entries start
 * at KIWARP_RING_ENTRIES_OFF. All indices run freely modulo 2^32. The slot of
 * index i is i & (entries - 1), where entries is a power of two.
 *
 * Neither side trusts the other's indices: whatever user space writes can
 * only harm its own queue pairs.
 */
#ifndef KIWARP_ABI_H
#define KIWARP_ABI_H

#include <linux/types.h>

/* Bumped whenever a structure below changes incompatibly. */
#define KIWARP_ABI_VERSION 2

/* The id that marks the kernel's ioctls as this driver's; see rdma_driver_id. */
#define KIWARP_DRIVER_ID 0x4b57

#define KIWARP_MAX_SGE 16
#define KIWARP_MAX_INLINE 256
#define KIWARP_MAX_QP_WR 16384
#define KIWARP_MAX_CQE 0x100000
#define KIWARP_MAX_SRQ_WR 0x10000

/* Entries follow the control structure at this offset in each ring. */
#define KIWARP_RING_ENTRIES_OFF 256

/* Where in a mapping a ring may start: rings share no cache line. */
#define KIWARP_RING_ALIGN 64

/*
 * Capability bits in struct kiwarp_alloc_ucontext_resp.caps. A provider refuses
 * what has no bit. Those of RFC 7306 say that the device had the setting when
 * the process opened it. A connection has the setting of its own start: a work
 * request that is not allowed there completes with IBV_WC_LOC_QP_OP_ERR.
 *
 * Re-registration, dma-bufs, moderation of completion events and importing have
 * no bit, since they add nothing to these structures. Their commands go to the
 * RDMA core, which answers EOPNOTSUPP for a module that has them not.
 */
#define KIWARP_CAP_SRQ 0x1	/* shared receive queues */
#define KIWARP_CAP_MW 0x2	/* memory windows: KIWARP_OP_BIND_MW, KIWARP_OP_LOCAL_INV */
#define KIWARP_CAP_IMM 0x4	/* Immediate Data of RFC 7306 */
#define KIWARP_CAP_ATOMIC 0x8	/* atomic operations of RFC 7306 */
#define KIWARP_CAP_RESIZE_CQ 0x10	/* completion queues can be resized */
#define KIWARP_CAP_CQ_TIMESTAMP 0x20	/* struct kiwarp_cq_stamp; overruns can be ignored */

struct kiwarp_alloc_ucontext_resp {
	__u32 abi_version;
	__u32 caps;
	__u32 max_inline;
	__u32 max_sge;
};

/*
 * Of create_cq and resize_cq. A completion has the same index in both rings.
 * When a queue was resized the old ring changes no more: what waits is in both,
 * and armed is 0 in the old. User space maps the new one, goes on at the index
 * it had reached, stores that as consumer, and unmaps the old. What it arms in
 * the old meanwhile it arms in the new before it polls that.
 */
struct kiwarp_create_cq_resp {
	__u32 cq_id;
	__u32 entries;		/* power of two, at least what was asked for */
	__aligned_u64 ring_key;	/* mmap offset of the ring */
	__aligned_u64 ring_size;	/* bytes to map */
};

/*
 * A queue that was created with max_send_wr or max_recv_wr of 0, and was granted
 * that, has a ring of one entry here. Nothing may be posted to it. So it is with
 * the receive ring of a queue pair with a shared receive queue.
 */
struct kiwarp_create_qp_resp {
	__u32 qp_id;
	__u32 sq_entries;	/* power of two */
	__u32 sq_stride;	/* bytes from one SQE to the next */
	__u32 rq_entries;	/* power of two */
	__u32 rq_stride;	/* bytes from one RQE to the next */
	__u32 max_inline;
	__aligned_u64 ring_key;	/* mmap offset of both rings */
	__aligned_u64 ring_size;	/* bytes to map; the send ring is at the start */
	__aligned_u64 rq_offset;	/* of the receive ring, a multiple of KIWARP_RING_ALIGN */
};

/* Of CREATE_SRQ; and where struct kiwarp_modify_srq_req says. */
struct kiwarp_create_srq_resp {
	__u32 srq_id;
	__u32 entries;		/* power of two, at least what was asked for */
	__u32 stride;		/* bytes from one RQE to the next */
	__u32 rsvd;
	__aligned_u64 ring_key;	/* mmap offset of the ring */
	__aligned_u64 ring_size;	/* bytes to map */
};

/*
 * Behind a MODIFY_SRQ command with IB_SRQ_MAX_WR. The kernel stores a struct
 * kiwarp_create_srq_resp at response, and moves what is posted to a new ring,
 * with the same indices. Nothing may be posted during the command. After it the
 * old ring is without use; if it fails, the new one is, and gone.
 */
struct kiwarp_modify_srq_req {
	__aligned_u64 response;
};

/* Values of struct kiwarp_ring_ctrl.state. */
enum kiwarp_qp_state {
	KIWARP_QPS_RESET = 0,
	KIWARP_QPS_INIT = 1,
	KIWARP_QPS_RTS = 2,
	KIWARP_QPS_CLOSING = 3,
	KIWARP_QPS_ERROR = 5,
};

/*
 * Control part of a send or receive ring.
 *
 * Posting: write the entries, then store producer with release semantics.
 * SQ: then ring the doorbell (a POST_SEND command without work requests).
 * RQ: then a full fence, and read state. If it is KIWARP_QPS_ERROR ring the
 * doorbell (a POST_RECV command without work requests), so that the kernel
 * flushes what was posted.
 *
 * Shared receive queue: that is all, there is no doorbell, and state is unused.
 * A slot is free when the kernel has taken its entry, so the entries before
 * consumer are free. Completions say nothing of them: entries complete in any
 * order, with the index of their queue pair's receives.
 */
struct kiwarp_ring_ctrl {
	__u32 producer;		/* written by user space */
	__u32 rsvd0[15];
	__u32 consumer;		/* written by the kernel: entries taken off the ring */
	__u32 state;		/* written by the kernel: enum kiwarp_qp_state */
	__u32 rsvd1[14];
};

/* Bits of struct kiwarp_cq_ctrl.armed */
#define KIWARP_CQ_ARM_SOLICITED 0x1
#define KIWARP_CQ_ARM_ANY 0x2

/*
 * Control part of a completion ring.
 *
 * The kernel stores producer with release semantics after the entries, then
 * a full fence, then reads armed. When a bit that fits is set it exchanges
 * armed with 0 and raises the event. If an event waits to be read, armed stays,
 * and is checked again later. User space arms by an atomic OR followed by a
 * full fence. Entries that came before arming are found by polling again: an
 * event comes for them only if they are left alone for a while.
 */
struct kiwarp_cq_ctrl {
	__u32 producer;		/* written by the kernel */
	__u32 rsvd0[15];
	__u32 consumer;		/* written by user space: entries polled */
	__u32 rsvd1[15];
	__u32 armed;		/* KIWARP_CQ_ARM_*: set by user space, cleared by the kernel */
	__u32 rsvd2[15];
};

enum kiwarp_opcode {
	KIWARP_OP_SEND = 0,
	KIWARP_OP_SEND_INV = 1,	/* Send with Invalidate: invalidates the peer's STag in inv_stag */
	KIWARP_OP_WRITE = 2,
	KIWARP_OP_READ = 3,
	KIWARP_OP_READ_INV = 4,	/* kernel consumers only: Read, then invalidate the sink STag */
	KIWARP_OP_LOCAL_INV = 5,	/* of user space: windows of type 2 only */
	KIWARP_OP_REG_MR = 6,	/* kernel consumers only */
	KIWARP_OP_RECV = 7,	/* in completions only */
	KIWARP_OP_BIND_MW = 8,	/* user space only: see struct kiwarp_bind */
	KIWARP_OP_WRITE_IMM = 9,	/* Write, then Immediate Data */
	KIWARP_OP_SEND_IMM = 10,	/* Immediate Data alone: without payload */
	KIWARP_OP_FETCH_ADD = 11,	/* into one SGE of eight bytes */
	KIWARP_OP_CMP_SWAP = 12,	/* likewise */
	KIWARP_OP_MASKED_FETCH_ADD = 13,	/* kernel consumers only */
	KIWARP_OP_MASKED_CMP_SWAP = 14,	/* likewise */
};

/* Bits of struct kiwarp_sqe.flags */
#define KIWARP_SQE_SIGNALED 0x1
#define KIWARP_SQE_SOLICITED 0x2
#define KIWARP_SQE_FENCE 0x4
#define KIWARP_SQE_INLINE 0x8

struct kiwarp_sge {
	__aligned_u64 addr;
	__u32 length;
	__u32 lkey;
};

/*
 * Binds a memory window to a range of a region. rkey of the entry is the
 * window's from now on: its index with any key. remote_addr is the first byte's
 * address, as work requests name it in the region. inline_len and num_sge are 0.
 */
struct kiwarp_bind {
	__aligned_u64 length;	/* 0: a window of type 1 is bound to nothing */
	__u32 access;		/* enum ibv_access_flags */
	__u32 lkey;		/* of the region */
};

/*
 * SQE: header, then SGEs or inline bytes. sq_stride fits the larger. The
 * kernel's own rings fit masks behind one SGE, too: KIWARP_OP_MASKED_*.
 */
struct kiwarp_sqe {
	__aligned_u64 wr_id;
	__u8 opcode;		/* enum kiwarp_opcode */
	__u8 flags;		/* KIWARP_SQE_* */
	__u16 num_sge;		/* 0 with KIWARP_SQE_INLINE */
	__u32 inline_len;
	__aligned_u64 remote_addr;
	__u32 rkey;
	__u32 inv_stag;
	union {
		__aligned_u64 rsvd[2];	/* zero, but for: */
		struct kiwarp_bind bind;	/* KIWARP_OP_BIND_MW */
		__be32 imm_data;	/* KIWARP_OP_*_IMM: as struct ibv_send_wr has it */
		struct {
			__aligned_u64 compare_add;	/* FETCH_ADD, CMP_SWAP: likewise */
			__aligned_u64 swap;	/* KIWARP_OP_CMP_SWAP */
		} atomic;
	};
};

/* Receive queue entry: this header, then num_sge struct kiwarp_sge. */
struct kiwarp_rqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 rsvd;
};

/* Values of struct kiwarp_cqe.status: those of enum ibv_wc_status. */
#define KIWARP_CQE_SUCCESS 0

/* Bits of struct kiwarp_cqe.flags */
#define KIWARP_CQE_WITH_INV 0x1	/* inv_stag says which STag the peer invalidated */
#define KIWARP_CQE_SOLICITED 0x2
/*
 * With KIWARP_OP_RECV: the entry was consumed by Immediate Data, and has its
 * imm_data; byte_len is that of the Write before. A provider that does not know
 * this bit sees a receive.
 */
#define KIWARP_CQE_WITH_IMM 0x4

/*
 * struct kiwarp_cqe.vendor_err of a completion in error is 0, or one of these.
 * Then the low 16 bits are layer, type and code of the Terminate that ended the
 * connection (RFC 5040 section 4.8).
 */
#define KIWARP_TERM_SENT 0x10000	/* to the peer, for an error found here */
#define KIWARP_TERM_RECEIVED 0x20000	/* from the peer */

struct kiwarp_cqe {
	__aligned_u64 wr_id;
	__u8 opcode;		/* enum kiwarp_opcode */
	__u8 flags;		/* KIWARP_CQE_* */
	__u16 status;		/* enum ibv_wc_status */
	__u32 byte_len;
	__u32 qp_id;
	/*
	 * Index after the entry that this completes, on the send ring or
	 * (KIWARP_OP_RECV) on the receive ring: all entries before are free.
	 * Without meaning for an entry of a shared receive queue.
	 */
	__u32 wqe_index;
	union {
		__u32 inv_stag;		/* KIWARP_CQE_WITH_INV */
		__be32 imm_data;	/* KIWARP_CQE_WITH_IMM */
	};
	__u32 vendor_err;
};

/*
 * When a completion came, in nanoseconds of two clocks. A queue that was created
 * with IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION has one for each entry, in an
 * array behind the entries, at the entry's slot.
 */
struct kiwarp_cq_stamp {
	__aligned_u64 monotonic_ns;	/* CLOCK_MONOTONIC */
	__aligned_u64 realtime_ns;	/* CLOCK_REALTIME */
};

#ifdef __cplusplus
#define KIWARP_ASSERT(c) static_assert(c, #c)
#else
#define KIWARP_ASSERT(c) _Static_assert(c, #c)
#endif

KIWARP_ASSERT(sizeof(struct kiwarp_alloc_ucontext_resp) == 16);
KIWARP_ASSERT(sizeof(struct kiwarp_create_cq_resp) == 24);
KIWARP_ASSERT(sizeof(struct kiwarp_create_qp_resp) == 48);
KIWARP_ASSERT(__builtin_offsetof(struct kiwarp_create_qp_resp, ring_key) == 24);
KIWARP_ASSERT(sizeof(struct kiwarp_create_srq_resp) == 32);
KIWARP_ASSERT(__builtin_offsetof(struct kiwarp_create_srq_resp, ring_key) == 16);
KIWARP_ASSERT(sizeof(struct kiwarp_modify_srq_req) == 8);
KIWARP_ASSERT(sizeof(struct kiwarp_ring_ctrl) == 128);
KIWARP_ASSERT(__builtin_offsetof(struct kiwarp_ring_ctrl, consumer) == 64);
KIWARP_ASSERT(sizeof(struct kiwarp_cq_ctrl) == 192);
KIWARP_ASSERT(__builtin_offsetof(struct kiwarp_cq_ctrl, armed) == 128);
KIWARP_ASSERT(sizeof(struct kiwarp_sge) == 16);
KIWARP_ASSERT(sizeof(struct kiwarp_bind) == 16);
KIWARP_ASSERT(sizeof(struct kiwarp_sqe) == 48);
KIWARP_ASSERT(__builtin_offsetof(struct kiwarp_sqe, remote_addr) == 16);
KIWARP_ASSERT(__builtin_offsetof(struct kiwarp_sqe, imm_data) == 32);
KIWARP_ASSERT(__builtin_offsetof(struct kiwarp_sqe, atomic.swap) == 40);
KIWARP_ASSERT(sizeof(struct kiwarp_rqe) == 16);
KIWARP_ASSERT(sizeof(struct kiwarp_cqe) == 32);
KIWARP_ASSERT(sizeof(struct kiwarp_cq_stamp) == 16);
KIWARP_ASSERT(__builtin_offsetof(struct kiwarp_cqe, imm_data) == 24);
KIWARP_ASSERT(sizeof(struct kiwarp_ring_ctrl) <= KIWARP_RING_ENTRIES_OFF);
KIWARP_ASSERT(sizeof(struct kiwarp_cq_ctrl) <= KIWARP_RING_ENTRIES_OFF);

#undef KIWARP_ASSERT

#endif /* KIWARP_ABI_H */
