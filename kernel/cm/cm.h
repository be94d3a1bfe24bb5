/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Connection management: everything between iw_cm and a socket in FPDU mode.
 *
 * An endpoint (struct kw_ep) is one connection. It owns a TCP socket from
 * connect() or accept() to the end of MPA start-up, then gives it to a queue
 * pair's stream. From then on it only reports the end of the connection to
 * iw_cm. A listener (struct kw_listener) is one iw_cm listening identifier.
 *
 * Contexts: nothing here waits for the network. The socket's callbacks
 * (softirq) only put the endpoint into a step queue. Four do the work, in
 * process context, one at a time under kw_ep.lock: the queue's work item, the
 * endpoint's, its timer, and iw_cm's calls.
 *
 * Order: a consumer gets connections in the order in which they were made, as
 * with hardware (perftest -q pairs its queue pairs so). A step queue takes the
 * steps of its endpoints one after the other. Each listener has its own. Active
 * endpoints share one if one user, in one memory cgroup, connects them to one
 * port of one host. Others do not wait for them.
 *
 * Locks, outer to inner, and what they guard:
 *   kw_ep.lock (mutex)		all of an endpoint but what is said below
 *   kw_listener.lock (mutex)	the listener's cm_id and socket
 *   kw_half_open.lock (spinlock)	peers that have not sent a request yet
 *   kw_device.eps_lock (spinlock) the list of a device's endpoints
 *   sk_callback_lock		sk_user_data and the socket's callbacks
 *
 * By itself:
 *   kw_listeners_lock (mutex)	the list of listeners
 *
 * No lock is held while waiting for work to finish.
 *
 * Lifetimes: a live endpoint holds one reference to itself, which kw_ep_end()
 * drops; queued work, a running timer and callers hold more. Each endpoint
 * keeps its ib_device from going away. iw_cm knows an endpoint that waits for
 * its consumer by a number and not by its address. It drops connection requests
 * without a call when a listener is destroyed, so that a reference would never
 * be returned.
 *
 * What iw_cm requires (it BUG()s otherwise):
 * - after iw_connect returned 0, exactly one CONNECT_REPLY;
 * - after iw_accept returned 0, exactly one ESTABLISHED, and no event at all if
 *   it failed;
 * - CLOSE at most once, and only after a good CONNECT_REPLY or ESTABLISHED.
 *
 * It also relies on its consumer to answer a request once. Processes do not
 * have to: see kw_accept_listen_in().
 */
#ifndef KW_CM_H
#define KW_CM_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/siphash.h>
#include <linux/workqueue.h>
#include <net/sock.h>
#include <rdma/iw_cm.h>

#include "verbs/verbs.h"
#include "wire/mpa.h"

/*
 * The private data that rdma_cm can pass to a consumer: its events have a byte
 * for the length, and so has what a consumer sends. MPA has room for more.
 */
#define KW_CM_PD_MAX		U8_MAX

/*
 * A listener's unanswered requests, at least; its backlog may allow more. Half
 * of the places are for peers in whose bucket are less than this part of them.
 */
#define KW_MIN_PENDING		64
#define KW_PENDING_SHARE	4

/*
 * Peers that have connected and not sent a request yet, per listener, at least;
 * its backlog may allow more. And which part of them may be in one bucket.
 */
#define KW_MIN_HALF_OPEN	1024
#define KW_HALF_OPEN_SHARE	4
#define KW_PEER_BUCKETS		64

/**
 * enum kw_ep_state - where a connection is
 * @KW_EP_NEW: nothing has happened
 * @KW_EP_CONNECTING: active: TCP connects
 * @KW_EP_AWAIT_REPLY: active: the first frame is sent, the peer is to answer
 * @KW_EP_AWAIT_REQUEST: passive: the peer is to send its first frame
 * @KW_EP_HAVE_REQUEST: passive: it did, but there is no place for it yet, or
 *	iw_cm has no room
 * @KW_EP_OFFERED: passive: the consumer decides
 * @KW_EP_AWAIT_KEY: revision 0 with private data, which are exchanged: the peer
 *	is to send its Start Key
 * @KW_EP_RUNNING: the stream owns the socket
 * @KW_EP_DEAD: over; only references remain
 */
