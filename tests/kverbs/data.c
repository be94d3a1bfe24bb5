// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Moving bytes: Sends, Writes and Reads of all shapes, each byte compared.
 */
#include <linux/kernel.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "ktest.h"

#define KT_SGES	16

static const u32 kt_lengths[] = {
	0, 1, 3, 4, 5, 255, 1000, 1439, 1460, 4096, 4097, 65535, 65536, 262145,
};

static const struct kt_opts kt_unsafe = {
	.pd_flags = IB_PD_UNSAFE_GLOBAL_RKEY,
};

/* A Send of @sge into @rsge; states its result. */
static bool kt_send(struct kt_end *from, struct ib_sge *sge, int n,
		    struct kt_end *to, struct ib_sge *rsge, int rn, u32 len)
{
	struct kt_op *send = kt_op(from->link);
	struct kt_op *recv = kt_op(from->link);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, send, sge, n);

	return kt_equal(kt_recv(to, recv, rsge, rn), 0, "receive posted") &&
	       kt_equal(kt_post(from, &wr), 0, "Send posted") &&
	       kt_completes(to, recv, IB_WC_SUCCESS, "receive") &&
	       kt_completes(from, send, IB_WC_SUCCESS, "Send") &&
	       kt_equal(recv->wc.byte_len, len, "bytes received") &&
	       kt_equal(recv->wc.opcode, IB_WC_RECV, "opcode of the receive") &&
	       kt_equal(send->wc.opcode, IB_WC_SEND, "opcode of the Send") &&
	       kt_fact(recv->wc.qp == to->qp && send->wc.qp == from->qp,
		       "queue pairs of the completions");
}

static void kt_send_len(struct kt_end *from, struct kt_end *to, u32 len)
{
	struct kt_buf *src = kt_buf(from->link, len);
	struct kt_buf *dst = kt_buf(from->link, len + 10);
	struct ib_sge sge = kt_sge(from, src, 0, len);
	struct ib_sge rsge = kt_sge(to, dst, 0, len + 10);

	kt_fill(src->p, len, len);
	if (kt_send(from, &sge, 1, to, &rsge, 1, len))
		kt_fact(kt_holds(dst, 0, len, len),
			"Send of %u bytes from %s, each byte", len,
			from->name);
}

static void kt_sends(void)
{
	struct kt_link *l = kt_open(&(struct kt_opts){});
	int i;

	if (!l)
		return;
	for (i = 0; i < ARRAY_SIZE(kt_lengths); i++) {
		kt_send_len(&l->a, &l->b, kt_lengths[i]);
		kt_send_len(&l->b, &l->a, kt_lengths[i]);
	}
	kt_close(l);
}

/* With the STag of all memory: the region of get_dma_mr. */
static void kt_rdma_len(struct kt_end *from, struct kt_end *to, u32 len)
{
	struct kt_buf *src = kt_buf(from->link, len);
	struct kt_buf *far = kt_buf(from->link, len + 2);
	struct kt_buf *dst = kt_buf(from->link, len + 2);
	struct ib_sge sge = kt_sge(from, src, 0, len);
	struct ib_sge rsge = kt_sge(to, far, 1, len);
	struct ib_sge dsge = kt_sge(from, dst, 1, len);
	u32 rkey = to->pd->unsafe_global_rkey;
	struct kt_op *write = kt_op(from->link);
	struct kt_op *read = kt_op(from->link);
	struct ib_rdma_wr wr = kt_rdma(IB_WR_RDMA_WRITE, write, &sge,
				       rsge.addr, rkey);
	struct ib_rdma_wr rd = kt_rdma(IB_WR_RDMA_READ, read, &dsge, rsge.addr,
				       rkey);

	kt_fill(src->p, len, len + 7);
	wr.wr.next = &rd.wr;
	if (kt_equal(kt_post(from, &wr), 0, "Write and Read posted") &&
	    kt_completes(from, write, IB_WC_SUCCESS, "Write") &&
	    kt_completes(from, read, IB_WC_SUCCESS, "Read") &&
	    kt_equal(write->wc.opcode, IB_WC_RDMA_WRITE, "its opcode") &&
	    kt_equal(read->wc.opcode, IB_WC_RDMA_READ, "its opcode") &&
	    kt_equal(read->wc.byte_len, len, "bytes read"))
		kt_fact(kt_holds(far, 1, len, len + 7) &&
			kt_holds(dst, 1, len, len + 7),
			"Write and Read of %u bytes from %s, each byte", len,
			from->name);
}

