// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/completion_ring.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "fake_kernel.h"

namespace kiwarp::test {
namespace {

constexpr uint32_t kStride = 64;
constexpr uint32_t kWorkEntries = 8;

// A queue pair whose rings are attached to a fake kernel's.
struct FakeQueuePair {
  explicit FakeQueuePair(uint32_t qp_id)
      : id(qp_id), kernel_send(kWorkEntries, kStride), kernel_receive(kWorkEntries, kStride) {
    EXPECT_TRUE(
        send.attach(kernel_send.base(), kernel_send.size(), kWorkEntries, kStride, kStride));
    EXPECT_TRUE(receive.attach(kernel_receive.base(), kernel_receive.size(), kWorkEntries, kStride,
                               kStride));
  }

  QueueRings both() { return {&send, &receive}; }

  // How many entries of a ring are free.
  static uint32_t room(WorkRing& ring) {
    uint32_t count = 0;
    for (; ring.next() != nullptr; ++count) ring.push();
    ring.drop();
    return count;
  }

  static void fill(WorkRing& ring) {
    while (ring.next() != nullptr) ring.push();
    ring.publish();
  }

  uint32_t id;
  FakeWorkRing kernel_send;
  FakeWorkRing kernel_receive;
  WorkRing send;
  WorkRing receive;
};

class CompletionRingAt : public testing::TestWithParam<uint32_t> {
 protected:
  static constexpr uint32_t kEntries = 4;

  CompletionRingAt() : kernel_(kEntries, GetParam()) {
    EXPECT_TRUE(ring_.attach(kernel_.base(), kernel_.size(), kEntries));
  }

  // The wr_ids of what a poll delivers.
  std::vector<uint64_t> poll(uint32_t limit = 100) {
    std::vector<uint64_t> ids;
    uint32_t count = ring_.poll(limit, [&](uint32_t index, const kiwarp_cqe& cqe) {
      EXPECT_EQ(index, ids.size());
      ids.push_back(cqe.wr_id);
    });
    EXPECT_EQ(count, ids.size());
    return ids;
  }

  bool postSend(uint32_t qp_id, uint64_t wr_id, uint32_t wqe_index = 0) {
    return kernel_.post(cqeOf(qp_id, KIWARP_OP_SEND, wr_id, wqe_index));
  }

