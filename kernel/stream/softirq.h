/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The budget of a softirq, which all streams of a CPU share.
 *
 * Nothing preempts a softirq (without PREEMPT_RT), and one run of it handles
 * many packets, of one stream or of many. The kernel counts packets
 * (net.core.netdev_budget), but each can bring a thousand small FPDUs, or an
 * acknowledgment that makes room for a thousand messages. So what a run
 * receives and transmits for all streams of its CPU is limited as a whole. The
 * workers do the rest, and can be preempted.
 *
 * A thread that polls a device (threaded NAPI, busy polling) turns softirqs off
 * for 64 packets at a time, but is none: there each pass has its own budget
 * only.
 */
#ifndef KW_STREAM_SOFTIRQ_H
#define KW_STREAM_SOFTIRQ_H

#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/kernel_stat.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

/*
 * In units of KW_TX_BUDGET; receiving, a unit is as many FPDUs, or bytes. The
 * fuzzer's is smaller.
 */
#ifndef KW_SOFTIRQ_BUDGET
#define KW_SOFTIRQ_BUDGET	256
#endif
/*
 * What a pass may do even then, so that a stream of small messages does not wait
 * for a worker because of another stream: the kernel bounds the passes.
 */
#define KW_SOFTIRQ_LEAST	2
/* More than any pass may do by itself, in FPDUs and in bytes, too. */
#define KW_SOFTIRQ_UNLIMITED	0x10000
#define KW_SOFTIRQ_RX_FPDUS	4
#define KW_SOFTIRQ_RX_BYTES	4096

/**
 * struct kw_softirq - what a CPU's softirq may still do
 * @run: which run of a softirq @left is of: the number of runs until then
 * @tick: jiffies then: softirqs that @run does not count have a budget for each
 *	tick
 * @left: units
 */
struct kw_softirq {
	unsigned long run;
	unsigned long tick;
	u32 left;
};

DECLARE_PER_CPU(struct kw_softirq, kw_softirq);

/* Whether this is a softirq that nothing preempts. */
static inline bool kw_softirq_runs(void)
{
	return !IS_ENABLED(CONFIG_PREEMPT_RT) && in_serving_softirq();
}

/**
 * kw_softirq_left() - what the running softirq may still do
 *
 * Context: process or softirq; what it says is good until kw_softirq_charge() on
 * this CPU.
 * Return: units, KW_SOFTIRQ_LEAST or more; KW_SOFTIRQ_UNLIMITED if no softirq is
 * running, or if it can be preempted.
 */
static inline u32 kw_softirq_left(void)
{
	unsigned long run, tick = jiffies;
	const struct kernel_stat *stat;
	struct kw_softirq *q;

	if (!kw_softirq_runs())
		return KW_SOFTIRQ_UNLIMITED;
	q = this_cpu_ptr(&kw_softirq);
	stat = kstat_this_cpu;
	/* Packets; kernel consumers' completions, by either way of polling. */
	run = stat->softirqs[NET_RX_SOFTIRQ] + stat->softirqs[IRQ_POLL_SOFTIRQ] +
	      stat->softirqs[TASKLET_SOFTIRQ];
	if (q->run != run || q->tick != tick) {
		q->run = run;
		q->tick = tick;
		q->left = KW_SOFTIRQ_BUDGET;
	}
	return max_t(u32, q->left, KW_SOFTIRQ_LEAST);
}

/**
 * kw_softirq_charge() - charge the running softirq, if there is one
 * @units: what it has done
 *
 * Context: as kw_softirq_left(), which begins the budget of a run: what is charged
 * before the run's first call counts for the run before.
 */
static inline void kw_softirq_charge(u32 units)
{
	struct kw_softirq *q;

	if (!kw_softirq_runs())
		return;
	q = this_cpu_ptr(&kw_softirq);
	q->left -= min(q->left, units);
}

#endif /* KW_STREAM_SOFTIRQ_H */
