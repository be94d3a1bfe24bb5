// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Queue pairs: lifetime and states.
 */
#include <linux/pid.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <rdma/uverbs_ioctl.h>

#include "compat.h"
#include "trace.h"
#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs/qp_named.h"

#define KW_QP_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND)

/* What the connection manager asks for. */
#define KW_QP_CM_ACCESS	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* 0 and 1 are special queue pairs elsewhere; the RDMA core requires 24 bits. */
#define KW_QPN_MIN	2
#define KW_QPN_MAX	0xffffff

/* At most 1/128 of the numbers are in use: 1 in 2^56 times all tries fail. */
#define KW_QPN_TRIES	8

/* What iw_cm gets instead of a queue pair that the caller may not connect. */
static struct kw_qp kw_qp_denied = { .ref = KREF_INIT(1) };

/**
 * kw_qp_get() - take a reference
 * @qp: queue pair to which the caller has one already
 */
void kw_qp_get(struct kw_qp *qp)
{
	kref_get(&qp->ref);
}

static void kw_qp_release(struct kref *ref)
{
	complete(container_of(ref, struct kw_qp, ref)->freed);
}

/**
 * kw_qp_put() - drop a reference
 * @qp: queue pair; after the last one destroy_qp continues
 */
void kw_qp_put(struct kw_qp *qp)
{
	kref_put(&qp->ref, kw_qp_release);
}

/**
 * kw_qp_find() - find a queue pair by number and take a reference
 * @dev: device
 * @qpn: number
 *
 * Context: any.
 * Return: the queue pair or NULL.
 */
struct kw_qp *kw_qp_find(struct kw_device *dev, u32 qpn)
{
	unsigned long flags;
	struct kw_qp *qp;

	xa_lock_irqsave(&dev->qps, flags);
	qp = xa_load(&dev->qps, qpn);
	if (qp && !kref_get_unless_zero(&qp->ref))
		qp = NULL;
	xa_unlock_irqrestore(&dev->qps, flags);
	return qp;
}

/**
 * kw_qp_is_callers() - may this process use a queue pair?
 * @qp: queue pair
 *
 * rdma_ucm calls on behalf of the process that opened it, in a thread of that
 * process. (Any other process is refused there: ib_safe_file_access().)
 *
 * Context: process.
 * Return: true for a queue pair of the calling process.
 */
bool kw_qp_is_callers(const struct kw_qp *qp)
{
	return qp->owner && qp->owner == task_tgid(current);
}

/**
 * kw_iw_get_qp() - ib_device_ops.iw_get_qp
 * @ibdev: device
 * @qpn: number; any process may have chosen it
 *
 * The reference is passed with the result: between this and iw_add_ref nothing
 * else would keep the queue pair.
 *
 * iw_cm can report to its consumer only that a queue pair does not exist. That
 * it is another's is left to kw_iw_connect() and kw_iw_accept(), which know
 * more of the caller. Meanwhile iw_cm holds no reference to the other's queue
 * pair. They look the number up again: kw_qp_was_named() says whether iw_cm got
 * the same queue pair, and not one that had the number before.
 *
 * Context: process, interrupts may be off.
 * Return: the queue pair or NULL.
 */
struct ib_qp *kw_iw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct kw_qp *qp = kw_qp_find(to_kw_dev(ibdev), qpn);

	if (!qp)
		return NULL;
	if (qp->owner && !kw_qp_is_callers(qp)) {
		kw_qp_put(qp);
		qp = &kw_qp_denied;
		kw_qp_get(qp);
	}
	kw_qp_name(qp);
	atomic_inc(&qp->handed_over);
	return &qp->ib;
}

/**
 * kw_iw_add_ref() - ib_device_ops.iw_add_ref
 * @ibqp: queue pair
 *
 * iw_cm calls this once for each kw_iw_get_qp(), whose reference it uses, with
 * interrupts off in between. Any other call takes a reference. An unpatched
 * iw_cm makes none.
 */
