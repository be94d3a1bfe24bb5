/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * CRC32c of an FPDU (RFC 5044 section 4.4): the polynomial and octet order of
 * iSCSI's digests.
 *
 *	crc = kw_crc32c(KW_CRC_SEED, part, n); ... for each part of the FPDU
 *	kw_crc_put(field, crc);			   sender
 *	ok = kw_crc_get(field) == crc;		   receiver
 */
#ifndef KW_WIRE_CRC_H
#define KW_WIRE_CRC_H

#include "wire/types.h"

#define KW_CRC_SEED	0xffffffffU

#ifdef __KERNEL__

#include <linux/crc32c.h>
#ifdef CONFIG_X86_64
#include <asm/cpufeature.h>
#endif

/*
 * Below this many octets the library's folded code does not run anyway, and
 * its call chain costs more than the sum.
 */
#define KW_CRC_INLINE_MAX	512

#ifdef CONFIG_X86_64
/* SSE4.2's crc32 works on general registers: no FPU section is needed. */
static inline u32 kw_crc32c_sse42(u32 crc, const u8 *p, size_t n)
{
	u64 c = crc;

	for (; n >= 8; n -= 8, p += 8)
		asm("crc32q %1, %q0" : "+r" (c)
		    : "rm" (get_unaligned((const u64 *)p)));
	crc = c;
	for (; n; n--, p++)
		asm("crc32b %1, %0" : "+r" (crc) : "rm" (*p));
	return crc;
}
#endif

/**
 * kw_crc32c() - continue a CRC32C (Castagnoli)
 * @crc: KW_CRC_SEED, or what an earlier call returned
 * @p: octets
 * @n: how many
 *
 * Context: any.
 * Return: the CRC so far, before the final inversion.
 */
static inline u32 kw_crc32c(u32 crc, const void *p, size_t n)
{
#ifdef CONFIG_X86_64
	if (n < KW_CRC_INLINE_MAX && static_cpu_has(X86_FEATURE_XMM4_2))
		return kw_crc32c_sse42(crc, p, n);
#endif
	return crc32c(crc, p, n);
}

#else

/* For tests and fuzzers: small rather than fast. */
static inline u32 kw_crc32c(u32 crc, const void *p, size_t n)
{
	/* Entry i: four steps of the reflected polynomial 0x82f63b78 over i. */
	static const u32 nibble[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
		0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const u8 *b = (const u8 *)p;

	while (n--) {
		crc ^= *b++;
		crc = crc >> 4 ^ nibble[crc & 15];
		crc = crc >> 4 ^ nibble[crc & 15];
	}
	return crc;
}

#endif /* __KERNEL__ */

/**
 * kw_crc_put - finish a CRC and write the CRC field
 * @dst: KW_MPA_CRC_LEN octets
 * @crc: running CRC of everything in the FPDU before @dst
 */
static inline void kw_crc_put(u8 *dst, u32 crc)
{
	put_unaligned_le32(~crc, dst);
}

/**
 * kw_crc_get - read a CRC field
 * @src: KW_MPA_CRC_LEN octets
 *
 * Return: the running CRC that the FPDU's octets must have given.
 */
static inline u32 kw_crc_get(const u8 *src)
{
	return ~get_unaligned_le32(src);
}

#endif /* KW_WIRE_CRC_H */