enum kw_ep_state {
	KW_EP_NEW,
	KW_EP_CONNECTING,
	KW_EP_AWAIT_REPLY,
	KW_EP_AWAIT_REQUEST,
	KW_EP_HAVE_REQUEST,
	KW_EP_OFFERED,
	KW_EP_AWAIT_KEY,
	KW_EP_RUNNING,
	KW_EP_DEAD,
};

/* Bits of kw_ep.flags, set without kw_ep.lock. */
enum kw_ep_flag {
	KW_EP_KILLED,		/* the device goes away */
	KW_EP_QP_GONE,		/* the queue pair is in error or destroyed, or going */
	KW_EP_CLOSED,		/* the stream is over; close_status is set */
	KW_EP_QUEUED,		/* kw_ep.next is in use */
};

/**
 * struct kw_charge - memory cgroup and user that are charged
 * @memcg: memory cgroup, referenced; NULL without the memory controller
 * @uid: user
 * @sockets: the sockets of @memcg's processes are charged to it
 *
 * Worker threads do most of the work. What they allocate would otherwise be
 * charged to no user.
 */
struct kw_charge {
	struct mem_cgroup *memcg;
	kuid_t uid;
	bool sockets;
};

/**
 * struct kw_step_queue - endpoints whose steps are taken in order
 * @ref: of the listener, of each endpoint's kw_start, and of @work
 * @ready: endpoints that have something to do, the last one first; each with a
 *	reference
 * @work: takes the steps
 * @node: active: where kw_steps_choose() finds it
 * @charge: active: of the process that connects
 * @peer: active: where to
 */
struct kw_step_queue {
	struct kref ref;
	struct llist_head ready;
	struct work_struct work;
	struct rb_node node;
	struct kw_charge charge;
	struct sockaddr_storage peer;
};

/**
 * struct kw_half_open - a listener's peers that have not sent a request yet
 * @lock: all of it, and kw_listener.asked and .requests
 * @key: secret, so that a peer cannot choose its bucket
 * @nr: endpoints
 * @waiting: those of them whose request waits for a place
 * @peer: by bucket: the number of endpoints and a list, the oldest first; how
 *	many requests are unanswered, and a list of those that wait for a place
 *
 * When all places are taken a new one evicts the oldest: of its own bucket, if
 * that has more than its share, otherwise of all. A request whose peers have
 * their share of unanswered ones counts as half-open until it has a place.
 */
struct kw_half_open {
	spinlock_t lock;	/* see above */
	siphash_key_t key;
	u32 nr;
	u32 waiting;
	struct {
		u32 nr;
		struct list_head eps;
		u32 asked;
		struct list_head waiting;
	} peer[KW_PEER_BUCKETS];
};

/**
 * struct kw_sock_ops - a socket's own callbacks, to be put back
 * @data_ready: data have arrived
 * @state_change: TCP's state has changed
 * @error_report: an error has come up
 */
struct kw_sock_ops {
	void (*data_ready)(struct sock *sk);
	void (*state_change)(struct sock *sk);
	void (*error_report)(struct sock *sk);
};

/**
 * struct kw_listener - an iw_cm listening identifier
 * @ref: one until iw_destroy_listen, one for each endpoint
 * @node: in the list of all listeners
 * @dev: the device
 * @lock: @cm_id, @sock
 * @cm_id: where connection requests go; NULL once destroyed
 * @sock: the listening socket; NULL when closed, or when none of the
 *	addresses listened on is on the device's interface
 * @data_ready: the socket's own callback
 * @work: accepts connections; holds a reference
 * @retry: how long @work last waited to try again, jiffies; @work alone uses it
 * @steps: the steps of endpoints that are not yet answered
 * @half: those that have not sent a request yet
 * @asked: number of those that have, and have a place
 * @requests: of these the ones that iw_cm does not know, the oldest first
 * @limit: bound of @asked; more wait in TCP's queue
 * @max_half: bound of @half
 * @port: the consumer's port
 * @late: made by rdma_cm for an older identifier when the device was registered
 * @charge: of the process that listens; root's if @late
 */
