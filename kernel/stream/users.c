// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Who uses a stream's socket without its lock: doorbells, which take the lock
 * only when they transmit, and may be kept from running before that. The socket
 * is released when there are none any more. No worker waits for them, and no
 * other stream: the last one lets teardown go on.
 */
#include "stream/priv.h"

/* Returns true if that was the last one. */
static __hot bool kw_users_drop(struct kw_stream *s, bool go_on)
{
	unsigned long flags;
	bool last;

	if (atomic_add_unless(&s->users, -1, 1))
		return false;
	raw_spin_lock_irqsave(&s->domain->lock, flags);
	last = atomic_dec_and_test(&s->users);
	if (last)
		s->unused = true;
	/*
	 * Under the lock: who sees @unused lets the stream go. One that did not
	 * start has nothing to end.
	 */
	if (last && go_on && kw_stream_state(s) == KW_STREAM_DEAD)
		kw_stream_queue(s, &s->end_work, 0);
	raw_spin_unlock_irqrestore(&s->domain->lock, flags);
	return last;
}

/**
 * kw_users_begin() - have a stream count as one of its users
 * @s: stream that is about to start
 *
 * It need not be the only one: who found the last connection open may still
 * look whether this one is.
 *
 * Context: process.
 */
void kw_users_begin(struct kw_stream *s)
{
	raw_spin_lock_irq(&s->domain->lock);
	s->unused = false;
	atomic_inc(&s->users);
	raw_spin_unlock_irq(&s->domain->lock);
}

/**
 * kw_users_end() - no longer have it count, when no context finds it any more
 * @s: stream that did not start, or is %KW_STREAM_DEAD
 *
 * Context: process.
 * Return: true if that was the last reference. If false, who drops the last
 * queues end_work of a stream that had started.
 */
bool kw_users_end(struct kw_stream *s)
{
	return kw_users_drop(s, false);
}

/**
 * kw_users_gone() - whether the last reference to a stream is dropped
 * @s: stream
 *
 * An end_work that others have queued may ask before.
 *
 * Context: process.
 * Return: true if so, and the stream can go.
 */
bool kw_users_gone(struct kw_stream *s)
{
	bool gone;

	raw_spin_lock_irq(&s->domain->lock);
	gone = s->unused;
	raw_spin_unlock_irq(&s->domain->lock);
	return gone;
}

/**
 * kw_users_lock() - keep a stream's socket for a moment, without being a user
 * @s: stream of a queue pair that stays meanwhile
 *
 * A socket that there is in %KW_STREAM_OPEN and %KW_STREAM_CLOSING stays until
 * kw_users_unlock(). The state is to be read after this.
 *
 * Context: process; interrupts are off until then.
 */
void kw_users_lock(struct kw_stream *s)
	__acquires(&s->domain->lock)
{
	raw_spin_lock_irq(&s->domain->lock);
}

/**
 * kw_users_unlock() - the opposite of kw_users_lock()
 * @s: stream
 *
 * Context: as of that.
 */
void kw_users_unlock(struct kw_stream *s)
	__releases(&s->domain->lock)
{
	raw_spin_unlock_irq(&s->domain->lock);
}

/* None is added when the end waits for those that there are. */
static bool kw_users_add(struct kw_stream *s)
{
	return READ_ONCE(s->state) != KW_STREAM_DEAD &&
	       atomic_inc_not_zero(&s->users);
}

/**
 * kw_stream_get() - use a stream's socket without its lock
 * @s: stream of a queue pair that stays meanwhile
 *
 * There is a socket if its state, which is to be read after this, is
 * %KW_STREAM_OPEN or %KW_STREAM_CLOSING: a start that fails has users, too.
 *
 * Orders as smp_mb() does, also if it fails.
 *
 * Context: any.
 * Return: true if there may be a socket; kw_stream_put() then.
 */
__hot bool kw_stream_get(struct kw_stream *s)
{
	if (kw_users_add(s))
		return true;
	/* A start that is not seen after this sees what was posted before. */
	smp_mb();
	return kw_users_add(s);
}

/**
 * kw_stream_put() - the opposite of kw_stream_get()
 * @s: stream
 *
 * Context: any.
 */
__hot void kw_stream_put(struct kw_stream *s)
{
	kw_users_drop(s, true);
}
