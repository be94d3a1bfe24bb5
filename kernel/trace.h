/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Tracepoints. Documentation/troubleshooting.md says what each is used for.
 *
 * The objects are only declared here, so that every layer can include this
 * file. trace.c alone knows their members.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kiwarp

#if !defined(KW_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define KW_TRACE_H

#include <linux/in6.h>
#include <linux/tracepoint.h>
#include <rdma/ib_verbs.h>
#include <rdma/kiwarp-abi.h>
#include <trace/misc/rdma.h>

struct kw_cq;
struct kw_ep;
struct kw_mem;
struct kw_qp;
struct kw_stream;

DECLARE_EVENT_CLASS(kw_fpdu_class,
	TP_PROTO(const struct kw_stream *s, u32 fpdus, u32 bytes),

	TP_ARGS(s, fpdus, bytes),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(s->ibdev))
		__field(u32, qpn)
		__field(u32, fpdus)
		__field(u32, bytes)
	),

	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = s->qpn;
		__entry->fpdus = fpdus;
		__entry->bytes = bytes;
	),

	TP_printk("dev=%s qpn=%u fpdus=%u bytes=%u", __get_str(dev),
		  __entry->qpn, __entry->fpdus, __entry->bytes)
);

/* FPDUs are complete and go to TCP, in one call or in several. */
DEFINE_EVENT_CONDITION(kw_fpdu_class, kw_fpdu_sent,
	TP_PROTO(const struct kw_stream *s, u32 fpdus, u32 bytes),
	TP_ARGS(s, fpdus, bytes),
	TP_CONDITION(fpdus)
);

/* A receive pass has handled FPDUs. */
DEFINE_EVENT_CONDITION(kw_fpdu_class, kw_fpdu_received,
	TP_PROTO(const struct kw_stream *s, u32 fpdus, u32 bytes),
	TP_ARGS(s, fpdus, bytes),
	TP_CONDITION(fpdus)
);

DECLARE_EVENT_CLASS(kw_terminate_class,
	TP_PROTO(const struct ib_device *ibdev, u32 qpn, u16 code),

	TP_ARGS(ibdev, qpn, code),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(ibdev))
		__string(text, kw_term_str(code))
		__field(u32, qpn)
		__field(u16, code)
	),

	TP_fast_assign(
		__assign_str(dev);
		__assign_str(text);
		__entry->qpn = qpn;
		__entry->code = code;
	),

	TP_printk("dev=%s qpn=%u code=%04x (%s)", __get_str(dev), __entry->qpn,
		  __entry->code, __get_str(text))
);

DEFINE_EVENT(kw_terminate_class, kw_terminate_sent,
	TP_PROTO(const struct ib_device *ibdev, u32 qpn, u16 code),
	TP_ARGS(ibdev, qpn, code)
);

/* The code is 0 if the peer's Terminate was malformed. */
DEFINE_EVENT(kw_terminate_class, kw_terminate_received,
	TP_PROTO(const struct ib_device *ibdev, u32 qpn, u16 code),
	TP_ARGS(ibdev, qpn, code)
);

TRACE_DEFINE_ENUM(KW_EP_NEW);
TRACE_DEFINE_ENUM(KW_EP_CONNECTING);
TRACE_DEFINE_ENUM(KW_EP_AWAIT_REPLY);
TRACE_DEFINE_ENUM(KW_EP_AWAIT_REQUEST);
TRACE_DEFINE_ENUM(KW_EP_HAVE_REQUEST);
TRACE_DEFINE_ENUM(KW_EP_OFFERED);
TRACE_DEFINE_ENUM(KW_EP_AWAIT_KEY);
TRACE_DEFINE_ENUM(KW_EP_RUNNING);
TRACE_DEFINE_ENUM(KW_EP_DEAD);

#define kw_show_ep_state(state)				\
	__print_symbolic(state,				\
		{ KW_EP_NEW, "NEW" },			\
		{ KW_EP_CONNECTING, "CONNECTING" },	\
		{ KW_EP_AWAIT_REPLY, "AWAIT_REPLY" },	\
		{ KW_EP_AWAIT_REQUEST, "AWAIT_REQUEST" }, \
		{ KW_EP_HAVE_REQUEST, "HAVE_REQUEST" },	\
		{ KW_EP_OFFERED, "OFFERED" },		\
		{ KW_EP_AWAIT_KEY, "AWAIT_KEY" },	\
		{ KW_EP_RUNNING, "RUNNING" },		\
		{ KW_EP_DEAD, "DEAD" })

