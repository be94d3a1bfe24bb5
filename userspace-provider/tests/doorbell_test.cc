// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// What becomes of work requests whose doorbell fails: none of them is both executed and reported as
// not posted.
#include "doorbell.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>

#include "fake_calls.h"
#include "fake_kernel.h"
#include "queues.h"

namespace kiwarp::test {
namespace {

constexpr uint32_t kEntries = 4;
constexpr uint32_t kStride = 128;

class DoorbellTest : public testing::Test {
 protected:
  DoorbellTest()
      : kernel_send_(kEntries, kStride, 0xfffffffe),
        kernel_receive_(kEntries, kStride, 0xfffffffe),
        device_([this](int, const void*, size_t size) { return answer(size); }) {
    qp_.context = &context_;
    EXPECT_TRUE(
        send_.ring.attach(kernel_send_.base(), kernel_send_.size(), kEntries, kStride, kStride));
    EXPECT_TRUE(receive_.ring.attach(kernel_receive_.base(), kernel_receive_.size(), kEntries,
                                     kStride, kStride));
    send_.doorbell = Doorbell(&qp_, Doorbell::Kind::kSend);
    receive_.doorbell = Doorbell(&qp_, Doorbell::Kind::kReceive);
    setState(KIWARP_QPS_RTS);
  }

  void setState(kiwarp_qp_state state) {
    kernel_send_.setState(state);
    kernel_receive_.setState(state);
  }

  // The next doorbells fail.
  void fail(int error, int times = 1000) {
    error_ = error;
    times_ = times;
  }
  void mend() { times_ = 0; }

  int post() {
    list_[0].next = &list_[1];
    bad_ = nullptr;
    return send_.post(list_.data(), &bad_);
  }

  int postReceive() {
    ibv_recv_wr* bad = nullptr;
    const int error = receive_.post(&receive_wr_, &bad);
    EXPECT_EQ(bad, error == 0 ? nullptr : &receive_wr_);
    return error;
  }

  int postBatch() {
    send_.start();
    for (const uint64_t id : {1, 2}) {
      if (send_.add(KIWARP_OP_SEND, id, 0) == nullptr) break;
    }
    return send_.complete();
  }

  FakeWorkRing kernel_send_;
  FakeWorkRing kernel_receive_;
  SendQueue send_;
  ReceiveQueue receive_;
  std::array<ibv_send_wr, 2> list_{};
  ibv_send_wr* bad_ = nullptr;
  int doorbells_ = 0;  // that did not fail
  // What the kernel does in a doorbell that fails.
  std::function<void()> meanwhile_;

 private:
  ssize_t answer(size_t size) {
    if (times_ == 0) {
      ++doorbells_;
      return static_cast<ssize_t>(size);
    }
    --times_;
    if (meanwhile_) meanwhile_();
    errno = error_;
    return -1;
  }

