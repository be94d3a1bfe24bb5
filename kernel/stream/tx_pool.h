/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The transmit buffer pool, shared by all streams of a CPU. */
#ifndef KW_STREAM_TX_POOL_H
#define KW_STREAM_TX_POOL_H

#include <linux/mm_types_task.h>
#include <linux/types.h>

bool kw_tx_pool_get(struct page_frag *f, u32 want);
void kw_tx_pool_put(struct page_frag *f);
unsigned long kw_tx_pool_idle(int cpu);
void kw_tx_pool_trim(void);
void kw_tx_pool_drop(unsigned int cpu);
void kw_tx_pool_exit(void);

/* tx_pool_shrink.c */
int kw_tx_pool_shrink_init(void);
void kw_tx_pool_shrink_exit(void);

#endif /* KW_STREAM_TX_POOL_H */
