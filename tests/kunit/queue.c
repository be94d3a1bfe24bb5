// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Completion queues and shared receive queues: verbs/cq.c and verbs/srq.c, where
 * two contexts meet.
 */
#include <kunit/test.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "stag.h"
#include "verbs/qp.h"
#include "verbs/qp_named.h"

/* verbs/ring.c's, without a process that maps the memory. */
int kw_queue_mem_alloc(struct kw_queue_mem *a, size_t size,
		       struct ib_ucontext *uctx)
{
	*a = (struct kw_queue_mem){
		.mem = vzalloc(size), .size = PAGE_ALIGN(size),
	};
	return a->mem ? 0 : -ENOMEM;
}

void kw_queue_mem_free(struct kw_queue_mem *a)
{
	vfree(a->mem);
}

/* The queue pair's, of which no suite here has any. */
void kw_qp_fail(struct kw_qp *qp)
{
}

void kw_batch_begin(struct kw_cq *cq)
{
}

void kw_batch_end(struct kw_cq *cq)
{
}

void kw_batch_work(struct work_struct *work)
{
}

int kw_fill_recvs(const struct kw_ring *ring, u32 *post, const u32 *done,
		  u32 max_sge, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad)
{
	*bad = wr;
	return -EOPNOTSUPP;
}

/* Set by the handler of kt_cq(). */
static atomic_t kt_events;

static void kt_event(struct ib_cq *cq, void *ctx)
{
	atomic_inc(&kt_events);
}

/* A kernel consumer's, whose handler is called at once. */
static struct kw_cq *kt_cq(struct kunit *test)
{
	static struct ib_wc wc;
	struct kt_device *d = test->priv;
	struct kw_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	const struct ib_cq_init_attr attr = { .cqe = 8 };

	KUNIT_ASSERT_NOT_NULL(test, cq);
	cq->ib.device = &d->dev.ib;
	cq->ib.comp_handler = kt_event;
	cq->ib.wc = &wc;
	KUNIT_ASSERT_EQ(test, 0, kw_create_cq(&cq->ib, &attr, NULL));
	atomic_set(&kt_events, 0);
	return cq;
}

/*
 * A completion is posted, and announced a moment later. Moderation that is set
 * in between takes it for one of before. Its event comes all the same.
 */
static void kt_test_moderation_set_meanwhile(struct kunit *test)
{
	static const u16 counts[] = { 0, 2 };
	const struct kiwarp_cqe cqe = { .opcode = KIWARP_OP_SEND };
	struct kw_cq *cq = kt_cq(test);
	struct ib_qp qp = {};
	int i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		atomic_set(&kt_events, 0);
		kw_modify_cq(&cq->ib, 0, 0);
		kw_req_notify_cq(&cq->ib, IB_CQ_NEXT_COMP);
		kw_cq_post(cq, &qp, &cqe);
		kw_modify_cq(&cq->ib, counts[i], 100);
		kw_cq_notify(cq, false);
		KUNIT_EXPECT_TRUE(test, kt_until(atomic_read(&kt_events)));
		KUNIT_EXPECT_EQ(test, 1, atomic_read(&kt_events));
	}
	kw_destroy_cq(&cq->ib, NULL);
}

static int kt_names(void *qp)
{
	kw_qp_name(qp);
	return 0;
}

static int kt_was_named(void *qp)
{
	return kw_qp_was_named(qp);
}

static int kt_in_thread(struct kunit *test, int (*f)(void *), void *arg)
{
	struct task_struct *t = kthread_create(f, arg, "kiwarp-test");
	int ret;

	KUNIT_ASSERT_FALSE(test, IS_ERR(t));
	get_task_struct(t);
	wake_up_process(t);
	while (READ_ONCE(t->exit_state) == 0)
		schedule_timeout_uninterruptible(1);
	ret = kthread_stop(t);
	put_task_struct(t);
	return ret;
}

/*
 * A connection that failed before it used its queue pair leaves no right to
 * another thread, for whose call iw_cm may have got another of that number.
 */
static void kt_test_named_in_this_call(struct kunit *test)
{
	struct kw_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, qp);
	KUNIT_EXPECT_FALSE(test, kw_qp_was_named(qp));
	kw_qp_name(qp);
	KUNIT_EXPECT_TRUE(test, kw_qp_was_named(qp));
	KUNIT_EXPECT_FALSE(test, kw_qp_was_named(qp));

	kt_in_thread(test, kt_names, qp);
	KUNIT_EXPECT_FALSE(test, kw_qp_was_named(qp));
	kw_qp_name(qp);
	KUNIT_EXPECT_EQ(test, 0, kt_in_thread(test, kt_was_named, qp));
	KUNIT_EXPECT_TRUE(test, kw_qp_was_named(qp));
}

#define KT_SMALL	8192
#define KT_LARGE	32768
#define KT_TAKE		4
#define KT_TAKEN_MEANWHILE	200
#define KT_RESIZES	8

