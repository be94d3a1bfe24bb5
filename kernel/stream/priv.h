/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A stream's states and work, for the other parts of stream/. */
#ifndef KW_STREAM_PRIV_H
#define KW_STREAM_PRIV_H

#include "stream/counters.h"
#include "stream/ops.h"
#include "stream/stream.h"

/* Whether data flow: not after an error, and not without a connection. */
static inline bool kw_stream_live(const struct kw_stream *s)
{
	return s->state == KW_STREAM_OPEN || s->state == KW_STREAM_CLOSING;
}

/* Whether rx_work still has something to receive of what has come. */
static inline bool kw_rx_unfinished(const struct kw_stream *s)
{
	return s->rx.later || s->rx.starved;
}

/* The version of DDP and RDMAP. */
static inline u8 kw_stream_version(const struct kw_stream *s)
{
	return s->p.rdmac ? KW_DDP_VERSION_RDMAC : KW_DDP_VERSION;
}

/* The queues of the untagged model. */
static inline u32 kw_stream_queues(const struct kw_stream *s)
{
	return s->p.set.atomics ? KW_NR_QN_ATOMICS : KW_NR_QN;
}

/*
 * Places for inbound Reads and atomic operations: those of the IRD, and one for
 * a Read of no length, which some RNICs send as their first message, negotiated
 * or not. Others never take that one: see kw_rx_irq_has_room().
 */
static inline u32 kw_irq_size(const struct kw_stream *s)
{
	return s->p.ird + 1;
}

/*
 * Places for this side's own: those of the ORD. The Read that serves as RTR
 * needs one, whatever the ORD is: it goes before all others.
 */
static inline u32 kw_orq_size(const struct kw_stream *s)
{
	return max(s->p.ord, 1U);
}

/* Does a request count against the IRD? */
static inline bool kw_irq_counts(const struct kw_irq_entry *e)
{
	return e->is_atomic || e->read.size;
}

/* Count in a pass over the stream, inside mem_srcu: see kw_stream_set_counters(). */
static inline void kw_pass_count(const struct kw_stream *s, enum kw_counter c,
				 u64 n)
{
	kw_counter_add(READ_ONCE(s->counters), c, n);
}

/* Count outside of passes, in any context. */
static inline void kw_stream_count(const struct kw_stream *s, enum kw_counter c)
{
	int idx = srcu_read_lock(s->mem_srcu);

	kw_pass_count(s, c, 1);
	srcu_read_unlock(s->mem_srcu, idx);
}

/* work.c */
int kw_work_init(void);
void kw_work_exit(void);
struct workqueue_struct *kw_streams_wq(bool user);
void kw_stream_queue(struct kw_stream *s, struct delayed_work *work,
		     unsigned long delay);
void kw_stream_set_deadline(struct kw_stream *s, unsigned long timeout);
void kw_stream_drained(struct kw_stream *s);

/* users.c */
void kw_users_begin(struct kw_stream *s);
bool kw_users_end(struct kw_stream *s);
bool kw_users_gone(struct kw_stream *s);

/* How long a peer may take to read what is left, and to close its half. */
#define KW_ERROR_TIMEOUT	(3 * HZ)

/* fail.c */
void kw_stream_fail(struct kw_stream *s, enum kw_fail why, bool terminate);

/* teardown.c */
void kw_stream_free_queues(struct kw_stream *s);
void kw_stream_check_peer(struct kw_stream *s);
void kw_end_work(struct work_struct *work);
void kw_end_check_lost(struct sock *sk);

#endif /* KW_STREAM_PRIV_H */
