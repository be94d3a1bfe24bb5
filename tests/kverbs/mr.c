// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Fast registration: what can be mapped, the rights to it, and their times.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>

#include "ktest.h"

#define KT_RW	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | \
		 IB_ACCESS_REMOTE_WRITE)

static const struct kt_opts kt_usual;

/* A Read or Write of @len bytes at @off of a region of b's; not yet checked. */
static struct kt_op *kt_touch(struct kt_link *l, enum ib_wr_opcode op,
			      struct kt_buf *buf, u64 addr, u32 rkey)
{
	struct ib_sge sge = kt_sge(&l->a, buf, 0, buf->len);
	struct kt_op *o = kt_op(l);
	struct ib_rdma_wr wr = kt_rdma(op, o, &sge, addr, rkey);

	kt_equal(kt_post(&l->a, &wr), 0, "posted");
	return o;
}

static bool kt_read_right(struct kt_link *l, u64 addr, u32 rkey, u32 len,
			  u32 seed, const char *what)
{
	struct kt_buf *buf = kt_buf(l, len);
	struct kt_op *o = kt_touch(l, IB_WR_RDMA_READ, buf, addr, rkey);

	return kt_completes(&l->a, o, IB_WC_SUCCESS, "Read") &&
	       kt_fact(kt_holds(buf, 0, len, seed), "%s", what);
}

static bool kt_write_right(struct kt_link *l, u64 addr, u32 rkey, u32 len,
			   u32 seed)
{
	struct kt_buf *buf = kt_buf(l, len);

	kt_fill(buf->p, len, seed);
	return kt_completes(&l->a, kt_touch(l, IB_WR_RDMA_WRITE, buf, addr,
					    rkey), IB_WC_SUCCESS, "Write");
}

/* A Read that b refuses: the Read fails, and the connection ends. */
static void kt_read_refused(struct kt_link *l, u64 addr, u32 rkey, u32 len,
			    u16 code, const char *what)
{
	struct kt_buf *buf = kt_buf(l, len);
	struct kt_op *o;

	kt_arm(l);
	o = kt_touch(l, IB_WR_RDMA_READ, buf, addr, rkey);
	kt_completes(&l->a, o, IB_WC_REM_ACCESS_ERR, what);
	kt_terminated(l, &l->b, code);
	kt_fact(kt_holds(buf, 0, 0, 0), "nothing was placed");
	kt_fact(kt_wait_event(&l->b, IB_EVENT_QP_ACCESS_ERR),
		"b has the event QP_ACCESS_ERR");
}

/* A Write that b refuses is complete before: only the end shows it. */
static void kt_write_refused(struct kt_link *l, u64 addr, u32 rkey, u32 len,
			     u16 code)
{
	struct kt_buf *buf = kt_buf(l, len);

	kt_arm(l);
	kt_touch(l, IB_WR_RDMA_WRITE, buf, addr, rkey);
	kt_terminated(l, &l->b, code);
	kt_fact(kt_wait_event(&l->b, IB_EVENT_QP_ACCESS_ERR),
		"b has the event QP_ACCESS_ERR");
}

/* A link, a region of b's, and the function that tests them. */
static void kt_with(u32 pages, void (*facts)(struct kt_link *, struct kt_mr *))
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_mr *m;

	if (!l)
		return;
	m = kt_mr(&l->b, NULL, pages);
	if (m)
		facts(l, m);
	kt_close(l);
}

static void kt_sized(u32 pages)
{
	struct kt_link *l = kt_open(&kt_usual);
	u32 len = pages * PAGE_SIZE;
	struct kt_mr *m;

	if (!l)
		return;
	m = kt_mr(&l->b, NULL, pages);
	if (!m || !kt_reg(&l->b, m, KT_RW))
		goto out;
	kt_equal(m->mr->length, len, "length of the region");
	kt_mr_fill(m, 11);
	if (!kt_read_right(l, m->mr->iova, m->mr->rkey, len, 11,
			   "each byte read") ||
	    !kt_write_right(l, m->mr->iova, m->mr->rkey, len, 99) ||
	    !kt_read_right(l, m->mr->iova + len - 5, m->mr->rkey, 5,
			   99 + len - 5, "the last bytes read again"))
		goto out;
	kt_fact(kt_mr_holds(m, 0, len, 99), "%u pages, each byte written",
		pages);
	kt_inv(&l->b, m->mr->rkey);
out:
	kt_close(l);
}

