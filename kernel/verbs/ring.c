// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The memory of rings, which is shared with user space.
 *
 * The object that rings belong to owns their memory until kw_queue_mem_free().
 * A user mapping holds a reference on each of its pages, so that the pages live
 * until both are gone. What a process sees last, flushed completions among it,
 * stays readable after the device was taken away from it.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "verbs/ops.h"

/* How often to check whether pages that outlive their object are unmapped. */
#define KW_KEPT_PERIOD	HZ

/* Entries that the worker looks at with the lock held. */
#define KW_KEPT_SLICE	16

/* Entries and pages that a caller at its limit looks at likewise. */
#define KW_KEPT_BUDGET	4096

/**
 * struct kw_mmap_entry - memory of rings that a process may map
 * @rdma: the RDMA core's part
 * @mem: the memory
 * @locked: its pages, and the user whose locked memory they count to
 * @kept: in kw_kept
 * @used: then: a page that was in use when they were last looked at
 */
struct kw_mmap_entry {
	struct rdma_user_mmap_entry rdma;
	void *mem;
	struct kw_locked locked;
	struct list_head kept;
	unsigned long used;
};

/* Memory whose object is gone, and that a process still has mapped. */
static LIST_HEAD(kw_kept);
static u32 kw_kept_count;
static DEFINE_SPINLOCK(kw_kept_lock);
static void kw_kept_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(kw_kept_scan, kw_kept_work);

static struct kw_mmap_entry *kw_mmap_entry(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct kw_mmap_entry, rdma);
}

/*
 * Both rings of most queue pairs fit in one page. Such a page needs no mapping
 * of its own in the kernel's address space.
 */
