// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/poll_backoff.h"

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

// How often the CPU was given away in so many empty polls.
int yieldsIn(PollBackoff& poll_backoff, int looks) {
  yields = 0;
  for (int i = 0; i < looks; ++i) poll_backoff.foundNothing();
  return yields;
}

TEST(PollBackoff, GivesTheCpuAwayNowAndThen) {
  PollBackoff poll_backoff;
  EXPECT_EQ(yieldsIn(poll_backoff, 31), 0);
  EXPECT_EQ(yieldsIn(poll_backoff, 1), 1);
  EXPECT_EQ(yieldsIn(poll_backoff, 320), 10);
}

TEST(PollBackoff, WhoFindsSomethingKeepsTheCpu) {
  PollBackoff poll_backoff;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(yieldsIn(poll_backoff, 31), 0);
    poll_backoff.found();
  }
}

}  // namespace
}  // namespace kiwarp::test