static void kt_sizes(void)
{
	kt_sized(1);
	kt_sized(2);
	kt_sized(256);
	kt_sized(1024);
}

static void kt_limits(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct ib_device *dev;
	struct ib_mr *mr;
	struct kt_mr *m;
	u32 max;

	if (!l)
		return;
	dev = l->b.id->device;
	max = dev->attrs.max_fast_reg_page_list_len;
	kt_fact(max >= 256, "a region can have %u pages", max);
	mr = ib_alloc_mr(l->b.pd, IB_MR_TYPE_MEM_REG, max + 1);
	kt_equal(PTR_ERR_OR_ZERO(mr), -EINVAL, "one more is refused");
	mr = ib_alloc_mr(l->b.pd, IB_MR_TYPE_MEM_REG, 0);
	kt_equal(PTR_ERR_OR_ZERO(mr), -EINVAL, "none is refused");

	/* More pages than the region has: as many as fit are taken. */
	m = kt_mr(&l->b, NULL, 8);
	mr = ib_alloc_mr(l->b.pd, IB_MR_TYPE_MEM_REG, 5);
	if (!m || IS_ERR(mr))
		goto out;
	kt_equal(ib_map_mr_sg(mr, m->sg, 8, NULL, PAGE_SIZE), 5,
		 "of 8 pages, those that a region for 5 takes");
	kt_equal(mr->length, 5 * PAGE_SIZE, "its length");
	kt_equal(ib_map_mr_sg(mr, m->sg, 5, NULL, PAGE_SIZE), 5, "5 of 5");
	ib_dereg_mr(mr);
out:
	kt_close(l);
}

static void kt_offset_facts(struct kt_link *l, struct kt_mr *m)
{
	/* The end of a page, and the start of the next. */
	const u32 written = 2 * PAGE_SIZE - 3958;
	u64 va = (uintptr_t)page_address(m->page[0]);
	unsigned int offset = 1234;
	struct kt_op *o = kt_op(l);

	kt_equal(ib_map_mr_sg(m->mr, m->sg, 4, &offset, PAGE_SIZE), 4,
		 "pages mapped, from an offset");
	kt_equal(m->mr->iova, va + 1234, "address of the region");
	kt_equal(m->mr->length, 4 * PAGE_SIZE - 1234, "length of the region");
	kt_equal(kt_post_reg(&l->b, m, o, KT_RW), 0, "REG_MR posted");
	if (!kt_completes(&l->b, o, IB_WC_SUCCESS, "REG_MR"))
		return;
	kt_mr_fill(m, 3);
	kt_read_right(l, m->mr->iova, m->mr->rkey, 4 * PAGE_SIZE - 1234,
		      3 + 1234, "all of it read, each byte");
	kt_write_right(l, va + written, m->mr->rkey, 4000, 77);
	kt_read_right(l, va + written, m->mr->rkey, 4000, 77,
		      "what was written across pages, each byte");
	kt_fact(kt_mr_holds(m, 0, written, 3) &&
		kt_mr_holds(m, written + 4000, 4 * PAGE_SIZE, 3),
		"nothing around it changed");
	kt_read_refused(l, m->mr->iova - 1, m->mr->rkey, 10,
			KW_TERM_RDMAP_BOUNDS, "Read from before the region");
}

static void kt_offsets(void)
{
	kt_with(4, kt_offset_facts);
}

