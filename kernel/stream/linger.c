// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Sockets that outlive their streams until the peer has all that was sent.
 *
 * A work request completes when TCP has its bytes, so that a consumer may
 * destroy its queue pair, or exit, long before the peer has them. The socket
 * then sends the rest and a FIN behind it without the queue pair. It can not
 * be closed meanwhile: TCP answers data that comes for a closed socket with a
 * reset, and throws away what it still has to send. What comes is taken out
 * and dropped instead.
 *
 * Such a socket refers to no memory of the consumer's. What TCP holds stays
 * charged to the socket's memory cgroup. It ends when both sides have closed;
 * some time after the peer has acknowledged the FIN; when its time is over; or
 * with the device.
 */
#include <linux/jiffies.h>
#include <linux/user_namespace.h>
#include <net/tcp.h>
#include <trace/events/sock.h>

#include "stream/linger.h"
#include "stream/priv.h"

/*
 * Per device. TCP closes the sockets beyond that: it sends what it has and
 * bounds their number (tcp_max_orphans), but data from the peer reset them.
 */
#define KW_LINGER_MAX		4096

/* Of one owner (kw_linger_owner()) but root, so that no tenant takes all places. */
#define KW_LINGER_MAX_USER	(KW_LINGER_MAX / 8)

/* How long a peer that has acknowledged everything may take to close its half. */
#define KW_LINGER_FIN_WAIT	(3 * HZ)

/*
 * tcp_send_fin() that finds no memory says nothing. TCP is in the state that
 * follows a FIN then, without one to send or any timer but that of keepalive.
 * Socket lock held.
 */
static bool kw_fin_is_missing(const struct sock *sk)
{
	const struct sk_buff *skb;

	if (!((1 << sk->sk_state) & (TCPF_FIN_WAIT1 | TCPF_CLOSING | TCPF_LAST_ACK)))
		return false;
	skb = tcp_write_queue_tail(sk) ?: tcp_rtx_queue_tail(sk);
	return !skb || !(TCP_SKB_CB(skb)->tcp_flags & TCPHDR_FIN);
}

/**
 * kw_sock_reset() - reset a connection
 * @sock: connected socket without other users, with its own callbacks
 *
 * When both sides have closed tcp_disconnect() throws away what the peer has not
 * acknowledged, and tells a peer only that was to be sent more. Any other would
 * wait for the rest, or the FIN, until its own timers end.
 *
 * Context: process.
 */
void kw_sock_reset(struct socket *sock)
{
	struct sock *sk = sock->sk;
	struct tcp_sock *tp = tcp_sk(sk);

	lock_sock(sk);
	if ((1 << sk->sk_state) & (TCPF_CLOSING | TCPF_LAST_ACK) &&
	    tp->snd_nxt == tp->write_seq)
		WRITE_ONCE(tp->write_seq, tp->write_seq + 1);
	release_sock(sk);
	sock_no_linger(sk);
	sock_release(sock);
}

/**
 * kw_sock_close() - close a connection in order, or reset it
 * @sock: connected socket without other users, with its own callbacks
 *
 * TCP sends what it holds and a FIN. Where it has no memory for the FIN the
 * connection is reset: neither end would ever learn that it is over.
 *
 * Context: process.
 */
void kw_sock_close(struct socket *sock)
{
	struct sock *sk = sock->sk;
	bool unread, missing;

	lock_sock(sk);
	unread = tcp_inq(sk) > 0;
	release_sock(sk);
	/* With bytes left to read closing resets, and no FIN is to go first. */
	if (!unread)
		kernel_sock_shutdown(sock, SHUT_WR);
	lock_sock(sk);
	missing = kw_fin_is_missing(sk);
	release_sock(sk);
	if (missing)
		kw_sock_reset(sock);
	else
		sock_release(sock);
}

/**
 * kw_sock_drop() - take what has come out of a socket, and drop it
 * @sk: socket
 *
 * Context: socket lock held.
 */
void kw_sock_drop(struct sock *sk)
{
	int n = tcp_inq(sk);

	if (n > 0)
		tcp_read_done(sk, n);
}

static void kw_linger_data_ready(struct sock *sk)
{
	trace_sk_data_ready(sk);
	kw_sock_drop(sk);
}

/* The socket's state_change and error_report callback: socket lock held. */
static void kw_linger_wake(struct sock *sk)
{
	struct kw_linger *l = sk->sk_user_data;

	if (l)
		kw_streams_queue(&l->work, 0);
}