  FakeCq kernel_;
  CompletionRing ring_;
};

using Ids = std::vector<uint64_t>;

INSTANTIATE_TEST_SUITE_P(FirstIndex, CompletionRingAt, testing::Values(0U, 3U, 0xfffffffeU));

TEST_P(CompletionRingAt, DeliversInOrderAndAtMostTheLimit) {
  FakeQueuePair qp(1);
  ASSERT_TRUE(ring_.addQueue(1, qp.both()));
  EXPECT_EQ(poll(), Ids());
  ASSERT_TRUE(postSend(1, 10));
  ASSERT_TRUE(postSend(1, 11));
  ASSERT_TRUE(postSend(1, 12));
  EXPECT_EQ(poll(0), Ids());
  EXPECT_EQ(poll(2), (Ids{10, 11}));
  EXPECT_EQ(poll(2), (Ids{12}));
  EXPECT_EQ(poll(2), Ids());
}

TEST_P(CompletionRingAt, GivesSlotsBackToTheKernel) {
  FakeQueuePair qp(1);
  ASSERT_TRUE(ring_.addQueue(1, qp.both()));
  for (uint64_t id = 0; id < 50; ++id) {
    ASSERT_TRUE(postSend(1, id));
    if (id % 3 == 2) {
      EXPECT_EQ(poll(), (Ids{id - 2, id - 1, id}));
    }
  }
  poll();
  for (uint64_t id = 0; id < kEntries; ++id) ASSERT_TRUE(postSend(1, id));
  EXPECT_FALSE(postSend(1, 99));
  EXPECT_EQ(poll(1), (Ids{0}));
  EXPECT_TRUE(postSend(1, 4));
}

TEST_P(CompletionRingAt, FreesTheEntriesThatACompletionCovers) {
  FakeQueuePair qp(1);
  ASSERT_TRUE(ring_.addQueue(1, qp.both()));
  FakeQueuePair::fill(qp.send);
  FakeQueuePair::fill(qp.receive);
  // Two unsignalled sends and the signalled one after them.
  ASSERT_TRUE(postSend(1, 10, 3));
  ASSERT_TRUE(kernel_.post(cqeOf(1, KIWARP_OP_RECV, 20, 1)));
  EXPECT_EQ(poll(), (Ids{10, 20}));
  EXPECT_NE(qp.send.next(), nullptr);
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(qp.send.next(), nullptr);
    qp.send.push();
  }
  EXPECT_EQ(qp.send.next(), nullptr);
  ASSERT_NE(qp.receive.next(), nullptr);
  qp.receive.push();
  EXPECT_EQ(qp.receive.next(), nullptr);
}

TEST_P(CompletionRingAt, KeepsQueuePairsApart) {
  FakeQueuePair one(1);
  FakeQueuePair two(2);
  ASSERT_TRUE(ring_.addQueue(1, one.both()));
  ASSERT_TRUE(ring_.addQueue(2, two.both()));
  FakeQueuePair::fill(one.send);
  FakeQueuePair::fill(two.send);
  ASSERT_TRUE(postSend(2, 20, 8));
  ASSERT_TRUE(postSend(1, 10, 1));
  ASSERT_TRUE(postSend(2, 21, 8));
  EXPECT_EQ(poll(), (Ids{20, 10, 21}));
  EXPECT_EQ(FakeQueuePair::room(one.send), 1U);
  EXPECT_EQ(FakeQueuePair::room(two.send), kWorkEntries);
}

TEST_P(CompletionRingAt, SkipsDestroyedQueuePairs) {
  FakeQueuePair one(1);
  FakeQueuePair two(2);
  ASSERT_TRUE(ring_.addQueue(1, one.both()));
  ASSERT_TRUE(ring_.addQueue(2, two.both()));
  ASSERT_TRUE(postSend(1, 10));
  EXPECT_EQ(poll(), (Ids{10}));
  ASSERT_TRUE(postSend(1, 11));
  ASSERT_TRUE(postSend(2, 20));
  ASSERT_TRUE(postSend(1, 12));
  ring_.removeQueue(1, one.both());
  // Skipped ones count neither against the limit nor in the result.
  EXPECT_EQ(poll(1), (Ids{20}));
  EXPECT_EQ(poll(), Ids());
  // Their slots are the kernel's again.
  for (uint32_t i = 0; i < kEntries; ++i) EXPECT_TRUE(postSend(2, i));
}

TEST_P(CompletionRingAt, SkipsTheSideThatReportsElsewhere) {
  FakeQueuePair qp(1);
  ASSERT_TRUE(ring_.addQueue(1, {&qp.send, nullptr}));
  ASSERT_TRUE(kernel_.post(cqeOf(1, KIWARP_OP_RECV, 20, 1)));
  ASSERT_TRUE(postSend(1, 10));
  EXPECT_EQ(poll(), (Ids{10}));
}

TEST_P(CompletionRingAt, DoesNotTakeAnOldNumbersCompletionsForTheNewOnes) {
  FakeQueuePair old_pair(1);
  FakeQueuePair new_pair(1);
  ASSERT_TRUE(ring_.addQueue(1, old_pair.both()));
  ASSERT_TRUE(postSend(1, 10, 5));
  // The kernel reused the number before user space removed the old queue pair.
  ASSERT_TRUE(ring_.addQueue(1, new_pair.both()));
  ring_.removeQueue(1, old_pair.both());
  FakeQueuePair::fill(new_pair.send);
  ASSERT_TRUE(postSend(1, 11, 1));
  EXPECT_EQ(poll(), (Ids{11}));
  EXPECT_EQ(FakeQueuePair::room(new_pair.send), 1U);
}

TEST_P(CompletionRingAt, DiscardsBeforeAReset) {
  FakeQueuePair one(1);
  FakeQueuePair two(2);
  ASSERT_TRUE(ring_.addQueue(1, one.both()));
  ASSERT_TRUE(ring_.addQueue(2, two.both()));
  FakeQueuePair::fill(one.send);
  ASSERT_TRUE(postSend(1, 10, 5));
  ASSERT_TRUE(postSend(2, 20));
  ring_.discard(1);
  one.send.reset();
  EXPECT_EQ(poll(), (Ids{20}));
  EXPECT_EQ(FakeQueuePair::room(one.send), kWorkEntries);
  ASSERT_TRUE(postSend(1, 11));
  EXPECT_EQ(poll(), (Ids{11}));
}

TEST_P(CompletionRingAt, TakesOneAtATime) {
  FakeQueuePair one(1);
  FakeQueuePair two(2);
  ASSERT_TRUE(ring_.addQueue(1, one.both()));
  ASSERT_TRUE(ring_.addQueue(2, two.both()));
  EXPECT_FALSE(ring_.start());
  ASSERT_TRUE(postSend(1, 10));
  ASSERT_TRUE(postSend(2, 20));
  ASSERT_TRUE(postSend(1, 11));
  ring_.removeQueue(1, one.both());
  ASSERT_TRUE(ring_.start());
  EXPECT_EQ(ring_.current().wr_id, 20U);
  EXPECT_EQ(ring_.current().qp_id, 2U);
  EXPECT_EQ(kernel_.waiting(), 0U);
  // What comes meanwhile is found.
  ASSERT_TRUE(postSend(2, 21));
  ASSERT_TRUE(ring_.next());
  EXPECT_EQ(ring_.current().wr_id, 21U);
  EXPECT_FALSE(ring_.next());
  EXPECT_FALSE(ring_.next());
  ring_.end();
  EXPECT_EQ(kernel_.waiting(), 0U);
  EXPECT_FALSE(ring_.start());
  ASSERT_TRUE(postSend(2, 22));
  ASSERT_TRUE(postSend(2, 23));
  ASSERT_TRUE(ring_.start());
  ring_.end();
  EXPECT_EQ(poll(), (Ids{23}));
}

// The queue has as many entries as work requests can be outstanding, and one is posted for each
// completion that was read.
TEST_P(CompletionRingAt, PostingInABatchDoesNotOverflow) {
  FakeQueuePair qp(1);
  ASSERT_TRUE(ring_.addQueue(1, qp.both()));
  FakeQueuePair::fill(qp.send);
  for (uint32_t i = 0; i < kEntries; ++i) ASSERT_TRUE(postSend(1, i, 2 * (i + 1)));
  ASSERT_TRUE(ring_.start());
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(ring_.current().wr_id, i);
    for (int half = 0; half < 2; ++half) {
      ASSERT_NE(qp.send.next(), nullptr);
      qp.send.push();
    }
    qp.send.publish();
    EXPECT_TRUE(postSend(1, i + kEntries, 2 * (i + 1 + kEntries)));
    ASSERT_TRUE(ring_.next());
  }
  ring_.end();
}

