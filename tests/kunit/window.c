// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Memory windows: verbs/mw.c.
 */
#include <kunit/test.h>
#include <linux/mman.h>
#include <linux/slab.h>

#include "compat.h"
#include "stag.h"

#define KT_BASE_ADDR	0xabc000ULL
#define KT_REGION	(3 * PAGE_SIZE)
#define KT_BINDABLE	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND)
#define KT_REMOTE_BOTH	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ)

/* A process's region, whose memory is not of one piece in the kernel's. */
static struct ib_mr *kt_user_region(struct kunit *test, struct kw_pd *pd,
				    u32 access)
{
	unsigned long start = kunit_vm_mmap(test, NULL, 0, KT_REGION,
					    PROT_READ | PROT_WRITE,
					    MAP_ANONYMOUS | MAP_PRIVATE, 0);
	struct ib_mr *mr;

	KUNIT_ASSERT_NE(test, start, 0);
	mr = kw_reg_user_mr(&pd->ib, start, KT_REGION, KT_BASE_ADDR, access);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	mr->device = pd->ib.device;
	mr->pd = &pd->ib;
	return mr;
}

/* What the RDMA core allocates, and frees in its time. */
static struct kw_mw *kt_window(struct kunit *test, struct kw_pd *pd,
			       enum ib_mw_type type)
{
	struct kw_mw *mw = kunit_kzalloc(test, sizeof(*mw), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mw);
	mw->ib.device = pd->ib.device;
	mw->ib.pd = &pd->ib;
	mw->ib.type = type;
	KUNIT_ASSERT_EQ(test, 0, kw_alloc_mw(&mw->ib, NULL));
	KUNIT_EXPECT_EQ(test, mw->ib.rkey, mw->window->mem.stag);
	return mw;
}

/* All of the region but its first 100 bytes, for the stream &d->pd. */
static struct kw_wqe kt_bind_wqe(const struct kw_mw *mw, const struct ib_mr *mr)
{
	return (struct kw_wqe){
		.rkey = mw->ib.rkey,
		.raddr = KT_BASE_ADDR + 100,
		.bind = {
			.len = KT_REGION - 100,
			.access = KT_REMOTE_BOTH,
			.lkey = mr->lkey,
		},
	};
}

static int kt_bind(struct kt_device *d, const struct kw_wqe *w)
{
	int idx = srcu_read_lock(&d->dev.domain.srcu);
	int ret = kw_mw_bind(&d->dev, &d->pd, d, &d->windows, w);

	srcu_read_unlock(&d->dev.domain.srcu, idx);
	return ret;
}

/* Is each byte of the window the region's? */
static void kt_expect_shifted(struct kunit *test, const struct kw_mem *win,
			      const struct kw_mem *region, u64 shift)
{
	u32 last = 0, other = 0;
	u64 off;

	for (off = 0; off < win->len; off++) {
		struct kw_run run = kw_mem_at(win, off, &last);

		if (run.va == kw_mem_at(region, off + shift, &other).va &&
		    run.len && run.len <= region->len - off - shift)
			continue;
		KUNIT_FAIL(test, "byte %llu", off);
		return;
	}
}

static void kt_test_window_bytes(struct kunit *test)
{
	static const u64 cuts[][2] = {
		{ 0, KT_REGION }, { 100, KT_REGION - 100 }, { 100, 1 },
		{ PAGE_SIZE, PAGE_SIZE }, { PAGE_SIZE - 1, PAGE_SIZE + 2 },
	};
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_user_region(test, &d->pd, KT_BINDABLE);
	struct kw_mw *mw = kt_window(test, &d->pd, IB_MW_TYPE_1);
	struct kw_wqe w = kt_bind_wqe(mw, mr);
	struct kw_mem *mem;
	u32 i;

	KUNIT_EXPECT_NULL(test, kt_lookup(d, mw->ib.rkey));
	for (i = 0; i < 2 * ARRAY_SIZE(cuts); i++) {
		u64 shift = cuts[i / 2][0];

		w.rkey = mw->ib.rkey ^ (i + 1);
		w.raddr = KT_BASE_ADDR + shift;
		w.bind.len = cuts[i / 2][1];
		w.bind.access = KT_REMOTE_BOTH | (i % 2 ? IB_ZERO_BASED : 0);
		KUNIT_ASSERT_EQ(test, 0, kt_bind(d, &w));
		/* Under the new key alone. */
		KUNIT_EXPECT_NULL(test, kt_lookup(d, mw->ib.rkey ^ i));
		mem = kt_lookup(d, w.rkey);
		KUNIT_ASSERT_NOT_NULL(test, mem);
		KUNIT_EXPECT_EQ(test, mem->base, i % 2 ? 0 : w.raddr);
		KUNIT_EXPECT_EQ(test, mem->len, w.bind.len);
		KUNIT_EXPECT_NULL(test, mem->stream);
		kt_expect_shifted(test, mem, &to_kw_mr(mr)->mem, shift);
	}
	/* Another domain finds that there is one, but no memory. */
	mem = kw_mem_lookup(&d->dev, &d->other_pd, w.rkey);
	KUNIT_ASSERT_NOT_NULL(test, mem);
	KUNIT_EXPECT_NULL(test, mem->pd);
	kw_dealloc_mw(&mw->ib);
	KUNIT_EXPECT_NULL(test, kt_lookup(d, w.rkey));
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(mr, NULL));
}

