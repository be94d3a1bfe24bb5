/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * CRC32c of an FPDU (RFC 5044 section 4.4): the polynomial and byte order of
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

#ifdef __cplusplus
extern "C" {
#endif

u32 kw_crc32c(u32 crc, const void *p, size_t n);
u32 kw_memcpy_crc32c(u32 crc, void *dst, const void *src, size_t n);
#ifndef __KERNEL__
u32 kw_crc32c_plain(u32 crc, const void *p, size_t n);
#endif

/**
 * kw_crc_put() - finish a CRC and write the CRC field
 * @dst: KW_MPA_CRC_LEN bytes
 * @crc: running CRC of everything in the FPDU before @dst
 */
static inline void kw_crc_put(u8 *dst, u32 crc)
{
	put_unaligned_le32(~crc, dst);
}

/**
 * kw_crc_get() - read a CRC field
 * @src: KW_MPA_CRC_LEN bytes
 *
 * Return: the running CRC that the FPDU's bytes must have given.
 */
static inline u32 kw_crc_get(const u8 *src)
{
	return ~get_unaligned_le32(src);
}

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_CRC_H */