  ibv_context context_{};
  ibv_qp qp_{};
  ibv_recv_wr receive_wr_{};
  int error_ = 0;
  int times_ = 0;
  WritesTo device_;
};

TEST_F(DoorbellTest, IsTriedAgainForWantOfMemory) {
  for (const int error : {ENOMEM, EFAULT}) {
    const uint32_t before = kernel_send_.posted();
    fail(error, 2);
    EXPECT_EQ(post(), 0);
    EXPECT_EQ(kernel_send_.posted(), before + 2);
  }
  EXPECT_EQ(doorbells_, 2);
}

// The stream may be about to execute them.
TEST_F(DoorbellTest, LeavesPostedWhatAStreamMayRead) {
  for (const kiwarp_qp_state state : {KIWARP_QPS_RTS, KIWARP_QPS_CLOSING}) {
    setState(state);
    fail(state == KIWARP_QPS_RTS ? ENOMEM : EIO);
    EXPECT_EQ(post(), 0) << state;
    EXPECT_EQ(bad_, nullptr);
    EXPECT_EQ(kernel_send_.posted(), 2U);
    while (kernel_send_.take<kiwarp_sqe>() != nullptr) continue;
    mend();
    ASSERT_EQ(send_.doorbell.settle(), 0);
  }
}

TEST_F(DoorbellTest, IsOwedBeforeMoreIsPosted) {
  fail(ENOMEM);
  ASSERT_EQ(post(), 0);
  EXPECT_EQ(post(), ENOMEM);
  EXPECT_EQ(bad_, list_.data());
  EXPECT_EQ(postBatch(), ENOMEM);
  EXPECT_EQ(kernel_send_.posted(), 2U);
  mend();
  EXPECT_EQ(post(), 0);
  EXPECT_EQ(kernel_send_.posted(), 4U);
  EXPECT_EQ(doorbells_, 2);
}

// The program can wait for nothing but the completions of what is posted.
TEST_F(DoorbellTest, IsOwedThoughTheRingIsFull) {
  ASSERT_EQ(post(), 0);
  fail(ENOMEM);
  ASSERT_EQ(post(), 0);
  mend();
  EXPECT_EQ(post(), ENOMEM);
  EXPECT_EQ(doorbells_, 2);
}

TEST_F(DoorbellTest, LeavesABatchPostedThatAStreamMayRead) {
  fail(ENOMEM);
  EXPECT_EQ(postBatch(), 0);
  EXPECT_EQ(kernel_send_.posted(), 2U);
}

// All of a batch is posted or nothing, whatever the kernel has come to.
TEST_F(DoorbellTest, LeavesABatchPostedOfWhichSomeWasTaken) {
  for (const kiwarp_qp_state state : {KIWARP_QPS_RTS, KIWARP_QPS_ERROR}) {
    setState(state);
    fail(EIO, 1);
    meanwhile_ = [this] { kernel_send_.take<kiwarp_sqe>(); };
    EXPECT_EQ(postBatch(), 0) << state;
    EXPECT_EQ(kernel_send_.posted(), 1U);
    kernel_send_.take<kiwarp_sqe>();
    ASSERT_EQ(send_.doorbell.settle(), 0);
  }
}

TEST_F(DoorbellTest, TakesBackWhatNothingReadsAfterAReset) {
  meanwhile_ = [this] { setState(KIWARP_QPS_RESET); };
  fail(EINVAL);
  EXPECT_EQ(post(), EINVAL);
  EXPECT_EQ(bad_, list_.data());
  EXPECT_EQ(kernel_send_.posted(), 0U);
  setState(KIWARP_QPS_RTS);
  EXPECT_EQ(postBatch(), EINVAL);
  EXPECT_EQ(kernel_send_.posted(), 0U);
}

// Nothing would ever complete it.
TEST_F(DoorbellTest, TakesBackWhatADeviceThatIsGoneWouldFlush) {
  setState(KIWARP_QPS_ERROR);
  fail(EIO);
  EXPECT_EQ(post(), EIO);
  EXPECT_EQ(bad_, list_.data());
  EXPECT_EQ(postBatch(), EIO);
  EXPECT_EQ(kernel_send_.posted(), 0U);
  EXPECT_EQ(postReceive(), EIO);
  EXPECT_EQ(kernel_receive_.posted(), 0U);
}

TEST_F(DoorbellTest, LeavesPostedWhatIsStillToBeFlushed) {
  setState(KIWARP_QPS_ERROR);
  fail(ENOMEM);
  EXPECT_EQ(post(), 0);
  EXPECT_EQ(kernel_send_.posted(), 2U);
  EXPECT_EQ(postReceive(), 0);
  EXPECT_EQ(postReceive(), ENOMEM);
  EXPECT_EQ(kernel_receive_.posted(), 1U);
  mend();
  EXPECT_EQ(postReceive(), 0);
  EXPECT_EQ(kernel_receive_.posted(), 2U);
  EXPECT_EQ(doorbells_, 2);
}

}  // namespace
}  // namespace kiwarp::test