/**
 * struct kt_taker - takes entries in interrupts
 * @timer: its interrupts
 * @qp: for whom
 * @next: index of the entry that comes next
 * @wrong: entries that were not the next
 * @resizing: kw_modify_srq() is under way
 * @meanwhile: entries taken then
 */
struct kt_taker {
	struct hrtimer timer;
	struct kw_qp *qp;
	u32 next;
	u32 wrong;
	bool resizing;
	u32 meanwhile;
};

static enum hrtimer_restart kt_take_some(struct hrtimer *timer)
{
	struct kt_taker *t = container_of(timer, struct kt_taker, timer);
	struct kiwarp_sge sge[1];
	struct kw_recv r = { .sge = sge };
	int i;

	for (i = 0; i < KT_TAKE && kw_srq_take(t->qp, &r) == 1; i++) {
		if (r.wr_id != t->next)
			t->wrong++;
		WRITE_ONCE(t->next, t->next + 1);
		if (READ_ONCE(t->resizing))
			t->meanwhile++;
	}
	hrtimer_forward_now(timer, ns_to_ktime(100 * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

/* As a poster does: entries whose work request is their index. */
static void kt_post_entries(struct kw_srq *srq, u32 *post, u32 n)
{
	while (n--) {
		struct kiwarp_rqe *rqe = kw_ring_at(&srq->ring, *post);

		*rqe = (struct kiwarp_rqe){ .wr_id = (*post)++ };
		/* As user space: the entry first. Pairs with kw_srq_posted(). */
		smp_store_release(&kw_ctrl(&srq->ring)->producer, *post);
	}
}

static struct kw_srq *kt_srq(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct kw_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);
	struct ib_srq_init_attr init = {
		.attr = { .max_wr = KT_SMALL, .max_sge = 1 },
		.srq_type = IB_SRQT_BASIC,
	};

	KUNIT_ASSERT_NOT_NULL(test, srq);
	srq->ib.device = &d->dev.ib;
	KUNIT_ASSERT_EQ(test, 0, kw_create_srq(&srq->ib, &init, NULL));
	return srq;
}

/*
 * Entries are taken while the queue is resized: each comes once, and in order.
 * Those posted lie over the end of the ring, and over that of the indices. Few
 * enough are taken that there are some to copy each time.
 */
static void kt_test_srq_taken_while_resized(struct kunit *test)
{
	static const u32 sizes[] = { KT_LARGE, KT_SMALL };
	struct kw_srq *srq = kt_srq(test);
	struct kt_taker *t;
	struct ib_srq_attr attr;
	u32 post;
	int i;

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	t->qp = kunit_kzalloc(test, sizeof(*t->qp), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->qp);
	t->qp->srq = srq;
	t->next = -(KT_SMALL / 4);
	post = t->next;
	srq->next = t->next;
	kw_ctrl(&srq->ring)->producer = post;
	hrtimer_setup(&t->timer, kt_take_some, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL);
	kt_post_entries(srq, &post, KT_SMALL / 2);
	hrtimer_start(&t->timer, ns_to_ktime(100 * NSEC_PER_USEC),
		      HRTIMER_MODE_REL);
	for (i = 0; i < KT_RESIZES || t->meanwhile < KT_TAKEN_MEANWHILE; i++) {
		if (i == 2000)
			break;
		attr.max_wr = sizes[i % 2];
		kt_post_entries(srq, &post,
				KT_SMALL - (post - READ_ONCE(t->next)));
		WRITE_ONCE(t->resizing, true);
		KUNIT_EXPECT_EQ(test, 0, kw_modify_srq(&srq->ib, &attr,
						       IB_SRQ_MAX_WR, NULL));
		WRITE_ONCE(t->resizing, false);
	}
	KUNIT_EXPECT_TRUE(test, kt_until(READ_ONCE(t->next) == post));
	hrtimer_cancel(&t->timer);
	KUNIT_EXPECT_GE(test, t->meanwhile, KT_TAKEN_MEANWHILE);
	KUNIT_EXPECT_EQ(test, t->wrong, 0);
	KUNIT_EXPECT_EQ(test, kw_ctrl(&srq->ring)->consumer, post);
	KUNIT_EXPECT_EQ(test, kw_ctrl(&srq->ring)->producer, post);
	kw_destroy_srq(&srq->ib, NULL);
}

static void kt_queue_exit(struct kunit *test)
{
	struct kt_device *d = test->priv;

	if (d) {
		KUNIT_EXPECT_EQ(test, atomic_read(&d->dev.nr_cq), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&d->dev.nr_srq), 0);
	}
	kt_stag_exit(test);
}

static struct kunit_case kt_queue_cases[] = {
	KUNIT_CASE(kt_test_moderation_set_meanwhile),
	KUNIT_CASE(kt_test_named_in_this_call),
	KUNIT_CASE(kt_test_srq_taken_while_resized),
	{}
};

struct kunit_suite kt_queue_suite = {
	.name = "kiwarp_queue",
	.init = kt_stag_init,
	.exit = kt_queue_exit,
	.test_cases = kt_queue_cases,
};
