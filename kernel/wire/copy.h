/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Copying payload. memcpy() becomes "rep movsb" where the CPU says that short
 * ones of those are fast, which is far from true of source and destination
 * that are differently aligned: payload behind a header always is.
 */
#ifndef KW_WIRE_COPY_H
#define KW_WIRE_COPY_H

#include "wire/types.h"

#ifdef __cplusplus
extern "C" {
#endif

void kw_copy(void *dst, const void *src, size_t n);

#ifdef __cplusplus
}
#endif

#endif /* KW_WIRE_COPY_H */
