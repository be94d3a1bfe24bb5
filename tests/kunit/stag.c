// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The STag table and memory regions: verbs/mr.c and stream/mem.c.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "compat.h"
#include "stag.h"

/* verbs/ring.c's, for regions of dma-bufs, of which no suite here has any. */
int kw_lock_pages(struct kw_locked *l, unsigned long pages)
{
	return -EOPNOTSUPP;
}

void kw_unlock_pages(struct kw_locked *l)
{
}

/**
 * kt_stag_init() - make a struct kt_device, before each test
 * @test: the test
 *
 * Return: 0 or -ENOMEM.
 */
int kt_stag_init(struct kunit *test)
{
	struct kt_device *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	int i;

	if (!d || kw_domain_init(&d->dev.domain, false))
		return -ENOMEM;
	xa_init_flags(&d->dev.mems, XA_FLAGS_LOCK_BH);
	d->pd.ib.device = &d->dev.ib;
	d->other_pd.ib.device = &d->dev.ib;
	d->pd.domain = &d->dev.domain;
	d->other_pd.domain = &d->dev.domain;
	spin_lock_init(&d->pd.window_lock);
	spin_lock_init(&d->other_pd.window_lock);
	INIT_LIST_HEAD(&d->windows);
	for (i = 0; i < KT_PAGES; i++) {
		d->page[i] = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!d->page[i])
			return -ENOMEM;
	}
	test->priv = d;
	return 0;
}

/**
 * kt_stag_exit() - see that all is freed, after each test
 * @test: the test
 */
void kt_stag_exit(struct kunit *test)
{
	struct kt_device *d = test->priv;
	int i;

	if (!d)
		return;
	/* Every region has been freed. */
	KUNIT_EXPECT_TRUE(test, xa_empty(&d->dev.mems));
	KUNIT_EXPECT_EQ(test, atomic_read(&d->dev.nr_mr), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&d->dev.nr_mw), 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&d->windows));
	for (i = 0; i < KT_PAGES; i++)
		__free_page(d->page[i]);
	xa_destroy(&d->dev.mems);
	kw_domain_exit(&d->dev.domain);
}

static struct ib_mr *kt_alloc(struct kunit *test, u32 pages)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kw_alloc_mr(&d->pd.ib, IB_MR_TYPE_MEM_REG, pages);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	/* Set by the RDMA core on a real device. */
	mr->device = &d->dev.ib;
	mr->pd = &d->pd.ib;
	return mr;
}

/* Map the device's pages, in the order that @order says, from @offset on. */
static int kt_map(struct kunit *test, struct ib_mr *mr, const int *order, int n,
		  u32 offset, u64 iova)
{
	struct kt_device *d = test->priv;
	unsigned int first = offset;
	int i;

	sg_init_table(d->sg, n);
	for (i = 0; i < n; i++) {
		sg_set_page(&d->sg[i], d->page[order[i]], PAGE_SIZE, 0);
		sg_dma_address(&d->sg[i]) = (u64)page_address(d->page[order[i]]);
		sg_dma_len(&d->sg[i]) = PAGE_SIZE;
	}
	mr->page_size = PAGE_SIZE;
	i = kw_map_mr_sg(mr, d->sg, n, &first);
	mr->iova = iova;
	return i;
}

static const int kt_order[] = { 3, 0, 5, 1 };

static struct ib_mr *kt_registered(struct kunit *test, u32 access)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_alloc(test, 4);

	KUNIT_ASSERT_EQ(test, 4, kt_map(test, mr, kt_order, 4, 0, 0));
	KUNIT_ASSERT_EQ(test, 0, kw_mr_register(mr, &d->pd, mr->rkey, access));
	return mr;
}

/**
 * kt_lookup() - what a stream of the protection domain finds
 * @d: device
 * @stag: of a region or window
 *
 * Return: it, or NULL.
 */
struct kw_mem *kt_lookup(struct kt_device *d, u32 stag)
{
	int idx = srcu_read_lock(&d->dev.domain.srcu);
	struct kw_mem *mem = kw_mem_lookup(&d->dev, &d->pd, stag);

