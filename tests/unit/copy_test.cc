// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "wire/copy.h"

#include <gtest/gtest.h>

#include <numeric>

#include "octets.h"

namespace kiwarp::test {
namespace {

// Every length that its steps divide in another way, at every alignment, and not an octet more.
TEST(Copy, AllLengthsAndAlignments) {
  Octets src(700);
  std::iota(src.begin(), src.end(), u8{1});
  for (size_t len = 0; len < 600; len++) {
    for (size_t from = 0; from < 8; from++) {
      const size_t to = 16 + (from * 3 + len) % 8;
      Octets dst(640, kGuard);
      kw_copy(dst.data() + to, src.data() + from, len);
      Octets want(640, kGuard);
      for (size_t i = 0; i < len; i++) want[to + i] = src[from + i];
      ASSERT_EQ(dst, want) << len << " octets from " << from << " to " << to;
    }
  }
}

}  // namespace
}  // namespace kiwarp::test
