// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * wire/ as the kernel builds it: its CRC, which differs from the one of the
 * host's unit tests, and the specifications' vectors once more.
 */
#include <linux/slab.h>

#include "link.h"
#include "wire/crc.h"
#include "wire/mpa.h"

/* The definition of CRC32C: bit by bit, reflected. */
static u32 kt_crc_by_bits(const u8 *p, size_t n)
{
	u32 crc = KW_CRC_SEED;
	int bit;

	while (n--) {
		crc ^= *p++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

#define KT_CRC_BYTES	4200

static void kt_test_crc_vectors(struct kunit *test)
{
	u8 bytes[32];
	u8 field[KW_MPA_CRC_LEN];
	int i;

	/* RFC 3720 appendix B.4 */
	memset(bytes, 0, sizeof(bytes));
	KUNIT_EXPECT_EQ(test, ~kw_crc32c(KW_CRC_SEED, bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	KUNIT_EXPECT_EQ(test, ~kw_crc32c(KW_CRC_SEED, bytes, 32), 0x62a8ab43);
	for (i = 0; i < 32; i++)
		bytes[i] = i;
	KUNIT_EXPECT_EQ(test, ~kw_crc32c(KW_CRC_SEED, bytes, 32), 0x46dd794e);
	kw_crc_put(field, kw_crc32c(KW_CRC_SEED, bytes, 32));
	KUNIT_EXPECT_MEMEQ(test, field, "\x4e\x79\xdd\x46", 4);
	KUNIT_EXPECT_EQ(test, ~kw_crc_get(field), 0x46dd794e);
}

/* Short and long runs take different paths in the kernel. */
static void kt_test_crc_lengths(struct kunit *test)
{
	u8 *bytes = kunit_kmalloc(test, KT_CRC_BYTES + 8, GFP_KERNEL);
	u32 len, off;

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	kt_pattern(bytes, KT_CRC_BYTES + 8, 5);
	for (len = 0; len < KT_CRC_BYTES; len += len < 1100 ? 1 : 61) {
		off = len % 8;
		if (kw_crc32c(KW_CRC_SEED, bytes + off, len) !=
		    kt_crc_by_bits(bytes + off, len))
			KUNIT_FAIL(test, "%u bytes at offset %u", len, off);
	}
}

static void kt_test_crc_in_parts(struct kunit *test)
{
	u8 *bytes = kunit_kmalloc(test, KT_CRC_BYTES, GFP_KERNEL);
	u32 whole, cut, crc;

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	kt_pattern(bytes, KT_CRC_BYTES, 99);
	whole = kw_crc32c(KW_CRC_SEED, bytes, KT_CRC_BYTES);
	for (cut = 0; cut <= KT_CRC_BYTES; cut += 7) {
		crc = kw_crc32c(KW_CRC_SEED, bytes, cut);
		crc = kw_crc32c(crc, bytes + cut, KT_CRC_BYTES - cut);
		KUNIT_EXPECT_EQ(test, crc, whole);
	}
}

/* The FPDUs of the specification digest: marked streams, byte for byte. */
static void kt_test_fpdu_vectors(struct kunit *test)
{
	static const u8 first[] = {
		0x00, 0x00, 0x00, 0x00, 0x00, 0x2a, 0x40, 0x03,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
	};
	static const u8 second[] = {
		0x00, 0x2a, 0x40, 0x03, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x14,
	};
	struct kt_bytes o = kt_bytes_new(test, 1024);
	u8 hdr[KW_DDP_UNTAGGED_LEN], body[24] = {};

	/* They date from before DDP and RDMAP had a version. */
	o.markers = true;
	kw_ddp_put_untagged(hdr, true, KW_RDMAP_SEND, 0, 0, 1, 0);
	hdr[0] = KW_DDP_CTRL_LAST;
	kt_fpdu(&o, hdr, sizeof(hdr), body, sizeof(body));
	KUNIT_EXPECT_EQ(test, o.len, sizeof(first) + 28);
	KUNIT_EXPECT_MEMEQ(test, o.p, first, sizeof(first));
	KUNIT_EXPECT_MEMEQ(test, o.p + o.len - 4, "\x4c\x86\xb3\x84", 4);

	o.len = 0x1ec;
	kw_ddp_put_untagged(hdr, true, KW_RDMAP_SEND, 0, 0, 2, 0);
	hdr[0] = KW_DDP_CTRL_LAST;
	kt_fpdu(&o, hdr, sizeof(hdr), body, sizeof(body));
	KUNIT_EXPECT_MEMEQ(test, o.p + 0x1ec, second, sizeof(second));
	KUNIT_EXPECT_MEMEQ(test, o.p + o.len - 4, "\xa1\x9c\xd1\x03", 4);
}

static void kt_test_start_frames(struct kunit *test)
{
	static const u8 request[] = "MPA ID Req Frame\xd0\x02\x00\x0c";
	struct kw_mpa_frame f, g;
	u8 again[KW_MPA_FRAME_LEN];
	size_t n;

	for (n = 0; n < KW_MPA_FRAME_LEN; n++)
		KUNIT_EXPECT_EQ(test, (int)(KW_MPA_FRAME_LEN - n),
				kw_mpa_frame_parse(request, n, KW_MPA_REQ, &f));
	KUNIT_ASSERT_EQ(test, 0, kw_mpa_frame_parse(request, n, KW_MPA_REQ, &f));
	KUNIT_EXPECT_TRUE(test, f.markers && f.crc && f.enhanced && !f.reject);
	KUNIT_EXPECT_EQ(test, f.rev, 2);
	KUNIT_EXPECT_EQ(test, f.pd_len, 12);
	KUNIT_EXPECT_EQ(test, kw_mpa_frame_build(again, &f), sizeof(again));
	KUNIT_EXPECT_MEMEQ(test, again, request, sizeof(again));
	KUNIT_EXPECT_EQ(test, KW_MPA_BAD_KEY,
			kw_mpa_frame_parse(request, n, KW_MPA_REP, &g));
}

static void kt_test_terminate(struct kunit *test)
{
	struct kw_term t = {
		.has_len = true,
		.has_ddp = true,
		.has_rdmap = true,
		.seg_len = 46,
		.ddp_hdr_len = KW_DDP_UNTAGGED_LEN,
	};
	u8 buf[KW_TERM_MAX_LEN];
	struct kw_term back;
	size_t n;

	kw_term_set_code(&t, KW_TERM_RDMAP_BOUNDS);
	kw_ddp_put_untagged(t.ddp_hdr, true, KW_RDMAP_CTRL(KW_RDMAP_READ_REQ),
			    0, KW_QN_READ_REQ, 7, 0);
	kt_pattern(t.rr_hdr, sizeof(t.rr_hdr), 1);
	KUNIT_ASSERT_EQ(test, kw_term_build(buf, &t), sizeof(buf));
	KUNIT_EXPECT_MEMEQ(test, buf, "\x01\x01\xe0\x00\x00\x2e", 6);
	KUNIT_ASSERT_EQ(test, 0, kw_term_parse(buf, sizeof(buf), &back));
	KUNIT_EXPECT_MEMEQ(test, &back, &t, sizeof(t));
	for (n = KW_TERM_CTRL_LEN; n < sizeof(buf); n++)
		KUNIT_EXPECT_EQ(test, KW_TERM_TRUNCATED,
				kw_term_parse(buf, n, &back));
	KUNIT_EXPECT_EQ(test, KW_TERM_SHORT, kw_term_parse(buf, 3, &back));
}

static void kt_test_sizes(struct kunit *test)
{
	u32 len, off;

	KUNIT_EXPECT_EQ(test, kw_fpdu_len(0), 8);
	KUNIT_EXPECT_EQ(test, kw_fpdu_len(65535), 65544);
	/* Counted marker by marker. */
	for (off = 0; off < 600; off += 4) {
		for (len = 4; len < 3000; len += 52) {
			u32 at = off, left = len, markers = 0;

			while (left) {
				u32 n = min(left, kw_marker_dist(at));

				if (!kw_marker_dist(at)) {
					markers++;
					at += KW_MARKER_LEN;
					continue;
				}
				at += n;
				left -= n;
			}
			if (markers != kw_markers_in(off, len))
				KUNIT_FAIL(test, "%u bytes at %u", len, off);
		}
	}
}

static struct kunit_case kt_wire_cases[] = {
	KUNIT_CASE(kt_test_crc_vectors),
	KUNIT_CASE(kt_test_crc_lengths),
	KUNIT_CASE(kt_test_crc_in_parts),
	KUNIT_CASE(kt_test_fpdu_vectors),
	KUNIT_CASE(kt_test_start_frames),
	KUNIT_CASE(kt_test_terminate),
	KUNIT_CASE(kt_test_sizes),
	{}
};

struct kunit_suite kt_wire_suite = {
	.name = "kiwarp_wire",
	.test_cases = kt_wire_cases,
};
