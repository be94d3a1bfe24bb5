// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Memory regions and the STag table. Memory windows are in mw.c.
 *
 * An STag is a 24-bit index into kw_device.mems, chosen at random, and an 8-bit
 * key. The key is random at first; the consumer may change it with each fast
 * registration (RFC 5040 section 2.1). The table is read without locks, under
 * RCU, and regions are used inside kw_pd.domain. kw_mem.valid publishes a
 * region and withdraws it.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/ib_umem.h>

#include "compat.h"
#include "trace.h"
#include "verbs/ops.h"

#define KW_STAG_INDEX_MAX	((1U << 24) - 1)

/* Index 0 is left out: a variable that was not initialised may have STag 0. */
#define KW_STAG_INDEX_MIN	1

/* The table is at most an eighth full: 1 in 2^66 times all tries fail. */
#define KW_STAG_TRIES		22

/**
 * kw_stag_alloc() - choose an STag, and enter it into the table
 * @dev: device
 * @mem: region or window; found by the STag from now on
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int kw_stag_alloc(struct kw_device *dev, struct kw_mem *mem)
{
	int ret = -EBUSY;
	int i;

	for (i = 0; ret == -EBUSY && i < KW_STAG_TRIES; i++) {
		u32 index = get_random_u32_inclusive(KW_STAG_INDEX_MIN,
						     KW_STAG_INDEX_MAX);

		mem->stag = index << KW_STAG_KEY_BITS | get_random_u8();
		ret = xa_insert_bh(&dev->mems, index, mem, GFP_KERNEL);
	}
	return ret == -EBUSY ? -ENOMEM : ret;
}

static struct kw_mr *kw_mr_new(struct ib_pd *ibpd, u32 access)
{
	struct kw_device *dev = to_kw_dev(ibpd->device);
	struct kw_mr *mr;

	if (!kw_count_object(&dev->nr_mr, KW_MAX_MR, ibpd->uobject))
		return NULL;
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr) {
		atomic_dec(&dev->nr_mr);
		return NULL;
	}
	mr->ib.device = ibpd->device;
	mr->mem.access = access;
	mr->mem.pd = ibpd;
	return mr;
}

/* @mr is in no table, and no pass of its domain uses it. */
static void kw_mr_free(struct kw_device *dev, struct kw_mr *mr)
{
	ib_umem_release(mr->umem);
	kw_dmabuf_unmap(mr);
	kvfree(mr->mem.ext);
	kvfree(mr->next_ext);
	kfree_rcu(mr, rcu);
	atomic_dec(&dev->nr_mr);
}

/* Give @mr its STag, or free it. */
static struct ib_mr *kw_mr_publish(struct kw_device *dev, struct kw_mr *mr)
{
	int ret = kw_stag_alloc(dev, &mr->mem);

