// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "wire/vec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "bytes.h"
#include "wire/crc.h"
#include "wire/fold.h"

namespace kiwarp::test {
namespace {

// Compared with crc.c, whose own test compares with the definition. The parameter is kw_vec_folds.
class Vec : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
#if defined(__x86_64__)
    ASSERT_TRUE(kw_vec_has()) << "this test needs a CPU with AVX, SSE4.2 and PCLMULQDQ";
#else
    // The functions are there all the same, for a caller that has not asked.
    ASSERT_FALSE(kw_vec_has());
#endif
    if (GetParam() && !kw_fold_has()) GTEST_SKIP() << "a CPU without AVX-512 and VPCLMULQDQ";
    kw_vec_folds = GetParam();
    std::mt19937 random(5044);
    std::generate(data_.begin(), data_.end(), [&] { return static_cast<u8>(random()); });
  }
  void TearDown() override { kw_vec_folds = false; }

  // What a copy leaves that begins here in memory of which nothing else may change.
  Bytes copyOf(size_t from, size_t to, size_t length) const {
    Bytes want(3200, kGuard);
    std::copy_n(data_.begin() + static_cast<long>(from), length,
                want.begin() + static_cast<long>(to));
    return want;
  }

  Bytes data_ = Bytes(9200);
};

// Every length that blocks and steps divide differently, at changing alignments.
TEST_P(Vec, SumsAllLengths) {
  for (size_t length = 0; length < 3100; length++) {
    const u8* part = data_.data() + length % 67;
    ASSERT_EQ(kw_crc32c_vec(KW_CRC_SEED, part, length), kw_crc32c(KW_CRC_SEED, part, length))
        << length << " bytes";
  }
  EXPECT_EQ(kw_crc32c_vec(7, data_.data(), 9100), kw_crc32c(7, data_.data(), 9100));
}

TEST_P(Vec, CopiesAllLengthsAndNotAnByteMore) {
  for (size_t length = 0; length < 3100; length++) {
    const size_t from = length % 67;
    const size_t to = 16 + length % 33;
    Bytes copied(3200, kGuard);
    kw_memcpy_vec(copied.data() + to, data_.data() + from, length);
    ASSERT_EQ(copied, copyOf(from, to, length)) << length << " bytes";
  }
}

TEST_P(Vec, CopiesAndSumsAllLengths) {
  for (size_t length = 0; length < 3100; length++) {
    const size_t from = length % 67;
    const size_t to = 16 + length % 33;
    const u32 start = static_cast<u32>(length * 0x9e3779b9);
    Bytes copied(3200, kGuard);
    ASSERT_EQ(kw_memcpy_crc32c_vec(start, copied.data() + to, data_.data() + from, length),
              kw_crc32c(start, data_.data() + from, length))
        << length << " bytes";
    ASSERT_EQ(copied, copyOf(from, to, length)) << length << " bytes";
  }
}

// Memory that a consumer writes to meanwhile is read once: the sum is that of what was copied.
TEST_P(Vec, SumsWhatItHasCopied) {
  std::atomic<bool> over = false;
  std::thread writer([&] {
    volatile u8* at = data_.data();
    for (size_t n = 0; !over; n++) at[n % 2048] = static_cast<u8>(n >> 3);
  });
  Bytes copied(2048);
  for (int i = 0; i < 20000; i++) {
    const size_t length = 256 + static_cast<size_t>(i) % 1792;
    const u32 sum = kw_memcpy_crc32c_vec(KW_CRC_SEED, copied.data(), data_.data(), length);
    EXPECT_EQ(sum, kw_crc32c(KW_CRC_SEED, copied.data(), length)) << length << " bytes";
  }
  over = true;
  writer.join();
}

INSTANTIATE_TEST_SUITE_P(Registers, Vec, testing::Bool(),
                         [](const auto& info) { return info.param ? "OfAvx512" : "OfAvx"; });

}  // namespace
}  // namespace kiwarp::test
