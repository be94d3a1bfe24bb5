// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Memory windows of type 1 and type 2B.
 *
 * A window gives peers a part of a region, under an STag and with rights of its
 * own, without a system call: a work request binds it. One of type 1 is for all
 * streams of the protection domain; each binding replaces the one before. One of
 * type 2 is for the stream whose send queue bound it, which is the second
 * association that RFC 5041 section 8.2 asks for. It is bound until that queue
 * or that peer invalidates it, or the stream ends.
 *
 * A device reports type 2A, where the queue pair is checked, or type 2B, where
 * the protection domain is checked, too: Linux's commit 7083e42ee2ff ("IB/core:
 * Add "type 2" memory windows support"). It is 2B here.
 */
#include <linux/list.h>
#include <linux/slab.h>

#include "trace.h"
#include "verbs/ops.h"

#define KW_MW_ACCESS	(KW_REMOTE_ACCESS | IB_ZERO_BASED)
/* Says nothing about peers; programs set it where they register memory, too. */
#define KW_MW_IGNORED	IB_ACCESS_LOCAL_WRITE

/* What lets a peer change bytes: the consumer has to be able to itself. */
#define KW_MW_CHANGES	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)

static struct kw_window *to_kw_window(struct kw_mem *mem)
{
	return container_of(mem, struct kw_window, mem);
}

/**
 * kw_alloc_mw() - ib_device_ops.alloc_mw
 * @ibmw: zeroed object of the RDMA core's
 * @udata: unused
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int kw_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct kw_device *dev = to_kw_dev(ibmw->device);
	struct kw_window *win;
	int ret = -ENOMEM;

	if (!kw_count_object(&dev->nr_mw, KW_MAX_MW, ibmw->pd->uobject))
		return -ENOMEM;
	win = kzalloc(sizeof(*win), GFP_KERNEL_ACCOUNT);
	if (!win)
		goto err;
	win->mem.window_pd = ibmw->pd;
	win->mem.fast = true;
	win->type2 = ibmw->type == IB_MW_TYPE_2;
	INIT_LIST_HEAD(&win->bound);
	to_kw_mw(ibmw)->window = win;
	ret = kw_stag_alloc(dev, &win->mem);
	if (ret)
		goto err;
	ibmw->rkey = win->mem.stag;
	return 0;
err:
	kfree(win);
	atomic_dec(&dev->nr_mw);
	return ret;
}

/* Its memory is no longer the region's. kw_pd.window_lock is held. */
static void kw_window_unbind(struct kw_window *win)
{
	WRITE_ONCE(win->mem.valid, false);
	if (!win->mr)
		return;
	win->mr->windows--;
	win->mr = NULL;
	list_del_init(&win->bound);
}

/**
 * kw_dealloc_mw() - ib_device_ops.dealloc_mw
 * @ibmw: the window; may be bound
 *
 * When it returns no pass over a stream uses the window's memory.
 *
 * Context: process.
 * Return: 0.
 */
int kw_dealloc_mw(struct ib_mw *ibmw)
{
	struct kw_device *dev = to_kw_dev(ibmw->device);
	struct kw_pd *pd = to_kw_pd(ibmw->pd);
	struct kw_window *win = to_kw_mw(ibmw)->window;

	trace_kw_mr_deregistered(ibmw->device, win->mem.stag);
	xa_erase_bh(&dev->mems, kw_stag_index(win->mem.stag));
	WRITE_ONCE(win->mem.valid, false);
	/* After that no BIND_MW finds it, either. */
	synchronize_srcu_expedited(&pd->domain->srcu);
	spin_lock_bh(&pd->window_lock);
	kw_window_unbind(win);
	spin_unlock_bh(&pd->window_lock);
	kfree_rcu(win, rcu);
	atomic_dec(&dev->nr_mw);
	return 0;
}

/* A window by its index: it may be bound or not, and its key be any. */
static struct kw_window *kw_window_find(struct kw_device *dev,
					const struct kw_pd *pd, u32 stag)
{
	struct kw_mem *mem;

	rcu_read_lock();
	mem = xa_load(&dev->mems, kw_stag_index(stag));
	if (mem && mem->window_pd != &pd->ib)
		mem = NULL;
	rcu_read_unlock();
	return mem ? to_kw_window(mem) : NULL;
}

/* May a window of these bytes and rights be bound to the region? */
static int kw_bind_check_region(const struct kw_mem *mem, const void *pd,
				const struct kw_wqe *w)
{
	if (!mem || mem->pd != pd || mem->fast || !READ_ONCE(mem->valid))
		return -ENOENT;
	if (!(mem->access & IB_ACCESS_MW_BIND))
		return -EACCES;
	/* As in kw_reg_user_mr_dmabuf(). */
	if (!IS_ENABLED(CONFIG_X86) && mem->copied &&
	    (w->bind.access & IB_ACCESS_REMOTE_ATOMIC))
		return -EACCES;
	if ((w->bind.access & KW_MW_CHANGES) &&
	    !(mem->access & IB_ACCESS_LOCAL_WRITE))
		return -EACCES;
	return kw_mem_covers(mem, w->raddr, w->bind.len) ? 0 : -ERANGE;
}

static int kw_bind_check(const struct kw_window *win, const struct kw_mem *mem,
			 const struct kw_wqe *w)
{
	if (w->bind.access & ~(KW_MW_ACCESS | KW_MW_IGNORED))
		return -EOPNOTSUPP;
	if (win->type2 && win->mem.valid)
		return -EBUSY;
	if (!w->bind.len)
		return win->type2 ? -EINVAL : 0;
	return kw_bind_check_region(mem, win->mem.window_pd, w);
}

