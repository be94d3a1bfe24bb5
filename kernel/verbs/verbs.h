/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The RDMA objects: ownership and lifetimes.
 *
 * - struct kw_device lives as long as the ib_device; every object below holds
 *   the ib_device through the RDMA core.
 * - struct kw_mr is found through kw_device.mems. Its users stay inside
 *   kw_pd.domain; dereg erases, waits for the domain, frees.
 * - struct kw_window, of a memory window, likewise. The region that it is bound
 *   to stays: dereg_mr fails. A queue pair's windows go with its stream.
 * - struct kw_qp has a kref: one for the verbs object, one for each of the
 *   connection manager's and the stream's uses. destroy_qp waits for the last.
 * - struct kw_cq and struct kw_srq outlive their queue pairs (the RDMA core
 *   counts them).
 *
 * Locks, outer to inner:
 *   socket lock (the stream) > kw_qp.lock > kw_cq.lock
 *   socket lock > kw_srq.lock
 * window_lock nests in the socket lock; the xarray lock nests in it. Both are
 * taken with softirqs off. The others but the socket lock are taken with
 * interrupts off, because kernel consumers post and poll from any context.
 */
#ifndef KW_VERBS_H
#define KW_VERBS_H

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>

#include <rdma/kiwarp-abi.h>

#include "stream/counters.h"
#include "stream/linger.h"
#include "stream/mem.h"
#include "stream/stream.h"
#include "verbs/settings.h"

/*
 * Limits, which kw_query_device() reports and create calls enforce. Of the
 * numbers of objects processes have less: KW_KERNEL_PART.
 */
#define KW_MAX_QP		0x20000
#define KW_MAX_CQ		0x20000
#define KW_MAX_SRQ		0x20000
#define KW_MAX_MR		0x100000
#define KW_MAX_MW		0x100000
#define KW_MAX_PD		0x20000
#define KW_MAX_QP_RD_ATOM	128	/* IRD and ORD */
#define KW_MAX_MR_SIZE		(~0ULL)
#define KW_MAX_MSG_SIZE		0x80000000U

/* What part of each kind of objects processes leave to kernel consumers. */
#define KW_KERNEL_PART		8

struct kw_device {
	struct ib_device ib;
	struct net_device *netdev;	/* valid until the netdevice's NETDEV_UNREGISTER */
	struct kw_domain domain;	/* kernel consumers' */
	struct xarray mems;		/* STag index -> struct kw_mem */
	struct xarray qps;		/* QP number -> struct kw_qp, or reserved */
	atomic_t nr_qp, nr_cq, nr_srq, nr_mr, nr_mw, nr_pd;
	atomic_t next_cq_id, next_srq_id;
	struct kw_settings settings;
	int port_active;		/* as the last event reported it */
	struct task_struct *announcer;	/* who has the RDMA core tell its clients */
	unsigned long gone;		/* bit 0: gone_work is queued */
	struct work_struct gone_work;	/* main.c: the netdevice goes away */
	struct kw_counters __percpu *counters;
	struct xarray counter_sets;	/* rdma_counter.id -> struct kw_counter_set */
	struct kw_lingers lingers;
	spinlock_t eps_lock;		/* eps, eps_closed */
	struct list_head eps;		/* struct kw_ep: all that have not ended */
	bool eps_closed;		/* the device goes: no connection begins */
};

/**
 * kw_table_empty() - is there no entry in a table?
 * @table: a table of struct kw_device
 *
 * An insertion that fails for want of memory, as in a cgroup that has used up
 * its own, may leave nodes without entries. xa_empty() says no then.
 *
 * Context: any; nothing is inserted or erased meanwhile.
 * Return: whether it is so.
 */
static inline bool kw_table_empty(struct xarray *table)
{
	unsigned long index = 0;

	return !xa_find(table, &index, ULONG_MAX, XA_PRESENT);
}

/**
 * struct kw_counter_set - what the queue pairs bound to a struct rdma_counter count
 * @ref: one for that, one for each struct kw_counter_use
 * @dev: the device
 * @counters: of their streams, in place of the device's
 * @read: what the RDMA core has added to the port's when the counter went
 */
struct kw_counter_set {
	struct kref ref;
	struct kw_device *dev;
	struct kw_counters __percpu *counters;
	u64 read[KW_NR_COUNTERS];
};

/**
 * struct kw_counter_use - a queue pair's use of a set, bound or bound last
 * @rcu: frees it after the passes that may still count to @set
 * @set: referenced
 */
