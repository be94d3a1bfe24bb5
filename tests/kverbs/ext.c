// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Operations of RFC 7306, on devices that have the settings on.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>

#include "ktest.h"

static const struct kt_opts kt_unsafe = {
	.pd_flags = IB_PD_UNSAFE_GLOBAL_RKEY,
	.inl = 64,
};

static bool kt_has_imm(struct kt_end *e, struct kt_op *recv, u32 len, u32 imm)
{
	return kt_completes(e, recv, IB_WC_SUCCESS, "receive") &&
	       kt_equal(recv->wc.opcode, IB_WC_RECV_RDMA_WITH_IMM, "its opcode") &&
	       kt_equal(recv->wc.wc_flags, IB_WC_WITH_IMM, "its flags") &&
	       kt_equal(recv->wc.byte_len, len, "bytes of the Write") &&
	       kt_equal(be32_to_cpu(recv->wc.ex.imm_data), imm, "the immediate");
}

/* A Write with Immediate: the bytes are there when the receive completes. */
static void kt_write_imm(struct kt_end *from, struct kt_end *to, u32 len, u32 imm,
			 int flags)
{
	struct kt_buf *src = kt_buf(from->link, len);
	struct kt_buf *dst = kt_buf(from->link, len);
	struct ib_sge sge = kt_sge(from, src, 0, len);
	struct ib_sge far = kt_sge(to, dst, 0, len);
	struct kt_op *write = kt_op(from->link), *recv = kt_op(from->link);
	struct ib_rdma_wr wr = kt_rdma(IB_WR_RDMA_WRITE_WITH_IMM, write, &sge,
				       far.addr, to->pd->unsafe_global_rkey);

	wr.wr.ex.imm_data = cpu_to_be32(imm);
	wr.wr.send_flags |= flags;
	if (flags & IB_SEND_INLINE)
		sge.addr = (uintptr_t)src->p;
	kt_fill(src->p, len, imm);
	if (kt_equal(kt_recv(to, recv, NULL, 0), 0, "receive posted") &&
	    kt_equal(kt_post(from, &wr), 0, "Write with Immediate posted") &&
	    kt_has_imm(to, recv, len, imm) &&
	    kt_fact(kt_holds(dst, 0, len, imm),
		    "Write with Immediate of %u bytes from %s, each byte", len,
		    from->name) &&
	    kt_completes(from, write, IB_WC_SUCCESS, "Write with Immediate"))
		kt_equal(write->wc.opcode, IB_WC_RDMA_WRITE, "its opcode");
}

/* Without payload, as RFC 7306 has it; and Sends keep their order with it. */
static void kt_send_imm(struct kt_end *from, struct kt_end *to)
{
	struct kt_buf *b = kt_buf(from->link, 8);
	struct ib_sge sge = kt_sge(from, b, 0, 8);
	struct kt_op *send = kt_op(from->link), *recv = kt_op(from->link);
	struct kt_op *plain = kt_op(from->link), *second = kt_op(from->link);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND_WITH_IMM, send, NULL, 0);
	struct ib_rdma_wr next = kt_wr(IB_WR_SEND, plain, NULL, 0);

	wr.wr.ex.imm_data = cpu_to_be32(0x80000001);
	wr.wr.send_flags |= IB_SEND_SOLICITED;
	wr.wr.next = &next.wr;
	kt_equal(kt_recv(to, recv, NULL, 0), 0, "receive posted");
	kt_equal(kt_recv(to, second, NULL, 0), 0, "receive posted");
	if (kt_equal(kt_post(from, &wr), 0, "Send with Immediate posted") &&
	    kt_has_imm(to, recv, 0, 0x80000001) &&
	    kt_completes(from, send, IB_WC_SUCCESS, "Send with Immediate") &&
	    kt_equal(send->wc.opcode, IB_WC_SEND, "its opcode") &&
	    kt_completes(to, second, IB_WC_SUCCESS, "receive of a Send"))
		kt_equal(second->wc.opcode, IB_WC_RECV, "its opcode");

	wr = kt_wr(IB_WR_SEND_WITH_IMM, kt_op(from->link), &sge, 1);
	kt_equal(kt_post(from, &wr), -EOPNOTSUPP,
		 "a Send with Immediate that has payload");
}

static void kt_immediates(void)
{
	static const u32 len[] = { 0, 1, 8, 1439, 65536, 262145 };
	struct kt_link *l = kt_open(&kt_unsafe);
	int i;

	if (!l)
		return;
	for (i = 0; i < ARRAY_SIZE(len); i++) {
		kt_write_imm(&l->a, &l->b, len[i], 0x01020304 + i, 0);
		kt_write_imm(&l->b, &l->a, len[i], ~0U - i, IB_SEND_SOLICITED);
	}
	kt_write_imm(&l->a, &l->b, 64, 5, IB_SEND_INLINE);
	kt_send_imm(&l->a, &l->b);
	kt_send_imm(&l->b, &l->a);
	kt_close(l);
}

