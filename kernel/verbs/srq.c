// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Shared receive queues.
 *
 * The queue pairs take entries off one ring, under its lock: each the next one
 * when a Send begins to arrive. The entry is copied, and its slot is free from
 * then on, while the queue pair receives into the buffers. So an entry has no
 * state here after it was taken.
 *
 * An error of a queue pair does not affect the queue, which has no error state
 * and is not flushed.
 */
#include <linux/log2.h>
#include <linux/mutex.h>
#include <rdma/uverbs_ioctl.h>

#include "compat.h"
#include "verbs/ops.h"
#include "verbs/qp.h"

/* Entries moved in a row with interrupts off: some ten microseconds. */
#define KW_SRQ_MOVE_BATCH	64

/* More is posted only by a process that posts during the call. */
#define KW_SRQ_MOVE_BATCHES	(2 * KIWARP_MAX_SRQ_WR / KW_SRQ_MOVE_BATCH)

static bool kw_srq_user(const struct kw_srq *srq)
{
	return srq->unread;
}

static void kw_srq_limit_work(struct work_struct *work)
{
	struct kw_srq *srq = container_of(work, struct kw_srq, limit_work);
	struct ib_event ev = {
		.device = srq->ib.device,
		.element.srq = &srq->ib,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
	};

	/*
	 * ib_uverbs allocates each event, charged to no user. One that was not
	 * read yet says the same: its reader comes after what this is for.
	 */
	if (!kw_srq_user(srq) || list_empty(srq->unread))
		srq->ib.event_handler(&ev, srq->ib.srq_context);
}

/*
 * Called with the lock. A kernel consumer's handler may take a lock that is
 * held around a post: see kw_qp_event().
 */
static void kw_srq_check_limit(struct kw_srq *srq, u32 posted)
{
	if (posted >= srq->limit)
		return;
	srq->limit = 0;
	if (srq->ib.event_handler)
		queue_work(system_bh_wq, &srq->limit_work);
}

/*
 * How much is posted. User space writes the producer index: a wrong one says
 * more than there is room for.
 */
static u32 kw_srq_posted(const struct kw_srq *srq)
{
	/* Pairs with the poster's release: the entries are complete. */
	return smp_load_acquire(&kw_ctrl(&srq->ring)->producer) - srq->next;
}

/**
 * kw_srq_take() - take the next entry for a queue pair
 * @qp: queue pair with a shared receive queue, which has no receive open
 * @r: result; its SGEs are memory of the queue pair's
 *
 * An entry that is not valid is taken, too: it fails this queue pair, which
 * completes it, and no other.
 *
 * Context: any; takes kw_srq.lock.
 * Return: 1, 0 if there is none, or -EINVAL if the entry, or the producer
 * index, is not valid.
 */
int kw_srq_take(struct kw_qp *qp, struct kw_recv *r)
{
	struct kw_srq *srq = qp->srq;
	unsigned long flags;
	int ret = 0;
	u32 posted;

	spin_lock_irqsave(&srq->lock, flags);
	posted = kw_srq_posted(srq);
	if (posted > kw_ring_entries(&srq->ring)) {
		ret = -EINVAL;
	} else if (posted) {
		ret = kw_recv_read(&srq->ring, srq->next, srq->max_sge, r) ?: 1;
		qp->srq_wr_id = r->wr_id;
		qp->srq_open = true;
		srq->next++;
		/* The poster may write to the slot again: it was read before. */
		smp_store_release(&kw_ctrl(&srq->ring)->consumer, srq->next);
		kw_srq_check_limit(srq, posted - 1);
	}
	spin_unlock_irqrestore(&srq->lock, flags);
	return ret;
}

/**
 * kw_post_srq_recv() - ib_device_ops.post_srq_recv
 * @ibsrq: queue of a kernel consumer; user space posts to its ring itself
 * @wr: work requests
 * @bad: the first that was not posted
 *
 * Context: any; takes kw_srq.lock.
 * Return: 0, -EINVAL (SGEs), -ENOMEM (queue full).
 */