TEST_P(CompletionRingAt, FreesTheSlotBeforeTheEntries) {
  FakeQueuePair qp(1);
  ASSERT_TRUE(ring_.addQueue(1, qp.both()));
  FakeQueuePair::fill(qp.send);
  FakeQueuePair::fill(qp.receive);
  ASSERT_TRUE(postSend(1, 0, 1));
  ASSERT_TRUE(postSend(1, 1, 2));
  ASSERT_TRUE(kernel_.post(cqeOf(1, KIWARP_OP_RECV, 2, 1)));
  ASSERT_TRUE(postSend(1, 3, 3));
  // As another thread, which posts as soon as an entry is free.
  uint32_t posted = 0;
  EXPECT_EQ(ring_.poll(kEntries,
                       [&](uint32_t, const kiwarp_cqe&) {
                         if (qp.send.next() == nullptr) return;
                         qp.send.push();
                         EXPECT_TRUE(postSend(1, 10 + posted++));
                       }),
            kEntries);
  EXPECT_EQ(posted, 2U);
  EXPECT_EQ(FakeQueuePair::room(qp.send), 1U);
  EXPECT_EQ(FakeQueuePair::room(qp.receive), 1U);
}

// Whichever entries of the ring are the destroyed queue pair's.
TEST_P(CompletionRingAt, FreesSlotsOfADestroyedQueuePair) {
  FakeQueuePair one(1);
  FakeQueuePair two(2);
  for (uint32_t which = 0; which < 1U << kEntries; ++which) {
    ASSERT_TRUE(ring_.addQueue(1, one.both()));
    ASSERT_TRUE(ring_.addQueue(2, two.both()));
    Ids stay;
    for (uint32_t i = 0; i < kEntries; ++i) {
      const bool goes = (which >> i & 1) != 0;
      ASSERT_TRUE(postSend(goes ? 1 : 2, i));
      if (!goes) stay.push_back(i);
    }
    if (which % 2 != 0) {
      ring_.removeQueue(1, one.both());
    } else {
      ring_.discard(1);
    }
    EXPECT_EQ(kernel_.waiting(), stay.size());
    EXPECT_EQ(ring_.waiting(), stay.size());
    EXPECT_EQ(poll(), stay);
  }
}