	srcu_read_unlock(&d->dev.domain.srcu, idx);
	return mem;
}

static void kt_test_stags_differ(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr[64];
	u32 all_or = 0, all_and = ~0U;
	int i, k;

	for (i = 0; i < ARRAY_SIZE(mr); i++) {
		mr[i] = kt_alloc(test, 1);
		KUNIT_EXPECT_EQ(test, mr[i]->lkey, mr[i]->rkey);
		KUNIT_EXPECT_NE(test, mr[i]->rkey >> 8, 0);
		for (k = 0; k < i; k++)
			KUNIT_EXPECT_NE(test, mr[i]->rkey >> 8,
					mr[k]->rkey >> 8);
		all_or |= mr[i]->rkey;
		all_and &= mr[i]->rkey;
		/* Allocated is not registered: the peer cannot use it. */
		KUNIT_EXPECT_NULL(test, kt_lookup(d, mr[i]->rkey));
	}
	/* In 64 random numbers every bit is once 0 and once 1 (all but 2^-58). */
	KUNIT_EXPECT_EQ(test, all_or, ~0U);
	KUNIT_EXPECT_EQ(test, all_and, 0);
	for (i = 0; i < ARRAY_SIZE(mr); i++)
		kw_dereg_mr(mr[i], NULL);
}

static void kt_test_lookup(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_registered(test, KT_RIGHTS);
	u32 stag = mr->rkey;
	struct kw_mem *others;
	u32 bit;

	KUNIT_EXPECT_PTR_EQ(test, kt_lookup(d, stag), &to_kw_mr(mr)->mem);
	/* Another domain finds that there is one, but no memory. */
	others = kw_mem_lookup(&d->dev, &d->other_pd, stag);
	KUNIT_ASSERT_NOT_NULL(test, others);
	KUNIT_EXPECT_PTR_NE(test, others, &to_kw_mr(mr)->mem);
	KUNIT_EXPECT_NULL(test, others->pd);
	KUNIT_EXPECT_EQ(test, others->len, 0);
	KUNIT_EXPECT_NULL(test, kw_mem_lookup(&d->dev, &d->other_pd, stag ^ 1));
	for (bit = 1; bit; bit <<= 1)
		KUNIT_EXPECT_NULL(test, kt_lookup(d, stag ^ bit));
	KUNIT_EXPECT_NULL(test, kt_lookup(d, 0));
	kw_dereg_mr(mr, NULL);
	KUNIT_EXPECT_NULL(test, kt_lookup(d, stag));
}

static void kt_test_fast_registration(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_alloc(test, 4);
	u32 key = mr->rkey;

	/* Nothing is mapped yet. */
	KUNIT_EXPECT_EQ(test, -EINVAL,
			kw_mr_register(mr, &d->pd, key, KT_RIGHTS));
	KUNIT_ASSERT_EQ(test, 4, kt_map(test, mr, kt_order, 4, 0, 0x1000));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			kw_mr_register(mr, &d->pd, key ^ 0x100, KT_RIGHTS));
	KUNIT_EXPECT_EQ(test, -EACCES,
			kw_mr_register(mr, &d->other_pd, key, KT_RIGHTS));
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			kw_mr_register(mr, &d->pd, key, IB_ACCESS_ON_DEMAND));
	KUNIT_EXPECT_NULL(test, kt_lookup(d, key));

	/* The key byte is the consumer's to choose. */
	KUNIT_EXPECT_EQ(test, 0,
			kw_mr_register(mr, &d->pd, key ^ 0x55, KT_RIGHTS));
	KUNIT_EXPECT_NULL(test, kt_lookup(d, key));
	KUNIT_EXPECT_NOT_NULL(test, kt_lookup(d, key ^ 0x55));
	/* Not twice, and not while the region is valid. */
	KUNIT_EXPECT_EQ(test, 4, kt_map(test, mr, kt_order, 4, 0, 0x9000));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			kw_mr_register(mr, &d->pd, key, KT_RIGHTS));
	KUNIT_EXPECT_EQ(test, kt_lookup(d, key ^ 0x55)->base, 0x1000);
	KUNIT_EXPECT_EQ(test, 0, kw_mem_invalidate(&d->dev, &d->pd, NULL, key ^ 0x55,
						   false));
	KUNIT_EXPECT_EQ(test, 0, kw_mr_register(mr, &d->pd, key, KT_RIGHTS));
	KUNIT_EXPECT_EQ(test, kt_lookup(d, key)->base, 0x9000);
	kw_dereg_mr(mr, NULL);
}

