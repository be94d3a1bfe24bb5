// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Staging. An FPDU may be larger than the socket's receive buffer, and a window
 * that an incomplete FPDU fills would never open again. Where TCP is short of
 * memory, it admits a segment only to a socket whose receive queue is empty.
 * Such an FPDU is moved to pages of the stream's as it comes.
 */
#include <linux/slab.h>
#include <net/tcp.h>

#include "stream/charge.h"
#include "stream/priv.h"
#include "stream/rx.h"

#define KW_STAGE_GFP	(GFP_ATOMIC | __GFP_NOWARN)

/* KUnit replaces the allocation, to have it fail. */
#ifdef KW_STAGE_PAGE
struct page *KW_STAGE_PAGE(gfp_t gfp);
#else
#define KW_STAGE_PAGE(gfp)	alloc_page(gfp)
#endif

/* Length, the longest ULPDU, pad and CRC; and a marker in each 508 bytes. */
#define KW_STAGE_FPDU	(KW_MPA_HDR_LEN + 0xffff + 3 + KW_MPA_CRC_LEN)
#define KW_STAGE_MARKERS						\
	DIV_ROUND_UP(KW_STAGE_FPDU, KW_MARKER_INTERVAL - KW_MARKER_LEN)
#define KW_STAGE_PAGES							\
	DIV_ROUND_UP(KW_STAGE_FPDU + KW_STAGE_MARKERS * KW_MARKER_LEN, PAGE_SIZE)

/**
 * kw_stage_needed() - whether an incomplete FPDU has to leave the socket
 * @s: stream that waits for s->rx.need bytes of the FPDU
 *
 * Context: socket lock held.
 * Return: true if waiting for the rest might close the window, or if TCP might
 * drop the rest for lack of memory.
 */
bool kw_stage_needed(const struct kw_stream *s)
{
	const struct sock *sk = s->sock->sk;
	int rcvbuf = READ_ONCE(sk->sk_rcvbuf);
	u32 need = s->rx.need;

	/* Half of the buffer is for overhead (tcp_adv_win_scale). */
	return need > rcvbuf / 4 || sk_rmem_alloc_get(sk) > rcvbuf / 2 ||
	       tcp_under_memory_pressure(sk);
}

/**
 * kw_stage_fill() - move bytes from the socket to the stage
 * @s: stream
 * @avail: bytes in the socket
 * @want: bytes that the stage still wants
 *
 * Context: socket lock held.
 * Return: bytes moved; fewer than @want without memory: rx_work tries again.
 * A peer that has sent all, or whose window is closed, brings no other arrival.
 */
u32 kw_stage_fill(struct kw_stream *s, u32 avail, u32 want)
{
	struct sock *sk = s->sock->sk;
	struct mem_cgroup *memcg = kw_sk_memcg(sk), *before;
	u32 n = min(avail, want), moved = 0;
	gfp_t gfp = KW_STAGE_GFP;
	struct kw_cursor c;
	bool nomem;

	/* Without one this would be charged to the current task. */
	if (memcg)
		gfp |= __GFP_ACCOUNT;
	before = set_active_memcg(memcg);
	if (!s->rx.stage)
		s->rx.stage = kcalloc(KW_STAGE_PAGES, sizeof(*s->rx.stage),
				      gfp);
	nomem = !s->rx.stage;
	if (nomem || !kw_cursor_at_socket(&c, sk))
		n = 0;

	while (moved < n) {
		u32 idx = s->rx.staged / PAGE_SIZE;
		u32 off = s->rx.staged % PAGE_SIZE;
		u32 len = min_t(u32, n - moved, PAGE_SIZE - off);

		if (!s->rx.stage[idx])
			s->rx.stage[idx] = KW_STAGE_PAGE(gfp);
		nomem = !s->rx.stage[idx];
		if (nomem ||
		    !kw_cursor_copy(&c, page_address(s->rx.stage[idx]) + off,
				    len))
			break;
		s->rx.staged += len;
		moved += len;
	}
	set_active_memcg(before);
	if (moved)
		tcp_read_done(sk, moved);
	if (nomem) {
		s->rx.starved = true;
		kw_stream_count(s, KW_CNT_RX_NO_MEMORY);
		kw_stream_queue(s, &s->rx_work, 1);
	}
	return moved;
}

/**
 * kw_stage_free() - free what is staged
 * @s: stream
 *
 * Context: socket lock held, or the stream has no socket any more.
 */
void kw_stage_free(struct kw_stream *s)
{
	u32 i;

	if (!s->rx.stage)
		return;
	for (i = 0; i < KW_STAGE_PAGES; i++)
		if (s->rx.stage[i])
			__free_page(s->rx.stage[i]);
	kfree(s->rx.stage);
	s->rx.stage = NULL;
	s->rx.staged = 0;
}