/* Entries that do not join at page borders end the region before them. */
static void kt_gap_facts(struct kt_link *l, struct kt_mr *m)
{
	struct scatterlist sg[3];

	sg_init_table(sg, 3);
	sg_set_page(&sg[0], m->page[0], 1000, PAGE_SIZE - 1000);
	sg_set_page(&sg[1], m->page[1], PAGE_SIZE, 0);
	sg_set_page(&sg[2], m->page[2], 500, 0);
	ib_dma_map_sg(m->dev, sg, 3, DMA_BIDIRECTIONAL);
	kt_equal(ib_map_mr_sg(m->mr, sg, 3, NULL, PAGE_SIZE), 3,
		 "the end of a page, a page, the start of a page");
	kt_equal(m->mr->length, PAGE_SIZE + 1500, "length of the region");

	sg_set_page(&sg[1], m->page[1], PAGE_SIZE - 8, 0);
	ib_dma_map_sg(m->dev, sg, 3, DMA_BIDIRECTIONAL);
	kt_equal(ib_map_mr_sg(m->mr, sg, 3, NULL, PAGE_SIZE), 2,
		 "an entry that ends within a page is the last");
	sg_set_page(&sg[1], m->page[1], PAGE_SIZE - 8, 8);
	ib_dma_map_sg(m->dev, sg, 3, DMA_BIDIRECTIONAL);
	kt_equal(ib_map_mr_sg(m->mr, sg, 3, NULL, PAGE_SIZE), 1,
		 "an entry that begins within a page is not taken");
}

static void kt_gaps(void)
{
	kt_with(3, kt_gap_facts);
}

static void kt_big_page(struct kt_link *l, struct kt_mr *m, struct page *big)
{
	struct kt_op *o = kt_op(l);
	struct scatterlist sg;
	u8 *va = page_address(big);

	sg_init_table(&sg, 1);
	sg_set_page(&sg, big, SZ_128K - 300, 300);
	ib_dma_map_sg(m->dev, &sg, 1, DMA_BIDIRECTIONAL);
	kt_equal(ib_map_mr_sg(m->mr, &sg, 1, NULL, SZ_64K), 1,
		 "two pages of 64 KiB mapped");
	kt_equal(kt_post_reg(&l->b, m, o, KT_RW), 0, "REG_MR posted");
	if (!kt_completes(&l->b, o, IB_WC_SUCCESS, "REG_MR"))
		return;
	kt_fill(va, SZ_128K, 21);
	kt_read_right(l, m->mr->iova, m->mr->rkey, SZ_128K - 300, 321,
		      "pages of 64 KiB read, each byte");
	kt_write_right(l, m->mr->iova + SZ_64K, m->mr->rkey, 2000, 4);
	kt_read_right(l, m->mr->iova + SZ_64K, m->mr->rkey, 2000, 4,
		      "written and read again, each byte");
	kt_fact(kt_is_filled(va, SZ_64K + 300, 21) &&
		kt_is_filled(va + SZ_64K + 2300, SZ_64K - 2300,
			     21 + SZ_64K + 2300),
		"nothing around it changed");
}

/*
 * Pieces of memory that join at borders of 4 KiB, as nvme-rdma registers them
 * whatever the size of the kernel's pages.
 */
static void kt_small_pages(struct kt_link *l, struct page *big)
{
	static const struct {
		u32 at;
		u32 len;
	} piece[] = {
		{ 2 * SZ_4K + 100, SZ_4K - 100 },
		{ 9 * SZ_4K, 3 * SZ_4K },
		{ SZ_4K, 500 },
	};
	struct scatterlist sg[ARRAY_SIZE(piece)];
	struct kt_mr *m = kt_mr(&l->b, NULL, 5);
	struct kt_op *o = kt_op(l);
	u8 *va = page_address(big);
	u32 len = 0;
	int i;

	if (!m)
		return;
	kt_fill(va, SZ_128K, 21);
	sg_init_table(sg, ARRAY_SIZE(sg));
	for (i = 0; i < ARRAY_SIZE(sg); i++) {
		sg_set_page(&sg[i], big, piece[i].len, piece[i].at);
		kt_fill(va + piece[i].at, piece[i].len, 33 + len);
		len += piece[i].len;
	}
	ib_dma_map_sg(m->dev, sg, ARRAY_SIZE(sg), DMA_BIDIRECTIONAL);
	kt_equal(ib_map_mr_sg(m->mr, sg, ARRAY_SIZE(sg), NULL, SZ_4K),
		 ARRAY_SIZE(sg), "pieces of pages of 4 KiB mapped");
	kt_equal(m->mr->length, len, "length of the region");
	kt_equal(kt_post_reg(&l->b, m, o, KT_RW), 0, "REG_MR posted");
	if (!kt_completes(&l->b, o, IB_WC_SUCCESS, "REG_MR"))
		return;
	kt_read_right(l, m->mr->iova, m->mr->rkey, len, 33,
		      "pages of 4 KiB read, each byte");
	kt_write_right(l, m->mr->iova + 3000, m->mr->rkey, 9000, 4);
	kt_read_right(l, m->mr->iova + 3000, m->mr->rkey, 9000, 4,
		      "written and read again, each byte");
	kt_fact(kt_is_filled(va, SZ_4K, 21) &&
		kt_is_filled(va + SZ_4K + 500, SZ_4K - 400,
			     21 + SZ_4K + 500) &&
		kt_is_filled(va + 3 * SZ_4K, 6 * SZ_4K, 21 + 3 * SZ_4K) &&
		kt_is_filled(va + 12 * SZ_4K, SZ_128K - 12 * SZ_4K,
			     21 + 12 * SZ_4K),
		"nothing around it changed");
}

