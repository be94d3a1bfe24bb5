// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
// Whole FPDUs, with markers and without.
#include "wire/fpdu.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bytes.h"
#include "wire/crc.h"

namespace kiwarp::test {
namespace {

Bytes marker(u32 fpduptr) {
  Bytes bytes(KW_MARKER_LEN);
  put_unaligned_be32(fpduptr, bytes.data());
  return bytes;
}

// RFC 5044 section 4, byte by byte: the FPDU, or the marker that precedes it, begins at stream
// offset `off`. A marker stands before any byte that would stand at a multiple of 512.
Bytes specified(u32 off, const Bytes& ulpdu, bool markers) {
  Bytes plain(2);
  put_unaligned_be16(static_cast<u16>(ulpdu.size()), plain.data());
  plain = plain + ulpdu;
  while (plain.size() % 4 != 0) plain.push_back(0);

  Bytes out;
  size_t header = 0;
  const auto mark = [&] {
    if (!markers || (off + out.size()) % 512 != 0) return;
    out = out + marker(static_cast<u32>(out.size() - header));
    if (out.size() == KW_MARKER_LEN) header = KW_MARKER_LEN;
  };
  for (const u8 byte : plain) {
    mark();
    out.push_back(byte);
  }
  mark();
  const u32 crc = kw_crc32c(KW_CRC_SEED, out.data(), out.size());
  Bytes field(4);
  kw_crc_put(field.data(), crc);
  return out + field;
}

// The same FPDU as the module builds it.
Bytes built(u32 off, const Bytes& ulpdu, bool markers) {
  const auto ulpdu_len = static_cast<u32>(ulpdu.size());
  const u32 len = kw_fpdu_len(ulpdu_len);
  const u32 span = kw_fpdu_span(off, len, markers);
  Bytes out(span + 8, kGuard);
  u8* header = out.data() + (span - len);
  put_unaligned_be16(static_cast<u16>(ulpdu_len), header);
  std::copy(ulpdu.begin(), ulpdu.end(), header + KW_MPA_HDR_LEN);
  std::fill_n(header + KW_MPA_HDR_LEN + ulpdu_len, kw_fpdu_pad(ulpdu_len), u8{0});
  if (markers) {
    EXPECT_EQ(kw_markers_insert(out.data(), off, len), span);
  }
  const u32 crc_off = span - KW_MPA_CRC_LEN;
  kw_crc_put(out.data() + crc_off, kw_crc32c(KW_CRC_SEED, out.data(), crc_off));
  EXPECT_EQ(Bytes(out.begin() + span, out.end()), Bytes(8, kGuard));
  out.resize(span);
  return out;
}

Bytes counting(u32 len) {
  Bytes bytes(len);
  for (u32 i = 0; i < len; i++) bytes[i] = static_cast<u8>(i * 7 + (i >> 8));
  return bytes;
}

TEST(Fpdu, FirstOfAMarkedStream) {
  const Bytes ulpdu = hex("4003 00000000 00000000 00000001 00000000") + Bytes(24);
  const Bytes vector =
      hex("00000000 002a4003 00000000 00000000 00000001 00000000") + Bytes(24) + hex("4c86b384");
  EXPECT_EQ(specified(0, ulpdu, true), vector);
  EXPECT_EQ(built(0, ulpdu, true), vector);
  EXPECT_TRUE(kw_markers_ok(vector.data(), 0, static_cast<u32>(vector.size())));
}

TEST(Fpdu, MarkerInTheMiddle) {
  const Bytes ulpdu = hex("4003 00000000 00000000 00000002 00000000") + Bytes(24);
  const Bytes vector =
      hex("002a4003 00000000 00000000 00000002 00000000 00000014") + Bytes(24) + hex("a19cd103");
  EXPECT_EQ(specified(0x1ec, ulpdu, true), vector);
  EXPECT_EQ(built(0x1ec, ulpdu, true), vector);
  EXPECT_TRUE(kw_markers_ok(vector.data(), 0x1ec, static_cast<u32>(vector.size())));
}

// The vectors above leave the pad out; a ULPDU of 39 bytes takes three.
TEST(Fpdu, PadIsZeroAndCovered) {
  const Bytes ulpdu(39, 0x5a);
  const Bytes fpdu = built(0, ulpdu, false);
  ASSERT_EQ(fpdu.size(), kw_fpdu_len(39));
  const Bytes covered = hex("0027") + ulpdu + hex("000000");
  EXPECT_TRUE(std::equal(covered.begin(), covered.end(), fpdu.begin()));
  EXPECT_EQ(kw_crc_get(fpdu.data() + covered.size()),
            kw_crc32c(KW_CRC_SEED, covered.data(), covered.size()));
}

TEST(Fpdu, MarkerBeforeTheCrc) {
  // Header, ULPDU and pad end exactly at 512: the marker belongs to this FPDU and is covered.
  const Bytes fpdu = built(512 - 48, Bytes(46, 0x11), true);
  ASSERT_EQ(fpdu.size(), 48U + 4 + 4);
  EXPECT_EQ(Bytes(fpdu.begin() + 48, fpdu.begin() + 52), hex("00000030"));
  EXPECT_EQ(kw_crc_get(fpdu.data() + 52), kw_crc32c(KW_CRC_SEED, fpdu.data(), 52));
}

TEST(Fpdu, MarkerBehindTheCrcBelongsToTheNext) {
  const Bytes first = built(512 - 52, Bytes(46, 0x11), true);
  EXPECT_EQ(first.size(), 52U);
  const Bytes second = built(512, Bytes(46, 0x22), true);
  EXPECT_EQ(Bytes(second.begin(), second.begin() + 4), hex("00000000"));
  EXPECT_EQ(second.size(), 56U);
}

// With a marker before the header, later ones point to ULPDU_Length, not to that marker.
TEST(Fpdu, MarkersPointToTheLengthField) {
  const Bytes fpdu = built(1024, Bytes(1000, 0x33), true);
  EXPECT_EQ(Bytes(fpdu.begin(), fpdu.begin() + 6), hex("00000000 03e8"));
  EXPECT_EQ(Bytes(fpdu.begin() + 512, fpdu.begin() + 516), hex("000001fc"));
}

// Every place that a marker can have in an FPDU: before its header, in it, in the payload, before
// the CRC and behind it. With one marker, with several and with none; at the wrap of the offset.
TEST(Fpdu, EveryMarkerPosition) {
  for (const u32 base : {0U, 0x7ffffe00U, 0xfffffc00U, 0xfffffe00U}) {
    for (u32 off = base; off - base < 1024; off += 4) {
      for (const u32 len : {2U, 14U, 15U, 18U, 19U, 42U, 46U, 128U, 500U, 501U, 502U, 503U, 506U,
                            510U, 1010U, 1440U}) {
        const Bytes ulpdu = counting(len);
        const Bytes fpdu = built(off, ulpdu, true);
        ASSERT_EQ(fpdu, specified(off, ulpdu, true)) << "off " << off << " len " << len;
        ASSERT_TRUE(kw_markers_ok(fpdu.data(), off, static_cast<u32>(fpdu.size())));
      }
    }
  }
}

TEST(Fpdu, LongestWithMarkers) {
  for (const u32 off : {0U, 4U, 508U, 0xffffff00U}) {
    for (const u32 len : {9000U, 64766U, 64768U}) {
      const Bytes ulpdu = counting(len);
      const Bytes fpdu = built(off, ulpdu, true);
      ASSERT_EQ(fpdu, specified(off, ulpdu, true));
      EXPECT_TRUE(kw_markers_ok(fpdu.data(), off, static_cast<u32>(fpdu.size())));
    }
  }
}

// FPDUPTR has 16 bits; the markers of a ULPDU over 64768 bytes can not all be right.
TEST(Fpdu, PointerThatDoesNotFitIsNeverRight) {
  const u32 len = kw_fpdu_len(65535);
  const u32 span = kw_fpdu_span(4, len, true);
  Bytes fpdu(span);
  EXPECT_EQ(kw_markers_insert(fpdu.data(), 4, len), span);
  EXPECT_FALSE(kw_markers_ok(fpdu.data(), 4, span));
}

TEST(Fpdu, MarkersThatDisagreeAreFound) {
  constexpr u32 kOff = 0x1000 - 100;
  const Bytes right = built(kOff, counting(1440), true);
  const auto span = static_cast<u32>(right.size());
  for (const u32 at : {100U, 612U, 1124U}) {
    for (u32 bit = 0; bit < 32; bit++) {
      Bytes wrong = right;
      wrong[at + bit / 8] = static_cast<u8>(wrong[at + bit / 8] ^ 0x80 >> bit % 8);
      // The reserved half and the low two bits of the pointer are ignored.
      EXPECT_EQ(kw_markers_ok(wrong.data(), kOff, span), bit < 16 || bit >= 30) << at << " " << bit;
    }
  }
  // No byte of payload is taken for a marker.
  Bytes other = right;
  for (u32 i = 0; i < span; i++) {
    if ((kOff + i) % 512 >= KW_MARKER_LEN) other[i] = static_cast<u8>(~other[i]);
  }
  EXPECT_TRUE(kw_markers_ok(other.data(), kOff, span));
  // The lengths contradict the markers.
  EXPECT_FALSE(kw_markers_ok(right.data() + 4, kOff + 4, span - 4));
}

TEST(Fpdu, NoMarkerNothingToDisagree) {
  const Bytes fpdu = built(4, Bytes(46, 0xff), true);
  ASSERT_EQ(fpdu.size(), 52U);
  EXPECT_TRUE(kw_markers_ok(fpdu.data(), 4, 52));
}

TEST(Fpdu, PadAndLength) {
  EXPECT_EQ(kw_fpdu_pad(0), 2U);
  EXPECT_EQ(kw_fpdu_pad(1), 1U);
  EXPECT_EQ(kw_fpdu_pad(2), 0U);
  EXPECT_EQ(kw_fpdu_pad(3), 3U);
  EXPECT_EQ(kw_fpdu_pad(65535), 3U);
  EXPECT_EQ(kw_fpdu_len(0), 8U);
  EXPECT_EQ(kw_fpdu_len(14), 20U);
  EXPECT_EQ(kw_fpdu_len(18), 24U);
  EXPECT_EQ(kw_fpdu_len(19), 28U);
  EXPECT_EQ(kw_fpdu_len(42), 48U);
  EXPECT_EQ(kw_fpdu_len(65535), 65544U);
  for (u32 len = 0; len < 4096; len++) EXPECT_EQ(kw_fpdu_len(len) % 4, 0U) << len;
}

}  // namespace
}  // namespace kiwarp::test
