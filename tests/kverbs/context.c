// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Posting and polling from each context that the kernel has.
 */
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/timer.h>

#include "ktest.h"
#include "versions.h"

#define KT_RW	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
		 IB_ACCESS_REMOTE_WRITE)
#define KT_LEN	5000

/* The function to call, for contexts that need a structure for it. */
struct kt_call {
	void (*fn)(void *arg);
	void *arg;
	struct completion done;
	struct tasklet_struct tasklet;
	struct timer_list timer;
	struct hrtimer hrtimer;
	struct irq_work irq_work;
};

static void kt_call_run(struct kt_call *c)
{
	c->fn(c->arg);
	complete(&c->done);
}

static void kt_call_tasklet(struct tasklet_struct *t)
{
	kt_call_run(container_of(t, struct kt_call, tasklet));
}

static void kt_call_timer(struct timer_list *t)
{
	kt_call_run(container_of(t, struct kt_call, timer));
}

static void kt_call_irq_work(struct irq_work *w)
{
	kt_call_run(container_of(w, struct kt_call, irq_work));
}

static enum hrtimer_restart kt_call_hrtimer(struct hrtimer *t)
{
	kt_call_run(container_of(t, struct kt_call, hrtimer));
	return HRTIMER_NORESTART;
}

static void kt_deferred(enum kt_context context, struct kt_call *c)
{
	switch (context) {
	case KT_TASKLET:
		tasklet_setup(&c->tasklet, kt_call_tasklet);
		tasklet_schedule(&c->tasklet);
		wait_for_completion(&c->done);
		tasklet_kill(&c->tasklet);
		break;
	case KT_TIMER:
		timer_setup_on_stack(&c->timer, kt_call_timer, 0);
		mod_timer(&c->timer, jiffies);
		wait_for_completion(&c->done);
		timer_delete_sync(&c->timer);
		timer_destroy_on_stack(&c->timer);
		break;
	case KT_IRQ_WORK:
		c->irq_work = IRQ_WORK_INIT_HARD(kt_call_irq_work);
		irq_work_queue(&c->irq_work);
		wait_for_completion(&c->done);
		irq_work_sync(&c->irq_work);
		break;
	default:
		hrtimer_setup_on_stack(&c->hrtimer, kt_call_hrtimer,
				       CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
		hrtimer_start(&c->hrtimer, 0, HRTIMER_MODE_REL_HARD);
		wait_for_completion(&c->done);
		hrtimer_cancel(&c->hrtimer);
		destroy_hrtimer_on_stack(&c->hrtimer);
	}
}

/**
 * kt_in_context() - call a function in a context
 * @context: which one
 * @fn: the function
 * @arg: its argument
 *
 * Context: process; returns when @fn has.
 */
void kt_in_context(enum kt_context context, void (*fn)(void *), void *arg)
{
	struct kt_call c = {
		.fn = fn,
		.arg = arg,
		.done = COMPLETION_INITIALIZER_ONSTACK(c.done),
	};
	static DEFINE_SPINLOCK(lock);
	unsigned long flags;

	switch (context) {
	case KT_PROCESS:
		fn(arg);
		break;
	case KT_SPINLOCK:
		spin_lock(&lock);
		fn(arg);
		spin_unlock(&lock);
		break;
	case KT_BH_OFF:
		local_bh_disable();
		fn(arg);
		local_bh_enable();
		break;
	case KT_IRQS_OFF:
		spin_lock_irqsave(&lock, flags);
		fn(arg);
		spin_unlock_irqrestore(&lock, flags);
		break;
	default:
		kt_deferred(context, &c);
	}
}

static const char *const kt_context_names[KT_NR_CONTEXTS] = {
	[KT_PROCESS] = "a process",
	[KT_SPINLOCK] = "a process with a spin lock",
	[KT_BH_OFF] = "a process with softirqs off",
	[KT_IRQS_OFF] = "a process with interrupts off",
	[KT_TASKLET] = "a tasklet",
	[KT_TIMER] = "a timer",
	[KT_IRQ_WORK] = "a hard interrupt",
	[KT_HRTIMER] = "a timer's hard interrupt",
};

/**
 * struct kt_scene - all kinds of work, to be posted in one context
 * @l: link
 * @m: region of b's
 * @reg: registers it
 * @recv: of b's
 * @write: a writes to the region
 * @read: a reads from it
 * @send: a sends
 * @inv: b withdraws the region
 * @ret: what posting returned, the first error
 * @src: what @write and @send send
 * @dst: what @recv receives into
 * @back: what @read reads into
 * @sge: of @src
 * @rsge: of @dst
 * @bsge: of @back
 */
struct kt_scene {
	struct kt_link *l;
	struct kt_mr *m;
	struct kt_buf *src, *dst, *back;
	struct ib_sge sge, rsge, bsge;
	struct kt_op *reg, *recv, *write, *read, *send, *inv;
	int ret;
};

static void kt_post_at_b(void *arg)
{
	struct kt_scene *s = arg;
	int mapped = kt_map(s->m);

	s->ret = mapped == s->m->nr_pages ? 0 : -EINVAL;
	s->ret = s->ret ?: kt_post_reg(&s->l->b, s->m, s->reg, KT_RW);
	s->ret = s->ret ?: kt_recv(&s->l->b, s->recv, &s->rsge, 1);
}

static void kt_post_at_a(void *arg)
{
	struct kt_scene *s = arg;
	struct ib_rdma_wr send = kt_wr(IB_WR_SEND, s->send, &s->sge, 1);
	struct ib_rdma_wr read = kt_rdma(IB_WR_RDMA_READ, s->read, &s->bsge,
					 s->m->mr->iova, s->m->mr->rkey);
	struct ib_rdma_wr write = kt_rdma(IB_WR_RDMA_WRITE, s->write, &s->sge,
					  s->m->mr->iova, s->m->mr->rkey);

	write.wr.next = &read.wr;
	read.wr.next = &send.wr;
	s->ret = kt_post(&s->l->a, &write);
}

static void kt_inv_at_b(void *arg)
{
	struct kt_scene *s = arg;

	s->ret = kt_post_inv(&s->l->b, s->inv, s->m->mr->rkey);
}

static void kt_scene_init(struct kt_scene *s, struct kt_link *l,
			  struct kt_mr *m, u32 seed)
{
	*s = (struct kt_scene){
		.l = l,
		.m = m,
		.src = kt_buf(l, KT_LEN),
		.dst = kt_buf(l, KT_LEN),
		.back = kt_buf(l, KT_LEN),
		.reg = kt_op(l),
		.recv = kt_op(l),
		.write = kt_op(l),
		.read = kt_op(l),
		.send = kt_op(l),
		.inv = kt_op(l),
	};
	s->sge = kt_sge(&l->a, s->src, 0, KT_LEN);
	s->rsge = kt_sge(&l->b, s->dst, 0, KT_LEN);
	s->bsge = kt_sge(&l->a, s->back, 0, KT_LEN);
	kt_fill(s->src->p, KT_LEN, seed);
}

static void kt_scene_facts(struct kt_scene *s, enum kt_context c, u32 seed)
{
	const char *where = kt_context_names[c];
	struct kt_link *l = s->l;

	kt_in_context(c, kt_post_at_b, s);
	if (!kt_equal(s->ret, 0, "REG_MR and receive posted by %s", where) ||
	    !kt_completes(&l->b, s->reg, IB_WC_SUCCESS, "REG_MR"))
		return;
	kt_in_context(c, kt_post_at_a, s);
	if (!kt_equal(s->ret, 0, "Write, Read, Send posted by %s", where) ||
	    !kt_completes(&l->a, s->write, IB_WC_SUCCESS, "Write") ||
	    !kt_completes(&l->a, s->read, IB_WC_SUCCESS, "Read") ||
	    !kt_completes(&l->a, s->send, IB_WC_SUCCESS, "Send") ||
	    !kt_completes(&l->b, s->recv, IB_WC_SUCCESS, "receive"))
		return;
	kt_fact(s->write->order < s->read->order &&
		s->read->order < s->send->order,
		"completions in the order of posting");
	kt_fact(kt_mr_holds(s->m, 0, KT_LEN, seed) &&
		kt_holds(s->dst, 0, KT_LEN, seed) &&
		kt_holds(s->back, 0, KT_LEN, seed),
		"posted by %s, each byte", where);
	kt_in_context(c, kt_inv_at_b, s);
	if (kt_equal(s->ret, 0, "LOCAL_INV posted by %s", where))
		kt_completes(&l->b, s->inv, IB_WC_SUCCESS, "LOCAL_INV");
}

static void kt_posting_of(enum ib_poll_context poll)
{
	struct kt_link *l = kt_open(&(struct kt_opts){ .poll = poll });
	enum kt_context c;
	struct kt_scene s;
	struct kt_mr *m;

	if (!l)
		return;
	m = kt_mr(&l->b, NULL, 2);
	for (c = 0; m && c < KT_NR_CONTEXTS; c++) {
		kt_scene_init(&s, l, m, c + 1);
		kt_scene_facts(&s, c, c + 1);
	}
	kt_close(l);
}

static void kt_posting(void)
{
	kt_posting_of(IB_POLL_WORKQUEUE);
	kt_posting_of(IB_POLL_SOFTIRQ);
}

static void kt_poll_a(void *arg)
{
	kt_poll(arg);
}

/* Queues that nothing else polls, polled in each context. */
static void kt_polling(void)
{
	struct kt_link *l = kt_open(&(struct kt_opts){
		.poll = IB_POLL_DIRECT });
	unsigned long end;
	enum kt_context c;
	struct kt_op *o, *r;
	struct ib_rdma_wr wr;

	if (!l)
		return;
	for (c = 0; c < KT_NR_CONTEXTS; c++) {
		o = kt_op(l);
		r = kt_op(l);
		wr = kt_wr(IB_WR_SEND, o, NULL, 0);
		kt_equal(kt_recv(&l->b, r, NULL, 0), 0, "receive posted");
		kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
		end = jiffies + KT_TIMEOUT;
		while (!completion_done(&o->done) && time_before(jiffies, end)) {
			kt_in_context(c, kt_poll_a, &l->a);
			cond_resched();
		}
		kt_fact(completion_done(&o->done) &&
			o->wc.status == IB_WC_SUCCESS,
			"polled by %s", kt_context_names[c]);
		kt_completes(&l->b, r, IB_WC_SUCCESS, "receive");
	}
	kt_close(l);
}

#define KT_MANY	60

struct kt_storm {
	struct hrtimer timer;
	struct kt_link *l;
	struct kt_op **op;
	int next, ret;
};

static enum hrtimer_restart kt_storm_timer(struct hrtimer *t)
{
	struct kt_storm *s = container_of(t, struct kt_storm, timer);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, s->op[s->next], NULL, 0);

	s->ret = s->ret ?: kt_post(&s->l->b, &wr);
	if (++s->next == KT_MANY)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(t, ns_to_ktime(200 * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

static void kt_storm_facts(struct kt_storm *s, struct kt_op **recv,
			   struct kt_op **mine, struct kt_op **far)
{
	struct ib_rdma_wr wr;
	int i, bad = 0;

	for (i = 0; i < KT_MANY; i++) {
		bad += !!kt_recv(&s->l->a, recv[i], NULL, 0);
		bad += !!kt_recv(&s->l->b, far[i], NULL, 0);
	}
	hrtimer_start(&s->timer, 0, HRTIMER_MODE_REL_HARD);
	for (i = 0; i < KT_MANY; i++) {
		wr = kt_wr(IB_WR_SEND, mine[i], NULL, 0);
		bad += !!kt_post(&s->l->a, &wr);
	}
	for (i = 0; i < KT_MANY; i++) {
		bad += !kt_wait(&s->l->a, recv[i]) ||
		       recv[i]->wc.status != IB_WC_SUCCESS;
		bad += !kt_wait(&s->l->b, far[i]) ||
		       far[i]->wc.status != IB_WC_SUCCESS;
	}
	kt_equal(bad, 0, "Sends both ways by a process and by interrupts");
	for (i = 0, bad = 0; i < KT_MANY; i++)
		bad += !kt_wait(&s->l->b, s->op[i]) ||
		       !kt_wait(&s->l->a, mine[i]);
	kt_equal(bad, 0, "all are complete");
	kt_equal(s->ret, 0, "posted by interrupts");
}

static void kt_storm(void)
{
	static struct kt_op *op[4][KT_MANY];
	struct kt_storm s = { .op = op[0] };
	int i, j;

	s.l = kt_open(&(struct kt_opts){ .poll = IB_POLL_SOFTIRQ });
	if (!s.l)
		return;
	for (i = 0; i < ARRAY_SIZE(op); i++)
		for (j = 0; j < KT_MANY; j++)
			op[i][j] = kt_op(s.l);
	hrtimer_setup_on_stack(&s.timer, kt_storm_timer, CLOCK_MONOTONIC,
			       HRTIMER_MODE_REL_HARD);
	kt_storm_facts(&s, op[1], op[2], op[3]);
	hrtimer_cancel(&s.timer);
	destroy_hrtimer_on_stack(&s.timer);
	kt_close(s.l);
}

const struct kt_case kt_context_cases[] = {
	{ "context.post", kt_posting },
	{ "context.poll", kt_polling },
	{ "context.storm", kt_storm },
	{}
};
