/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Device operations that are not in device.c, qp.c and cm/.
 */
#ifndef KW_VERBS_OPS_H
#define KW_VERBS_OPS_H

#include "verbs/verbs.h"

/* Access flags of a region; unknown ones must be marked as optional. */
#define KW_MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB)

#define KW_REMOTE_ACCESS	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | \
				 IB_ACCESS_REMOTE_ATOMIC)

/*
 * Page sizes of a fast registration. nvme-rdma, iSER and RTRS ask for pages of
 * 4 KiB, however large the kernel's are; SRP for the smallest that there is.
 */
#define KW_PAGE_SIZES		GENMASK_ULL(31, 12)

/* Pages in one fast registration. */
#define KW_MAX_FAST_REG_PAGES	1024

/* port.c */
int kw_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr);
int kw_query_gid(struct ib_device *ibdev, u32 port, int index,
		 union ib_gid *gid);
int kw_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int kw_get_port_immutable(struct ib_device *ibdev, u32 port,
			  struct ib_port_immutable *imm);
void kw_netdev_gid(const struct net_device *netdev, union ib_gid *gid);
void kw_port_update(struct kw_device *dev);

/* ring.c */
int kw_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void kw_mmap_free(struct rdma_user_mmap_entry *entry);
void kw_mmap_exit(void);

/* cq.c */
int kw_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		 struct uverbs_attr_bundle *attrs);
int kw_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int kw_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int kw_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
int kw_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);

/* srq.c */
int kw_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		  struct ib_udata *udata);
int kw_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		  enum ib_srq_attr_mask mask, struct ib_udata *udata);
int kw_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int kw_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int kw_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad);

/* mr.c */
struct ib_mr *kw_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *kw_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			  u32 max_num_sg);
int kw_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		 unsigned int *offset);
int kw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
struct ib_mr *kw_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
			       u64 len, u64 iova, int access, struct ib_pd *ibpd,
			       struct ib_udata *udata);

/* mw.c */
int kw_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int kw_dealloc_mw(struct ib_mw *ibmw);

/* mr_dmabuf.c */
int kw_dmabuf_map(struct kw_mr *mr, int fd, u64 offset, u64 len);
void kw_dmabuf_unmap(struct kw_mr *mr);

/* counters.c */
struct rdma_hw_stats *kw_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int kw_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		    u32 port, int index);
void kw_counter_sets_init(struct xarray *sets);
struct rdma_hw_stats *kw_counter_alloc_stats(struct rdma_counter *counter);
int kw_counter_update_stats(struct rdma_counter *counter);
int kw_counter_dealloc(struct rdma_counter *counter);

/* resource.c */
int kw_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int kw_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int kw_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);
int kw_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

/* settings.c */
extern const struct attribute_group kw_settings_group;
void kw_settings_init(struct kw_settings *s);

#endif /* KW_VERBS_OPS_H */
