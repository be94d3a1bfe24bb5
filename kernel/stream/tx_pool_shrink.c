// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The shrinker of the transmit buffer pool. Only a CPU itself accesses its
 * buffers, so each frees its own, in a work item there. A CPU that goes offline
 * keeps none.
 */
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/shrinker.h>
#include <linux/workqueue.h>

#include "stream/tx_pool.h"

static DEFINE_PER_CPU(struct work_struct, kw_shrink_work);
static struct shrinker *kw_shrinker;
static enum cpuhp_state kw_shrink_hp_state;

static void kw_shrink_this_cpu(struct work_struct *work)
{
	kw_tx_pool_trim();
}

static unsigned long kw_shrink_count(struct shrinker *sh,
				     struct shrink_control *sc)
{
	unsigned long nr = 0;
	int cpu;

	for_each_online_cpu(cpu)
		nr += kw_tx_pool_idle(cpu);
	return nr ?: SHRINK_EMPTY;
}

static unsigned long kw_shrink_scan(struct shrinker *sh,
				    struct shrink_control *sc)
{
	unsigned long nr = 0;
	int cpu;

	for_each_online_cpu(cpu) {
		unsigned long idle = kw_tx_pool_idle(cpu);

		if (!idle || nr >= sc->nr_to_scan)
			continue;
		schedule_work_on(cpu, per_cpu_ptr(&kw_shrink_work, cpu));
		nr += idle;
	}
	return nr ?: SHRINK_STOP;
}

static int kw_shrink_cpu_dead(unsigned int cpu)
{
	kw_tx_pool_drop(cpu);
	return 0;
}

/**
 * kw_tx_pool_shrink_init() - register the shrinker of the buffer pool
 *
 * Context: process, before the first stream.
 * Return: 0 or -errno.
 */
int kw_tx_pool_shrink_init(void)
{
	int cpu, ret;

	for_each_possible_cpu(cpu)
		INIT_WORK(per_cpu_ptr(&kw_shrink_work, cpu),
			  kw_shrink_this_cpu);
	kw_shrinker = shrinker_alloc(0, "kiwarp-tx-pool");
	if (!kw_shrinker)
		return -ENOMEM;
	/* States of this section are left when the CPU has stopped running. */
	ret = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "kiwarp:dead",
					NULL, kw_shrink_cpu_dead);
	if (ret < 0) {
		shrinker_free(kw_shrinker);
		return ret;
	}
	kw_shrink_hp_state = ret;
	kw_shrinker->count_objects = kw_shrink_count;
	kw_shrinker->scan_objects = kw_shrink_scan;
	shrinker_register(kw_shrinker);
	return 0;
}

/**
 * kw_tx_pool_shrink_exit() - undo kw_tx_pool_shrink_init()
 *
 * Context: process.
 */
void kw_tx_pool_shrink_exit(void)
{
	int cpu;

	cpuhp_remove_state_nocalls(kw_shrink_hp_state);
	shrinker_free(kw_shrinker);
	for_each_possible_cpu(cpu)
		cancel_work_sync(per_cpu_ptr(&kw_shrink_work, cpu));
}