// Between start() and end(), with its completions among others.
TEST_P(CompletionRingAt, DestroysAQueuePairInABatch) {
  FakeQueuePair one(1);
  FakeQueuePair two(2);
  ring_.useWithoutLock();
  ASSERT_TRUE(ring_.addQueue(1, one.both()));
  ASSERT_TRUE(ring_.addQueue(2, two.both()));
  ASSERT_TRUE(postSend(2, 20));
  ASSERT_TRUE(postSend(2, 21));
  ASSERT_TRUE(postSend(1, 10));
  ASSERT_TRUE(postSend(2, 22));
  ASSERT_TRUE(ring_.start());
  ring_.removeQueue(1, one.both());
  EXPECT_EQ(ring_.current().wr_id, 20U);
  ASSERT_TRUE(ring_.next());
  EXPECT_EQ(ring_.current().wr_id, 21U);
  ASSERT_TRUE(ring_.next());
  EXPECT_EQ(ring_.current().wr_id, 22U);
  EXPECT_FALSE(ring_.next());
  ring_.end();
}

// Only completions of a queue pair that is gone: their slots are given back all the same.
TEST_P(CompletionRingAt, SkipsThoseOfNobodyAtTheStart) {
  ASSERT_TRUE(postSend(1, 10));
  EXPECT_FALSE(ring_.start());
  EXPECT_EQ(kernel_.waiting(), 0U);
}

TEST_P(CompletionRingAt, GoesOnInAnotherRing) {
  FakeQueuePair qp(1);
  ASSERT_TRUE(ring_.addQueue(1, qp.both()));
  ASSERT_TRUE(postSend(1, 10));
  ASSERT_TRUE(postSend(1, 11));
  ASSERT_TRUE(postSend(1, 12));
  EXPECT_EQ(poll(1), (Ids{10}));
  FakeCq larger(16, GetParam() + 1);
  EXPECT_EQ(ring_.resize([&](RingPlace* place) {
    // The kernel copies what waits, to the same indices.
    for (uint64_t id : {11, 12}) larger.post(cqeOf(1, KIWARP_OP_SEND, id, 0));
    *place = {larger.base(), larger.size(), 16};
    return 0;
  }),
            0);
  EXPECT_EQ(poll(1), (Ids{11}));
  EXPECT_EQ(larger.waiting(), 1U);
  for (uint64_t id = 13; id < 28; ++id) ASSERT_TRUE(larger.post(cqeOf(1, KIWARP_OP_SEND, id, 0)));
  ring_.arm(false);
  EXPECT_EQ(larger.armed(), KIWARP_CQ_ARM_ANY);
  EXPECT_EQ(poll().size(), 16U);
  EXPECT_EQ(larger.waiting(), 0U);
}

TEST_P(CompletionRingAt, StaysWhereItIsIfTheKernelRefuses) {
  FakeQueuePair qp(1);
  ASSERT_TRUE(ring_.addQueue(1, qp.both()));
  ASSERT_TRUE(postSend(1, 10));
  EXPECT_EQ(ring_.resize([](RingPlace*) { return EINVAL; }), EINVAL);
  EXPECT_EQ(poll(), (Ids{10}));
  EXPECT_EQ(ring_.resize([](RingPlace*) { return 0; }), EPROTO);
  EXPECT_EQ(kernel_.waiting(), 0U);
}

TEST(CompletionRing, NeedsNoLockOfASingleThread) {
  FakeCq kernel(4);
  FakeQueuePair qp(1);
  CompletionRing ring;
  ring.useWithoutLock();
  ASSERT_TRUE(ring.attach(kernel.base(), kernel.size(), 4));
  ASSERT_TRUE(ring.addQueue(1, qp.both()));
  ASSERT_TRUE(kernel.post(cqeOf(1, KIWARP_OP_SEND, 1, 0)));
  ASSERT_TRUE(ring.start());
  // With a lock this would wait for ever.
  ring.arm(false);
  ring.end();
}

