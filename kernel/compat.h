/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Differences between kernel versions. No other file of the module checks the
 * version.
 */
#ifndef KW_COMPAT_H
#define KW_COMPAT_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/version.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_std_types.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "Kiwarp needs Linux 6.12 or later"
#endif

/*
 * A region's last user is waited for by the lock that turning softirqs off
 * takes: stream/mem.c. Without it, softirqs of one CPU can also preempt each
 * other, and irq_poll, which completes work for nvme-rdma and ib_iser, was seen to
 * panic (7.2.13-rt).
 */
#if IS_ENABLED(CONFIG_PREEMPT_RT) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0) && \
	!IS_ENABLED(CONFIG_PREEMPT_RT_NEEDS_BH_LOCK)
#error "Kiwarp needs CONFIG_PREEMPT_RT_NEEDS_BH_LOCK in a kernel with CONFIG_PREEMPT_RT"
#endif

/* Registered memory is used through its address in the direct map. */
#if !IS_ENABLED(CONFIG_INFINIBAND_VIRT_DMA)
#error "Kiwarp needs a kernel with CONFIG_INFINIBAND_VIRT_DMA"
#endif

/**
 * struct kw_compat_ucq - ib_uverbs' object of a process's completion queue
 * @uobj: the part that all kinds of objects have
 * @async_file: where asynchronous events go
 * @async_events: those of the queue that were not read yet
 * @async_reported: how many were
 * @comp_events: completion events of the queue that were not read yet
 * @comp_reported: how many were
 *
 * The RDMA core has no call that says whether a completion event was read, and
 * declares the object in no header for drivers. It has had these members since
 * Linux 5.8; kw_compat_comp_events() checks whether it still has.
 */
struct kw_compat_ucq {
	struct ib_uobject uobj;
	void *async_file;
	struct list_head async_events;
	u32 async_reported;
	struct list_head comp_events;
	u32 comp_reported;
};

/**
 * kw_compat_comp_events() - the completion events that a process has not read
 * @ucq: ib_uverbs' object, as the driver's create_cq() finds it: no event was
 *	raised yet
 *
 * Context: process.
 * Return: the list's head, which is empty or not as long as the queue exists;
 * NULL if the running kernel keeps them otherwise.
 */
static inline const struct list_head *
kw_compat_comp_events(struct ib_ucq_object *ucq)
{
	struct kw_compat_ucq *u = (struct kw_compat_ucq *)ucq;

	if (u->uobj.uapi_object->type_attrs->obj_size != sizeof(*u))
		return NULL;
	/* Of all possible contents only an empty list points to itself. */
	if (!list_empty(&u->async_events) || !list_empty(&u->comp_events))
		return NULL;
	return &u->comp_events;
}

/**
 * struct kw_compat_usrq - ib_uverbs' object of a process's shared receive queue
 * @uobj: the part that all kinds of objects have
 * @async_file: where asynchronous events go
 * @async_events: those of the queue that were not read yet
 * @async_reported: how many were
 * @uxrcd: of XRC
 *
 * As struct kw_compat_ucq.
 */
struct kw_compat_usrq {
	struct ib_uobject uobj;
	void *async_file;
	struct list_head async_events;
	u32 async_reported;
	void *uxrcd;
};

/**
 * kw_compat_srq_events() - the asynchronous events that a process has not read
 * @usrq: ib_uverbs' object, as the driver's create_srq() finds it
 *
 * Context: process.
 * Return: as kw_compat_comp_events().
 */
static inline const struct list_head *
kw_compat_srq_events(struct ib_usrq_object *usrq)
{
	struct kw_compat_usrq *u = (struct kw_compat_usrq *)usrq;

	if (u->uobj.uapi_object->type_attrs->obj_size != sizeof(*u) ||
	    !list_empty(&u->async_events))
		return NULL;
	return &u->async_events;
}

/**
 * struct kw_compat_uqp - ib_uverbs' object of a process's queue pair
 * @uobj: the part that all kinds of objects have
 * @async_file: where asynchronous events go
 * @async_events: those of the queue pair that were not read yet
 * @async_reported: how many were
 * @mcast_lock: of datagrams
 * @mcast_list: likewise
 * @uxrcd: of XRC
 *
 * As struct kw_compat_ucq.
 */
struct kw_compat_uqp {
	struct ib_uobject uobj;
	void *async_file;
	struct list_head async_events;
	u32 async_reported;
	struct mutex mcast_lock;	/* @mcast_list */
	struct list_head mcast_list;
	void *uxrcd;
};

/**
 * kw_compat_qp_events() - the asynchronous events of a process's queue pair
 * @uqp: ib_uverbs' object, as the driver's create_qp() finds it: no event was
 *	raised yet
 *
 * Context: process.
 * Return: the object, whose list and number of events can be read as long as
 * the queue pair exists; NULL if the running kernel keeps them otherwise.
 */
static inline const struct kw_compat_uqp *
kw_compat_qp_events(struct ib_uqp_object *uqp)
{
	struct kw_compat_uqp *u = (struct kw_compat_uqp *)uqp;

	if (u->uobj.uapi_object->type_attrs->obj_size != sizeof(*u) ||
	    !list_empty(&u->async_events) || !list_empty(&u->mcast_list))
		return NULL;
	return u;
}

/*
 * A symbol that newer kernels rename has its new name here. One that they
 * remove has a name of our own.
 */
#include <linux/socket.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