/* Addresses that the connection does not have are unspecified. */
TRACE_EVENT(kw_connection_state,
	TP_PROTO(const struct kw_ep *ep, u32 state),

	TP_ARGS(ep, state),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(&ep->dev->ib))
		__field(const void *, ep)
		__field(u32, old)
		__field(u32, new)
		__field(bool, active)
		__array(u8, local, sizeof(struct sockaddr_in6))
		__array(u8, peer, sizeof(struct sockaddr_in6))
	),

	TP_fast_assign(
		__assign_str(dev);
		__entry->ep = ep;
		__entry->old = ep->state;
		__entry->new = state;
		__entry->active = ep->active;
		kw_trace_addrs(ep, __entry->local, __entry->peer);
	),

	TP_printk("dev=%s ep=%p %s local=%pISpc peer=%pISpc %s -> %s",
		  __get_str(dev), __entry->ep,
		  __entry->active ? "active" : "passive", __entry->local,
		  __entry->peer, kw_show_ep_state(__entry->old),
		  kw_show_ep_state(__entry->new))
);

TRACE_DEFINE_ENUM(KIWARP_QPS_RESET);
TRACE_DEFINE_ENUM(KIWARP_QPS_INIT);
TRACE_DEFINE_ENUM(KIWARP_QPS_RTS);
TRACE_DEFINE_ENUM(KIWARP_QPS_CLOSING);
TRACE_DEFINE_ENUM(KIWARP_QPS_ERROR);

#define kw_show_qp_state(state)				\
	__print_symbolic(state,				\
		{ KIWARP_QPS_RESET, "RESET" },		\
		{ KIWARP_QPS_INIT, "INIT" },		\
		{ KIWARP_QPS_RTS, "RTS" },		\
		{ KIWARP_QPS_CLOSING, "CLOSING" },	\
		{ KIWARP_QPS_ERROR, "ERROR" })

TRACE_EVENT(kw_qp_state,
	TP_PROTO(const struct kw_qp *qp, u8 state),

	TP_ARGS(qp, state),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(qp->ib.device))
		__field(u32, qpn)
		__field(u8, old)
		__field(u8, new)
	),

	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qp->ib.qp_num;
		__entry->old = qp->state;
		__entry->new = state;
	),

	TP_printk("dev=%s qpn=%u %s -> %s", __get_str(dev), __entry->qpn,
		  kw_show_qp_state(__entry->old),
		  kw_show_qp_state(__entry->new))
);

/* Work was posted to the send queue; posted counts all that ever was. */
TRACE_EVENT(kw_doorbell,
	TP_PROTO(const struct kw_qp *qp, u32 posted),

	TP_ARGS(qp, posted),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(qp->ib.device))
		__field(u32, qpn)
		__field(u32, posted)
		__field(bool, user)
	),

	TP_fast_assign(
		__assign_str(dev);
		__entry->qpn = qp->ib.qp_num;
		__entry->posted = posted;
		__entry->user = qp->user;
	),

	TP_printk("dev=%s qpn=%u %s posted=%u", __get_str(dev), __entry->qpn,
		  __entry->user ? "user" : "kernel", __entry->posted)
);

TRACE_DEFINE_ENUM(KIWARP_OP_SEND);
TRACE_DEFINE_ENUM(KIWARP_OP_SEND_INV);
TRACE_DEFINE_ENUM(KIWARP_OP_WRITE);
TRACE_DEFINE_ENUM(KIWARP_OP_READ);
TRACE_DEFINE_ENUM(KIWARP_OP_READ_INV);
TRACE_DEFINE_ENUM(KIWARP_OP_LOCAL_INV);
TRACE_DEFINE_ENUM(KIWARP_OP_REG_MR);
TRACE_DEFINE_ENUM(KIWARP_OP_RECV);
TRACE_DEFINE_ENUM(KIWARP_OP_BIND_MW);
TRACE_DEFINE_ENUM(KIWARP_OP_WRITE_IMM);
TRACE_DEFINE_ENUM(KIWARP_OP_SEND_IMM);
TRACE_DEFINE_ENUM(KIWARP_OP_FETCH_ADD);
TRACE_DEFINE_ENUM(KIWARP_OP_CMP_SWAP);
TRACE_DEFINE_ENUM(KIWARP_OP_MASKED_FETCH_ADD);
TRACE_DEFINE_ENUM(KIWARP_OP_MASKED_CMP_SWAP);

