// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "wire/copy.h"

#include <gtest/gtest.h>

#include <numeric>

#include "bytes.h"

namespace kiwarp::test {
namespace {

// Every length that its steps divide differently, at every alignment, and not a byte more.
TEST(Copy, AllLengthsAndAlignments) {
  Bytes src(700);
  std::iota(src.begin(), src.end(), u8{1});
  for (size_t len = 0; len < 600; len++) {
    for (size_t from = 0; from < 8; from++) {
      const size_t to = 16 + (from * 3 + len) % 8;
      Bytes dst(640, kGuard);
      kw_memcpy(dst.data() + to, src.data() + from, len);
      Bytes want(640, kGuard);
      for (size_t i = 0; i < len; i++) want[to + i] = src[from + i];
      ASSERT_EQ(dst, want) << len << " bytes from " << from << " to " << to;
    }
  }
}

}  // namespace
}  // namespace kiwarp::test
