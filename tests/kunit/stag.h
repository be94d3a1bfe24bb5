/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * The STag table with nothing around it, for the tests of regions and windows.
 */
#ifndef KT_STAG_H
#define KT_STAG_H

#include <linux/completion.h>
#include <linux/scatterlist.h>

#include "link.h"
#include "verbs/ops.h"

#define KT_RIGHTS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ)
#define KT_PAGES	8

/**
 * struct kt_device - a device that is not registered, and its objects
 * @dev: the device
 * @pd: protection domain
 * @other_pd: another
 * @windows: of type 2, bound to the stream whose identity is this structure
 * @page: memory
 * @sg: for mapping it
 */
struct kt_device {
	struct kw_device dev;
	struct kw_pd pd;
	struct kw_pd other_pd;
	struct list_head windows;
	struct page *page[KT_PAGES];
	struct scatterlist sg[KT_PAGES];
};

/**
 * struct kt_taking - a task that takes a region or window away
 * @test: the test
 * @mem: what it takes away
 * @mr: that region, or the one to bind the window to
 * @take: the call by which it does so, whose result is @ret
 * @begun: it is about to
 * @done: it has
 * @ret: see @take
 */
struct kt_taking {
	struct kunit *test;
	struct kw_mem *mem;
	struct ib_mr *mr;
	void (*take)(struct kt_taking *t);
	struct completion begun;
	struct completion done;
	int ret;
};

int kt_stag_init(struct kunit *test);
void kt_stag_exit(struct kunit *test);
struct kw_mem *kt_lookup(struct kt_device *d, u32 stag);
void kt_take_while_used(struct kunit *test, struct kw_mem *mem,
			struct ib_mr *mr, void (*take)(struct kt_taking *t));

#endif /* KT_STAG_H */
