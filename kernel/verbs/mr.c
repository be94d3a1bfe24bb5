// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Memory regions and the STag table.
 *
 * An STag is a 24-bit index into kw_device.mems, chosen at random, and an
 * 8-bit key, random at first and then the consumer's to change with each fast
 * registration (RFC 5040 section 2.1). The table is read without locks inside
 * kw_device.mem_srcu; kw_mem.valid is what publishes a region and withdraws it.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/ib_umem.h>

#include "compat.h"
#include "trace.h"
#include "verbs/ops.h"

#define KW_STAG_KEY_BITS	8
#define KW_STAG_INDEX_MAX	((1U << 24) - 1)

/* Index 0 is left out: STag 0 is what a forgotten initialisation looks like. */
#define KW_STAG_INDEX_MIN	1

/* The table is at most a sixteenth full: all fail once in 2^64 times. */
#define KW_STAG_TRIES		16

#define KW_REMOTE_ACCESS	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | \
				 IB_ACCESS_REMOTE_ATOMIC)

static u32 kw_stag_index(u32 stag)
{
	return stag >> KW_STAG_KEY_BITS;
}

static int kw_stag_alloc(struct kw_device *dev, struct kw_mr *mr)
{
	int rv = -EBUSY;
	int i;

	for (i = 0; rv == -EBUSY && i < KW_STAG_TRIES; i++) {
		u32 index = get_random_u32_inclusive(KW_STAG_INDEX_MIN,
						     KW_STAG_INDEX_MAX);

		mr->mem.stag = index << KW_STAG_KEY_BITS | get_random_u8();
		mr->ib.lkey = mr->mem.stag;
		mr->ib.rkey = mr->mem.stag;
		rv = xa_insert(&dev->mems, index, mr, GFP_KERNEL);
	}
	return rv == -EBUSY ? -ENOMEM : rv;
}

static struct kw_mr *kw_mr_new(struct ib_pd *ibpd, u32 access)
{
	struct kw_device *dev = to_kw_dev(ibpd->device);
	struct kw_mr *mr;

	if (!atomic_add_unless(&dev->nr_mr, 1, KW_MAX_MR))
		return NULL;
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		atomic_dec(&dev->nr_mr);
		return NULL;
	}
	mr->mem.access = access;
	mr->mem.pd = ibpd;
	return mr;
}

/* @mr is in no table, or its domain was waited for. */
static void kw_mr_free(struct kw_device *dev, struct kw_mr *mr)
{
	ib_umem_release(mr->umem);
	kvfree(mr->mem.ext);
	kvfree(mr->next_ext);
	kfree(mr);
	atomic_dec(&dev->nr_mr);
}

/* Gives @mr its STag, or frees it. */
static struct ib_mr *kw_mr_publish(struct kw_device *dev, struct kw_mr *mr)
{
	int rv = kw_stag_alloc(dev, mr);

	if (rv) {
		kw_mr_free(dev, mr);
		return ERR_PTR(rv);
	}
	if (mr->mem.valid)
		trace_kw_mr_registered(&dev->ib, &mr->mem);
	return &mr->ib;
}

/**
 * kw_get_dma_mr() - register all of the kernel's memory, by kernel address
 * @ibpd: a kernel consumer's protection domain
 * @access: IB_ACCESS_*
 *
 * Context: process.
 * Return: the region, or -ENOMEM or -EOPNOTSUPP.
 */
