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
void kw_qp_event(struct kw_qp *qp, enum ib_event_type type);
void kw_qp_complete_sq(struct kw_qp *qp, const struct kw_sq_track *t,
		       u16 status);
void kw_qp_complete_rq(struct kw_qp *qp, u64 wr_id, u16 status, u32 len,
		       u8 flags, u32 inv_stag);

/* qp_stream.c */
int kw_recv_read(const struct kw_ring *ring, u32 index, u32 max_sge,
		 struct kw_recv *r);

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

#endif /* KW_VERBS_QP_H */