/* What differs from a request that is right, and why it is refused. */
struct kt_bad_bind {
	int ret;
	u32 rkey, lkey;
	u64 raddr, len;
	u32 access;
};

static void kt_expect_refused(struct kunit *test, struct kw_wqe w,
			      const struct kt_bad_bind *bad)
{
	w.rkey ^= bad->rkey;
	w.bind.lkey ^= bad->lkey;
	w.raddr += bad->raddr;
	w.bind.len += bad->len;
	w.bind.access |= bad->access;
	KUNIT_EXPECT_EQ(test, bad->ret, kt_bind(test->priv, &w));
	KUNIT_EXPECT_NULL(test, kt_lookup(test->priv, w.rkey));
}

static void kt_test_window_refusals(struct kunit *test)
{
	static const struct kt_bad_bind bad[] = {
		{ .ret = -ENOENT, .rkey = 0x5a5a5a00 },
		{ .ret = -ENOENT, .lkey = 0x5a5a5a00 },
		{ .ret = -ENOENT, .lkey = 1 },
		{ .ret = -ERANGE, .raddr = 1 },
		{ .ret = -ERANGE, .raddr = -101ULL },
		{ .ret = -ERANGE, .len = 1 },
		{ .ret = -ERANGE, .len = U64_MAX - KT_REGION + 100 },
		{ .ret = -EINVAL, .len = -(KT_REGION - 100) },
		{ .ret = -EOPNOTSUPP, .access = IB_ACCESS_MW_BIND },
	};
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_user_region(test, &d->pd, KT_BINDABLE);
	struct ib_mr *read_only = kt_user_region(test, &d->pd,
						 IB_ACCESS_MW_BIND);
	struct ib_mr *closed = kt_user_region(test, &d->pd, KT_RIGHTS);
	struct ib_mr *foreign = kt_user_region(test, &d->other_pd, KT_BINDABLE);
	struct kw_mw *mw = kt_window(test, &d->pd, IB_MW_TYPE_2);
	struct kw_mw *other = kt_window(test, &d->other_pd, IB_MW_TYPE_2);
	struct kw_mw *other_type1 = kt_window(test, &d->other_pd, IB_MW_TYPE_1);
	struct kw_wqe w = kt_bind_wqe(mw, mr);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		kt_expect_refused(test, w, &bad[i]);
	w.bind.lkey = closed->lkey;
	KUNIT_EXPECT_EQ(test, -EACCES, kt_bind(d, &w));
	w.bind.lkey = foreign->lkey;
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_bind(d, &w));
	/* Peers may write only where the consumer may. */
	w.bind.lkey = read_only->lkey;
	KUNIT_EXPECT_EQ(test, -EACCES, kt_bind(d, &w));
	w.bind.access = IB_ACCESS_REMOTE_ATOMIC;
	KUNIT_EXPECT_EQ(test, -EACCES, kt_bind(d, &w));
	KUNIT_EXPECT_NULL(test, kt_lookup(d, w.rkey));
	w.bind.access = IB_ACCESS_REMOTE_READ;
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w));
	/* Not before it is invalidated, whatever the key. */
	w.rkey ^= 1;
	KUNIT_EXPECT_EQ(test, -EBUSY, kt_bind(d, &w));
	KUNIT_EXPECT_NULL(test, kt_lookup(d, w.rkey));
	w.rkey ^= 1;
	KUNIT_EXPECT_NOT_NULL(test, kt_lookup(d, w.rkey));
	/* A window is no region, and a region no window. */
	w = kt_bind_wqe(other, mr);
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_bind(d, &w));
	w.rkey = closed->rkey;
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_bind(d, &w));
	w.bind.len = 0;
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_bind(d, &w));
	/* To take a binding away names no region, but needs the window's domain. */
	w = kt_bind_wqe(other_type1, mr);
	w.bind.len = 0;
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_bind(d, &w));
	kw_dealloc_mw(&other_type1->ib);
	kw_dealloc_mw(&other->ib);
	other = kt_window(test, &d->pd, IB_MW_TYPE_1);
	w = kt_bind_wqe(other, mr);
	w.bind.lkey = mw->ib.rkey;
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_bind(d, &w));

	kw_dealloc_mw(&other->ib);
	kw_dealloc_mw(&mw->ib);
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(mr, NULL));
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(read_only, NULL));
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(closed, NULL));
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(foreign, NULL));
}

