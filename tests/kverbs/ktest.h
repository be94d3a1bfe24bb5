/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A consumer of kernel verbs that uses each right and wrong once.
 *
 * A case opens a link (two queue pairs of this kernel, connected by rdma_cm),
 * takes operations, buffers and regions from it, states facts, and closes it.
 * All that a case took lives until the link is closed. Closing drains the queue
 * pairs first, so that a case may return anywhere.
 */
#ifndef KT_KTEST_H
#define KT_KTEST_H

#include <linux/completion.h>
#include <linux/dcache.h>
#include <linux/list.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include <rdma/kiwarp-abi.h>

#include "wire/term.h"

#define KT_TIMEOUT	(20 * HZ)
#define KT_GUARD	64
#define KT_NO_PORT	7998	/* nobody listens there */
#define KT_NR_EVENTS	(IB_EVENT_WQ_FATAL + 1)

/* main.c: facts */
bool kt_fact(bool good, const char *fmt, ...) __printf(2, 3);
bool kt_equal(s64 got, s64 want, const char *fmt, ...) __printf(3, 4);

/**
 * struct kt_case - a case
 * @name: its name
 * @run: states the facts
 * @setting: it needs one that is off, and so runs only if it is named
 */
struct kt_case {
	const char *name;
	void (*run)(void);
	bool setting;
};

extern const struct kt_case kt_data_cases[];
extern const struct kt_case kt_mr_cases[];
extern const struct kt_case kt_inv_cases[];
extern const struct kt_case kt_post_cases[];
extern const struct kt_case kt_context_cases[];
extern const struct kt_case kt_cq_cases[];
extern const struct kt_case kt_refuse_cases[];
extern const struct kt_case kt_cm_cases[];
extern const struct kt_case kt_batch_cases[];
extern const struct kt_case kt_srq_cases[];
extern const struct kt_case kt_ext_cases[];
extern const struct kt_case kt_race_cases[];
extern const struct kt_case kt_end_cases[];
extern const struct kt_case kt_leave_cases[];

/**
 * struct kt_opts - options of a link; 0 means the usual
 * @poll: polling context of the completion queues
 * @handler: completion handler: the queues are made with ib_create_cq()
 * @cqe: entries of each completion queue
 * @send_wr: depth of the send queues
 * @recv_wr: depth of the receive queues
 * @sge: SGEs of a work request
 * @inl: bytes of inline data
 * @pd_flags: enum ib_pd_flags
 * @sig_all: each work request is signalled
 * @srq: entries of a shared receive queue of the end that accepts; 0: it has none
 */
struct kt_opts {
	enum ib_poll_context poll;
	ib_comp_handler handler;
	u32 cqe;
	u32 send_wr;
	u32 recv_wr;
	u32 sge;
	u32 inl;
	u32 pd_flags;
	bool sig_all;
	u32 srq;
};

/**
 * struct kt_end - one of the two queue pairs
 * @link: to which it belongs
 * @name: for facts
 * @id: of rdma_cm
 * @pd: its protection domain
 * @scq: where its sends complete
 * @rcq: where its receives complete
 * @srq: its shared receive queue, or NULL
 * @qp: the queue pair
 * @up: the connection is established, or @status says why not
 * @down: the connection has ended
 * @event: an asynchronous event came in
 * @status: why the connection was not established
 * @drained: by kt_drain()
 * @events: how many of each kind, of the queue pair and its queues
 */
struct kt_end {
	struct kt_link *link;
	const char *name;
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *scq;
	struct ib_cq *rcq;
	struct ib_srq *srq;
	struct ib_qp *qp;
	struct completion up;
	struct completion down;
	struct completion event;
	int status;
	bool drained;
	atomic_t events[KT_NR_EVENTS];
};

/**
 * struct kt_link - a connection, both ends of it
 * @opts: what was asked for
 * @listener: it accepted @b
 * @a: the end that connected
 * @b: the end that accepted
 * @arm_a: receive that waits at @a for the end of the connection
 * @arm_b: likewise at @b
 * @ops: all struct kt_op
 * @bufs: all struct kt_buf
 * @mrs: all struct kt_mr
 * @priv: the case's own
 */
struct kt_link {
	struct kt_opts opts;
	struct rdma_cm_id *listener;
	struct kt_end a;
	struct kt_end b;
	struct list_head ops;
	struct list_head bufs;
	struct list_head mrs;
	struct kt_op *arm_a;
	struct kt_op *arm_b;
	void *priv;
};

/**
 * struct kt_op - a work request under way
 * @list: in kt_link.ops
 * @cqe: calls its handler
 * @wc: its completion, once @done
 * @done: it has completed
 * @order: how many completed before it
 * @seen: enum kt_context in which the completion was handled
 */
