// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Facts, and the files of debugfs through which they are used:
 *
 * /sys/kernel/debug/kiwarp_ktest/run
 *	Write: a name, or the start of one. The cases that begin with it run in
 *	the writer's context.
 * /sys/kernel/debug/kiwarp_ktest/results
 *	The results of the last run, as KTAP.
 * /sys/kernel/debug/kiwarp_ktest/hold
 *	Write 1: open a connection and keep it. 0: close it.
 * /sys/kernel/debug/kiwarp_ktest/stall
 *	Write 1: a listener's handler is called, and does not return. 0: it does.
 * /sys/kernel/debug/kiwarp_ktest/late
 *	Write 1: use the accepting end's device when it is taken away: leave.c.
 *	Read: what came of it.
 * /sys/kernel/debug/kiwarp_ktest/exporter
 *	Ioctls of exporter.h: dma-bufs for a test program.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "ktest.h"

#define KT_LOG_SIZE	(256 * 1024)

static struct dentry *kt_dir;
static DEFINE_MUTEX(kt_lock);
static char *kt_log;
static size_t kt_log_len, kt_case;
static const char *kt_name;
static int kt_good, kt_bad;
static struct kt_link *kt_held;

static const struct kt_case *const kt_groups[] = {
	kt_data_cases, kt_mr_cases, kt_inv_cases, kt_post_cases,
	kt_context_cases, kt_cq_cases, kt_refuse_cases, kt_cm_cases, kt_batch_cases,
	kt_srq_cases, kt_ext_cases, kt_race_cases, kt_end_cases, kt_leave_cases,
};

static __printf(1, 0) void kt_vlog(const char *fmt, va_list args)
{
	kt_log_len += vscnprintf(kt_log + kt_log_len, KT_LOG_SIZE - kt_log_len,
				 fmt, args);
}

static __printf(1, 2) void kt_say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	kt_vlog(fmt, args);
	va_end(args);
}

/* A fact that a case states several times counts once, unless it fails. */
static bool kt_is_new(const char *what)
{
	return !strstr(kt_log + kt_case, what);
}

static __printf(2, 0) void kt_verdict(bool good, const char *fmt, va_list args)
{
	char what[160];
	int n = scnprintf(what, sizeof(what), "- %s: ", kt_name);

	n += vscnprintf(what + n, sizeof(what) - n, fmt, args);
	what[min_t(int, n, sizeof(what) - 2)] = '\n';
	what[min_t(int, n, sizeof(what) - 2) + 1] = '\0';
	if (good && !kt_is_new(what))
		return;
	if (good)
		kt_good++;
	else
		kt_bad++;
	kt_say("%s %d %s", good ? "ok" : "not ok", kt_good + kt_bad, what);
}

/**
 * kt_fact() - state a fact
 * @good: whether it holds
 * @fmt: the fact
 *
 * Context: process; the case under way.
 * Return: @good.
 */
bool kt_fact(bool good, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	kt_verdict(good, fmt, args);
	va_end(args);
	return good;
}

/**
 * kt_equal() - state the fact that a number has the expected value
 * @got: the number
 * @want: the expected value
 * @fmt: what number it is
 *
 * Context: process; the case under way.
 * Return: whether it holds.
 */
bool kt_equal(s64 got, s64 want, const char *fmt, ...)
{
	bool good = got == want;
	va_list args;

	va_start(args, fmt);
	kt_verdict(good, fmt, args);
	va_end(args);
	if (!good)
		kt_say("# %lld (%#llx), not %lld (%#llx)\n", got, got, want,
		       want);
	return good;
}

static void kt_run(const char *prefix)
{
	const struct kt_case *c;
	int i;

	kt_log_len = 0;
	kt_log[0] = '\0';
	kt_good = 0;
	kt_bad = 0;
	for (i = 0; i < ARRAY_SIZE(kt_groups); i++) {
		for (c = kt_groups[i]; c->name; c++) {
			if (strncmp(c->name, prefix, strlen(prefix)) ||
			    (c->setting && !*prefix))
				continue;
			pr_info("kiwarp_ktest: %s\n", c->name);
			kt_name = c->name;
			kt_case = kt_log_len;
			c->run();
		}
	}
	pr_info("kiwarp_ktest: pass:%d fail:%d\n", kt_good, kt_bad);
}