struct kw_counter_use {
	struct rcu_head rcu;
	struct kw_counter_set *set;
};

/**
 * struct kw_locked - pages that count to the locked memory of a user
 * @user: the user, referenced
 * @pages: how many
 */
struct kw_locked {
	struct user_struct *user;
	unsigned long pages;
};

/**
 * struct kw_ucontext - a process that has opened the device
 * @ib: the RDMA core's part
 * @domain: that of its protection domains
 * @locked: the per-CPU memory of @domain
 * @owner: whom its lingering sockets count for: see kw_linger_owner()
 *
 * A pass over a stream lasts as long as its process is kept from running: by
 * processes of more weight, or because its cgroup has used up its quota.
 * Deregistering memory waits for all passes of the domain. So a process waits
 * only for its own.
 */
struct kw_ucontext {
	struct ib_ucontext ib;
	struct kw_domain domain;
	struct kw_locked locked;
	kuid_t owner;
};

/**
 * struct kw_pd - protection domain
 * @ib: the RDMA core's part
 * @domain: users of its regions are in its SRCU domain: that of the process, or
 *	the device's
 * @local: a kernel consumer's local_dma_lkey, which most of its work requests
 *	use; or NULL. Read like a region that was looked up.
 * @window_lock: which of its windows is bound to what: kw_window.mr, .bound and
 *	what binding sets of .mem, kw_mr.windows, kw_qp.windows
 */
struct kw_pd {
	struct ib_pd ib;
	struct kw_domain *domain;
	struct kw_mem *local;
	spinlock_t window_lock;		/* see above */
};

/**
 * struct kw_mr - memory region
 * @ib: the RDMA core's part
 * @mem: the data path's part
 * @iova: as the process has named the first byte, with IB_ZERO_BASED, too
 * @umem: pinned pages of a process, or NULL
 * @windows: how many memory windows are bound to it
 * @dmabuf: the memory is part of this buffer; NULL for all others
 * @dmabuf_at: what keeps that in place
 * @dmabuf_va: where it is mapped in the kernel
 * @dmabuf_locked: its pages, and the user whose locked memory they count to
 * @replaced: re-registered: another object has its place and STag
 * @max_pages: for fast registration: room in @mem.ext and @next_ext; else 0
 * @next_pages: mapped by the last kw_map_mr_sg(); 0: it failed
 * @next_nr_ext: entries of @next_ext; 0 once they are registered: then
 *	kw_mr_register() makes the extents of @mem valid again
 * @next_ext: the extents that the next kw_mr_register() makes valid
 * @next_end: kernel address after the last page mapped
 * @rcu: frees it: lookups in other protection domains may read it
 */
struct kw_mr {
	struct ib_mr ib;
	struct kw_mem mem;
	u64 iova;
	struct ib_umem *umem;
	u32 windows;
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *dmabuf_at;
	u8 *dmabuf_va;
	struct kw_locked dmabuf_locked;
	bool replaced;
	u32 max_pages;
	u32 next_pages;
	u32 next_nr_ext;
	struct kw_extent *next_ext;
	u8 *next_end;
	struct rcu_head rcu;
};

/**
 * struct kw_window - memory window, as the data path sees it
 * @mem: the STag, and a part of the region's memory while it is bound
 * @type2: bound by a work request to one stream, and until it is invalidated;
 *	else each binding replaces the one before, and all streams of the
 *	protection domain have it
 * @mr: the region that it is bound to, or NULL
 * @bound: with @type2: in kw_qp.windows while it is bound
 * @rcu: frees it: lookups in other protection domains may read it
 */
struct kw_window {
	struct kw_mem mem;
	bool type2;
	struct kw_mr *mr;
	struct list_head bound;
	struct rcu_head rcu;
};

/**
 * struct kw_mw - memory window
 * @ib: the RDMA core's part, which it frees at once
 * @window: the data path's part
 */
struct kw_mw {
	struct ib_mw ib;
	struct kw_window *window;
};

/**
 * struct kw_queue_mem - memory for an object's rings
 * @mem: a page, or vmalloc() memory
 * @size: bytes, whole pages
 * @mmap: how user space maps it; NULL for kernel consumers
 */
struct kw_queue_mem {
	void *mem;
	size_t size;
	struct rdma_user_mmap_entry *mmap;
};

