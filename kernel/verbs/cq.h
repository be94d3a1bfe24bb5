/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Completion queues, between cq.c and cq_resize.c.
 */
#ifndef KW_VERBS_CQ_H
#define KW_VERBS_CQ_H

#include "verbs/verbs.h"

/*
 * Of user space's queues: under kw_cq.lock, kw_cq.event_lock or RCU, as
 * resizing changes the ring.
 */
static inline struct kiwarp_cq_ctrl *kw_cq_ctrl(struct kw_cq *cq)
{
	return READ_ONCE(cq->ring.mem);
}

int kw_cq_respond(const struct kw_cq *cq, const struct kw_queue_mem *mem,
		  u32 entries, struct ib_udata *udata);

#endif /* KW_VERBS_CQ_H */