void kw_iw_add_ref(struct ib_qp *ibqp)
{
	struct kw_qp *qp = to_kw_qp(ibqp);

	if (atomic_dec_if_positive(&qp->handed_over) < 0)
		kw_qp_get(qp);
}

/**
 * kw_iw_rem_ref() - ib_device_ops.iw_rem_ref
 * @ibqp: queue pair
 */
void kw_iw_rem_ref(struct ib_qp *ibqp)
{
	kw_qp_put(to_kw_qp(ibqp));
}

/**
 * kw_qp_set_state() - change the state, also the one that user space sees
 * @qp: queue pair
 * @state: enum kiwarp_qp_state
 *
 * Context: qp->lock held, or the queue pair not yet visible.
 */
void kw_qp_set_state(struct kw_qp *qp, u8 state)
{
	if (state != qp->state)
		trace_kw_qp_state(qp, state);
	WRITE_ONCE(qp->state, state);
	WRITE_ONCE(kw_ctrl(&qp->sq)->state, state);
	WRITE_ONCE(kw_ctrl(&qp->rq)->state, state);
}

static int kw_qp_check_init(const struct ib_pd *pd,
			    const struct ib_qp_init_attr *a)
{
	if (a->qp_type != IB_QPT_RC || a->create_flags)
		return -EOPNOTSUPP;
	if (!a->send_cq || !a->recv_cq)
		return -EINVAL;
	/* STags of its receives are looked up in the queue pair's domain. */
	if (a->srq && a->srq->pd != pd)
		return -EINVAL;
	/* Nothing would ever complete. */
	if (kw_cq_is_dead(to_kw_cq(a->send_cq)) || kw_cq_is_dead(to_kw_cq(a->recv_cq)))
		return -EINVAL;
	if (a->cap.max_send_wr > KIWARP_MAX_QP_WR ||
	    a->cap.max_send_sge > KIWARP_MAX_SGE ||
	    a->cap.max_inline_data > KIWARP_MAX_INLINE)
		return -EINVAL;
	/* ibv_create_qp(3): ignored with a shared receive queue. */
	if (!a->srq && (a->cap.max_recv_wr > KIWARP_MAX_QP_WR ||
			a->cap.max_recv_sge > KIWARP_MAX_SGE))
		return -EINVAL;
	return 0;
}

/* A queue that nothing is to be posted to has no entries. */
static u32 kw_qp_entries(u32 max_wr)
{
	return max_wr ? roundup_pow_of_two(max_wr) : 0;
}

static void kw_qp_free_rings(struct kw_qp *qp)
{
	kw_queue_mem_free(&qp->queue_mem);
	kfree(qp->recv_sge);
	kvfree(qp->sq_track);
}

static int kw_qp_alloc_rings(struct kw_qp *qp, struct ib_qp_init_attr *a,
			     struct ib_ucontext *uctx)
{
	struct ib_qp_cap *cap = &a->cap;
	u32 sq_entries = kw_qp_entries(cap->max_send_wr);
	u32 rq_entries, recv_sge;
	u32 payload, sq_stride, rq_stride;
	size_t rq_off;
	int ret;

