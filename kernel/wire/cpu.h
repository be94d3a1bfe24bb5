/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the processor has, as kernels of all versions say it.
 */
#ifndef KW_WIRE_CPU_H
#define KW_WIRE_CPU_H

#include <asm/cpufeature.h>

/*
 * static_cpu_has() is gone in 7.3. Before, User-Mode Linux has a
 * cpu_feature_enabled() that does not compile. On arm64 all CPUs have what the
 * kernel says there is, those that come later, too.
 */
#if defined(CONFIG_ARM64)
#define kw_cpu_has(feature)	alternative_has_cap_likely(feature)
#elif defined(static_cpu_has)
#define kw_cpu_has(feature)	static_cpu_has(feature)
#else
#define kw_cpu_has(feature)	cpu_feature_enabled(feature)
#endif

#endif /* KW_WIRE_CPU_H */
