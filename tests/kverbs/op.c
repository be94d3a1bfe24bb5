// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Work requests, their completions, and their memory.
 */
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "ktest.h"

#define KT_GUARD_BYTE	0xa5

static atomic_t kt_order;

static void kt_op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kt_op *o = container_of(wc->wr_cqe, struct kt_op, cqe);

	o->wc = *wc;
	o->order = atomic_inc_return(&kt_order);
	o->seen = in_hardirq() ? KT_SEEN_HARDIRQ :
		  in_serving_softirq() ? KT_SEEN_SOFTIRQ : KT_SEEN_TASK;
	complete(&o->done);
}

/**
 * kt_op() - an operation for a work request
 * @l: link to which it belongs
 *
 * Context: process.
 * Return: the operation; freed with the link.
 */
struct kt_op *kt_op(struct kt_link *l)
{
	struct kt_op *o = kzalloc(sizeof(*o), GFP_KERNEL | __GFP_NOFAIL);

	o->cqe.done = kt_op_done;
	init_completion(&o->done);
	list_add(&o->list, &l->ops);
	return o;
}

/**
 * kt_poll() - poll an end's queues, if they are polled directly
 * @e: end
 *
 * Context: any.
 */
void kt_poll(struct kt_end *e)
{
	ib_process_cq_direct(e->scq, -1);
	ib_process_cq_direct(e->rcq, -1);
}

/**
 * kt_wait() - wait for a completion
 * @e: end at which the work was posted
 * @op: the operation
 *
 * Context: process.
 * Return: false after a time-out.
 */
bool kt_wait(struct kt_end *e, struct kt_op *op)
{
	unsigned long end = jiffies + KT_TIMEOUT;

	if (!e->link->opts.handler && e->link->opts.poll != IB_POLL_DIRECT)
		return wait_for_completion_timeout(&op->done, KT_TIMEOUT);
	while (!try_wait_for_completion(&op->done)) {
		if (time_after(jiffies, end))
			return false;
		kt_poll(e);
		usleep_range(50, 100);
	}
	return true;
}

/**
 * kt_completes() - state the fact that an operation has the expected result
 * @e: end at which it was posted
 * @op: the operation
 * @want: the expected status
 * @what: what it is
 *
 * Context: process.
 * Return: whether it does.
 */
bool kt_completes(struct kt_end *e, struct kt_op *op, enum ib_wc_status want,
		  const char *what)
{
	if (!kt_wait(e, op))
		return kt_fact(false, "%s completes", what);
	return kt_equal(op->wc.status, want, "%s: %s", what,
			ib_wc_status_msg(want));
}

/**
 * kt_buf() - memory with guards
 * @l: link to which it belongs
 * @len: bytes
 *
 * Context: process.
 * Return: the memory; freed with the link.
 */
struct kt_buf *kt_buf(struct kt_link *l, u32 len)
{
	struct kt_buf *b = kzalloc(sizeof(*b), GFP_KERNEL | __GFP_NOFAIL);

	b->whole = kvmalloc(len + 2 * KT_GUARD, GFP_KERNEL | __GFP_NOFAIL);
	memset(b->whole, KT_GUARD_BYTE, len + 2 * KT_GUARD);
	b->p = b->whole + KT_GUARD;
	b->len = len;
	list_add(&b->list, &l->bufs);
	return b;
}

static u8 kt_byte(u32 seed, u32 i)
{
	return (seed + i) * 2654435761U >> 23;
}

/**
 * kt_fill() - write a pattern
 * @p: first byte
 * @len: bytes
 * @seed: of the pattern; the byte at i of one is that at 0 of seed + i
 */
void kt_fill(u8 *p, u32 len, u32 seed)
{
	u32 i;

	for (i = 0; i < len; i++)
		p[i] = kt_byte(seed, i);
}

/**
 * kt_is_filled() - compare memory with a pattern
 * @p: first byte
 * @len: bytes
 * @seed: of the pattern
 *
 * Return: whether each byte is right.
 */
bool kt_is_filled(const u8 *p, u32 len, u32 seed)
{
	u32 i;

	for (i = 0; i < len; i++) {
		if (p[i] != kt_byte(seed, i))
			return false;
	}
	return true;
}

/**
 * kt_holds() - compare a buffer and its surroundings with the expected bytes
 * @b: the buffer, from kt_buf()
 * @off: where the pattern begins
 * @len: bytes of the pattern
 * @seed: of the pattern
 *
 * Return: whether the pattern is there and all around it is untouched.
 */
bool kt_holds(const struct kt_buf *b, u32 off, u32 len, u32 seed)
{
	u8 *end = b->p + off + len;

	return kt_is_filled(b->p + off, len, seed) &&
	       !memchr_inv(b->whole, KT_GUARD_BYTE, KT_GUARD + off) &&
	       !memchr_inv(end, KT_GUARD_BYTE,
			   b->len - off - len + KT_GUARD);
}

/**
 * kt_sge() - an SGE for a part of a buffer
 * @e: end at which it is to be used
 * @b: the buffer
 * @off: where the part begins
 * @len: bytes
 *
 * Return: the SGE, with the protection domain's local_dma_lkey.
 */
