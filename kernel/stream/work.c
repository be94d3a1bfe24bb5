// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Work in process context: all layers of a stream queue it. */
#include "stream/priv.h"

static struct workqueue_struct *kw_stream_wq;
/*
 * For the streams of processes. Work takes the socket lock, and a process may
 * own that while its cgroup's quota keeps it from running. Kernel consumers do
 * not wait for the places that such work takes.
 */
static struct workqueue_struct *kw_users_wq;

/**
 * kw_work_init() - allocate the queues
 *
 * Context: module load.
 * Return: 0 or -ENOMEM.
 */
int kw_work_init(void)
{
	/* Reclaim may depend on storage behind a stream (NVMe-oF, iSER, NFS). */
	const unsigned int flags = WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_HIGHPRI;

	kw_stream_wq = alloc_workqueue("kiwarp", flags, 0);
	if (!kw_stream_wq)
		return -ENOMEM;
	kw_users_wq = alloc_workqueue("kiwarp_users", flags, WQ_MAX_ACTIVE);
	if (!kw_users_wq)
		goto free;
	return 0;
free:
	destroy_workqueue(kw_stream_wq);
	return -ENOMEM;
}

/**
 * kw_work_exit() - undo kw_work_init()
 *
 * Context: module unload, when there are no streams any more.
 */
void kw_work_exit(void)
{
	destroy_workqueue(kw_users_wq);
	destroy_workqueue(kw_stream_wq);
}

/**
 * kw_streams_wq() - the queue of the work of a domain's streams
 * @user: the domain is a process's
 *
 * Return: the queue.
 */
struct workqueue_struct *kw_streams_wq(bool user)
{
	return user ? kw_users_wq : kw_stream_wq;
}

/**
 * kw_streams_queue() - run work in process context, on kernel consumers' queue
 * @work: the work
 * @delay: jiffies
 *
 * Context: any. Work that is already waiting is moved to the new time.
 */
void kw_streams_queue(struct delayed_work *work, unsigned long delay)
{
	mod_delayed_work(kw_stream_wq, work, delay);
}

/**
 * kw_stream_run() - run a queue pair's work where that of its stream runs
 * @s: the stream
 * @work: the work
 *
 * Context: any.
 * Return: false if it was waiting already.
 */
bool kw_stream_run(struct kw_stream *s, struct work_struct *work)
{
	return queue_work(s->domain->streams_wq, work);
}

/**
 * kw_stream_queue() - run a stream's work in process context
 * @s: stream
 * @work: its tx.work, rx_work or end_work
 * @delay: jiffies
 *
 * Context: any. Work that is already waiting is moved to the new time.
 */
void kw_stream_queue(struct kw_stream *s, struct delayed_work *work,
		     unsigned long delay)
{
	mod_delayed_work(s->domain->streams_wq, work, delay);
}

/**
 * kw_stream_set_deadline() - have teardown go on after some time at the latest
 * @s: stream
 * @timeout: jiffies
 *
 * Context: socket lock held.
 */
void kw_stream_set_deadline(struct kw_stream *s, unsigned long timeout)
{
	s->deadline = jiffies + timeout;
	kw_stream_queue(s, &s->end_work, timeout);
	/* An abort does not wait for the lock, nor for what the deadline is for. */
	if (READ_ONCE(s->abort))
		kw_stream_queue(s, &s->end_work, 0);
}

/**
 * kw_stream_drained() - nothing is left to transmit
 * @s: stream
 *
 * Context: socket lock held.
 */
__hot void kw_stream_drained(struct kw_stream *s)
{
	if (s->state == KW_STREAM_CLOSING || s->state == KW_STREAM_ERROR)
		kw_stream_queue(s, &s->end_work, 0);
}
