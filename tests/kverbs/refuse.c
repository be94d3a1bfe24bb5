// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What the device does not support, and the errors for it.
 */
#include <linux/kernel.h>

#include "ktest.h"

/* The queue pair's type and its capacities, one of them invalid at a time. */
static void kt_qp_refused(struct kt_link *l, const struct ib_qp_init_attr *wrong,
			  int errno_want, const char *what)
{
	struct ib_qp_init_attr attr = *wrong;
	struct ib_qp *qp;

	attr.send_cq = l->b.scq;
	attr.recv_cq = l->b.rcq;
	qp = ib_create_qp(l->b.pd, &attr);
	if (!kt_equal(PTR_ERR_OR_ZERO(qp), errno_want, "%s", what) &&
	    !IS_ERR(qp))
		ib_destroy_qp(qp);
}

static void kt_qps(void)
{
	const struct ib_qp_init_attr good = {
		.cap.max_send_wr = 4,
		.cap.max_recv_wr = 4,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.qp_type = IB_QPT_RC,
	};
	struct kt_link *l = kt_open(&(struct kt_opts){});
	struct ib_device_attr *max;
	struct ib_qp_init_attr a;

	if (!l)
		return;
	max = &l->b.id->device->attrs;
	a = good;
	a.qp_type = IB_QPT_UD;
	kt_qp_refused(l, &a, -EOPNOTSUPP, "a UD queue pair");
	a.qp_type = IB_QPT_UC;
	kt_qp_refused(l, &a, -EOPNOTSUPP, "a UC queue pair");
	a.qp_type = IB_QPT_GSI;
	kt_qp_refused(l, &a, -EOPNOTSUPP, "a GSI queue pair");
	a.qp_type = IB_QPT_RAW_PACKET;
	kt_qp_refused(l, &a, -EOPNOTSUPP, "a raw packet queue pair");
	a = good;
	a.cap.max_send_wr = max->max_qp_wr + 1;
	kt_qp_refused(l, &a, -EINVAL, "a send queue over the limit");
	a = good;
	a.cap.max_recv_wr = max->max_qp_wr + 1;
	kt_qp_refused(l, &a, -EINVAL, "a receive queue over the limit");
	a = good;
	a.cap.max_send_sge = max->max_send_sge + 1;
	kt_qp_refused(l, &a, -EINVAL, "send SGEs over the limit");
	a = good;
	a.cap.max_recv_sge = max->max_recv_sge + 1;
	kt_qp_refused(l, &a, -EINVAL, "receive SGEs over the limit");
	a = good;
	a.cap.max_inline_data = KIWARP_MAX_INLINE + 1;
	kt_qp_refused(l, &a, -EINVAL, "inline data over the limit");
	a = good;
	a.create_flags = IB_QP_CREATE_INTEGRITY_EN;
	kt_qp_refused(l, &a, -EOPNOTSUPP, "a queue pair with integrity");
	kt_equal(ib_modify_qp(l->b.qp, &(struct ib_qp_attr){ .cap = good.cap }, IB_QP_CAP),
		 -EINVAL, "other capacities");
	kt_close(l);
}

static void kt_objects(void)
{
	struct kt_link *l = kt_open(&(struct kt_opts){});
	struct ib_srq_init_attr srq_attr = {
		.attr.max_wr = 4,
		.srq_type = IB_SRQT_TM,
	};
	struct ib_device *dev;
	struct ib_srq *srq;
	struct ib_mr *mr;

	if (!l)
		return;
	dev = l->b.id->device;
	mr = ib_alloc_mr_integrity(l->b.pd, 16, 16);
	kt_equal(PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP, "a region with integrity");
	mr = ib_alloc_mr(l->b.pd, IB_MR_TYPE_SG_GAPS, 16);
	kt_equal(PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP, "a region with gaps");
	mr = ib_alloc_mr(l->b.pd, IB_MR_TYPE_DM, 16);
	kt_equal(PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP, "a region of the device's");
	srq_attr.ext.cq = l->b.rcq;
	srq = ib_create_srq(l->b.pd, &srq_attr);
	kt_equal(PTR_ERR_OR_ZERO(srq), -EOPNOTSUPP,
		 "a shared receive queue with tag matching");
	kt_equal(dev->attrs.atomic_cap, IB_ATOMIC_NONE, "atomics");
	kt_fact(!(dev->attrs.kernel_cap_flags & IBK_INTEGRITY_HANDOVER) &&
		!(dev->attrs.kernel_cap_flags & IBK_SG_GAPS_REG),
		"no integrity, no gaps");
	kt_fact(dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS,
		"memory management extensions");
	kt_equal(ib_attach_mcast(l->b.qp, &(union ib_gid){}, 0), -EOPNOTSUPP,
		 "multicast");
	kt_close(l);
}

const struct kt_case kt_refuse_cases[] = {
	{ "refuse.qp", kt_qps },
	{ "refuse.object", kt_objects },
	{}
};
