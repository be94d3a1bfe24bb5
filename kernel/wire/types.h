/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Integer types, unaligned big-endian access and memory functions for wire/.
 *
 * wire/ is built into the module, into host unit tests and into fuzzers. Only
 * this file distinguishes them. All others use the kernel's names, which it
 * supplies on hosts.
 */
#ifndef KW_WIRE_TYPES_H
#define KW_WIRE_TYPES_H

/*
 * For functions that messages pass. The compiler puts them beside each other
 * (.text.hot), into a fifth of the module's text: where other code has run since
 * the message before, fewer cache lines and TLB entries are missing. The kernel
 * has only the opposite, __cold.
 */
#ifndef __hot
#define __hot __attribute__((__hot__))
#endif

#ifdef __KERNEL__

#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
/* Linux 6.12 moved this out of asm/. Old sparse has no __has_include(). */
#if defined(__CHECKER__)
#include <linux/unaligned.h>
#elif __has_include("linux/unaligned.h")
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#else /* !__KERNEL__ */

#ifdef __cplusplus
#include <cstddef>
#include <cstring>
#else
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#endif

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#ifndef __ro_after_init
#define __ro_after_init
#endif

#ifndef __packed
#define __packed __attribute__((__packed__))
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u16 __be16;
typedef u32 __be32;
typedef u64 __be64;

static inline u16 get_unaligned_be16(const void *p)
{
	const u8 *b = (const u8 *)p;

	return (u16)(b[0] << 8 | b[1]);
}

static inline u32 get_unaligned_be32(const void *p)
{
	const u8 *b = (const u8 *)p;

	return (u32)get_unaligned_be16(b) << 16 | get_unaligned_be16(b + 2);
}

static inline u64 get_unaligned_be64(const void *p)
{
	const u8 *b = (const u8 *)p;

	return (u64)get_unaligned_be32(b) << 32 | get_unaligned_be32(b + 4);
}

static inline u32 get_unaligned_le32(const void *p)
{
	const u8 *b = (const u8 *)p;

	return (u32)b[3] << 24 | (u32)b[2] << 16 | (u32)b[1] << 8 | b[0];
}

static inline void put_unaligned_be16(u16 v, void *p)
{
	u8 *b = (u8 *)p;

	b[0] = (u8)(v >> 8);
	b[1] = (u8)v;
}

static inline void put_unaligned_be32(u32 v, void *p)
{
	u8 *b = (u8 *)p;

	put_unaligned_be16((u16)(v >> 16), b);
	put_unaligned_be16((u16)v, b + 2);
}

static inline void put_unaligned_be64(u64 v, void *p)
{
	u8 *b = (u8 *)p;

	put_unaligned_be32((u32)(v >> 32), b);
	put_unaligned_be32((u32)v, b + 4);
}

static inline void put_unaligned_le32(u32 v, void *p)
{
	u8 *b = (u8 *)p;

	b[0] = (u8)v;
	b[1] = (u8)(v >> 8);
	b[2] = (u8)(v >> 16);
	b[3] = (u8)(v >> 24);
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define cpu_to_be16(v)	__builtin_bswap16(v)
#define cpu_to_be32(v)	__builtin_bswap32(v)
#define cpu_to_be64(v)	__builtin_bswap64(v)
#else
#define cpu_to_be16(v)	((u16)(v))
#define cpu_to_be32(v)	((u32)(v))
#define cpu_to_be64(v)	((u64)(v))
#endif
#define be16_to_cpu(v)	cpu_to_be16(v)
#define be32_to_cpu(v)	cpu_to_be32(v)
#define be64_to_cpu(v)	cpu_to_be64(v)

#endif /* __KERNEL__ */

#endif /* KW_WIRE_TYPES_H */
