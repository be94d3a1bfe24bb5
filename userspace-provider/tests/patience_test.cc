// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/patience.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

thread_local int yields = 0;

}  // namespace

// In front of the C library's.
extern "C" int sched_yield() noexcept {
  ++yields;
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace kiwarp::test {
namespace {

// How often the CPU was given away in so many looks in vain.
int yieldsIn(Patience& patience, int looks) {
  yields = 0;
  for (int i = 0; i < looks; ++i) patience.foundNothing();
  return yields;
}

TEST(Patience, GivesTheCpuAwayNowAndThen) {
  Patience patience;
  EXPECT_EQ(yieldsIn(patience, 31), 0);
  EXPECT_EQ(yieldsIn(patience, 1), 1);
  EXPECT_EQ(yieldsIn(patience, 320), 10);
}

TEST(Patience, WhoFindsSomethingKeepsTheCpu) {
  Patience patience;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(yieldsIn(patience, 31), 0);
    patience.found();
  }
}

}  // namespace
}  // namespace kiwarp::test
