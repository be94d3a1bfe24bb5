/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What the parts of verbs/ know of completion queues.
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

static inline size_t kw_cq_mem_size(const struct kw_cq *cq, u32 entries, u32 stride)
{
	return kw_ring_size(entries, stride) +
	       (cq->stamped ? entries * sizeof(struct kiwarp_cq_stamp) : 0);
}

/* Of a queue with stamps: they are behind the entries. */
static inline struct kiwarp_cq_stamp *kw_cq_stamp_at(const struct kw_ring *r,
						     u32 index)
{
	struct kiwarp_cq_stamp *stamps =
		r->mem + kw_ring_size(r->mask + 1, r->stride);

	return &stamps[index & r->mask];
}

/**
 * struct kw_cq_info - a completion queue's state, for resource.c
 * @entries: entries of the ring
 * @producer: next index to write
 * @consumer: next index to poll; a process can write any
 * @armed: KIWARP_CQ_ARM_*
 * @overflow: the queue is dead
 */
struct kw_cq_info {
	u32 entries;
	u32 producer;
	u32 consumer;
	u32 armed;
	bool overflow;
};

/* Every entry was lost since, and will be. */
static inline bool kw_cq_is_dead(const struct kw_cq *cq)
{
	return READ_ONCE(cq->overflow);
}

bool kw_cq_get_info(struct kw_cq *cq, struct kw_cq_info *info);
void kw_cq_add_qp(struct kw_qp *qp);
void kw_cq_del_qp(struct kw_qp *qp);
int kw_cq_respond(const struct kw_cq *cq, const struct kw_queue_mem *mem,
		  u32 entries, struct ib_udata *udata);

#endif /* KW_VERBS_CQ_H */
