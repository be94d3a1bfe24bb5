// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <gtest/gtest.h>

#include "bytes.h"
#include "wire/fpdu.h"

namespace kiwarp::test {
namespace {

TEST(Marker, DistanceToTheNext) {
  EXPECT_EQ(kw_marker_dist(0), 0U);
  EXPECT_EQ(kw_marker_dist(1), 511U);
  EXPECT_EQ(kw_marker_dist(4), 508U);
  EXPECT_EQ(kw_marker_dist(511), 1U);
  EXPECT_EQ(kw_marker_dist(512), 0U);
  EXPECT_EQ(kw_marker_dist(0x1ec), 0x14U);
}

TEST(Marker, DistanceAcrossTheWrapOfTheOffset) {
  EXPECT_EQ(kw_marker_dist(0xffffffff), 1U);
  EXPECT_EQ(kw_marker_dist(0xfffffe04), 508U);
  EXPECT_EQ(kw_marker_dist(0xfffffe00), 0U);
}

TEST(Marker, PointerCountsFromTheLengthField) {
  EXPECT_EQ(kw_marker_ptr(0, 0), 0U);
  EXPECT_EQ(kw_marker_ptr(0, 512), 508U);
  EXPECT_EQ(kw_marker_ptr(4, 508), 508U);
  EXPECT_EQ(kw_marker_ptr(0x1ec, 0x14), 0x14U);
  EXPECT_EQ(kw_marker_ptr(0xfffffe00, 0), 0U);
  EXPECT_EQ(kw_marker_ptr(0xfffffe00, 512), 508U);
  EXPECT_EQ(kw_marker_ptr(0xfffffffc, 4), 4U);
}

TEST(Marker, Writes) {
  const auto marker = [](u16 fpduptr) {
    return built(KW_MARKER_LEN, [&](u8* p) {
      kw_marker_put(p, fpduptr);
      return size_t{KW_MARKER_LEN};
    });
  };
  EXPECT_EQ(marker(0), hex("00000000"));
  EXPECT_EQ(marker(0x14), hex("00000014"));
  EXPECT_EQ(marker(0xfffc), hex("0000fffc"));
}

TEST(Marker, ReadsThePointerAlone) {
  EXPECT_EQ(kw_marker_get(hex("00000014").data()), 0x14);
  EXPECT_EQ(kw_marker_get(hex("0000fffc").data()), 0xfffc);
  EXPECT_EQ(kw_marker_get(hex("ffff0200").data()), 0x200);
}

TEST(Marker, LowTwoBitsAreIgnored) {
  EXPECT_EQ(kw_marker_get(hex("00000017").data()), 0x14);
  EXPECT_EQ(kw_marker_get(hex("00000003").data()), 0);
}

// The definition, byte by byte: a marker goes before each byte that would stand at a
// multiple of 512.
u32 countMarkers(u32 off, u32 len) {
  u32 count = 0;
  for (u32 i = 0; i < len; i++) {
    if (off % KW_MARKER_INTERVAL == 0) {
      count++;
      off += KW_MARKER_LEN;
    }
    off++;
  }
  return count;
}

TEST(Marker, CountByHand) {
  EXPECT_EQ(kw_markers_in(0, 0), 0U);
  EXPECT_EQ(kw_markers_in(0, 1), 1U);
  EXPECT_EQ(kw_markers_in(0, 508), 1U);
  EXPECT_EQ(kw_markers_in(0, 509), 2U);
  EXPECT_EQ(kw_markers_in(4, 508), 0U);
  EXPECT_EQ(kw_markers_in(4, 509), 1U);
  EXPECT_EQ(kw_markers_in(508, 4), 0U);
  EXPECT_EQ(kw_markers_in(508, 8), 1U);
  EXPECT_EQ(kw_markers_in(0x1ec, 48), 1U);
}

TEST(Marker, CountAgreesWithTheDefinition) {
  for (u32 off = 0; off < 2 * KW_MARKER_INTERVAL; off++) {
    for (u32 len : {0U, 1U, 4U, 20U, 48U, 507U, 508U, 509U, 512U, 1016U, 1017U, 1460U, 65000U}) {
      ASSERT_EQ(kw_markers_in(off, len), countMarkers(off, len)) << off << " " << len;
    }
  }
  EXPECT_EQ(kw_markers_in(0xfffffff0, 2000), countMarkers(0xfffffff0, 2000));
}

}  // namespace
}  // namespace kiwarp::test