struct ib_mr *kw_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct kw_pd *pd = container_of(ibpd, struct kw_pd, ib);
	struct kw_mr *mr;
	struct ib_mr *ibmr;

	if (access & ~(KW_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return ERR_PTR(-EOPNOTSUPP);
	mr = kw_mr_new(ibpd, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->mem.len = U64_MAX;
	mr->mem.valid = true;
	ibmr = kw_mr_publish(to_kw_dev(ibpd->device), mr);
	if (!IS_ERR(ibmr))
		/* Pairs with kw_qp_op_mem(). */
		smp_store_release(&pd->local, &mr->mem);
	return ibmr;
}

static u32 kw_umem_count(struct ib_umem *umem)
{
	struct scatterlist *sg;
	u8 *end = NULL;
	u32 nr = 0;
	u32 i;

	for_each_sgtable_sg(&umem->sgt_append.sgt, sg, i) {
		if (sg_virt(sg) != end)
			nr++;
		end = sg_virt(sg) + sg->length;
		if (need_resched())
			cond_resched();
	}
	return nr;
}

/* A region may be larger, and more scattered, than kvmalloc() has room for. */
static struct kw_extent *kw_extents_alloc(u32 nr)
{
	size_t size = array_size(nr, sizeof(struct kw_extent));

	if (size > INT_MAX)
		return __vmalloc(size, GFP_KERNEL_ACCOUNT);
	return kvmalloc(size, GFP_KERNEL_ACCOUNT);
}

static int kw_umem_extents(struct ib_umem *umem, struct kw_mem *mem)
{
	u32 skip = ib_umem_offset(umem);
	struct kw_extent *e;
	struct scatterlist *sg;
	u8 *end = NULL;
	u64 off = 0;
	u32 i;

	mem->nr_ext = kw_umem_count(umem);
	mem->ext = kw_extents_alloc(mem->nr_ext);
	if (!mem->ext)
		return -ENOMEM;

	e = mem->ext;
	for_each_sgtable_sg(&umem->sgt_append.sgt, sg, i) {
		u8 *va = sg_virt(sg);

		if (va != end) {
			e->off = off;
			e->va = va + skip;
			e++;
		}
		end = va + sg->length;
		off += sg->length - skip;
		skip = 0;
		if (need_resched())
			cond_resched();
	}
	return 0;
}

/**
 * kw_reg_user_mr() - pin and register a process's memory
 * @ibpd: protection domain
 * @start: address in the process
 * @len: bytes
 * @iova: address by which work requests and the peer name the first byte;
 *	with IB_ZERO_BASED that is 0
 * @access: IB_ACCESS_*
 *
 * Context: process, the one whose memory it is.
 * Return: the region; -EINVAL for an empty or wrapping range, -EOPNOTSUPP for
 * access flags that the device has not, -ENOMEM (RLIMIT_MEMLOCK, too), -EFAULT.
 */
struct ib_mr *kw_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 len, u64 iova,
			     int access)
{
	struct kw_device *dev = to_kw_dev(ibpd->device);
	struct kw_mr *mr;
	int rv;

	if (access & ~(KW_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return ERR_PTR(-EOPNOTSUPP);
	if (access & IB_ZERO_BASED)
		iova = 0;
	if (!len || start + len < start || iova + (len - 1) < iova)
		return ERR_PTR(-EINVAL);

	mr = kw_mr_new(ibpd, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->umem = ib_umem_get_va(ibpd->device, start, len, access);
	if (IS_ERR(mr->umem)) {
		rv = PTR_ERR(mr->umem);
		mr->umem = NULL;
		goto free;
	}
	rv = kw_umem_extents(mr->umem, &mr->mem);
	if (rv)
		goto free;

	mr->mem.base = iova;
	mr->mem.len = len;
	mr->mem.valid = true;
	return kw_mr_publish(dev, mr);
free:
	kw_mr_free(dev, mr);
	return ERR_PTR(rv);
}

/**
 * kw_dereg_mr() - take a region out of use and free it
 * @ibmr: the region
 * @udata: unused
 *
 * When it returns no pass over a stream uses the region's pages any more.
 *
 * Context: process.
 * Return: 0.
 */
int kw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct kw_pd *pd = container_of(ibmr->pd, struct kw_pd, ib);
	struct kw_device *dev = to_kw_dev(ibmr->device);
	struct kw_mr *mr = to_kw_mr(ibmr);

	trace_kw_mr_deregistered(ibmr->device, mr->mem.stag);
	WRITE_ONCE(mr->mem.valid, false);
	if (pd->local == &mr->mem)
		WRITE_ONCE(pd->local, NULL);
	xa_erase(&dev->mems, kw_stag_index(mr->mem.stag));
	synchronize_srcu_expedited(&dev->mem_srcu);
	kw_mr_free(dev, mr);
	return 0;
}

/**
 * kw_alloc_mr() - allocate a region for fast registration
 * @ibpd: protection domain
 * @type: IB_MR_TYPE_MEM_REG
 * @max_num_sg: pages that one registration may have
 *
 * Context: process.
 * Return: a region that is not valid yet; -EOPNOTSUPP, -EINVAL or -ENOMEM.
 */
struct ib_mr *kw_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			  u32 max_num_sg)
{
	struct kw_device *dev = to_kw_dev(ibpd->device);
	struct kw_mr *mr;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > KW_MAX_FAST_REG_PAGES)
		return ERR_PTR(-EINVAL);

	mr = kw_mr_new(ibpd, 0);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max_pages = max_num_sg;
	mr->mem.fast = true;
	mr->mem.ext = kvcalloc(max_num_sg, sizeof(*mr->mem.ext),
			       GFP_KERNEL_ACCOUNT);
	mr->next_ext = kvcalloc(max_num_sg, sizeof(*mr->next_ext),
				GFP_KERNEL_ACCOUNT);
	if (!mr->mem.ext || !mr->next_ext) {
		kw_mr_free(dev, mr);
		return ERR_PTR(-ENOMEM);
	}
	return kw_mr_publish(dev, mr);
}

static int kw_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct kw_mr *mr = to_kw_mr(ibmr);
	u32 skip = ibmr->iova & (ibmr->page_size - 1);
	u8 *va = ib_virt_dma_to_ptr(addr);
	struct kw_extent *e;

	if (mr->next_pages == mr->max_pages)
		return -ENOMEM;

	if (!mr->next_nr_ext || va != mr->next_end) {
		e = &mr->next_ext[mr->next_nr_ext++];
		e->off = 0;
		e->va = va + skip;
		if (mr->next_pages) {
			e->off = (u64)mr->next_pages * ibmr->page_size - skip;
			e->va = va;
		}
	}
	mr->next_end = va + ibmr->page_size;
	mr->next_pages++;
	return 0;
}