struct kw_listener {
	struct kref ref;
	struct list_head node;
	struct kw_device *dev;
	struct mutex lock;	/* see above */
	struct iw_cm_id *cm_id;
	struct socket *sock;
	void (*data_ready)(struct sock *sk);
	struct delayed_work work;
	unsigned long retry;
	struct kw_step_queue *steps;
	struct kw_half_open half;
	u32 asked;
	struct list_head requests;
	u32 limit;
	u32 max_half;
	__be16 port;
	bool late;
	struct kw_charge charge;
};

/**
 * struct kw_start - what an endpoint needs to know until the stream runs
 * @charge: of the process that listens or connects
 * @steps: the queue of its steps, referenced; NULL until it is chosen
 * @ep: the endpoint
 * @half: passive: in kw_half_open, until the peer has sent its request, and
 *	there is a place for it
 * @half_since: when it was put there, jiffies
 * @half_peer: its bucket
 * @request: passive: in kw_listener.requests, or while it waits for a place in
 *	the bucket's
 * @orig: the socket's own callbacks
 * @deadline: when the current step must have ended, jiffies
 * @net: active: the network namespace to connect in, referenced
 * @ifindex: active: the device's interface, for link-local addresses
 * @set: the device's settings as they were when the connection began
 * @peer: active: where to connect
 * @rev: active: MPA revision
 * @offer: active: enhanced data of the request
 * @pd: active: private data of the request, kept for another try
 * @pd_len: bytes of @pd
 * @frame: the peer's first frame
 * @rx_len: bytes in @rx
 * @rx: that frame as it arrived, private data included
 * @key: the peer's Start Key, where it is not the first frame
 * @key_len: bytes in @key_rx
 * @key_rx: the Start Key as it arrived
 */
struct kw_start {
	struct kw_charge charge;
	struct kw_step_queue *steps;
	struct kw_ep *ep;
	struct list_head half;
	unsigned long half_since;
	u32 half_peer;
	struct list_head request;
	struct kw_sock_ops orig;
	unsigned long deadline;
	struct net *net;
	int ifindex;
	struct kw_settings set;
	struct sockaddr_storage peer;
	u8 rev;
	struct kw_mpa_enh offer;
	u8 *pd;
	u16 pd_len;
	struct kw_mpa_frame frame;
	u32 rx_len;
	u8 rx[KW_MPA_FRAME_LEN + KW_MPA_PD_MAX];
	struct kw_mpa_frame key;
	u32 key_len;
	u8 key_rx[KW_MPA_START_LEN];
};

/**
 * struct kw_ep - a connection
 * @ref: see the top of this file
 * @state: where the connection is
 * @node: in kw_device.eps
 * @dev: the device; the endpoint holds it
 * @lock: all but @ref, @node, @dev and @flags, unless said otherwise
 * @flags: enum kw_ep_flag, atomic
 * @close_status: why the stream ended, valid with %KW_EP_CLOSED
 * @handle: passive: the number by which iw_cm knows the endpoint, or 0
 * @cm_id: iw_cm's identifier, referenced; NULL on a passive endpoint until
 *	its consumer has accepted
 * @listener: passive: where it came from, until answered
 * @sock: the socket, while this endpoint owns it
 * @next: in a step queue
 * @work: steps of the protocol that need no order
 * @timer: bounds the current step
 * @start: NULL in %KW_EP_RUNNING and what follows it
 * @qp: active, and passive in %KW_EP_AWAIT_KEY: the queue pair, referenced,
 *	which has the endpoint as its kw_qp.waiter; NULL otherwise
 * @ird: inbound RDMA Reads and atomics
 * @ord: outbound RDMA Reads and atomics
 * @port: passive: the listener's port as its consumer knows it
 * @active: this side connects
 *
 * An idle connection keeps this. In this order of members there are no holes:
 * it takes 256 bytes of a 64-bit kernel without debugging.
 */
