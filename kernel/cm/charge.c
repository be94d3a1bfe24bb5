// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What connections are charged to: memory cgroup and user of the process that
 * listens or connects, though worker threads make, accept and serve sockets.
 */
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/sched.h>
#include <net/sock.h>

#include "cm/cm.h"
#include "stream/charge.h"

/**
 * kw_charge_current() - charge to the caller
 * @c: result; kw_charge_drop() it
 *
 * Context: process.
 */
void kw_charge_current(struct kw_charge *c)
{
	c->memcg = get_mem_cgroup_from_mm(current->mm);
	c->uid = current_fsuid();
	c->sockets = false;
}

/**
 * kw_charge_root() - charge to root and to the root memory cgroup
 * @c: result
 *
 * Context: any.
 */
void kw_charge_root(struct kw_charge *c)
{
	*c = (struct kw_charge) { .uid = GLOBAL_ROOT_UID };
}

/**
 * kw_charge_copy() - charge to the same cgroup and user
 * @c: result; kw_charge_drop() it
 * @from: what is charged already
 *
 * Context: any.
 */
void kw_charge_copy(struct kw_charge *c, const struct kw_charge *from)
{
	*c = *from;
	if (!mem_cgroup_tryget(c->memcg))
		c->memcg = NULL;
}

/**
 * kw_charge_drop() - drop the references
 * @c: what was charged to; what was charged stays charged
 *
 * Context: any.
 */
void kw_charge_drop(struct kw_charge *c)
{
	mem_cgroup_put(c->memcg);
	c->memcg = NULL;
}

#ifdef CONFIG_MEMCG

/*
 * What TCP has allocated for the socket so far was charged to all sockets
 * together. It is uncharged, and charged again, now that the socket has a
 * memory cgroup. sk_free() drops the reference.
 */
static int kw_charge_sock_memcg(struct mem_cgroup *memcg, struct sock *sk)
{
	int size, ret = 0;

	if (!css_tryget(&memcg->css))
		return 0;
	lock_sock(sk);
	size = sk->sk_forward_alloc + atomic_read(&sk->sk_rmem_alloc) +
	       READ_ONCE(sk->sk_wmem_queued);
	size = max(size, 0) & PAGE_MASK;
	if (size)
		__sk_mem_reclaim(sk, size);
	sk->sk_memcg = memcg;
	if (size && !__sk_mem_schedule(sk, size, SK_MEM_RECV))
		ret = -ENOMEM;
	release_sock(sk);
	return ret;
}

#else

static int kw_charge_sock_memcg(struct mem_cgroup *memcg, struct sock *sk)
{
	return 0;
}

#endif

/**
 * kw_charge_learn() - find out from a socket whether sockets are charged
 * @c: of the caller, who has made @sock
 * @sock: the socket
 *
 * The root cgroup's are not; with cgroup v1 others may not be either.
 *
 * Context: process.
 */
void kw_charge_learn(struct kw_charge *c, const struct socket *sock)
{
	c->sockets = c->memcg && kw_sk_memcg(sock->sk) == c->memcg;
}

/**
 * kw_charge_sock() - charge a socket
 * @c: what to charge
 * @sock: a socket that was made or accepted in another context
 *
 * Context: process.
 * Return: 0, or -ENOMEM at the limit: the caller resets the connection.
 */
int kw_charge_sock(const struct kw_charge *c, struct socket *sock)
{
	SOCK_INODE(sock)->i_uid = c->uid;
	sock->sk->sk_uid = c->uid;
	if (!c->sockets || kw_sk_memcg(sock->sk))
		return 0;
	return kw_charge_sock_memcg(c->memcg, sock->sk);
}

/**
 * kw_charge_sock_current() - charge the caller for a socket of root's
 * @sock: a socket that a worker has accepted
 *
 * Only a socket that the caller makes tells whether its sockets are charged.
 *
 * Context: process.
 * Return: 0 or -ENOMEM: the caller resets the connection.
 */
int kw_charge_sock_current(struct socket *sock)
{
	struct socket *made;
	struct kw_charge c;
	int ret;

	ret = kw_sock_create(sock_net(sock->sk), AF_INET, &made);
	if (ret)
		return ret;
	kw_charge_current(&c);
	kw_charge_learn(&c, made);
	sock_release(made);
	ret = kw_charge_sock(&c, sock);
	kw_charge_drop(&c);
	return ret;
}
