/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A position in received bytes: a socket's receive queue, or the pages an
 * overlong FPDU was staged in. Copying a cursor saves the position, which is
 * how an FPDU is checked first and placed afterwards.
 */
#ifndef KW_STREAM_CURSOR_H
#define KW_STREAM_CURSOR_H

#include <linux/skbuff.h>

/**
 * struct kw_cursor - where to read next
 * @p: next byte of the current run of contiguous bytes
 * @left: bytes of that run
 * @head: skb of the receive queue that the run is part of; NULL with @pages
 * @part: @head, or the skb of its frag_list
 * @frag: next fragment of @part
 * @queue: the receive queue
 * @pages: staged pages still to come
 * @staged: bytes in them
 * @markers: markers are stepped over: see kw_cursor_skip_markers()
 * @behind: bytes of the run behind the marker that ends @left
 * @dist: bytes from the end of @left to the next marker
 */
struct kw_cursor {
	const u8 *p;
	u32 left;
	u32 behind;
	struct sk_buff *head;
	struct sk_buff *part;
	int frag;
	u32 staged;
	struct sk_buff_head *queue;
	struct page **pages;
	u16 dist;
	bool markers;
};

bool kw_cursor_at_socket(struct kw_cursor *c, struct sock *sk);
void kw_cursor_at_pages(struct kw_cursor *c, struct page **pages, u32 len);
void kw_cursor_skip_markers(struct kw_cursor *c, u32 dist);
bool kw_cursor_next(struct kw_cursor *c);
bool kw_cursor_copy(struct kw_cursor *c, u8 *dst, u32 len);
bool kw_cursor_crc(struct kw_cursor *c, u32 len, u32 *crc);
bool kw_cursor_skip(struct kw_cursor *c, u32 len);

#endif /* KW_STREAM_CURSOR_H */
