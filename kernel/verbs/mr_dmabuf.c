// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Memory of dma-bufs, for regions.
 *
 * The CPU copies data, in any context. So the exporter must support vmap. That
 * alone does not keep the pages: TTM's exporters move or swap a mapped buffer,
 * and free its pages, unless it is pinned or attached as well. What is sent from
 * there is always copied: when the region goes the exporter may free pages that
 * TCP still refers to.
 *
 * A copy is not bracketed by dma_buf_begin_cpu_access() and _end_cpu_access(),
 * which may sleep. Where devices are coherent with the CPU's caches that is not
 * needed. Elsewhere a process has to order its device's accesses and the peer's
 * by DMA_BUF_IOCTL_SYNC, as for its own mapping of the buffer.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/pfn.h>
#include <linux/slab.h>

#include "compat.h"
#include "verbs/ops.h"

#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)

KW_IMPORT_NS_DMA_BUF;

/* A buffer that is pinned does not move, but an importer has to have this. */
static void kw_dmabuf_moved(struct dma_buf_attachment *at)
{
}

/* No peer to peer. The second field's name is not the same in all kernels. */
static const struct dma_buf_attach_ops kw_dmabuf_attach_ops = {
	false, kw_dmabuf_moved
};

static void kw_dmabuf_unpin(struct dma_buf *buf, struct dma_buf_attachment *at)
{
	if (dma_buf_is_dynamic(buf)) {
		dma_resv_lock(buf->resv, NULL);
		dma_buf_unpin(at);
		dma_resv_unlock(buf->resv);
	}
	dma_buf_detach(buf, at);
}

/* Have the exporter keep the buffer where it is, in the CPU's memory. */
static struct dma_buf_attachment *kw_dmabuf_pin(struct dma_buf *buf,
						struct device *dev)
{
	struct dma_buf_attachment *at;
	int ret;

	/* Exporters without pin do not move what is attached. */
	if (!dma_buf_is_dynamic(buf))
		return dma_buf_attach(buf, dev);
	at = dma_buf_dynamic_attach(buf, dev, &kw_dmabuf_attach_ops, NULL);
	if (IS_ERR(at))
		return at;
	dma_resv_lock(buf->resv, NULL);
	ret = dma_buf_pin(at);
	dma_resv_unlock(buf->resv);
	if (!ret)
		return at;
	dma_buf_detach(buf, at);
	return ERR_PTR(ret);
}

/*
 * To keep a buffer the exporter may have begun to move it, with the device
 * copying. Until that is done the new pages hold what was in them before.
 */
static int kw_dmabuf_await(struct dma_buf *buf)
{
	long ret = dma_resv_wait_timeout(buf->resv, DMA_RESV_USAGE_KERNEL, true,
					 MAX_SCHEDULE_TIMEOUT);

	return min(ret, 0L);
}

/* Exporters have various errors for what they cannot do at all. */
static int kw_dmabuf_errno(int ret)
{
	switch (ret) {
	case -ENOMEM:
	case -EAGAIN:
	case -EBUSY:
	case -ENOSPC:
		return ret;
	case -EINTR:
	case -ERESTARTSYS:
		return -EINTR;
	default:
		return -EOPNOTSUPP;
	}
}

static int kw_dmabuf_vmap(struct dma_buf *buf, u8 **va)
{
	struct iosys_map map;
	int ret;

	ret = dma_buf_vmap_unlocked(buf, &map);
	if (ret)
		return ret;
	/* A device's memory takes other instructions than those that copy. */
	if (map.is_iomem) {
		dma_buf_vunmap_unlocked(buf, &map);
		return -EOPNOTSUPP;
	}
	*va = map.vaddr;
	return 0;
}

/**
 * kw_dmabuf_map() - make part of a dma-buf a region's memory
 * @mr: new region, with its access rights
 * @fd: the buffer
 * @offset: of the region's first byte in it
 * @len: bytes
 *
 * Context: process.
 * Return: 0; -EBADF or -EINVAL for what is no dma-buf, -EINVAL for a range that
 * is not in it. -EACCES for write access to a buffer that may be read only,
 * -EOPNOTSUPP if a CPU cannot access it, or it cannot be kept in place; -ENOMEM
 * (RLIMIT_MEMLOCK, too). -EINTR by a signal; -EAGAIN, -EBUSY, -ENOSPC as the
 * exporter gives it. If it fails, @mr has to be freed.
 */
int kw_dmabuf_map(struct kw_mr *mr, int fd, u64 offset, u64 len)
{
	struct dma_buf_attachment *at;
	struct dma_buf *buf;
	u8 *va;
	int ret = -EINVAL;

	buf = dma_buf_get(fd);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if (!len || offset > buf->size || len > buf->size - offset)
		goto put;
	ret = -EACCES;
	if (ib_access_writable(mr->mem.access) &&
	    !(buf->file->f_mode & FMODE_WRITE))
		goto put;
	ret = -ENOMEM;
	mr->mem.ext = kvzalloc(sizeof(*mr->mem.ext), GFP_KERNEL_ACCOUNT);
	if (!mr->mem.ext)
		goto put;
	/* As memory that is pinned by its address does. */
	ret = kw_lock_pages(&mr->dmabuf_locked, PFN_UP(buf->size));
	if (ret)
		goto put;
	at = kw_dmabuf_pin(buf, &mr->ib.device->dev);
	ret = PTR_ERR_OR_ZERO(at);
	if (ret)
		goto unlock;
	ret = kw_dmabuf_await(buf);
	if (!ret)
		ret = kw_dmabuf_vmap(buf, &va);
	if (ret)
		goto unpin;
	mr->mem.ext->va = va + offset;
	mr->mem.nr_ext = 1;
	mr->mem.len = len;
	mr->mem.copied = true;
	mr->dmabuf = buf;
	mr->dmabuf_at = at;
	mr->dmabuf_va = va;
	return 0;
unpin:
	kw_dmabuf_unpin(buf, at);
unlock:
	kw_unlock_pages(&mr->dmabuf_locked);
	ret = kw_dmabuf_errno(ret);
put:
	dma_buf_put(buf);
	return ret;
}

/**
 * kw_dmabuf_unmap() - undo kw_dmabuf_map()
 * @mr: region without users; of a dma-buf or not
 *
 * Context: process.
 */
void kw_dmabuf_unmap(struct kw_mr *mr)
{
	struct iosys_map map = IOSYS_MAP_INIT_VADDR(mr->dmabuf_va);

	if (!mr->dmabuf)
		return;
	dma_buf_vunmap_unlocked(mr->dmabuf, &map);
	kw_dmabuf_unpin(mr->dmabuf, mr->dmabuf_at);
	dma_buf_put(mr->dmabuf);
	kw_unlock_pages(&mr->dmabuf_locked);
}

#else

int kw_dmabuf_map(struct kw_mr *mr, int fd, u64 offset, u64 len)
{
	return -EOPNOTSUPP;
}

void kw_dmabuf_unmap(struct kw_mr *mr)
{
}

#endif