int kw_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad)
{
	struct kw_srq *srq = to_kw_srq(ibsrq);
	unsigned long flags;
	int ret;

	if (kw_srq_user(srq)) {
		*bad = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&srq->lock, flags);
	ret = kw_fill_recvs(&srq->ring, &srq->post, &srq->next, srq->max_sge,
			    wr, bad);
	spin_unlock_irqrestore(&srq->lock, flags);
	return ret;
}

static int kw_srq_alloc_ring(struct kw_queue_mem *mem, struct kw_ring *ring,
			     u32 entries, u32 stride, struct ib_ucontext *uctx)
{
	int ret = kw_queue_mem_alloc(mem, kw_ring_size(entries, stride), uctx);

	if (!ret)
		*ring = kw_ring_in(mem, 0, entries, stride);
	return ret;
}

static struct kiwarp_create_srq_resp kw_srq_resp(const struct kw_srq *srq,
						 const struct kw_queue_mem *mem,
						 const struct kw_ring *ring)
{
	return (struct kiwarp_create_srq_resp){
		.srq_id = srq->id,
		.entries = kw_ring_entries(ring),
		.stride = ring->stride,
		.ring_key = kw_queue_mem_key(mem),
		.ring_size = mem->size,
	};
}

static int kw_srq_respond(struct kw_srq *srq, struct ib_udata *udata)
{
	struct kiwarp_create_srq_resp resp =
		kw_srq_resp(srq, &srq->queue_mem, &srq->ring);

	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

static int kw_srq_init_events(struct kw_srq *srq)
{
	srq->unread = kw_compat_srq_events(srq->ib.uobject);
	if (srq->unread)
		return 0;
	ibdev_warn_ratelimited(srq->ib.device,
			       "this kernel does not let events of shared receive queues be bounded\n");
	return -EOPNOTSUPP;
}

static int kw_srq_check_init(const struct ib_srq_init_attr *a)
{
	if (a->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!a->attr.max_wr || a->attr.max_wr > KIWARP_MAX_SRQ_WR ||
	    a->attr.max_sge > KIWARP_MAX_SGE)
		return -EINVAL;
	return 0;
}

/**
 * kw_create_srq() - ib_device_ops.create_srq
 * @ibsrq: zeroed object of the RDMA core's
 * @init: requested attributes; its capacities become the granted ones. The
 *	limit is not one of them: ibv_create_srq(3)
 * @udata: user space's buffers, or NULL
 *
 * Context: process.
 * Return: 0; -EOPNOTSUPP for another type than basic, or if
 * kw_compat_srq_events() does not know the kernel; -EINVAL for a number out of
 * range or a short response; -ENOMEM.
 */
int kw_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		  struct ib_udata *udata)
{
	struct kw_ucontext *uctx =
		rdma_udata_to_drv_context(udata, struct kw_ucontext, ib);
	struct kw_device *dev = to_kw_dev(ibsrq->device);
	struct kw_srq *srq = to_kw_srq(ibsrq);
	struct ib_srq_attr *attr = &init->attr;
	int ret;

	ret = kw_srq_check_init(init);
	if (!ret && uctx)
		ret = kw_srq_init_events(srq);
	if (ret)
		return ret;
	if (!kw_count_object(&dev->nr_srq, KW_MAX_SRQ, uctx))
		return -ENOMEM;

	spin_lock_init(&srq->lock);
	mutex_init(&srq->modify_lock);
	INIT_WORK(&srq->limit_work, kw_srq_limit_work);
	srq->id = atomic_inc_return(&dev->next_srq_id);
	srq->max_sge = max(attr->max_sge, 1U);
	ret = kw_srq_alloc_ring(&srq->queue_mem, &srq->ring,
				roundup_pow_of_two(attr->max_wr),
				kw_rqe_stride(srq->max_sge),
				uctx ? &uctx->ib : NULL);
	if (ret)
		goto uncount;
	if (uctx) {
		ret = kw_srq_respond(srq, udata);
		if (ret)
			goto free;
	}
	attr->max_wr = kw_ring_entries(&srq->ring);
	attr->max_sge = srq->max_sge;
	attr->srq_limit = 0;
	return 0;
free:
	kw_queue_mem_free(&srq->queue_mem);
uncount:
	atomic_dec(&dev->nr_srq);
	return ret;
}

