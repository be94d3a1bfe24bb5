/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Sockets that outlive their streams until all is sent: see linger.c. */
#ifndef KW_STREAM_LINGER_H
#define KW_STREAM_LINGER_H

#include <linux/list.h>
#include <linux/net.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "stream/counters.h"

struct user_namespace;

/**
 * struct kw_lingers - a device's lingering sockets
 * @lock: all of it
 * @list: struct kw_linger
 * @nr: entries of @list
 * @users: how many of them each owner (uid) has
 * @closed: none are taken any more
 * @idle: to wait for @nr to become 0
 * @counters: the device's, by enum kw_counter
 */
struct kw_lingers {
	spinlock_t lock;		/* see above */
	struct list_head list;
	u32 nr;
	struct xarray users;
	bool closed;
	wait_queue_head_t idle;
	struct kw_counters __percpu *counters;
};

/**
 * struct kw_linger - a socket that lingers
 * @of: where it is listed
 * @node: in kw_lingers.list
 * @sock: the socket
 * @uid: its owner
 * @deadline: jiffies by which it is closed, however far it got
 * @acked: the peer has acknowledged everything that was sent
 * @work: checks whether it is over
 * @save_data_ready: the socket's own callback, to be put back
 * @save_state_change: likewise
 * @save_error_report: likewise
 */
struct kw_linger {
	struct kw_lingers *of;
	struct list_head node;
	struct socket *sock;
	u32 uid;
	unsigned long deadline;
	bool acked;
	struct delayed_work work;
	void (*save_data_ready)(struct sock *sk);
	void (*save_state_change)(struct sock *sk);
	void (*save_error_report)(struct sock *sk);
};

void kw_lingers_init(struct kw_lingers *of, struct kw_counters __percpu *counters);
void kw_lingers_open(struct kw_lingers *of);
void kw_lingers_close(struct kw_lingers *of);
void kw_sock_reset(struct socket *sock);
void kw_sock_close(struct socket *sock);
void kw_sock_drop(struct sock *sk);
kuid_t kw_linger_owner(struct user_namespace *ns, kuid_t uid);
int kw_linger_start(struct kw_lingers *of, struct kw_linger *l,
		    struct socket *sock, kuid_t owner, unsigned long limit);

#endif /* KW_STREAM_LINGER_H */
