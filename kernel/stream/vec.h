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
 * Fewest bytes for which a section pays off. Saving and restoring a process's
 * registers takes as long as the section gains with some 8 KiB of payload. But
 * usually there are none to save: softirqs run between processes and while the
 * CPU is idle. Once saved, they stay so until the process continues.
 */
#define KW_VEC_MIN	2560

/*
 * Bytes after which a section ends, at most some three microseconds: processes
 * on this CPU wait for its end. Ending one and beginning the next costs little
 * beside them.
 */
#define KW_VEC_MAX	16384

extern bool kw_vec_usable;

void kw_vec_init(void);

/**
 * kw_vec_begin() - begin a section
 * @bytes: of payload that there will be at least; those in one section are at
 *	most KW_VEC_MAX, or one FPDU more
 *
 * Softirqs and preemption are off until kw_vec_end().
 *
 * Context: softirq or process; not in another section.
 * Return: true if it has begun; false if it does not pay off, or is not
 * possible.
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
 * @begun: what kw_vec_begin() returned
 */
static inline void kw_vec_end(bool begun)
{
#ifdef CONFIG_X86_64
	if (begun)
		kernel_fpu_end();
#endif
}

void kw_memcpy_sections(u8 *dst, const u8 *src, u32 len);
u32 kw_crc32c_sections(u32 crc, const u8 *p, u32 len);

/**
 * kw_memcpy_auto() - kw_memcpy(), by vector registers if that is faster
 * @dst: where to
 * @src: bytes
 * @len: how many
 *
 * Context: softirq or process; inside another section it is kw_memcpy().
 */
static inline void kw_memcpy_auto(u8 *dst, const u8 *src, u32 len)
{
	if (len < KW_VEC_MIN)
		kw_memcpy(dst, src, len);
	else
		kw_memcpy_sections(dst, src, len);
}

/**
 * kw_crc32c_auto() - kw_crc32c(), by vector registers if that is faster
 * @crc: so far
 * @p: bytes
 * @len: how many
 *
 * Context: as kw_memcpy_auto().
 * Return: the CRC over them, too.
 */
static inline u32 kw_crc32c_auto(u32 crc, const u8 *p, u32 len)
{
	if (len < KW_VEC_MIN)
		return kw_crc32c(crc, p, len);
	return kw_crc32c_sections(crc, p, len);
}

#endif /* KW_STREAM_VEC_H */