/*
 * Called with the lock: copy entries from index @at on, and if these are the
 * last make @ring the queue's. Returns 1 then, 0 if there are more.
 */
static int kw_srq_move_batch(struct kw_srq *srq, struct kw_ring *ring, u32 *at)
{
	u32 posted = kw_srq_posted(srq);
	u32 end = srq->next + posted;
	int i;

	if (posted > kw_ring_entries(&srq->ring) ||
	    posted > kw_ring_entries(ring))
		return -EINVAL;
	/* Those before were taken meanwhile, or the producer index went back. */
	if (*at - srq->next > posted)
		*at = srq->next;
	for (i = 0; i < KW_SRQ_MOVE_BATCH && *at != end; i++, ++*at)
		memcpy(kw_ring_at(ring, *at), kw_ring_at(&srq->ring, *at),
		       ring->stride);
	if (*at != end)
		return 0;
	kw_ctrl(ring)->producer = end;
	kw_ctrl(ring)->consumer = srq->next;
	swap(srq->ring, *ring);
	return 1;
}

/* Indices continue. The provider posts nothing meanwhile: it holds its lock. */
static int kw_srq_move(struct kw_srq *srq, struct kw_ring *ring)
{
	u32 at = READ_ONCE(srq->next);
	int i, ret = 0;

	for (i = 0; i < KW_SRQ_MOVE_BATCHES && !ret; i++) {
		spin_lock_irq(&srq->lock);
		ret = kw_srq_move_batch(srq, ring, &at);
		spin_unlock_irq(&srq->lock);
		cond_resched();
	}
	return ret < 0 ? ret : ret ? 0 : -EBUSY;
}

/*
 * User space learns of the new ring before it is in use. MODIFY_SRQ has no
 * response of its own, so the request says where to put it.
 */
static int kw_srq_announce(const struct kw_srq *srq,
			   const struct kw_queue_mem *mem,
			   const struct kw_ring *ring, struct ib_udata *udata)
{
	struct kiwarp_create_srq_resp resp = kw_srq_resp(srq, mem, ring);
	struct kiwarp_modify_srq_req req;
	int ret;

	if (udata->inlen < sizeof(req))
		return -EINVAL;
	ret = ib_copy_from_udata(&req, udata, sizeof(req));
	if (ret)
		return ret;
	return copy_to_user(u64_to_user_ptr(req.response), &resp,
			    sizeof(resp)) ? -EFAULT : 0;
}

static int kw_srq_resize(struct kw_srq *srq, u32 max_wr, struct ib_udata *udata)
{
	struct kw_ucontext *uctx =
		rdma_udata_to_drv_context(udata, struct kw_ucontext, ib);
	struct kw_queue_mem mem;
	struct kw_ring ring;
	int ret;

	if (!max_wr || max_wr > KIWARP_MAX_SRQ_WR)
		return -EINVAL;
	ret = kw_srq_alloc_ring(&mem, &ring, roundup_pow_of_two(max_wr),
				srq->ring.stride, uctx ? &uctx->ib : NULL);
	if (ret)
		return ret;
	if (uctx)
		ret = kw_srq_announce(srq, &mem, &ring, udata);
	if (!ret)
		ret = kw_srq_move(srq, &ring);
	if (!ret)
		swap(srq->queue_mem, mem);
	kw_queue_mem_free(&mem);
	return ret;
}

