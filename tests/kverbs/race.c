// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Atomic operations with masks that several queue pairs have under way on one
 * word, on devices that have the setting on.
 *
 * What is posted is such that any order in which the operations may have been
 * worked shows in the values before, which come back: a change that is lost, or
 * made twice, contradicts them, however seldom two operations meet.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "ktest.h"

#define KT_RACERS	4
#define KT_BURST	16	/* as many as the peer keeps: kt_conn_param() */
#define KT_EACH		4096
#define KT_TOTAL	(KT_RACERS * KT_EACH)
#define KT_CPU_BURST	64
#define KT_CPU_MOST	65536
#define KT_FIELD(n)	(0xffffULL << 16 * (n))

/* A queue pair that changes the word, and its regions and requests. */
struct kt_racer {
	struct work_struct work;
	struct kt_race *race;
	struct kt_link *link;
	struct kt_mr *m;
	struct kt_buf *before;
	struct kt_op *op[KT_BURST];
	struct ib_sge sge[KT_BURST];
	struct ib_atomic_wr wr[KT_BURST];
	u32 nr, failed;
};

/*
 * A race: @fill says what each request does, and @swap the values that a CPU
 * swaps in meanwhile, if it does. All begin with @go.
 */
struct kt_race {
	struct kt_racer racer[KT_RACERS];
	struct completion go;
	void (*fill)(struct ib_atomic_wr *wr, u32 nr, u32 i);
	u64 *at;
	struct work_struct cpu_work;
	bool over;
	u64 *cpu_before;
	u32 cpu_swaps;
};

static u64 kt_before(const struct kt_race *r, u32 nr, u32 i)
{
	u64 v;

	memcpy(&v, r->racer[nr].before->p + i * sizeof(v), sizeof(v));
	return v;
}

static void kt_racer_wr(struct kt_racer *r, int slot, u32 i)
{
	struct ib_atomic_wr *wr = &r->wr[slot];

	r->sge[slot] = kt_sge(&r->link->a, r->before, i * 8, 8);
	*wr = (struct ib_atomic_wr){
		.wr.next = slot + 1 < KT_BURST ? &wr[1].wr : NULL,
		.wr.wr_cqe = &r->op[slot]->cqe,
		.wr.sg_list = &r->sge[slot],
		.wr.num_sge = 1,
		.wr.send_flags = IB_SEND_SIGNALED,
		.remote_addr = r->m->mr->iova,
		.rkey = r->m->mr->rkey,
	};
	r->race->fill(wr, r->nr, i);
	reinit_completion(&r->op[slot]->done);
}

/* Facts are stated by the case's own task. */
static void kt_racer_work(struct work_struct *work)
{
	struct kt_racer *r = container_of(work, struct kt_racer, work);
	u32 i;
	int slot;

	wait_for_completion(&r->race->go);
	for (i = 0; i < KT_EACH && !r->failed; i += KT_BURST) {
		for (slot = 0; slot < KT_BURST; slot++)
			kt_racer_wr(r, slot, i + slot);
		if (ib_post_send(r->link->a.qp, &r->wr[0].wr, NULL)) {
			r->failed++;
			return;
		}
		for (slot = 0; slot < KT_BURST; slot++)
			if (!kt_wait(&r->link->a, r->op[slot]) ||
			    r->op[slot]->wc.status != IB_WC_SUCCESS)
				r->failed++;
	}
}

/* The value that racer @nr swaps in by its operation @i: never 0. */
static u64 kt_swapped(u32 nr, u32 i)
{
	return (u64)(nr + 1) << 32 | i;
}

static void kt_cpu_work(struct work_struct *work)
{
	struct kt_race *r = container_of(work, struct kt_race, cpu_work);
	u32 i;

	wait_for_completion(&r->go);
	while (!READ_ONCE(r->over)) {
		for (i = 0; i < KT_CPU_BURST && r->cpu_swaps < KT_CPU_MOST;
		     i++, r->cpu_swaps++)
			r->cpu_before[r->cpu_swaps] =
				xchg(r->at, kt_swapped(KT_RACERS, r->cpu_swaps));
		usleep_range(20, 50);
	}
}

static bool kt_run_race(struct kt_race *r, u64 begin,
			void (*fill)(struct ib_atomic_wr *wr, u32 nr, u32 i),
			bool cpu, const char *what)
{
	u32 nr, failed = 0;

	r->fill = fill;
	r->over = false;
	r->cpu_swaps = 0;
	WRITE_ONCE(*r->at, begin);
	init_completion(&r->go);
	for (nr = 0; nr < KT_RACERS; nr++)
		queue_work(system_unbound_wq, &r->racer[nr].work);
	if (cpu)
		queue_work(system_unbound_wq, &r->cpu_work);
	complete_all(&r->go);
	for (nr = 0; nr < KT_RACERS; nr++) {
		flush_work(&r->racer[nr].work);
		failed += r->racer[nr].failed;
	}
	WRITE_ONCE(r->over, true);
	flush_work(&r->cpu_work);
	return kt_equal(failed, 0, "%s: all operations complete", what);
}