#define kw_show_opcode(opcode)				\
	__print_symbolic(opcode,			\
		{ KIWARP_OP_SEND, "SEND" },		\
		{ KIWARP_OP_SEND_INV, "SEND_INV" },	\
		{ KIWARP_OP_WRITE, "WRITE" },		\
		{ KIWARP_OP_READ, "READ" },		\
		{ KIWARP_OP_READ_INV, "READ_INV" },	\
		{ KIWARP_OP_LOCAL_INV, "LOCAL_INV" },	\
		{ KIWARP_OP_REG_MR, "REG_MR" },		\
		{ KIWARP_OP_RECV, "RECV" },		\
		{ KIWARP_OP_BIND_MW, "BIND_MW" },	\
		{ KIWARP_OP_WRITE_IMM, "WRITE_IMM" },	\
		{ KIWARP_OP_SEND_IMM, "SEND_IMM" },	\
		{ KIWARP_OP_FETCH_ADD, "FETCH_ADD" },	\
		{ KIWARP_OP_CMP_SWAP, "CMP_SWAP" },	\
		{ KIWARP_OP_MASKED_FETCH_ADD, "MASKED_FETCH_ADD" }, \
		{ KIWARP_OP_MASKED_CMP_SWAP, "MASKED_CMP_SWAP" })

/* vendor_err is the Terminate's, as <rdma/kiwarp-abi.h> has it. */
TRACE_EVENT(kw_completion,
	TP_PROTO(const struct kw_cq *cq, const struct kiwarp_cqe *cqe),

	TP_ARGS(cq, cqe),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(cq->ib.device))
		__field(u32, cq)
		__field(u32, qpn)
		__field(u64, wr_id)
		__field(u32, bytes)
		__field(u32, vendor_err)
		__field(u16, status)
		__field(u8, opcode)
	),

	TP_fast_assign(
		__assign_str(dev);
		__entry->cq = cq->id;
		__entry->qpn = cqe->qp_id;
		__entry->wr_id = cqe->wr_id;
		__entry->bytes = cqe->byte_len;
		__entry->vendor_err = cqe->vendor_err;
		__entry->status = cqe->status;
		__entry->opcode = cqe->opcode;
	),

	TP_printk("dev=%s cq=%u qpn=%u wr_id=%#llx %s bytes=%u status=%s vendor_err=%#x",
		  __get_str(dev), __entry->cq, __entry->qpn, __entry->wr_id,
		  kw_show_opcode(__entry->opcode), __entry->bytes,
		  rdma_show_wc_status(__entry->status), __entry->vendor_err)
);

/*
 * By ib_reg_user_mr(), get_dma_mr or a work request, which may bind a memory
 * window: peers may use it now.
 */
TRACE_EVENT(kw_mr_registered,
	TP_PROTO(const struct ib_device *ibdev, const struct kw_mem *mem),

	TP_ARGS(ibdev, mem),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(ibdev))
		__field(u64, base)
		__field(u64, len)
		__field(u32, stag)
		__field(u32, access)
		__field(bool, fast)
		__field(bool, window)
	),

	TP_fast_assign(
		__assign_str(dev);
		__entry->base = mem->base;
		__entry->len = mem->len;
		__entry->stag = mem->stag;
		__entry->access = mem->access;
		__entry->fast = mem->fast;
		__entry->window = mem->window_pd;
	),

	TP_printk("dev=%s stag=%#x base=%#llx len=%llu access=%#x%s",
		  __get_str(dev), __entry->stag, __entry->base, __entry->len,
		  __entry->access, __entry->window ? " window" :
		  __entry->fast ? " fast" : "")
);

/* result is 0, or the -errno for which the region is left as it is. */
TRACE_EVENT(kw_mr_invalidated,
	TP_PROTO(const struct ib_device *ibdev, u32 stag, bool remote,
		 int result),

	TP_ARGS(ibdev, stag, remote, result),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(ibdev))
		__field(u32, stag)
		__field(int, result)
		__field(bool, remote)
	),

	TP_fast_assign(
		__assign_str(dev);
		__entry->stag = stag;
		__entry->result = result;
		__entry->remote = remote;
	),

	TP_printk("dev=%s stag=%#x by=%s result=%d", __get_str(dev),
		  __entry->stag, __entry->remote ? "peer" : "consumer",
		  __entry->result)
);

TRACE_EVENT(kw_mr_deregistered,
	TP_PROTO(const struct ib_device *ibdev, u32 stag),

	TP_ARGS(ibdev, stag),

	TP_STRUCT__entry(
		__string(dev, kw_trace_dev(ibdev))
		__field(u32, stag)
	),

	TP_fast_assign(
		__assign_str(dev);
		__entry->stag = stag;
	),

	TP_printk("dev=%s stag=%#x", __get_str(dev), __entry->stag)
);

#endif /* KW_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
