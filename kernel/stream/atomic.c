// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Atomic operations at the responder (RFC 7306 section 5).
 *
 * Uses the CPU's atomic instructions, hence atomic to other connections and to
 * programs.
 */
#include <linux/atomic.h>

#include "stream/atomic.h"
#include "stream/sg.h"

/*
 * Each failed try means that another CPU has changed the value within some ten
 * nanoseconds. So many in a row are no accident, but a program that does it.
 */
#define KW_ATOMIC_TRIES		4096

/**
 * kw_atomic_check() - can an Atomic Request be served?
 * @s: stream
 * @req: the request
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0, or the enum kw_term_code to answer with.
 */
u16 kw_atomic_check(struct kw_stream *s, const struct kw_atomic_req *req)
{
	struct kw_mem *mem;
	u16 code;
	u64 *at;

	if (req->op != KW_ATOMIC_FETCH_ADD && req->op != KW_ATOMIC_CMP_SWAP)
		return KW_TERM_RDMAP_OPCODE;
	code = kw_check_atomic(s, req->stag, req->to, &mem, &at);
	if (!code)
		kw_mem_put(mem);
	return code;
}

/**
 * kw_atomic_work() - work an Atomic Request
 * @s: stream
 * @req: the request, which kw_atomic_check() has passed
 * @orig: result: the value before
 *
 * The region may have gone since the check, so that it is made again.
 *
 * Context: inside s->mem_srcu, socket lock.
 * Return: 0; or the enum kw_term_code to answer with, and nothing is changed.
 */
u16 kw_atomic_work(struct kw_stream *s, const struct kw_atomic_req *req,
		   u64 *orig)
{
	u32 tries = KW_ATOMIC_TRIES;
	struct kw_mem *mem;
	bool done;
	u64 *at;
	u16 code;

	code = kw_check_atomic(s, req->stag, req->to, &mem, &at);
	if (code)
		return code;
	*orig = READ_ONCE(*at);
	do {
		done = try_cmpxchg(at, orig, kw_atomic_result(req, *orig));
	} while (!done && --tries);
	kw_mem_put(mem);
	return done ? 0 : KW_TERM_RDMAP_STREAM_CATASTROPHIC;
}