/**
 * struct kw_ring - a control structure and entries, in queue memory
 * @mem: control, then entries at KIWARP_RING_ENTRIES_OFF
 * @stride: bytes from one entry to the next
 * @mask: entries that there is memory for, less 1
 * @entries: how many may be used: that many, or 0
 *
 * A ring without entries has memory for one all the same: an index that user
 * space has made up leads nowhere else.
 */
struct kw_ring {
	void *mem;
	u32 stride;
	u32 mask;
	u32 entries;
};

/**
 * struct kw_atomic_masks - masks of a kernel consumer's atomic operation
 * @compare_add: as struct ib_atomic_wr has it
 * @swap: likewise
 *
 * It follows the operation's SGE on the ring.
 */
struct kw_atomic_masks {
	u64 compare_add;
	u64 swap;
};

static inline void *kw_ring_at(const struct kw_ring *r, u32 index)
{
	return r->mem + KIWARP_RING_ENTRIES_OFF +
	       (size_t)(index & r->mask) * r->stride;
}

/* ring.c */
int kw_lock_pages(struct kw_locked *l, unsigned long pages);
void kw_unlock_pages(struct kw_locked *l);
int kw_queue_mem_alloc(struct kw_queue_mem *a, size_t size, struct ib_ucontext *uctx);
void kw_queue_mem_free(struct kw_queue_mem *a);
static inline u64 kw_queue_mem_key(const struct kw_queue_mem *a)
{
	return a->mmap ? rdma_user_mmap_get_offset(a->mmap) : 0;
}

static inline size_t kw_ring_size(u32 entries, u32 stride)
{
	return KIWARP_RING_ENTRIES_OFF + (size_t)max(entries, 1U) * stride;
}

static inline struct kw_ring kw_ring_in(const struct kw_queue_mem *a, size_t off,
					u32 entries, u32 stride)
{
	return (struct kw_ring){
		.mem = a->mem + off, .stride = stride,
		.mask = max(entries, 1U) - 1, .entries = entries,
	};
}

/**
 * struct kw_cq - completion queue
 * @ib: the RDMA core's part
 * @id: number, for user space
 * @lock: producers; kernel consumers' polling and arming too
 * @queue_mem: memory of @ring
 * @ring: the entries
 * @producer: next index to write; the ring's own copy is never read back
 * @consumer: kernel consumers' next index to poll; of user space's, what was
 *	last read from the ring
 * @armed: kernel consumers' KIWARP_CQ_ARM_* (user space arms in the ring)
 * @overflow: set once an entry was lost; the queue is dead from then on
 * @user: a process's
 * @moderated: events wait for @mod_count entries or @mod_period
 * @stamped: each entry has a struct kiwarp_cq_stamp
 * @lossy: what does not fit is dropped
 * @overflow_work: raises the event and fails the queue pairs
 * @notify_work: calls a kernel consumer's own completion handler
 * @unread: user space: the events that it has not read; NULL if it wants none
 * @event_lock: raising an event; guards @held to @check_from, @mod_count to
 *	@mod_solicited, and which ring is armed
 * @held: an event is held back because one is unread
 * @held_solicited: one of the entries that it is for was solicited
 * @checking: @check_work will run
 * @check_delay: how long it waits, jiffies
 * @check_from: how far the process had polled at the last check
 * @check_work: raises an event that was held back, or one for entries that the
 *	process has left
 * @handler: kernel consumers: the context that handles completions, or 0. Only
 *	compared: the task may have exited
 * @batch: queue pairs whose doorbells wait for @handler: see qp_batch.c
 * @batch_work: transmits for them after a while
 * @mod_count: entries that an event waits for; 0: only for @mod_period
 * @mod_period: how long it waits from the first entry on, us; 0: for ever
 * @mod_from: @producer at the last event, or while the queue was not armed
 * @mod_solicited: one of the entries since then was solicited
 * @mod_timer: the period
 * @resize_lock: one change of @ring at a time
 * @qps_lock: @senders, @receivers
 * @senders: queue pairs whose send completions come here
 * @receivers: those whose receive completions do
 */
