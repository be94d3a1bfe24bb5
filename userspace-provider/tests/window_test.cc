// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The keys of memory windows of type 1.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>

#include "fake_calls.h"
#include "fake_kernel.h"
#include "memory.h"
#include "qp.h"

namespace kiwarp::test {
namespace {

constexpr uint32_t kEntries = 4;
constexpr uint32_t kStride = 128;
constexpr uint32_t kKey = 0x123400fe;  // the last but one

// A connected queue pair with a send ring.
class Connected {
 public:
  Connected(ibv_context* context, ibv_pd* pd) : kernel_(kEntries, kStride) {
    pair_.qp.context = context;
    pair_.qp.pd = pd;
    EXPECT_TRUE(pair_.send.ring.attach(kernel_.base(), kernel_.size(), kEntries, kStride, kStride));
    pair_.send.limits = {.caps = KIWARP_CAP_MW};
    pair_.send.doorbell = Doorbell(&pair_.qp, Doorbell::Kind::kSend);
    kernel_.setState(KIWARP_QPS_RTS);
  }

  int bind(Window* window) {
    ibv_mw_bind bind = {};
    return bindMw(&pair_.qp, &window->mw, &bind);
  }

  // That of the oldest binding which was not taken yet.
  uint32_t takeKey() {
    const auto* sqe = kernel_.take<kiwarp_sqe>();
    return sqe == nullptr ? 0 : sqe->rkey;
  }

 private:
  FakeWorkRing kernel_;
  QueuePair pair_;
};

class WindowTest : public testing::Test {
 protected:
  WindowTest() : first_(&context_, &pd_), second_(&context_, &pd_) {
    pd_.context = &context_;
    window_.mw.context = &context_;
    window_.mw.pd = &pd_;
    window_.mw.rkey = kKey;
    window_.last_key = kKey;
  }

  ibv_context context_{};
  ibv_pd pd_{};
  Window window_;
  Connected first_;
  Connected second_;
};

TEST_F(WindowTest, EachBindingHasAnotherKey) {
  const WritesTo device([](int, const void*, size_t size) { return static_cast<ssize_t>(size); });
  for (const uint32_t key : {0x123400ffU, 0x12340000U, 0x12340001U}) {
    EXPECT_EQ(first_.bind(&window_), 0);
    EXPECT_EQ(window_.mw.rkey, key);
    EXPECT_EQ(first_.takeKey(), key);
  }
}

// The second binding comes while the first one is being posted.
TEST_F(WindowTest, TwoBindingsAtATimeHaveDifferentKeys) {
  bool within = false;
  const WritesTo device([&](int, const void*, size_t size) {
    if (!within) {
      within = true;
      EXPECT_EQ(second_.bind(&window_), 0);
    }
    return static_cast<ssize_t>(size);
  });
  EXPECT_EQ(first_.bind(&window_), 0);
  EXPECT_EQ(first_.takeKey(), 0x123400ffU);
  EXPECT_EQ(second_.takeKey(), 0x12340000U);
}

TEST_F(WindowTest, ABindingThatIsRefusedUsesNoKey) {
  const WritesTo device([](int, const void*, size_t size) { return static_cast<ssize_t>(size); });
  for (uint32_t i = 0; i < kEntries; ++i) EXPECT_EQ(first_.bind(&window_), 0);
  EXPECT_EQ(window_.mw.rkey, 0x12340002U);
  for (int i = 0; i < 255; ++i) EXPECT_EQ(first_.bind(&window_), ENOMEM);
  EXPECT_EQ(window_.mw.rkey, 0x12340002U);
  EXPECT_EQ(second_.bind(&window_), 0);
  EXPECT_EQ(window_.mw.rkey, 0x12340003U);
}

}  // namespace
}  // namespace kiwarp::test