struct kw_ep {
	struct kref ref;
	enum kw_ep_state state;
	struct list_head node;
	struct kw_device *dev;
	struct mutex lock;	/* see above */
	unsigned long flags;
	int close_status;
	u32 handle;
	struct iw_cm_id *cm_id;
	struct kw_listener *listener;
	struct socket *sock;
	struct llist_node next;
	struct work_struct work;
	struct delayed_work timer;
	struct kw_start *start;
	struct kw_qp *qp;
	u16 ird;
	u16 ord;
	__be16 port;
	bool active;
};

#define kw_ep_dbg(ep, fmt, ...) \
	ibdev_dbg_ratelimited(&(ep)->dev->ib, "connection: " fmt, ##__VA_ARGS__)

extern struct workqueue_struct *kw_cm_wq;

/* conn.c: called by main.c */
extern const struct ib_device_ops kw_cm_ops;
int kw_cm_init(void);
void kw_cm_exit(void);
void kw_cm_device_gone(struct kw_device *dev);

/* conn.c: endpoints */
struct kw_ep *kw_ep_create(struct kw_device *dev,
			   const struct kw_charge *charge);
void kw_ep_get(struct kw_ep *ep);
void kw_ep_put(struct kw_ep *ep);
void kw_ep_set_state(struct kw_ep *ep, enum kw_ep_state state);
void kw_ep_kick(struct kw_ep *ep);
void kw_ep_step(struct kw_ep *ep);
void kw_ep_set_timer(struct kw_ep *ep, u32 ms);
void kw_ep_retry_in(struct kw_ep *ep, u32 ms);
void kw_ep_attach(struct kw_ep *ep, struct socket *sock,
		  void (*data_ready)(struct sock *sk));
void kw_ep_drop_sock(struct kw_ep *ep, bool abort);
void kw_ep_end(struct kw_ep *ep, bool abort);
int kw_ep_find_qp(struct kw_ep *ep, struct iw_cm_id *id, u32 qpn,
		  struct kw_qp **result);
int kw_ep_wait_with(struct kw_ep *ep, struct kw_qp *qp);
int kw_ep_run(struct kw_ep *ep, struct kw_qp *qp,
	      struct kw_stream_params *params);
void kw_ep_free_start(struct kw_ep *ep);
void kw_ep_fill_event(struct kw_ep *ep, struct iw_cm_event *event);

/* steps.c: steps in order */
struct kw_step_queue *kw_steps_create(void);
void kw_steps_put(struct kw_step_queue *steps);
void kw_steps_add(struct kw_step_queue *steps, struct kw_ep *ep);
int kw_steps_choose(struct kw_ep *ep);
void kw_steps_exit(void);

/* half.c: peers that have not sent a request yet */
void kw_half_init(struct kw_half_open *h);
void kw_half_enter(struct kw_listener *l, struct kw_ep *ep);
bool kw_half_asked(struct kw_ep *ep);
bool kw_listener_full(const struct kw_listener *l);
bool kw_half_is_next(struct kw_ep *ep);
void kw_half_offered(struct kw_listener *l, struct kw_ep *ep);
bool kw_half_left(struct kw_listener *l, struct kw_ep *ep);
void kw_half_make_room(struct kw_listener *l, u32 peer);
void kw_half_kick(struct kw_listener *l);

/* charge.c: memory cgroups and users */
void kw_charge_current(struct kw_charge *c);
void kw_charge_root(struct kw_charge *c);
void kw_charge_copy(struct kw_charge *c, const struct kw_charge *from);
void kw_charge_drop(struct kw_charge *c);
void kw_charge_learn(struct kw_charge *c, const struct socket *sock);
int kw_charge_sock(const struct kw_charge *c, struct socket *sock);
int kw_charge_sock_current(struct socket *sock);

/* sock.c: sockets and addresses */
struct net *kw_dev_net(struct kw_device *dev, int *ifindex);
struct rdma_cm_id *kw_id_consumer(const struct iw_cm_id *id);
struct net *kw_id_net(struct iw_cm_id *id);
int kw_sock_create(struct net *net, int family, struct socket **sock);
void kw_sock_tune(struct socket *sock, const struct kw_settings *set);
void kw_sock_set_tos(struct socket *sock, u8 tos);
int kw_sock_names(struct socket *sock, struct sockaddr_storage *local,
		  struct sockaddr_storage *peer);
int kw_addr_len(const struct sockaddr_storage *addr);
bool kw_addr_any(const struct sockaddr_storage *addr);
bool kw_addr_loopback(const struct sockaddr_storage *addr);
void kw_addr_set_scope(struct sockaddr_storage *addr, int ifindex);
int kw_addr_cmp(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
__be16 *kw_addr_port(struct sockaddr_storage *addr);

/* start.c: the frames of MPA start-up */
int kw_start_read(struct kw_ep *ep, u8 kinds);
int kw_start_read_key(struct kw_ep *ep);
int kw_start_peer_silent(struct kw_ep *ep);
int kw_start_request(struct kw_ep *ep);
int kw_start_key(struct kw_ep *ep, bool crc);
int kw_start_reply(struct kw_ep *ep, const struct kw_stream_params *params,
		   const void *pd, u32 pd_len);
int kw_start_reject(struct kw_ep *ep, const void *pd, u32 pd_len);
void kw_start_terminate(struct kw_ep *ep, u16 code);
const u8 *kw_start_pd(const struct kw_ep *ep, u32 *len);
u32 kw_start_pd_room(const struct kw_ep *ep);

/* negotiate.c: what the frames negotiate */
const struct kw_mpa_frame *kw_negotiate_peer(const struct kw_ep *ep);
bool kw_negotiate_peer_depths(const struct kw_ep *ep, struct iw_cm_event *event);
void kw_negotiate_offer(struct kw_ep *ep);
u16 kw_negotiate_active(struct kw_ep *ep, struct kw_stream_params *params);
void kw_negotiate_passive(struct kw_ep *ep, struct kw_stream_params *params);
void kw_negotiate_answer(const struct kw_ep *ep,
			 const struct kw_stream_params *params,
			 struct kw_mpa_enh *enh);

/* connect.c: the active side's steps */
void kw_connect_step(struct kw_ep *ep);
void kw_reply_step(struct kw_ep *ep);
void kw_reply_key_step(struct kw_ep *ep);
void kw_connect_fail(struct kw_ep *ep, int status);
int kw_iw_connect(struct iw_cm_id *id, struct iw_cm_conn_param *param);

/* accept.c: the passive side's steps */
void kw_request_step(struct kw_ep *ep);
void kw_offer_step(struct kw_ep *ep);
void kw_accept_key_step(struct kw_ep *ep);
void kw_accept_fail(struct kw_ep *ep, int status);
void kw_offer_forget(struct kw_ep *ep);
void kw_offer_exit(void);
int kw_iw_accept(struct iw_cm_id *id, struct iw_cm_conn_param *param);
int kw_iw_reject(struct iw_cm_id *id, const void *pdata, u8 len);

/* listen.c: listeners */
void kw_listener_get(struct kw_listener *l);
void kw_listener_put(struct kw_listener *l);
void kw_listener_answered(struct kw_listener *l, struct kw_ep *ep);
void kw_listeners_close(struct kw_device *dev);
int kw_iw_create_listen(struct iw_cm_id *id, int backlog);
int kw_iw_destroy_listen(struct iw_cm_id *id);

#endif /* KW_CM_H */