struct kw_cq {
	struct ib_cq ib;
	u32 id;
	spinlock_t lock;		/* producer, armed, overflow */
	struct kw_queue_mem queue_mem;
	struct kw_ring ring;
	u32 producer;
	u32 consumer;
	u32 armed;
	bool overflow;
	bool user;
	bool moderated;
	bool stamped;
	bool lossy;
	struct work_struct overflow_work;
	struct work_struct notify_work;
	const struct list_head *unread;
	spinlock_t event_lock;		/* see above */
	bool held;
	bool held_solicited;
	bool checking;
	unsigned long check_delay;
	u32 check_from;
	struct delayed_work check_work;
	unsigned long handler;
	struct llist_head batch;
	struct delayed_work batch_work;
	u16 mod_count;
	u16 mod_period;
	u32 mod_from;
	bool mod_solicited;
	struct hrtimer mod_timer;
	struct mutex resize_lock;	/* see above */
	struct mutex qps_lock;		/* senders, receivers */
	struct list_head senders;
	struct list_head receivers;
};

/* cq.c */
void kw_cq_post(struct kw_cq *cq, struct ib_qp *ibqp,
		const struct kiwarp_cqe *cqe);
void kw_cq_forget(struct kw_cq *cq, const struct ib_qp *ibqp);
void kw_cq_notify(struct kw_cq *cq, bool solicited);

/**
 * struct kw_srq - shared receive queue
 * @ib: the RDMA core's part
 * @id: number, for user space
 * @max_sge: SGEs of an entry
 * @lock: @ring, @next, @post, @limit
 * @queue_mem: memory of @ring
 * @ring: the entries
 * @next: next RQE to take off the ring
 * @post: kernel consumers' producer
 * @limit: raise the event when less than so many entries are posted; 0: never
 * @limit_work: raises the event
 * @unread: user space: the events that it has not read; NULL: a kernel consumer's
 * @modify_lock: one modify_srq at a time; @queue_mem
 */
struct kw_srq {
	struct ib_srq ib;
	u32 id;
	u32 max_sge;
	spinlock_t lock;		/* see above */
	struct kw_queue_mem queue_mem;
	struct kw_ring ring;
	u32 next;
	u32 post;
	u32 limit;
	struct work_struct limit_work;
	const struct list_head *unread;
	struct mutex modify_lock;	/* see above */
};

/**
 * struct kw_srq_info - a shared receive queue's state, for resource.c
 * @entries: entries of the ring
 * @posted: index after the last entry; a process can write any
 * @taken: next index to take
 * @limit: that is armed, or 0
 */
struct kw_srq_info {
	u32 entries;
	u32 posted;
	u32 taken;
	u32 limit;
};

/* srq.c */
bool kw_srq_get_info(struct kw_srq *srq, struct kw_srq_info *info);

#define KW_STAG_KEY_BITS	8

static inline u32 kw_stag_index(u32 stag)
{
	return stag >> KW_STAG_KEY_BITS;
}

/* mr.c */
int kw_stag_alloc(struct kw_device *dev, struct kw_mem *mem);
struct kw_mem *kw_mem_lookup(struct kw_device *dev, const void *pd, u32 stag);
int kw_mem_invalidate(struct kw_device *dev, const void *pd, const void *stream,
		      u32 stag, bool remote);
int kw_mr_register(struct ib_mr *ibmr, const struct kw_pd *pd, u32 key,
		   u32 access);

/* mw.c */
int kw_mw_bind(struct kw_device *dev, struct kw_pd *pd, const void *stream,
	       struct list_head *windows, const struct kw_wqe *w);
int kw_mw_invalidate(struct kw_mem *mem, const void *stream, u32 stag,
		     bool remote);
void kw_mw_unbind_all(struct kw_pd *pd, struct list_head *windows);

/**
 * struct kw_sq_track - state of a send WQE until it completes
 * @wr_id: of the work request
 * @len: bytes, for the completion
 * @opcode: enum kiwarp_opcode
 * @flags: KIWARP_SQE_*
 * @status: enum ib_wc_status, once @done
 * @done: finished, waiting for earlier ones: completions are in posting order
 * @zc_inflight: TCP may still send bytes out of its buffers: see stream/zcopy.c
 *
 * Each entry of the send ring has one. @done and @zc_inflight are written under
 * the socket lock only.
 */
struct kw_sq_track {
	u64 wr_id;
	u32 len;
	u8 opcode;
	u8 flags;
	u8 status;
	bool done : 1;
	bool zc_inflight : 1;
};

/**
 * struct kw_cm_link - the connection manager's callback for a queue pair
 * @closed: the stream is over; status 0 or -errno. Called once, process context
 * @ctx: for @closed
 */
struct kw_cm_link {
	void (*closed)(void *ctx, int status);
	void *ctx;
};

struct kw_ep;
struct kw_compat_uqp;

