// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Completion queues.
 *
 * Producer and consumer share only the ring. The protocol of arming is
 * described at struct kiwarp_cq_ctrl. Kernel consumers use the same ring, with
 * consumer and armed in struct kw_cq, and the queue pair in each entry: a table
 * to look it up in would be contended.
 */
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <rdma/uverbs_ioctl.h>

#include "compat.h"
#include "trace.h"
#include "verbs/cq.h"
#include "verbs/ops.h"
#include "verbs/qp.h"

/* Tries of a compare-and-swap with user space. After them: a spurious event. */
#define KW_ARM_TRIES	16

/*
 * When to see what the process has left: the first delay, and the longest of a
 * process that polls, and of one that does not.
 */
#define KW_CHECK_MIN	msecs_to_jiffies(10)
#define KW_CHECK_POLLED	msecs_to_jiffies(80)
#define KW_CHECK_MAX	msecs_to_jiffies(1000)

/* Flags of a process's queue. */
#define KW_CQ_USER_FLAGS	(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | \
				 IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)

/* An entry of a kernel consumer's queue; ibqp is NULL if that is destroyed. */
struct kw_kernel_cqe {
	struct kiwarp_cqe cqe;
	struct ib_qp *ibqp;
};

static void kw_cq_overflow_work(struct work_struct *work)
{
	struct kw_cq *cq = container_of(work, struct kw_cq, overflow_work);
	struct ib_event ev = {
		.device = cq->ib.device,
		.element.cq = &cq->ib,
		.event = IB_EVENT_CQ_ERR,
	};
	struct kw_qp *qp;

	if (cq->ib.event_handler)
		cq->ib.event_handler(&ev, cq->ib.cq_context);
	mutex_lock(&cq->qps_lock);
	list_for_each_entry(qp, &cq->senders, scq_node) {
		kw_qp_fail(qp);
		cond_resched();
	}
	list_for_each_entry(qp, &cq->receivers, rcq_node) {
		kw_qp_fail(qp);
		cond_resched();
	}
	mutex_unlock(&cq->qps_lock);
}

/**
 * kw_cq_add_qp() - a queue pair is to fail with its completion queues
 * @qp: queue pair
 *
 * Context: process.
 */
void kw_cq_add_qp(struct kw_qp *qp)
{
	mutex_lock(&qp->scq->qps_lock);
	list_add_tail(&qp->scq_node, &qp->scq->senders);
	mutex_unlock(&qp->scq->qps_lock);
	mutex_lock(&qp->rcq->qps_lock);
	list_add_tail(&qp->rcq_node, &qp->rcq->receivers);
	mutex_unlock(&qp->rcq->qps_lock);
}

/**
 * kw_cq_del_qp() - a queue pair is to be destroyed
 * @qp: queue pair
 *
 * Context: process; waits for an overflow that is being handled.
 */
void kw_cq_del_qp(struct kw_qp *qp)
{
	mutex_lock(&qp->scq->qps_lock);
	list_del(&qp->scq_node);
	mutex_unlock(&qp->scq->qps_lock);
	mutex_lock(&qp->rcq->qps_lock);
	list_del(&qp->rcq_node);
	mutex_unlock(&qp->rcq->qps_lock);
}

static bool kw_cq_full(struct kw_cq *cq)
{
	if (cq->producer - cq->consumer <= cq->ring.mask)
		return false;
	if (!cq->user)
		return true;
	/*
	 * The index read last time is used up. One that cannot be right harms
	 * only its process: the queue is full.
	 */
	cq->consumer = READ_ONCE(kw_cq_ctrl(cq)->consumer);
	return cq->producer - cq->consumer > cq->ring.mask;
}

static void kw_cq_stamp(const struct kw_ring *ring, u32 index)
{
	*kw_cq_stamp_at(ring, index) = (struct kiwarp_cq_stamp){
		.monotonic_ns = ktime_get_ns(),
		.realtime_ns = ktime_get_real_ns(),
	};
}