/* What was mapped once can be registered often, until another map fails. */
static void kt_test_same_map(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_mr *mr = kt_registered(test, KT_RIGHTS);
	struct kw_mem *mem = kt_lookup(d, mr->rkey);
	const struct kw_extent *ext = mem->ext;
	u32 key = mr->rkey, nr_ext = mem->nr_ext;
	int i;

	KUNIT_ASSERT_GT(test, nr_ext, 0);
	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, 0, kw_mem_invalidate(&d->dev, &d->pd, NULL,
							   key, false));
		key ^= 0x55;
		KUNIT_ASSERT_EQ(test, 0,
				kw_mr_register(mr, &d->pd, key, KT_RIGHTS));
		KUNIT_EXPECT_PTR_EQ(test, kt_lookup(d, key), mem);
		KUNIT_EXPECT_PTR_EQ(test, mem->ext, ext);
		KUNIT_EXPECT_EQ(test, mem->nr_ext, nr_ext);
		KUNIT_EXPECT_EQ(test, mem->len, 4 * PAGE_SIZE);
	}
	KUNIT_EXPECT_EQ(test, 0, kw_mem_invalidate(&d->dev, &d->pd, NULL, key,
						   false));
	mr->page_size = 512;
	KUNIT_EXPECT_EQ(test, -EINVAL, kw_map_mr_sg(mr, d->sg, 4, NULL));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			kw_mr_register(mr, &d->pd, key, KT_RIGHTS));
	kw_dereg_mr(mr, NULL);
}

static void kt_test_invalidate(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_mr *local = kt_registered(test, IB_ACCESS_LOCAL_WRITE);
	struct ib_mr *remote = kt_registered(test, KT_RIGHTS);
	struct ib_mr *all;

	KUNIT_EXPECT_EQ(test, -ENOENT, kw_mem_invalidate(&d->dev, &d->pd, NULL, 0,
							 true));
	KUNIT_EXPECT_EQ(test, -EACCES,
			kw_mem_invalidate(&d->dev, &d->other_pd, NULL, remote->rkey,
					  true));
	/* What is no fast registration cannot be invalidated. */
	to_kw_mr(remote)->mem.fast = false;
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, remote->rkey, true));
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, remote->rkey, false));
	KUNIT_EXPECT_NOT_NULL(test, kt_lookup(d, remote->rkey));
	to_kw_mr(remote)->mem.fast = true;
	/* A peer cannot withdraw a region to which it has no right. */
	KUNIT_EXPECT_EQ(test, -EPERM,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, local->rkey, true));
	KUNIT_EXPECT_EQ(test, 0,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, remote->rkey, true));
	KUNIT_EXPECT_NULL(test, kt_lookup(d, remote->rkey));
	KUNIT_EXPECT_EQ(test, -ENOENT,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, remote->rkey, true));
	KUNIT_EXPECT_EQ(test, 0,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, local->rkey, false));

	/* The consumer may, once more, but nobody else, nor by another key. */
	KUNIT_EXPECT_EQ(test, 0,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, remote->rkey, false));
	KUNIT_EXPECT_EQ(test, 0,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, local->rkey, false));
	KUNIT_EXPECT_EQ(test, -ENOENT,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, local->rkey, true));
	KUNIT_EXPECT_EQ(test, -ENOENT,
			kw_mem_invalidate(&d->dev, &d->other_pd, NULL, remote->rkey,
					  false));
	KUNIT_EXPECT_EQ(test, -ENOENT,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, remote->rkey ^ 1,
					  false));
	to_kw_mr(remote)->mem.fast = false;
	KUNIT_EXPECT_EQ(test, -ENOENT,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, remote->rkey, false));
	to_kw_mr(remote)->mem.fast = true;

	all = kw_get_dma_mr(&d->pd.ib, IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, all);
	all->device = &d->dev.ib;
	all->pd = &d->pd.ib;
	KUNIT_EXPECT_PTR_EQ(test, d->pd.local, &to_kw_mr(all)->mem);
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			kw_mem_invalidate(&d->dev, &d->pd, NULL, all->lkey, false));
	kw_dereg_mr(local, NULL);
	KUNIT_EXPECT_PTR_EQ(test, d->pd.local, &to_kw_mr(all)->mem);
	kw_dereg_mr(all, NULL);
	KUNIT_EXPECT_NULL(test, d->pd.local);
	kw_dereg_mr(remote, NULL);
}

