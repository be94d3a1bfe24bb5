// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Counters, for "rdma statistic" and hw_counters in sysfs.
 */
#include <linux/slab.h>

#include "compat.h"
#include "verbs/ops.h"

static const struct rdma_stat_desc kw_counter_descs[KW_NR_COUNTERS] = {
	[KW_CNT_RX_FPDUS].name = "rx_fpdus",
	[KW_CNT_RX_OCTETS].name = "rx_octets",
	[KW_CNT_TX_FPDUS].name = "tx_fpdus",
	[KW_CNT_TX_OCTETS].name = "tx_octets",
	[KW_CNT_RX_CRC_ERRORS].name = "rx_crc_errors",
	[KW_CNT_RX_MARKER_ERRORS].name = "rx_marker_errors",
	[KW_CNT_RX_DDP_ERRORS].name = "rx_ddp_errors",
	[KW_CNT_RX_RDMAP_ERRORS].name = "rx_rdmap_errors",
	[KW_CNT_RX_DROPPED].name = "rx_dropped",
	[KW_CNT_TERM_SENT].name = "terminates_sent",
	[KW_CNT_TERM_RECEIVED].name = "terminates_received",
	[KW_CNT_CONN_ESTABLISHED].name = "conn_established",
	[KW_CNT_CONN_ACCEPTED].name = "conn_accepted",
	[KW_CNT_CONN_REJECTED].name = "conn_rejected",
	[KW_CNT_CONN_REFUSED].name = "conn_refused",
	[KW_CNT_CONN_TIMEOUTS].name = "conn_timeouts",
	[KW_CNT_CONN_BAD_START].name = "conn_bad_start",
	[KW_CNT_CONN_RESET].name = "conn_reset",
	[KW_CNT_CONN_DENIED].name = "conn_denied",
	[KW_CNT_CONN_EVICTED].name = "conn_evicted",
	[KW_CNT_CONN_FALLBACKS].name = "conn_fallbacks",
	[KW_CNT_CONN_ACCEPT_RETRIES].name = "conn_accept_retries",
	[KW_CNT_LINGER_RESET].name = "linger_resets",
	[KW_CNT_CQ_OVERFLOWS].name = "cq_overflows",
	[KW_CNT_RX_NO_MEMORY].name = "rx_no_memory",
	[KW_CNT_TX_NO_MEMORY].name = "tx_no_memory",
	[KW_CNT_TX_BLOCKED].name = "tx_blocked",
	[KW_CNT_TX_BATCHED].name = "tx_batched_posts",
	[KW_CNT_TX_ZCOPY_OCTETS].name = "tx_zcopy_octets",
	[KW_CNT_TX_ZCOPY_COPIED].name = "tx_zcopy_copied",
};

/**
 * kw_alloc_hw_port_stats() - describe the counters to the RDMA core
 * @ibdev: device
 * @port: 1
 *
 * Context: process.
 * Return: what rdma_free_hw_stats_struct() frees, or NULL.
 */
struct rdma_hw_stats *kw_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(kw_counter_descs, KW_NR_COUNTERS,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/**
 * kw_get_hw_stats() - read the counters
 * @ibdev: device
 * @stats: result
 * @port: 1; 0 asks for counters of the device, which has none
 * @index: the one that is requested; all are updated
 *
 * Context: process, stats->lock.
 * Return: how many counters were updated, or -EOPNOTSUPP.
 */
int kw_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		    u32 port, int index)
{
	struct kw_device *dev = to_kw_dev(ibdev);
	int i;

	if (!port)
		return -EOPNOTSUPP;
	for (i = 0; i < KW_NR_COUNTERS; i++)
		stats->value[i] = kw_counter_read(dev->counters, i);
	return KW_NR_COUNTERS;
}

/*
 * Those that streams count; the others are the device's alone. A bound queue
 * pair counts to its counter's set, not the device's. The core adds both for
 * the port.
 */
