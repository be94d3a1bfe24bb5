// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The RDMA device: its operations, limits and registration.
 */
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/pfn.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>

#include "compat.h"
#include "verbs/ops.h"

/*
 * vendor_id is an OUI. This one has the locally administered bit, so that it is
 * no vendor's. 0 and 0xffffff are avoided: some programs take them for rxe's
 * and apply its limits. The part is KIWARP_DRIVER_ID.
 */
#define KW_VENDOR_ID	0x024b57

#define KW_FW_MAJOR	0
#define KW_FW_MINOR	2
#define KW_FW_SUB	0

/*
 * Operations are the CPU's own: see stream/atomic.c. Of the kernel's 64-bit
 * architectures these are known to have them for all of memory.
 */
static enum ib_atomic_cap kw_atomic_cap(struct kw_device *dev)
{
	struct kw_settings set;

	kw_settings_get(dev, &set);
	if (!set.stream.atomics)
		return IB_ATOMIC_NONE;
	return IS_ENABLED(CONFIG_X86_64) || IS_ENABLED(CONFIG_ARM64) ?
	       IB_ATOMIC_GLOB : IB_ATOMIC_HCA;
}

static int kw_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			   struct ib_udata *udata)
{
	/* The RDMA core asks for itself, too: with none since 7.2 at the latest. */
	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = (u64)KW_FW_MAJOR << 32 | KW_FW_MINOR << 16 | KW_FW_SUB;
	attr->sys_image_guid = ibdev->node_guid;
	attr->vendor_id = KW_VENDOR_ID;
	attr->vendor_part_id = KIWARP_DRIVER_ID;
	attr->device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS |
				 IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SRQ_RESIZE |
				 IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_MEM_WINDOW |
				 IB_DEVICE_MEM_WINDOW_TYPE_2B;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG;
	attr->max_mr_size = KW_MAX_MR_SIZE;
	attr->page_size_cap = KW_PAGE_SIZES;
	attr->max_qp = KW_MAX_QP;
	attr->max_qp_wr = KIWARP_MAX_QP_WR;
	attr->max_send_sge = KIWARP_MAX_SGE;
	attr->max_recv_sge = KIWARP_MAX_SGE;
	attr->max_sge_rd = 1;
	attr->max_cq = KW_MAX_CQ;
	attr->max_cqe = KIWARP_MAX_CQE;
	attr->max_srq = KW_MAX_SRQ;
	attr->max_srq_wr = KIWARP_MAX_SRQ_WR;
	attr->max_srq_sge = KIWARP_MAX_SGE;
	attr->max_mr = KW_MAX_MR;
	attr->max_mw = KW_MAX_MW;
	attr->max_pd = KW_MAX_PD;
	attr->max_qp_rd_atom = KW_MAX_QP_RD_ATOM;
	attr->max_qp_init_rd_atom = KW_MAX_QP_RD_ATOM;
	attr->max_res_rd_atom = KW_MAX_QP * KW_MAX_QP_RD_ATOM;
	attr->max_fast_reg_page_list_len = KW_MAX_FAST_REG_PAGES;
	attr->max_pkeys = 1;
	attr->atomic_cap = kw_atomic_cap(to_kw_dev(ibdev));
	attr->masked_atomic_cap = attr->atomic_cap;
	/* The clock of struct kiwarp_cq_stamp, in kHz. */
	attr->hca_core_clock = USEC_PER_SEC;
	attr->timestamp_mask = U64_MAX;
	attr->cq_caps.max_cq_moderation_count = U16_MAX;
	attr->cq_caps.max_cq_moderation_period = U16_MAX;
	return 0;
}

static void kw_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%d.%d.%d", KW_FW_MAJOR,
		 KW_FW_MINOR, KW_FW_SUB);
}

/* Per-CPU memory of an SRCU domain is charged to no memory cgroup. */
static int kw_ucontext_srcu(struct kw_ucontext *kuctx)
{
	size_t size = KW_SRCU_PERCPU_SIZE * num_possible_cpus();
	int ret;

	ret = kw_lock_pages(&kuctx->locked, PFN_UP(size));
	if (ret)
		return ret;
	ret = kw_domain_init(&kuctx->domain, true);
	if (ret)
		kw_unlock_pages(&kuctx->locked);
	return ret;
}

static void kw_dealloc_ucontext(struct ib_ucontext *uctx)
{
	struct kw_ucontext *kuctx = container_of(uctx, struct kw_ucontext, ib);

	kw_domain_exit(&kuctx->domain);
	kw_unlock_pages(&kuctx->locked);
}