static void kt_take_invalidate(struct kt_taking *t)
{
	struct kt_device *d = t->test->priv;

	t->ret = kw_mem_invalidate(&d->dev, &d->pd, NULL, t->mem->stag, false);
}

static void kt_take_register(struct kt_taking *t)
{
	struct kt_device *d = t->test->priv;

	t->ret = kw_mr_register(t->mr, &d->pd, t->mr->rkey ^ 1, KT_RIGHTS);
}

static int kt_take(void *arg)
{
	struct kt_taking *t = arg;

	complete(&t->begun);
	t->take(t);
	complete(&t->done);
	return 0;
}

/**
 * kt_take_while_used() - while someone copies, a call does not return
 * @test: the test
 * @mem: region or window that is used
 * @mr: see struct kt_taking
 * @take: the call
 */
void kt_take_while_used(struct kunit *test, struct kw_mem *mem,
			struct ib_mr *mr, void (*take)(struct kt_taking *t))
{
	struct kt_taking t = {
		.test = test, .mem = mem, .mr = mr, .take = take,
	};
	struct task_struct *task;
	unsigned long left;

	init_completion(&t.begun);
	init_completion(&t.done);
	/* As kw_mem_get_fast() leaves it, but so that this test may sleep. */
	atomic_inc(&mem->users);
	task = kthread_run(kt_take, &t, "kt_take");
	if (IS_ERR(task)) {
		atomic_dec(&mem->users);
		KUNIT_FAIL_AND_ABORT(test, "no task");
	}
	wait_for_completion(&t.begun);
	left = wait_for_completion_timeout(&t.done, HZ / 5);
	KUNIT_EXPECT_EQ(test, 0, left);
	atomic_dec(&mem->users);
	if (!left)
		wait_for_completion(&t.done);
	KUNIT_EXPECT_EQ(test, 0, t.ret);
}

/* RFC 5041 section 8.3.1: once it is invalid nothing of it changes any more. */
static void kt_test_waits_for_users(struct kunit *test)
{
	struct ib_mr *mr = kt_registered(test, KT_RIGHTS);
	struct kw_mem *mem = &to_kw_mr(mr)->mem;

	kt_take_while_used(test, mem, mr, kt_take_invalidate);
	/* Whoever does so again: the first may not have come so far. */
	kt_take_while_used(test, mem, mr, kt_take_invalidate);
	KUNIT_ASSERT_EQ(test, 4, kt_map(test, mr, kt_order, 4, 0, 0));
	kt_take_while_used(test, mem, mr, kt_take_register);
	KUNIT_EXPECT_EQ(test, kw_dereg_mr(mr, NULL), 0);
}

static void kt_take_dereg(struct kt_taking *t)
{
	t->ret = kw_dereg_mr(t->mr, NULL);
}

static bool kt_is_found(struct kt_device *d, u32 index)
{
	return xa_load(&d->dev.mems, index);
}

