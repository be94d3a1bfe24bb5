// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Rings that are shared with user space.
 *
 * The object that a ring belongs to owns the ring's memory until
 * kw_ring_free(). A user mapping holds a reference on each page of its own,
 * so that the pages live until both are gone, and what a process sees last,
 * flushed completions among it, stays readable after the device was taken
 * away from it.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "verbs/ops.h"

struct kw_mmap_entry {
	struct rdma_user_mmap_entry rdma;
	void *mem;
};

static struct kw_mmap_entry *kw_mmap_entry(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct kw_mmap_entry, rdma);
}

static int kw_ring_share(struct kw_ring *r, struct ib_ucontext *uctx)
{
	struct kw_mmap_entry *entry;
	int rv;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL_ACCOUNT);
	if (!entry)
		return -ENOMEM;

	entry->mem = r->mem;
	rv = rdma_user_mmap_entry_insert(uctx, &entry->rdma, r->size);
	if (rv) {
		kfree(entry);
		return rv;
	}
	r->mmap = &entry->rdma;
	return 0;
}

/**
 * kw_ring_alloc() - allocate a zeroed ring
 * @r: result
 * @entries: a power of two
 * @stride: octets from one entry to the next
 * @uctx: the user context that may map it, or NULL for a kernel consumer
 *
 * Context: process. The memory is charged to the caller's memory cgroup.
 * Return: 0, or -ENOMEM with nothing allocated.
 */
int kw_ring_alloc(struct kw_ring *r, u32 entries, u32 stride,
		  struct ib_ucontext *uctx)
{
	int rv;

	r->size = PAGE_ALIGN(KIWARP_RING_ENTRIES_OFF + (size_t)entries * stride);
	r->stride = stride;
	r->mask = entries - 1;
	r->mmap = NULL;
	r->mem = __vmalloc(r->size, GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!r->mem)
		return -ENOMEM;
	if (!uctx)
		return 0;

	rv = kw_ring_share(r, uctx);
	if (rv) {
		vfree(r->mem);
		r->mem = NULL;
	}
	return rv;
}

/**
 * kw_ring_free() - free a ring, or a zeroed struct kw_ring
 * @r: the ring; nobody in the kernel uses it any more
 *
 * Context: process.
 */
void kw_ring_free(struct kw_ring *r)
{
	if (r->mmap)
		rdma_user_mmap_entry_remove(r->mmap);
	else
		vfree(r->mem);
	r->mmap = NULL;
	r->mem = NULL;
}

/**
 * kw_mmap_free() - the RDMA core's last reference to a ring's entry is gone
 * @entry: the entry
 *
 * Context: process, under no lock.
 */
void kw_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct kw_mmap_entry *e = kw_mmap_entry(entry);

	vfree(e->mem);
	kfree(e);
}

static int kw_map_pages(struct vm_area_struct *vma, u8 *mem)
{
	unsigned long addr;
	int rv;

	for (addr = vma->vm_start; addr < vma->vm_end; addr += PAGE_SIZE) {
		rv = vm_insert_page(vma, addr, vmalloc_to_page(mem));
		if (rv)
			return rv;
		mem += PAGE_SIZE;
	}
	return 0;
}

/**
 * kw_mmap() - map a ring into a process
 * @uctx: user context
 * @vma: says by its offset which ring; must be shared and of the ring's size
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
