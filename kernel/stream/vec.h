/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Sections in which the kernel may use vector registers: see wire/vec.h.
 */
#ifndef KW_STREAM_VEC_H
#define KW_STREAM_VEC_H

#include <linux/types.h>
#ifdef CONFIG_X86_64
#include <asm/fpu/api.h>
#endif

#include "wire/copy.h"
#include "wire/crc.h"
#include "wire/vec.h"

/*
 * Fewest bytes for which a section pays off. To save and restore a process's
 * registers takes as long as the section gains with some 8 KiB of payload, but
 * mostly there are none to save: softirqs run between processes and while the
 * CPU idles, and once they are saved they stay so until the process goes on.
 */
#define KW_VEC_MIN	2560

extern bool kw_vec_usable;

void kw_vec_init(void);

/**
 * kw_vec_begin() - begin a section
 * @bytes: of payload that there will be at least
 *
 * Softirqs and preemption are off until kw_vec_end().
 *
 * Context: softirq or process; not in another section.
 * Return: true if it has begun; false if it is not worth it, or not possible.
 */
static inline bool kw_vec_begin(u32 bytes)
{
#ifdef CONFIG_X86_64
	if (bytes < KW_VEC_MIN || !kw_vec_usable || !irq_fpu_usable())
		return false;
	kernel_fpu_begin();
	return true;
#else
	return false;
#endif
}

/**
 * kw_vec_end() - end a section
 * @begun: whether there is one: what kw_vec_begin() returned
 */
static inline void kw_vec_end(bool begun)
{
#ifdef CONFIG_X86_64
	if (begun)
		kernel_fpu_end();
#endif
}

void kw_memcpy_fpu(u8 *dst, const u8 *src, u32 len);
u32 kw_crc32c_fpu(u32 crc, const u8 *p, u32 len);

/**
 * kw_memcpy_auto() - kw_memcpy(), in a section of its own where that is worth it
 * @dst: where to
 * @src: bytes
 * @len: how many
 *
 * Context: softirq or process; in another section it is kw_memcpy().
 */
static inline void kw_memcpy_auto(u8 *dst, const u8 *src, u32 len)
{
	if (unlikely(len >= KW_VEC_MIN))
		kw_memcpy_fpu(dst, src, len);
	else
		kw_memcpy(dst, src, len);
}

/**
 * kw_crc32c_auto() - kw_crc32c(), as kw_memcpy_auto()
 * @crc: so far
 * @p: bytes
 * @len: how many
 *
 * Context: as kw_memcpy_auto().
 * Return: the CRC over them, too.
 */
static inline u32 kw_crc32c_auto(u32 crc, const u8 *p, u32 len)
{
	if (unlikely(len >= KW_VEC_MIN))
		return kw_crc32c_fpu(crc, p, len);
	return kw_crc32c(crc, p, len);
}

#endif /* KW_STREAM_VEC_H */
