// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Reading received bytes in place, in the longest runs there are.
 */
#include <linux/skbuff.h>
#include <net/tcp.h>

#include "stream/cursor.h"
#include "stream/vec.h"
#include "wire/fpdu.h"

/*
 * The next piece of the head skb: its parts are the skb itself and the skbs
 * of its frag_list, and of each the linear part (frag -1), then the fragments.
 */
static bool kw_cursor_piece(struct kw_cursor *c, const u8 **p, u32 *len)
{
	while (c->part) {
		struct skb_shared_info *si = skb_shinfo(c->part);

		if (c->frag < 0) {
			c->frag = 0;
			*p = c->part->data;
			*len = skb_headlen(c->part);
			if (*len)
				return true;
		}
		if (c->frag < si->nr_frags) {
			const skb_frag_t *f = &si->frags[c->frag++];

			*p = skb_frag_address(f);
			*len = skb_frag_size(f);
			return true;
		}
		c->part = c->part == c->head ? si->frag_list : c->part->next;
		c->frag = -1;
	}
	return false;
}

static void kw_cursor_enter(struct kw_cursor *c, struct sk_buff *skb)
{
	c->head = skb;
	c->part = skb;
	c->frag = -1;
}

/*
 * Fragments are often neighbours in memory: the sender built them in one
 * transmit buffer, or they were coalesced. Then they are one run.
 */
static void kw_cursor_extend(struct kw_cursor *c)
{
	const struct skb_shared_info *si;

	if (!c->part)
		return;
	for (si = skb_shinfo(c->part); c->frag < si->nr_frags; c->frag++) {
		const skb_frag_t *f = &si->frags[c->frag];

		if (skb_frag_address(f) != c->p + c->left)
			return;
		c->left += skb_frag_size(f);
	}
}

static bool kw_cursor_next_page(struct kw_cursor *c)
{
	if (!c->staged)
		return false;
	c->p = page_address(*c->pages++);
	c->left = min_t(u32, c->staged, PAGE_SIZE);
	c->staged -= c->left;
	return true;
}

/* Go on to the next skb. @repeated: bytes of it that were read before. */
static bool kw_cursor_next_skb(struct kw_cursor *c, u32 *repeated)
{
	u32 seq = TCP_SKB_CB(c->head)->end_seq;
	struct sk_buff *skb = skb_peek_next(c->head, c->queue);

	if (!skb || !skb_frags_readable(skb))
		return false;
	/* A retransmission may overlap what is queued before it. */
	*repeated = seq - TCP_SKB_CB(skb)->seq;
	kw_cursor_enter(c, skb);
	return true;
}

static __hot bool kw_cursor_next_run(struct kw_cursor *c)
{
	u32 repeated = 0;

	if (!c->head)
		return kw_cursor_next_page(c);
	for (;;) {
		if (!kw_cursor_piece(c, &c->p, &c->left)) {
			if (!kw_cursor_next_skb(c, &repeated))
				return false;
		} else if (repeated >= c->left) {
			repeated -= c->left;
		} else {
			break;
		}
	}
	c->p += repeated;
	c->left -= repeated;
	kw_cursor_extend(c);
	return true;
}

/* End the run where the next marker begins. */
static void kw_cursor_split(struct kw_cursor *c)
{
	if (c->left > c->dist) {
		c->behind = c->left - c->dist;
		c->left = c->dist;
		c->dist = 0;
	} else {
		c->behind = 0;
		c->dist -= c->left;
	}
}

/* The same for a cursor that steps over markers. One can be split by runs. */
static bool kw_cursor_next_marked(struct kw_cursor *c)
{
	u32 skip = c->dist ? 0 : KW_MARKER_LEN;

	c->left = c->behind;
	while (!c->left || skip) {
		u32 n;

		if (!c->left && !kw_cursor_next_run(c))
			return false;
		n = min(skip, c->left);
		c->p += n;
		c->left -= n;
		skip -= n;
	}
	if (!c->dist)
		c->dist = KW_MARKER_INTERVAL - KW_MARKER_LEN;
	kw_cursor_split(c);
	return true;
}

/**
 * kw_cursor_next() - go on to the next run of contiguous bytes
 * @c: cursor whose run is used up
 *
 * Context: socket lock held, unless the cursor reads staged pages.
 * Return: false if nothing more has been received.
 */
__hot bool kw_cursor_next(struct kw_cursor *c)
{
	return c->markers ? kw_cursor_next_marked(c) : kw_cursor_next_run(c);
}

/**
 * kw_cursor_skip_markers() - from here on, read what is between markers
 * @c: cursor
 * @dist: bytes from its position to the next marker
 *
 * Runs end where a marker begins: reading costs the same with markers.
 */
void kw_cursor_skip_markers(struct kw_cursor *c, u32 dist)
{
	c->markers = true;
	c->dist = dist;
	kw_cursor_split(c);
}

/**
 * kw_cursor_at_socket() - start at the first byte not yet read
 * @c: cursor
 * @sk: TCP socket
 *
 * Context: socket lock held; the cursor is good until it is released or
 * bytes are consumed.
 * Return: false if there is nothing to read.
 */
__hot bool kw_cursor_at_socket(struct kw_cursor *c, struct sock *sk)
{
	struct sk_buff *skb;
	u32 off;

	skb = tcp_recv_skb(sk, tcp_sk(sk)->copied_seq, &off);
	if (!skb || !skb_frags_readable(skb))
		return false;
	*c = (struct kw_cursor){ .queue = &sk->sk_receive_queue };
	kw_cursor_enter(c, skb);
	return kw_cursor_skip(c, off);
}

/**
 * kw_cursor_at_pages() - start at the first of staged bytes
 * @c: cursor
 * @pages: the pages
 * @len: bytes in them
 */
void kw_cursor_at_pages(struct kw_cursor *c, struct page **pages, u32 len)
{
	*c = (struct kw_cursor){ .pages = pages, .staged = len };
}

/* Move past bytes; on the way copy them to @dst, or add them to @crc. */
static __always_inline bool kw_cursor_walk(struct kw_cursor *c, u32 len,
					   u8 *dst, u32 *crc)
{
	u32 n;

	for (; len; len -= n) {
		if (!c->left && !kw_cursor_next(c))
			return false;
		n = min(len, c->left);
		if (dst) {
			kw_memcpy_auto(dst, c->p, n);
			dst += n;
		}
		if (crc)
			*crc = kw_crc32c_auto(*crc, c->p, n);
		c->p += n;
		c->left -= n;
	}
	return true;
}

/**
 * kw_cursor_copy() - copy bytes out and move past them
 * @c: cursor
 * @dst: where to
 * @len: bytes
 *
 * Return: false if fewer than @len bytes have been received.
 */
bool kw_cursor_copy(struct kw_cursor *c, u8 *dst, u32 len)
{
	return kw_cursor_walk(c, len, dst, NULL);
}

/**
 * kw_cursor_crc() - continue a CRC32C over bytes and move past them
 * @c: cursor
 * @len: bytes
 * @crc: the CRC so far, updated
 *
 * Return: false if fewer than @len bytes have been received.
 */
bool kw_cursor_crc(struct kw_cursor *c, u32 len, u32 *crc)
{
	return kw_cursor_walk(c, len, NULL, crc);
}

/**
 * kw_cursor_skip() - move past bytes
 * @c: cursor
 * @len: bytes
 *
 * Return: false if fewer than @len bytes have been received.
 */
bool kw_cursor_skip(struct kw_cursor *c, u32 len)
{
	return kw_cursor_walk(c, len, NULL, NULL);
}
