// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "wire/check.h"

#include <gtest/gtest.h>

#include "octets.h"
#include "wire/term.h"

namespace kiwarp::test {
namespace {

Octets tagged(bool last, u8 ctrl, u32 stag, u64 to) {
  return built(KW_DDP_TAGGED_LEN, [&](u8* p) {
    kw_ddp_put_tagged(p, last, ctrl, stag, to);
    return size_t{KW_DDP_TAGGED_LEN};
  });
}

Octets untagged(bool last, u8 ctrl, u32 ulp, u32 qn, u32 msn, u32 mo) {
  return built(KW_DDP_UNTAGGED_LEN, [&](u8* p) {
    kw_ddp_put_untagged(p, last, ctrl, ulp, qn, msn, mo);
    return size_t{KW_DDP_UNTAGGED_LEN};
  });
}

TEST(Ddp, HeaderLengthComesFromTheTaggedBitAlone) {
  for (unsigned octet = 0; octet < 256; octet++) {
    EXPECT_EQ(kw_ddp_hdr_len(static_cast<u8>(octet)), octet >= 0x80 ? 14U : 18U) << octet;
  }
}

TEST(Ddp, WritesTagged) {
  EXPECT_EQ(tagged(true, 0x40, 0x01020304, 0x1112131415161718),
            hex("c140 01020304 1112131415161718"));
  EXPECT_EQ(tagged(false, 0x42, 0xffeeddcc, 0xfedcba9876543210),
            hex("8142 ffeeddcc fedcba9876543210"));
}

TEST(Ddp, WritesUntagged) {
  EXPECT_EQ(untagged(true, 0x43, 0, 0, 1, 0), hex("4143 00000000 00000000 00000001 00000000"));
  EXPECT_EQ(untagged(false, 0x44, 0xcafe0102, 3, 0xffffffff, 0x80000001),
            hex("0144 cafe0102 00000003 ffffffff 80000001"));
}

TEST(Ddp, ReadsTagged) {
  const Octets octets = hex("c1 40 a1a2a3a4 b1b2b3b4b5b6b7b8");
  kw_ddp_hdr h{};
  kw_ddp_parse(octets.data(), &h);
  EXPECT_TRUE(h.tagged);
  EXPECT_TRUE(h.last);
  EXPECT_EQ(h.dv, KW_DDP_VERSION);
  EXPECT_EQ(h.rsvd_ulp_ctrl, 0x40);
  EXPECT_EQ(h.stag, 0xa1a2a3a4U);
  EXPECT_EQ(h.to, 0xb1b2b3b4b5b6b7b8ULL);
}

TEST(Ddp, ReadsUntagged) {
  const Octets octets = hex("01 46 a1a2a3a4 00000002 d1d2d3d4 e1e2e3e4");
  kw_ddp_hdr h{};
  kw_ddp_parse(octets.data(), &h);
  EXPECT_FALSE(h.tagged);
  EXPECT_FALSE(h.last);
  EXPECT_EQ(h.dv, KW_DDP_VERSION);
  EXPECT_EQ(h.rsvd_ulp_ctrl, 0x46);
  EXPECT_EQ(h.ulp_dword, 0xa1a2a3a4U);
  EXPECT_EQ(h.qn, u32{KW_QN_TERMINATE});
  EXPECT_EQ(h.msn, 0xd1d2d3d4U);
  EXPECT_EQ(h.mo, 0xe1e2e3e4U);
}

TEST(Ddp, ControlOctetIsReadBitByBit) {
  for (unsigned octet = 0; octet < 256; octet++) {
    Octets header(KW_DDP_HDR_MAX);
    header[0] = static_cast<u8>(octet);
    kw_ddp_hdr h{};
    kw_ddp_parse(header.data(), &h);
    EXPECT_EQ(h.tagged, (octet & 0x80) != 0) << octet;
    EXPECT_EQ(h.last, (octet & 0x40) != 0) << octet;
    EXPECT_EQ(h.dv, octet & 3) << octet;
  }
}

TEST(Ddp, RoundTrip) {
  kw_ddp_hdr h{};
  kw_ddp_parse(tagged(true, 0x42, 0x80000001, ~0ULL).data(), &h);
  EXPECT_EQ(h.rsvd_ulp_ctrl, 0x42);
  EXPECT_EQ(h.stag, 0x80000001U);
  EXPECT_EQ(h.to, ~0ULL);
  kw_ddp_parse(untagged(true, 0x4b, 7, KW_QN_ATOMIC_RESP, 0xfffffffe, 12).data(), &h);
  EXPECT_FALSE(h.tagged);
  EXPECT_EQ(h.ulp_dword, 7U);
  EXPECT_EQ(h.qn, u32{KW_QN_ATOMIC_RESP});
  EXPECT_EQ(h.msn, 0xfffffffeU);
  EXPECT_EQ(h.mo, 12U);
}

kw_ddp_hdr header(bool tagged_model, u8 dv, u32 qn) {
  kw_ddp_hdr h{};
  h.tagged = tagged_model;
  h.dv = dv;
  h.qn = qn;
  return h;
}

u16 checkHeader(bool tagged_model, u8 dv, u32 qn) {
  const kw_ddp_hdr h = header(tagged_model, dv, qn);
  return kw_ddp_check_header(&h);
}

TEST(DdpCheck, OnlyVersionOneIsValid) {
  for (u8 dv = 0; dv < 4; dv++) {
    EXPECT_EQ(checkHeader(true, dv, 0), dv == 1 ? 0 : KW_TERM_DDP_TAGGED_VERSION) << int{dv};
    EXPECT_EQ(checkHeader(false, dv, 0), dv == 1 ? 0 : KW_TERM_DDP_UNTAGGED_VERSION) << int{dv};
  }
}

TEST(DdpCheck, ThreeQueuesAreValid) {
  for (u32 qn : {0U, 1U, 2U}) EXPECT_EQ(checkHeader(false, 1, qn), 0) << qn;
  for (u32 qn : {3U, 4U, 0x100U, 0x80000000U, ~0U}) {
    EXPECT_EQ(checkHeader(false, 1, qn), KW_TERM_DDP_UNTAGGED_INV_QN) << qn;
  }
}

TEST(DdpCheck, ATaggedHeaderHasNoQueue) { EXPECT_EQ(checkHeader(true, 1, 77), 0); }

TEST(DdpCheck, TheVersionComesBeforeTheQueue) {
  EXPECT_EQ(checkHeader(false, 2, 77), KW_TERM_DDP_UNTAGGED_VERSION);
}

u16 checkOffset(u32 mo, u32 len, bool last, u64 room, u64 placed) {
  kw_ddp_hdr h = header(false, 1, 0);
  h.mo = mo;
  h.last = last;
  return kw_ddp_check_offset(&h, len, room, placed);
}

TEST(DdpCheck, SegmentsInOrderFillTheBuffer) {
  EXPECT_EQ(checkOffset(0, 60, false, 100, 0), 0);
  EXPECT_EQ(checkOffset(60, 40, true, 100, 60), 0);
  EXPECT_EQ(checkOffset(0, 100, true, 100, 0), 0);
}

TEST(DdpCheck, AMessageMayBeShorterThanItsBuffer) {
  EXPECT_EQ(checkOffset(0, 1, true, 100, 0), 0);
  EXPECT_EQ(checkOffset(0, 0, true, 100, 0), 0);
  EXPECT_EQ(checkOffset(0, 0, true, 0, 0), 0);
}

TEST(DdpCheck, TooLongByOneOctet) {
  EXPECT_EQ(checkOffset(0, 101, true, 100, 0), KW_TERM_DDP_UNTAGGED_TOO_LONG);
  EXPECT_EQ(checkOffset(60, 41, false, 100, 60), KW_TERM_DDP_UNTAGGED_TOO_LONG);
  EXPECT_EQ(checkOffset(0, 1, true, 0, 0), KW_TERM_DDP_UNTAGGED_TOO_LONG);
  EXPECT_EQ(checkOffset(100, 1, true, 100, 100), KW_TERM_DDP_UNTAGGED_TOO_LONG);
}

TEST(DdpCheck, AnOffsetBehindTheBufferIsInvalid) {
  EXPECT_EQ(checkOffset(101, 1, false, 100, 0), KW_TERM_DDP_UNTAGGED_INV_MO);
  EXPECT_EQ(checkOffset(~0U, 1, false, 100, 0), KW_TERM_DDP_UNTAGGED_INV_MO);
}

// RFC 5041 section 7.1 checks segments with payload only.
TEST(DdpCheck, AnEmptySegmentMayBeAnywhere) {
  EXPECT_EQ(checkOffset(~0U, 0, false, 100, 0), 0);
  EXPECT_EQ(checkOffset(101, 0, true, 100, 0), KW_TERM_DDP_UNTAGGED_INV_MO);
}

TEST(DdpCheck, SegmentsMayComeInAnyOrder) {
  EXPECT_EQ(checkOffset(50, 30, false, 100, 0), 0);
  EXPECT_EQ(checkOffset(0, 50, false, 100, 30), 0);
  EXPECT_EQ(checkOffset(80, 20, true, 100, 80), 0);
}

TEST(DdpCheck, AGapIsFoundAtTheEnd) {
  EXPECT_EQ(checkOffset(1, 10, true, 100, 0), KW_TERM_DDP_UNTAGGED_INV_MO);
  EXPECT_EQ(checkOffset(60, 10, true, 100, 50), KW_TERM_DDP_UNTAGGED_INV_MO);
  EXPECT_EQ(checkOffset(60, 0, true, 100, 59), KW_TERM_DDP_UNTAGGED_INV_MO);
}

TEST(DdpCheck, MessagesOfTheGreatestLength) {
  constexpr u64 kMost = 0xffffffff;
  EXPECT_EQ(checkOffset(0xfffffffe, 1, true, kMost, 0xfffffffe), 0);
  EXPECT_EQ(checkOffset(0xfffffffe, 2, true, kMost, 0xfffffffe), KW_TERM_DDP_UNTAGGED_TOO_LONG);
  EXPECT_EQ(checkOffset(0xffffffff, 0, true, kMost, kMost), 0);
  // More octets than 32 bits can count, sent by a peer that repeats itself.
  EXPECT_EQ(checkOffset(0, 10, true, kMost, 0x100000000), KW_TERM_DDP_UNTAGGED_INV_MO);
}

}  // namespace
}  // namespace kiwarp::test
