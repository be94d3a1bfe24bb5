// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * From an offset in a registered region to an address, and holding a region
 * while it is used.
 */
#include <linux/bottom_half.h>
#include <linux/preempt.h>
#include <linux/processor.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include "stream/mem.h"
#include "wire/types.h"

/* Checks of a region's users before a caller that may sleep does so. */
#define KW_QUIESCE_SPINS	1000

/**
 * kw_mem_get_fast() - kw_mem_get() for what a work request can change
 * @mem: the region
 * @stag: by which it was found
 *
 * The holder runs with softirqs off, so that it cannot be interrupted by code
 * that waits for it in kw_mem_quiesce().
 *
 * Context: any but hard interrupt, inside the domain that protects @mem.
 * Return: false if it is no longer valid, or has another STag.
 */
bool kw_mem_get_fast(struct kw_mem *mem, u32 stag)
{
	local_bh_disable();
	atomic_inc(&mem->users);
	/* Pairs with kw_mem_quiesce(): it sees the user, or this sees it invalid. */
	smp_mb__after_atomic();
	/* Pairs with kw_mr_register() and kw_mw_bind(): what is valid can be read. */
	if (smp_load_acquire(&mem->valid) && READ_ONCE(mem->stag) == stag)
		return true;
	kw_mem_put_fast(mem);
	return false;
}

/**
 * kw_mem_put_fast() - undo kw_mem_get_fast()
 * @mem: the region
 *
 * Context: as kw_mem_get_fast().
 */
void kw_mem_put_fast(struct kw_mem *mem)
{
	/* The copy is over before the user is gone. */
	smp_mb__before_atomic();
	atomic_dec(&mem->users);
	local_bh_enable();
}

/*
 * With PREEMPT_RT the holder of a region can be preempted even with softirqs
 * off, and a waiter of a higher priority would keep the CPU from it for ever.
 * Softirqs are off there under a per-CPU lock: waiting for that lock raises the
 * holder's priority to the waiter's. A holder on another CPU needs no help.
 */
static void kw_mem_yield(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		return;
	local_bh_disable();
	local_bh_enable();
}

/**
 * kw_mem_quiesce() - wait for the users of a region that is no longer valid
 * @mem: region whose @valid was set to false
 *
 * Context: any but hard interrupt; sleeps where that is allowed. It waits for
 * at most one transmit buffer to be filled, or one receive pass to place.
 */
void kw_mem_quiesce(struct kw_mem *mem)
{
	u32 spins = 0;

	/* Pairs with kw_mem_get_fast(). */
	smp_mb();
	while (atomic_read_acquire(&mem->users)) {
		cpu_relax();
		kw_mem_yield();
		/* A copy takes far less, unless its CPU has other work. */
		if (++spins >= KW_QUIESCE_SPINS && preemptible() &&
		    !rcu_preempt_depth())
			schedule_timeout_uninterruptible(1);
	}
}

/* The last extent that does not begin after @off, of those from @lo on. */
static u32 kw_extent_find(const struct kw_mem *mem, u64 off, u32 lo)
{
	u32 hi = mem->nr_ext;

	while (hi - lo > 1) {
		u32 mid = lo + (hi - lo) / 2;

		if (mem->ext[mid].off <= off)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/**
 * kw_mem_find() - slow path of kw_mem_at()
 * @mem: see there
 * @off: see there, but from the start of the extents; not in extent *@last
 * @last: see there
 *
 * Context: any, inside the domain that protects @mem.
 * Return: see there.
 */
__hot struct kw_run kw_mem_find(const struct kw_mem *mem, u64 off, u32 *last)
{
	const struct kw_extent *e;
	u64 end = mem->shift + mem->len;
	u32 i = *last;

	if (!mem->nr_ext)
		return (struct kw_run){
			.va = (u8 *)(uintptr_t)(mem->base + off),
			.len = end - off,
		};

	/* kw_mem_at() has ruled out this one. Bytes usually come in order. */
	if (i >= mem->nr_ext || mem->ext[i].off > off)
		i = 0;
	else if (i + 1 < mem->nr_ext)
		i++;
	if (i + 1 < mem->nr_ext && mem->ext[i + 1].off <= off)
		i = kw_extent_find(mem, off, i);
	*last = i;
	e = &mem->ext[i];
	if (i + 1 < mem->nr_ext)
		end = e[1].off;
	return (struct kw_run){ .va = e->va + (off - e->off), .len = end - off };
}
