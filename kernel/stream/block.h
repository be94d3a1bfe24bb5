/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Blocks of pages that FPDUs are built in, shared by all streams of a CPU. */
#ifndef KW_STREAM_BLOCK_H
#define KW_STREAM_BLOCK_H

#include <linux/mm_types_task.h>
#include <linux/types.h>

bool kw_block_get(struct page_frag *f, u32 want);
void kw_block_put(struct page_frag *f);
void kw_blocks_exit(void);

#endif /* KW_STREAM_BLOCK_H */
