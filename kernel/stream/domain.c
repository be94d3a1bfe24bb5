// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The wait for those who use a stream's socket without its lock: see
 * kw_stream_kick().
 */
#include "stream/priv.h"

static void kw_domain_work(struct work_struct *work)
{
	struct kw_domain *d = container_of(to_delayed_work(work),
					   struct kw_domain, work);
	struct kw_stream *s, *next;
	LIST_HEAD(ending);

	spin_lock(&d->lock);
	list_splice_init(&d->ending, &ending);
	spin_unlock(&d->lock);
	synchronize_srcu_expedited(&d->srcu);
	/* @s may be freed once it is unused and the lock is released. */
	list_for_each_entry_safe(s, next, &ending, ending) {
		spin_lock(&d->lock);
		s->unused = true;
		kw_stream_queue(s, &s->end_work, 0);
		spin_unlock(&d->lock);
		cond_resched();
	}
}

/**
 * kw_domain_wait() - queue a stream's end_work when nothing uses its socket
 * @s: stream that no context finds any more
 *
 * Context: process.
 */
void kw_domain_wait(struct kw_stream *s)
{
	struct kw_domain *d = s->domain;

	spin_lock(&d->lock);
	list_add_tail(&s->ending, &d->ending);
	mod_delayed_work(d->wq, &d->work, 0);
	spin_unlock(&d->lock);
}

/**
 * kw_domain_waited() - whether the wait that kw_domain_wait() began is over
 * @s: stream
 *
 * An end_work that others have queued may ask before.
 *
 * Context: process.
 * Return: true if it is, and the stream can go.
 */
bool kw_domain_waited(struct kw_stream *s)
{
	bool over;

	spin_lock(&s->domain->lock);
	over = s->unused;
	spin_unlock(&s->domain->lock);
	return over;
}

/**
 * kw_domain_init() - prepare a domain
 * @d: domain
 * @user: a process's, not kernel consumers'
 *
 * Context: process, after kw_streams_init().
 * Return: 0 or -ENOMEM.
 */
int kw_domain_init(struct kw_domain *d, bool user)
{
	d->user = user;
	d->wq = kw_streams_ends_wq(user);
	d->streams_wq = kw_streams_wq(user);
	spin_lock_init(&d->lock);
	INIT_LIST_HEAD(&d->ending);
	INIT_DELAYED_WORK(&d->work, kw_domain_work);
	return init_srcu_struct(&d->srcu);
}

/**
 * kw_domain_exit() - undo kw_domain_init()
 * @d: domain whose streams are gone
 *
 * Context: process.
 */
void kw_domain_exit(struct kw_domain *d)
{
	/* kw_domain_work() may still run after the last stream has gone. */
	flush_delayed_work(&d->work);
	srcu_barrier(&d->srcu);
	cleanup_srcu_struct(&d->srcu);
}