static void kt_rdmas(void)
{
	struct kt_link *l = kt_open(&kt_unsafe);
	int i;

	if (!l)
		return;
	for (i = 0; i < ARRAY_SIZE(kt_lengths); i++) {
		kt_rdma_len(&l->a, &l->b, kt_lengths[i]);
		kt_rdma_len(&l->b, &l->a, kt_lengths[i]);
	}
	kt_close(l);
}

/* @n pieces of a buffer, of different lengths, one of them empty. */
static u32 kt_pieces(struct kt_end *e, struct kt_buf *b, struct ib_sge *sge,
		     int n)
{
	u32 off = 0, len;
	int i;

	for (i = 0; i < n; i++) {
		len = i == 5 ? 0 : 1 + i * 211;
		sge[i] = kt_sge(e, b, off, len);
		off += len;
	}
	return off;
}

static void kt_lists_of(struct kt_link *l, int n)
{
	struct kt_buf *src = kt_buf(l, SZ_32K);
	struct kt_buf *dst = kt_buf(l, SZ_32K);
	struct kt_buf *far = kt_buf(l, SZ_32K);
	u32 rkey = l->b.pd->unsafe_global_rkey;
	struct ib_sge sge[KT_SGES], rsge[KT_SGES];
	struct ib_sge fsge = kt_sge(&l->b, far, 0, SZ_32K);
	struct kt_op *o = kt_op(l);
	struct ib_rdma_wr wr;
	u32 len;

	len = kt_pieces(&l->a, src, sge, n);
	kt_fill(src->p, len, n);
	kt_pieces(&l->b, dst, rsge, KT_SGES);
	if (kt_send(&l->a, sge, n, &l->b, rsge, KT_SGES, len))
		kt_fact(kt_holds(dst, 0, len, n),
			"Send of %d SGEs into %d, each byte", n, KT_SGES);

	wr = kt_wr(IB_WR_RDMA_WRITE, o, sge, n);
	wr.remote_addr = fsge.addr;
	wr.rkey = rkey;
	if (kt_equal(kt_post(&l->a, &wr), 0, "Write posted") &&
	    kt_completes(&l->a, o, IB_WC_SUCCESS, "Write") &&
	    kt_send(&l->a, NULL, 0, &l->b, NULL, 0, 0))
		kt_fact(kt_holds(far, 0, len, n),
			"Write of %d SGEs, each byte", n);
}

static void kt_lists(void)
{
	struct kt_opts o = kt_unsafe;
	struct kt_link *l;
	int n;

	o.sge = KT_SGES;
	l = kt_open(&o);
	if (!l)
		return;
	for (n = 1; n <= KT_SGES; n++)
		kt_lists_of(l, n);
	kt_close(l);
}

/* Inline bytes are taken when the work is posted, and need no lkey. */
static void kt_inline_len(struct kt_link *l, u32 len)
{
	struct kt_buf *src = kt_buf(l, len);
	struct kt_buf *dst = kt_buf(l, len);
	struct ib_sge rsge = kt_sge(&l->b, dst, 0, len);
	struct ib_sge sge[2] = {
		{ .addr = (uintptr_t)src->p, .length = len / 3 },
		{ .addr = (uintptr_t)src->p + len / 3,
		  .length = len - len / 3 },
	};
	struct kt_op *send = kt_op(l), *recv = kt_op(l);
	struct ib_rdma_wr wr = kt_wr(IB_WR_SEND, send, sge, 2);

	wr.wr.send_flags |= IB_SEND_INLINE;
	kt_fill(src->p, len, len);
	kt_equal(kt_recv(&l->b, recv, &rsge, 1), 0, "receive posted");
	kt_equal(kt_post(&l->a, &wr), 0, "inline Send posted");
	memset(src->p, 0, len);
	if (kt_completes(&l->b, recv, IB_WC_SUCCESS, "receive") &&
	    kt_completes(&l->a, send, IB_WC_SUCCESS, "inline Send"))
		kt_fact(kt_holds(dst, 0, len, len) && recv->wc.byte_len == len,
			"inline Send of %u bytes, each byte", len);
}