/* Kinds of a queue pair's events, for kw_qp.raised; and the count of all. */
enum kw_qp_event_kind {
	KW_QP_EVENT_FATAL,
	KW_QP_EVENT_REQ_ERR,
	KW_QP_EVENT_ACCESS_ERR,
	KW_QP_EVENT_LAST_WQE,
	KW_QP_EVENT_ALL,
	KW_NR_QP_EVENTS,
};

/**
 * struct kw_qp - RC queue pair
 * @ib: the RDMA core's part
 * @dev: the device
 * @ref: one for the verbs object, one for each other user
 * @freed: completed with the last reference, while destroy_qp waits
 * @handed_over: references that iw_cm got from kw_iw_get_qp() and that it has
 *	not asked for yet
 * @named_by: the task whose call let iw_cm get it last: see kw_qp_name(). Never
 *	dereferenced
 * @owner: the process that created it; NULL for a kernel consumer's
 * @lock: state, SQ tracking, ring consumers when no stream runs
 * @state: enum kiwarp_qp_state
 * @user: of user space
 * @sq_sig_all: every send work request gets a completion
 * @connecting: a stream is being prepared
 * @connected: a stream holds a reference and has a socket
 * @closing: graceful teardown has begun
 * @idle: no stream works on the queues: they may be flushed
 * @draining: a kernel consumer has aborted the stream, which is not over
 * @waiter: the endpoint whose start-up is under way for the queue pair
 * @waiter_gone: called under @lock when the queue pair will not take that
 *	connection
 * @access: IB_ACCESS_REMOTE_* that the queue pair allows
 * @scq: where send completions go
 * @rcq: where receive completions go
 * @scq_node: in kw_cq.senders
 * @rcq_node: in kw_cq.receivers
 * @srq: where receives are taken from; NULL: @rq
 * @queue_mem: memory of both rings, the send ring first
 * @sq: send ring
 * @rq: receive ring
 * @sq_next: next SQE to take off the ring
 * @sq_done: oldest SQE not yet completed
 * @sq_end: with @closing: index after the last SQE that is still sent
 * @sq_post: kernel consumers' producer
 * @sq_track: sq_entries of them, by index & mask
 * @recv_sge: room for the SGEs of one receive: kw_recv.sge
 * @rq_next: next RQE to take off the ring
 * @rq_done: oldest RQE not yet completed
 * @rq_post: kernel consumers' producer
 * @srq_wr_id: with @srq_open: work request of the entry
 * @srq_open: an entry of @srq was taken and has not completed
 * @last_wqe: with @srq: IB_EVENT_QP_LAST_WQE_REACHED is to be raised in ERROR,
 *	once for each connection
 * @sq_post_lock: @sq_post
 * @rq_post_lock: @rq_post
 * @cap: as granted
 * @max_ird: for query_qp alone: as set by modify_qp, then as negotiated
 * @max_ord: likewise
 * @scq_dirty: entries posted to @scq since the last notification
 * @rcq_dirty: likewise to @rcq
 * @scq_solicited: one of them raises solicited events
 * @rcq_solicited: likewise
 * @batched: bit 0: in kw_cq.batch, which holds a reference
 * @batch_node: there
 * @batch_len: bytes posted since then
 * @events: BIT(enum ib_event_type) of the events to raise
 * @uevents: a process's events; NULL for a kernel consumer's queue pair
 * @raised: how many events were raised, when the last of each kind was:
 *	see kw_qp_event_unread()
 * @event_work: raises @events; holds a reference
 * @flush_work: completes what a flush has left; holds a reference
 * @cm: called when the connection is over
 * @linger: for the socket of @stream when that has been aborted
 * @counter_use: what @stream has counted to last, other than the device's
 *	counters; @lock
 * @windows: of type 2, bound to @stream
 * @stream: the connection in FPDU mode
 */
struct kw_qp {
	struct ib_qp ib;
	struct kw_device *dev;
	struct kref ref;
	atomic_t handed_over;
	struct task_struct *named_by;
	struct pid *owner;
	struct completion *freed;
	spinlock_t lock;		/* see above */
	u8 state;
	bool user;
	bool sq_sig_all;
	bool connecting;
	bool connected;
	bool closing;
	bool idle;
	bool draining;
	struct kw_ep *waiter;
	void (*waiter_gone)(struct kw_ep *ep);
	struct kw_linger *linger;
	struct kw_counter_use *counter_use;
	u32 access;