/**
 * kw_map_mr_sg() - describe the memory of the next fast registration
 * @ibmr: the region
 * @sg: pages, DMA-mapped
 * @nents: entries of @sg
 * @offset: of the first byte in @sg, or NULL
 *
 * What is registered now stays as it is until kw_mr_register().
 *
 * Context: any.
 * Return: how many entries were taken, or -EINVAL for another kind of region
 * or a page size that the device does not have.
 */
int kw_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		 unsigned int *offset)
{
	struct kw_mr *mr = to_kw_mr(ibmr);

	if (!mr->max_pages || !is_power_of_2(ibmr->page_size) ||
	    !(ibmr->page_size & KW_PAGE_SIZES))
		return -EINVAL;
	mr->next_pages = 0;
	mr->next_nr_ext = 0;
	mr->next_end = NULL;
	return ib_sg_to_pages(ibmr, sg, nents, offset, kw_set_page);
}

/**
 * kw_mr_register() - carry out a fast registration (REG_MR)
 * @ibmr: a region of kw_alloc_mr(), not valid at present
 * @pd: protection domain of the queue pair that the request was posted to
 * @key: the STag from now on: the region's index and any key
 * @access: IB_ACCESS_*
 *
 * Context: any.
 * Return: 0; -EINVAL if the region is of another kind or still valid, nothing
 * was mapped, or @key has another index; -EACCES for another protection
 * domain; -EOPNOTSUPP for unknown access flags.
 */
int kw_mr_register(struct ib_mr *ibmr, const struct kw_pd *pd, u32 key,
		   u32 access)
{
	struct kw_mr *mr = to_kw_mr(ibmr);
	struct kw_mem *mem = &mr->mem;

	if (!mr->max_pages || READ_ONCE(mem->valid) || !mr->next_nr_ext ||
	    kw_stag_index(key) != kw_stag_index(mem->stag))
		return -EINVAL;
	if (mem->pd != &pd->ib)
		return -EACCES;
	if (access & ~(KW_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return -EOPNOTSUPP;

	/* It may be withdrawn so lately that a copy has not noticed yet. */
	kw_mem_quiesce(mem);
	swap(mem->ext, mr->next_ext);
	mem->nr_ext = mr->next_nr_ext;
	mr->next_nr_ext = 0;
	mem->base = access & IB_ZERO_BASED ? 0 : ibmr->iova;
	mem->len = ibmr->length;
	mem->access = access;
	WRITE_ONCE(mem->stag, key);
	trace_kw_mr_registered(pd->ib.device, mem);
	/* Pairs with kw_mem_lookup(): whoever sees it valid sees all of it. */
	smp_store_release(&mem->valid, true);
	return 0;
}

/**
 * kw_mem_lookup() - find a valid region
 * @dev: device
 * @stag: index and key
 *
 * Context: any, inside dev->mem_srcu, which also bounds the use of the result.
 * Return: the region, or NULL.
 */
struct kw_mem *kw_mem_lookup(struct kw_device *dev, u32 stag)
{
	struct kw_mr *mr = xa_load(&dev->mems, kw_stag_index(stag));

	/* Pairs with kw_mr_register(). */
	if (!mr || !smp_load_acquire(&mr->mem.valid) ||
	    READ_ONCE(mr->mem.stag) != stag)
		return NULL;
	return &mr->mem;
}

/**
 * kw_mem_invalidate() - withdraw a fast registration, by LOCAL_INV or the peer
 * @dev: device
 * @pd: identity of the queue pair's protection domain
 * @stag: which region
 * @remote: the peer asks; it may withdraw only what it may access
 *
 * Whoever makes a fast registration makes it for one transfer, and expects that
 * the peer withdraws it. Any other region may be shared by all streams of its
 * domain, and no peer may take it from the others (RFC 5040 section 8.1.1).
 *
 * Context: any.
 * Return: 0; -ENOENT if there is no such valid region, -EACCES if it is of
 * another protection domain, -EOPNOTSUPP if it is no fast registration, -EPERM
 * if the peer has no right to it.
 */
int kw_mem_invalidate(struct kw_device *dev, const void *pd, u32 stag,
		      bool remote)
{
	int key = srcu_read_lock(&dev->mem_srcu);
	struct kw_mem *mem = kw_mem_lookup(dev, stag);
	int rv = 0;

	if (!mem)
		rv = -ENOENT;
	else if (mem->pd != pd)
		rv = -EACCES;
	else if (!mem->fast)
		rv = -EOPNOTSUPP;
	else if (remote && !(mem->access & KW_REMOTE_ACCESS))
		rv = -EPERM;
	else if (!xchg(&mem->valid, false))
		rv = -ENOENT;
	else
		/* RFC 5041 section 8.3.1: from now on nothing of it changes. */
		kw_mem_quiesce(mem);
	srcu_read_unlock(&dev->mem_srcu, key);
	trace_kw_mr_invalidated(&dev->ib, stag, remote, rv);
	return rv;
}
