// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
// Segmentation: MULPDU, and FPDUs that fit TCP segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "wire/ddp.h"
#include "wire/fpdu.h"

namespace kiwarp::test {
namespace {

constexpr u32 kBlock = 32768;
constexpr u32 kLong = 1 << 20;

kw_segmenter segmentStart(u32 emss, u32 off, bool markers, u32 fpdu_max = 0, bool large = false) {
  kw_segmenter cut{};
  cut.off = off;
  cut.markers = markers;
  kw_segmenter_bound(&cut, emss, fpdu_max, large);
  cut.room = emss;
  return cut;
}

u32 ulpduOf(const kw_segmenter& cut, u32 hdr_len = KW_DDP_TAGGED_LEN, u32 want = kLong,
            u32 left = kBlock * 4) {
  const int payload = kw_segmenter_payload(&cut, left, hdr_len, want);
  EXPECT_GE(payload, 0);
  return hdr_len + static_cast<u32>(payload);
}

u32 spanOf(const kw_segmenter& cut, u32 ulpdu_len) {
  return kw_fpdu_span(cut.off, kw_fpdu_len(ulpdu_len), cut.markers);
}

// RFC 5044 section 4.5, to the letter.
u32 mulpdu(u32 emss, bool markers) {
  const u32 taken = 6 + (markers ? 4 * ((emss + 511) / 512) : 0) + emss % 4;
  return std::clamp(emss > taken ? emss - taken : 0, 128U, 64768U);
}

struct MulpduCase {
  u32 emss;
  u32 plain;
  u32 marked;
};

// Computed by hand from EMSS - (6 + EMSS mod 4), and with 4 * ceil(EMSS / 512) less.
constexpr MulpduCase kMulpdu[] = {
    {0, 128, 128},         {127, 128, 128},       {134, 128, 128},       {136, 130, 128},
    {138, 130, 128},       {140, 134, 130},       {511, 502, 498},       {512, 506, 502},
    {513, 506, 498},       {516, 510, 502},       {536, 530, 522},       {1024, 1018, 1010},
    {1028, 1022, 1010},    {1220, 1214, 1202},    {1440, 1434, 1422},    {1447, 1438, 1426},
    {1448, 1442, 1430},    {1449, 1442, 1430},    {1450, 1442, 1430},    {1451, 1442, 1430},
    {1460, 1454, 1442},    {8948, 8942, 8870},    {8960, 8954, 8882},    {64767, 64758, 64250},
    {64774, 64766, 64258}, {64776, 64768, 64262}, {65280, 64768, 64762}, {65284, 64768, 64766},
    {65288, 64768, 64768}, {65483, 64768, 64768}, {65535, 64768, 64768},
};

TEST(Cut, MulpduTable) {
  for (const auto& c : kMulpdu) {
    EXPECT_EQ(mulpdu(c.emss, false), c.plain) << "EMSS " << c.emss;
    EXPECT_EQ(mulpdu(c.emss, true), c.marked) << "EMSS " << c.emss << " with markers";
  }
}

// Payload is cut at multiples of four, so a ULPDU is two bytes more than one.
TEST(Cut, ALongMessageGivesMulpdu) {
  for (u32 emss = 136; emss <= 65535; emss++) {
    const u32 most = (mulpdu(emss, false) - 2) / 4 * 4 + 2;
    ASSERT_EQ(ulpduOf(segmentStart(emss, 0, false)), std::max(most, 130U)) << "EMSS " << emss;
  }
}

// The formula leaves room for the markers of the worst offset. Where the offset is known, a segment
// can have one marker fewer and the ULPDU as many bytes more.
TEST(Cut, WithMarkersALongMessageGivesMulpduOrOneMarkerMore) {
  for (const u32 emss : {144U, 511U, 512U, 513U, 516U, 536U, 1024U, 1028U, 1220U, 1428U, 1448U,
                         1449U, 1450U, 1451U, 1460U, 8948U, 16344U, 65000U, 65483U}) {
    const u32 formula = mulpdu(emss, true);
    u32 least = ~0U;
    u32 most = 0;
    for (u32 off = 0; off < KW_MARKER_INTERVAL; off += 4) {
      const kw_segmenter cut = segmentStart(emss, off, true);
      const u32 ulpdu_len = ulpduOf(cut);
      ASSERT_LE(spanOf(cut, ulpdu_len), emss) << "EMSS " << emss << " offset " << off;
      least = std::min(least, ulpdu_len);
      most = std::max(most, ulpdu_len);
    }
    EXPECT_GE(least + 2, formula) << "EMSS " << emss;
    EXPECT_LE(most, std::min(formula + KW_MARKER_LEN, 64768U)) << "EMSS " << emss;
  }
}

TEST(Cut, FpduLimit) {
  const auto limit = [](u32 emss, u32 fpdu_max, bool large) {
    return segmentStart(emss, 0, false, fpdu_max, large).limit;
  };
  EXPECT_EQ(limit(1448, 0, false), 1448U);
  EXPECT_EQ(limit(1448, 0, true), 1448U);
  EXPECT_EQ(limit(1448, 600, false), 600U);
  EXPECT_EQ(limit(1448, 600, true), 600U);
  EXPECT_EQ(limit(1448, 9000, false), 1448U);
  EXPECT_EQ(limit(1448, 9000, true), 9000U);
  // An FPDU of 128 bytes with a marker.
  EXPECT_EQ(limit(1448, 1, false), 140U);
  EXPECT_EQ(limit(48, 0, false), 140U);
}

TEST(Cut, ALowerLimitIsKept) {
  for (const u32 fpdu_max : {1U, 140U, 141U, 200U, 512U, 1000U, 1447U}) {
    for (const bool markers : {false, true}) {
      kw_segmenter cut = segmentStart(1448, 0, markers, fpdu_max);
      for (int i = 0; i < 1000; i++) {
        if (kw_segmenter_is_tight(&cut)) cut.room = cut.emss;
        const u32 span = spanOf(cut, ulpduOf(cut));
        ASSERT_LE(span, std::max(fpdu_max, 140U));
        ASSERT_LE(span, cut.room);
        kw_segmenter_advance(&cut, span);
      }
    }
  }
}

TEST(Cut, ALargeFpduEndsWithASegment) {
  for (const bool markers : {false, true}) {
    kw_segmenter cut = segmentStart(1448, 0, markers, 20000, true);
    for (int i = 0; i < 64; i++) {
      const u32 span = spanOf(cut, ulpduOf(cut));
      EXPECT_EQ(span, 13U * 1448);
      kw_segmenter_advance(&cut, span);
      EXPECT_EQ(cut.room, cut.emss);
    }
  }
}

TEST(Cut, ALargeFpduIsNeverOver64768) {
  for (const bool markers : {false, true}) {
    for (u32 off = 0; off < KW_MARKER_INTERVAL; off += 4) {
      EXPECT_LE(ulpduOf(segmentStart(1448, off, markers, 200000, true)), 64768U);
      EXPECT_LE(ulpduOf(segmentStart(65535, off, markers)), 64768U);
    }
  }
}

TEST(Cut, SmallMssSpansSegments) {
  for (u32 emss = 1; emss < 136; emss++) {
    for (u32 off = 0; off < KW_MARKER_INTERVAL; off += 4) {
      for (const bool markers : {false, true}) {
        const kw_segmenter cut = segmentStart(emss, off, markers);
        const u32 ulpdu_len = ulpduOf(cut);
        EXPECT_GE(ulpdu_len, 128U);
        EXPECT_LE(spanOf(cut, ulpdu_len), 140U);
      }
    }
  }
}

// RFC 5044 section 4.5: no MULPDU under 128 for the rest of a segment, but what is small enough
// may still go into it.
TEST(Cut, TheRestOfASegment) {
  kw_segmenter cut = segmentStart(1448, 4, false);
  cut.room = 132;
  EXPECT_TRUE(kw_segmenter_is_tight(&cut));
  EXPECT_EQ(kw_segmenter_payload(&cut, kBlock, KW_DDP_TAGGED_LEN, 1000), KW_SEGMENTER_SEGMENT);
  EXPECT_EQ(kw_segmenter_payload(&cut, kBlock, KW_DDP_TAGGED_LEN, 112), 112);
  EXPECT_EQ(kw_segmenter_payload(&cut, kBlock, KW_DDP_TAGGED_LEN, 113), KW_SEGMENTER_SEGMENT);
  cut.room = 136;
  EXPECT_FALSE(kw_segmenter_is_tight(&cut));
  EXPECT_EQ(kw_segmenter_payload(&cut, kBlock, KW_DDP_TAGGED_LEN, 1000), 116);
  cut.markers = true;
  cut.off = 512;
  EXPECT_TRUE(kw_segmenter_is_tight(&cut));
  EXPECT_EQ(kw_segmenter_payload(&cut, kBlock, KW_DDP_TAGGED_LEN, 1000), KW_SEGMENTER_SEGMENT);
  cut.room = 140;
  EXPECT_EQ(kw_segmenter_payload(&cut, kBlock, KW_DDP_TAGGED_LEN, 1000), 116);
}

TEST(Cut, MessagesOfSeveralGigabytes) {
  for (const u32 want : {0x7fffffffU, 0x80000000U, 0xffffffedU, 0xfffffff2U, 0xffffffffU}) {
    const kw_segmenter cut = segmentStart(1448, 0, false);
    EXPECT_EQ(kw_segmenter_payload(&cut, kBlock, KW_DDP_TAGGED_LEN, want), 1428);
    EXPECT_EQ(kw_segmenter_payload(&cut, kBlock, KW_DDP_UNTAGGED_LEN, want), 1424);
  }
}

TEST(Cut, TheRestOfABlock) {
  const kw_segmenter cut = segmentStart(8948, 0, false);
  EXPECT_EQ(kw_segmenter_payload(&cut, 8948, KW_DDP_TAGGED_LEN, kLong), 8928);
  EXPECT_EQ(kw_segmenter_payload(&cut, 8944, KW_DDP_TAGGED_LEN, kLong), 8924);
  EXPECT_EQ(kw_segmenter_payload(&cut, 4032, KW_DDP_TAGGED_LEN, kLong), 4012);
  EXPECT_EQ(kw_segmenter_payload(&cut, 4028, KW_DDP_TAGGED_LEN, kLong), KW_SEGMENTER_END_BUF);
  EXPECT_EQ(kw_segmenter_payload(&cut, 4028, KW_DDP_TAGGED_LEN, 4008), 4008);
  EXPECT_EQ(kw_segmenter_payload(&cut, 4028, KW_DDP_TAGGED_LEN, 4009), KW_SEGMENTER_END_BUF);
}

// The usual cases are handled inline, with the same results.
TEST(Cut, TheShortWayAgrees) {
  for (u32 emss = 36; emss < 70000; emss += emss / 16 + 1) {
    for (const u32 fpdu_max : {0U, 300U, 20000U}) {
      kw_segmenter cut = segmentStart(emss, 0, false, fpdu_max, true);
      for (const u32 room : {emss, emss - 1, emss / 2, 136U, 4U}) {
        cut.room = std::min(room, emss);
        for (const u32 left : {512U, 1448U, 4032U, 9000U, kBlock}) {
          for (const u32 want : {0U, 1U, 100U, 110U, 111U, 112U, 113U, emss - 20, emss - 19, emss,
                                 64746U, 64750U, 64754U, 64770U, kLong, ~0U}) {
            ASSERT_EQ(kw_segmenter_payload(&cut, left, KW_DDP_TAGGED_LEN, want),
                      kw_segmenter_payload_any(&cut, left, KW_DDP_TAGGED_LEN, want))
                << emss << " " << cut.room << " " << left << " " << want;
          }
        }
      }
    }
  }
}

TEST(Cut, AdvanceKnowsWhereSegmentsEnd) {
  kw_segmenter cut = segmentStart(1000, 0xfffffff0, true);
  kw_segmenter_advance(&cut, 400);
  EXPECT_EQ(cut.room, 600U);
  EXPECT_EQ(cut.off, 384U);
  kw_segmenter_advance(&cut, 600);
  EXPECT_EQ(cut.room, 1000U);
  kw_segmenter_advance(&cut, 2400);
  EXPECT_EQ(cut.room, 600U);
}

// A sender of messages of any length, as in stream/tx.c; checks what must hold of every FPDU.
class Sender {
 public:
  Sender(u32 emss, bool markers, u32 off) : cut_(segmentStart(emss, off, markers)) { newBlock(); }

