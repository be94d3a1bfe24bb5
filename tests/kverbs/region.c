// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Regions of fast registrations.
 */
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "ktest.h"

/* Consecutive allocations are often contiguous: swap some pages. */
static void kt_mr_pages(struct kt_mr *m)
{
	u32 i;

	for (i = 0; i < m->nr_pages; i++)
		m->page[i] = alloc_page(GFP_KERNEL | __GFP_NOFAIL);
	for (i = 1; i + 1 < m->nr_pages; i += 3)
		swap(m->page[i], m->page[i + 1]);
	sg_init_table(m->sg, m->nr_pages);
	for (i = 0; i < m->nr_pages; i++)
		sg_set_page(&m->sg[i], m->page[i], PAGE_SIZE, 0);
}

/**
 * kt_mr() - a region for fast registration, with pages for it
 * @e: end
 * @pd: protection domain; NULL: the end's
 * @pages: how many
 *
 * Context: process. A failure is stated as a fact.
 * Return: the region, freed with the link, or NULL.
 */
struct kt_mr *kt_mr(struct kt_end *e, struct ib_pd *pd, u32 pages)
{
	struct kt_mr *m = kzalloc(sizeof(*m), GFP_KERNEL | __GFP_NOFAIL);

	m->mr = ib_alloc_mr(pd ?: e->pd, IB_MR_TYPE_MEM_REG, pages);
	if (!kt_fact(!IS_ERR(m->mr), "a region for %u pages", pages)) {
		kfree(m);
		return NULL;
	}
	m->dev = e->id->device;
	m->nr_pages = pages;
	m->page = kcalloc(pages, sizeof(*m->page), GFP_KERNEL | __GFP_NOFAIL);
	m->sg = kvmalloc_array(pages, sizeof(*m->sg), GFP_KERNEL | __GFP_NOFAIL);
	kt_mr_pages(m);
	kt_equal(ib_dma_map_sg(m->dev, m->sg, pages, DMA_BIDIRECTIONAL), pages,
		 "pages mapped for the device");
	list_add(&m->list, &e->link->mrs);
	return m;
}

/**
 * kt_mr_free() - free a region and its pages
 * @m: region
 *
 * Context: process.
 */
void kt_mr_free(struct kt_mr *m)
{
	u32 i;

	list_del(&m->list);
	ib_dereg_mr(m->mr);
	ib_dma_unmap_sg(m->dev, m->sg, m->nr_pages, DMA_BIDIRECTIONAL);
	for (i = 0; i < m->nr_pages; i++)
		__free_page(m->page[i]);
	kvfree(m->sg);
	kfree(m->page);
	kfree(m);
}

/**
 * kt_map() - describe all the pages to the region
 * @m: region
 *
 * Return: ib_map_mr_sg()'s.
 */
int kt_map(struct kt_mr *m)
{
	return ib_map_mr_sg(m->mr, m->sg, m->nr_pages, NULL, PAGE_SIZE);
}

/**
 * kt_reg_wr() - a signalled work request to register a region
 * @m: region
 * @o: operation
 * @access: enum ib_access_flags
 *
 * Return: the work request.
 */
struct ib_reg_wr kt_reg_wr(struct kt_mr *m, struct kt_op *o, int access)
{
	return (struct ib_reg_wr){
		.wr.opcode = IB_WR_REG_MR,
		.wr.wr_cqe = &o->cqe,
		.wr.send_flags = IB_SEND_SIGNALED,
		.mr = m->mr,
		.key = m->mr->rkey,
		.access = access,
	};
}

/**
 * kt_post_reg() - post a registration
 * @e: end
 * @m: region, mapped
 * @o: operation
 * @access: enum ib_access_flags
 *
 * Context: any.
 * Return: ib_post_send()'s.
 */
int kt_post_reg(struct kt_end *e, struct kt_mr *m, struct kt_op *o, int access)
{
	struct ib_reg_wr wr = kt_reg_wr(m, o, access);

	return ib_post_send(e->qp, &wr.wr, NULL);
}

/**
 * kt_reg() - map and register a region
 * @e: end
 * @m: region
 * @access: enum ib_access_flags
 *
 * Context: process. The facts are stated.
 * Return: whether it is registered.
 */
bool kt_reg(struct kt_end *e, struct kt_mr *m, int access)
{
	struct kt_op *o = kt_op(e->link);

	return kt_equal(kt_map(m), m->nr_pages, "pages mapped") &&
	       kt_equal(kt_post_reg(e, m, o, access), 0, "REG_MR posted") &&
	       kt_completes(e, o, IB_WC_SUCCESS, "REG_MR") &&
	       kt_equal(o->wc.opcode, IB_WC_REG_MR, "its opcode");
}

/**
 * kt_post_inv() - post an invalidation
 * @e: end
 * @o: operation
 * @stag: what to invalidate
 *
 * Context: any.
 * Return: ib_post_send()'s.
 */
int kt_post_inv(struct kt_end *e, struct kt_op *o, u32 stag)
{
	struct ib_rdma_wr wr = kt_wr(IB_WR_LOCAL_INV, o, NULL, 0);

	wr.wr.ex.invalidate_rkey = stag;
	return kt_post(e, &wr);
}

/**
 * kt_inv() - invalidate a region
 * @e: end
 * @stag: of the region
 *
 * Context: process. The facts are stated.
 * Return: whether it is invalidated.
 */
bool kt_inv(struct kt_end *e, u32 stag)
{
	struct kt_op *o = kt_op(e->link);

	return kt_equal(kt_post_inv(e, o, stag), 0, "LOCAL_INV posted") &&
	       kt_completes(e, o, IB_WC_SUCCESS, "LOCAL_INV") &&
	       kt_equal(o->wc.opcode, IB_WC_LOCAL_INV, "its opcode");
}

/**
 * kt_mr_fill() - write a pattern to a region's pages
 * @m: region
 * @seed: of the pattern
 */
void kt_mr_fill(struct kt_mr *m, u32 seed)
{
	u32 i;

	for (i = 0; i < m->nr_pages; i++)
		kt_fill(page_address(m->page[i]), PAGE_SIZE,
			seed + i * PAGE_SIZE);
}

/**
 * kt_mr_holds() - compare a region's pages with a pattern
 * @m: region
 * @from: first byte
 * @to: after the last
 * @seed: the seed that kt_mr_fill() got or would have got
 *
 * Return: whether each byte is right.
 */
bool kt_mr_holds(struct kt_mr *m, u32 from, u32 to, u32 seed)
{
	while (from < to) {
		u32 off = offset_in_page(from);
		u32 n = min_t(u32, to - from, PAGE_SIZE - off);

		if (!kt_is_filled(page_address(m->page[from / PAGE_SIZE]) + off,
				  n, seed + from))
			return false;
		from += n;
	}
	return true;
}