static void kt_page_sizes(void)
{
	static const unsigned int bad[] = { 0, 1, 512, 2048, 4097, 12288 };
	struct kt_link *l = kt_open(&kt_usual);
	struct page *big = alloc_pages(GFP_KERNEL, get_order(SZ_128K));
	struct kt_mr *m;
	int i;

	if (!l || !kt_fact(big, "128 KiB in a row"))
		goto out;
	kt_fact(l->b.id->device->attrs.page_size_cap & SZ_4K,
		"the device says that it has pages of 4 KiB");
	m = kt_mr(&l->b, NULL, 2);
	if (!m)
		goto out;
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		kt_equal(ib_map_mr_sg(m->mr, m->sg, 2, NULL, bad[i]), -EINVAL,
			 "a page size of %u is refused", bad[i]);
	kt_big_page(l, m, big);
	kt_small_pages(l, big);
out:
	kt_close(l);
	if (big)
		__free_pages(big, get_order(SZ_128K));
}

/* After a change of key the old STag is not valid any more. */
static void kt_key_facts(struct kt_link *l, struct kt_mr *m)
{
	u32 old;
	int i;

	if (!kt_reg(&l->b, m, KT_RW))
		return;
	for (i = 0; i < 4; i++) {
		old = m->mr->rkey;
		if (!kt_inv(&l->b, old))
			return;
		ib_update_fast_reg_key(m->mr, ib_inc_rkey(old));
		kt_fact(m->mr->rkey != old && m->mr->rkey >> 8 == old >> 8,
			"another key, the same index");
		kt_mr_fill(m, i);
		if (!kt_reg(&l->b, m, KT_RW))
			return;
		kt_read_right(l, m->mr->iova, m->mr->rkey, 5000, i,
			      "read with the new key, each byte");
	}
	kt_read_refused(l, m->mr->iova, old, 10, KW_TERM_RDMAP_INV_STAG,
			"Read with the key before");
}

static void kt_keys(void)
{
	kt_with(2, kt_key_facts);
}

/* The same pages with the same key again: withdrawn and registered. */
static void kt_again_facts(struct kt_link *l, struct kt_mr *m)
{
	int i;

	for (i = 0; i < 5; i++) {
		kt_mr_fill(m, i + 40);
		if (!kt_reg(&l->b, m, KT_RW))
			return;
		kt_read_right(l, m->mr->iova + i, m->mr->rkey, 9000, i + i + 40,
			      "read, each byte");
		if (!kt_inv(&l->b, m->mr->rkey))
			return;
	}
	kt_read_refused(l, m->mr->iova, m->mr->rkey, 10,
			KW_TERM_RDMAP_INV_STAG, "Read after LOCAL_INV");
}

static void kt_again(void)
{
	kt_with(3, kt_again_facts);
}

/* A new map has no effect on the registration until it is registered. */
static void kt_map_early_facts(struct kt_link *l, struct kt_mr *m)
{
	if (!kt_reg(&l->b, m, KT_RW))
		return;
	kt_mr_fill(m, 8);
	kt_equal(ib_map_mr_sg(m->mr, m->sg + 2, 1, NULL, PAGE_SIZE), 1,
		 "another page mapped");
	kt_read_right(l, (uintptr_t)page_address(m->page[0]), m->mr->rkey,
		      4 * PAGE_SIZE, 8, "the four pages read, each byte");
}

