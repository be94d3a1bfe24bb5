// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Header prediction: segments of one message that are received in one pass, one
 * of which is not as predicted.
 */
#include <linux/unaligned.h>
#include <net/tcp.h>
#include <rdma/ib_verbs.h>

#include "link.h"
#include "wire/crc.h"

#define KT_SEGMENTS	6
#define KT_BAD		3
#define KT_LEN		500

static const struct kw_stream_params kt_params = {
	.crc = true,
	.ird = 4,
	.ord = 4,
};

/**
 * struct kt_wrong - a message one of whose middle segments is wrong
 * @name: of the case
 * @code: of the Terminate
 * @flip: bit in the segment's last byte of payload, behind its CRC's back
 * @stag: added to its STag
 * @start: where in the region the message starts; 0: so that all of it fits
 */
struct kt_wrong {
	const char *name;
	u16 code;
	u8 flip;
	u32 stag;
	u32 start;
};

static const struct kt_wrong kt_wrongs[] = {
	{ "CRC", KW_TERM_MPA_CRC, .flip = 1 },
	{ "STag", KW_TERM_DDP_TAGGED_INV_STAG, .stag = 1 },
	{ "its last byte is beyond the region", KW_TERM_DDP_TAGGED_BOUNDS,
	  .start = KT_REGION_LEN - (KT_BAD + 1) * KT_LEN + 1 },
	{ "all of it is beyond the region", KW_TERM_DDP_TAGGED_BOUNDS,
	  .start = KT_REGION_LEN - KT_BAD * KT_LEN },
};

static void kt_wrong_name(const struct kt_wrong *w, char *name)
{
	strscpy(name, w->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kt_wrong, kt_wrongs, kt_wrong_name);

static void kt_write_wrong(struct kt_bytes *o, const struct kt_wrong *w,
			   const u8 *data)
{
	u64 to = KT_BASE(KT_REMOTE) + w->start;
	u32 i;

	for (i = 0; i < KT_SEGMENTS; i++) {
		u32 stag = KT_STAG(KT_REMOTE) + (i == KT_BAD ? w->stag : 0);

		kt_write(o, KW_RDMAP_WRITE, stag, to + i * KT_LEN,
			 i == KT_SEGMENTS - 1, data + i * KT_LEN, KT_LEN);
		if (i == KT_BAD)
			o->p[o->len - KW_MPA_CRC_LEN - 1] ^= w->flip;
	}
}

static void kt_expect_placed(struct kt_link *l, u32 start, const u8 *data,
			     u32 len)
{
	u32 i;

	for (i = 0; i < len && *kt_at(l, KT_REMOTE, start + i) == data[i];)
		i++;
	KUNIT_EXPECT_EQ(l->test, len, i);
	KUNIT_EXPECT_TRUE(l->test, kt_untouched(l, KT_REMOTE, start,
						start + len));
}

/* The segments before the wrong one are placed, and nothing of it or after it. */
static void kt_test_wrong(struct kunit *test)
{
	const struct kt_wrong *w = test->param_value;
	struct kt_bytes o = kt_bytes_new(test, 8192);
	struct kt_link *l = kt_link_connect(test, 0, 0);
	u8 *data = kunit_kmalloc(test, KT_SEGMENTS * KT_LEN, GFP_KERNEL);
	struct kt_segment seg;
	struct kw_term t;

	KUNIT_ASSERT_NOT_NULL(test, data);
	kt_pattern(data, KT_SEGMENTS * KT_LEN, 7);
	/* All has come when the stream starts: the first pass has it all. */
	kt_write_wrong(&o, w, data);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(tcp_inq(l->early->sk) == o.len));
	kt_link_start(l, &kt_params);

	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_ASSERT_EQ(test, seg.ddp.qn, KW_QN_TERMINATE);
	KUNIT_ASSERT_EQ(test, 0, kw_term_parse(seg.body, seg.len, &t));
	KUNIT_EXPECT_EQ(test, kw_term_get_code(&t), w->code);
	kt_expect_placed(l, w->start, data, KT_BAD * KT_LEN);
}

/* A Send's segments are predicted as well, up to the end of its buffer. */
static void kt_test_receive(struct kunit *test)
{
	struct kt_bytes o = kt_bytes_new(test, 8192);
	struct kt_link *l = kt_link_connect(test, 0, 0);
	u8 *data = kunit_kmalloc(test, KT_SEGMENTS * KT_LEN, GFP_KERNEL);
	struct kt_segment seg;
	struct kw_term t;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, data);
	kt_pattern(data, KT_SEGMENTS * KT_LEN, 8);
	kt_post_recv(l, 1, 100, (KT_BAD + 1) * KT_LEN - 1);
	for (i = 0; i < KT_SEGMENTS; i++)
		kt_send(&o, KW_RDMAP_SEND, 1, i * KT_LEN, i == KT_SEGMENTS - 1,
			data + i * KT_LEN, KT_LEN);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(tcp_inq(l->early->sk) == o.len));
	kt_link_start(l, &kt_params);

	KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
	KUNIT_ASSERT_EQ(test, 0, kw_term_parse(seg.body, seg.len, &t));
	KUNIT_EXPECT_EQ(test, kw_term_get_code(&t),
			KW_TERM_DDP_UNTAGGED_TOO_LONG);
	for (i = 0; i < KT_BAD * KT_LEN && *kt_at(l, KT_LOCAL, 100 + i) == data[i];)
		i++;
	KUNIT_EXPECT_EQ(test, KT_BAD * KT_LEN, i);
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, KT_LOCAL, 100,
					     100 + KT_BAD * KT_LEN));
}