static void kt_inlines(void)
{
	static const u32 len[] = { 0, 1, 64, 255, 256 };
	struct kt_link *l = kt_open(&(struct kt_opts){ .inl = 256 });
	struct ib_rdma_wr wr;
	struct ib_sge sge;
	int i;

	if (!l)
		return;
	for (i = 0; i < ARRAY_SIZE(len); i++)
		kt_inline_len(l, len[i]);
	sge = kt_sge(&l->a, kt_buf(l, 257), 0, 257);
	wr = kt_wr(IB_WR_SEND, kt_op(l), &sge, 1);
	wr.wr.send_flags |= IB_SEND_INLINE;
	kt_equal(kt_post(&l->a, &wr), -EINVAL, "257 bytes inline are refused");
	sge.length = 8;
	wr.wr.opcode = IB_WR_RDMA_READ;
	kt_equal(kt_post(&l->a, &wr), -EINVAL, "an inline Read is refused");
	wr.wr.opcode = IB_WR_RDMA_READ_WITH_INV;
	kt_equal(kt_post(&l->a, &wr), -EINVAL,
		 "an inline Read with Invalidate is refused");
	kt_inline_len(l, 100);
	kt_close(l);
}

/* Addresses for a device that does no DMA are the kernel's own. */
static void kt_mapping(void)
{
	struct kt_link *l = kt_open(&(struct kt_opts){});
	struct scatterlist sg[2];
	struct ib_device *dev;
	struct kt_buf *b;
	u64 addr;

	if (!l)
		return;
	dev = l->a.id->device;
	b = kt_buf(l, 1000);
	kt_fact(ib_uses_virt_dma(dev), "the device does no DMA");
	addr = ib_dma_map_single(dev, b->p, b->len, DMA_TO_DEVICE);
	kt_equal(addr, (uintptr_t)b->p, "address of a mapped buffer");
	kt_equal(ib_dma_mapping_error(dev, addr), 0, "no mapping error");
	ib_dma_unmap_single(dev, addr, b->len, DMA_TO_DEVICE);
	addr = ib_dma_map_page(dev, virt_to_page(b->p), offset_in_page(b->p),
			       100, DMA_FROM_DEVICE);
	kt_equal(addr, (uintptr_t)b->p, "address of a mapped page");
	ib_dma_unmap_page(dev, addr, 100, DMA_FROM_DEVICE);
	sg_init_table(sg, 2);
	sg_set_buf(&sg[0], b->p, 300);
	sg_set_buf(&sg[1], b->p + 300, 700);
	kt_equal(ib_dma_map_sg(dev, sg, 2, DMA_TO_DEVICE), 2, "entries mapped");
	kt_equal(sg_dma_address(&sg[1]), (uintptr_t)b->p + 300,
		 "address of a mapped entry");
	kt_equal(sg_dma_len(&sg[1]), 700, "length of a mapped entry");
	ib_dma_unmap_sg(dev, sg, 2, DMA_TO_DEVICE);
	kt_fact(l->a.pd->local_dma_lkey, "there is a local_dma_lkey");
	kt_close(l);
}

const struct kt_case kt_data_cases[] = {
	{ "data.mapping", kt_mapping },
	{ "data.send", kt_sends },
	{ "data.rdma", kt_rdmas },
	{ "data.sge", kt_lists },
	{ "data.inline", kt_inlines },
	{}
};
