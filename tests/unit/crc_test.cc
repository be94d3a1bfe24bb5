// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "wire/crc.h"

#include <gtest/gtest.h>

#include <numeric>

#include "octets.h"

namespace kiwarp::test {
namespace {

Octets crcField(const Octets& data) {
  return built(4, [&](u8* p) {
    kw_crc_put(p, kw_crc32c(KW_CRC_SEED, data.data(), data.size()));
    return size_t{4};
  });
}

// The digests of RFC 3720 appendix B.4.
TEST(Crc, IscsiVectors) {
  Octets up(32);
  std::iota(up.begin(), up.end(), u8{0});
  EXPECT_EQ(crcField(Octets(32, 0x00)), hex("aa36918a"));
  EXPECT_EQ(crcField(Octets(32, 0xff)), hex("43aba862"));
  EXPECT_EQ(crcField(up), hex("4e79dd46"));
  EXPECT_EQ(crcField(Octets(up.rbegin(), up.rend())), hex("5cdb3f11"));
}

TEST(Crc, NoOctets) { EXPECT_EQ(crcField({}), hex("00000000")); }

TEST(Crc, PartsGiveTheWhole) {
  const std::string text = "123456789";
  for (size_t cut = 0; cut <= text.size(); cut++) {
    u32 crc = kw_crc32c(KW_CRC_SEED, text.data(), cut);
    crc = kw_crc32c(crc, text.data() + cut, text.size() - cut);
    EXPECT_EQ(~crc, 0xe3069283U) << "cut at " << cut;
  }
}

TEST(Crc, GetIsTheRunningCrc) {
  const Octets field = hex("aa36918a");
  const Octets zeros(32);
  EXPECT_EQ(kw_crc_get(field.data()), kw_crc32c(KW_CRC_SEED, zeros.data(), zeros.size()));
  EXPECT_EQ(kw_crc_get(hex("ffffff7f").data()), 0x80000000U);
}

}  // namespace
}  // namespace kiwarp::test