	if (ret) {
		kw_mr_free(dev, mr);
		return ERR_PTR(ret);
	}
	mr->ib.lkey = mr->mem.stag;
	mr->ib.rkey = mr->mem.stag;
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
	struct kw_pd *pd = to_kw_pd(ibpd);
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

/* A region may need more extents than kvmalloc() has room for. */
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

/* Pin and describe a process's memory. If it fails, @mr has to be freed. */
static int kw_mr_pin(struct kw_mr *mr, u64 start, u64 len, int access)
{
	mr->umem = ib_umem_get_va(mr->ib.device, start, len, access);
	if (IS_ERR(mr->umem)) {
		int ret = PTR_ERR(mr->umem);

		mr->umem = NULL;
		return ret;
	}
	mr->mem.len = len;
	return kw_umem_extents(mr->umem, &mr->mem);
}

/* Of work requests and the peer; with IB_ZERO_BASED the first byte's is 0. */
static bool kw_mr_range_good(u64 start, u64 len, u64 base)
{
	return len && start + len >= start && base + (len - 1) >= base;
}

/*
 * Those of struct ib_mr are the RDMA core's, which sets them for some of its
 * commands.
 */
static void kw_mr_name(struct kw_mr *mr, u64 iova, u64 len)
{
	mr->iova = iova;
	mr->ib.iova = iova;
	mr->ib.length = len;
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
 * Context: process; the memory is current's.
 * Return: the region; -EINVAL for an empty or wrapping range; -EOPNOTSUPP for
 * access flags that the device has not; -ENOMEM (RLIMIT_MEMLOCK, too); -EFAULT.
 */
struct ib_mr *kw_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 len, u64 iova,
			     int access)
{
	struct kw_device *dev = to_kw_dev(ibpd->device);
	const u64 named = iova;
	struct kw_mr *mr;
	int ret;

	if (access & ~(KW_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return ERR_PTR(-EOPNOTSUPP);
	if (access & IB_ZERO_BASED)
		iova = 0;
	if (!kw_mr_range_good(start, len, iova))
		return ERR_PTR(-EINVAL);

	mr = kw_mr_new(ibpd, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	ret = kw_mr_pin(mr, start, len, access);
	if (ret) {
		kw_mr_free(dev, mr);
		return ERR_PTR(ret);
	}
	kw_mr_name(mr, named, len);
	mr->mem.base = iova;
	mr->mem.valid = true;
	return kw_mr_publish(dev, mr);
}

/**
 * kw_reg_user_mr_dmabuf() - register part of a dma-buf
 * @ibpd: protection domain
 * @offset: of the first byte in the buffer
 * @len: bytes
 * @iova: as for kw_reg_user_mr()
 * @fd: the buffer
 * @access: IB_ACCESS_*
 *
 * Context: process.
 * Return: the region, or as kw_reg_user_mr() and kw_dmabuf_map().
 */
struct ib_mr *kw_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 len,
				    u64 iova, int fd, int access)
{
	struct kw_device *dev = to_kw_dev(ibpd->device);
	struct kw_mr *mr;
	int ret;

	if (access & ~(KW_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return ERR_PTR(-EOPNOTSUPP);
	/* The exporter may map it as memory that has no atomic instructions. */
	if (!IS_ENABLED(CONFIG_X86) && access & IB_ACCESS_REMOTE_ATOMIC)
		return ERR_PTR(-EOPNOTSUPP);
	if (!kw_mr_range_good(offset, len, iova))
		return ERR_PTR(-EINVAL);
	mr = kw_mr_new(ibpd, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	ret = kw_dmabuf_map(mr, fd, offset, len);
	if (ret) {
		kw_mr_free(dev, mr);
		return ERR_PTR(ret);
	}
	kw_mr_name(mr, iova, len);
	mr->mem.base = iova;
	mr->mem.valid = true;
	return kw_mr_publish(dev, mr);
}

/*
 * Memory that was pinned only to be read has to be pinned once more to be
 * written. That is done by address: only in the process that it is of.
 */
static int kw_rereg_pin_again(struct kw_mr *mr, const struct kw_mr *old)
{
	struct ib_umem *umem = old->umem;

	if (umem->owning_mm != current->mm)
		return -EPERM;
	return kw_mr_pin(mr, umem->address, umem->length, mr->mem.access);
}

static bool kw_rereg_shares(const struct kw_mr *old, int flags, u32 access)
{
	return !(flags & IB_MR_REREG_TRANS) &&
	       (old->umem->writable || !ib_access_writable(access));
}

/* Describe the memory of @mr, which takes the place of @old. */
static int kw_rereg_prepare(struct kw_mr *mr, const struct kw_mr *old,
			    int flags, u64 start, u64 len, u64 iova)
{
	const u32 access = mr->mem.access;
	u64 base;

	if (!(flags & IB_MR_REREG_TRANS)) {
		iova = old->iova;
		start = 0;
		len = old->mem.len;
	}
	base = access & IB_ZERO_BASED ? 0 : iova;
	if (!kw_mr_range_good(start, len, base))
		return -EINVAL;
	kw_mr_name(mr, iova, len);
	mr->mem.base = base;
	mr->mem.len = len;
	if (flags & IB_MR_REREG_TRANS)
		return kw_mr_pin(mr, start, len, access);
	if (!kw_rereg_shares(old, flags, access))
		return kw_rereg_pin_again(mr, old);
	mr->mem.nr_ext = old->mem.nr_ext;
	mr->mem.ext = old->mem.ext;
	return 0;
}

/*
 * Put @mr in the place of @old. A look-up finds either, and a pass that has
 * found @old may use it until it ends. When this returns none does. The memory
 * of a window is its region's, which therefore has to stay.
 */
static int kw_mr_replace(struct kw_device *dev, struct kw_mr *old,
			 struct kw_mr *mr)
{
	struct kw_pd *pd = to_kw_pd(old->ib.pd);
	u32 windows;

	mr->mem.stag = old->mem.stag;
	mr->ib.lkey = mr->mem.stag;
	mr->ib.rkey = mr->mem.stag;
	mr->mem.valid = true;
	spin_lock_bh(&pd->window_lock);
	windows = old->windows;
	if (!windows) {
		/* The entry is there: this allocates nothing. */
		xa_store(&dev->mems, kw_stag_index(mr->mem.stag), &mr->mem,
			 GFP_ATOMIC);
		/*
		 * Streams that remember @old look it up again, and have to
		 * find @mr then. Pairs with kw_mem_lookup().
		 */
		smp_store_release(&old->mem.valid, false);
	}
	spin_unlock_bh(&pd->window_lock);
	if (windows)
		return -EBUSY;
	synchronize_srcu_expedited(&pd->domain->srcu);
	return 0;
}

/**
 * kw_rereg_user_mr() - change a region of a process
 * @ibmr: the region
 * @flags: IB_MR_REREG_*: what to change
 * @start: address in the process
 * @len: bytes
 * @iova: as for kw_reg_user_mr()
 * @access: IB_ACCESS_*
 * @ibpd: protection domain; that of @ibmr unless it is to be changed
 * @udata: unused
 *
 * The region keeps its STag. Another object takes the place of the old one,
 * with all changes at once: a segment of the peer's is checked against the old
 * values or the new. What fails changes nothing.
 *
 * Context: process; with IB_MR_REREG_TRANS the memory is current's.
 * Return: the object, and the RDMA core destroys @ibmr; or as kw_reg_user_mr().
 * -EPERM if a process wants to write to memory that another has registered to
 * be read, -EBUSY if a memory window is bound to the region.
 */
struct ib_mr *kw_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
			       u64 len, u64 iova, int access, struct ib_pd *ibpd,
			       struct ib_udata *udata)
{
	struct kw_device *dev = to_kw_dev(ibmr->device);
	struct kw_mr *old = to_kw_mr(ibmr);
	struct kw_mr *mr;
	int ret;

	if (!(flags & IB_MR_REREG_ACCESS))
		access = old->mem.access;
	if (old->dmabuf || access & ~(KW_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return ERR_PTR(-EOPNOTSUPP);
	mr = kw_mr_new(ibpd, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	ret = kw_rereg_prepare(mr, old, flags, start, len, iova);
	if (!ret)
		ret = kw_mr_replace(dev, old, mr);
	if (ret) {
		if (mr->mem.ext == old->mem.ext)
			mr->mem.ext = NULL;
		kw_mr_free(dev, mr);
		return ERR_PTR(ret);
	}
	old->replaced = true;
	if (kw_rereg_shares(old, flags, access)) {
		mr->umem = old->umem;
		old->umem = NULL;
		old->mem.ext = NULL;
	}
	trace_kw_mr_registered(&dev->ib, &mr->mem);
	return &mr->ib;
}

/**
 * kw_dereg_mr() - withdraw a region and free it
 * @ibmr: the region
 * @udata: unused
 *
 * When it returns no pass over a stream uses the region's pages.
 *
 * Context: process.
 * Return: 0, or -EBUSY if a memory window is bound to it.
 */
int kw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct kw_pd *pd = to_kw_pd(ibmr->pd);
	struct kw_device *dev = to_kw_dev(ibmr->device);
	struct kw_mr *mr = to_kw_mr(ibmr);
	u32 windows;

	/* One that was replaced has left the table already. */
	if (mr->replaced) {
		kw_mr_free(dev, mr);
		return 0;
	}
	spin_lock_bh(&pd->window_lock);
	windows = mr->windows;
	/* From here on none can be bound to it. */
	if (!windows)
		WRITE_ONCE(mr->mem.valid, false);
	spin_unlock_bh(&pd->window_lock);
	if (windows)
		return -EBUSY;

	trace_kw_mr_deregistered(ibmr->device, mr->mem.stag);
	if (pd->local == &mr->mem)
		WRITE_ONCE(pd->local, NULL);
	xa_erase_bh(&dev->mems, kw_stag_index(mr->mem.stag));
	synchronize_srcu_expedited(&pd->domain->srcu);
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
 * The present registration is unchanged until kw_mr_register(). If nothing can
 * be mapped there is nothing to register, also not what was mapped before.
 *
 * Context: any.
 * Return: how many entries were taken; or -EINVAL for another kind of region,
 * or a page size that the device does not have.
 */
int kw_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		 unsigned int *offset)
{
	struct kw_mr *mr = to_kw_mr(ibmr);

	mr->next_pages = 0;
	mr->next_nr_ext = 0;
	mr->next_end = NULL;
	if (!mr->max_pages || !is_power_of_2(ibmr->page_size) ||
	    !(ibmr->page_size & KW_PAGE_SIZES))
		return -EINVAL;
	return ib_sg_to_pages(ibmr, sg, nents, offset, kw_set_page);
}

/**
 * kw_mr_register() - carry out a fast registration (REG_MR)
 * @ibmr: a region of kw_alloc_mr(), not valid at present
 * @pd: protection domain of the queue pair that the request was posted to
 * @key: the STag from now on: the region's index and any key
 * @access: IB_ACCESS_*
 *
 * It is of what kw_map_mr_sg() has described last, which may have been
 * registered and withdrawn before.
 *
 * Context: any.
 * Return: 0; -EINVAL if the region is of another kind or still valid, nothing
 * was mapped, or @key has another index. -EACCES for another protection domain,
 * -EOPNOTSUPP for unknown access flags.
 */
int kw_mr_register(struct ib_mr *ibmr, const struct kw_pd *pd, u32 key,
		   u32 access)
{
	struct kw_mr *mr = to_kw_mr(ibmr);
	struct kw_mem *mem = &mr->mem;

	if (!mr->max_pages || READ_ONCE(mem->valid) || !mr->next_pages ||
	    kw_stag_index(key) != kw_stag_index(mem->stag))
		return -EINVAL;
	if (mem->pd != &pd->ib)
		return -EACCES;
	if (access & ~(KW_MR_ACCESS | IB_ACCESS_OPTIONAL))
		return -EOPNOTSUPP;

	/* It may have been withdrawn just now: wait for copies under way. */
	kw_mem_quiesce(mem);
	if (mr->next_nr_ext) {
		swap(mem->ext, mr->next_ext);
		mem->nr_ext = mr->next_nr_ext;
		mr->next_nr_ext = 0;
	}
	mem->base = access & IB_ZERO_BASED ? 0 : ibmr->iova;
	mem->len = ibmr->length;
	mem->access = access;
	WRITE_ONCE(mem->stag, key);
	trace_kw_mr_registered(pd->ib.device, mem);
	/* Pairs with kw_mem_lookup(): a valid region is complete. */
	smp_store_release(&mem->valid, true);
	return 0;
}

/**
 * kw_mem_lookup() - find a valid region, or a window that is bound
 * @dev: device
 * @pd: identity of the requester's protection domain
 * @stag: index and key
 *
 * The domain that the caller is in keeps only regions of @pd.
 *
 * Context: any, inside the domain of @pd, which also bounds the use of the
 * result.
 * Return: the region; NULL if there is none. A region of another domain gives
 * one without memory and without a protection domain.
 */
__hot struct kw_mem *kw_mem_lookup(struct kw_device *dev, const void *pd,
				   u32 stag)
{
	static struct kw_mem others = { .valid = true };
	struct kw_mem *mem;
	bool valid;

	rcu_read_lock();
	do {
		mem = xa_load(&dev->mems, kw_stag_index(stag));
		/* Pairs with kw_mr_register(), kw_mr_replace() and kw_mw_bind(). */
		valid = mem && smp_load_acquire(&mem->valid);
		/* If it was replaced just now, there is another in its place. */
	} while (mem && !valid &&
		 xa_load(&dev->mems, kw_stag_index(stag)) != mem);
	if (!valid || READ_ONCE(mem->stag) != stag)
		mem = NULL;
	else if (kw_mem_domain(mem) != pd)
		mem = &others;
	rcu_read_unlock();
	return mem;
}

/*
 * While the region is held kw_mr_register() cannot make it another registration
 * with another key, which the one that was looked up does not name.
 */
static int kw_mr_invalidate(struct kw_mem *mem, u32 stag, bool remote)
{
	int ret = 0;

	if (!kw_mem_get_fast(mem, stag))
		return -ENOENT;
	if (remote && !(mem->access & KW_REMOTE_ACCESS))
		ret = -EPERM;
	else if (!xchg(&mem->valid, false))
		ret = -ENOENT;
	kw_mem_put_fast(mem);
	/* RFC 5041 section 8.3.1: from now on nothing of it changes. */
	if (!ret)
		kw_mem_quiesce(mem);
	return ret;
}

/*
 * A consumer cannot know whether its peer has withdrawn a registration already:
 * the message that did so may not have been polled yet. To withdraw it again is
 * no error. It is of @pd, in whose domain the caller is.
 */
static int kw_mr_invalidate_again(struct kw_device *dev, const void *pd,
				  u32 stag)
{
	struct kw_mem *mem;

	rcu_read_lock();
	mem = xa_load(&dev->mems, kw_stag_index(stag));
	/* It may have been registered since, by the same key. */
	if (mem && READ_ONCE(mem->valid))
		mem = NULL;
	if (mem && (mem->pd != pd || !mem->fast || READ_ONCE(mem->stag) != stag))
		mem = NULL;
	rcu_read_unlock();
	if (!mem)
		return -ENOENT;
	/* Who withdrew it may still be waiting for its users. */
	kw_mem_quiesce(mem);
	return 0;
}

/**
 * kw_mem_invalidate() - withdraw a fast registration or a window, by LOCAL_INV
 *	or the peer
 * @dev: device
 * @pd: identity of the queue pair's protection domain
 * @stream: identity of its stream
 * @stag: which region
 * @remote: the peer asks; it may withdraw only what it may access
 *
 * A fast registration is made for one transfer, and its consumer expects the
 * peer to withdraw it. A window of type 2 is for one stream. All streams of a
 * domain may share any other region or window, and no peer may take it from the
 * others (RFC 5040 section 8.1.1).
 *
 * Context: any, inside the domain of @pd.
 * Return: 0, also if LOCAL_INV names a fast registration that is withdrawn
 * already; -ENOENT if there is no such valid region, -EACCES if it is of
 * another protection domain or stream. -EOPNOTSUPP if it is neither a fast
 * registration nor a window of type 2, -EPERM if the peer has no right to it.
 */
int kw_mem_invalidate(struct kw_device *dev, const void *pd, const void *stream,
		      u32 stag, bool remote)
{
	struct kw_mem *mem = kw_mem_lookup(dev, pd, stag);
	int ret = 0;

	if (!mem)
		ret = -ENOENT;
	else if (kw_mem_domain(mem) != pd)
		ret = -EACCES;
	else if (!mem->fast)
		ret = -EOPNOTSUPP;
	else if (mem->window_pd)
		ret = kw_mw_invalidate(mem, stream, stag, remote);
	else
		ret = kw_mr_invalidate(mem, stag, remote);
	if (ret == -ENOENT && !remote)
		ret = kw_mr_invalidate_again(dev, pd, stag);
	trace_kw_mr_invalidated(&dev->ib, stag, remote, ret);
	return ret;
}