static void kt_test_window_invalidate(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_user_region(test, &d->pd, KT_BINDABLE);
	struct kw_mw *mw1 = kt_window(test, &d->pd, IB_MW_TYPE_1);
	struct kw_mw *mw2 = kt_window(test, &d->pd, IB_MW_TYPE_2);
	struct kw_wqe w1 = kt_bind_wqe(mw1, mr);
	struct kw_wqe w2 = kt_bind_wqe(mw2, mr);
	int i;

	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w1));
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w2));
	KUNIT_EXPECT_PTR_EQ(test, kt_lookup(d, w2.rkey)->stream, (void *)d);
	for (i = 0; i < 2; i++) {
		/* All streams share the one; only one stream has the other. */
		KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
				kw_mem_invalidate(&d->dev, &d->pd, d, w1.rkey,
						  i));
		KUNIT_EXPECT_EQ(test, -EACCES,
				kw_mem_invalidate(&d->dev, &d->pd, test,
						  w2.rkey, i));
		KUNIT_EXPECT_EQ(test, -EACCES,
				kw_mem_invalidate(&d->dev, &d->other_pd, d,
						  w2.rkey, i));
		KUNIT_EXPECT_EQ(test, -ENOENT,
				kw_mem_invalidate(&d->dev, &d->pd, d,
						  w2.rkey ^ 1, i));
		KUNIT_EXPECT_NOT_NULL(test, kt_lookup(d, w1.rkey));
		KUNIT_EXPECT_NOT_NULL(test, kt_lookup(d, w2.rkey));
	}
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, 0,
				kw_mem_invalidate(&d->dev, &d->pd, d, w2.rkey,
						  i));
		KUNIT_EXPECT_NULL(test, kt_lookup(d, w2.rkey));
		KUNIT_EXPECT_EQ(test, -ENOENT,
				kw_mem_invalidate(&d->dev, &d->pd, d, w2.rkey,
						  i));
		KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w2));
	}
	/* A peer withdraws only what it may access. */
	kw_mem_invalidate(&d->dev, &d->pd, d, w2.rkey, false);
	w2.bind.access = 0;
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w2));
	KUNIT_EXPECT_EQ(test, -EPERM,
			kw_mem_invalidate(&d->dev, &d->pd, d, w2.rkey, true));
	KUNIT_EXPECT_EQ(test, 0,
			kw_mem_invalidate(&d->dev, &d->pd, d, w2.rkey, false));
	kw_dealloc_mw(&mw1->ib);
	kw_dealloc_mw(&mw2->ib);
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(mr, NULL));
}