/* Make the window what the request says. kw_pd.window_lock is held. */
static void kw_window_bind(struct kw_window *win, struct kw_mem *region,
			   const void *stream, struct list_head *windows,
			   const struct kw_wqe *w)
{
	struct kw_mem *mem = &win->mem;

	kw_window_unbind(win);
	/* It waits only if another queue has bound it since kw_mw_bind() waited. */
	kw_mem_quiesce(mem);
	WRITE_ONCE(mem->stag, w->rkey);
	if (!w->bind.len)
		return;
	mem->access = w->bind.access & KW_MW_ACCESS;
	mem->base = w->bind.access & IB_ZERO_BASED ? 0 : w->raddr;
	mem->len = w->bind.len;
	mem->ext = region->ext;
	mem->nr_ext = region->nr_ext;
	mem->copied = region->copied;
	mem->shift = w->raddr - region->base;
	win->mr = container_of(region, struct kw_mr, mem);
	win->mr->windows++;
	if (win->type2) {
		mem->stream = stream;
		list_add(&win->bound, windows);
	}
	/* Pairs with kw_mem_lookup(): a valid window is complete. */
	smp_store_release(&mem->valid, true);
}

/**
 * kw_mw_bind() - carry out BIND_MW
 * @dev: device
 * @pd: protection domain of the queue pair that the request was posted to
 * @stream: identity of its stream
 * @windows: those of type 2 that are bound to the stream
 * @w: the request
 *
 * A request that fails leaves the window as it is, but for one of type 1 whose
 * next region is deregistered meanwhile: that is bound to nothing then.
 *
 * Context: any but hard interrupt, inside the domain of @pd.
 * Return: 0; -ENOENT if the protection domain has no such window, or no such
 * valid region. -EBUSY if the window is of type 2 and bound. -EINVAL if it is of
 * type 2, and to be bound to nothing. -EACCES if the region has not the rights
 * for it, -ERANGE if it has not the bytes, -EOPNOTSUPP for unknown access flags.
 */
int kw_mw_bind(struct kw_device *dev, struct kw_pd *pd, const void *stream,
	       struct list_head *windows, const struct kw_wqe *w)
{
	struct kw_window *win = kw_window_find(dev, pd, w->rkey);
	struct kw_mem *region;
	int ret;

	if (!win)
		return -ENOENT;
	/* A region is re-registered under this lock: it is what it was found as. */
	spin_lock_bh(&pd->window_lock);
	region = kw_mem_lookup(dev, &pd->ib, w->bind.lkey);
	ret = kw_bind_check(win, region, w);
	if (!ret)
		kw_window_unbind(win);
	spin_unlock_bh(&pd->window_lock);
	if (ret)
		return ret;
	/* It may have been withdrawn just now: wait for copies under way. */
	kw_mem_quiesce(&win->mem);
	spin_lock_bh(&pd->window_lock);
	/* The region may have been deregistered or replaced meanwhile. */
	region = kw_mem_lookup(dev, &pd->ib, w->bind.lkey);
	ret = kw_bind_check(win, region, w);
	if (!ret)
		kw_window_bind(win, region, stream, windows, w);
	spin_unlock_bh(&pd->window_lock);
	if (!ret && w->bind.len)
		trace_kw_mr_registered(&dev->ib, &win->mem);
	return ret;
}

/**
 * kw_mw_invalidate() - kw_mem_invalidate() for a window
 * @mem: the window's
 * @stream: identity of the stream that asks, or whose peer asks
 * @stag: by which it was found
 * @remote: the peer asks
 *
 * Context: any but hard interrupt, inside the domain of the window.
 * Return: as kw_mem_invalidate().
 */
int kw_mw_invalidate(struct kw_mem *mem, const void *stream, u32 stag,
		     bool remote)
{
	struct kw_window *win = to_kw_window(mem);
	struct kw_pd *pd = container_of(mem->window_pd, struct kw_pd, ib);
	int ret = 0;

	spin_lock_bh(&pd->window_lock);
	if (!mem->valid || mem->stag != stag)
		ret = -ENOENT;
	else if (!win->type2)
		ret = -EOPNOTSUPP;
	else if (mem->stream != stream)
		ret = -EACCES;
	else if (remote && !(mem->access & KW_REMOTE_ACCESS))
		ret = -EPERM;
	else
		kw_window_unbind(win);
	spin_unlock_bh(&pd->window_lock);
	/* RFC 5041 section 8.3.1: from now on nothing of it changes. */
	if (!ret)
		kw_mem_quiesce(mem);
	return ret;
}

/**
 * kw_mw_unbind_all() - a stream has ended: its windows are bound to nothing
 * @pd: protection domain
 * @windows: bound to the stream; empty afterwards
 *
 * Context: process.
 */
void kw_mw_unbind_all(struct kw_pd *pd, struct list_head *windows)
{
	struct kw_window *win;

	do {
		spin_lock_bh(&pd->window_lock);
		win = list_first_entry_or_null(windows, struct kw_window, bound);
		if (win) {
			kw_window_unbind(win);
			trace_kw_mr_invalidated(pd->ib.device, win->mem.stag,
						false, 0);
		}
		spin_unlock_bh(&pd->window_lock);
		cond_resched();
	} while (win);
}