static ssize_t kt_run_write(struct file *file, const char __user *ubuf,
			    size_t len, loff_t *pos)
{
	char *name = memdup_user_nul(ubuf, min_t(size_t, len, 64));

	if (IS_ERR(name))
		return PTR_ERR(name);
	mutex_lock(&kt_lock);
	kt_run(strim(name));
	mutex_unlock(&kt_lock);
	kfree(name);
	return len;
}

static const struct file_operations kt_run_fops = {
	.owner = THIS_MODULE,
	.write = kt_run_write,
};

static ssize_t kt_results_read(struct file *file, char __user *ubuf,
			       size_t len, loff_t *pos)
{
	char head[96];
	size_t n;
	ssize_t ret;

	mutex_lock(&kt_lock);
	n = scnprintf(head, sizeof(head),
		      "KTAP version 1\n1..%d\n# pass:%d fail:%d\n",
		      kt_good + kt_bad, kt_good, kt_bad);
	if (*pos < n) {
		ret = simple_read_from_buffer(ubuf, len, pos, head, n);
	} else {
		*pos -= n;
		ret = simple_read_from_buffer(ubuf, len, pos, kt_log,
					      kt_log_len);
		*pos += n;
	}
	mutex_unlock(&kt_lock);
	return ret;
}

static const struct file_operations kt_results_fops = {
	.owner = THIS_MODULE,
	.read = kt_results_read,
};

static ssize_t kt_hold_write(struct file *file, const char __user *ubuf,
			     size_t len, loff_t *pos)
{
	static const struct kt_opts usual;
	ssize_t ret = len;
	bool hold;

	ret = kstrtobool_from_user(ubuf, len, &hold);
	if (ret)
		return ret;
	mutex_lock(&kt_lock);
	kt_name = "hold";
	if (hold && !kt_held)
		kt_held = kt_open(&usual);
	else if (!hold)
		kt_close(kt_held);
	if (!hold)
		kt_held = NULL;
	ret = hold && !kt_held ? -EIO : len;
	mutex_unlock(&kt_lock);
	return ret;
}

static const struct file_operations kt_hold_fops = {
	.owner = THIS_MODULE,
	.write = kt_hold_write,
};

static ssize_t kt_stall_write(struct file *file, const char __user *ubuf,
			      size_t len, loff_t *pos)
{
	bool stall;
	int ret;

	ret = kstrtobool_from_user(ubuf, len, &stall);
	if (ret)
		return ret;
	mutex_lock(&kt_lock);
	ret = kt_stall(stall);
	mutex_unlock(&kt_lock);
	return ret ?: len;
}

static const struct file_operations kt_stall_fops = {
	.owner = THIS_MODULE,
	.write = kt_stall_write,
};

static ssize_t kt_late_write(struct file *file, const char __user *ubuf,
			     size_t len, loff_t *pos)
{
	int ret;

	mutex_lock(&kt_lock);
	ret = kt_late_arm();
	mutex_unlock(&kt_lock);
	return ret ?: len;
}

static ssize_t kt_late_read(struct file *file, char __user *ubuf, size_t len,
			    loff_t *pos)
{
	const char *said = kt_late_said();

	return simple_read_from_buffer(ubuf, len, pos, said, strlen(said));
}

static const struct file_operations kt_late_fops = {
	.owner = THIS_MODULE,
	.read = kt_late_read,
	.write = kt_late_write,
};

static int __init kt_init(void)
{
	int ret;

	kt_log = vzalloc(KT_LOG_SIZE);
	if (!kt_log)
		return -ENOMEM;
	ret = kt_late_init();
	if (ret) {
		vfree(kt_log);
		return ret;
	}
	kt_dir = debugfs_create_dir("kiwarp_ktest", NULL);
	debugfs_create_file("run", 0200, kt_dir, NULL, &kt_run_fops);
	debugfs_create_file("results", 0400, kt_dir, NULL, &kt_results_fops);
	debugfs_create_file("hold", 0200, kt_dir, NULL, &kt_hold_fops);
	debugfs_create_file("stall", 0200, kt_dir, NULL, &kt_stall_fops);
	debugfs_create_file("late", 0600, kt_dir, NULL, &kt_late_fops);
	kt_exporter_init(kt_dir);
	return 0;
}

static void __exit kt_exit(void)
{
	debugfs_remove(kt_dir);
	kt_close(kt_held);
	kt_stall(false);
	kt_late_exit();
	vfree(kt_log);
}

module_init(kt_init);
module_exit(kt_exit);

MODULE_DESCRIPTION("A consumer that exercises Kiwarp's kernel verbs");
MODULE_LICENSE("Dual BSD/GPL");