/**
 * struct kt_short - the second segment ends inside its header
 * @name: of the case
 * @untagged: of a Send; else of a Write
 * @missing: bytes of the header that ULPDU_Length does not cover: pad, here
 */
struct kt_short {
	const char *name;
	bool untagged;
	u8 missing;
};

static const struct kt_short kt_shorts[] = {
	{ "Write, without payload", false, 0 },
	{ "Write, by one byte", false, 1 },
	{ "Write, by three bytes", false, 3 },
	{ "Send, without payload", true, 0 },
	{ "Send, by one byte", true, 1 },
	{ "Send, by two bytes", true, 2 },
};

static void kt_short_name(const struct kt_short *c, char *name)
{
	strscpy(name, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kt_short, kt_shorts, kt_short_name);

static void kt_short_segment(struct kt_bytes *o, bool untagged, u32 at,
			     const u8 *data, u32 len)
{
	if (untagged)
		kt_send(o, KW_RDMAP_SEND, 1, at, false, data, len);
	else
		kt_write(o, KW_RDMAP_WRITE, KT_STAG(KT_REMOTE),
			 KT_BASE(KT_REMOTE) + at, false, data, len);
}

/* Its last FPDU, which has no payload, says that it is shorter. */
static void kt_shorten(struct kt_bytes *o, u32 hdr_len, u8 missing)
{
	u32 len = kw_fpdu_len(hdr_len) - KW_MPA_CRC_LEN;
	u8 *p = o->p + o->len - kw_fpdu_len(hdr_len);

	put_unaligned_be16(hdr_len - missing, p);
	kw_crc_put(p + len, kw_crc32c(KW_CRC_SEED, p, len));
}

/*
 * Where a message may go on for nearly 4 GiB, what is missing of a header is no
 * payload of nearly 4 GiB.
 */
static void kt_test_short(struct kunit *test)
{
	const struct kt_short *c = test->param_value;
	u32 hdr_len = c->untagged ? KW_DDP_UNTAGGED_LEN : KW_DDP_TAGGED_LEN;
	enum kt_region r = c->untagged ? KT_LOCAL : KT_REMOTE;
	struct kt_bytes o = kt_bytes_new(test, 8192);
	struct kt_link *l = kt_link_connect(test, 0, 0);
	u8 data[2] = { 0xee, 0xff };
	struct kt_segment seg;
	struct kw_term t;

	l->mem[r].len = 8ULL << 30;
	kt_post_recv(l, 1, 0, U32_MAX);
	kt_short_segment(&o, c->untagged, 0, data, 1);
	kt_short_segment(&o, c->untagged, 1, NULL, 0);
	if (c->missing)
		kt_shorten(&o, hdr_len, c->missing);
	kt_short_segment(&o, c->untagged, 1, data + 1, 1);
	kt_peer_write(l, o.p, o.len);
	KUNIT_ASSERT_TRUE(test, kt_until(tcp_inq(l->early->sk) == o.len));
	kt_link_start(l, &kt_params);

	if (!c->missing) {
		KUNIT_EXPECT_TRUE(test, kt_until(*kt_at(l, r, 1) == data[1]));
		KUNIT_EXPECT_FALSE(test, l->failed);
	} else {
		KUNIT_ASSERT_EQ(test, 1, kt_peer_fpdu(l, &seg));
		KUNIT_ASSERT_EQ(test, 0, kw_term_parse(seg.body, seg.len, &t));
		KUNIT_EXPECT_EQ(test, kw_term_get_code(&t),
				KW_TERM_MPA_MARKER);
	}
	KUNIT_EXPECT_TRUE(test, kt_untouched(l, r, 0, c->missing ? 1 : 2));
}

static struct kunit_case kt_predict_cases[] = {
	KUNIT_CASE_PARAM(kt_test_wrong, kt_wrong_gen_params),
	KUNIT_CASE(kt_test_receive),
	KUNIT_CASE_PARAM(kt_test_short, kt_short_gen_params),
	{}
};

struct kunit_suite kt_predict_suite = {
	.name = "kiwarp_predict",
	.init = kt_link_init,
	.exit = kt_link_exit,
	.test_cases = kt_predict_cases,
};