/* A limit that is not kept even now is reached at once. */
static void kw_srq_arm(struct kw_srq *srq, u32 limit)
{
	spin_lock_irq(&srq->lock);
	srq->limit = limit;
	kw_srq_check_limit(srq, kw_srq_posted(srq));
	spin_unlock_irq(&srq->lock);
}

static int kw_srq_modify(struct kw_srq *srq, const struct ib_srq_attr *attr,
			 int mask, struct ib_udata *udata)
{
	bool resize = mask & IB_SRQ_MAX_WR;
	int ret;

	/* If one attribute is not valid, none is modified. */
	if (mask & IB_SRQ_LIMIT &&
	    attr->srq_limit > (resize ? attr->max_wr :
					kw_ring_entries(&srq->ring)))
		return -EINVAL;
	ret = resize ? kw_srq_resize(srq, attr->max_wr, udata) : 0;
	if (!ret && mask & IB_SRQ_LIMIT)
		kw_srq_arm(srq, attr->srq_limit);
	return ret;
}

/**
 * kw_modify_srq() - ib_device_ops.modify_srq
 * @ibsrq: queue
 * @attr: new attributes
 * @mask: IB_SRQ_MAX_WR: resize the ring. IB_SRQ_LIMIT: arm the event that less
 *	than so many entries are posted; 0: disarm it
 * @udata: user space's buffers, or NULL
 *
 * Context: process.
 * Return: 0; -EINVAL for a number out of range, or if more is posted than there
 * would be room for. -EINTR if the process is killed, -EBUSY if others post all
 * the time; -ENOMEM; -EFAULT.
 */
int kw_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		  enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct kw_srq *srq = to_kw_srq(ibsrq);
	int ret;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
	ret = mutex_lock_killable(&srq->modify_lock);
	if (ret)
		return ret;
	ret = kw_srq_modify(srq, attr, mask, udata);
	mutex_unlock(&srq->modify_lock);
	return ret;
}

/**
 * kw_query_srq() - ib_device_ops.query_srq
 * @ibsrq: queue
 * @attr: filled
 *
 * Context: process.
 * Return: 0.
 */
int kw_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct kw_srq *srq = to_kw_srq(ibsrq);

	spin_lock_irq(&srq->lock);
	attr->max_wr = kw_ring_entries(&srq->ring);
	attr->max_sge = srq->max_sge;
	attr->srq_limit = srq->limit;
	spin_unlock_irq(&srq->lock);
	return 0;
}

/**
 * kw_srq_get_info() - describe a shared receive queue
 * @srq: queue; kw_destroy_srq() may be under way or over
 * @info: result
 *
 * Context: process; takes kw_srq.lock.
 * Return: false if it has been destroyed.
 */
bool kw_srq_get_info(struct kw_srq *srq, struct kw_srq_info *info)
{
	bool alive;

	spin_lock_irq(&srq->lock);
	alive = srq->ring.mem;
	if (alive)
		*info = (struct kw_srq_info){
			.entries = kw_ring_entries(&srq->ring),
			.posted = srq->next + kw_srq_posted(srq),
			.taken = srq->next,
			.limit = srq->limit,
		};
	spin_unlock_irq(&srq->lock);
	return alive;
}

/**
 * kw_destroy_srq() - ib_device_ops.destroy_srq
 * @ibsrq: queue
 * @udata: unused
 *
 * The RDMA core made sure that no queue pair uses it, and destroy_qp that none
 * takes entries any more.
 *
 * Context: process.
 * Return: 0.
 */
int kw_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct kw_srq *srq = to_kw_srq(ibsrq);

	cancel_work_sync(&srq->limit_work);
	/* The RDMA core may still list the queue: see kw_srq_get_info(). */
	spin_lock_irq(&srq->lock);
	srq->ring.mem = NULL;
	spin_unlock_irq(&srq->lock);
	kw_queue_mem_free(&srq->queue_mem);
	mutex_destroy(&srq->modify_lock);
	atomic_dec(&to_kw_dev(ibsrq->device)->nr_srq);
	return 0;
}
