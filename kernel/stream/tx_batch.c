// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Batches of messages that a process posts one by one.
 *
 * A call for each message that sends it at once costs a way through TCP and IP
 * for each, and a wake-up of the receiver for each. A process that goes on and
 * on posting, without anything coming from its peer, is not in a hurry with a
 * single message: what it posts is sent together, after batch_us at the latest.
 *
 * Nothing that somebody waits for is held back. A work request that asks for a
 * completion is sent at once, with all before it; so is what is posted by a
 * process that converses with its peer, since each message that arrives, and
 * each Read that completes where that was asked for, ends the streak.
 */
#include <linux/hrtimer.h>
#include <linux/sched/clock.h>

#include "compat.h"
#include "stream/tx_batch.h"

/* Doorbells in a row that are answered at once. */
#define KW_BATCH_AFTER	4
/* Octets that are enough for a batch: some of the largest socket buffers. */
#define KW_BATCH_OCTETS	(512 * 1024)

static enum hrtimer_restart kw_batch_timer(struct hrtimer *timer)
{
	struct kw_stream *s = container_of(timer, struct kw_stream,
					   batch.timer);
	int idx = srcu_read_lock(s->mem_srcu);
	u8 state = READ_ONCE(s->state);

	if (state == KW_STREAM_OPEN || state == KW_STREAM_CLOSING)
		kw_stream_kick(s, KW_KICK_ATOMIC);
	srcu_read_unlock(s->mem_srcu, idx);
	return HRTIMER_NORESTART;
}

/**
 * kw_batch_init() - prepare a stream's batches
 * @s: stream that has no connection
 */
void kw_batch_init(struct kw_stream *s)
{
	hrtimer_setup(&s->batch.timer, kw_batch_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_SOFT);
}

/**
 * kw_batch_end() - forget what is held back
 * @s: stream that is ending: no doorbell finds it any more
 *
 * Context: process.
 */
void kw_batch_end(struct kw_stream *s)
{
	hrtimer_cancel(&s->batch.timer);
}

/* One more doorbell: may what it is rung for wait? */
static bool kw_batch_goes_on(struct kw_stream *s, u64 now, u32 octets)
{
	struct kw_batch *b = &s->batch;
	u32 heard = READ_ONCE(s->rx.told);

	if (now - b->rung > s->p.batch_us * NSEC_PER_USEC || heard != b->heard) {
		b->heard = heard;
		b->streak = 0;
	}
	b->octets += octets;
	return ++b->streak > KW_BATCH_AFTER && b->octets < KW_BATCH_OCTETS;
}

/**
 * kw_stream_doorbell() - a process has posted to the send queue
 * @s: started stream
 * @octets: of the last message posted, as far as is known
 * @soon: somebody waits for it
 *
 * What it leaves in @s->batch is not locked: two doorbells at the same time
 * can end a streak, or go on with one, without reason.
 *
 * Context: process; as kw_stream_kick().
 */
void kw_stream_doorbell(struct kw_stream *s, u32 octets, bool soon)
{
	struct kw_batch *b = &s->batch;

	if (!s->p.batch_us) {
		kw_stream_kick(s, KW_KICK_SLEEP);
		return;
	}
	if (kw_batch_goes_on(s, local_clock(), octets) && !soon) {
		/*
		 * Pairs with kw_tx_claim() of the timer: a timer that does not
		 * see what was posted is not queued any more here.
		 */
		smp_mb();
		if (!hrtimer_is_queued(&b->timer))
			hrtimer_start(&b->timer, ns_to_ktime(s->p.batch_us * NSEC_PER_USEC),
				      HRTIMER_MODE_REL_SOFT);
	} else {
		b->octets = 0;
		kw_stream_kick(s, KW_KICK_SLEEP);
	}
	b->rung = local_clock();
}
