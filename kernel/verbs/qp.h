/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Between the parts of the queue pair: qp.c, qp_post.c, qp_stream.c. */
#ifndef KW_VERBS_QP_H
#define KW_VERBS_QP_H

#include "verbs/verbs.h"

extern const struct kw_stream_ops kw_qp_stream_ops;

void kw_qp_set_state(struct kw_qp *qp, u8 state);
void kw_qp_flush(struct kw_qp *qp);
void kw_qp_flush_all(struct kw_qp *qp);
void kw_qp_flush_work(struct work_struct *work);
void kw_qp_notify(struct kw_qp *qp);
int kw_qp_init_events(struct kw_qp *qp);
void kw_qp_event_work(struct work_struct *work);
void kw_qp_event(struct kw_qp *qp, enum ib_event_type type);
void kw_qp_complete_sq(struct kw_qp *qp, const struct kw_sq_track *t,
		       u16 status);
void kw_qp_complete_rq(struct kw_qp *qp, u64 wr_id, u16 status, u32 len,
		       u8 flags, u32 inv_stag);

/* qp_post.c */
int kw_qp_doorbell(struct kw_qp *qp);
int kw_fill_recvs(const struct kw_ring *ring, u32 *post, const u32 *done,
		  u32 max_sge, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad);

/* srq.c */
int kw_srq_take(struct kw_qp *qp, struct kw_recv *r);

/* qp_batch.c */
bool kw_batch_add(struct kw_qp *qp, u64 len);
void kw_batch_begin(struct kw_cq *cq);
void kw_batch_end(struct kw_cq *cq);
void kw_batch_work(struct work_struct *work);

static inline struct kiwarp_ring_ctrl *kw_ctrl(const struct kw_ring *r)
{
	return r->mem;
}

static inline u32 kw_rqe_stride(u32 max_sge)
{
	return sizeof(struct kiwarp_rqe) + max_sge * sizeof(struct kiwarp_sge);
}

static inline u32 kw_ring_entries(const struct kw_ring *r)
{
	return r->entries;
}

/* Atomic operations with masks, which follow the SGE. */
#define KW_MASKED_SQE_BYTES	(sizeof(struct kiwarp_sqe) + \
				 sizeof(struct kiwarp_sge) + \
				 sizeof(struct kw_atomic_masks))

static inline bool kw_op_is_masked(int op)
{
	return op == KIWARP_OP_MASKED_FETCH_ADD ||
	       op == KIWARP_OP_MASKED_CMP_SWAP;
}

static inline struct kw_atomic_masks *kw_sqe_masks(const struct kiwarp_sqe *sqe)
{
	return (void *)((const struct kiwarp_sge *)(sqe + 1) + 1);
}

/*
 * Copy out of shared memory so that the compiler cannot read twice. Inline:
 * constant lengths become a few moves.
 */
static __always_inline void kw_read_shared(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
	barrier();
}

/* One SGE is the common case: inline it is cheaper than a call. */
static __always_inline void kw_read_sges(struct kiwarp_sge *dst, const void *shared,
					 u32 n)
{
	const struct kiwarp_sge *src = shared;
	u32 i;

	for (i = 0; i < n; i++)
		kw_read_shared(&dst[i], &src[i], sizeof(dst[i]));
}

/**
 * kw_recv_read() - read a receive queue entry, once
 * @ring: its ring, which user space can write to
 * @index: its index
 * @max_sge: SGEs that it may have, and that there is room for in @r
 * @r: result; @sge is set
 *
 * Context: any.
 * Return: 0, or -EINVAL if it has more SGEs.
 */
static inline int kw_recv_read(const struct kw_ring *ring, u32 index,
			       u32 max_sge, struct kw_recv *r)
{
	const struct kiwarp_rqe *shared = kw_ring_at(ring, index);
	struct kiwarp_rqe rqe;
	u32 i;

	kw_read_shared(&rqe, shared, sizeof(rqe));
	r->wr_id = rqe.wr_id;
	r->index = index;
	r->len = 0;
	r->num_sge = rqe.num_sge;
	if (r->num_sge > max_sge)
		return -EINVAL;
	kw_read_sges(r->sge, shared + 1, r->num_sge);
	for (i = 0; i < r->num_sge; i++)
		r->len += r->sge[i].length;
	return 0;
}

#endif /* KW_VERBS_QP_H */
