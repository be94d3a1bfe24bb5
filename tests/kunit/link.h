/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A stream on a real TCP connection over the loopback interface, for tests. A
 * few tables take the place of the queue pair. The test writes bytes to the far
 * end, and reads bytes from it.
 */
#ifndef KT_LINK_H
#define KT_LINK_H

#include <kunit/test.h>
#include <linux/completion.h>

#include "stream/counters.h"
#include "stream/ops.h"

#define KT_MAX		256
#define KT_MAX_WQE	1024

/* Registered memory: each region has two extents and stands between guards. */
enum kt_region {
	KT_REMOTE,		/* the peer may read and write */
	KT_READ_ONLY,		/* the peer may read */
	KT_LOCAL,		/* for receives and the sinks of Reads */
	KT_NR_REGIONS,
};

#define KT_REGION_LEN	(256 * 1024)
#define KT_GUARD	64
#define KT_STAG(r)	(0x12300 + ((r) << 8) + 7)
#define KT_BASE(r)	(0x100000ULL * ((r) + 1) + 3)

struct kt_recv_done {
	u64 wr_id;
	u32 len;
	u32 inv_stag;
	u16 status;
	bool solicited;
	bool invalidated;
	bool with_imm;
	__be32 imm;
};

struct kt_wqe_done {
	u32 index;
	u16 status;
};

/**
 * struct kt_link - a stream under test
 * @test: the test
 * @s: the stream
 * @peer: the far end's socket
 * @peer_off: bytes that it has read as FPDUs, markers included
 * @domain: the stream's, which protects @mem
 * @counters: the stream's
 * @ended: kw_stream_ops.ended was called
 * @started: the stream runs, or ran
 * @start_error: what kw_stream_ops.started returns
 * @used_at_start: somebody gets a reference to the stream meanwhile
 * @failed: kw_stream_ops.failed was called, with the reason @why
 * @closing: kw_stream_ops.closing was called
 * @why: see @failed
 * @mem: the regions
 * @ext: their extents
 * @bytes: their memory
 * @recv: receives posted, @nr_recv of them
 * @recv_sge: their buffers
 * @nr_recv: see @recv
 * @next_recv: the next to be taken
 * @wqe: send queue entries posted, @nr_wqe of them
 * @nr_wqe: see @wqe
 * @next_wqe: the next to be taken
 * @done: results of receives, @nr_done of them
 * @nr_done: see @done
 * @wdone: results of send queue entries, @nr_wdone of them
 * @nr_wdone: see @wdone
 * @wdone_before: @nr_wdone at the end of the last pass
 * @wdone_most: most results in one pass
 * @fpdus_before: FPDUs received at the end of the last pass
 * @fpdus_most: most in one pass
 * @rx_before: bytes received, likewise
 * @rx_most: most of them in one pass
 * @to_retire: entries that are done and that @retired does not count yet
 * @retired: entries that were completed
 * @retired_before: @retired at the end of the last pass
 * @retired_most: most of them in one pass
 * @task: the test's
 * @passes: how many passes @task has made
 * @early: the stream's socket, before it is started
 * @lookups: of regions, that will find them; unlimited at first
 * @nr_zc_started: entries in flight by zero copy, or completed
 * @nr_zc_done: of which TCP has released the buffers
 * @linger: time that the socket was to have at the end, in jiffies
 * @delivered: the peer had acknowledged everything then
 */
struct kt_link {
	struct kunit *test;
	struct kw_stream s;
	struct socket *peer;
	u32 peer_off;
	struct kw_domain domain;
	struct kw_counters __percpu *counters;
	struct completion ended;
	bool started;
	int start_error;
	bool used_at_start;
	bool failed;
	bool closing;
	enum kw_fail why;

	struct kw_mem mem[KT_NR_REGIONS];
	struct kw_extent ext[KT_NR_REGIONS][2];
	u8 *bytes[KT_NR_REGIONS];