static void kt_fill_swap(struct ib_atomic_wr *wr, u32 nr, u32 i)
{
	wr->wr.opcode = IB_WR_MASKED_ATOMIC_CMP_AND_SWP;
	wr->compare_add = i;
	wr->swap = kt_swapped(nr, i);
	wr->swap_mask = ~0ULL;
}

/*
 * Each value was swapped in once. So from the one that is there at the end the
 * values before lead back to the first, over all the others: those of a queue
 * pair in its order of posting.
 */
static void kt_swap_race(struct kt_race *r)
{
	u32 left[KT_RACERS + 1], steps = 0, changes = 0, nr, i;
	u64 v;

	if (!kt_run_race(r, 0, kt_fill_swap, true, "Swap"))
		return;
	for (nr = 0; nr < KT_RACERS; nr++)
		left[nr] = KT_EACH;
	left[KT_RACERS] = r->cpu_swaps;
	for (v = READ_ONCE(*r->at); v; steps++) {
		nr = (v >> 32) - 1;
		i = v;
		if (nr > KT_RACERS || !left[nr] || i != left[nr] - 1)
			break;
		left[nr] = i;
		v = nr < KT_RACERS ? kt_before(r, nr, i) : r->cpu_before[i];
		changes += v >> 32 != nr + 1;
	}
	pr_info("kiwarp_ktest: Swap: %u by a CPU; %u times another's value\n",
		r->cpu_swaps, changes);
	kt_equal(v, 0, "Swap: each value comes back once, in an order that can be");
	kt_equal(steps, KT_TOTAL + r->cpu_swaps, "Swap: none is lost");
}

/* Each field is added to by a number of its own; all but the lowest overflow. */
static const u64 kt_addends = 0x8001fffffffd0001;

static u64 kt_sum(u32 n)
{
	u64 sum = 0;
	u32 field;

	for (field = 0; field < 4; field++)
		sum |= (((kt_addends >> 16 * field) * n) & 0xffff) << 16 * field;
	return sum;
}

static void kt_fill_add(struct ib_atomic_wr *wr, u32 nr, u32 i)
{
	wr->wr.opcode = IB_WR_MASKED_ATOMIC_FETCH_AND_ADD;
	wr->compare_add = kt_addends;
	wr->compare_add_mask = 0x8000800080008000;
}

/* The lowest field says how many were worked before. */
static void kt_add_race(struct kt_race *r)
{
	unsigned long *seen = bitmap_zalloc(KT_TOTAL, GFP_KERNEL | __GFP_NOFAIL);
	u32 wrong = 0, twice = 0, disorder = 0, nr, i, n;
	s64 last;
	u64 v;

	if (!kt_run_race(r, 0, kt_fill_add, false, "masked FetchAdd"))
		goto free;
	for (nr = 0; nr < KT_RACERS; nr++) {
		for (i = 0, last = -1; i < KT_EACH; i++, last = n) {
			v = kt_before(r, nr, i);
			n = v & KT_FIELD(0);
			disorder += n <= last;
			wrong += n >= KT_TOTAL || v != kt_sum(n);
			twice += n < KT_TOTAL && __test_and_set_bit(n, seen);
		}
	}
	kt_equal(READ_ONCE(*r->at), kt_sum(KT_TOTAL), "masked FetchAdd: each sum");
	kt_equal(wrong, 0, "masked FetchAdd: the fields of each value agree");
	kt_equal(twice, 0, "masked FetchAdd: no value comes back twice");
	kt_equal(disorder, 0, "masked FetchAdd: a queue pair's are in order");
free:
	bitmap_free(seen);
}

static void kt_fill_own(struct ib_atomic_wr *wr, u32 nr, u32 i)
{
	wr->wr.opcode = IB_WR_MASKED_ATOMIC_CMP_AND_SWP;
	wr->compare_add = (u64)i << 16 * nr;
	wr->compare_add_mask = KT_FIELD(nr);
	wr->swap = (u64)(i + 1) << 16 * nr;
	wr->swap_mask = KT_FIELD(nr);
}

/* Each counts in a field of its own: nobody else's operation may undo that. */
static void kt_own_race(struct kt_race *r)
{
	u32 wrong = 0, back = 0, nr, i, field;
	u64 v, last;

	if (!kt_run_race(r, 0, kt_fill_own, false, "CmpSwap, a field each"))
		return;
	for (nr = 0; nr < KT_RACERS; nr++) {
		for (i = 0, last = 0; i < KT_EACH; i++, last = v) {
			v = kt_before(r, nr, i);
			wrong += (v & KT_FIELD(nr)) != (u64)i << 16 * nr;
			for (field = 0; field < 4; field++)
				back += (v & KT_FIELD(field)) <
					(last & KT_FIELD(field));
		}
	}
	kt_equal(READ_ONCE(*r->at), KT_EACH * 0x0001000100010001ULL,
		 "CmpSwap, a field each: all are counted");
	kt_equal(wrong, 0, "CmpSwap, a field each: none finds another value");
	kt_equal(back, 0, "CmpSwap, a field each: no field goes back");
}