TEST(CompletionRing, ReadsStampsBehindTheEntries) {
  constexpr uint32_t kEntries = 4;
  RingMemory memory(KIWARP_RING_ENTRIES_OFF +
                    kEntries * (sizeof(kiwarp_cqe) + sizeof(kiwarp_cq_stamp)));
  auto* control = static_cast<kiwarp_cq_ctrl*>(memory.base());
  auto* entries = reinterpret_cast<kiwarp_cqe*>(memory.entry(0, 0));
  auto* stamps = reinterpret_cast<kiwarp_cq_stamp*>(entries + kEntries);
  FakeQueuePair qp(1);
  CompletionRing ring;
  ring.haveStamps();
  EXPECT_FALSE(ring.attach(memory.base(), memory.size() - 1, kEntries));
  control->producer = control->consumer = 3;
  ASSERT_TRUE(ring.attach(memory.base(), memory.size(), kEntries));
  ASSERT_TRUE(ring.addQueue(1, qp.both()));
  for (uint32_t i = 3; i < 5; ++i) {
    entries[i % kEntries] = cqeOf(1, KIWARP_OP_SEND, i, 0);
    stamps[i % kEntries] = {.monotonic_ns = 100 + i, .realtime_ns = 200 + i};
  }
  control->producer = 5;
  ASSERT_TRUE(ring.start());
  EXPECT_EQ(ring.currentStamp().monotonic_ns, 103U);
  ASSERT_TRUE(ring.next());
  EXPECT_EQ(ring.currentStamp().monotonic_ns, 104U);
  EXPECT_EQ(ring.currentStamp().realtime_ns, 204U);
  ring.end();
  // Time stamps are moved with their completions.
  for (uint32_t i = 5; i < 8; ++i) {
    entries[i % kEntries] = cqeOf(i == 6 ? 2 : 1, KIWARP_OP_SEND, i, 0);
    stamps[i % kEntries] = {.monotonic_ns = 100 + i, .realtime_ns = 200 + i};
  }
  control->producer = 8;
  ring.discard(2);
  ASSERT_TRUE(ring.start());
  EXPECT_EQ(ring.current().wr_id, 5U);
  EXPECT_EQ(ring.currentStamp().monotonic_ns, 105U);
  ASSERT_TRUE(ring.next());
  EXPECT_EQ(ring.currentStamp().monotonic_ns, 107U);
  EXPECT_EQ(control->consumer, 8U);
  ring.end();
}

TEST(CompletionRing, SkipsDroppedCompletionsWithoutAQueuePair) {
  FakeCq kernel(4);
  CompletionRing ring;
  ASSERT_TRUE(ring.attach(kernel.base(), kernel.size(), 4));
  ASSERT_TRUE(kernel.post(cqeOf(QueueTable::kNoQueue, KIWARP_OP_SEND, 1, 0)));
  EXPECT_EQ(ring.poll(4, [](uint32_t, const kiwarp_cqe&) {}), 0U);
  EXPECT_EQ(kernel.waiting(), 0U);
}

TEST(CompletionRing, RaisesAnEventForTheNextCompletionOnly) {
  FakeCq kernel(8);
  CompletionRing ring;
  ASSERT_TRUE(ring.attach(kernel.base(), kernel.size(), 8));
  kernel.post(cqeOf(1, KIWARP_OP_SEND, 1, 0));
  EXPECT_EQ(kernel.events(), 0U);
  ring.arm(false);
  EXPECT_EQ(kernel.events(), 0U);
  kernel.post(cqeOf(1, KIWARP_OP_SEND, 2, 0));
  EXPECT_EQ(kernel.events(), 1U);
  kernel.post(cqeOf(1, KIWARP_OP_SEND, 3, 0));
  EXPECT_EQ(kernel.events(), 1U);
}

TEST(CompletionRing, WaitsForSolicitedCompletions) {
  FakeCq kernel(8);
  CompletionRing ring;
  ASSERT_TRUE(ring.attach(kernel.base(), kernel.size(), 8));
  kiwarp_cqe solicited = cqeOf(1, KIWARP_OP_RECV, 1, 0);
  solicited.flags = KIWARP_CQE_SOLICITED;

  ring.arm(true);
  kernel.post(cqeOf(1, KIWARP_OP_RECV, 2, 0));
  EXPECT_EQ(kernel.events(), 0U);
  kernel.post(solicited);
  EXPECT_EQ(kernel.events(), 1U);

  // Asking for less doesn't revoke an earlier request.
  ring.arm(false);
  ring.arm(true);
  EXPECT_EQ(kernel.armed(), KIWARP_CQ_ARM_ANY | KIWARP_CQ_ARM_SOLICITED);
  kernel.post(cqeOf(1, KIWARP_OP_RECV, 3, 0));
  EXPECT_EQ(kernel.events(), 2U);
  EXPECT_EQ(kernel.armed(), 0U);
}

TEST(CompletionRing, RefusesWhatDoesNotFit) {
  FakeCq kernel(4);
  CompletionRing ring;
  EXPECT_FALSE(ring.attach(nullptr, kernel.size(), 4));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 0));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 3));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size(), 8));
  EXPECT_FALSE(ring.attach(kernel.base(), kernel.size() - 1, 4));
  EXPECT_TRUE(ring.attach(kernel.base(), kernel.size(), 4));
}

}  // namespace
}  // namespace kiwarp::test
