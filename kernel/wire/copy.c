// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Copying payload by general registers, which need no FPU section.
 */
#include "wire/copy.h"

#define KW_COPY_BLOCK	128

/* Half of a block, all of it read before any of it is written. */
static __always_inline void kw_copy_half(u8 *dst, const u8 *src)
{
	u64 r[KW_COPY_BLOCK / 16];
	u32 i;

#pragma GCC unroll 8
	for (i = 0; i < KW_COPY_BLOCK / 16; i++) {
		memcpy(&r[i], src + 8 * i, 8);
		/* Otherwise the compiler turns this into memcpy(). */
		__asm__("" : "+r" (r[i]));
	}
#pragma GCC unroll 8
	for (i = 0; i < KW_COPY_BLOCK / 16; i++)
		memcpy(dst + 8 * i, &r[i], 8);
}

/**
 * kw_memcpy() - copy bytes
 * @dst: where to; does not overlap @src
 * @src: where from
 * @n: how many
 *
 * Context: any.
 */
__hot void kw_memcpy(void *dst, const void *src, size_t n)
{
	const u8 *from = (const u8 *)src;
	u8 *to = (u8 *)dst;
	u64 bytes;
	u32 half;

	for (; n >= KW_COPY_BLOCK; n -= KW_COPY_BLOCK) {
		kw_copy_half(to, from);
		kw_copy_half(to + KW_COPY_BLOCK / 2, from + KW_COPY_BLOCK / 2);
		to += KW_COPY_BLOCK;
		from += KW_COPY_BLOCK;
	}
	if (n >= KW_COPY_BLOCK / 2) {
		kw_copy_half(to, from);
		to += KW_COPY_BLOCK / 2;
		from += KW_COPY_BLOCK / 2;
		n -= KW_COPY_BLOCK / 2;
	}
	for (; n >= 8; n -= 8) {
		memcpy(&bytes, from, 8);
		memcpy(to, &bytes, 8);
		to += 8;
		from += 8;
	}
	if (n & 4) {
		memcpy(&half, from, 4);
		memcpy(to, &half, 4);
		to += 4;
		from += 4;
	}
	for (n &= 3; n; n--)
		*to++ = *from++;
}
