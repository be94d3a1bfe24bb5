// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
// Whole FPDUs, put together from the functions of wire/ the way that a sender does.
#include <gtest/gtest.h>

#include <algorithm>

#include "octets.h"
#include "wire/crc.h"
#include "wire/mpa.h"

namespace kiwarp::test {
namespace {

// Frames a ULPDU. The FPDU, or the marker that precedes it, begins at stream offset `off`.
Octets frame(u32 off, const Octets& ulpdu, bool markers) {
  const auto ulpdu_len = static_cast<u32>(ulpdu.size());
  Octets plain(KW_MPA_HDR_LEN);
  put_unaligned_be16(static_cast<u16>(ulpdu_len), plain.data());
  plain = plain + ulpdu + Octets(kw_fpdu_pad(ulpdu_len));

  Octets out;
  u32 start = off;
  u32 crc = KW_CRC_SEED;
  const auto put = [&](const Octets& octets) {
    for (u8 octet : octets) {
      if (markers && kw_marker_dist(off + static_cast<u32>(out.size())) == 0) {
        const u32 at = off + static_cast<u32>(out.size());
        if (out.empty()) start += KW_MARKER_LEN;
        Octets marker(KW_MARKER_LEN);
        kw_marker_put(marker.data(), out.empty() ? u16{0} : static_cast<u16>(at - start));
        crc = kw_crc32c(crc, marker.data(), marker.size());
        out = out + marker;
      }
      crc = kw_crc32c(crc, &octet, 1);
      out.push_back(octet);
    }
  };
  put(plain);
  Octets field(KW_MPA_CRC_LEN);
  // The CRC field is not split by a marker (it is aligned to four octets as markers are), but
  // one may stand before it and is then covered.
  if (markers && kw_marker_dist(off + static_cast<u32>(out.size())) == 0) {
    Octets marker(KW_MARKER_LEN);
    kw_marker_put(marker.data(), static_cast<u16>(off + out.size() - start));
    crc = kw_crc32c(crc, marker.data(), marker.size());
    out = out + marker;
  }
  kw_crc_put(field.data(), crc);
  return out + field;
}

TEST(Fpdu, FirstOfAMarkedStream) {
  const Octets ulpdu = hex("4003 00000000 00000000 00000001 00000000") + Octets(24);
  EXPECT_EQ(frame(0, ulpdu, true), hex("00000000 002a4003 00000000 00000000 00000001 00000000") +
                                       Octets(24) + hex("4c86b384"));
}

TEST(Fpdu, MarkerInTheMiddle) {
  const Octets ulpdu = hex("4003 00000000 00000000 00000002 00000000") + Octets(24);
  EXPECT_EQ(
      frame(0x1ec, ulpdu, true),
      hex("002a4003 00000000 00000000 00000002 00000000 00000014") + Octets(24) + hex("a19cd103"));
}

// The vectors above leave the pad out; a ULPDU of 39 octets takes three.
TEST(Fpdu, PadIsZeroAndCovered) {
  const Octets ulpdu(39, 0x5a);
  const Octets fpdu = frame(0, ulpdu, false);
  ASSERT_EQ(fpdu.size(), kw_fpdu_len(39));
  const Octets covered = hex("0027") + ulpdu + hex("000000");
  EXPECT_TRUE(std::equal(covered.begin(), covered.end(), fpdu.begin()));
  EXPECT_EQ(kw_crc_get(fpdu.data() + covered.size()),
            kw_crc32c(KW_CRC_SEED, covered.data(), covered.size()));
}

TEST(Fpdu, MarkerBeforeTheCrc) {
  // Header, ULPDU and pad end exactly at 512.
  const Octets fpdu = frame(512 - 48, Octets(46, 0x11), true);
  ASSERT_EQ(fpdu.size(), 48U + 4 + 4);
  EXPECT_EQ(Octets(fpdu.begin() + 48, fpdu.begin() + 52), hex("00000030"));
  EXPECT_EQ(kw_crc_get(fpdu.data() + 52), kw_crc32c(KW_CRC_SEED, fpdu.data(), 52));
}

TEST(Fpdu, MarkedLengthIsPlainLengthAndMarkers) {
  for (u32 off = 0; off < 1024; off += 4) {
    for (u32 len : {0U, 1U, 42U, 500U, 502U, 503U, 506U, 507U, 1010U, 1440U, 9000U}) {
      const Octets fpdu = frame(off, Octets(len, 0x77), true);
      EXPECT_EQ(fpdu.size(),
                kw_fpdu_len(len) + KW_MARKER_LEN * kw_markers_in(off, kw_fpdu_len(len)))
          << "off " << off << " len " << len;
    }
  }
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

struct MulpduCase {
  u32 emss;
  u32 plain;
  u32 marked;
};

// Worked by hand from EMSS - (6 + EMSS mod 4), and with 4 * ceil(EMSS / 512) less.
constexpr MulpduCase kMulpdu[] = {
    {0, 128, 128},
    {1, 128, 128},
    {127, 128, 128},
    {128, 128, 128},
    {134, 128, 128},
    {136, 130, 128},
    {137, 130, 128},
    {138, 130, 128},
    {140, 134, 130},
    {511, 502, 498},
    {512, 506, 502},
    {513, 506, 498},
    {516, 510, 502},
    {536, 530, 522},
    {1024, 1018, 1010},
    {1028, 1022, 1010},
    {1220, 1214, 1202},
    {1440, 1434, 1422},
    {1447, 1438, 1426},
    {1448, 1442, 1430},
    {1449, 1442, 1430},
    {1450, 1442, 1430},
    {1451, 1442, 1430},
    {1460, 1454, 1442},
    {8948, 8942, 8870},
    {8960, 8954, 8882},
    {64767, 64758, 64250},
    {64774, 64766, 64258},
    {64776, 64768, 64262},
    {65280, 64768, 64762},
    {65284, 64768, 64766},
    {65288, 64768, 64768},
    {65483, 64768, 64768},
    {65535, 64768, 64768},
    {0x7fffffff, 64768, 64768},
    {0xffffffff, 64768, 64768},
};

TEST(Mulpdu, Table) {
  for (const auto& c : kMulpdu) {
    EXPECT_EQ(kw_mulpdu(c.emss, false), c.plain) << "EMSS " << c.emss;
    EXPECT_EQ(kw_mulpdu(c.emss, true), c.marked) << "EMSS " << c.emss << " with markers";
  }
}

TEST(Mulpdu, FillsTheSegmentAndNeverOverflowsIt) {
  for (u32 emss = 144; emss <= 64768; emss++) {
    const u32 plain = kw_fpdu_len(kw_mulpdu(emss, false));
    ASSERT_LE(plain, emss);
    ASSERT_GT(plain + 4, emss);
  }
}

// Wherever in the stream an FPDU of that size begins, its markers find room.
TEST(Mulpdu, FitsWithMarkersAtEveryOffset) {
  for (u32 emss : {144U, 512U, 513U, 536U, 1024U, 1220U, 1448U, 1460U, 8948U, 65483U}) {
    const u32 len = kw_fpdu_len(kw_mulpdu(emss, true));
    for (u32 off = 0; off < KW_MARKER_INTERVAL; off += 4) {
      ASSERT_LE(len + KW_MARKER_LEN * kw_markers_in(off, len), emss)
          << "EMSS " << emss << " offset " << off;
    }
  }
}

}  // namespace
}  // namespace kiwarp::test