/* With the lock: an entry of @qp has no place. */
static void kw_cq_overflow(struct kw_cq *cq, struct kw_qp *qp)
{
	kw_count(to_kw_dev(cq->ib.device), KW_CNT_CQ_OVERFLOWS);
	if (cq->lossy)
		return;
	WRITE_ONCE(cq->overflow, true);
	kw_stream_run(&qp->stream, &cq->overflow_work);
}

/**
 * kw_cq_post() - add an entry
 * @cq: completion queue
 * @ibqp: queue pair of the entry
 * @cqe: the entry
 *
 * Without room the entry is lost, the queue is dead, and all its queue pairs
 * go to ERROR, unless overruns are to be ignored. kw_cq_notify() raises the
 * event.
 *
 * Context: any; takes cq->lock.
 */
__hot void kw_cq_post(struct kw_cq *cq, struct ib_qp *ibqp,
		      const struct kiwarp_cqe *cqe)
{
	struct kw_kernel_cqe *slot;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq->overflow)
		goto out;
	if (kw_cq_full(cq)) {
		kw_cq_overflow(cq, to_kw_qp(ibqp));
		goto out;
	}
	trace_kw_completion(cq, cqe);
	slot = kw_ring_at(&cq->ring, cq->producer);
	memcpy(&slot->cqe, cqe, sizeof(*cqe));
	if (!cq->user)
		slot->ibqp = ibqp;
	if (unlikely(cq->stamped))
		kw_cq_stamp(&cq->ring, cq->producer);
	cq->producer++;
	/* Publishes the entry before the index. */
	smp_store_release(&kw_cq_ctrl(cq)->producer, cq->producer);
out:
	spin_unlock_irqrestore(&cq->lock, flags);
}

static bool kw_arm_fits(u32 armed, bool solicited)
{
	return armed & KIWARP_CQ_ARM_ANY ||
	       (solicited && armed & KIWARP_CQ_ARM_SOLICITED);
}

/* Resizing frees a ring after a grace period. */
static __hot bool kw_cq_armed(struct kw_cq *cq, bool solicited)
{
	bool fits;

	if (!cq->user)
		return kw_arm_fits(READ_ONCE(cq->armed), solicited);
	rcu_read_lock();
	fits = kw_arm_fits(READ_ONCE(kw_cq_ctrl(cq)->armed), solicited);
	rcu_read_unlock();
	return fits;
}

/*
 * Disarm only if the arming fits, so that one that came in between for another
 * kind of entry stays.
 */
static __hot bool kw_cq_disarm(u32 *word, bool solicited)
{
	u32 armed = READ_ONCE(*word);
	int i;

	for (i = 0; i < KW_ARM_TRIES; i++) {
		if (!kw_arm_fits(armed, solicited))
			return false;
		if (try_cmpxchg(word, &armed, 0))
			return true;
	}
	return true;
}

