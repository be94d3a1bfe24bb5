// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Whether vector registers can be used at all.
 */
#include <linux/cache.h>

#include "stream/vec.h"

#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
/* A hypervisor may offer AVX, but not let the kernel save its registers. */
#define kw_vec_saved() \
	cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM, NULL)
#else
#define kw_vec_saved()	true
#endif

bool kw_vec_usable __ro_after_init;

/**
 * kw_vec_init() - find out what this machine has
 *
 * Context: process, once, before there are streams.
 */
void kw_vec_init(void)
{
	kw_vec_usable = kw_vec_has() && kw_vec_saved();
}