/* KIWARP_CAP_* */
static u32 kw_ucontext_caps(struct kw_device *dev)
{
	struct kw_settings set;

	kw_settings_get(dev, &set);
	return KIWARP_CAP_SRQ | KIWARP_CAP_MW | KIWARP_CAP_RESIZE_CQ |
	       KIWARP_CAP_CQ_TIMESTAMP |
	       (set.stream.immediate ? KIWARP_CAP_IMM : 0) |
	       (set.stream.atomics ? KIWARP_CAP_ATOMIC : 0);
}

static int kw_alloc_ucontext(struct ib_ucontext *uctx, struct ib_udata *udata)
{
	struct kw_ucontext *kuctx = container_of(uctx, struct kw_ucontext, ib);
	struct kiwarp_alloc_ucontext_resp resp = {
		.abi_version = KIWARP_ABI_VERSION,
		.caps = kw_ucontext_caps(to_kw_dev(uctx->device)),
		.max_inline = KIWARP_MAX_INLINE,
		.max_sge = KIWARP_MAX_SGE,
	};
	int ret;

	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	kuctx->owner = kw_linger_owner(current_user_ns(), current_uid());
	ret = kw_ucontext_srcu(kuctx);
	if (ret)
		return ret;
	ret = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (ret)
		kw_dealloc_ucontext(uctx);
	return ret;
}

/*
 * With this function the RDMA core can take the device away from running
 * processes: their objects are destroyed, their rings stay mapped (ring.c).
 */
static void kw_disassociate_ucontext(struct ib_ucontext *uctx)
{
}

/*
 * For a process that imports a context. There is nothing to return, but the
 * RDMA core requires this function.
 */
static int kw_query_ucontext(struct ib_ucontext *uctx,
			     struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static int kw_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct kw_ucontext *uctx =
		rdma_udata_to_drv_context(udata, struct kw_ucontext, ib);
	struct kw_device *dev = to_kw_dev(ibpd->device);

	to_kw_pd(ibpd)->domain = uctx ? &uctx->domain : &dev->domain;
	spin_lock_init(&to_kw_pd(ibpd)->window_lock);
	return kw_count_object(&dev->nr_pd, KW_MAX_PD, uctx) ? 0 : -ENOMEM;
}

static int kw_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	atomic_dec(&to_kw_dev(ibpd->device)->nr_pd);
	return 0;
}

static void kw_dealloc_driver(struct ib_device *ibdev)
{
	struct kw_device *dev = to_kw_dev(ibdev);

	WARN_ON(!kw_table_empty(&dev->mems));
	WARN_ON(!kw_table_empty(&dev->qps));
	xa_destroy(&dev->mems);
	xa_destroy(&dev->qps);
	kw_domain_exit(&dev->domain);
	WARN_ON(!kw_table_empty(&dev->counter_sets));
	xa_destroy(&dev->counter_sets);
	WARN_ON(!kw_table_empty(&dev->lingers.users));
	xa_destroy(&dev->lingers.users);
	free_percpu(dev->counters);
}

static const struct ib_device_ops kw_device_ops = {
	.owner = THIS_MODULE,
	.driver_id = (enum rdma_driver_id)KIWARP_DRIVER_ID,
	.uverbs_abi_ver = KIWARP_ABI_VERSION,
	.device_group = &kw_settings_group,

	.alloc_hw_port_stats = kw_alloc_hw_port_stats,
	.alloc_mr = kw_alloc_mr,
	.alloc_mw = kw_alloc_mw,
	.alloc_pd = kw_alloc_pd,
	.alloc_ucontext = kw_alloc_ucontext,
	.counter_alloc_stats = kw_counter_alloc_stats,
	.counter_dealloc = kw_counter_dealloc,
	.counter_update_stats = kw_counter_update_stats,
	.create_cq = kw_create_cq,
	.create_qp = kw_create_qp,
	.create_srq = kw_create_srq,
	.dealloc_driver = kw_dealloc_driver,
	.dealloc_mw = kw_dealloc_mw,
	.dealloc_pd = kw_dealloc_pd,
	.dealloc_ucontext = kw_dealloc_ucontext,
	.dereg_mr = kw_dereg_mr,
	.destroy_cq = kw_destroy_cq,
	.destroy_qp = kw_destroy_qp,
	.destroy_srq = kw_destroy_srq,
	.disassociate_ucontext = kw_disassociate_ucontext,
	.fill_res_cq_entry = kw_fill_res_cq,
	.fill_res_mr_entry = kw_fill_res_mr,
	.fill_res_qp_entry = kw_fill_res_qp,
	.fill_res_srq_entry = kw_fill_res_srq,
	.get_dev_fw_str = kw_get_dev_fw_str,
	.get_dma_mr = kw_get_dma_mr,
	.get_hw_stats = kw_get_hw_stats,
	.get_port_immutable = kw_get_port_immutable,
	.iw_add_ref = kw_iw_add_ref,
	.iw_get_qp = kw_iw_get_qp,
	.iw_rem_ref = kw_iw_rem_ref,
	.map_mr_sg = kw_map_mr_sg,
	.mmap = kw_mmap,
	.mmap_free = kw_mmap_free,
	.modify_cq = kw_modify_cq,
	.modify_qp = kw_modify_qp,
	.modify_srq = kw_modify_srq,
	.poll_cq = kw_poll_cq,
	.post_recv = kw_post_recv,
	.post_send = kw_post_send,
	.post_srq_recv = kw_post_srq_recv,
	.query_device = kw_query_device,
	.query_gid = kw_query_gid,
	.query_pkey = kw_query_pkey,
	.query_port = kw_query_port,
	.query_qp = kw_query_qp,
	.query_srq = kw_query_srq,
	.query_ucontext = kw_query_ucontext,
	.reg_user_mr = kw_reg_user_mr_op,
	.reg_user_mr_dmabuf = kw_reg_user_mr_dmabuf_op,
	.req_notify_cq = kw_req_notify_cq,
	.rereg_user_mr = kw_rereg_user_mr,
	KW_OPS_COUNTER_BIND
	KW_OPS_PORT_EVENT
	KW_OPS_RESIZE_CQ

	INIT_RDMA_OBJ_SIZE(ib_cq, kw_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_mw, kw_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, kw_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, kw_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, kw_srq, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, kw_ucontext, ib),
};