static bool kw_is_stream_counter(enum kw_counter c)
{
	switch (c) {
	case KW_CNT_RX_FPDUS:
	case KW_CNT_RX_OCTETS:
	case KW_CNT_TX_FPDUS:
	case KW_CNT_TX_OCTETS:
	case KW_CNT_RX_CRC_ERRORS:
	case KW_CNT_RX_MARKER_ERRORS:
	case KW_CNT_RX_DDP_ERRORS:
	case KW_CNT_RX_RDMAP_ERRORS:
	case KW_CNT_RX_DROPPED:
	case KW_CNT_TERM_SENT:
	case KW_CNT_TERM_RECEIVED:
	case KW_CNT_CONN_RESET:
	case KW_CNT_RX_NO_MEMORY:
	case KW_CNT_TX_NO_MEMORY:
	case KW_CNT_TX_BLOCKED:
	case KW_CNT_TX_ZCOPY_OCTETS:
	case KW_CNT_TX_ZCOPY_COPIED:
		return true;
	default:
		return false;
	}
}

/**
 * kw_counter_sets_init() - prepare to keep counters that queue pairs are bound to
 * @sets: kw_device.counter_sets
 */
void kw_counter_sets_init(struct xarray *sets)
{
	xa_init_flags(sets, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
}

static void kw_counter_set_free(struct kref *ref)
{
	struct kw_counter_set *set =
		container_of(ref, struct kw_counter_set, ref);
	int i;

	for (i = 0; set->counters && i < KW_NR_COUNTERS; i++)
		kw_counter_add(set->dev->counters, i,
			       kw_counter_read(set->counters, i) - set->read[i]);
	free_percpu(set->counters);
	kfree(set);
}

static void kw_counter_set_put(struct kw_counter_set *set)
{
	kref_put(&set->ref, kw_counter_set_free);
}

/* The stream is gone, or has no pass that began during the use, if there is one. */
static void kw_counter_use_end(struct kw_counter_use *use)
{
	if (!use)
		return;
	kw_counter_set_put(use->set);
	kfree(use);
}

/**
 * kw_counter_leave() - end a queue pair's use of a set for good
 * @qp: queue pair without a stream, its @freed set
 *
 * Before 6.12.117 an administrator may bind one that is being destroyed.
 *
 * Context: process.
 */
void kw_counter_leave(struct kw_qp *qp)
{
	struct kw_counter_use *use;

	spin_lock_irq(&qp->lock);
	use = qp->counter_use;
	qp->counter_use = NULL;
	spin_unlock_irq(&qp->lock);
	kw_counter_use_end(use);
}

static void kw_counter_use_rcu(struct rcu_head *rcu)
{
	kw_counter_use_end(container_of(rcu, struct kw_counter_use, rcu));
}

/* Its number is the user's name for the counter. In auto mode a process pays. */
static int kw_counter_set_create(struct rdma_counter *counter)
{
	struct kw_device *dev = to_kw_dev(counter->device);
	struct kw_counter_set *set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	int ret = -ENOMEM;

	if (!set)
		return ret;
	kref_init(&set->ref);
	set->dev = dev;
	set->counters = alloc_percpu_gfp(struct kw_counters, GFP_KERNEL_ACCOUNT);
	if (set->counters)
		ret = xa_alloc(&dev->counter_sets, &counter->id, set,
			       xa_limit_31b, GFP_KERNEL);
	if (ret)
		kw_counter_set_put(set);
	return ret;
}

/**
 * kw_counter_dealloc() - ib_device_ops.counter_dealloc
 * @counter: counter to which no queue pair is bound
 *
 * The RDMA core has read it for the last time. What passes that are under way
 * still count to its set becomes the device's in the end.
 *
 * Context: process.
 * Return: 0
 */
int kw_counter_dealloc(struct rdma_counter *counter)
{
	struct kw_device *dev = to_kw_dev(counter->device);
	struct kw_counter_set *set = xa_erase(&dev->counter_sets, counter->id);
	int i;

	/* A counter whose first binding failed has no set any more. */
	if (!set)
		return 0;
	for (i = 0; i < KW_NR_COUNTERS; i++)
		set->read[i] = counter->stats->value[i];
	kw_counter_set_put(set);
	counter->id = 0;
	return 0;
}

/*
 * Passes under way may still count to the set that was used before. It is kept
 * until the queue pair goes, or until they are over if it is bound once more.
 * There is no wait for them here: a process can keep a pass going, and readers
 * of the port's counters take counter->lock, which is held.
 */
static int kw_counter_use(struct kw_qp *qp, struct rdma_counter *counter)
{
	struct kw_counter_set *set = xa_load(&qp->dev->counter_sets, counter->id);
	struct kw_counter_use *use = kmalloc(sizeof(*use), GFP_KERNEL_ACCOUNT);
	struct kw_counter_use *old;

	if (!use)
		return -ENOMEM;
	use->set = set;
	spin_lock_irq(&qp->lock);
	if (qp->ib.counter || qp->freed) {
		spin_unlock_irq(&qp->lock);
		kfree(use);
		return -EINVAL;
	}
	old = qp->counter_use;
	kref_get(&set->ref);
	qp->counter_use = use;
	qp->ib.counter = counter;
	kw_stream_set_counters(&qp->stream, set->counters);
	spin_unlock_irq(&qp->lock);
	if (old)
		call_srcu(qp->stream.mem_srcu, &old->rcu, kw_counter_use_rcu);
	return 0;
}

/**
 * kw_counter_bind() - ib_device_ops.counter_bind_qp
 * @counter: counter; its number is 0 if no queue pair was bound to it yet
 * @ibqp: queue pair
 *
 * The RDMA core does not keep others from binding the same queue pair to another
 * counter meanwhile.
 *
 * Context: process; counter->lock.
 * Return: 0, -EINVAL (bound already, or being destroyed), -ENOMEM.
 */
int kw_counter_bind(struct rdma_counter *counter, struct ib_qp *ibqp)
{
	bool first = !counter->id;
	int ret;

	if (first) {
		ret = kw_counter_set_create(counter);
		if (ret)
			return ret;
	}
	ret = kw_counter_use(to_kw_qp(ibqp), counter);
	if (ret && first)
		kw_counter_dealloc(counter);
	return ret;
}

/**
 * kw_counter_unbind() - ib_device_ops.counter_unbind_qp
 * @ibqp: queue pair
 *
 * What it has counted stays the counter's.
 *
 * Context: process; lock of its counter.
 * Return: 0, -EINVAL (it is not bound).
 */
int kw_counter_unbind(struct ib_qp *ibqp)
{
	struct kw_qp *qp = to_kw_qp(ibqp);
	int ret = -EINVAL;

	spin_lock_irq(&qp->lock);
	if (ibqp->counter) {
		ibqp->counter = NULL;
		kw_stream_set_counters(&qp->stream, qp->dev->counters);
		ret = 0;
	}
	spin_unlock_irq(&qp->lock);
	return ret;
}

/**
 * kw_counter_alloc_stats() - ib_device_ops.counter_alloc_stats
 * @counter: new counter
 *
 * The RDMA core adds the values to the port's by their index.
 *
 * Context: process.
 * Return: what rdma_free_hw_stats_struct() frees, or NULL.
 */
struct rdma_hw_stats *kw_counter_alloc_stats(struct rdma_counter *counter)
{
	struct rdma_hw_stats *stats = kw_alloc_hw_port_stats(counter->device, 1);
	int i;

	for (i = 0; stats && i < KW_NR_COUNTERS; i++) {
		if (!kw_is_stream_counter(i))
			__set_bit(i, stats->is_disabled);
	}
	return stats;
}

/**
 * kw_counter_update_stats() - ib_device_ops.counter_update_stats
 * @counter: counter to read
 *
 * Context: process; counter->lock.
 * Return: 0
 */
int kw_counter_update_stats(struct rdma_counter *counter)
{
	struct kw_device *dev = to_kw_dev(counter->device);
	struct kw_counter_set *set = xa_load(&dev->counter_sets, counter->id);
	int i;

	for (i = 0; set && i < KW_NR_COUNTERS; i++)
		counter->stats->value[i] = kw_counter_read(set->counters, i);
	return 0;
}