  void setEmss(u32 emss) { next_emss_ = emss; }

  void message(u32 hdr_len, u32 len) {
    u32 sent = 0;
    do {
      sent += fpdu(hdr_len, len - sent);
    } while (sent < len && !::testing::Test::HasFatalFailure());
  }

  u32 fpdus = 0;
  u32 ended_early = 0;  // segments that were not filled though more was to be sent

 private:
  static constexpr u32 kFresh = 4096;  // a transmit buffer is at least a page

  void newBlock() {
    left_ = big_ ? kBlock : kFresh;
    big_ = !big_;
    if (next_emss_ != 0) {
      kw_segmenter_bound(&cut_, next_emss_, 0, false);
      cut_.room = next_emss_;
      next_emss_ = 0;
    }
    if (kw_segmenter_is_tight(&cut_)) endSegment();
  }

  void endSegment() {
    cut_.room = cut_.emss;
    ended_early++;
  }

  u32 fpdu(u32 hdr_len, u32 want) {
    int payload = 0;
    for (int tries = 0;; tries++) {
      payload = kw_segmenter_payload(&cut_, left_, hdr_len, want);
      if (payload >= 0) break;
      // At the start of a transmit buffer and of a segment an FPDU can always be made.
      EXPECT_LT(tries, 2);
      if (tries == 2) return want;
      if (payload == KW_SEGMENTER_SEGMENT) {
        EXPECT_NE(cut_.room, cut_.emss);
        endSegment();
      }
      newBlock();
    }
    const auto taken = static_cast<u32>(payload);
    const u32 span = spanOf(cut_, hdr_len + taken);
    EXPECT_LE(taken, want);
    EXPECT_EQ(span % 4, 0U);
    EXPECT_LE(span, left_);
    EXPECT_LE(hdr_len + taken, 64768U);
    if (cut_.emss >= 140) {
      EXPECT_LE(span, cut_.room) << "an FPDU leaves its segment";
    }
    if (taken != want) {
      EXPECT_EQ(taken % 4, 0U);
      EXPECT_GE(hdr_len + taken, 128U);
    }
    kw_segmenter_advance(&cut_, span);
    left_ -= span;
    fpdus++;
    return taken;
  }