static void kt_map_early(void)
{
	kt_with(4, kt_map_early_facts);
}

enum kt_right_op {
	KT_READ_IT,
	KT_WRITE_IT,
};

/* One region with @access, one operation. */
static void kt_right(int access, enum kt_right_op op, bool allowed,
		     const char *what)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_mr *m;

	if (!l)
		return;
	m = kt_mr(&l->b, NULL, 2);
	if (!m || !kt_reg(&l->b, m, access))
		goto out;
	kt_mr_fill(m, 5);
	if (op == KT_READ_IT && allowed) {
		kt_read_right(l, m->mr->iova, m->mr->rkey, 6000, 5, what);
	} else if (op == KT_READ_IT) {
		kt_read_refused(l, m->mr->iova, m->mr->rkey, 6000,
				KW_TERM_RDMAP_ACCESS, what);
	} else if (allowed) {
		kt_write_right(l, m->mr->iova, m->mr->rkey, 6000, 6);
		kt_arm(l);
		/* Behind a Send, the Write is done. */
		kt_touch(l, IB_WR_SEND, kt_buf(l, 0), 0, 0);
		kt_completes(&l->b, l->arm_b, IB_WC_SUCCESS, "receive");
		kt_fact(kt_mr_holds(m, 0, 6000, 6), "%s", what);
	} else {
		kt_write_refused(l, m->mr->iova, m->mr->rkey, 6000,
				 KW_TERM_RDMAP_ACCESS);
		kt_fact(kt_mr_holds(m, 0, 2 * PAGE_SIZE, 5), "%s", what);
	}
out:
	kt_close(l);
}

static void kt_rights(void)
{
	kt_right(IB_ACCESS_REMOTE_READ, KT_READ_IT, true,
		 "a region to read is read");
	kt_right(IB_ACCESS_REMOTE_READ, KT_WRITE_IT, false,
		 "a region to read is not written");
	kt_right(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE, KT_WRITE_IT,
		 true, "a region to write is written");
	kt_right(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE, KT_READ_IT,
		 false, "a region to write is not read");
	kt_right(IB_ACCESS_LOCAL_WRITE, KT_READ_IT, false,
		 "a local region is not read");
	kt_right(IB_ACCESS_LOCAL_WRITE, KT_WRITE_IT, false,
		 "a local region is not written");
}

static void kt_bounds_facts(struct kt_link *l, struct kt_mr *m)
{
	if (kt_reg(&l->b, m, KT_RW))
		kt_write_refused(l, m->mr->iova + 2 * PAGE_SIZE - 9,
				 m->mr->rkey, 10, KW_TERM_DDP_TAGGED_BOUNDS);
}

static void kt_bounds(void)
{
	kt_with(2, kt_bounds_facts);
}

/* A registration that fails: the work request, and the connection with it. */
static void kt_reg_fails(struct kt_link *l, struct kt_mr *m, int access,
			 const char *what)
{
	struct kt_op *o = kt_op(l);

	kt_arm(l);
	kt_equal(kt_post_reg(&l->b, m, o, access), 0, "REG_MR posted");
	kt_completes(&l->b, o, IB_WC_LOC_PROT_ERR, what);
	kt_terminated(l, &l->b, KW_TERM_RDMAP_CATASTROPHIC);
}

static void kt_reg_twice_facts(struct kt_link *l, struct kt_mr *m)
{
	if (kt_reg(&l->b, m, KT_RW)) {
		kt_map(m);
		kt_reg_fails(l, m, KT_RW, "REG_MR of a region in force");
	}
}

static void kt_reg_twice(void)
{
	kt_with(2, kt_reg_twice_facts);
}

static void kt_reg_unmapped_facts(struct kt_link *l, struct kt_mr *m)
{
	kt_reg_fails(l, m, KT_RW, "REG_MR with nothing mapped");
}

static void kt_reg_unmapped(void)
{
	kt_with(2, kt_reg_unmapped_facts);
}

/*
 * What was mapped once is registered many times, with a key of its own each
 * time. (RTRS's server does that.) A map that fails leaves nothing to register.
 */