/* Deregister while a pass is in @domain: does that wait for it? */
static void kt_dereg_beside(struct kunit *test, struct kw_domain *domain,
			    bool waits)
{
	struct kt_device *d = test->priv;
	struct kt_taking t = { .test = test, .take = kt_take_dereg };
	unsigned long end = jiffies + 20 * HZ;
	struct task_struct *task;
	u32 index;
	int idx;

	t.mr = kt_registered(test, KT_RIGHTS);
	index = t.mr->rkey >> 8;
	init_completion(&t.begun);
	init_completion(&t.done);
	idx = srcu_read_lock(&domain->srcu);
	task = kthread_run(kt_take, &t, "kt_take");
	if (IS_ERR(task)) {
		srcu_read_unlock(&domain->srcu, idx);
		KUNIT_FAIL_AND_ABORT(test, "no task");
	}
	while (kt_is_found(d, index) && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_FALSE(test, kt_is_found(d, index));
	while (!waits && !completion_done(&t.done) && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, completion_done(&t.done), !waits);
	srcu_read_unlock(&domain->srcu, idx);
	wait_for_completion(&t.done);
	KUNIT_EXPECT_EQ(test, 0, t.ret);
}

/* While someone who found a region may use it, nobody else finds it. */
static void kt_test_dereg_waits(struct kunit *test)
{
	struct kt_device *d = test->priv;

	kt_dereg_beside(test, &d->dev.domain, true);
}

/* A process waits for its own passes, neither for others' nor for the kernel's. */
static void kt_test_dereg_of_another(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct kw_domain *own, *others;

	own = kunit_kzalloc(test, sizeof(*own), GFP_KERNEL);
	others = kunit_kzalloc(test, sizeof(*others), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, own);
	KUNIT_ASSERT_NOT_NULL(test, others);
	KUNIT_ASSERT_EQ(test, 0, kw_domain_init(own, true));
	KUNIT_EXPECT_EQ(test, 0, kw_domain_init(others, true));
	d->pd.domain = own;
	kt_dereg_beside(test, own, true);
	kt_dereg_beside(test, others, false);
	kt_dereg_beside(test, &d->dev.domain, false);
	d->pd.domain = &d->dev.domain;
	kw_domain_exit(others);
	kw_domain_exit(own);
}

/* A region can become another one between its lookup and its use. */
static void kt_test_holds_what_was_found(struct kunit *test)
{
	struct ib_mr *mr = kt_registered(test, KT_RIGHTS);
	struct kw_mem *mem = &to_kw_mr(mr)->mem;
	bool other = kw_mem_get(mem, mem->stag ^ 1);
	bool held;

	if (other)
		kw_mem_put(mem);
	KUNIT_EXPECT_FALSE(test, other);
	held = kw_mem_get(mem, mem->stag);
	if (held)
		kw_mem_put(mem);
	KUNIT_EXPECT_TRUE(test, held);
	WRITE_ONCE(mem->valid, false);
	held = kw_mem_get(mem, mem->stag);
	if (held)
		kw_mem_put(mem);
	KUNIT_EXPECT_FALSE(test, held);
	KUNIT_EXPECT_EQ(test, atomic_read(&mem->users), 0);
	KUNIT_EXPECT_EQ(test, kw_dereg_mr(mr, NULL), 0);
}

/* Is byte @off found, whichever extent is tried first? */
static bool kt_finds(struct kunit *test, const struct kw_mem *mem, u64 off,
		     u32 offset, u32 last)
{
	struct kt_device *d = test->priv;
	u64 at = off + offset;
	u8 *page = page_address(d->page[kt_order[at / PAGE_SIZE]]);
	struct kw_run run = kw_mem_at(mem, off, &last);

	return run.va == page + at % PAGE_SIZE && run.len &&
	       run.len <= mem->len - off;
}

/* Each byte of a region is where the pages were mapped, run by run. */
static void kt_test_extents(struct kunit *test)
{
	struct kt_device *d = test->priv;
	static const u32 offsets[] = { 0, 1, 100, PAGE_SIZE - 1 };
	u32 i, last;

	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		struct ib_mr *mr = kt_alloc(test, 4);
		struct kw_mem *mem;
		u64 off;

		KUNIT_ASSERT_EQ(test, 4, kt_map(test, mr, kt_order, 4,
						offsets[i], offsets[i]));
		KUNIT_ASSERT_EQ(test, 0, kw_mr_register(mr, &d->pd, mr->rkey,
							KT_RIGHTS));
		mem = &to_kw_mr(mr)->mem;
		KUNIT_EXPECT_EQ(test, mem->len, 4 * PAGE_SIZE - offsets[i]);
		for (off = 0; off < mem->len; off++) {
			for (last = 0; last < 5; last++) {
				if (kt_finds(test, mem, off, offsets[i], last))
					continue;
				KUNIT_FAIL_AND_ABORT(test, "byte %llu of offset %u from extent %u",
						     off, offsets[i], last);
			}
		}
		kw_dereg_mr(mr, NULL);
	}
}

