// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * An exporter of dma-bufs that cannot do all that others can, for the suite
 * extended: those of a machine depend on its kernel and its devices.
 */
#include <linux/debugfs.h>
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-resv.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "exporter.h"
#include "ktest.h"
#include "versions.h"

#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)

KT_IMPORT_NS_DMA_BUF;

/* A buffer. */
struct kt_exported {
	enum kt_export kind;
	void *mem;
	atomic_t kept;		/* attachments, or pins */
	atomic_t mapped;
	struct dma_fence *move;	/* signalled when pinning has moved it */
	struct delayed_work move_work;
	bool moved;
};

static atomic_t kt_mapped, kt_left, kt_loose;
static DEFINE_SPINLOCK(kt_move_lock);

static void kt_keep(struct kt_exported *x)
{
	atomic_inc(&x->kept);
}

static void kt_let_go(struct kt_exported *x)
{
	if (atomic_dec_and_test(&x->kept) && atomic_read(&x->mapped))
		atomic_inc(&kt_loose);
}

static int kt_export_attach(struct dma_buf *buf, struct dma_buf_attachment *at)
{
	kt_keep(buf->priv);
	return 0;
}

static void kt_export_detach(struct dma_buf *buf, struct dma_buf_attachment *at)
{
	kt_let_go(buf->priv);
}

static const char *kt_move_name(struct dma_fence *fence)
{
	return "kiwarp_ktest";
}

static const struct dma_fence_ops kt_move_ops = {
	.get_driver_name = kt_move_name,
	.get_timeline_name = kt_move_name,
};

static void kt_move_work(struct work_struct *work)
{
	struct kt_exported *x = container_of(to_delayed_work(work),
					     struct kt_exported, move_work);

	WRITE_ONCE(x->moved, true);
	dma_fence_signal(x->move);
}

/* As a graphics device that copies the buffer to the host's memory. */
static int kt_move(struct kt_exported *x, struct dma_resv *resv)
{
	struct dma_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);
	int ret;

	if (!fence)
		return -ENOMEM;
	dma_fence_init(fence, &kt_move_ops, &kt_move_lock,
		       dma_fence_context_alloc(1), 1);
	ret = dma_resv_reserve_fences(resv, 1);
	if (ret) {
		dma_fence_put(fence);
		return ret;
	}
	dma_resv_add_fence(resv, fence, DMA_RESV_USAGE_KERNEL);
	x->move = fence;
	INIT_DELAYED_WORK(&x->move_work, kt_move_work);
	schedule_delayed_work(&x->move_work, HZ / 5);
	return 0;
}

static int kt_export_pin(struct dma_buf_attachment *at)
{
	struct kt_exported *x = at->dmabuf->priv;
	int ret = 0;

	if (x->kind == KT_EXPORT_NO_PIN)
		return -EINVAL;
	if (!x->move)
		ret = kt_move(x, at->dmabuf->resv);
	if (!ret)
		kt_keep(x);
	return ret;
}

static void kt_export_unpin(struct dma_buf_attachment *at)
{
	kt_let_go(at->dmabuf->priv);
}

/* There is no device to map it for. */
static struct sg_table *kt_export_map(struct dma_buf_attachment *at,
				      enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void kt_export_unmap(struct dma_buf_attachment *at, struct sg_table *sgt,
			    enum dma_data_direction dir)
{
}

static int kt_export_vmap(struct dma_buf *buf, struct iosys_map *map)
{
	struct kt_exported *x = buf->priv;

	if (x->kind == KT_EXPORT_IOMEM)
		iosys_map_set_vaddr_iomem(map, (void __iomem *)x->mem);
	else
		iosys_map_set_vaddr(map, x->mem);
	if (!atomic_read(&x->kept) || (x->move && !READ_ONCE(x->moved)))
		atomic_inc(&kt_loose);
	atomic_inc(&x->mapped);
	atomic_inc(&kt_mapped);
	return 0;
}

static void kt_export_vunmap(struct dma_buf *buf, struct iosys_map *map)
{
	struct kt_exported *x = buf->priv;

	atomic_dec(&x->mapped);
	atomic_dec(&kt_mapped);
}

static void kt_export_release(struct dma_buf *buf)
{
	struct kt_exported *x = buf->priv;

	if (x->move) {
		flush_delayed_work(&x->move_work);
		dma_fence_put(x->move);
	}
	vfree(x->mem);
	kfree(x);
	atomic_dec(&kt_left);
}

static const struct dma_buf_ops kt_export_ops = {
	.attach = kt_export_attach,
	.detach = kt_export_detach,
	.map_dma_buf = kt_export_map,
	.unmap_dma_buf = kt_export_unmap,
	.vmap = kt_export_vmap,
	.vunmap = kt_export_vunmap,
	.release = kt_export_release,
};

static const struct dma_buf_ops kt_export_moves_ops = {
	.pin = kt_export_pin,
	.unpin = kt_export_unpin,
	.map_dma_buf = kt_export_map,
	.unmap_dma_buf = kt_export_unmap,
	.vmap = kt_export_vmap,
	.vunmap = kt_export_vunmap,
	.release = kt_export_release,
};

static const struct dma_buf_ops kt_export_no_vmap_ops = {
	.map_dma_buf = kt_export_map,
	.unmap_dma_buf = kt_export_unmap,
	.release = kt_export_release,
};

static const struct dma_buf_ops *kt_ops(enum kt_export kind)
{
	switch (kind) {
	case KT_EXPORT_NO_VMAP:
		return &kt_export_no_vmap_ops;
	case KT_EXPORT_MOVES:
	case KT_EXPORT_NO_PIN:
		return &kt_export_moves_ops;
	default:
		return &kt_export_ops;
	}
}

static int kt_export(enum kt_export kind)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct kt_exported *x;
	struct dma_buf *buf;
	int fd;

	x = kzalloc(sizeof(*x), GFP_KERNEL);
	if (!x)
		return -ENOMEM;
	x->kind = kind;
	x->mem = vzalloc(KT_EXPORT_PAGES * PAGE_SIZE);
	if (!x->mem) {
		kfree(x);
		return -ENOMEM;
	}
	info.ops = kt_ops(kind);
	info.size = KT_EXPORT_PAGES * PAGE_SIZE;
	info.flags = kind == KT_EXPORT_READ_ONLY ? O_RDONLY : O_RDWR;
	info.priv = x;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		vfree(x->mem);
		kfree(x);
		return PTR_ERR(buf);
	}
	atomic_inc(&kt_left);
	fd = dma_buf_fd(buf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

static long kt_exporter_ioctl(struct file *file, unsigned int cmd,
			      unsigned long arg)
{
	switch (cmd) {
	case KT_EXPORT:
		return arg < KT_NR_EXPORTS ? kt_export(arg) : -EINVAL;
	case KT_EXPORT_MAPPED:
		return atomic_read(&kt_mapped);
	case KT_EXPORT_LEFT:
		return atomic_read(&kt_left);
	case KT_EXPORT_LOOSE:
		return atomic_read(&kt_loose);
	}
	return -ENOTTY;
}

static const struct file_operations kt_exporter_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = kt_exporter_ioctl,
};

/**
 * kt_exporter_init() - make the exporter's file
 * @dir: the module's folder
 *
 * Context: process.
 */
void kt_exporter_init(struct dentry *dir)
{
	debugfs_create_file("exporter", 0600, dir, NULL, &kt_exporter_fops);
}

#else

void kt_exporter_init(struct dentry *dir)
{
}

#endif