static void kt_reg_same_map_facts(struct kt_link *l, struct kt_mr *m)
{
	const u32 len = m->nr_pages * PAGE_SIZE;
	struct kt_op *o;
	int i;

	if (!kt_reg(&l->b, m, KT_RW))
		return;
	for (i = 0; i < 4; i++) {
		if (!kt_inv(&l->b, m->mr->rkey))
			return;
		ib_update_fast_reg_key(m->mr, ib_inc_rkey(m->mr->rkey));
		kt_mr_fill(m, i);
		o = kt_op(l);
		if (!kt_equal(kt_post_reg(&l->b, m, o, KT_RW), 0,
			      "REG_MR posted") ||
		    !kt_completes(&l->b, o, IB_WC_SUCCESS,
				  "REG_MR of the same map") ||
		    !kt_read_right(l, m->mr->iova, m->mr->rkey, len, i,
				   "read, each byte") ||
		    !kt_write_right(l, m->mr->iova, m->mr->rkey, len, i + 77) ||
		    !kt_read_right(l, m->mr->iova, m->mr->rkey, len, i + 77,
				   "written and read again, each byte"))
			return;
	}
	if (!kt_inv(&l->b, m->mr->rkey))
		return;
	kt_equal(ib_map_mr_sg(m->mr, m->sg, m->nr_pages, NULL, 512), -EINVAL,
		 "a page size of 512 is refused");
	kt_reg_fails(l, m, KT_RW, "REG_MR after a map that failed");
}

static void kt_reg_same_map(void)
{
	kt_with(5, kt_reg_same_map_facts);
}

static void kt_reg_other_pd(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct ib_pd *pd = NULL;
	struct kt_mr *m;

	if (!l)
		return;
	pd = ib_alloc_pd(l->b.id->device, 0);
	if (kt_fact(!IS_ERR(pd), "another protection domain")) {
		m = kt_mr(&l->b, pd, 2);
		if (m) {
			kt_map(m);
			kt_reg_fails(l, m, KT_RW,
				     "REG_MR of another domain's region");
		}
	}
	kt_close(l);
	if (!IS_ERR(pd))
		ib_dealloc_pd(pd);
}

static void kt_reg_bad_key_facts(struct kt_link *l, struct kt_mr *m)
{
	u32 old = m->mr->rkey;

	kt_map(m);
	m->mr->rkey = old ^ 0x100;
	kt_reg_fails(l, m, KT_RW, "REG_MR with another's index");
	m->mr->rkey = old;
}

static void kt_reg_bad_key(void)
{
	kt_with(2, kt_reg_bad_key_facts);
}

static void kt_reg_bad_access_facts(struct kt_link *l, struct kt_mr *m)
{
	kt_map(m);
	kt_reg_fails(l, m, IB_ACCESS_ON_DEMAND | KT_RW,
		     "REG_MR with a right that there is not");
}

static void kt_reg_bad_access(void)
{
	kt_with(2, kt_reg_bad_access_facts);
}

static void kt_inv_fails(struct kt_link *l, u32 stag, const char *what)
{
	struct kt_op *o = kt_op(l);

	kt_arm(l);
	kt_equal(kt_post_inv(&l->b, o, stag), 0, "LOCAL_INV posted");
	kt_completes(&l->b, o, IB_WC_LOC_PROT_ERR, what);
	kt_terminated(l, &l->b, KW_TERM_RDMAP_CATASTROPHIC);
}

static void kt_inv_twice_facts(struct kt_link *l, struct kt_mr *m)
{
	u32 rkey = m->mr->rkey;

	if (kt_reg(&l->b, m, KT_RW) && kt_inv(&l->b, rkey) &&
	    kt_inv(&l->b, rkey))
		kt_inv_fails(l, ib_inc_rkey(rkey),
			     "LOCAL_INV for the second time, with another key");
}

static void kt_inv_twice(void)
{
	kt_with(2, kt_inv_twice_facts);
}

static void kt_inv_stale_facts(struct kt_link *l, struct kt_mr *m)
{
	if (kt_reg(&l->b, m, KT_RW))
		kt_inv_fails(l, ib_inc_rkey(m->mr->rkey),
			     "LOCAL_INV with another key");
}

