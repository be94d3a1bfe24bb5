/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What differs between kernel versions. No other file asks for the version.
 */
#ifndef KW_COMPAT_H
#define KW_COMPAT_H

#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "Kiwarp needs Linux 6.12 or later"
#endif

/* Registered memory is used through its address in the direct map. */
#if !IS_ENABLED(CONFIG_64BIT) || !IS_ENABLED(CONFIG_INFINIBAND_VIRT_DMA)
#error "Kiwarp needs a 64-bit kernel with CONFIG_INFINIBAND_VIRT_DMA"
#endif

/*
 * What newer kernels call otherwise has its new name here, whichever kernel
 * this is; what they took away has a name of our own.
 */
#include <linux/hrtimer.h>
#include <linux/socket.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define sockaddr_unsized sockaddr
#endif

#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#ifndef static_cpu_has
#define static_cpu_has(feature)	cpu_feature_enabled(feature)
#endif
#endif

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
/* Only registering a device tells: it is refused. */
static inline bool kw_device_name_taken(const char *name)
{
	return false;
}
#endif

/*
 * Newer kernels may name where in a CPU's caches a memory region's data is to
 * be put (struct ib_dmah), which only hardware can do: it is refused.
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

#endif /* KW_COMPAT_H */
