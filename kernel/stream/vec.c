// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Whether vector registers can be used at all, and sections for single long
 * runs of bytes.
 */
#include <linux/cache.h>

#include "stream/vec.h"
#include "wire/fold.h"

#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
#include <asm/processor.h>

#include "wire/cpu.h"

/* A hypervisor may offer AVX, but not let the kernel save its registers. */
#define kw_vec_saved() \
	cpu_has_xfeatures(XFEATURE_MASK_SSE | XFEATURE_MASK_YMM, NULL)

/*
 * Some of Intel's CPUs run slower for a while when registers of 64 bytes have
 * been used. Newer kernels say which. Here they are those without FP16, which
 * came with Sapphire Rapids.
 */
#ifdef X86_FEATURE_PREFER_YMM
#define kw_fold_slows()	kw_cpu_has(X86_FEATURE_PREFER_YMM)
#else
#define kw_fold_slows() \
	(boot_cpu_data.x86_vendor == X86_VENDOR_INTEL && \
	 !kw_cpu_has(X86_FEATURE_AVX512_FP16))
#endif

#define kw_fold_pays() \
	(cpu_has_xfeatures(XFEATURE_MASK_AVX512, NULL) && !kw_fold_slows())
#else
#define kw_vec_saved()	true
#define kw_fold_pays()	true
#endif

bool kw_vec_usable __ro_after_init;

/**
 * kw_vec_init() - find out what this machine has
 *
 * Context: process, once, before there are streams.
 */
void kw_vec_init(void)
{
	/* PREEMPT_RT's locks sleep, and the next region is looked up in a section. */
	kw_vec_usable = !IS_ENABLED(CONFIG_PREEMPT_RT) && kw_vec_has() &&
			kw_vec_saved();
	kw_vec_folds = kw_vec_usable && kw_fold_has() && kw_fold_pays();
}

/**
 * kw_memcpy_sections() - slow path of kw_memcpy_auto()
 * @dst: where to
 * @src: bytes
 * @len: how many
 *
 * Context: as kw_memcpy_auto().
 */
void kw_memcpy_sections(u8 *dst, const u8 *src, u32 len)
{
	u32 n;

	for (; len; dst += n, src += n, len -= n) {
		bool vec;

		n = min_t(u32, len, KW_VEC_MAX);
		vec = kw_vec_begin(n);
		if (vec)
			kw_memcpy_vec(dst, src, n);
		else
			kw_memcpy(dst, src, n);
		kw_vec_end(vec);
	}
}

/**
 * kw_crc32c_sections() - slow path of kw_crc32c_auto()
 * @crc: so far
 * @p: bytes
 * @len: how many
 *
 * Context: as kw_memcpy_auto().
 * Return: the CRC over them, too.
 */
u32 kw_crc32c_sections(u32 crc, const u8 *p, u32 len)
{
	u32 n;

	for (; len; p += n, len -= n) {
		bool vec;

		n = min_t(u32, len, KW_VEC_MAX);
		vec = kw_vec_begin(n);
		crc = vec ? kw_crc32c_vec(crc, p, n) : kw_crc32c(crc, p, n);
		kw_vec_end(vec);
	}
	return crc;
}
