/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Blocks of pages that FPDUs are built in, shared by all streams of a CPU. */
#ifndef KW_STREAM_BLOCK_H
#define KW_STREAM_BLOCK_H

#include <linux/mm_types_task.h>
#include <linux/types.h>

bool kw_block_get(struct page_frag *f, u32 want);
void kw_block_put(struct page_frag *f);
unsigned long kw_blocks_idle(int cpu);
void kw_blocks_trim(void);
void kw_blocks_exit(void);

/* block_shrink.c */
int kw_block_shrink_init(void);
void kw_block_shrink_exit(void);

#endif /* KW_STREAM_BLOCK_H */
