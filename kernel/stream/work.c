// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Work in process context: all layers of a stream queue it. */
#include "stream/priv.h"

static struct workqueue_struct *kw_stream_wq;
/* For kw_domain.work of processes, which may have to wait for them. */
static struct workqueue_struct *kw_ends_wq;

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
	kw_ends_wq = alloc_workqueue("kiwarp_ends", flags, WQ_MAX_ACTIVE);
	if (kw_ends_wq)
		return 0;
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
	destroy_workqueue(kw_ends_wq);
	destroy_workqueue(kw_stream_wq);
}

/**
 * kw_streams_wq() - the queue of a domain's work
 * @user: the domain is a process's
 *
 * Return: the queue.
 */
struct workqueue_struct *kw_streams_wq(bool user)
{
	return user ? kw_ends_wq : kw_stream_wq;
}

/**
 * kw_streams_queue() - run work in process context, on the streams' queue
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
 * kw_streams_run() - run a queue pair's work in process context, on that queue
 * @work: the work
 *
 * Context: any.
 * Return: false if it was waiting already.
 */
bool kw_streams_run(struct work_struct *work)
{
	return queue_work(kw_stream_wq, work);
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
	kw_streams_queue(work, delay);
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
}

/**
 * kw_stream_drained() - nothing is left to transmit
 * @s: stream
 *
 * Context: socket lock held.
 */
void kw_stream_drained(struct kw_stream *s)
{
	if (s->state == KW_STREAM_CLOSING || s->state == KW_STREAM_ERROR)
		kw_stream_queue(s, &s->end_work, 0);
}
