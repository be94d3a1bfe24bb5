// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Sockets that outlive their streams: how long, how many, and how they end.
 */
#include <linux/user_namespace.h>
#include <linux/wait.h>
#include <net/tcp.h>

#include "link.h"
#include "stream/linger.h"

/* A user's share of the places: see linger.c. */
#define KT_PLACES	512
#define KT_USER		KUIDT_INIT(2000)
#define KT_OTHER	KUIDT_INIT(2001)
#define KT_LONG		(600 * HZ)
/* More than both socket buffers have room for. */
#define KT_TO_DROP	65536
/* Any test's wait, however slow the machine. */
#define KT_WAIT	(120 * HZ)

static struct kw_lingers *kt_lingers(struct kunit *test, struct kt_link *l)
{
	struct kw_lingers *of = kunit_kzalloc(test, sizeof(*of), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, of);
	kw_lingers_init(of, l->counters);
	return of;
}

/* The link's socket lingers if this returns 0, and is still the link's if not. */
static int kt_start(struct kw_lingers *of, struct kt_link *l, kuid_t owner,
		    unsigned long limit)
{
	struct kw_linger *linger = kzalloc(sizeof(*linger), GFP_KERNEL);
	int ret;

	KUNIT_ASSERT_NOT_NULL(l->test, linger);
	ret = kw_linger_start(of, linger, l->early, owner, limit);
	if (ret)
		kfree(linger);
	else
		l->early = NULL;
	return ret;
}

static bool kt_ends(struct kw_lingers *of)
{
	bool ok = wait_event_timeout(of->idle, !READ_ONCE(of->nr), KT_WAIT);

	/* The one that set nr to 0 may still hold the lock. */
	kw_lingers_close(of);
	return ok;
}

static u64 kt_resets(struct kt_link *l)
{
	return kw_counter_read(l->counters, KW_CNT_LINGER_RESET);
}

/* As many more places are @uid's: of->lock is held. */
static void kt_count(struct kunit *test, struct kw_lingers *of, u32 uid, int more)
{
	void *entry = xa_load(&of->users, uid);
	int n = (entry ? xa_to_value(entry) : 0) + more;

	entry = xa_store(&of->users, uid, n ? xa_mk_value(n) : NULL, GFP_ATOMIC);
	KUNIT_EXPECT_EQ(test, 0, xa_err(entry));
}

/* Take @nr places in @uid's name. */
static struct kw_linger *kt_occupy(struct kw_lingers *of, struct kt_link *l,
				   struct socket *sock, kuid_t uid, u32 nr)
{
	struct kw_linger *places;
	u32 i;

	places = kunit_kcalloc(l->test, nr, sizeof(*places), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(l->test, places);
	spin_lock(&of->lock);
	for (i = 0; i < nr; i++) {
		places[i].sock = sock;
		places[i].uid = __kuid_val(uid);
		list_add_tail(&places[i].node, &of->list);
	}
	of->nr += nr;
	kt_count(l->test, of, __kuid_val(uid), nr);
	spin_unlock(&of->lock);
	return places;
}

static void kt_vacate(struct kunit *test, struct kw_lingers *of,
		      struct kw_linger *places, u32 nr)
{
	u32 i;

	spin_lock(&of->lock);
	for (i = 0; i < nr; i++)
		list_del(&places[i].node);
	of->nr -= nr;
	kt_count(test, of, places->uid, -(int)nr);
	spin_unlock(&of->lock);
}

/* The peer closes as well: there is nothing left to wait for. */
static void kt_test_both_close(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct kw_lingers *of = kt_lingers(test, l);
	u8 byte;

	KUNIT_ASSERT_EQ(test, 0, kt_start(of, l, GLOBAL_ROOT_UID, KT_LONG));
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
	KUNIT_EXPECT_EQ(test, 0, kernel_sock_shutdown(l->peer, SHUT_WR));
	KUNIT_EXPECT_TRUE(test, kt_ends(of));
	KUNIT_EXPECT_EQ(test, 0, kt_resets(l));
}

/* The peer has everything and keeps its half open: 3 s, not the limit. */
static void kt_test_half_open(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 4096);
	struct kw_lingers *of = kt_lingers(test, l);
	u8 *bytes = kunit_kzalloc(test, KT_TO_DROP, GFP_KERNEL);
	unsigned long start = jiffies;
	u8 byte;

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	l->peer->sk->sk_sndbuf = 4096;
	l->peer->sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	KUNIT_ASSERT_EQ(test, 0, kt_start(of, l, GLOBAL_ROOT_UID, KT_LONG));
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
	/* What it sends meanwhile is dropped: it can go on, and no reset comes. */
	kt_peer_write(l, bytes, KT_TO_DROP);
	KUNIT_EXPECT_TRUE(test, kt_ends(of));
	KUNIT_EXPECT_TRUE(test, time_after_eq(jiffies, start + 3 * HZ));
	KUNIT_EXPECT_EQ(test, 0, kt_resets(l));
}