/* Bits 32 to 47 belong to nobody; those above say who swapped. */
static const u64 kt_constant = 0x0000a55a00000000;

static void kt_fill_common(struct ib_atomic_wr *wr, u32 nr, u32 i)
{
	wr->wr.opcode = IB_WR_MASKED_ATOMIC_CMP_AND_SWP;
	wr->compare_add = i;
	wr->compare_add_mask = U32_MAX;
	wr->swap = (u64)(nr + 1) << 48 | (i + 1);
	wr->swap_mask = KT_FIELD(3) | U32_MAX;
}

/*
 * All try to count the same field from each number to the next: one succeeds.
 * When the one that expects i comes, the field is i at least: either the one
 * before has made it so, or it found another number, which is higher.
 */
static void kt_common_race(struct kt_race *r)
{
	u8 *winner = kzalloc(KT_EACH + 1, GFP_KERNEL | __GFP_NOFAIL);
	u32 twice = 0, none = 0, wrong = 0, nr, i;
	u64 v;

	if (!kt_run_race(r, kt_constant, kt_fill_common, false,
			 "CmpSwap of one field"))
		goto free;
	for (nr = 0; nr < KT_RACERS; nr++) {
		for (i = 0; i < KT_EACH; i++) {
			if ((u32)kt_before(r, nr, i) != i)
				continue;
			twice += !!winner[i + 1];
			winner[i + 1] = nr + 1;
		}
	}
	for (i = 1; i <= KT_EACH; i++)
		none += !winner[i];
	for (nr = 0; nr < KT_RACERS; nr++) {
		for (i = 0; i < KT_EACH; i++) {
			v = kt_before(r, nr, i);
			wrong += (u32)v < i || (u32)v > KT_EACH ||
				 (v ^ kt_constant) >> 32 !=
				 (u64)winner[min_t(u32, v, KT_EACH)] << 16;
		}
	}
	kt_equal(READ_ONCE(*r->at), kt_constant | KT_EACH |
		 (u64)winner[KT_EACH] << 48, "CmpSwap of one field: its value");
	kt_equal(twice, 0, "CmpSwap of one field: no two find the same number");
	kt_equal(none, 0, "CmpSwap of one field: one finds each number");
	kt_equal(wrong, 0, "CmpSwap of one field: what comes back names who was before");
free:
	kfree(winner);
}

/* Queue pairs of different protection domains, each with a region of its own. */
static bool kt_racer_open(struct kt_race *r, u32 nr)
{
	static const struct kt_opts usual;
	struct kt_racer *racer = &r->racer[nr];
	struct kt_op *reg;
	int slot;

	INIT_WORK(&racer->work, kt_racer_work);
	racer->race = r;
	racer->nr = nr;
	racer->link = kt_open(&usual);
	if (!racer->link)
		return false;
	racer->m = kt_mr(&racer->link->b, NULL, 1);
	if (!racer->m)
		return false;
	racer->before = kt_buf(racer->link, KT_EACH * sizeof(u64));
	for (slot = 0; slot < KT_BURST; slot++)
		racer->op[slot] = kt_op(racer->link);
	reg = kt_op(racer->link);
	/* All are over the page of the first one's. */
	return kt_equal(ib_map_mr_sg(racer->m->mr, r->racer[0].m->sg, 1, NULL,
				     PAGE_SIZE), 1, "page mapped") &&
	       kt_equal(kt_post_reg(&racer->link->b, racer->m, reg,
				    IB_ACCESS_LOCAL_WRITE |
				    IB_ACCESS_REMOTE_ATOMIC), 0, "REG_MR posted") &&
	       kt_completes(&racer->link->b, reg, IB_WC_SUCCESS, "REG_MR");
}

static void kt_race(void)
{
	struct kt_race *r = kvzalloc(sizeof(*r), GFP_KERNEL | __GFP_NOFAIL);
	bool good = true;
	u32 nr;

	r->cpu_before = kvcalloc(KT_CPU_MOST, sizeof(*r->cpu_before),
				 GFP_KERNEL | __GFP_NOFAIL);
	INIT_WORK(&r->cpu_work, kt_cpu_work);
	for (nr = 0; nr < KT_RACERS && good; nr++)
		good = kt_racer_open(r, nr);
	if (good) {
		r->at = page_address(r->racer[0].m->page[0]);
		kt_swap_race(r);
		kt_add_race(r);
		kt_own_race(r);
		kt_common_race(r);
	}
	/* The first one's page is the others', too. */
	for (nr = KT_RACERS; nr-- > 0;)
		kt_close(r->racer[nr].link);
	kvfree(r->cpu_before);
	kvfree(r);
}

const struct kt_case kt_race_cases[] = {
	{ "ext.atomic_race", kt_race, true },
	{}
};