	if (a->srq) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
	}
	rq_entries = kw_qp_entries(cap->max_recv_wr);
	cap->max_send_sge = max(cap->max_send_sge, 1U);
	cap->max_recv_sge = max(cap->max_recv_sge, 1U);
	recv_sge = a->srq ? to_kw_srq(a->srq)->max_sge : cap->max_recv_sge;
	payload = max_t(u32, cap->max_send_sge * sizeof(struct kiwarp_sge),
			ALIGN(cap->max_inline_data, sizeof(struct kiwarp_sge)));
	sq_stride = sizeof(struct kiwarp_sqe) + payload;
	/* Kernel consumers can post atomic operations with masks. */
	if (!uctx)
		sq_stride = max_t(u32, sq_stride, KW_MASKED_SQE_BYTES);
	rq_stride = kw_rqe_stride(cap->max_recv_sge);
	rq_off = ALIGN(kw_ring_size(sq_entries, sq_stride), KIWARP_RING_ALIGN);

	ret = kw_queue_mem_alloc(&qp->queue_mem,
				 rq_off + kw_ring_size(rq_entries, rq_stride), uctx);
	if (ret)
		return ret;
	/* One for an index that user space has made up: see struct kw_ring. */
	qp->sq_track = kvcalloc(max(sq_entries, 1U), sizeof(*qp->sq_track),
				GFP_KERNEL_ACCOUNT);
	qp->recv_sge = kcalloc(recv_sge, sizeof(*qp->recv_sge),
			       GFP_KERNEL_ACCOUNT);
	if (!qp->sq_track || !qp->recv_sge) {
		kw_qp_free_rings(qp);
		return -ENOMEM;
	}
	qp->sq = kw_ring_in(&qp->queue_mem, 0, sq_entries, sq_stride);
	qp->rq = kw_ring_in(&qp->queue_mem, rq_off, rq_entries, rq_stride);

	cap->max_send_wr = sq_entries;
	cap->max_recv_wr = rq_entries;
	cap->max_inline_data = min_t(u32, payload, KIWARP_MAX_INLINE);
	return 0;
}