/**
 * struct kt_atomic - an atomic operation and what it does
 * @op: operation
 * @compare_add: as struct ib_atomic_wr has it
 * @swap: likewise
 * @compare_add_mask: likewise; looked at only if @op has masks
 * @swap_mask: likewise
 * @before: value that comes back
 * @after: value that is in memory then
 */
struct kt_atomic {
	enum ib_wr_opcode op;
	u64 compare_add;
	u64 swap;
	u64 compare_add_mask;
	u64 swap_mask;
	u64 before;
	u64 after;
};

static enum ib_wc_opcode kt_atomic_wc(enum ib_wr_opcode op)
{
	switch (op) {
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		return IB_WC_MASKED_FETCH_ADD;
	default:
		return IB_WC_MASKED_COMP_SWAP;
	}
}

/* The value before goes to @e; the region is at the other end. */
static void kt_atomic(struct kt_end *e, struct kt_mr *far,
		      const struct kt_atomic *t)
{
	u64 *at = page_address(far->page[0]);
	struct kt_buf *b = kt_buf(e->link, 8);
	struct ib_sge sge = kt_sge(e, b, 0, 8);
	struct kt_op *o = kt_op(e->link);
	struct ib_atomic_wr wr = {
		.wr.wr_cqe = &o->cqe,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.wr.opcode = t->op,
		.wr.send_flags = IB_SEND_SIGNALED,
		.remote_addr = far->mr->iova,
		.rkey = far->mr->rkey,
		.compare_add = t->compare_add,
		.swap = t->swap,
		.compare_add_mask = t->compare_add_mask,
		.swap_mask = t->swap_mask,
	};
	u64 got;

	if (!kt_equal(ib_post_send(e->qp, &wr.wr, NULL), 0, "posted") ||
	    !kt_completes(e, o, IB_WC_SUCCESS, "atomic operation"))
		return;
	kt_equal(o->wc.opcode, kt_atomic_wc(t->op), "opcode of the completion");
	kt_equal(o->wc.byte_len, 8, "bytes of the completion");
	memcpy(&got, b->p, sizeof(got));
	kt_equal(got, t->before, "value that came back");
	kt_equal(READ_ONCE(*at), t->after, "value in memory");
}

/* Each begins with the value that the one before has left. */
static const struct kt_atomic kt_atomic_list[] = {
	{ IB_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 2, .before = 40, .after = 42 },
	/* Masks of operations that have none are not looked at. */
	{ IB_WR_ATOMIC_FETCH_AND_ADD, .compare_add = -43ULL,
	  .compare_add_mask = ~0ULL, .swap_mask = ~0ULL,
	  .before = 42, .after = ~0ULL },
	{ IB_WR_ATOMIC_CMP_AND_SWP, .compare_add = 42, .swap = 1,
	  .before = ~0ULL, .after = ~0ULL },
	{ IB_WR_ATOMIC_CMP_AND_SWP, .compare_add = ~0ULL, .swap = 1,
	  .before = ~0ULL, .after = 1 },
	/* A mask of 0 is one field of 64 bits. */
	{ IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, .compare_add = 0x80ff00ff00ff00fe,
	  .before = 1, .after = 0x80ff00ff00ff00ff },
	/* Four fields: none has a carry from another. */
	{ IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, .compare_add = 0x8001ff01ff01ff02,
	  .compare_add_mask = 0x8000800080008000, .swap_mask = 0x0080008000800080,
	  .before = 0x80ff00ff00ff00ff, .after = 0x0100000000000001 },
	/* Two fields of 32 bits, one of which overflows. */
	{ IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, .compare_add = 0x00000001ffffffff,
	  .compare_add_mask = 0x8000000080000000,
	  .before = 0x0100000000000001, .after = 0x0100000100000000 },
	/* Equal in the bits that are compared, others are stored. */
	{ IB_WR_MASKED_ATOMIC_CMP_AND_SWP, .compare_add = 0x01ffffffffffffff,
	  .compare_add_mask = 0xff00000000000000, .swap = 0xaaaaaaaabbbbbbbb,
	  .swap_mask = 0x000000000000ffff,
	  .before = 0x0100000100000000, .after = 0x010000010000bbbb },
	/* Different in them. */
	{ IB_WR_MASKED_ATOMIC_CMP_AND_SWP, .compare_add = 0x00ffffffffffffff,
	  .compare_add_mask = 0xff00000000000000, .swap = 0xaaaaaaaabbbbbbbb,
	  .swap_mask = ~0ULL,
	  .before = 0x010000010000bbbb, .after = 0x010000010000bbbb },
	/* Nothing is compared. */
	{ IB_WR_MASKED_ATOMIC_CMP_AND_SWP, .compare_add = 5, .swap = 7,
	  .swap_mask = 0xffffffff00000000,
	  .before = 0x010000010000bbbb, .after = 0x000000000000bbbb },
};

