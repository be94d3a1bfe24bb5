// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/poll_backoff.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

thread_local int yields = 0;
thread_local int64_t yield_takes_ns = 0;
thread_local bool faked = false;
thread_local int64_t time_ns = 0;

}  // namespace

// Both replace the C library's. A yield takes as long as a test says, on a clock of its own.
extern "C" int sched_yield() noexcept {
  if (!faked) return static_cast<int>(syscall(SYS_sched_yield));
  ++yields;
  time_ns += yield_takes_ns;
  return 0;
}

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!faked) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  time->tv_sec = static_cast<time_t>(time_ns / 1'000'000'000);
  time->tv_nsec = static_cast<long>(time_ns % 1'000'000'000);
  return 0;
}

namespace kiwarp::test {
namespace {

constexpr int64_t kMs = 1'000'000;

class PollBackoffTest : public testing::Test {
 protected:
  void SetUp() override {
    faked = true;
    yield_takes_ns = 0;
  }
  void TearDown() override { faked = false; }

  PollBackoff backoff_;
};

// How often the CPU was yielded in so many empty polls.
int yieldsIn(PollBackoff& poll_backoff, int polls) {
  yields = 0;
  for (int i = 0; i < polls; ++i) poll_backoff.foundNothing();
  return yields;
}

// How often in so many waits of a consumer that sleeps: it finds something, and then nothing;
// after each yield there are so many completions.
int yieldsInWaits(PollBackoff& poll_backoff, int waits, uint32_t completions) {
  yields = 0;
  for (int i = 0; i < waits; ++i) {
    poll_backoff.found();
    if (poll_backoff.foundNothing()) poll_backoff.yielded(completions);
    poll_backoff.armed();
    poll_backoff.foundNothing();
  }
  return yields;
}

PollBackoff& sleeper(PollBackoff& poll_backoff) {
  poll_backoff.armed();
  return poll_backoff;
}

TEST_F(PollBackoffTest, GivesTheCpuAwayNowAndThen) {
  EXPECT_EQ(yieldsIn(backoff_, 31), 0);
  EXPECT_EQ(yieldsIn(backoff_, 1), 1);
  EXPECT_EQ(yieldsIn(backoff_, 320), 10);
}

TEST_F(PollBackoffTest, WhoFindsSomethingKeepsTheCpu) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(yieldsIn(backoff_, 31), 0);
    backoff_.found();
  }
}

TEST_F(PollBackoffTest, SleeperYieldsBeforeEachSleepWhileThatPays) {
  EXPECT_EQ(yieldsInWaits(sleeper(backoff_), 1000, 16), 1000);
}

TEST_F(PollBackoffTest, SleeperYieldsOnceForEachSleep) {
  sleeper(backoff_).found();
  EXPECT_EQ(yieldsIn(backoff_, 31), 1);
}

TEST_F(PollBackoffTest, YieldsBecomeRareWithoutCompletions) {
  EXPECT_LE(yieldsInWaits(sleeper(backoff_), 2000, 0), 12);
  EXPECT_GE(yieldsInWaits(backoff_, 3000, 0), 2);
}

TEST_F(PollBackoffTest, YieldsBecomeRareWithOneCompletionEach) {
  EXPECT_LE(yieldsInWaits(sleeper(backoff_), 2000, 1), 12);
}

TEST_F(PollBackoffTest, CreditPaysForYieldsThatFindNothing) {
  EXPECT_EQ(yieldsInWaits(sleeper(backoff_), 1, 64), 1);
  EXPECT_EQ(yieldsInWaits(backoff_, 16, 0), 16);
  EXPECT_LE(yieldsInWaits(backoff_, 16, 0), 5);
}

TEST_F(PollBackoffTest, CreditHasALimit) {
  EXPECT_EQ(yieldsInWaits(sleeper(backoff_), 100, 1000), 100);
  EXPECT_LE(yieldsInWaits(backoff_, 2000, 0), 1024 / 4 + 12);
}

TEST_F(PollBackoffTest, ComesBackToYieldsThatPayAgain) {
  yieldsInWaits(sleeper(backoff_), 3000, 0);
  yieldsInWaits(backoff_, 1024, 16);
  EXPECT_EQ(yieldsInWaits(backoff_, 100, 16), 100);
}

TEST_F(PollBackoffTest, DoesNotWaitBehindAThreadThatComputes) {
  sleeper(backoff_);
  yield_takes_ns = 3 * kMs;
  EXPECT_LE(yieldsInWaits(backoff_, 2000, 2), 12);
}

TEST_F(PollBackoffTest, WaitsForAPeerWithMuchToSend) {
  sleeper(backoff_);
  yield_takes_ns = 3 * kMs;
  EXPECT_EQ(yieldsInWaits(backoff_, 100, 64), 100);
}

}  // namespace
}  // namespace kiwarp::test
