// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Blocks of pages that FPDUs are built in.
 *
 * TCP refers to a block until the octets in it are acknowledged and read. Each
 * CPU keeps the blocks that its streams have filled, in that order, and takes
 * the first one again when nobody else refers to it: which saves allocating
 * and, where the kernel clears what it allocates, clearing pages that are to be
 * written anyway. A stream has a block only while it is sending, so that one
 * that is idle costs none.
 */
#include <linux/bottom_half.h>
#include <linux/mm.h>
#include <linux/percpu.h>

#include "stream/block.h"

/*
 * As much as TCP puts into one socket buffer: what is in two blocks goes out in
 * two, each with its own way through the stack, and acknowledged by itself. The
 * page allocator keeps order 3 at hand, for when this cannot be had.
 */
#define KW_BLOCK_ORDER		get_order(65536)
#define KW_BLOCK_ORDER_LESS	PAGE_ALLOC_COSTLY_ORDER
/* Of a CPU: more than a connection has in flight in most networks. */
#define KW_BLOCKS		32

/**
 * struct kw_blocks - a CPU's blocks
 * @cur: the one that has room
 * @head: oldest entry of @used
 * @nr: entries in use
 * @used: full ones, oldest first; each with a reference
 *
 * Softirqs are off while one is touched.
 */
struct kw_blocks {
	struct page_frag cur;
	u32 head;
	u32 nr;
	struct page *used[KW_BLOCKS];
};

static DEFINE_PER_CPU(struct kw_blocks, kw_blocks);

static struct page *kw_blocks_pop(struct kw_blocks *b)
{
	struct page *page = b->used[b->head];

	b->head = (b->head + 1) % KW_BLOCKS;
	b->nr--;
	return page;
}

/* Keep a block that is full. Memory of the emergency reserve goes back there. */
static void kw_blocks_push(struct kw_blocks *b, struct page *page)
{
	if (compound_order(page) != KW_BLOCK_ORDER || page_is_pfmemalloc(page)) {
		put_page(page);
		return;
	}
	if (b->nr == KW_BLOCKS)
		put_page(kw_blocks_pop(b));
	b->used[(b->head + b->nr++) % KW_BLOCKS] = page;
}

/* A block of this CPU's that nobody refers to, or the one with room. */
static bool kw_blocks_take(struct kw_blocks *b, struct page_frag *f, u32 want)
{
	if (b->cur.page) {
		*f = b->cur;
		b->cur.page = NULL;
		if (f->size - f->offset >= want)
			return true;
		kw_blocks_push(b, f->page);
	}
	/* The only reference is the one in @used: nobody can take another. */
	if (!b->nr || page_ref_count(b->used[b->head]) != 1)
		return false;
	f->page = kw_blocks_pop(b);
	f->offset = 0;
	f->size = PAGE_SIZE << KW_BLOCK_ORDER;
	return true;
}

static bool kw_block_alloc_order(struct page_frag *f, u32 order)
{
	gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;

	if (order)
		gfp |= __GFP_COMP | __GFP_NORETRY;
	f->offset = 0;
	f->size = PAGE_SIZE << order;
	f->page = alloc_pages(gfp, order);
	return f->page;
}

static bool kw_block_alloc(struct page_frag *f)
{
	return kw_block_alloc_order(f, KW_BLOCK_ORDER) ||
	       kw_block_alloc_order(f, KW_BLOCK_ORDER_LESS) ||
	       kw_block_alloc_order(f, 0);
}

/**
 * kw_block_get() - get room to build in
 * @f: what the caller has already, if its page is not NULL; becomes where
 *	there is room from its offset on
 * @want: octets of room, at most a page
 *
 * Context: softirq or process.
 * Return: false, and @f has no page, if there is no memory.
 */
bool kw_block_get(struct page_frag *f, u32 want)
{
	struct kw_blocks *b;
	bool got;

	if (f->page && f->size - f->offset >= want)
		return true;
	local_bh_disable();
	b = this_cpu_ptr(&kw_blocks);
	if (f->page)
		kw_blocks_push(b, f->page);
	f->page = NULL;
	got = kw_blocks_take(b, f, want) || kw_block_alloc(f);
	local_bh_enable();
	return got;
}

/**
 * kw_block_put() - let others use the room that is left
 * @f: from kw_block_get(), its offset behind what was built; loses its page
 *
 * Context: softirq or process.
 */
void kw_block_put(struct page_frag *f)
{
	struct kw_blocks *b;

	if (!f->page)
		return;
	local_bh_disable();
	b = this_cpu_ptr(&kw_blocks);
	if (!b->cur.page)
		b->cur = *f;
	else
		kw_blocks_push(b, f->page);
	local_bh_enable();
	f->page = NULL;
}

/**
 * kw_blocks_idle() - how much a CPU's full blocks hold
 * @cpu: which
 *
 * Context: any.
 * Return: pages, as a moment shows them.
 */
unsigned long kw_blocks_idle(int cpu)
{
	u32 nr = READ_ONCE(per_cpu_ptr(&kw_blocks, cpu)->nr);

	return (unsigned long)nr << KW_BLOCK_ORDER;
}

/**
 * kw_blocks_trim() - let go of this CPU's full blocks
 *
 * TCP keeps what it still refers to.
 *
 * Context: softirq or process.
 */
void kw_blocks_trim(void)
{
	struct kw_blocks *b;

	local_bh_disable();
	b = this_cpu_ptr(&kw_blocks);
	while (b->nr)
		put_page(kw_blocks_pop(b));
	local_bh_enable();
}

/**
 * kw_blocks_exit() - free all blocks
 *
 * Context: process, when there are no streams any more.
 */
void kw_blocks_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct kw_blocks *b = per_cpu_ptr(&kw_blocks, cpu);

		if (b->cur.page)
			put_page(b->cur.page);
		b->cur.page = NULL;
		while (b->nr)
			put_page(kw_blocks_pop(b));
	}
}