static void kt_atomics(void)
{
	struct kt_link *l = kt_open(&kt_unsafe);
	struct ib_atomic_wr wr = { .wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD };
	struct ib_device_attr attr = {};
	struct ib_sge sge[2];
	struct kt_mr *m;
	int i;

	if (!l)
		return;
	l->a.qp->device->ops.query_device(l->a.qp->device, &attr, NULL);
	kt_equal(attr.atomic_cap, IB_ATOMIC_GLOB, "atomic_cap");
	kt_equal(attr.masked_atomic_cap, IB_ATOMIC_GLOB, "masked_atomic_cap");
	m = kt_mr(&l->b, NULL, 1);
	if (m && kt_reg(&l->b, m, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC)) {
		WRITE_ONCE(*(u64 *)page_address(m->page[0]), 40);
		for (i = 0; i < ARRAY_SIZE(kt_atomic_list); i++)
			kt_atomic(&l->a, m, &kt_atomic_list[i]);
	}
	sge[0] = kt_sge(&l->a, kt_buf(l, 8), 0, 8);
	sge[1] = sge[0];
	wr.wr.wr_cqe = &kt_op(l)->cqe;
	wr.wr.sg_list = sge;
	for (i = 0; i < ARRAY_SIZE(kt_atomic_list); i++) {
		wr.wr.opcode = kt_atomic_list[i].op;
		wr.wr.num_sge = 2;
		sge[0].length = 8;
		kt_equal(ib_post_send(l->a.qp, &wr.wr, NULL), -EINVAL, "two SGEs");
		wr.wr.num_sge = 1;
		sge[0].length = 4;
		kt_equal(ib_post_send(l->a.qp, &wr.wr, NULL), -EINVAL, "four bytes");
	}
	kt_close(l);
}

static const struct kt_opts kt_tight = {
	.sge = 1,
	.send_wr = 2,
};

/*
 * Two in one list, each of which adds 1 to both of two fields: the lower one
 * overflows without a carry. The first one's masks lie right before the second.
 */
static void kt_atomic_pair(struct kt_end *e, struct kt_mr *far)
{
	struct ib_atomic_wr wr[2];
	struct kt_op *op[2];
	struct ib_sge sge[2];
	int i;

	for (i = 0; i < 2; i++) {
		op[i] = kt_op(e->link);
		sge[i] = kt_sge(e, kt_buf(e->link, 8), 0, 8);
		wr[i] = (struct ib_atomic_wr){
			.wr.next = i ? NULL : &wr[1].wr,
			.wr.wr_cqe = &op[i]->cqe,
			.wr.sg_list = &sge[i],
			.wr.num_sge = 1,
			.wr.opcode = IB_WR_MASKED_ATOMIC_FETCH_AND_ADD,
			.wr.send_flags = IB_SEND_SIGNALED,
			.remote_addr = far->mr->iova,
			.rkey = far->mr->rkey,
			.compare_add = 0x0000000100000001,
			.compare_add_mask = 0x8000000080000000,
		};
	}
	if (!kt_equal(ib_post_send(e->qp, &wr[0].wr, NULL), 0, "posted"))
		return;
	for (i = 0; i < 2; i++)
		kt_completes(e, op[i], IB_WC_SUCCESS, "atomic operation");
}

/* In a ring whose entries are as small as can be, over its end. */
static void kt_atomics_tight(void)
{
	struct kt_link *l = kt_open(&kt_tight);
	struct kt_mr *m;
	u64 *at;
	int i;

	if (!l)
		return;
	m = kt_mr(&l->b, NULL, 1);
	if (m && kt_reg(&l->b, m, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC)) {
		at = page_address(m->page[0]);
		for (i = 0; i < 3; i++) {
			WRITE_ONCE(*at, 0x00000000ffffffff);
			kt_atomic_pair(&l->a, m);
			kt_equal(READ_ONCE(*at), 0x0000000200000001,
				 "both fields");
		}
	}
	kt_close(l);
}

const struct kt_case kt_ext_cases[] = {
	{ "ext.imm", kt_immediates, true },
	{ "ext.atomic", kt_atomics, true },
	{ "ext.atomic-tight", kt_atomics_tight, true },
	{}
};
