/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Copying and CRC32C by vector registers, for long runs of payload. They take a
 * third of the instructions of copy.c, and two thirds of those of crc.c. With
 * AVX-512 the CRC takes two thirds of the time that it takes with AVX, and a
 * copy in the same pass adds hardly anything: see fold.h. Without, copying and
 * the CRC in one pass are no faster than one after the other.
 *
 * In the kernel those registers belong to user space. They may be used only in
 * a section that has saved them, which pays off for several FPDUs at once:
 * stream/vec.h has such sections.
 */
#ifndef KW_WIRE_VEC_H
#define KW_WIRE_VEC_H

#include "wire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the CRC is computed as in fold.h. Set before any CRC is. */
extern bool kw_vec_folds;

bool kw_vec_has(void);
void kw_memcpy_vec(void *dst, const void *src, size_t n);
u32 kw_crc32c_vec(u32 crc, const void *p, size_t n);
u32 kw_memcpy_crc32c_vec(u32 crc, void *dst, const void *src, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_VEC_H */