/*
 * One inline function sets up both arrays, so that lockdep takes their locks
 * for one. @qps is looked up with interrupts off, @mems is not.
 */
static struct lock_class_key kw_qps_lock_key;

static void kw_device_identity(struct kw_device *dev)
{
	struct ib_device *ib = &dev->ib;
	union ib_gid gid;

	kw_netdev_gid(dev->netdev, &gid);
	ib->node_guid = gid.global.interface_id;
	ib->node_type = RDMA_NODE_RNIC;
	ib->phys_port_cnt = 1;
	ib->num_comp_vectors = num_possible_cpus();
	strscpy(ib->node_desc, "Kiwarp software RNIC", sizeof(ib->node_desc));
	strscpy(ib->iw_ifname, dev->netdev->name, sizeof(ib->iw_ifname));
	/* Ports are real TCP ports: nothing has to be mapped. */
	ib->iw_driver_flags = IW_F_NO_PORT_MAP;
	/* The doorbells, see kiwarp-abi.h. */
	ib->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
			       BIT_ULL(IB_USER_VERBS_CMD_POST_RECV);
}

/**
 * kw_device_create() - create and register a device
 * @name: of the device
 * @netdev: interface; the caller holds a reference and makes sure that the
 *	device goes when the interface does
 * @cm_ops: the connection manager's operations
 *
 * The caller must not use the device after this has returned: from then on
 * others may unregister it.
 *
 * Context: process, without the RTNL.
 * Return: 0; or -errno, and nothing is left allocated.
 */
int kw_device_create(const char *name, struct net_device *netdev,
		     const struct ib_device_ops *cm_ops)
{
	struct kw_device *dev = ib_alloc_device(kw_device, ib);
	int ret;

	if (!dev)
		return -ENOMEM;

	dev->netdev = netdev;
	/* Re-registering takes its lock inside one that softirqs take. */
	xa_init_flags(&dev->mems, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH |
				  XA_FLAGS_ACCOUNT);
	/* iw_cm looks queue pairs up under a lock that turns interrupts off. */
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ |
				 XA_FLAGS_ACCOUNT);
	lockdep_set_class(&dev->qps.xa_lock, &kw_qps_lock_key);
	spin_lock_init(&dev->eps_lock);
	INIT_LIST_HEAD(&dev->eps);
	kw_settings_init(&dev->settings);
	kw_counter_sets_init(&dev->counter_sets);
	dev->counters = alloc_percpu(struct kw_counters);
	kw_lingers_init(&dev->lingers, dev->counters);
	ret = dev->counters ? kw_domain_init(&dev->domain, false) : -ENOMEM;
	if (ret) {
		/* Not yet kw_dealloc_driver()'s: the operations are not set. */
		free_percpu(dev->counters);
		ib_dealloc_device(&dev->ib);
		return ret;
	}

	kw_device_identity(dev);
	ib_set_device_ops(&dev->ib, &kw_device_ops);
	ib_set_device_ops(&dev->ib, cm_ops);
	ret = ib_device_set_netdev(&dev->ib, netdev, 1);
	if (ret)
		goto dealloc;
	/* Prevents udev from renaming the device. */
	ib_mark_name_assigned_by_user(&dev->ib);
	ret = ib_register_device(&dev->ib, name, NULL);
	if (ret)
		goto dealloc;
	return 0;
dealloc:
	ib_dealloc_device(&dev->ib);
	return ret;
}