struct ib_sge kt_sge(struct kt_end *e, const struct kt_buf *b, u32 off, u32 len)
{
	return (struct ib_sge){
		.addr = ib_dma_map_single(e->id->device, b->p + off, len,
					  DMA_BIDIRECTIONAL),
		.length = len,
		.lkey = e->pd->local_dma_lkey,
	};
}

/**
 * kt_wr() - a signalled work request
 * @op: opcode
 * @o: operation
 * @sge: SGEs
 * @n: how many
 *
 * Return: the work request.
 */
struct ib_rdma_wr kt_wr(enum ib_wr_opcode op, struct kt_op *o,
			struct ib_sge *sge, int n)
{
	return (struct ib_rdma_wr){
		.wr.wr_cqe = &o->cqe,
		.wr.sg_list = sge,
		.wr.num_sge = n,
		.wr.opcode = op,
		.wr.send_flags = IB_SEND_SIGNALED,
	};
}

/**
 * kt_rdma() - a signalled work request with one SGE for the peer's memory
 * @op: opcode
 * @o: operation
 * @sge: SGE
 * @addr: the peer's memory
 * @rkey: its STag
 *
 * Return: the work request.
 */
struct ib_rdma_wr kt_rdma(enum ib_wr_opcode op, struct kt_op *o,
			  struct ib_sge *sge, u64 addr, u32 rkey)
{
	struct ib_rdma_wr wr = kt_wr(op, o, sge, 1);

	wr.remote_addr = addr;
	wr.rkey = rkey;
	return wr;
}

/**
 * kt_post() - post a work request, or a list of them
 * @e: end
 * @wr: the first
 *
 * Context: any.
 * Return: ib_post_send()'s.
 */
int kt_post(struct kt_end *e, const struct ib_rdma_wr *wr)
{
	return ib_post_send(e->qp, &wr->wr, NULL);
}

/**
 * kt_recv() - post a receive
 * @e: end
 * @o: operation
 * @sge: SGEs
 * @n: how many
 *
 * Context: any.
 * Return: ib_post_recv()'s.
 */
int kt_recv(struct kt_end *e, struct kt_op *o, struct ib_sge *sge, int n)
{
	struct ib_recv_wr wr = {
		.wr_cqe = &o->cqe,
		.sg_list = sge,
		.num_sge = n,
	};

	return ib_post_recv(e->qp, &wr, NULL);
}

/**
 * kt_drain() - wait until all that is posted at an end is complete
 * @e: end
 *
 * As ib_drain_qp(), which needs a handler of ours to poll. With a shared receive
 * queue once only: that waits for an event that does not come again.
 *
 * Context: process.
 */
void kt_drain(struct kt_end *e)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct kt_op *o = kt_op(e->link), *r = kt_op(e->link);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, o, NULL, 0);

	if (e->drained && e->srq)
		return;
	e->drained = true;
	if (!e->link->opts.handler) {
		ib_drain_qp(e->qp);
		return;
	}
	if (ib_modify_qp(e->qp, &attr, IB_QP_STATE) || kt_post(e, &wr) ||
	    !kt_wait(e, o) || kt_recv(e, r, NULL, 0) || !kt_wait(e, r))
		kt_fact(false, "%s drains", e->name);
}

/**
 * kt_arm() - post a receive at both ends that shows the end of the connection
 * @l: link
 *
 * Context: process.
 */
void kt_arm(struct kt_link *l)
{
	l->arm_a = kt_op(l);
	l->arm_b = kt_op(l);
	kt_equal(kt_recv(&l->a, l->arm_a, NULL, 0), 0, "receive posted at a");
	kt_equal(kt_recv(&l->b, l->arm_b, NULL, 0), 0, "receive posted at b");
}

/**
 * kt_terminated() - state the facts of a connection that one end has ended
 * @l: link; kt_arm() was called
 * @from: the end that found the error
 * @code: enum kw_term_code of its Terminate
 *
 * Context: process.
 */
void kt_terminated(struct kt_link *l, struct kt_end *from, u16 code)
{
	u32 at_a = from == &l->a ? KIWARP_TERM_SENT : KIWARP_TERM_RECEIVED;
	u32 at_b = from == &l->b ? KIWARP_TERM_SENT : KIWARP_TERM_RECEIVED;

	if (kt_completes(&l->a, l->arm_a, IB_WC_WR_FLUSH_ERR, "receive at a"))
		kt_equal(l->arm_a->wc.vendor_err, at_a | code, "Terminate at a");
	if (kt_completes(&l->b, l->arm_b, IB_WC_WR_FLUSH_ERR, "receive at b"))
		kt_equal(l->arm_b->wc.vendor_err, at_b | code, "Terminate at b");
	kt_fact(kt_wait_down(l), "both ends are told");
	kt_equal(kt_state(&l->a), IB_QPS_ERR, "state of a");
	kt_equal(kt_state(&l->b), IB_QPS_ERR, "state of b");
}