/* TCP had no memory for the FIN, and all bytes are acknowledged. */
static void kt_test_no_fin(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct kw_lingers *of = kt_lingers(test, l);

	lock_sock(l->early->sk);
	tcp_set_state(l->early->sk, TCP_FIN_WAIT1);
	release_sock(l->early->sk);
	KUNIT_ASSERT_EQ(test, 0, kt_start(of, l, GLOBAL_ROOT_UID, KT_LONG));
	KUNIT_EXPECT_TRUE(test, kt_ends(of));
	KUNIT_EXPECT_EQ(test, 1, kt_resets(l));
}

/* The peer does not read: what TCP holds goes nowhere. */
static void kt_fill(struct kt_link *l)
{
	struct kunit *test = l->test;
	const size_t size = 1 << 20;
	u8 *bytes = kunit_kzalloc(test, size, GFP_KERNEL);
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };
	struct kvec kv = { bytes, size };

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	l->early->sk->sk_sndbuf = 2 * size;
	l->early->sk->sk_userlocks |= SOCK_SNDBUF_LOCK;
	while (kernel_sendmsg(l->early, &msg, &kv, 1, size) > 0)
		;
}

static void kt_test_limit(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct kw_lingers *of = kt_lingers(test, l);
	unsigned long start = jiffies;

	kt_fill(l);
	KUNIT_ASSERT_EQ(test, 0, kt_start(of, l, GLOBAL_ROOT_UID, HZ / 2));
	KUNIT_EXPECT_TRUE(test, kt_ends(of));
	KUNIT_EXPECT_TRUE(test, time_after_eq(jiffies, start + HZ / 2));
	KUNIT_EXPECT_EQ(test, 1, kt_resets(l));
}

/* Each user has a share of the places. Root, and other users, find theirs. */
static void kt_test_share(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct kw_lingers *of = kt_lingers(test, l);
	struct kw_linger *places;
	u8 byte;

	places = kt_occupy(of, l, l->peer, KT_USER, KT_PLACES);
	KUNIT_ASSERT_EQ(test, -EBUSY, kt_start(of, l, KT_USER, KT_LONG));
	KUNIT_EXPECT_EQ(test, KT_PLACES, of->nr);
	kt_vacate(test, of, places, 1);
	KUNIT_EXPECT_EQ(test, 0, kt_start(of, l, KT_USER, KT_LONG));
	KUNIT_EXPECT_EQ(test, KT_PLACES, of->nr);
	kt_vacate(test, of, places + 1, KT_PLACES - 1);
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
	kw_lingers_close(of);
	KUNIT_EXPECT_EQ(test, 0, of->nr);
}

static void kt_test_others(struct kunit *test)
{
	/* Who has the places, and who looks for one: root's share is all of them. */
	static const kuid_t uids[][2] = {
		{ KT_USER, GLOBAL_ROOT_UID },
		{ KT_USER, KT_OTHER },
		{ GLOBAL_ROOT_UID, GLOBAL_ROOT_UID },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(uids); i++) {
		struct kt_link *l = kt_link_connect(test, 0, 0);
		struct kw_lingers *of = kt_lingers(test, l);
		struct kw_linger *places;

		places = kt_occupy(of, l, l->peer, uids[i][0], KT_PLACES);
		KUNIT_EXPECT_EQ(test, 0, kt_start(of, l, uids[i][1], KT_LONG));
		kt_vacate(test, of, places, KT_PLACES);
		kw_lingers_close(of);
		kt_link_end(l);
		test->priv = NULL;
	}
}

