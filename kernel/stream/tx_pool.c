// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The transmit buffer pool: buffers in which FPDUs are built.
 *
 * TCP refers to a buffer until the bytes in it are acknowledged and read. Each
 * CPU keeps the buffers that its streams have filled, in that order, and reuses
 * the first one when the pool holds the only reference. That saves the
 * allocation and, where the kernel clears allocated pages, clearing pages that
 * are overwritten anyway. A stream has a buffer only while it is sending: an
 * idle one costs no memory.
 */
#include <linux/bottom_half.h>
#include <linux/mm.h>
#include <linux/local_lock.h>
#include <linux/percpu.h>

#include "stream/tx_pool.h"
#include "wire/types.h"

/*
 * As much as TCP puts into one socket buffer: what is in two transmit buffers
 * takes two, each processed and acknowledged by itself. The page allocator
 * keeps order 3 at hand, for when this cannot be had. With pages larger than
 * 4 KiB order 3 is not less.
 */
#define KW_TX_POOL_ORDER		get_order(65536)
#define KW_TX_POOL_ORDER_LESS	min(PAGE_ALLOC_COSTLY_ORDER, KW_TX_POOL_ORDER)
/* Per CPU: more than a connection has in flight in most networks. */
#define KW_TX_POOL_MAX		32

/**
 * struct kw_tx_pool - a CPU's transmit buffers
 * @cur: the one that has room
 * @head: oldest entry of @used
 * @nr: entries in use
 * @used: full ones, oldest first; each with a reference
 * @lock: excludes other users with PREEMPT_RT, where disabling softirqs does not
 *
 * Accessed with softirqs off.
 */
struct kw_tx_pool {
	struct page_frag cur;
	u32 head;
	u32 nr;
	struct page *used[KW_TX_POOL_MAX];
	local_lock_t lock;
};

static DEFINE_PER_CPU(struct kw_tx_pool, kw_tx_pool) = {
	.lock = INIT_LOCAL_LOCK(lock),
};

/* Returns this CPU's, for the caller alone until kw_tx_pool_unlock(). */
static struct kw_tx_pool *kw_tx_pool_lock(void)
{
	local_bh_disable();
	local_lock_nested_bh(&kw_tx_pool.lock);
	return this_cpu_ptr(&kw_tx_pool);
}

static void kw_tx_pool_unlock(void)
{
	local_unlock_nested_bh(&kw_tx_pool.lock);
	local_bh_enable();
}

static struct page *kw_tx_pool_pop(struct kw_tx_pool *b)
{
	struct page *page = b->used[b->head];

	b->head = (b->head + 1) % KW_TX_POOL_MAX;
	b->nr--;
	return page;
}

/* Keep a full buffer. Memory of the emergency reserve is freed instead. */
static void kw_tx_pool_push(struct kw_tx_pool *b, struct page *page)
{
	if (compound_order(page) != KW_TX_POOL_ORDER || page_is_pfmemalloc(page)) {
		put_page(page);
		return;
	}
	if (b->nr == KW_TX_POOL_MAX)
		put_page(kw_tx_pool_pop(b));
	b->used[(b->head + b->nr++) % KW_TX_POOL_MAX] = page;
}

/* A buffer of this CPU's: the one with room, or one that TCP has released. */
static bool kw_tx_pool_take(struct kw_tx_pool *b, struct page_frag *f, u32 want)
{
	if (b->cur.page) {
		*f = b->cur;
		b->cur.page = NULL;
		if (f->size - f->offset >= want)
			return true;
		kw_tx_pool_push(b, f->page);
	}
	/* The only reference is the one in @used: no other can be taken. */
	if (!b->nr || page_ref_count(b->used[b->head]) != 1)
		return false;
	f->page = kw_tx_pool_pop(b);
	f->offset = 0;
	f->size = PAGE_SIZE << KW_TX_POOL_ORDER;
	return true;
}

static bool kw_tx_pool_alloc_order(struct page_frag *f, u32 order)
{
	gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;

	if (order)
		gfp |= __GFP_COMP | __GFP_NORETRY;
	f->offset = 0;
	f->size = PAGE_SIZE << order;
	f->page = alloc_pages(gfp, order);
	return f->page;
}

static bool kw_tx_pool_alloc(struct page_frag *f)
{
	return kw_tx_pool_alloc_order(f, KW_TX_POOL_ORDER) ||
	       kw_tx_pool_alloc_order(f, KW_TX_POOL_ORDER_LESS) ||
	       kw_tx_pool_alloc_order(f, 0);
}

/**
 * kw_tx_pool_get() - get room in a transmit buffer
 * @f: the caller's present buffer, if its page is not NULL; becomes one with
 *	room from its offset on
 * @want: bytes of room, at most a page
 *
 * Context: softirq or process.
 * Return: false, and @f has no page, if there is no memory.
 */
__hot bool kw_tx_pool_get(struct page_frag *f, u32 want)
{
	struct kw_tx_pool *b;
	bool got;

	if (f->page && f->size - f->offset >= want)
		return true;
	b = kw_tx_pool_lock();
	if (f->page)
		kw_tx_pool_push(b, f->page);
	f->page = NULL;
	got = kw_tx_pool_take(b, f, want) || kw_tx_pool_alloc(f);
	kw_tx_pool_unlock();
	return got;
}

/**
 * kw_tx_pool_put() - return the room that is left
 * @f: from kw_tx_pool_get(), its offset behind what was built; loses its page
 *
 * Context: softirq or process.
 */
__hot void kw_tx_pool_put(struct page_frag *f)
{
	struct kw_tx_pool *b;

	if (!f->page)
		return;
	b = kw_tx_pool_lock();
	if (!b->cur.page)
		b->cur = *f;
	else
		kw_tx_pool_push(b, f->page);
	kw_tx_pool_unlock();
	f->page = NULL;
}

/**
 * kw_tx_pool_idle() - pages in a CPU's full buffers
 * @cpu: which
 *
 * Context: any.
 * Return: pages, a snapshot.
 */
unsigned long kw_tx_pool_idle(int cpu)
{
	u32 nr = READ_ONCE(per_cpu_ptr(&kw_tx_pool, cpu)->nr);

	return (unsigned long)nr << KW_TX_POOL_ORDER;
}

/**
 * kw_tx_pool_trim() - free this CPU's full buffers that TCP has released
 *
 * The oldest are released first.
 *
 * Context: softirq or process.
 */
void kw_tx_pool_trim(void)
{
	struct kw_tx_pool *b;

	b = kw_tx_pool_lock();
	while (b->nr && page_ref_count(b->used[b->head]) == 1)
		put_page(kw_tx_pool_pop(b));
	kw_tx_pool_unlock();
}

/**
 * kw_tx_pool_drop() - free all buffers of a CPU that is not running
 * @cpu: which
 *
 * Buffers to which TCP refers live on until TCP releases them.
 *
 * Context: process; nothing else accesses that CPU's buffers.
 */
void kw_tx_pool_drop(unsigned int cpu)
{
	struct kw_tx_pool *b = per_cpu_ptr(&kw_tx_pool, cpu);

	if (b->cur.page)
		put_page(b->cur.page);
	b->cur.page = NULL;
	while (b->nr)
		put_page(kw_tx_pool_pop(b));
}

/**
 * kw_tx_pool_exit() - free all buffers
 *
 * Context: process, when there are no streams any more.
 */
void kw_tx_pool_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kw_tx_pool_drop(cpu);
}