/* 6.19: addresses of any size that kernel_bind() and kernel_connect() take. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define sockaddr_unsized sockaddr
#endif

#include <linux/workqueue.h>

/* Since 6.18 that is its name. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
#define system_dfl_wq system_unbound_wq
#endif

#include <linux/srcu.h>

/* What an SRCU domain has for each CPU, in bytes. */
#ifdef CONFIG_TINY_SRCU
#define KW_SRCU_PERCPU_SIZE	0
#else
#define KW_SRCU_PERCPU_SIZE	sizeof(struct srcu_data)
#endif

/* 7.2 names what kind of memory is pinned, and finds no device by its name. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
static inline struct ib_umem *ib_umem_get_va(struct ib_device *dev,
					     unsigned long addr, size_t size,
					     int access)
{
	return ib_umem_get(dev, addr, size, access);
}

static inline bool kw_device_name_taken(const char *name)
{
	struct ib_device *dev = ib_device_get_by_name(name, RDMA_DRIVER_UNKNOWN);

	if (dev)
		ib_device_put(dev);
	return dev;
}
#else
/* Only registering a device shows whether a name is taken. */
static inline bool kw_device_name_taken(const char *name)
{
	return false;
}
#endif

/*
 * Since 6.14 the RDMA core raises the events of a port that follows its
 * interface, unless the driver asks to do so. Kiwarp raises them in all kernels:
 * kw_netdev_event().
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
static inline void kw_report_port_event(struct ib_device *ibdev,
					struct net_device *netdev,
					unsigned long event)
{
}

#define KW_OPS_PORT_EVENT	.report_port_event = kw_report_port_event,
#else
#define KW_OPS_PORT_EVENT
#endif

/*
 * Since 6.17 a process may name the CPU cache that a memory region's data is to
 * be put in (struct ib_dmah). Only hardware can do that: it is refused.
 */
struct ib_mr *kw_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 len, u64 iova,
			     int access);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
static inline struct ib_mr *kw_reg_user_mr_op(struct ib_pd *ibpd, u64 start,
					      u64 len, u64 iova, int access,
					      struct ib_udata *udata)
{
	return kw_reg_user_mr(ibpd, start, len, iova, access);
}
#else
static inline struct ib_mr *kw_reg_user_mr_op(struct ib_pd *ibpd, u64 start,
					      u64 len, u64 iova, int access,
					      struct ib_dmah *dmah,
					      struct ib_udata *udata)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return kw_reg_user_mr(ibpd, start, len, iova, access);
}
#endif

/* Since 6.13 a namespace's name is a string. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define KW_IMPORT_NS_DMA_BUF	MODULE_IMPORT_NS(DMA_BUF)
#else
#define KW_IMPORT_NS_DMA_BUF	MODULE_IMPORT_NS("DMA_BUF")
#endif

/* As for kw_reg_user_mr_op(). */
struct ib_mr *kw_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 len,
				    u64 iova, int fd, int access);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
static inline struct ib_mr *
kw_reg_user_mr_dmabuf_op(struct ib_pd *ibpd, u64 offset, u64 len, u64 iova,
			 int fd, int access, struct uverbs_attr_bundle *attrs)
{
	return kw_reg_user_mr_dmabuf(ibpd, offset, len, iova, fd, access);
}
#else
static inline struct ib_mr *
kw_reg_user_mr_dmabuf_op(struct ib_pd *ibpd, u64 offset, u64 len, u64 iova,
			 int fd, int access, struct ib_dmah *dmah,
			 struct uverbs_attr_bundle *attrs)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return kw_reg_user_mr_dmabuf(ibpd, offset, len, iova, fd, access);
}
#endif

#include <linux/hrtimer.h>

/* 6.13 sets a timer up in one call. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*fn)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
}
#endif

/*
 * Since 6.15 binding a counter names the port, and the RDMA core allocates the
 * driver's part of a counter with its own, and has the driver initialize it.
 */
int kw_counter_bind(struct rdma_counter *counter, struct ib_qp *ibqp);
int kw_counter_unbind(struct ib_qp *ibqp);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#define KW_OPS_COUNTER_BIND	.counter_bind_qp = kw_counter_bind, \
				.counter_unbind_qp = kw_counter_unbind,
#else
static inline int kw_counter_bind_op(struct rdma_counter *counter,
				     struct ib_qp *ibqp, u32 port)
{
	return kw_counter_bind(counter, ibqp);
}

static inline int kw_counter_unbind_op(struct ib_qp *ibqp, u32 port)
{
	return kw_counter_unbind(ibqp);
}

static inline void kw_counter_init_op(struct rdma_counter *counter)
{
}

#define KW_OPS_COUNTER_BIND	.counter_bind_qp = kw_counter_bind_op, \
				.counter_init = kw_counter_init_op, \
				.counter_unbind_qp = kw_counter_unbind_op, \
				.size_rdma_counter = sizeof(struct rdma_counter),
#endif

/* Since 7.1 only user space can resize a completion queue. */
int kw_resize_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata);

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
static inline int kw_resize_cq_op(struct ib_cq *ibcq, int cqe,
				  struct ib_udata *udata)
{
	return kw_resize_cq(ibcq, cqe, udata);
}

#define KW_OPS_RESIZE_CQ	.resize_cq = kw_resize_cq_op,
#else
#define KW_OPS_RESIZE_CQ	.resize_user_cq = kw_resize_cq,
#endif

#endif /* KW_COMPAT_H */
