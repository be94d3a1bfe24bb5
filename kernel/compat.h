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

#endif /* KW_COMPAT_H */