	struct kw_recv recv[KT_MAX];
	struct kiwarp_sge recv_sge[KT_MAX];
	u32 nr_recv, next_recv;
	struct kw_wqe wqe[KT_MAX_WQE];
	u32 nr_wqe, next_wqe;
	struct kt_recv_done done[KT_MAX];
	u32 nr_done;
	struct kt_wqe_done wdone[KT_MAX_WQE];
	u32 nr_wdone;
	u32 wdone_before, wdone_most;
	u32 fpdus_before, fpdus_most;
	u32 rx_before, rx_most;
	u32 to_retire, retired;
	u32 retired_before, retired_most;
	struct task_struct *task;
	u32 passes;
	struct socket *early;
	u32 lookups;
	u32 nr_zc_started, nr_zc_done;
	unsigned long linger;
	bool delivered;
};

struct kt_link *kt_link_new(struct kunit *test,
			    const struct kw_stream_params *p, int mss,
			    int rcvbuf);
struct kt_link *kt_link_connect(struct kunit *test, int mss, int rcvbuf);
void kt_link_start(struct kt_link *l, const struct kw_stream_params *p);
void kt_link_end(struct kt_link *l);
void kt_stage_pages(int n);
struct page *kt_stage_page(gfp_t gfp);
int kt_link_init(struct kunit *test);
void kt_link_exit(struct kunit *test);
void kt_post_recv(struct kt_link *l, u64 wr_id, u32 off, u32 len);
void kt_post(struct kt_link *l, const struct kw_wqe *w);
void kt_peer_write(struct kt_link *l, const u8 *p, size_t n);
int kt_peer_read(struct kt_link *l, u8 *p, size_t n);
bool kt_untouched(struct kt_link *l, enum kt_region r, u32 from, u32 to);
u8 *kt_at(struct kt_link *l, enum kt_region r, u32 off);

/* Wait for another context to reach a state; false after a generous time. */
#define kt_until(cond)							\
({									\
	unsigned long kt_end = jiffies + 10 * HZ;			\
	bool kt_ok;							\
									\
	for (;;) {							\
		kt_ok = (cond);						\
		if (kt_ok || time_after(jiffies, kt_end))		\
			break;						\
		schedule_timeout_uninterruptible(1);			\
	}								\
	kt_ok;								\
})

/**
 * struct kt_bytes - a stream of FPDUs being written
 * @p: room for @size bytes
 * @size: see @p
 * @len: written so far
 * @markers: with markers, as from a stream's first byte
 */
struct kt_bytes {
	u8 *p;
	size_t size;
	size_t len;
	bool markers;
};

struct kt_bytes kt_bytes_new(struct kunit *test, size_t size);
void kt_fpdu(struct kt_bytes *o, const u8 *hdr, u32 hdr_len, const u8 *body,
	     u32 len);
void kt_send(struct kt_bytes *o, u8 op, u32 msn, u32 mo, bool last,
	     const u8 *body, u32 len);
void kt_write(struct kt_bytes *o, u8 op, u32 stag, u64 to, bool last,
	      const u8 *body, u32 len);

/**
 * struct kt_segment - an FPDU that the far end received
 * @ddp: its DDP header
 * @ulpdu: the ULPDU, which is the test's
 * @body: its payload
 * @len: bytes of it
 * @span: bytes of the FPDU and of the markers in it
 */
struct kt_segment {
	struct kw_ddp_hdr ddp;
	u8 *ulpdu;
	u8 *body;
	u32 len;
	u32 span;
};

int kt_peer_fpdu(struct kt_link *l, struct kt_segment *seg);
void kt_pattern(u8 *p, u32 len, u8 seed);

extern struct kunit_suite kt_wire_suite;
extern struct kunit_suite kt_stag_suite;
extern struct kunit_suite kt_window_suite;
extern struct kunit_suite kt_queue_suite;
extern struct kunit_suite kt_receive_suite;
extern struct kunit_suite kt_segment_suite;
extern struct kunit_suite kt_msn_suite;
extern struct kunit_suite kt_zcopy_suite;
extern struct kunit_suite kt_ack_suite;
extern struct kunit_suite kt_budget_suite;
extern struct kunit_suite kt_ext_suite;
extern struct kunit_suite kt_close_suite;
extern struct kunit_suite kt_linger_suite;
extern struct kunit_suite kt_predict_suite;
extern struct kunit_suite kt_teardown_suite;
extern struct kunit_suite kt_steps_suite;

#endif /* KT_LINK_H */