static void kt_test_covers(struct kunit *test)
{
	const struct kw_mem mem = { .base = 1000, .len = 10 };
	const struct kw_mem top = { .base = -10ULL, .len = 9 };

	KUNIT_EXPECT_TRUE(test, kw_mem_covers(&mem, 1000, 10));
	KUNIT_EXPECT_TRUE(test, kw_mem_covers(&mem, 1010, 0));
	KUNIT_EXPECT_FALSE(test, kw_mem_covers(&mem, 1000, 11));
	KUNIT_EXPECT_FALSE(test, kw_mem_covers(&mem, 999, 1));
	KUNIT_EXPECT_FALSE(test, kw_mem_covers(&mem, 999, 0));
	KUNIT_EXPECT_FALSE(test, kw_mem_covers(&mem, 1011, 0));
	KUNIT_EXPECT_FALSE(test, kw_mem_covers(&mem, 1001, U64_MAX));
	KUNIT_EXPECT_TRUE(test, kw_mem_covers(&top, -2ULL, 1));
	KUNIT_EXPECT_FALSE(test, kw_mem_covers(&top, -2ULL, 2));
	KUNIT_EXPECT_FALSE(test, kw_mem_covers(&top, -2ULL, 3));
}

/* They leave some of each kind of objects to kernel consumers. */
static void kt_limit_of_processes(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_uobject uobj = {};
	struct ib_mr *mr;

	d->pd.ib.uobject = &uobj;
	atomic_set(&d->dev.nr_mr, KW_MAX_MR - KW_MAX_MR / KW_KERNEL_PART);
	KUNIT_EXPECT_EQ(test, -ENOMEM,
			PTR_ERR(kw_alloc_mr(&d->pd.ib, IB_MR_TYPE_MEM_REG, 1)));
	atomic_set(&d->dev.nr_mr, KW_MAX_MR - 1);
	KUNIT_EXPECT_EQ(test, -ENOMEM,
			PTR_ERR(kw_alloc_mr(&d->pd.ib, IB_MR_TYPE_MEM_REG, 1)));
	d->pd.ib.uobject = NULL;
	mr = kt_alloc(test, 1);
	KUNIT_EXPECT_EQ(test, 0, kw_dereg_mr(mr, NULL));
}

static void kt_test_refusals(struct kunit *test)
{
	struct kt_device *d = test->priv;
	struct ib_pd *pd = &d->pd.ib;

	KUNIT_EXPECT_EQ(test, -EINVAL,
			PTR_ERR(kw_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 0)));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			PTR_ERR(kw_alloc_mr(pd, IB_MR_TYPE_MEM_REG,
					    KW_MAX_FAST_REG_PAGES + 1)));
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			PTR_ERR(kw_alloc_mr(pd, IB_MR_TYPE_SG_GAPS, 1)));
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP,
			PTR_ERR(kw_get_dma_mr(pd, IB_ACCESS_ON_DEMAND)));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			PTR_ERR(kw_reg_user_mr(pd, 0x1000, 0, 0, 0)));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			PTR_ERR(kw_reg_user_mr(pd, -PAGE_SIZE, 2 * PAGE_SIZE, 0,
					       0)));
	KUNIT_EXPECT_EQ(test, -EINVAL,
			PTR_ERR(kw_reg_user_mr(pd, 0x1000, 2, U64_MAX, 0)));
	/* As many as the device has, and no more. */
	atomic_set(&d->dev.nr_mr, KW_MAX_MR);
	KUNIT_EXPECT_EQ(test, -ENOMEM,
			PTR_ERR(kw_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1)));
	kt_limit_of_processes(test);
	atomic_set(&d->dev.nr_mr, 0);
}

