// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* What the streams of one owner share. */
#include "stream/priv.h"

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
	d->streams_wq = kw_streams_wq(user);
	raw_spin_lock_init(&d->lock);
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
	srcu_barrier(&d->srcu);
	cleanup_srcu_struct(&d->srcu);
}
