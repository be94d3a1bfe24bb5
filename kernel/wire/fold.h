/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * CRC32C by carry-less multiplication in AVX-512's registers of 64 bytes, alone
 * or while they copy: vec.h uses it where there is enough payload. What holds
 * there of such registers holds here.
 */
#ifndef KW_WIRE_FOLD_H
#define KW_WIRE_FOLD_H

#include "wire/types.h"

/* Fewest bytes: four registers. */
#define KW_FOLD_MIN	256

#ifdef __cplusplus
extern "C" {
#endif

bool kw_fold_has(void);
u32 kw_crc32c_fold(u32 crc, const void *p, size_t n);
u32 kw_memcpy_crc32c_fold(u32 crc, void *dst, const void *src, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_FOLD_H */