static int kw_qp_respond(struct kw_qp *qp, struct ib_udata *udata)
{
	struct kiwarp_create_qp_resp resp = {
		.qp_id = qp->ib.qp_num,
		.sq_entries = qp->sq.mask + 1,
		.sq_stride = qp->sq.stride,
		.rq_entries = qp->rq.mask + 1,
		.rq_stride = qp->rq.stride,
		.max_inline = qp->cap.max_inline_data,
		.ring_key = kw_queue_mem_key(&qp->queue_mem),
		.ring_size = qp->queue_mem.size,
		.rq_offset = qp->rq.mem - qp->queue_mem.mem,
	};

	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

/*
 * A random number. Lookups find nothing under it yet, and it stays reserved
 * until kw_qpn_release().
 */
static int kw_qpn_reserve(struct kw_device *dev, u32 *qpn)
{
	int ret = -EBUSY;
	int i;

	for (i = 0; ret == -EBUSY && i < KW_QPN_TRIES; i++) {
		*qpn = get_random_u32_inclusive(KW_QPN_MIN, KW_QPN_MAX);
		ret = xa_insert_irq(&dev->qps, *qpn, NULL, GFP_KERNEL);
	}
	return ret == -EBUSY ? -ENOMEM : ret;
}

static void kw_qpn_release(struct kw_device *dev, u32 qpn)
{
	xa_erase_irq(&dev->qps, qpn);
}

/* From here on, others take references. Needs no memory and cannot fail. */
static void kw_qp_publish(struct kw_qp *qp)
{
	kw_cq_add_qp(qp);
	xa_store_irq(&qp->dev->qps, qp->ib.qp_num, qp, GFP_KERNEL);
}

/* No new references. The number stays reserved: @kw_device.qps is an ALLOC array. */
static void kw_qp_withdraw(struct kw_qp *qp)
{
	xa_store_irq(&qp->dev->qps, qp->ib.qp_num, NULL, GFP_KERNEL);
	kw_cq_del_qp(qp);
}

static void kw_qp_setup(struct kw_qp *qp, struct ib_qp_init_attr *a)
{
	qp->dev = to_kw_dev(qp->ib.device);
	kref_init(&qp->ref);
	spin_lock_init(&qp->lock);
	spin_lock_init(&qp->sq_post_lock);
	spin_lock_init(&qp->rq_post_lock);
	INIT_WORK(&qp->event_work, kw_qp_event_work);
	INIT_WORK(&qp->flush_work, kw_qp_flush_work);
	qp->scq = to_kw_cq(a->send_cq);
	qp->rcq = to_kw_cq(a->recv_cq);
	qp->srq = a->srq ? to_kw_srq(a->srq) : NULL;
	qp->last_wqe = true;
	qp->sq_sig_all = a->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->idle = true;
	INIT_LIST_HEAD(&qp->windows);
	kw_stream_init(&qp->stream, &kw_qp_stream_ops,
		       to_kw_pd(qp->ib.pd)->domain, qp->dev->counters);
}

/* kw_qp.lock held; the caller flushes afterwards. */
static void kw_qp_enter_error(struct kw_qp *qp)
{
	/* What is flushed from here on says that the connection is over. */
	qp->draining = qp->connected && !qp->user;
	kw_qp_set_state(qp, KIWARP_QPS_ERROR);
	if (qp->connected)
		kw_stream_abort(&qp->stream);
	if (qp->waiter)
		qp->waiter_gone(qp->waiter);
}

/*
 * ERROR: end the stream if there is one; its end flushes the queues. Without a
 * stream flush them now.
 */
static void kw_qp_to_error(struct kw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	kw_qp_enter_error(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	kw_qp_flush(qp);
	kw_qp_notify(qp);
}

/**
 * kw_create_qp() - ib_device_ops.create_qp
 * @ibqp: zeroed object of the RDMA core's
 * @attr: requested attributes; its capacities become the granted ones
 * @udata: user space's buffers, or NULL
 *
 * Return: 0, -EOPNOTSUPP (type, flags; a process's in a kernel that
 * kw_compat_qp_events() does not know), -EINVAL (limits, a dead CQ, an SRQ of another
 * protection domain), -ENOMEM.
 */
int kw_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		 struct ib_udata *udata)
{
	struct kw_ucontext *uctx =
		rdma_udata_to_drv_context(udata, struct kw_ucontext, ib);
	struct kw_device *dev = to_kw_dev(ibqp->device);
	struct kw_qp *qp = to_kw_qp(ibqp);
	int ret;

	ret = kw_qp_check_init(ibqp->pd, attr);
	if (!ret && uctx)
		ret = kw_qp_init_events(qp);
	if (ret)
		return ret;
	if (!kw_count_object(&dev->nr_qp, KW_MAX_QP, uctx))
		return -ENOMEM;
	kw_qp_setup(qp, attr);
	qp->user = !!uctx;
	if (uctx)
		qp->owner = get_pid(task_tgid(current));
	ret = kw_qp_alloc_rings(qp, attr, uctx ? &uctx->ib : NULL);
	if (ret)
		goto err_owner;
	qp->cap = attr->cap;

	ret = kw_qpn_reserve(dev, &ibqp->qp_num);
	if (ret)
		goto err_rings;
	/*
	 * The verbs of iWARP have no RESET: a queue pair begins in IDLE, where
	 * receives can be posted. Linux calls it INIT: the drivers of other
	 * RNICs report that, and rdma-core's tests expect it of an RNIC. To
	 * modify it to INIT sets the rights.
	 */
	kw_qp_set_state(qp, KIWARP_QPS_INIT);
	if (udata) {
		ret = kw_qp_respond(qp, udata);
		if (ret)
			goto err_number;
	}
	kw_qp_publish(qp);
	/* It may have died before it knew of this one. */
	if (kw_cq_is_dead(qp->scq) || kw_cq_is_dead(qp->rcq))
		kw_qp_to_error(qp);
	return 0;

err_number:
	kw_qpn_release(dev, ibqp->qp_num);
err_rings:
	kw_qp_free_rings(qp);
err_owner:
	put_pid(qp->owner);
	atomic_dec(&dev->nr_qp);
	return ret;
}

/**
 * kw_qp_fail() - move to ERROR because an object that it needs is gone
 * @qp: queue pair
 *
 * Context: any.
 */
void kw_qp_fail(struct kw_qp *qp)
{
	bool had_state = READ_ONCE(qp->state) != KIWARP_QPS_ERROR;

	kw_qp_to_error(qp);
	if (had_state)
		kw_qp_event(qp, IB_EVENT_QP_FATAL);
}

/**
 * kw_qp_start_failed() - as kw_qp_fail(), unless it has a connection
 * @qp: queue pair whose consumer takes it for connected, or a second time so
 *
 * Context: process.
 */
void kw_qp_start_failed(struct kw_qp *qp)
{
	unsigned long flags;
	bool used, failed;

	spin_lock_irqsave(&qp->lock, flags);
	used = qp->connecting || qp->connected;
	failed = !used && qp->state != KIWARP_QPS_ERROR;
	if (failed)
		kw_qp_enter_error(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (!failed)
		return;
	kw_qp_flush(qp);
	kw_qp_notify(qp);
	kw_qp_event(qp, IB_EVENT_QP_FATAL);
}

/**
 * kw_qps_fail() - move queue pairs to ERROR and abort their connections
 * @dev: device
 *
 * Context: process, without locks.
 */
void kw_qps_fail(struct kw_device *dev)
{
	unsigned long qpn = 0;

	while (xa_find(&dev->qps, &qpn, ULONG_MAX, XA_PRESENT)) {
		struct kw_qp *qp = kw_qp_find(dev, qpn);

		if (qp) {
			kw_qp_fail(qp);
			kw_qp_put(qp);
		}
		qpn++;
		cond_resched();
	}
}

/*
 * RESET drops what is posted, also what a flush by another context has not
 * completed yet: its next batch finds the state. There is no stream.
 */
static int kw_qp_to_reset(struct kw_qp *qp)
{
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->connected) {
		ret = -EBUSY;
	} else {
		qp->sq_next = READ_ONCE(kw_ctrl(&qp->sq)->producer);
		/* As where entries complete: pairs with the posters' acquire. */
		smp_store_release(&qp->sq_done, qp->sq_next);
		qp->rq_next = READ_ONCE(kw_ctrl(&qp->rq)->producer);
		/* Likewise. */
		smp_store_release(&qp->rq_done, qp->rq_next);
		qp->srq_open = false;
		/* No Terminate of an earlier connection in vendor_err. */
		qp->stream.reason = 0;
		WRITE_ONCE(kw_ctrl(&qp->sq)->consumer, qp->sq_next);
		WRITE_ONCE(kw_ctrl(&qp->rq)->consumer, qp->rq_next);
		kw_qp_set_state(qp, KIWARP_QPS_RESET);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}

static int kw_qp_to_init(struct kw_qp *qp)
{
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state == KIWARP_QPS_RESET || qp->state == KIWARP_QPS_INIT)
		kw_qp_set_state(qp, KIWARP_QPS_INIT);
	else
		ret = -EINVAL;
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}

/*
 * SQD is Linux's name of iWARP's CLOSING. In a later state nothing is to be
 * done: consumers disconnect after the peer did.
 */
static int kw_qp_to_closing(struct kw_qp *qp)
{
	bool used = false;
	unsigned long flags;
	int ret = 0;
	u32 state;

	/* A process works off what it has posted itself, as in a doorbell. */
	if (qp->user)
		kw_qp_doorbell(qp);
	/*
	 * The lock: who sees RTS sees the socket, which a start may still hold.
	 * Who takes the reference with it has that of this connection.
	 */
	spin_lock_irqsave(&qp->lock, flags);
	state = qp->state;
	if (state == KIWARP_QPS_RTS)
		used = kw_stream_get(&qp->stream);
	spin_unlock_irqrestore(&qp->lock, flags);
	switch (state) {
	case KIWARP_QPS_RTS:
		/* If not, its end is under way. */
		if (used) {
			kw_stream_close(&qp->stream);
			kw_stream_put(&qp->stream);
		}
		break;
	case KIWARP_QPS_CLOSING:
	case KIWARP_QPS_ERROR:
		break;
	default:
		ret = -EINVAL;
	}
	return ret;
}

static int kw_qp_change_state(struct kw_qp *qp, enum ib_qp_state to)
{
	switch (to) {
	case IB_QPS_RESET:
		return kw_qp_to_reset(qp);
	case IB_QPS_INIT:
		return kw_qp_to_init(qp);
	case IB_QPS_RTR:
		/* librdmacm passes through it before accept; iWARP has no such state. */
		return READ_ONCE(qp->state) == KIWARP_QPS_INIT ? 0 : -EINVAL;
	case IB_QPS_RTS:
		/* Only a connection enters RTS; staying there is allowed. */
		return READ_ONCE(qp->state) == KIWARP_QPS_RTS ? 0 : -EINVAL;
	case IB_QPS_SQD:
		return kw_qp_to_closing(qp);
	case IB_QPS_ERR:
		kw_qp_to_error(qp);
		return 0;
	default:
		return -EINVAL;
	}
}

static bool kw_qp_has_atomics(struct kw_qp *qp)
{
	struct kw_settings set;

	kw_settings_get(qp->dev, &set);
	return set.stream.atomics;
}

/*
 * On the connecting side rdma_init_qp_attr() has no iw_cm_id yet, and fills in
 * no rights for INIT. On the accepting side it fills in Read and Write, for RTR
 * as well. They are not set later. So INIT without rights means the connection
 * manager's usual ones. A consumer that wants none sets them in a separate call.
 *
 * The connection manager knows nothing of atomic operations on iWARP: with its
 * usual rights a queue pair gets that to atomic operations, too.
 */
static void kw_qp_set_access(struct kw_qp *qp, const struct ib_qp_attr *attr,
			     int mask)
{
	const bool init = (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_INIT;
	const bool rtr = (mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RTR;
	u32 access = attr->qp_access_flags;

	if (!access && init)
		access = KW_QP_CM_ACCESS;
	if (access == KW_QP_CM_ACCESS && (init || rtr) && kw_qp_has_atomics(qp))
		access |= IB_ACCESS_REMOTE_ATOMIC;
	WRITE_ONCE(qp->access, access);
	WRITE_ONCE(qp->stream.access, access);
}

static int kw_qp_check_attr(const struct ib_qp_attr *attr, int mask)
{
	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	/* ibv_modify_qp(3): only devices with IBV_DEVICE_RESIZE_MAX_WR have it. */
	if (mask & IB_QP_CAP)
		return -EINVAL;
	if (mask & IB_QP_ACCESS_FLAGS && attr->qp_access_flags & ~KW_QP_ACCESS)
		return -EINVAL;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC &&
	    attr->max_rd_atomic > KW_MAX_QP_RD_ATOM)
		return -EINVAL;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	    attr->max_dest_rd_atomic > KW_MAX_QP_RD_ATOM)
		return -EINVAL;
	return 0;
}

/* A connection's depths are those that MPA start-up has negotiated. */
static void kw_qp_set_depths(struct kw_qp *qp, const struct ib_qp_attr *attr,
			     int mask)
{
	unsigned long flags;
	bool fixed;

	spin_lock_irqsave(&qp->lock, flags);
	fixed = qp->connecting || (qp->state != KIWARP_QPS_RESET &&
				   qp->state != KIWARP_QPS_INIT);
	if (!fixed && mask & IB_QP_MAX_QP_RD_ATOMIC)
		qp->max_ord = attr->max_rd_atomic;
	if (!fixed && mask & IB_QP_MAX_DEST_RD_ATOMIC)
		qp->max_ird = attr->max_dest_rd_atomic;
	spin_unlock_irqrestore(&qp->lock, flags);
}

/**
 * kw_modify_qp() - ib_device_ops.modify_qp
 * @ibqp: queue pair
 * @attr: new attributes
 * @mask: which of them
 * @udata: unused
 *
 * What is refused changes nothing. Depths are only what kw_query_qp() reports,
 * until a connection has its own.
 *
 * Context: process.
 * Return: 0, -EINVAL (not a state that can be entered from here, a value out of
 * range, or capacities, which stay), -EBUSY (RESET while the connection still
 * ends), -EOPNOTSUPP.
 */
int kw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_udata *udata)
{
	struct kw_qp *qp = to_kw_qp(ibqp);
	int ret;

	ret = kw_qp_check_attr(attr, mask);
	if (!ret && mask & IB_QP_STATE)
		ret = kw_qp_change_state(qp, attr->qp_state);
	if (ret)
		return ret;
	if (mask & IB_QP_ACCESS_FLAGS)
		kw_qp_set_access(qp, attr, mask);
	kw_qp_set_depths(qp, attr, mask);
	return 0;
}

