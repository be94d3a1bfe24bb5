// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/poll_backoff.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

thread_local int yields = 0;
thread_local int64_t yield_takes_ns = 0;
thread_local bool faked = false;
thread_local bool alone = false;
thread_local long switches = 0;
thread_local bool is_counted = true;
thread_local int looks = 0;
thread_local int64_t time_ns = 0;

}  // namespace

// These replace the C library's. A yield takes as long as a test says, on a clock of its own, and
// lets another thread run unless the test has the CPU alone.
extern "C" int sched_yield() noexcept {
  if (!faked) return static_cast<int>(syscall(SYS_sched_yield));
  ++yields;
  if (!alone) ++switches;
  time_ns += yield_takes_ns;
  return 0;
}

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!faked) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  time->tv_sec = static_cast<time_t>(time_ns / 1'000'000'000);
  time->tv_nsec = static_cast<long>(time_ns % 1'000'000'000);
  return 0;
}

extern "C" int getrusage(__rusage_who_t who, rusage* usage) noexcept {
  if (!faked) return static_cast<int>(syscall(SYS_getrusage, who, usage));
  EXPECT_EQ(who, RUSAGE_THREAD);
  ++looks;
  usage->ru_nivcsw = switches;
  return is_counted ? 0 : -1;
}

namespace kiwarp::test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int kMostPolls = 16384;  // between two yields of a poller

class PollBackoffTest : public testing::Test {
 protected:
  void SetUp() override {
    faked = true;
    alone = false;
    switches = 1000;
    looks = 0;
    is_counted = true;
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

TEST_F(PollBackoffTest, OnASharedCpuAPollerGoesOnYielding) {
  EXPECT_EQ(yieldsIn(backoff_, 32'000), 1000);
  EXPECT_LE(looks, 1000 / 16);
}

TEST_F(PollBackoffTest, OnACpuOfItsOwnAPollerYieldsRarely) {
  alone = true;
  yieldsIn(backoff_, 4 * kMostPolls);
  EXPECT_EQ(yieldsIn(backoff_, 10 * kMostPolls), 10);
  EXPECT_LE(looks, 40);
}

TEST_F(PollBackoffTest, APollerYieldsOftenAgainWhenAnotherThreadComes) {
  alone = true;
  yieldsIn(backoff_, 4 * kMostPolls);
  backoff_.found();
  alone = false;
  EXPECT_GE(yieldsIn(backoff_, kMostPolls), 1);
  EXPECT_EQ(yieldsIn(backoff_, 320), 10);
}

TEST_F(PollBackoffTest, AThreadThatRanOnceIsForgotten) {
  alone = true;
  yieldsIn(backoff_, 4 * kMostPolls);
  for (int i = 0; i < 10; ++i) {
    ++switches;
    backoff_.found();
    yieldsIn(backoff_, 100 * kMostPolls);
    EXPECT_GT(yields, 100);
    EXPECT_LE(yields, 100 + 16 + 9);
  }
}

// Whoever it waits for came to this CPU later, and answers before the poller would yield.
TEST_F(PollBackoffTest, APollerNoticesAThreadThatAnswersSoon) {
  alone = true;
  yieldsIn(backoff_, 4 * kMostPolls);
  int all = 0;
  for (int i = 0; i < 32; ++i) {
    ++switches;
    all += yieldsIn(backoff_, kMostPolls / 16);
    backoff_.found();
  }
  EXPECT_GT(all, 16);
}

TEST_F(PollBackoffTest, HalfOfTheYieldsDecide) {
  for (const int shared : {7, 8}) {
    PollBackoff backoff;
    alone = true;
    yieldsIn(backoff, 16 * 32);  // The first look has nothing to compare with.
    for (int i = 0; i < 16; ++i) {
      alone = i >= shared;
      yieldsIn(backoff, 32);
    }
    alone = true;
    EXPECT_EQ(yieldsIn(backoff, 32), shared == 7 ? 0 : 1);
  }
}

TEST_F(PollBackoffTest, WithoutTheKernelsCountAPollerGoesOnYielding) {
  alone = true;
  is_counted = false;
  EXPECT_EQ(yieldsIn(backoff_, 32'000), 1000);
}

TEST_F(PollBackoffTest, WhoSleptOnceAndPollsNowIsAPoller) {
  alone = true;
  yieldsIn(backoff_, 4 * kMostPolls);
  sleeper(backoff_).found();
  yieldsIn(backoff_, 32);
  backoff_.found();
  EXPECT_EQ(yieldsIn(backoff_, 31), 0);
  sleeper(backoff_).found();
  EXPECT_EQ(yieldsIn(backoff_, 31), 1);
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