static void kw_linger_attach(struct kw_linger *l)
{
	struct sock *sk = l->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	l->save_data_ready = sk->sk_data_ready;
	l->save_state_change = sk->sk_state_change;
	l->save_error_report = sk->sk_error_report;
	sk->sk_user_data = l;
	sk->sk_data_ready = kw_linger_data_ready;
	sk->sk_state_change = kw_linger_wake;
	sk->sk_error_report = kw_linger_wake;
	write_unlock_bh(&sk->sk_callback_lock);
}

static void kw_linger_detach(struct kw_linger *l)
{
	struct sock *sk = l->sock->sk;

	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = NULL;
	sk->sk_data_ready = l->save_data_ready;
	sk->sk_state_change = l->save_state_change;
	sk->sk_error_report = l->save_error_report;
	write_unlock_bh(&sk->sk_callback_lock);
}

static bool kw_linger_is_acked(const struct sock *sk)
{
	return sk->sk_state == TCP_FIN_WAIT2 || sk->sk_state == TCP_TIME_WAIT ||
	       sk->sk_state == TCP_CLOSE;
}

/* Nothing is left to wait for. Socket lock held. */
static bool kw_linger_is_over(struct kw_linger *l)
{
	struct sock *sk = l->sock->sk;
	unsigned long end = jiffies + KW_LINGER_FIN_WAIT;

	if (sk->sk_err || sk->sk_state == TCP_CLOSE || READ_ONCE(l->of->closed))
		return true;
	/* Without a FIN the peer's half may stay open for ever. */
	if (!l->acked && (kw_linger_is_acked(sk) ||
			  (kw_fin_is_missing(sk) &&
			   tcp_rtx_and_write_queues_empty(sk)))) {
		l->acked = true;
		if (time_before(end, l->deadline))
			l->deadline = end;
	}
	return time_after_eq(jiffies, l->deadline);
}

/* of->lock held. */
static unsigned long kw_linger_of_user(struct kw_lingers *of, u32 uid)
{
	void *entry = xa_load(&of->users, uid);

	return entry ? xa_to_value(entry) : 0;
}

/*
 * Change a user's number of sockets: of->lock held. Fails without memory for one
 * more. The entries are not charged, but at most KW_LINGER_MAX.
 */
static int kw_linger_count(struct kw_lingers *of, u32 uid, int more)
{
	unsigned long n = kw_linger_of_user(of, uid) + more;

	return xa_err(xa_store(&of->users, uid, n ? xa_mk_value(n) : NULL,
			       GFP_ATOMIC | __GFP_NOWARN));
}

static void kw_linger_end(struct kw_linger *l)
{
	struct kw_lingers *of = l->of;
	struct sock *sk = l->sock->sk;

	spin_lock(&of->lock);
	list_del(&l->node);
	/* One less takes no memory. */
	kw_linger_count(of, l->uid, -1);
	spin_unlock(&of->lock);
	/* It may be queued once more, but cannot be queued again. */
	cancel_delayed_work(&l->work);
	if (!kw_linger_is_acked(sk)) {
		kw_counter_add(of->counters, KW_CNT_LINGER_RESET, 1);
		kw_sock_reset(l->sock);
	} else {
		sock_release(l->sock);
	}
	kfree(l);
	spin_lock(&of->lock);
	if (!--of->nr)
		wake_up(&of->idle);
	spin_unlock(&of->lock);
}

static void kw_linger_work(struct work_struct *work)
{
	struct kw_linger *l = container_of(to_delayed_work(work),
					   struct kw_linger, work);
	struct sock *sk = l->sock->sk;
	bool over;

	lock_sock(sk);
	kw_sock_drop(sk);
	over = kw_linger_is_over(l);
	if (over) {
		kw_linger_detach(l);
	} else {
		kw_streams_queue(&l->work, max_t(long, 1, l->deadline - jiffies));
		/* kw_lingers_close() does not wait for the lock. */
		if (READ_ONCE(l->of->closed))
			kw_streams_queue(&l->work, 0);
	}
	release_sock(sk);
	if (over)
		kw_linger_end(l);
}

/* Whether there is a place for a user's socket: of->lock held. */
static bool kw_linger_has_place(struct kw_lingers *of, u32 uid)
{
	if (of->nr >= KW_LINGER_MAX)
		return false;
	/* Kernel consumers' sockets are root's. */
	return of->nr < KW_LINGER_MAX_USER || !uid ||
	       kw_linger_of_user(of, uid) < KW_LINGER_MAX_USER;
}