/* A region stays as long as a window is bound to it, however that ends. */
static void kt_test_window_keeps_region(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_user_region(test, &d->pd, KT_BINDABLE);
	struct ib_mr *next = kt_user_region(test, &d->pd, KT_BINDABLE);
	struct kw_mw *mw1 = kt_window(test, &d->pd, IB_MW_TYPE_1);
	struct kw_mw *mw2 = kt_window(test, &d->pd, IB_MW_TYPE_2);
	struct kw_wqe w1 = kt_bind_wqe(mw1, mr);
	struct kw_wqe w2 = kt_bind_wqe(mw2, mr);

	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w1));
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w2));
	KUNIT_EXPECT_EQ(test, -EBUSY, kw_dereg_mr(mr, NULL));
	KUNIT_EXPECT_NOT_NULL(test, kt_lookup(d, mr->rkey));
	/* The end of the stream: only those of type 2 were its own. */
	kw_mw_unbind_all(&d->pd, &d->windows);
	KUNIT_EXPECT_NULL(test, kt_lookup(d, w2.rkey));
	KUNIT_EXPECT_NOT_NULL(test, kt_lookup(d, w1.rkey));
	KUNIT_EXPECT_EQ(test, -EBUSY, kw_dereg_mr(mr, NULL));
	/* Bound to another region. */
	w1.bind.lkey = next->lkey;
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w1));
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w2));
	KUNIT_EXPECT_EQ(test, 0,
			kw_mem_invalidate(&d->dev, &d->pd, d, w2.rkey, true));
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(mr, NULL));
	/* A region that is gone cannot be bound to. */
	KUNIT_EXPECT_EQ(test, -ENOENT, kt_bind(d, &w2));
	/* Bound to nothing. */
	KUNIT_EXPECT_EQ(test, -EBUSY, kw_dereg_mr(next, NULL));
	w1.rkey ^= 1;
	w1.bind.len = 0;
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w1));
	KUNIT_EXPECT_NULL(test, kt_lookup(d, w1.rkey));
	KUNIT_EXPECT_NULL(test, kt_lookup(d, w1.rkey ^ 1));
	/* Deallocated, while one is bound. */
	w2.bind.lkey = next->lkey;
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w2));
	KUNIT_EXPECT_EQ(test, 0, kw_dealloc_mw(&mw2->ib));
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(next, NULL));
	KUNIT_EXPECT_EQ(test, 0, kw_dealloc_mw(&mw1->ib));
}

static void kt_take_bind(struct kt_taking *t)
{
	struct kw_wqe w = {
		.rkey = t->mem->stag ^ 1,
		.raddr = KT_BASE_ADDR,
		.bind = { .len = 1, .lkey = t->mr->lkey },
	};

	t->ret = kt_bind(t->test->priv, &w);
}

static void kt_take_invalidate_window(struct kt_taking *t)
{
	struct kt_device *d = t->test->priv;

	t->ret = kw_mem_invalidate(&d->dev, &d->pd, d, t->mem->stag, true);
}

/* As for a fast registration. */
static void kt_test_window_waits_for_users(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_user_region(test, &d->pd, KT_BINDABLE);
	struct kw_mw *mw1 = kt_window(test, &d->pd, IB_MW_TYPE_1);
	struct kw_mw *mw2 = kt_window(test, &d->pd, IB_MW_TYPE_2);
	struct kw_wqe w1 = kt_bind_wqe(mw1, mr);
	struct kw_wqe w2 = kt_bind_wqe(mw2, mr);

	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w1));
	KUNIT_EXPECT_EQ(test, 0, kt_bind(d, &w2));
	kt_take_while_used(test, &mw1->window->mem, mr, kt_take_bind);
	kt_take_while_used(test, &mw2->window->mem, mr,
			   kt_take_invalidate_window);
	kt_take_while_used(test, &mw2->window->mem, mr, kt_take_bind);
	kw_dealloc_mw(&mw1->ib);
	kw_dealloc_mw(&mw2->ib);
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(mr, NULL));
}

static void kt_test_window_limit(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct kw_mw mw = { .ib = { .device = &d->dev.ib, .pd = &d->pd.ib } };

	atomic_set(&d->dev.nr_mw, KW_MAX_MW);
	KUNIT_EXPECT_EQ(test, -ENOMEM, kw_alloc_mw(&mw.ib, NULL));
	KUNIT_EXPECT_EQ(test, atomic_read(&d->dev.nr_mw), KW_MAX_MW);
	atomic_set(&d->dev.nr_mw, 0);
}

static struct kunit_case kt_window_cases[] = {
	KUNIT_CASE(kt_test_window_bytes),
	KUNIT_CASE(kt_test_window_refusals),
	KUNIT_CASE(kt_test_window_invalidate),
	KUNIT_CASE(kt_test_window_keeps_region),
	KUNIT_CASE(kt_test_window_waits_for_users),
	KUNIT_CASE(kt_test_window_limit),
	{}
};

struct kunit_suite kt_window_suite = {
	.name = "kiwarp_window",
	.init = kt_stag_init,
	.exit = kt_stag_exit,
	.test_cases = kt_window_cases,
};
