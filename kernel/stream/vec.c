// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Whether vector registers can be used at all, and long runs of bytes one by
 * one.
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

/**
 * kw_memcpy_fpu() - kw_memcpy_auto() of KW_VEC_MIN bytes and more
 * @dst: where to
 * @src: bytes
 * @len: how many
 *
 * Context: as kw_memcpy_auto().
 */
void kw_memcpy_fpu(u8 *dst, const u8 *src, u32 len)
{
	bool vec = kw_vec_begin(len);

	if (vec)
		kw_memcpy_vec(dst, src, len);
	else
		kw_memcpy(dst, src, len);
	kw_vec_end(vec);
}

/**
 * kw_crc32c_fpu() - kw_crc32c_auto() of KW_VEC_MIN bytes and more
 * @crc: so far
 * @p: bytes
 * @len: how many
 *
 * Context: as kw_memcpy_auto().
 * Return: the CRC over them, too.
 */
u32 kw_crc32c_fpu(u32 crc, const u8 *p, u32 len)
{
	bool vec = kw_vec_begin(len);

	crc = vec ? kw_crc32c_vec(crc, p, len) : kw_crc32c(crc, p, len);
	kw_vec_end(vec);
	return crc;
}
