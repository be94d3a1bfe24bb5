// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <utility>

#include "bytes.h"
#include "wire/check.h"
#include "wire/term.h"

namespace kiwarp::test {
namespace {

Bytes tagged(bool last, u8 ctrl, u32 stag, u64 to) {
  return built(KW_DDP_TAGGED_LEN, [&](u8* p) {
    kw_ddp_put_tagged(p, last, ctrl, stag, to);
    return size_t{KW_DDP_TAGGED_LEN};
  });
}

Bytes untagged(bool last, u8 ctrl, u32 ulp, u32 qn, u32 msn, u32 mo) {
  return built(KW_DDP_UNTAGGED_LEN, [&](u8* p) {
    kw_ddp_put_untagged(p, last, ctrl, ulp, qn, msn, mo);
    return size_t{KW_DDP_UNTAGGED_LEN};
  });
}

TEST(Ddp, HeaderLengthComesFromTheTaggedBitAlone) {
  for (unsigned byte = 0; byte < 256; byte++) {
    EXPECT_EQ(kw_ddp_hdr_len(static_cast<u8>(byte)), byte >= 0x80 ? 14U : 18U) << byte;
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
  const Bytes bytes = hex("c1 40 a1a2a3a4 b1b2b3b4b5b6b7b8");
  kw_ddp_hdr h{};
  kw_ddp_parse(bytes.data(), &h);
  EXPECT_TRUE(h.tagged);
  EXPECT_TRUE(h.last);
  EXPECT_EQ(h.dv, KW_DDP_VERSION);
  EXPECT_EQ(h.rsvd_ulp_ctrl, 0x40);
  EXPECT_EQ(h.stag, 0xa1a2a3a4U);
  EXPECT_EQ(h.to, 0xb1b2b3b4b5b6b7b8ULL);
}

TEST(Ddp, ReadsUntagged) {
  const Bytes bytes = hex("01 46 a1a2a3a4 00000002 d1d2d3d4 e1e2e3e4");
  kw_ddp_hdr h{};
  kw_ddp_parse(bytes.data(), &h);
  EXPECT_FALSE(h.tagged);
  EXPECT_FALSE(h.last);
  EXPECT_EQ(h.dv, KW_DDP_VERSION);
  EXPECT_EQ(h.rsvd_ulp_ctrl, 0x46);
  EXPECT_EQ(h.ulp_dword, 0xa1a2a3a4U);
  EXPECT_EQ(h.qn, u32{KW_QN_TERMINATE});
  EXPECT_EQ(h.msn, 0xd1d2d3d4U);
  EXPECT_EQ(h.mo, 0xe1e2e3e4U);
}

TEST(Ddp, ControlByteIsReadBitByBit) {
  for (unsigned byte = 0; byte < 256; byte++) {
    Bytes header(KW_DDP_HDR_MAX);
    header[0] = static_cast<u8>(byte);
    kw_ddp_hdr h{};
    kw_ddp_parse(header.data(), &h);
    EXPECT_EQ(h.tagged, (byte & 0x80) != 0) << byte;
    EXPECT_EQ(h.last, (byte & 0x40) != 0) << byte;
    EXPECT_EQ(h.dv, byte & 3) << byte;
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

u16 checkHeader(bool tagged_model, u8 dv, u32 qn, u8 version = KW_DDP_VERSION,
                u32 nr_qn = KW_NR_QN) {
  const kw_ddp_hdr h = header(tagged_model, dv, qn);
  return kw_ddp_check_header(&h, version, nr_qn);
}

TEST(DdpCheck, OnlyTheConnectionsVersionIsValid) {
  for (u8 v : {u8{0}, u8{1}}) {
    for (u8 dv = 0; dv < 4; dv++) {
      EXPECT_EQ(checkHeader(true, dv, 0, v), dv == v ? 0 : KW_TERM_DDP_TAGGED_VERSION) << int{dv};
      EXPECT_EQ(checkHeader(false, dv, 0, v), dv == v ? 0 : KW_TERM_DDP_UNTAGGED_VERSION)
          << int{dv};
    }
  }
}

TEST(DdpCheck, ThreeQueuesAreValid) {
  for (u32 qn : {0U, 1U, 2U}) EXPECT_EQ(checkHeader(false, 1, qn), 0) << qn;
  for (u32 qn : {3U, 4U, 0x100U, 0x80000000U, ~0U}) {
    EXPECT_EQ(checkHeader(false, 1, qn), KW_TERM_DDP_UNTAGGED_INV_QN) << qn;
  }
}

TEST(DdpCheck, AFourthQueueIsForAtomics) {
  EXPECT_EQ(checkHeader(false, 1, KW_QN_ATOMIC_RESP, 1, KW_NR_QN_ATOMICS), 0);
  EXPECT_EQ(checkHeader(false, 1, 4, 1, KW_NR_QN_ATOMICS), KW_TERM_DDP_UNTAGGED_INV_QN);
}

TEST(DdpCheck, ATaggedHeaderHasNoQueue) { EXPECT_EQ(checkHeader(true, 1, 77), 0); }

TEST(DdpCheck, TheVersionComesBeforeTheQueue) {
  EXPECT_EQ(checkHeader(false, 2, 77), KW_TERM_DDP_UNTAGGED_VERSION);
}

// A message on its way into a buffer of room bytes.
class Message {
 public:
  explicit Message(u32 room) : room_(room) {}

  u16 take(u32 mo, u32 len, bool last = false) {
    kw_ddp_hdr h = header(false, 1, 0);
    h.mo = mo;
    h.last = last;
    return kw_ddp_take(&got_, &h, len, room_);
  }
  u16 last(u32 mo, u32 len) { return take(mo, len, true); }
  u32 parts() const { return got_.nr; }

 private:
  u32 room_;
  kw_ddp_got got_{};
};

TEST(DdpCheck, SegmentsInOrderFillTheBuffer) {
  Message m(100);
  EXPECT_EQ(m.take(0, 60), 0);
  EXPECT_EQ(m.last(60, 40), 0);
  EXPECT_EQ(m.parts(), 1U);
  EXPECT_EQ(Message(100).last(0, 100), 0);
}

TEST(DdpCheck, AMessageMayBeShorterThanItsBuffer) {
  EXPECT_EQ(Message(100).last(0, 1), 0);
  EXPECT_EQ(Message(100).last(0, 0), 0);
  EXPECT_EQ(Message(0).last(0, 0), 0);
}

TEST(DdpCheck, TooLongByOneByte) {
  EXPECT_EQ(Message(100).last(0, 101), KW_TERM_DDP_UNTAGGED_TOO_LONG);
  EXPECT_EQ(Message(0).last(0, 1), KW_TERM_DDP_UNTAGGED_TOO_LONG);
  Message m(100);
  EXPECT_EQ(m.take(0, 60), 0);
  EXPECT_EQ(m.take(60, 41), KW_TERM_DDP_UNTAGGED_TOO_LONG);
  EXPECT_EQ(m.last(100, 1), KW_TERM_DDP_UNTAGGED_TOO_LONG);
}

TEST(DdpCheck, AnOffsetBehindTheBufferIsInvalid) {
  EXPECT_EQ(Message(100).take(101, 1), KW_TERM_DDP_UNTAGGED_INV_MO);
  EXPECT_EQ(Message(100).take(~0U, 1), KW_TERM_DDP_UNTAGGED_INV_MO);
}

// RFC 5041 section 7.1 checks segments with payload only.
TEST(DdpCheck, AnEmptySegmentMayBeAnywhere) {
  Message m(100);
  EXPECT_EQ(m.take(~0U, 0), 0);
  EXPECT_EQ(m.parts(), 0U);
  EXPECT_EQ(m.last(101, 0), KW_TERM_DDP_UNTAGGED_INV_MO);
}

// Three parts of 10 bytes, in each order in which the last can be the last.
TEST(DdpCheck, SegmentsMayComeInAnyOrder) {
  for (const auto& order : {std::array<u32, 3>{0, 10, 20},
                            {0, 20, 10},
                            {10, 0, 20},
                            {10, 20, 0},
                            {20, 0, 10},
                            {20, 10, 0}}) {
    Message m(100);
    for (u32 mo : order) EXPECT_EQ(m.take(mo, 10), 0);
    EXPECT_EQ(m.parts(), 1U);
    EXPECT_EQ(m.last(30, 10), 0);
  }
}

TEST(DdpCheck, AGapIsFoundAtTheEnd) {
  EXPECT_EQ(Message(100).last(1, 10), KW_TERM_DDP_UNTAGGED_INV_MO);
  for (u32 len : {0U, 10U}) {
    Message m(100);
    EXPECT_EQ(m.take(0, 59), 0);
    EXPECT_EQ(m.last(60, len), KW_TERM_DDP_UNTAGGED_INV_MO);
  }
  Message m(100);
  EXPECT_EQ(m.take(1, 59), 0);
  EXPECT_EQ(m.last(60, 10), KW_TERM_DDP_UNTAGGED_INV_MO);
}

TEST(DdpCheck, TheLastSegmentHasTheHighestOffset) {
  Message m(100);
  EXPECT_EQ(m.take(0, 10), 0);
  EXPECT_EQ(m.take(20, 10), 0);
  EXPECT_EQ(m.last(10, 10), KW_TERM_DDP_UNTAGGED_INV_MO);
}

TEST(DdpCheck, NoByteComesTwice) {
  const auto between = [](u32 mo, u32 len) {
    Message m(100);
    EXPECT_EQ(m.take(20, 10), 0);
    EXPECT_EQ(m.take(40, 10), 0);
    return m.take(mo, len);
  };
  for (const auto& [mo, len] : {std::pair<u32, u32>{20, 10},
                                {19, 2},
                                {29, 1},
                                {29, 2},
                                {15, 6},
                                {22, 3},
                                {0, 100},
                                {39, 2},
                                {30, 11},
                                {49, 1},
                                {45, 20}}) {
    EXPECT_EQ(between(mo, len), KW_TERM_DDP_UNTAGGED_INV_MO) << mo << ' ' << len;
  }
  for (const auto& [mo, len] :
       {std::pair<u32, u32>{0, 20}, {30, 10}, {32, 5}, {30, 5}, {35, 5}, {50, 50}}) {
    EXPECT_EQ(between(mo, len), 0) << mo << ' ' << len;
  }
}

// The sum of the lengths is right, and bytes 10 to 19 never came.
TEST(DdpCheck, AnOverlapDoesNotMakeUpForAGap) {
  Message m(100);
  EXPECT_EQ(m.take(0, 10), 0);
  EXPECT_EQ(m.take(20, 10), 0);
  EXPECT_EQ(m.take(20, 10), KW_TERM_DDP_UNTAGGED_INV_MO);
}

TEST(DdpCheck, PartsAreKeptUpToALimit) {
  Message m(~0U);
  for (u32 n = 0; n < KW_DDP_MAX_RANGES; n++) EXPECT_EQ(m.take(20 * n + 10, 10), 0) << n;
  EXPECT_EQ(m.take(20 * KW_DDP_MAX_RANGES + 10, 10), KW_TERM_DDP_UNTAGGED_INV_MO);
  for (u32 n = 0; n < KW_DDP_MAX_RANGES; n++) EXPECT_EQ(m.take(20 * n, 10), 0) << n;
  EXPECT_EQ(m.parts(), 1U);
  EXPECT_EQ(m.last(20 * KW_DDP_MAX_RANGES, 5), 0);
}

// A short message is checked by another function, in the same way.
TEST(DdpCheck, AShortMessageIsCheckedAlike) {
  std::mt19937 random(7);
  const auto upTo = [&random](u32 most) { return static_cast<u32>(random() % (most + 1)); };
  std::set<u16> codes;
  u32 delivered = 0;
  for (u32 round = 0; round < 20000; round++) {
    const u32 room = upTo(KW_DDP_SHORT_MAX);
    Message any(room);
    u64 bytes = 0;
    u32 end = 0;
    for (u32 segment = 0; segment < 8; segment++) {
      kw_ddp_hdr h = header(false, 1, 0);
      // In order half of the time: otherwise few messages would ever be complete.
      h.mo = upTo(1) ? end : upTo(15) ? upTo(room + 2) : ~0U - upTo(1);
      h.last = upTo(3) == 0;
      const u32 len = upTo(15) ? upTo(room / 4 + 1) : upTo(1) ? room - h.mo : ~0U;
      const u16 code = any.take(h.mo, len, h.last);
      ASSERT_EQ(kw_ddp_take_short(&bytes, &h, len, room), code)
          << h.mo << ' ' << len << ' ' << room;
      codes.insert(code);
      if (code || h.last) {
        delivered += code == 0;
        break;
      }
      end = h.mo + len;
    }
  }
  EXPECT_EQ(codes.size(), 3U);
  EXPECT_GT(delivered, 1000U);
}

// Every second byte, then the others: more parts than are kept of a long message.
TEST(DdpCheck, AShortMessageMayComeByteByByte) {
  u64 bytes = 0;
  kw_ddp_hdr h = header(false, 1, 0);
  for (u32 first : {1U, 0U}) {
    for (h.mo = first; h.mo < KW_DDP_SHORT_MAX - 1; h.mo += 2) {
      EXPECT_EQ(kw_ddp_take_short(&bytes, &h, 1, KW_DDP_SHORT_MAX), 0);
    }
  }
  h.last = true;
  h.mo = KW_DDP_SHORT_MAX - 1;
  EXPECT_EQ(kw_ddp_take_short(&bytes, &h, 1, KW_DDP_SHORT_MAX), 0);
}

TEST(DdpCheck, MessagesOfTheGreatestLength) {
  constexpr u32 kMost = 0xffffffff;
  const auto behind = [](u32 mo, u32 len, bool last) {
    Message m(kMost);
    EXPECT_EQ(m.take(0, mo), 0);
    return m.take(mo, len, last);
  };
  EXPECT_EQ(behind(0xfffffffe, 1, true), 0);
  EXPECT_EQ(behind(0xfffffffe, 2, true), KW_TERM_DDP_UNTAGGED_TOO_LONG);
  EXPECT_EQ(behind(0xffffffff, 0, true), 0);
  EXPECT_EQ(behind(0xffffffff, 1, false), KW_TERM_DDP_UNTAGGED_TOO_LONG);
}

}  // namespace
}  // namespace kiwarp::test