/* All places of the device are taken: nobody finds one, root included. */
static void kt_test_full(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct kw_lingers *of = kt_lingers(test, l);
	struct kw_linger *places;
	u8 byte;

	places = kt_occupy(of, l, l->peer, KT_OTHER, 8 * KT_PLACES);
	/* Bytes from the peer do not turn the close that follows into a reset. */
	kt_peer_write(l, "bytes", 5);
	KUNIT_EXPECT_TRUE(test, kt_until(tcp_inq(l->early->sk) > 0));
	KUNIT_ASSERT_EQ(test, -EBUSY, kt_start(of, l, GLOBAL_ROOT_UID, KT_LONG));
	kw_sock_close(l->early);
	l->early = NULL;
	KUNIT_EXPECT_EQ(test, 0, kt_peer_read(l, &byte, 1));
	/* A reset behind the FIN would throw away what TCP has still to send. */
	KUNIT_EXPECT_EQ(test, TCP_CLOSE_WAIT, l->peer->sk->sk_state);
	kt_vacate(test, of, places, 8 * KT_PLACES);
}

/* A device that goes resets what lingers and takes no more, until it is back. */
static void kt_test_device(struct kunit *test)
{
	struct kt_link *l = kt_link_connect(test, 0, 0);
	struct kw_lingers *of = kt_lingers(test, l);
	unsigned long start = jiffies;

	kt_fill(l);
	kw_lingers_close(of);
	KUNIT_ASSERT_EQ(test, -ENODEV, kt_start(of, l, GLOBAL_ROOT_UID, KT_WAIT));
	kw_lingers_open(of);
	KUNIT_ASSERT_EQ(test, 0, kt_start(of, l, GLOBAL_ROOT_UID, KT_WAIT));
	kw_lingers_close(of);
	KUNIT_EXPECT_EQ(test, 0, of->nr);
	KUNIT_EXPECT_EQ(test, 1, kt_resets(l));
	KUNIT_EXPECT_TRUE(test, time_before(jiffies, start + KT_WAIT));
}

/* Whom the sockets of a process in a user namespace count for. */
static void kt_test_owner(struct kunit *test)
{
	struct user_namespace *outer, *inner;

	outer = kunit_kzalloc(test, sizeof(*outer), GFP_KERNEL);
	inner = kunit_kzalloc(test, sizeof(*inner), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, outer && inner);
	outer->parent = &init_user_ns;
	inner->parent = outer;
	inner->owner = KUIDT_INIT(100005);
	KUNIT_EXPECT_TRUE(test, uid_eq(KT_USER, kw_linger_owner(&init_user_ns, KT_USER)));

	/* A user's: whichever of his subordinate users it is. */
	outer->owner = KT_USER;
	KUNIT_EXPECT_TRUE(test, uid_eq(KT_USER, kw_linger_owner(outer, KUIDT_INIT(100000))));
	KUNIT_EXPECT_TRUE(test, uid_eq(KT_USER, kw_linger_owner(inner, KUIDT_INIT(100007))));

	/* One that root made for a container: its root, unless it has none. */
	outer->owner = GLOBAL_ROOT_UID;
	KUNIT_EXPECT_TRUE(test, uid_eq(KT_OTHER, kw_linger_owner(inner, KT_OTHER)));
	outer->uid_map.nr_extents = 1;
	outer->uid_map.extent[0].lower_first = 100000;
	outer->uid_map.extent[0].count = 65536;
	KUNIT_EXPECT_TRUE(test, uid_eq(KUIDT_INIT(100000),
				       kw_linger_owner(outer, KUIDT_INIT(100001))));
	KUNIT_EXPECT_TRUE(test, uid_eq(KUIDT_INIT(100000),
				       kw_linger_owner(inner, KUIDT_INIT(100002))));
}

static struct kunit_case kt_linger_cases[] = {
	KUNIT_CASE(kt_test_both_close),
	KUNIT_CASE(kt_test_half_open),
	KUNIT_CASE(kt_test_no_fin),
	KUNIT_CASE(kt_test_limit),
	KUNIT_CASE(kt_test_share),
	KUNIT_CASE(kt_test_others),
	KUNIT_CASE(kt_test_full),
	KUNIT_CASE(kt_test_device),
	KUNIT_CASE(kt_test_owner),
	{}
};

struct kunit_suite kt_linger_suite = {
	.name = "kiwarp_linger",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_linger_cases,
};
