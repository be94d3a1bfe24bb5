// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/work_ring.h"

#include <gtest/gtest.h>

#include <cstring>

#include "fake_kernel.h"

namespace kiwarp::test {
namespace {

constexpr uint32_t kStride = 64;

// The index of the first entry: wherever it stands, nothing may change when it wraps.
class WorkRingAt : public testing::TestWithParam<uint32_t> {
 protected:
  static constexpr uint32_t kEntries = 8;

  WorkRingAt() : kernel_(kEntries, kStride, GetParam()) {
    EXPECT_TRUE(
        ring_.attach(kernel_.base(), kernel_.size(), kEntries, kStride, sizeof(kiwarp_sqe)));
  }

  bool push(uint64_t id) {
    std::byte* entry = ring_.next();
    if (entry == nullptr) return false;
    std::memcpy(entry, &id, sizeof(id));
    ring_.push();
    return true;
  }

  // The id of the entry that the kernel takes, ~0 if it sees none.
  uint64_t take() {
    const auto* sqe = kernel_.take<kiwarp_sqe>();
    return sqe == nullptr ? ~uint64_t{0} : sqe->wr_id;
  }

  FakeWorkRing kernel_;
  WorkRing ring_;
};

INSTANTIATE_TEST_SUITE_P(FirstIndex, WorkRingAt,
                         testing::Values(0U, 5U, 0x7ffffffcU, 0xfffffffcU, 0xffffffffU));

TEST_P(WorkRingAt, ShowsNothingBeforePublishing) {
  ASSERT_TRUE(push(1));
  ASSERT_TRUE(push(2));
  EXPECT_EQ(ring_.unpublished(), 2U);
  EXPECT_EQ(kernel_.posted(), 0U);
  ring_.publish();
  EXPECT_EQ(ring_.unpublished(), 0U);
  EXPECT_EQ(kernel_.posted(), 2U);
  EXPECT_EQ(take(), 1U);
  EXPECT_EQ(take(), 2U);
}

TEST_P(WorkRingAt, IsFullAtItsCapacityAlthoughTheKernelTookAll) {
  for (uint64_t id = 0; id < kEntries; ++id) ASSERT_TRUE(push(id));
  EXPECT_FALSE(push(99));
  ring_.publish();
  for (uint64_t id = 0; id < kEntries; ++id) EXPECT_EQ(take(), id);
  EXPECT_FALSE(push(99)) << "taken isn't completed";
}

TEST_P(WorkRingAt, ReleasesAllEntriesBeforeAnIndex) {
  for (uint64_t id = 0; id < kEntries; ++id) ASSERT_TRUE(push(id));
  ring_.publish();
  ring_.release(GetParam() + 3);
  for (uint64_t id = 0; id < 3; ++id) EXPECT_TRUE(push(100 + id));
  EXPECT_FALSE(push(103));
  // An index that was passed already frees nothing again.
  ring_.release(GetParam() + 2);
  EXPECT_FALSE(push(103));
}

TEST_P(WorkRingAt, GoesRound) {
  uint64_t id = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(push(id + i));
    ring_.publish();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(take(), id + i);
    id += 5;
    ring_.release(GetParam() + static_cast<uint32_t>(id));
  }
}

TEST_P(WorkRingAt, TakesBackAllOrNothing) {
  ASSERT_TRUE(push(1));
  ring_.publish();
  for (uint64_t id = 2; id < 6; ++id) ASSERT_TRUE(push(id));
  ring_.publish();
  EXPECT_TRUE(ring_.takeBack(4));
  EXPECT_EQ(kernel_.posted(), 1U);
  EXPECT_EQ(kernel_.producer(), GetParam() + 1);
  EXPECT_EQ(take(), 1U);

  for (uint64_t id = 12; id < 16; ++id) ASSERT_TRUE(push(id));
  ring_.publish();
  EXPECT_EQ(take(), 12U);
  EXPECT_FALSE(ring_.takeBack(4));
  EXPECT_EQ(kernel_.posted(), 3U);
  for (uint64_t id = 13; id < 16; ++id) EXPECT_EQ(take(), id);
  EXPECT_FALSE(ring_.takeBack(4));
  EXPECT_EQ(kernel_.producer(), GetParam() + 5);
  // Three slots are left of eight: nothing that was taken back counts as outstanding.
  for (uint64_t id = 30; id < 33; ++id) EXPECT_TRUE(push(id));
  EXPECT_FALSE(push(33));
}

TEST_P(WorkRingAt, ResetEmptiesIt) {
  for (uint64_t id = 0; id < kEntries; ++id) ASSERT_TRUE(push(id));
  ring_.publish();
  EXPECT_EQ(take(), 0U);
  ring_.reset();
  EXPECT_EQ(kernel_.posted(), 0U);
  for (uint64_t id = 50; id < 50 + kEntries; ++id) ASSERT_TRUE(push(id));
  EXPECT_FALSE(push(99));
  ring_.publish();
  for (uint64_t id = 50; id < 50 + kEntries; ++id) EXPECT_EQ(take(), id);
}

TEST(WorkRing, SeesTheState) {
  FakeWorkRing kernel(2, kStride);
  WorkRing ring;
  ASSERT_TRUE(ring.attach(kernel.base(), kernel.size(), 2, kStride, kStride));
  EXPECT_EQ(ring.state(), KIWARP_QPS_RESET);
  kernel.setState(KIWARP_QPS_ERROR);
  EXPECT_EQ(ring.state(), KIWARP_QPS_ERROR);
  EXPECT_EQ(ring.stateAfterPublish(), KIWARP_QPS_ERROR);
}

TEST(WorkRing, OneEntryIsEnough) {
  FakeWorkRing kernel(1, kStride);
  WorkRing ring;
  ASSERT_TRUE(ring.attach(kernel.base(), kernel.size(), 1, kStride, kStride));
  for (uint32_t i = 1; i < 5; ++i) {
    ASSERT_NE(ring.next(), nullptr);
    ring.push();
    EXPECT_EQ(ring.next(), nullptr);
    ring.publish();
    ring.release(i);
  }
}

TEST(WorkRing, RefusesWhatDoesNotFit) {
  FakeWorkRing kernel(4, kStride);
  WorkRing ring;
  EXPECT_FALSE(ring.attach(nullptr, kernel.size(), 4, kStride, kStride));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 0, kStride, kStride));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 3, kStride, kStride));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 8, kStride, kStride));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size() - 1, 4, kStride, kStride));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 4, kStride - 8, kStride));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 4, kStride - 4, sizeof(kiwarp_sqe)));
  // 2^31 entries of 2^31 bytes don't fit either, although their product wraps to 0 in 32 bits.
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 1U << 31, 1U << 31, kStride));
  EXPECT_TRUE(ring.attach(kernel.base(), kernel.size(), 4, kStride, kStride));
}

}  // namespace
}  // namespace kiwarp::test
