// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Step queues: the steps of one user's connections to one port are taken in
 * order, and nobody else waits for them.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/in.h>

#include "cm/cm.h"
#include "link.h"

#define KT_PORTS	100

/* An endpoint that takes steps only. */
struct kt_ep {
	struct kw_ep ep;
	struct kw_start start;
	struct completion *go;		/* its step waits for it */
	struct completion stepped;
	bool ends;			/* its step frees kw_start.steps */
	int nr;				/* how many steps came before */
};

/* Of the code under test, which is not linked with the rest of cm/. */
struct workqueue_struct *kw_cm_wq;

static atomic_t kt_steps;

void kw_ep_get(struct kw_ep *ep)
{
	kref_get(&ep->ref);
}

void kw_ep_put(struct kw_ep *ep)
{
	/* The test's own reference is the last one. */
	WARN_ON(refcount_dec_and_test(&ep->ref.refcount));
}

void kw_ep_step(struct kw_ep *ep)
{
	struct kt_ep *k = container_of(ep, struct kt_ep, ep);

	if (k->go)
		wait_for_completion(k->go);
	k->nr = atomic_inc_return(&kt_steps);
	if (k->ends) {
		/* What comes while the step is under way finds the queue. */
		kw_steps_add(k->start.steps, ep);
		kw_steps_put(k->start.steps);
		k->start.steps = NULL;
		k->ends = false;
	}
	complete(&k->stepped);
}

static void kt_peer(struct sockaddr_storage *addr, u16 port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)addr;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in->sin_port = htons(port);
}

static struct kt_ep *kt_ep(struct kunit *test, uid_t uid, u16 port)
{
	struct kt_ep *k = kunit_kzalloc(test, sizeof(*k), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, k);
	kref_init(&k->ep.ref);
	k->ep.start = &k->start;
	init_completion(&k->stepped);
	k->start.ep = &k->ep;
	k->start.charge.uid = KUIDT_INIT(uid);
	kt_peer(&k->start.peer, port);
	KUNIT_ASSERT_EQ(test, kw_steps_choose(&k->ep), 0);
	return k;
}

static bool kt_stepped(struct kt_ep *k)
{
	return wait_for_completion_timeout(&k->stepped, 10 * HZ) != 0;
}

static void kt_ep_end(struct kt_ep *k)
{
	if (k->start.steps)
		kw_steps_put(k->start.steps);
}

static int kt_steps_init(struct kunit *test)
{
	atomic_set(&kt_steps, 0);
	kw_cm_wq = alloc_workqueue("kt_cm", WQ_UNBOUND, WQ_MAX_ACTIVE);
	return kw_cm_wq ? 0 : -ENOMEM;
}

static void kt_steps_exit(struct kunit *test)
{
	if (!kw_cm_wq)
		return;
	destroy_workqueue(kw_cm_wq);
	/* This warns if one is left. */
	kw_steps_exit();
}

/* One user to one port: each step waits for those before. */
static void kt_test_order(struct kunit *test)
{
	struct completion go;
	struct kt_ep *k[3];
	int i;

	init_completion(&go);
	for (i = 0; i < ARRAY_SIZE(k); i++) {
		k[i] = kt_ep(test, 1000, 4420);
		KUNIT_EXPECT_PTR_EQ(test, k[i]->start.steps, k[0]->start.steps);
	}
	k[0]->go = &go;
	for (i = 0; i < ARRAY_SIZE(k); i++)
		kw_steps_add(k[i]->start.steps, &k[i]->ep);
	KUNIT_EXPECT_FALSE(test, completion_done(&k[1]->stepped));
	complete(&go);
	for (i = 0; i < ARRAY_SIZE(k); i++) {
		KUNIT_EXPECT_TRUE(test, kt_stepped(k[i]));
		KUNIT_EXPECT_EQ(test, k[i]->nr, i + 1);
		kt_ep_end(k[i]);
	}
}

/* Whatever ports one user's steps are stuck at, those of another are taken. */
static void kt_test_users(struct kunit *test)
{
	struct kt_ep **stuck, **other;
	struct completion go;
	bool all = true;
	int i;

	stuck = kunit_kcalloc(test, KT_PORTS, sizeof(*stuck), GFP_KERNEL);
	other = kunit_kcalloc(test, KT_PORTS, sizeof(*other), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, stuck && other);
	init_completion(&go);
	for (i = 0; i < KT_PORTS; i++) {
		stuck[i] = kt_ep(test, 1000, 5000 + i);
		stuck[i]->go = &go;
		kw_steps_add(stuck[i]->start.steps, &stuck[i]->ep);
	}
	for (i = 0; i < KT_PORTS; i++) {
		other[i] = kt_ep(test, 2000, 5000 + i);
		kw_steps_add(other[i]->start.steps, &other[i]->ep);
		all = all && kt_stepped(other[i]);
	}
	KUNIT_EXPECT_TRUE(test, all);
	complete_all(&go);
	for (i = 0; i < KT_PORTS; i++) {
		KUNIT_EXPECT_TRUE(test, kt_stepped(stuck[i]));
		kt_ep_end(stuck[i]);
		kt_ep_end(other[i]);
	}
}

/* What an address does not say does not part connections to it. */
static void kt_test_address(struct kunit *test)
{
	struct kt_ep *a = kt_ep(test, 1000, 4420), *b;
	struct sockaddr_in *in;

	b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, b);
	b->ep.start = &b->start;
	b->start.charge.uid = KUIDT_INIT(1000);
	kt_peer(&b->start.peer, 4420);
	in = (struct sockaddr_in *)&b->start.peer;
	memset(in->__pad, 0x5a, sizeof(in->__pad));
	KUNIT_ASSERT_EQ(test, kw_steps_choose(&b->ep), 0);
	KUNIT_EXPECT_PTR_EQ(test, a->start.steps, b->start.steps);
	kt_ep_end(b);

	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	KUNIT_ASSERT_EQ(test, kw_steps_choose(&b->ep), 0);
	KUNIT_EXPECT_PTR_NE(test, a->start.steps, b->start.steps);
	kt_ep_end(b);
	kt_ep_end(a);
}

/* The last endpoint of a queue ends in a step, and something comes meanwhile. */
static void kt_test_end(struct kunit *test)
{
	struct kt_ep *k = kt_ep(test, 1000, 4420);

	k->ends = true;
	kw_steps_add(k->start.steps, &k->ep);
	KUNIT_EXPECT_TRUE(test, kt_stepped(k));
	KUNIT_EXPECT_TRUE(test, kt_stepped(k));
	flush_workqueue(kw_cm_wq);
	KUNIT_EXPECT_EQ(test, kref_read(&k->ep.ref), 1);
}

static struct kunit_case kt_steps_cases[] = {
	KUNIT_CASE(kt_test_order),
	KUNIT_CASE(kt_test_users),
	KUNIT_CASE(kt_test_address),
	KUNIT_CASE(kt_test_end),
	{}
};

struct kunit_suite kt_steps_suite = {
	.name = "kiwarp_steps",
	.init = kt_steps_init,
	.exit = kt_steps_exit,
	.test_cases = kt_steps_cases,
};