static void *kw_queue_mem_pages(size_t size)
{
	if (size <= PAGE_SIZE)
		return (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	return __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
}

static void kw_queue_mem_free_pages(void *mem)
{
	if (is_vmalloc_addr(mem))
		vfree(mem);
	else
		free_page((unsigned long)mem);
}

static struct page *kw_queue_mem_page(const u8 *mem)
{
	return is_vmalloc_addr(mem) ? vmalloc_to_page(mem) : virt_to_page(mem);
}

/*
 * Rings cannot be swapped out. As pinned buffers do they count to the locked
 * memory that a user may have (RLIMIT_MEMLOCK), in a memory cgroup or not. The
 * limit is the user's and not the process's: a user may have many processes.
 */
static bool kw_pages_fit(struct user_struct *user, unsigned long pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	unsigned long all = atomic_long_add_return(pages, &user->locked_vm);

	if (all <= limit || capable(CAP_IPC_LOCK))
		return true;
	atomic_long_sub(pages, &user->locked_vm);
	return false;
}

static bool kw_queue_mem_page_used(const struct kw_mmap_entry *e, unsigned long i)
{
	return page_ref_count(kw_queue_mem_page(e->mem + i * PAGE_SIZE)) > 1;
}

/*
 * The memory cannot be mapped any more: a page without other references gets
 * none, apart from short ones of code that scans all pages. The page that was
 * found in use last time most often still is.
 */
static bool kw_queue_mem_in_use(struct kw_mmap_entry *e)
{
	unsigned long i;

	if (kw_queue_mem_page_used(e, e->used))
		return true;
	for (i = 0; i < e->locked.pages; i++) {
		if (kw_queue_mem_page_used(e, i)) {
			e->used = i;
			return true;
		}
	}
	return false;
}

static void kw_kept_free(struct kw_mmap_entry *e)
{
	kw_queue_mem_free_pages(e->mem);
	kw_unlock_pages(&e->locked);
	kfree(e);
}

static void kw_kept_free_all(struct list_head *unused)
{
	struct kw_mmap_entry *e, *next;

	list_for_each_entry_safe(e, next, unused, kept) {
		kw_kept_free(e);
		cond_resched();
	}
}

/* Lock held. */
static void kw_kept_take(struct kw_mmap_entry *e, struct list_head *unused)
{
	list_move(&e->kept, unused);
	kw_kept_count--;
}

/*
 * What was unmapped a moment ago may still count. A user at the limit looks for
 * that in its own time, which is charged, among its own entries, of which the
 * latest are the last. Returns false if it finds none; the worker may later.
 */
static bool kw_kept_free_own(const struct user_struct *user)
{
	struct kw_mmap_entry *e, *next;
	long budget = KW_KEPT_BUDGET;
	LIST_HEAD(unused);

	spin_lock(&kw_kept_lock);
	list_for_each_entry_safe_reverse(e, next, &kw_kept, kept) {
		if (budget-- <= 0)
			break;
		if (e->locked.user != user || kw_queue_mem_page_used(e, e->used))
			continue;
		budget -= e->locked.pages;
		if (!kw_queue_mem_in_use(e))
			kw_kept_take(e, &unused);
	}
	spin_unlock(&kw_kept_lock);
	if (list_empty(&unused))
		return false;
	kw_kept_free_all(&unused);
	return true;
}

/**
 * kw_lock_pages() - count pages to the locked memory of the caller's user
 * @l: result
 * @pages: how many
 *
 * Context: process, without the mmap lock.
 * Return: 0, or -ENOMEM if they are more than RLIMIT_MEMLOCK allows.
 */
int kw_lock_pages(struct kw_locked *l, unsigned long pages)
{
	struct user_struct *user = current_user();

	while (!kw_pages_fit(user, pages)) {
		if (!kw_kept_free_own(user))
			return -ENOMEM;
	}
	l->user = get_uid(user);
	l->pages = pages;
	return 0;
}

/**
 * kw_unlock_pages() - undo kw_lock_pages()
 * @l: its result
 *
 * Context: any.
 */
void kw_unlock_pages(struct kw_locked *l)
{
	atomic_long_sub(l->pages, &l->user->locked_vm);
	free_uid(l->user);
}

/*
 * The limit comes first: what exceeds it is not allocated even for a moment,
 * which may be long, as the caller sleeps while kept pages are looked at.
 */
static int kw_queue_mem_user(struct kw_queue_mem *a, struct ib_ucontext *uctx)
{
	struct kw_mmap_entry *entry;
	int ret;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	ret = kw_lock_pages(&entry->locked, a->size >> PAGE_SHIFT);
	if (ret)
		goto free;
	ret = -ENOMEM;
	entry->mem = kw_queue_mem_pages(a->size);
	if (!entry->mem)
		goto unlock;
	ret = rdma_user_mmap_entry_insert(uctx, &entry->rdma, a->size);
	if (ret)
		goto free_pages;
	a->mem = entry->mem;
	a->mmap = &entry->rdma;
	return 0;
free_pages:
	kw_queue_mem_free_pages(entry->mem);
unlock:
	kw_unlock_pages(&entry->locked);
free:
	kfree(entry);
	return ret;
}

/**
 * kw_queue_mem_alloc() - allocate zeroed memory for rings
 * @a: result
 * @size: bytes needed
 * @uctx: the user context that may map it, or NULL for a kernel consumer
 *
 * Context: process. The memory is charged to the caller's memory cgroup, and
 * with @uctx counts to its user's locked memory.
 * Return: 0, or -ENOMEM with nothing allocated.
 */
int kw_queue_mem_alloc(struct kw_queue_mem *a, size_t size, struct ib_ucontext *uctx)
{
	a->size = PAGE_ALIGN(size);
	a->mmap = NULL;
	a->mem = NULL;
	if (uctx)
		return kw_queue_mem_user(a, uctx);
	a->mem = kw_queue_mem_pages(a->size);
	return a->mem ? 0 : -ENOMEM;
}

/**
 * kw_queue_mem_free() - free the memory of rings
 * @a: the memory; no longer used in the kernel
 *
 * Context: process.
 */
void kw_queue_mem_free(struct kw_queue_mem *a)
{
	if (a->mmap)
		rdma_user_mmap_entry_remove(a->mmap);
	else
		kw_queue_mem_free_pages(a->mem);
	a->mmap = NULL;
	a->mem = NULL;
}

/* Entries stay in the list while they are looked at, for kw_kept_free_own(). */
static void kw_kept_slice(u32 n)
{
	struct kw_mmap_entry *e;
	LIST_HEAD(unused);

	spin_lock(&kw_kept_lock);
	while (n-- && !list_empty(&kw_kept)) {
		e = list_first_entry(&kw_kept, struct kw_mmap_entry, kept);
		if (kw_queue_mem_in_use(e))
			list_move_tail(&e->kept, &kw_kept);
		else
			kw_kept_take(e, &unused);
	}
	spin_unlock(&kw_kept_lock);
	kw_kept_free_all(&unused);
}

static void kw_kept_work(struct work_struct *work)
{
	u32 left = READ_ONCE(kw_kept_count);

	while (left) {
		u32 n = min(left, KW_KEPT_SLICE);

		kw_kept_slice(n);
		left -= n;
		cond_resched();
	}
	if (READ_ONCE(kw_kept_count))
		queue_delayed_work(system_dfl_wq, &kw_kept_scan,
				   KW_KEPT_PERIOD);
}

/**
 * kw_mmap_free() - the RDMA core's last reference to an entry is gone
 * @entry: the entry
 *
 * A process may keep its mapping, or a child have it: the pages count until all
 * references to them are gone. The mapping itself cannot report when that is:
 * ib_uverbs lets a driver go while processes have mappings, and a
 * vm_operations_struct of the module's would be called after that.
 *
 * Context: process; the mmap lock may be held.
 */
void kw_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct kw_mmap_entry *e = kw_mmap_entry(entry);

	if (!kw_queue_mem_in_use(e)) {
		kw_kept_free(e);
		return;
	}
	spin_lock(&kw_kept_lock);
	list_add_tail(&e->kept, &kw_kept);
	kw_kept_count++;
	spin_unlock(&kw_kept_lock);
	queue_delayed_work(system_dfl_wq, &kw_kept_scan, KW_KEPT_PERIOD);
}

/**
 * kw_mmap_exit() - stop accounting for mappings
 *
 * Pages that a process has mapped still live until it unmaps them.
 *
 * Context: module unload, when there are no devices any more.
 */
void kw_mmap_exit(void)
{
	struct kw_mmap_entry *e, *next;

	cancel_delayed_work_sync(&kw_kept_scan);
	list_for_each_entry_safe(e, next, &kw_kept, kept)
		kw_kept_free(e);
}

static int kw_map_pages(struct vm_area_struct *vma, u8 *mem)
{
	unsigned long addr;
	int ret;

	for (addr = vma->vm_start; addr < vma->vm_end; addr += PAGE_SIZE) {
		ret = vm_insert_page(vma, addr, kw_queue_mem_page(mem));
		if (ret)
			return ret;
		mem += PAGE_SIZE;
	}
	return 0;
}

/**
 * kw_mmap() - map the memory of rings into a process
 * @uctx: user context
 * @vma: its offset selects the memory; must be shared and of its size
 *
 * Context: process, mmap lock.
 * Return: 0, -EINVAL for a wrong offset, size or protection, or what
 * vm_insert_page() says.
 */
int kw_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int ret;

	if (vma->vm_flags & VM_EXEC)
		return -EINVAL;
	entry = rdma_user_mmap_entry_get(uctx, vma);
	if (!entry)
		return -EINVAL;

	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	ret = kw_map_pages(vma, kw_mmap_entry(entry)->mem);
	rdma_user_mmap_entry_put(entry);
	return ret;
}
