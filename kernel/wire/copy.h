/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Copying payload. memcpy() becomes "rep movsb" where the CPU says that it is
 * fast for short copies. Payload behind a header is aligned differently at its
 * source and its destination. For 1424 such bytes "rep movsb" takes 36 ns
 * instead of 60 on an Intel Xeon (Sapphire Rapids), but 1100 instead of 64 on
 * an AMD EPYC.
 */
#ifndef KW_WIRE_COPY_H
#define KW_WIRE_COPY_H

#include "wire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

void kw_memcpy(void *dst, const void *src, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_COPY_H */