static void kt_inv_stale(void)
{
	kt_with(2, kt_inv_stale_facts);
}

static void kt_inv_lkey(void)
{
	struct kt_link *l = kt_open(&kt_usual);

	if (!l)
		return;
	kt_inv_fails(l, l->b.pd->local_dma_lkey,
		     "LOCAL_INV of the local_dma_lkey");
	kt_close(l);
}

/* A region of ours as the source of a Send, and as a receive's memory. */
static void kt_local_use(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_mr *m, *n;
	struct kt_op *o, *r;
	struct ib_sge sge, rsge;
	struct ib_rdma_wr wr;

	if (!l)
		return;
	m = kt_mr(&l->a, NULL, 3);
	n = kt_mr(&l->b, NULL, 3);
	if (!m || !n || !kt_reg(&l->a, m, 0) ||
	    !kt_reg(&l->b, n, IB_ACCESS_LOCAL_WRITE))
		goto out;
	kt_mr_fill(m, 60);
	sge = (struct ib_sge){ m->mr->iova + 100, 9000, m->mr->lkey };
	rsge = (struct ib_sge){ n->mr->iova + 100, 9000, n->mr->lkey };
	r = kt_op(l);
	o = kt_op(l);
	wr = kt_wr(IB_WR_SEND, o, &sge, 1);
	kt_equal(kt_recv(&l->b, r, &rsge, 1), 0, "receive posted");
	kt_equal(kt_post(&l->a, &wr), 0, "Send posted");
	if (kt_completes(&l->a, o, IB_WC_SUCCESS, "Send") &&
	    kt_completes(&l->b, r, IB_WC_SUCCESS, "receive"))
		kt_fact(kt_mr_holds(n, 100, 9100, 60), "each byte");
out:
	kt_close(l);
}

static void kt_local_read_only(void)
{
	struct kt_link *l = kt_open(&kt_usual);
	struct kt_mr *m;
	struct kt_op *r;
	struct ib_sge sge;

	if (!l)
		return;
	m = kt_mr(&l->b, NULL, 1);
	if (!m || !kt_reg(&l->b, m, IB_ACCESS_REMOTE_READ))
		goto out;
	kt_mr_fill(m, 1);
	sge = (struct ib_sge){ m->mr->iova, 100, m->mr->lkey };
	r = kt_op(l);
	kt_equal(kt_recv(&l->b, r, &sge, 1), 0, "receive posted");
	kt_arm(l);
	kt_touch(l, IB_WR_SEND, kt_buf(l, 50), 0, 0);
	kt_completes(&l->b, r, IB_WC_LOC_PROT_ERR,
		     "receive into memory without LOCAL_WRITE");
	kt_terminated(l, &l->b, KW_TERM_RDMAP_CATASTROPHIC);
	kt_fact(kt_mr_holds(m, 0, PAGE_SIZE, 1), "nothing was placed");
out:
	kt_close(l);
}

const struct kt_case kt_mr_cases[] = {
	{ "mr.sizes", kt_sizes },
	{ "mr.limits", kt_limits },
	{ "mr.offset", kt_offsets },
	{ "mr.gaps", kt_gaps },
	{ "mr.page_size", kt_page_sizes },
	{ "mr.keys", kt_keys },
	{ "mr.again", kt_again },
	{ "mr.map_early", kt_map_early },
	{ "mr.rights", kt_rights },
	{ "mr.bounds", kt_bounds },
	{ "mr.local", kt_local_use },
	{ "mr.local_read_only", kt_local_read_only },
	{ "mr.reg_twice", kt_reg_twice },
	{ "mr.reg_unmapped", kt_reg_unmapped },
	{ "mr.reg_same_map", kt_reg_same_map },
	{ "mr.reg_other_pd", kt_reg_other_pd },
	{ "mr.reg_bad_key", kt_reg_bad_key },
	{ "mr.reg_bad_access", kt_reg_bad_access },
	{ "mr.inv_twice", kt_inv_twice },
	{ "mr.inv_stale", kt_inv_stale },
	{ "mr.inv_lkey", kt_inv_lkey },
	{}
};