struct kt_op {
	struct list_head list;
	struct ib_cqe cqe;
	struct ib_wc wc;
	struct completion done;
	int order;
	u32 seen;
};

/**
 * struct kt_buf - memory with guards on both sides
 * @list: in kt_link.bufs
 * @p: first byte
 * @len: bytes
 * @whole: the allocation
 */
struct kt_buf {
	struct list_head list;
	u8 *p;
	u32 len;
	u8 *whole;
};

/**
 * struct kt_mr - region for fast registration, and pages for it
 * @list: in kt_link.mrs
 * @mr: the region
 * @dev: that the pages are mapped for
 * @nr_pages: entries of @page
 * @page: @nr_pages of them, deliberately not contiguous
 * @sg: the pages, mapped
 */
struct kt_mr {
	struct list_head list;
	struct ib_mr *mr;
	struct ib_device *dev;
	u32 nr_pages;
	struct page **page;
	struct scatterlist *sg;
};

/* link.c */
struct kt_link *kt_open(const struct kt_opts *opts);
void kt_close(struct kt_link *l);
bool kt_wait_down(struct kt_link *l);
bool kt_wait_event(struct kt_end *e, enum ib_event_type type);
int kt_state(struct kt_end *e);
void kt_event(struct ib_event *ev, void *ctx);
const char *kt_server(void);
const char *kt_client(void);
int kt_addr(struct sockaddr_storage *addr, const char *text, int port);
struct rdma_cm_id *kt_bound_id(void);

/* cm.c */
int kt_stall(bool on);

/* leave.c */
int kt_late_init(void);
void kt_late_exit(void);
int kt_late_arm(void);
const char *kt_late_said(void);

/* op.c */
struct kt_op *kt_op(struct kt_link *l);
bool kt_wait(struct kt_end *e, struct kt_op *op);
bool kt_completes(struct kt_end *e, struct kt_op *op, enum ib_wc_status want,
		  const char *what);
void kt_poll(struct kt_end *e);
struct kt_buf *kt_buf(struct kt_link *l, u32 len);
void kt_fill(u8 *p, u32 len, u32 seed);
bool kt_is_filled(const u8 *p, u32 len, u32 seed);
bool kt_holds(const struct kt_buf *b, u32 off, u32 len, u32 seed);
struct ib_sge kt_sge(struct kt_end *e, const struct kt_buf *b, u32 off,
		     u32 len);
struct ib_rdma_wr kt_wr(enum ib_wr_opcode op, struct kt_op *o,
			struct ib_sge *sge, int n);
struct ib_rdma_wr kt_rdma(enum ib_wr_opcode op, struct kt_op *o,
			  struct ib_sge *sge, u64 addr, u32 rkey);
int kt_post(struct kt_end *e, const struct ib_rdma_wr *wr);
int kt_recv(struct kt_end *e, struct kt_op *o, struct ib_sge *sge, int n);
void kt_drain(struct kt_end *e);
void kt_arm(struct kt_link *l);
void kt_terminated(struct kt_link *l, struct kt_end *from, u16 code);

/* stop.c */
int kt_stop_begin(struct kt_link *l, int frames);
void kt_stop_end(void);

/* region.c */
struct kt_mr *kt_mr(struct kt_end *e, struct ib_pd *pd, u32 pages);
int kt_map(struct kt_mr *m);
struct ib_reg_wr kt_reg_wr(struct kt_mr *m, struct kt_op *o, int access);
int kt_post_reg(struct kt_end *e, struct kt_mr *m, struct kt_op *o, int access);
bool kt_reg(struct kt_end *e, struct kt_mr *m, int access);
int kt_post_inv(struct kt_end *e, struct kt_op *o, u32 stag);
bool kt_inv(struct kt_end *e, u32 stag);
void kt_mr_fill(struct kt_mr *m, u32 seed);
bool kt_mr_holds(struct kt_mr *m, u32 from, u32 to, u32 seed);
void kt_mr_free(struct kt_mr *m);

/* exporter.c */
void kt_exporter_init(struct dentry *dir);

/* context.c */
enum kt_context {
	KT_PROCESS,
	KT_SPINLOCK,
	KT_BH_OFF,
	KT_IRQS_OFF,
	KT_TASKLET,
	KT_TIMER,
	KT_IRQ_WORK,
	KT_HRTIMER,
	KT_NR_CONTEXTS,
};

/* Values of kt_op.seen. */
#define KT_SEEN_TASK	1
#define KT_SEEN_SOFTIRQ	2
#define KT_SEEN_HARDIRQ	3

void kt_in_context(enum kt_context c, void (*fn)(void *), void *arg);

#endif /* KT_KTEST_H */
