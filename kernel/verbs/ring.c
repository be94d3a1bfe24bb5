// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The memory of rings, which is shared with user space.
 *
 * The object that rings belong to owns their memory until
 * kw_queue_mem_free(). A user mapping holds a reference on each page of its own,
 * so that the pages live until both are gone, and what a process sees last,
 * flushed completions among it, stays readable after the device was taken
 * away from it.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "verbs/ops.h"

/**
 * struct kw_mmap_entry - memory of rings that a process may map
 * @rdma: the RDMA core's part
 * @mem: the memory
 * @user: to whose locked memory it counts, referenced
 * @pages: how much of it
 */
struct kw_mmap_entry {
	struct rdma_user_mmap_entry rdma;
	void *mem;
	struct user_struct *user;
	unsigned long pages;
};

static struct kw_mmap_entry *kw_mmap_entry(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct kw_mmap_entry, rdma);
}

/*
 * The small rings of most queue pairs fit a page together: without a place of its
 * own in the kernel's address space it takes nothing besides.
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
 * Rings cannot be swapped out: as buffers that are pinned they count to the
 * locked memory that a user may have (RLIMIT_MEMLOCK), in a memory cgroup or
 * not. It is the user's and not the process's, who may have many.
 */
static int kw_queue_mem_lock(struct kw_mmap_entry *e, size_t size)
{
	struct user_struct *user = current_user();
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	unsigned long pages = size >> PAGE_SHIFT;
	long all = atomic_long_add_return(pages, &user->locked_vm);

	if (all > limit && !capable(CAP_IPC_LOCK)) {
		atomic_long_sub(pages, &user->locked_vm);
		return -ENOMEM;
	}
	e->user = get_uid(user);
	e->pages = pages;
	return 0;
}

static void kw_queue_mem_unlock(struct kw_mmap_entry *e)
{
	atomic_long_sub(e->pages, &e->user->locked_vm);
	free_uid(e->user);
}

static int kw_queue_mem_share(struct kw_queue_mem *a, struct ib_ucontext *uctx)
{
	struct kw_mmap_entry *entry;
	int rv;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;
	rv = kw_queue_mem_lock(entry, a->size);
	if (rv)
		goto free;

	entry->mem = a->mem;
	rv = rdma_user_mmap_entry_insert(uctx, &entry->rdma, a->size);
	if (rv)
		goto unlock;
	a->mmap = &entry->rdma;
	return 0;
unlock:
	kw_queue_mem_unlock(entry);
free:
	kfree(entry);
	return rv;
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
	int rv;

	a->size = PAGE_ALIGN(size);
	a->mmap = NULL;
	a->mem = kw_queue_mem_pages(a->size);
	if (!a->mem)
		return -ENOMEM;
	if (!uctx)
		return 0;

	rv = kw_queue_mem_share(a, uctx);
	if (rv) {
		kw_queue_mem_free_pages(a->mem);
		a->mem = NULL;
	}
	return rv;
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

/**
 * kw_mmap_free() - the RDMA core's last reference to an area's entry is gone
 * @entry: the entry
 *
 * Context: process, under no lock.
 */
void kw_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct kw_mmap_entry *e = kw_mmap_entry(entry);

	kw_queue_mem_free_pages(e->mem);
	kw_queue_mem_unlock(e);
	kfree(e);
}

static int kw_map_pages(struct vm_area_struct *vma, u8 *mem)
{
	unsigned long addr;
	int rv;

	for (addr = vma->vm_start; addr < vma->vm_end; addr += PAGE_SIZE) {
		rv = vm_insert_page(vma, addr, kw_queue_mem_page(mem));
		if (rv)
			return rv;
		mem += PAGE_SIZE;
	}
	return 0;
}

/**
 * kw_mmap() - map the memory of rings into a process
 * @uctx: user context
 * @vma: says by its offset which; must be shared and of its size
 *
 * Context: process, mmap lock.
 * Return: 0, -EINVAL for a wrong offset, size or protection, or what
 * vm_insert_page() says.
 */
int kw_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int rv;

	if (vma->vm_flags & VM_EXEC)
		return -EINVAL;
	entry = rdma_user_mmap_entry_get(uctx, vma);
	if (!entry)
		return -EINVAL;

	vm_flags_mod(vma, VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	rv = kw_map_pages(vma, kw_mmap_entry(entry)->mem);
	rdma_user_mmap_entry_put(entry);
	return rv;
}