static enum ib_qp_state kw_qp_ib_state(const struct kw_qp *qp)
{
	switch (READ_ONCE(qp->state)) {
	case KIWARP_QPS_RESET:
		return IB_QPS_RESET;
	case KIWARP_QPS_INIT:
		return IB_QPS_INIT;
	case KIWARP_QPS_RTS:
		return IB_QPS_RTS;
	case KIWARP_QPS_CLOSING:
		return IB_QPS_SQD;
	default:
		return IB_QPS_ERR;
	}
}

/**
 * kw_query_qp() - ib_device_ops.query_qp
 * @ibqp: queue pair
 * @attr: filled
 * @mask: requested attributes; all are filled
 * @init: filled
 *
 * Return: 0.
 */
int kw_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		struct ib_qp_init_attr *init)
{
	struct kw_qp *qp = to_kw_qp(ibqp);

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = kw_qp_ib_state(qp);
	attr->cur_qp_state = attr->qp_state;
	attr->path_mtu = ib_mtu_int_to_enum(READ_ONCE(qp->dev->netdev->mtu));
	attr->qp_access_flags = qp->access;
	attr->max_rd_atomic = qp->max_ord;
	attr->max_dest_rd_atomic = qp->max_ird;
	attr->cap = qp->cap;
	attr->port_num = 1;
	*init = (struct ib_qp_init_attr){
		.event_handler = ibqp->registered_event_handler,
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.cap = qp->cap,
		.sq_sig_type = qp->sq_sig_all ? IB_SIGNAL_ALL_WR :
						IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		.port_num = ibqp->port,
	};
	return 0;
}

/* The event is for those who destroy the queue pair after it. */
static void kw_qp_begin_destroy(struct kw_qp *qp, struct completion *freed)
{
	spin_lock_irq(&qp->lock);
	qp->last_wqe = false;
	WRITE_ONCE(qp->freed, freed);
	spin_unlock_irq(&qp->lock);
}

/**
 * kw_destroy_qp() - ib_device_ops.destroy_qp
 * @ibqp: queue pair
 * @udata: unused
 *
 * Context: process; waits until the connection manager and the stream have
 * dropped their references.
 * Return: 0.
 */
int kw_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	DECLARE_COMPLETION_ONSTACK(freed);
	struct kw_qp *qp = to_kw_qp(ibqp);

	kw_qp_withdraw(qp);
	kw_qp_begin_destroy(qp, &freed);
	kw_qp_to_error(qp);
	kw_qp_put(qp);
	wait_for_completion(&freed);
	kw_cq_forget(qp->scq, ibqp);
	kw_cq_forget(qp->rcq, ibqp);
	kw_counter_leave(qp);
	kw_qpn_release(qp->dev, ibqp->qp_num);
	kw_qp_free_rings(qp);
	put_pid(qp->owner);
	atomic_dec(&qp->dev->nr_qp);
	return 0;
}
