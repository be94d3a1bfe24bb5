// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The rings with threads on both sides, for as long as some hundred thousand operations take.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>

#include "fake_kernel.h"
#include "rings/completion_ring.h"
#include "rings/spin_lock.h"
#include "rings/work_ring.h"

namespace kiwarp::test {
namespace {

constexpr uint32_t kStride = 64;

// Spins first, because the races of interest last nanoseconds, but yields on a busy machine.
template <typename Condition>
void spinWhile(Condition condition) {
  constexpr int kSpins = 200;
  for (int spin = 1; condition(); ++spin) {
    if (spin % kSpins == 0) std::this_thread::yield();
  }
}

TEST(Stress, SpinLockExcludes) {
  SpinLock lock;
  uint64_t counter = 0;
  auto count = [&] {
    for (int i = 0; i < 200000; ++i) {
      std::lock_guard guard(lock);
      ++counter;
    }
  };
  std::thread other(count);
  count();
  other.join();
  EXPECT_EQ(counter, 400000U);
}

// A thread that is cancelled while it sleeps for the lock takes it all the same, and gives it back.
TEST(Stress, SpinLockIsNoCancellationPoint) {
  SpinLock lock;
  lock.lock();
  pthread_t thread = 0;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void* mutex) -> void* {
                  pthread_cancel(pthread_self());
                  std::lock_guard guard(*static_cast<SpinLock*>(mutex));
                  return mutex;
                },
                &lock),
            0);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  lock.unlock();
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, &lock);
}

// One thread posts as fast as the ring lets it, one plays the kernel, one polls. Every work
// request completes once, in order, and the kernel reads what was posted.
TEST(Stress, EveryRequestCompletesOnceInOrder) {
  constexpr uint32_t kEntries = 16;
  constexpr uint64_t kCount = 300000;
  constexpr uint32_t kFirst = 0xffff0000;  // the indices wrap on the way
  FakeWorkRing kernel_send(kEntries, kStride, kFirst);
  FakeCq kernel_cq(kEntries, kFirst);
  WorkRing send;
  CompletionRing completions;
  ASSERT_TRUE(send.attach(kernel_send.base(), kernel_send.size(), kEntries, kStride, kStride));
  ASSERT_TRUE(completions.attach(kernel_cq.base(), kernel_cq.size(), kEntries));
  ASSERT_TRUE(completions.addQueue(1, {&send, nullptr}));

  std::thread poster([&] {
    for (uint64_t id = 0; id < kCount;) {
      auto* sqe = reinterpret_cast<kiwarp_sqe*>(send.next());
      if (sqe == nullptr) {
        std::this_thread::yield();
        continue;
      }
      sqe->wr_id = id;
      sqe->remote_addr = ~id;
      send.push();
      // Lists of different lengths.
      if (++id % 7 == 0 || id == kCount || send.next() == nullptr) send.publish();
    }
  });
  std::atomic<uint64_t> garbled{0};
  std::thread kernel([&] {
    for (uint64_t done = 0; done < kCount;) {
      const auto* sqe = kernel_send.take<kiwarp_sqe>();
      if (sqe == nullptr) {
        std::this_thread::yield();
        continue;
      }
      if (sqe->wr_id != done || sqe->remote_addr != ~done) ++garbled;
      kiwarp_cqe cqe = cqeOf(1, KIWARP_OP_SEND, sqe->wr_id, kernel_send.consumer());
      while (!kernel_cq.post(cqe)) std::this_thread::yield();
      ++done;
    }
  });
  uint64_t next = 0;
  uint64_t disordered = 0;
  while (next < kCount) {
    uint32_t polled = completions.poll(5, [&](uint32_t, const kiwarp_cqe& cqe) {
      if (cqe.wr_id != next) ++disordered;
      ++next;
    });
    if (polled == 0) std::this_thread::yield();
  }
  poster.join();
  kernel.join();
  EXPECT_EQ(garbled, 0U);
  EXPECT_EQ(disordered, 0U);
  EXPECT_EQ(next, kCount);
}

