// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "wire/crc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "bytes.h"

namespace kiwarp::test {
namespace {

Bytes crcField(const Bytes& data) {
  return built(4, [&](u8* p) {
    kw_crc_put(p, kw_crc32c(KW_CRC_SEED, data.data(), data.size()));
    return size_t{4};
  });
}

// The digests of RFC 3720 appendix B.4.
TEST(Crc, IscsiVectors) {
  Bytes up(32);
  std::iota(up.begin(), up.end(), u8{0});
  EXPECT_EQ(crcField(Bytes(32, 0x00)), hex("aa36918a"));
  EXPECT_EQ(crcField(Bytes(32, 0xff)), hex("43aba862"));
  EXPECT_EQ(crcField(up), hex("4e79dd46"));
  EXPECT_EQ(crcField(Bytes(up.rbegin(), up.rend())), hex("5cdb3f11"));
}

TEST(Crc, NoBytes) { EXPECT_EQ(crcField({}), hex("00000000")); }

TEST(Crc, PartsGiveTheWhole) {
  const std::string text = "123456789";
  for (size_t cut = 0; cut <= text.size(); cut++) {
    u32 crc = kw_crc32c(KW_CRC_SEED, text.data(), cut);
    crc = kw_crc32c(crc, text.data() + cut, text.size() - cut);
    EXPECT_EQ(~crc, 0xe3069283U) << "cut at " << cut;
  }
}

TEST(Crc, GetIsTheRunningCrc) {
  const Bytes field = hex("aa36918a");
  const Bytes zeros(32);
  EXPECT_EQ(kw_crc_get(field.data()), kw_crc32c(KW_CRC_SEED, zeros.data(), zeros.size()));
  EXPECT_EQ(kw_crc_get(hex("ffffff7f").data()), 0x80000000U);
}

// The definition, bit by bit.
u32 bitwise(u32 crc, std::span<const u8> bytes) {
  for (const u8 byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0U);
  }
  return crc;
}

// Every length that the blocks of three streams divide differently, at every alignment.
TEST(Crc, AllLengthsAndAlignments) {
  Bytes data(9100);
  std::mt19937 random(5044);
  std::generate(data.begin(), data.end(), [&] { return static_cast<u8>(random()); });
  std::vector<size_t> lengths(1900);
  std::iota(lengths.begin(), lengths.end(), size_t{0});
  lengths.insert(lengths.end(), {2687, 2688, 2689, 4096, 8940, 9092});
  for (const size_t length : lengths) {
    const size_t at = length % 8;
    const std::span<const u8> part(data.data() + at, length);
    ASSERT_EQ(kw_crc32c(KW_CRC_SEED, part.data(), length), bitwise(KW_CRC_SEED, part))
        << length << " bytes";
  }
}

TEST(Crc, WithoutTheInstruction) {
  const std::string text = "123456789";
  EXPECT_EQ(~kw_crc32c_plain(KW_CRC_SEED, text.data(), text.size()), 0xe3069283U);
}

TEST(Crc, CopiesWhatItSums) {
  Bytes data(9100);
  std::iota(data.begin(), data.end(), u8{0});
  for (const size_t length : {0, 1, 7, 8, 9, 383, 384, 391, 1343, 1344, 1424, 1448, 2695, 9090}) {
    for (size_t at = 0; at < 8; at++) {
      const std::span<const u8> part(data.data() + at, length);
      Bytes copy(length + 16, 0xee);
      EXPECT_EQ(kw_memcpy_crc32c(7, copy.data() + 8, part.data(), length), bitwise(7, part));
      EXPECT_TRUE(std::equal(part.begin(), part.end(), copy.begin() + 8));
      EXPECT_EQ(Bytes(copy.begin(), copy.begin() + 8), Bytes(8, 0xee));
      EXPECT_EQ(Bytes(copy.end() - 8, copy.end()), Bytes(8, 0xee));
    }
  }
}

}  // namespace
}  // namespace kiwarp::test