	struct kw_cq *scq;
	struct kw_cq *rcq;
	struct list_head scq_node;
	struct list_head rcq_node;
	struct kw_srq *srq;
	struct kw_queue_mem queue_mem;
	struct kw_ring sq;
	struct kw_ring rq;
	u32 sq_next;
	u32 sq_done;
	u32 sq_end;
	u32 sq_post;
	struct kw_sq_track *sq_track;
	struct kiwarp_sge *recv_sge;
	u32 rq_next;
	u32 rq_done;
	u32 rq_post;
	u64 srq_wr_id;
	bool srq_open;
	bool last_wqe;
	spinlock_t sq_post_lock;	/* see above */
	spinlock_t rq_post_lock;	/* see above */
	struct ib_qp_cap cap;
	u32 max_ird, max_ord;
	bool scq_dirty, rcq_dirty;
	bool scq_solicited, rcq_solicited;

	unsigned long batched;
	struct llist_node batch_node;
	u64 batch_len;

	unsigned long events;
	const struct kw_compat_uqp *uevents;
	u32 raised[KW_NR_QP_EVENTS];
	struct work_struct event_work;
	struct work_struct flush_work;
	struct kw_cm_link cm;
	struct list_head windows;
	struct kw_stream stream;
};

static inline struct kw_device *to_kw_dev(struct ib_device *ib)
{
	return container_of(ib, struct kw_device, ib);
}

/*
 * Count an object of a kind of which a device has at most @max. Storage behind
 * a kernel consumer connects again whatever processes have taken.
 */
static inline bool kw_count_object(atomic_t *nr, int max, bool user)
{
	if (user)
		max -= max / KW_KERNEL_PART;
	if (atomic_inc_return(nr) <= max)
		return true;
	atomic_dec(nr);
	return false;
}

static inline struct kw_pd *to_kw_pd(struct ib_pd *ib)
{
	return container_of(ib, struct kw_pd, ib);
}

static inline struct kw_qp *to_kw_qp(struct ib_qp *ib)
{
	return container_of(ib, struct kw_qp, ib);
}

static inline struct kw_cq *to_kw_cq(struct ib_cq *ib)
{
	return container_of(ib, struct kw_cq, ib);
}

static inline struct kw_srq *to_kw_srq(struct ib_srq *ib)
{
	return container_of(ib, struct kw_srq, ib);
}

static inline struct kw_mr *to_kw_mr(struct ib_mr *ib)
{
	return container_of(ib, struct kw_mr, ib);
}

static inline struct kw_mw *to_kw_mw(struct ib_mw *ib)
{
	return container_of(ib, struct kw_mw, ib);
}

static inline void kw_count(struct kw_device *dev, enum kw_counter c)
{
	kw_counter_add(dev->counters, c, 1);
}

/* counters.c */
void kw_counter_leave(struct kw_qp *qp);

/* device.c: the operations table and registration, used by main.c */
int kw_device_create(const char *name, struct net_device *netdev,
		     const struct ib_device_ops *cm_ops);

/* qp.c: called by cm/ */
struct kw_qp *kw_qp_find(struct kw_device *dev, u32 qpn);	/* takes a reference */
void kw_qp_get(struct kw_qp *qp);
void kw_qp_put(struct kw_qp *qp);
bool kw_qp_is_callers(const struct kw_qp *qp);

/*
 * Move a queue pair from INIT to RTS over a socket whose MPA start-up is
 * finished. If it returns 0 the stream owns the socket, and link->closed is
 * called exactly once.
 */
int kw_qp_connect(struct kw_qp *qp, struct socket *sock,
		  const struct kw_stream_params *params,
		  const struct kw_cm_link *link);

/* qp.c: the ib_device_ops */
int kw_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		 struct ib_udata *udata);
int kw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_udata *udata);
int kw_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		struct ib_qp_init_attr *init);
int kw_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int kw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		 const struct ib_send_wr **bad);
int kw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		 const struct ib_recv_wr **bad);
struct ib_qp *kw_iw_get_qp(struct ib_device *ibdev, int qpn);
void kw_iw_add_ref(struct ib_qp *ibqp);
void kw_iw_rem_ref(struct ib_qp *ibqp);
void kw_qp_fail(struct kw_qp *qp);
void kw_qp_start_failed(struct kw_qp *qp);
void kw_qps_fail(struct kw_device *dev);

#endif /* KW_VERBS_H */