// arm, poll, wait: the protocol of every consumer of events. The kernel waits for each completion
// to be polled before it posts the next, so that a later event never hides a lost one.
TEST(Stress, NoEventIsLost) {
  constexpr uint64_t kCount = 100000;
  constexpr auto kTimeLimit = std::chrono::seconds(20);
  FakeCq kernel_cq(4);
  FakeWorkRing kernel_send(1, kStride);
  WorkRing send;
  CompletionRing completions;
  ASSERT_TRUE(send.attach(kernel_send.base(), kernel_send.size(), 1, kStride, kStride));
  ASSERT_TRUE(completions.attach(kernel_cq.base(), kernel_cq.size(), 4));
  ASSERT_TRUE(completions.addQueue(1, {&send, nullptr}));

  std::atomic<uint64_t> polled{0};
  std::atomic<bool> lost{false};
  std::thread kernel([&] {
    for (uint64_t id = 0; id < kCount && !lost; ++id) {
      kernel_cq.post(cqeOf(1, KIWARP_OP_SEND, id, 0));
      spinWhile([&] { return polled <= id && !lost; });
    }
  });
  while (polled < kCount && !lost) {
    uint32_t seen = kernel_cq.events();
    completions.arm(false);
    uint32_t count = completions.poll(4, [](uint32_t, const kiwarp_cqe&) {});
    polled += count;
    if (count > 0) continue;
    auto deadline = std::chrono::steady_clock::now() + kTimeLimit;
    spinWhile([&] {
      lost = std::chrono::steady_clock::now() > deadline;
      return kernel_cq.events() == seen && !lost;
    });
  }
  kernel.join();
  EXPECT_FALSE(lost) << "after " << polled << " completions";
}

// A receive is posted at the moment at which the queue pair goes to ERROR: the kernel finds it, or
// the poster sees the state and tells the kernel. Both sides start each round together, as far as
// two CPUs can.
TEST(Stress, WhatIsPostedIntoAnErrorIsFlushed) {
  constexpr uint32_t kRounds = 100000;
  FakeWorkRing kernel_receive(1, kStride);
  WorkRing receive;
  ASSERT_TRUE(receive.attach(kernel_receive.base(), kernel_receive.size(), 1, kStride, kStride));

  std::atomic<uint32_t> ready{0};
  std::atomic<uint32_t> done{0};
  auto meet = [](std::atomic<uint32_t>* at, uint32_t round) {
    at->fetch_add(1);
    spinWhile([&] { return at->load() < 2 * round; });
  };
  uint32_t found = 0;
  std::thread kernel([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      kernel_receive.setState(KIWARP_QPS_RTS);
      meet(&ready, round);
      found = kernel_receive.fail();
      meet(&done, round);
    }
  });
  uint32_t missed = 0;
  uint32_t both = 0;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    meet(&ready, round);
    receive.push();
    receive.publish();
    const bool seen = receive.stateAfterPublish() == KIWARP_QPS_ERROR;
    meet(&done, round);
    if (!seen && found == 0) ++missed;
    if (seen && found != 0) ++both;
    std::ignore = kernel_receive.take<kiwarp_rqe>();
    receive.releaseTaken();
  }
  kernel.join();
  EXPECT_EQ(missed, 0U);
  RecordProperty("at_the_same_time", static_cast<int>(both));
}

// Queue pairs come and go, with numbers that are used again at once, while two threads poll the
// completion queue that they share. A use after free shows under the address sanitizer, and a
// completion of a queue pair that is gone shows everywhere.
TEST(Stress, QueuePairsComeAndGoWhilePolling) {
  constexpr uint32_t kEntries = 256;
  constexpr int kRounds = 20000;
  constexpr uint32_t kNumbers = 3;
  FakeCq kernel_cq(kEntries);
  CompletionRing completions;
  ASSERT_TRUE(completions.attach(kernel_cq.base(), kernel_cq.size(), kEntries));

  std::atomic<bool> stop{false};
  std::atomic<uint64_t> oldest_alive{0};
  std::atomic<uint64_t> late{0};
  auto pollAll = [&] {
    while (!stop) {
      // Read before the poll: what is dead then must not be delivered by it.
      uint64_t alive = oldest_alive.load();
      uint32_t polled = completions.poll(8, [&](uint32_t, const kiwarp_cqe& cqe) {
        if (cqe.wr_id < alive) ++late;
      });
      if (polled == 0) std::this_thread::yield();
    }
  };
  std::thread one(pollAll);
  std::thread two(pollAll);

  FakeWorkRing kernel_send(8, kStride);
  for (int round = 0; round < kRounds; ++round) {
    uint32_t number = 5 + static_cast<uint32_t>(round) % kNumbers;
    auto ring = std::make_unique<WorkRing>();
    ASSERT_TRUE(ring->attach(kernel_send.base(), kernel_send.size(), 8, kStride, kStride));
    ASSERT_TRUE(completions.addQueue(number, {ring.get(), nullptr}));
    for (int i = 0; i < 3; ++i) {
      auto cqe = cqeOf(number, KIWARP_OP_SEND, static_cast<uint64_t>(round), 0);
      while (!kernel_cq.post(cqe)) std::this_thread::yield();
    }
    completions.removeQueue(number, {ring.get(), nullptr});
    oldest_alive = static_cast<uint64_t>(round) + 1;
  }
  stop = true;
  one.join();
  two.join();
  EXPECT_EQ(late, 0U);
}

}  // namespace
}  // namespace kiwarp::test