static int kw_linger_enter(struct kw_lingers *of, struct kw_linger *l)
{
	int ret = 0;

	spin_lock(&of->lock);
	if (of->closed) {
		ret = -ENODEV;
	} else if (!kw_linger_has_place(of, l->uid) ||
		   kw_linger_count(of, l->uid, 1)) {
		ret = -EBUSY;
	} else {
		of->nr++;
		list_add_tail(&l->node, &of->list);
	}
	spin_unlock(&of->lock);
	return ret;
}

/**
 * kw_linger_owner() - find whom a process's sockets count for
 * @ns: its user namespace
 * @uid: its user
 *
 * A process in a user namespace can have any user that is mapped there, some
 * 65,536 as a rule. They all count as the one who made the outermost namespace.
 * Those of a namespace that root made for somebody count as its own root.
 *
 * Context: process, which keeps @ns.
 * Return: the user.
 */
kuid_t kw_linger_owner(struct user_namespace *ns, kuid_t uid)
{
	kuid_t root;

	if (ns == &init_user_ns)
		return uid;
	while (ns->parent != &init_user_ns)
		ns = ns->parent;
	if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
		return ns->owner;
	root = make_kuid(ns, 0);
	return uid_valid(root) ? root : uid;
}

/**
 * kw_linger_start() - let a socket send what it holds, then close it
 * @of: the device's
 * @l: memory from kmalloc(), zeroed; passes to the socket if this returns 0
 * @sock: socket without other users, with its own callbacks; passes likewise
 * @owner: whose it is: see kw_linger_owner()
 * @limit: jiffies from now after which it is reset
 *
 * Context: process.
 * Return: 0; -ENODEV if the device goes, and the socket with it; -EBUSY if too
 * many linger: the caller closes the socket.
 */
int kw_linger_start(struct kw_lingers *of, struct kw_linger *l,
		    struct socket *sock, kuid_t owner, unsigned long limit)
{
	struct sock *sk = sock->sk;
	int ret;

	if (READ_ONCE(of->closed))
		return -ENODEV;
	l->of = of;
	l->sock = sock;
	l->uid = __kuid_val(owner);
	l->deadline = jiffies + limit;
	INIT_DELAYED_WORK(&l->work, kw_linger_work);
	kernel_sock_shutdown(sock, SHUT_WR);
	lock_sock(sk);
	/* From here on kw_lingers_close() may queue the work, which takes the lock. */
	ret = kw_linger_enter(of, l);
	if (!ret) {
		kw_linger_attach(l);
		kw_streams_queue(&l->work, 0);
	} else if (ret == -EBUSY) {
		/* TCP resets a socket that is closed with bytes left to read. */
		kw_sock_drop(sk);
	}
	release_sock(sk);
	return ret;
}

/**
 * kw_lingers_init() - prepare a device's list of lingering sockets
 * @of: the device's
 * @counters: the device's
 */
void kw_lingers_init(struct kw_lingers *of, struct kw_counters __percpu *counters)
{
	memset(of, 0, sizeof(*of));
	spin_lock_init(&of->lock);
	INIT_LIST_HEAD(&of->list);
	xa_init(&of->users);
	init_waitqueue_head(&of->idle);
	of->counters = counters;
}

/**
 * kw_lingers_open() - sockets may linger again
 * @of: the device's
 *
 * Context: process, when the device comes, be it from another namespace.
 */
void kw_lingers_open(struct kw_lingers *of)
{
	spin_lock(&of->lock);
	WRITE_ONCE(of->closed, false);
	spin_unlock(&of->lock);
}

/**
 * kw_lingers_close() - close all lingering sockets, and accept no more
 * @of: the device's
 *
 * Context: process, before the device goes, be it to another namespace; may be
 * called again.
 */
void kw_lingers_close(struct kw_lingers *of)
{
	struct kw_linger *l;

	spin_lock(&of->lock);
	WRITE_ONCE(of->closed, true);
	list_for_each_entry(l, &of->list, node)
		kw_streams_queue(&l->work, 0);
	spin_unlock(&of->lock);
	wait_event(of->idle, !READ_ONCE(of->nr));
	/* The one that set nr to 0 may still hold the lock. */
	spin_lock(&of->lock);
	spin_unlock(&of->lock);
}