static void kw_cq_notify_work(struct work_struct *work)
{
	struct kw_cq *cq = container_of(work, struct kw_cq, notify_work);

	cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

/*
 * Has the process polled since the last time? Its index counts as far as there
 * were entries to poll. So the checks that a process causes are bounded by its
 * completions, whatever it writes there. Event lock held.
 */
static bool kw_cq_has_polled(struct kw_cq *cq)
{
	u32 consumer = READ_ONCE(kw_cq_ctrl(cq)->consumer);
	u32 polled = consumer - cq->check_from;

	if (!polled || polled > READ_ONCE(cq->producer) - cq->check_from)
		return false;
	cq->check_from = consumer;
	return true;
}

/* Event lock held. */
static void kw_cq_check_after(struct kw_cq *cq, unsigned long delay)
{
	WRITE_ONCE(cq->checking, true);
	cq->check_delay = delay;
	mod_delayed_work(system_dfl_wq, &cq->check_work, delay);
}

static void kw_cq_check_begin(struct kw_cq *cq)
{
	kw_cq_has_polled(cq);
	kw_cq_check_after(cq, KW_CHECK_MIN);
}

/* Event lock held. The work item is to look for it soon. */
static void kw_cq_hold(struct kw_cq *cq, bool solicited)
{
	cq->held_solicited = solicited || (cq->held && cq->held_solicited);
	if (!cq->held)
		kw_cq_check_begin(cq);
	cq->held = true;
}

/*
 * A process arms its queue without a system call, and ib_uverbs allocates each
 * event, charged to no user. So no second event is raised while one is unread:
 * until then the queue stays armed. A process that reads the event and polls
 * finds what came meanwhile. One that reads it and waits for the event of its
 * second arming, without polling, gets that from the work item.
 */
static __hot void kw_cq_raise(struct kw_cq *cq, bool solicited)
{
	unsigned long flags;
	bool armed;

	if (!cq->unread)
		return;
	armed = kw_cq_armed(cq, solicited);
	if (!armed && READ_ONCE(cq->checking))
		return;
	spin_lock_irqsave(&cq->event_lock, flags);
	if (armed && !list_empty(cq->unread))
		kw_cq_hold(cq, solicited);
	else if (armed && kw_cq_disarm(&kw_cq_ctrl(cq)->armed, solicited))
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
	if (!cq->checking)
		kw_cq_check_begin(cq);
	spin_unlock_irqrestore(&cq->event_lock, flags);
}

/*
 * Raise an event for entries that no event will announce: those that the
 * process left when it armed the queue. Adapters that are told how far it has
 * polled raise one at once, and programs that poll once for each event rely on
 * it. Here a process that polls until nothing is left has no event too many: it
 * has to have left the entries alone for a while. Event lock held.
 */
static bool kw_cq_announce_rest(struct kw_cq *cq)
{
	return !READ_ONCE(cq->moderated) &&
	       kw_cq_disarm(&kw_cq_ctrl(cq)->armed, false);
}

static bool kw_cq_is_polled(struct kw_cq *cq)
{
	return READ_ONCE(cq->producer) == READ_ONCE(kw_cq_ctrl(cq)->consumer);
}

static void kw_cq_check_work(struct work_struct *work)
{
	struct kw_cq *cq = container_of(to_delayed_work(work), struct kw_cq,
					check_work);
	bool polled, raise = false;
	unsigned long delay;

	spin_lock_irq(&cq->event_lock);
	WRITE_ONCE(cq->checking, false);
	/* Pairs with kw_cq_notify(): it finds no check, or this its entry. */
	smp_mb();
	polled = kw_cq_has_polled(cq);
	delay = min(cq->check_delay * 2, polled ? KW_CHECK_POLLED : KW_CHECK_MAX);
	if (list_empty(cq->unread)) {
		raise = cq->held && kw_cq_disarm(&kw_cq_ctrl(cq)->armed,
						 cq->held_solicited);
		cq->held = false;
		if (!raise && !polled && !kw_cq_is_polled(cq))
			raise = kw_cq_announce_rest(cq);
	}
	if (raise) {
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
		/* A channel that is closed takes none. */
		if (!list_empty(cq->unread))
			delay = KW_CHECK_MIN;
	}
	if (cq->held || !kw_cq_is_polled(cq))
		kw_cq_check_after(cq, delay);
	spin_unlock_irq(&cq->event_lock);
}

/*
 * A handler of a kernel consumer's own (ib_create_cq()) may take a lock that is
 * held around a post, and must not run twice at a time (the kernel's
 * Documentation/infiniband/core_locking.rst). Handlers of the RDMA core only
 * schedule or wake up: those of ib_alloc_cq(), which has an array to poll into,
 * and of user space.
 */
static bool kw_cq_defers(const struct kw_cq *cq)
{
	return !cq->user && !cq->ib.wc;
}

static __hot void kw_cq_event(struct kw_cq *cq, bool solicited)
{
	if (cq->user) {
		kw_cq_raise(cq, solicited);
		return;
	}
	if (!kw_cq_disarm(&cq->armed, solicited) || !cq->ib.comp_handler)
		return;
	if (kw_cq_defers(cq))
		queue_work(system_bh_wq, &cq->notify_work);
	else
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

/* With event_lock. What came before the queue was armed does not count. */
static void kw_cq_mod_restart(struct kw_cq *cq)
{
	cq->mod_from = READ_ONCE(cq->producer);
	cq->mod_solicited = false;
	/* One that runs by now finds nothing to do. */
	hrtimer_try_to_cancel(&cq->mod_timer);
}

/*
 * Is it too early for an event? The first entry that one waits for starts the
 * period.
 */
static bool kw_cq_too_early(struct kw_cq *cq, bool *solicited)
{
	unsigned long flags;
	bool early = true;

	spin_lock_irqsave(&cq->event_lock, flags);
	cq->mod_solicited |= *solicited;
	*solicited = cq->mod_solicited;
	/* The entry that this is for counts, though a restart came after it. */
	if (READ_ONCE(cq->producer) == cq->mod_from)
		cq->mod_from--;
	if (!cq->moderated) {
		early = false;
	} else if (!kw_cq_armed(cq, *solicited)) {
		kw_cq_mod_restart(cq);
	} else if (cq->mod_count &&
		   READ_ONCE(cq->producer) - cq->mod_from >= cq->mod_count) {
		kw_cq_mod_restart(cq);
		early = false;
	} else if (cq->mod_period && !hrtimer_is_queued(&cq->mod_timer)) {
		hrtimer_start(&cq->mod_timer,
			      ns_to_ktime(cq->mod_period * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_SOFT);
	}
	spin_unlock_irqrestore(&cq->event_lock, flags);
	return early;
}

struct kw_cq_moderation {
	u16 count;
	u16 period;
};

/* Raise what is held back, and set other values, if there are any. */
static void kw_cq_mod_flush(struct kw_cq *cq,
			    const struct kw_cq_moderation *mod)
{
	unsigned long flags;
	bool solicited, pending;

	spin_lock_irqsave(&cq->event_lock, flags);
	solicited = cq->mod_solicited;
	pending = cq->moderated && READ_ONCE(cq->producer) != cq->mod_from;
	kw_cq_mod_restart(cq);
	if (mod) {
		cq->mod_count = mod->count;
		cq->mod_period = mod->period;
		WRITE_ONCE(cq->moderated, mod->count > 1 || mod->period);
	}
	spin_unlock_irqrestore(&cq->event_lock, flags);
	if (pending)
		kw_cq_event(cq, solicited);
}

static enum hrtimer_restart kw_cq_mod_timer(struct hrtimer *timer)
{
	kw_cq_mod_flush(container_of(timer, struct kw_cq, mod_timer), NULL);
	return HRTIMER_NORESTART;
}

/**
 * kw_modify_cq() - set how many entries an event waits for, and how long
 * @ibcq: completion queue
 * @count: entries; 0: any number of them
 * @period: microseconds from the first of them on; 0: no bound. Both 0: each
 *	entry raises an event
 *
 * Context: process.
 * Return: 0.
 */
int kw_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	const struct kw_cq_moderation mod = { count, period };

	kw_cq_mod_flush(to_kw_cq(ibcq), &mod);
	return 0;
}

/**
 * kw_cq_notify() - raise the event if the queue is armed
 * @cq: completion queue
 * @solicited: one of the entries posted since the last call was solicited, or
 *	not successful
 *
 * To be called after kw_cq_post().
 *
 * Context: any.
 */
__hot void kw_cq_notify(struct kw_cq *cq, bool solicited)
{
	/* Entries before armed is read; the consumer does the reverse. */
	smp_mb();
	if (unlikely(READ_ONCE(cq->moderated)) &&
	    kw_cq_too_early(cq, &solicited))
		return;
	kw_cq_event(cq, solicited);
}

static const u8 kw_wc_opcode[] = {
	[KIWARP_OP_SEND] = IB_WC_SEND,
	[KIWARP_OP_SEND_INV] = IB_WC_SEND,
	[KIWARP_OP_WRITE] = IB_WC_RDMA_WRITE,
	[KIWARP_OP_READ] = IB_WC_RDMA_READ,
	[KIWARP_OP_READ_INV] = IB_WC_RDMA_READ,
	[KIWARP_OP_LOCAL_INV] = IB_WC_LOCAL_INV,
	[KIWARP_OP_REG_MR] = IB_WC_REG_MR,
	[KIWARP_OP_RECV] = IB_WC_RECV,
	[KIWARP_OP_WRITE_IMM] = IB_WC_RDMA_WRITE,
	[KIWARP_OP_SEND_IMM] = IB_WC_SEND,
	[KIWARP_OP_FETCH_ADD] = IB_WC_FETCH_ADD,
	[KIWARP_OP_CMP_SWAP] = IB_WC_COMP_SWAP,
	[KIWARP_OP_MASKED_FETCH_ADD] = IB_WC_MASKED_FETCH_ADD,
	[KIWARP_OP_MASKED_CMP_SWAP] = IB_WC_MASKED_COMP_SWAP,
};

/* The kernel consumer's view, without the lock. */
static bool kw_cq_empty(struct kw_cq *cq)
{
	return READ_ONCE(cq->consumer) == READ_ONCE(kw_cq_ctrl(cq)->producer);
}

static void kw_wc_fill(struct ib_wc *wc, struct ib_qp *ibqp,
		       const struct kiwarp_cqe *cqe)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = kw_wc_opcode[cqe->opcode];
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->qp = ibqp;
	wc->port_num = 1;
	if (cqe->flags & KIWARP_CQE_WITH_INV) {
		wc->wc_flags = IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = cqe->inv_stag;
	}
	if (cqe->flags & KIWARP_CQE_WITH_IMM) {
		wc->opcode = IB_WC_RECV_RDMA_WITH_IMM;
		wc->wc_flags = IB_WC_WITH_IMM;
		wc->ex.imm_data = cqe->imm_data;
	}
}

/**
 * kw_cq_forget() - drop a queue pair's entries of a kernel consumer's queue
 * @cq: completion queue; user space drops those of its queues itself
 * @ibqp: queue pair, which posts no more
 *
 * Context: process; takes cq->lock.
 */
void kw_cq_forget(struct kw_cq *cq, const struct ib_qp *ibqp)
{
	u32 i;

	if (cq->user)
		return;
	spin_lock_irq(&cq->lock);
	for (i = cq->consumer; i != cq->producer; i++) {
		struct kw_kernel_cqe *e = kw_ring_at(&cq->ring, i);

		if (e->ibqp == ibqp)
			e->ibqp = NULL;
	}
	spin_unlock_irq(&cq->lock);
}

/**
 * kw_poll_cq() - take entries off a kernel consumer's queue
 * @ibcq: completion queue; user space polls its ring itself
 * @num: room in @wc
 * @wc: result
 *
 * Entries of queue pairs that are destroyed are dropped.
 *
 * Context: any; takes cq->lock.
 * Return: how many entries were taken.
 */
__hot int kw_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct kw_cq *cq = to_kw_cq(ibcq);
	unsigned long flags;
	int n = 0;

	if (cq->user)
		return -EOPNOTSUPP;
	kw_batch_end(cq);
	if (kw_cq_empty(cq))
		return 0;
	spin_lock_irqsave(&cq->lock, flags);
	while (n < num && cq->consumer != cq->producer) {
		const struct kw_kernel_cqe *e =
			kw_ring_at(&cq->ring, cq->consumer);

		if (e->ibqp)
			kw_wc_fill(&wc[n++], e->ibqp, &e->cqe);
		WRITE_ONCE(cq->consumer, cq->consumer + 1);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	if (n)
		kw_batch_begin(cq);
	return n;
}

/**
 * kw_req_notify_cq() - arm a queue
 * @ibcq: completion queue
 * @flags: IB_CQ_SOLICITED or IB_CQ_NEXT_COMP, IB_CQ_REPORT_MISSED_EVENTS
 *
 * Context: any.
 * Return: 1 if missed events were asked for and there are entries, else 0.
 */
__hot int kw_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct kw_cq *cq = to_kw_cq(ibcq);
	u32 bit = KIWARP_CQ_ARM_ANY;
	u32 *word;

	kw_batch_end(cq);
	if ((flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED)
		bit = KIWARP_CQ_ARM_SOLICITED;
	/* As in kw_cq_armed(). */
	rcu_read_lock();
	word = cq->user ? &kw_cq_ctrl(cq)->armed : &cq->armed;
	if (!(READ_ONCE(*word) & bit))
		atomic_or(bit, (atomic_t *)word);
	rcu_read_unlock();

	/* Arm before reading the entries, here or in the next poll: see kw_cq_notify(). */
	smp_mb();
	if (!(flags & IB_CQ_REPORT_MISSED_EVENTS) || cq->user)
		return 0;
	return !kw_cq_empty(cq);
}

/**
 * kw_cq_respond() - tell user space where a ring is
 * @cq: completion queue
 * @mem: memory of the ring
 * @entries: its entries
 * @udata: of create_cq or resize_cq
 *
 * Context: process.
 * Return: 0; -EINVAL if there is no room for the response, -EFAULT.
 */
int kw_cq_respond(const struct kw_cq *cq, const struct kw_queue_mem *mem,
		  u32 entries, struct ib_udata *udata)
{
	struct kiwarp_create_cq_resp resp = {
		.cq_id = cq->id,
		.entries = entries,
		.ring_key = kw_queue_mem_key(mem),
		.ring_size = mem->size,
	};

	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

/* Only queues with a channel have events. */
static int kw_cq_init_events(struct kw_cq *cq)
{
	if (!cq->ib.cq_context)
		return 0;
	cq->unread = kw_compat_comp_events(cq->ib.uobject);
	if (cq->unread)
		return 0;
	ibdev_warn_ratelimited(cq->ib.device,
			       "this kernel does not let completion events be bounded\n");
	return -EOPNOTSUPP;
}

/**
 * kw_create_cq() - create a completion queue
 * @ibcq: the object, zeroed
 * @attr: requested attributes; the number of entries is rounded up
 * @attrs: user space's call, or NULL
 *
 * Context: process.
 * Return: 0; -EINVAL for a number of entries out of range or a short response;
 * -ENOMEM. -EOPNOTSUPP for an unknown flag, any flag of a kernel consumer's, or
 * for a channel if kw_compat_comp_events() does not know the kernel.
 */
int kw_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		 struct uverbs_attr_bundle *attrs)
{
	struct kw_device *dev = to_kw_dev(ibcq->device);
	struct kw_cq *cq = to_kw_cq(ibcq);
	struct ib_udata *udata = attrs ? &attrs->driver_udata : NULL;
	struct kw_ucontext *uctx =
		rdma_udata_to_drv_context(udata, struct kw_ucontext, ib);
	u32 stride = uctx ? sizeof(struct kiwarp_cqe) :
			    sizeof(struct kw_kernel_cqe);
	u32 entries;
	int ret;

	if (attr->flags & ~(uctx ? KW_CQ_USER_FLAGS : 0))
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > KIWARP_MAX_CQE)
		return -EINVAL;
	if (uctx) {
		ret = kw_cq_init_events(cq);
		if (ret)
			return ret;
	}
	if (!kw_count_object(&dev->nr_cq, KW_MAX_CQ, uctx))
		return -ENOMEM;

	spin_lock_init(&cq->lock);
	spin_lock_init(&cq->event_lock);
	INIT_WORK(&cq->overflow_work, kw_cq_overflow_work);
	INIT_WORK(&cq->notify_work, kw_cq_notify_work);
	INIT_DELAYED_WORK(&cq->check_work, kw_cq_check_work);
	hrtimer_setup(&cq->mod_timer, kw_cq_mod_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
	mutex_init(&cq->resize_lock);
	mutex_init(&cq->qps_lock);
	INIT_LIST_HEAD(&cq->senders);
	INIT_LIST_HEAD(&cq->receivers);
	cq->user = uctx;
	cq->stamped = attr->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	cq->lossy = attr->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
	init_llist_head(&cq->batch);
	INIT_DELAYED_WORK(&cq->batch_work, kw_batch_work);
	cq->id = atomic_inc_return(&dev->next_cq_id);
	entries = roundup_pow_of_two(attr->cqe);
	ret = kw_queue_mem_alloc(&cq->queue_mem,
				 kw_cq_mem_size(cq, entries, stride),
				 uctx ? &uctx->ib : NULL);
	if (ret)
		goto uncount;
	cq->ring = kw_ring_in(&cq->queue_mem, 0, entries, stride);
	if (uctx) {
		ret = kw_cq_respond(cq, &cq->queue_mem, entries, udata);
		if (ret)
			goto free;
	}
	ibcq->cqe = entries;
	return 0;
free:
	kw_queue_mem_free(&cq->queue_mem);
uncount:
	atomic_dec(&dev->nr_cq);
	return ret;
}

/**
 * kw_cq_get_info() - describe a completion queue
 * @cq: completion queue; kw_destroy_cq() may be under way or over
 * @info: result
 *
 * Context: process; takes cq->lock.
 * Return: false if it has been destroyed.
 */
bool kw_cq_get_info(struct kw_cq *cq, struct kw_cq_info *info)
{
	const struct kiwarp_cq_ctrl *ctrl;

	spin_lock_irq(&cq->lock);
	ctrl = kw_cq_ctrl(cq);
	if (ctrl)
		*info = (struct kw_cq_info){
			.entries = kw_ring_entries(&cq->ring),
			.producer = cq->producer,
			.consumer = cq->user ? READ_ONCE(ctrl->consumer) :
						     cq->consumer,
			.armed = cq->user ? READ_ONCE(ctrl->armed) :
						  READ_ONCE(cq->armed),
			.overflow = kw_cq_is_dead(cq),
		};
	spin_unlock_irq(&cq->lock);
	return ctrl;
}

/**
 * kw_destroy_cq() - destroy a completion queue
 * @ibcq: completion queue
 * @udata: unused
 *
 * The RDMA core made sure that no queue pair uses it, and destroy_qp that none
 * posts or notifies any more. But ib_poll_handler() tells irq_poll that it is
 * done before it arms the queue, and ib_free_cq() waits for the former only: a
 * softirq may still be in kw_req_notify_cq().
 *
 * Context: process.
 * Return: 0.
 */
int kw_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct kw_cq *cq = to_kw_cq(ibcq);

	hrtimer_cancel(&cq->mod_timer);
	cancel_work_sync(&cq->overflow_work);
	cancel_work_sync(&cq->notify_work);
	cancel_delayed_work_sync(&cq->check_work);
	cancel_delayed_work_sync(&cq->batch_work);
	if (!cq->user)
		synchronize_rcu();
	/* The RDMA core still lists the queue: see kw_cq_get_info(). */
	spin_lock_irq(&cq->lock);
	cq->ring.mem = NULL;
	spin_unlock_irq(&cq->lock);
	kw_queue_mem_free(&cq->queue_mem);
	atomic_dec(&to_kw_dev(ibcq->device)->nr_cq);
	return 0;
}