  kw_segmenter cut_;
  u32 left_ = 0;
  u32 next_emss_ = 0;
  bool big_ = true;
};

TEST(Cut, AnyMessagesAnyEmss) {
  std::mt19937 random(1);
  const auto below = [&](u32 n) { return static_cast<u32>(random() % n); };
  for (int round = 0; round < 400 && !HasFailure(); round++) {
    Sender sender(36 + below(round % 4 != 0 ? 1500 : 65500), round % 2 != 0, below(1 << 30) * 4);
    for (int i = 0; i < 200; i++) {
      if (below(50) == 0) sender.setEmss(36 + below(9000));
      const u32 hdr_len = below(2) != 0 ? KW_DDP_TAGGED_LEN : KW_DDP_UNTAGGED_LEN;
      sender.message(hdr_len, below(below(4) != 0 ? 3000 : 100000));
    }
  }
}

// One FPDU per segment, each to its last byte, so that TSO cuts where FPDUs end. Markers change
// one thing: a marker that would be the last word of a segment belongs to the next FPDU, and the
// segment ends before it.
TEST(Cut, ALongMessageFillsSegments) {
  for (const bool markers : {false, true}) {
    for (const u32 emss : {1428U, 1448U, 1460U, 8948U}) {
      kw_segmenter cut = segmentStart(emss, 0, markers);
      for (int i = 0; i < 1000; i++) {
        const bool marker_at_end = markers && (cut.off + emss) % 512 == 4;
        const u32 span = spanOf(cut, ulpduOf(cut));
        ASSERT_EQ(span, marker_at_end ? emss - 4 : emss) << "EMSS " << emss << " at " << cut.off;
        kw_segmenter_advance(&cut, span);
        ASSERT_EQ(kw_segmenter_is_tight(&cut), marker_at_end);
        cut.room = cut.emss;
      }
    }
  }
}

}  // namespace
}  // namespace kiwarp::test