/* A process's memory: what is placed is what the process reads. */
static void kt_test_user_memory(struct kunit *test)
{
	struct kt_device *d = test->priv;
	unsigned long start = kunit_vm_mmap(test, NULL, 0, 5 * PAGE_SIZE,
					    PROT_READ | PROT_WRITE,
					    MAP_ANONYMOUS | MAP_PRIVATE, 0);
	u64 len = 3 * PAGE_SIZE, from = start + 777;
	struct ib_mr *mr;
	u64 off;
	u32 last = 0;

	KUNIT_ASSERT_NE(test, start, 0);
	mr = kw_reg_user_mr(&d->pd.ib, from, len, 0xabc000, KT_RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	mr->device = &d->dev.ib;
	mr->pd = &d->pd.ib;
	KUNIT_EXPECT_EQ(test, to_kw_mr(mr)->mem.base, 0xabc000);
	KUNIT_EXPECT_EQ(test, to_kw_mr(mr)->mem.len, len);
	for (off = 0; off < len; off++)
		*kw_mem_at(&to_kw_mr(mr)->mem, off, &last).va = off % 241;
	for (off = 0; off < 5 * PAGE_SIZE; off++) {
		u64 at = start + off;
		bool in = at >= from && at < from + len;
		u8 byte;

		if (get_user(byte, (u8 __user *)at) ||
		    byte != (in ? (at - from) % 241 : 0)) {
			KUNIT_FAIL(test, "byte %llu", off);
			break;
		}
	}
	kw_dereg_mr(mr, NULL);
}

/*
 * What an insertion leaves that fails for want of memory: nodes, and no entry.
 * The device may go then without a warning.
 */
static void kt_test_empty_table(struct kunit *test)
{
	struct kt_device *d = test->priv;
	XA_STATE(xas, &d->dev.mems, 0x123456);
	int entry;

	KUNIT_EXPECT_TRUE(test, kw_table_empty(&d->dev.mems));
	xa_lock_bh(&d->dev.mems);
	xas_create_range(&xas);
	xa_unlock_bh(&d->dev.mems);
	KUNIT_EXPECT_FALSE(test, xa_empty(&d->dev.mems));
	KUNIT_EXPECT_TRUE(test, kw_table_empty(&d->dev.mems));
	KUNIT_ASSERT_EQ(test, 0, xa_insert_bh(&d->dev.mems, 0xfffffe, &entry,
					      GFP_KERNEL));
	KUNIT_EXPECT_FALSE(test, kw_table_empty(&d->dev.mems));
	xa_erase_bh(&d->dev.mems, 0xfffffe);
	KUNIT_EXPECT_TRUE(test, kw_table_empty(&d->dev.mems));
	xa_destroy(&d->dev.mems);
}

static struct kunit_case kt_stag_cases[] = {
	KUNIT_CASE(kt_test_stags_differ),
	KUNIT_CASE(kt_test_empty_table),
	KUNIT_CASE(kt_test_lookup),
	KUNIT_CASE(kt_test_fast_registration),
	KUNIT_CASE(kt_test_same_map),
	KUNIT_CASE(kt_test_invalidate),
	KUNIT_CASE(kt_test_waits_for_users),
	KUNIT_CASE(kt_test_dereg_waits),
	KUNIT_CASE(kt_test_dereg_of_another),
	KUNIT_CASE(kt_test_holds_what_was_found),
	KUNIT_CASE(kt_test_extents),
	KUNIT_CASE(kt_test_covers),
	KUNIT_CASE(kt_test_refusals),
	KUNIT_CASE(kt_test_user_memory),
	{}
};

struct kunit_suite kt_stag_suite = {
	.name = "kiwarp_stag",
	.init = kt_stag_init,
	.exit = kt_stag_exit,
	.test_cases = kt_stag_cases,
};
