// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "queues.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "fake_kernel.h"

namespace kiwarp::test {
namespace {

constexpr uint32_t kEntries = 4;
constexpr uint32_t kStride = 128;
constexpr uint32_t kHandle = 0x1234;

// A doorbell command as it arrives at the device.
struct Command {
  ib_uverbs_cmd_hdr header;
  uint64_t response;
  uint32_t qp_handle;
  uint32_t wr_count;
  uint32_t sge_count;
  uint32_t wqe_size;
};

// The device's file is a pipe: what is written to it can be read back, and a read-only end makes
// every doorbell fail.
class QueuesTest : public testing::Test {
 public:
  QueuesTest(const QueuesTest&) = delete;
  QueuesTest& operator=(const QueuesTest&) = delete;
  QueuesTest(QueuesTest&&) = delete;
  QueuesTest& operator=(QueuesTest&&) = delete;

 protected:
  QueuesTest() : kernel_send_(kEntries, kStride, 0xfffffffe), kernel_receive_(kEntries, kStride) {
    EXPECT_EQ(pipe2(pipe_.data(), O_NONBLOCK | O_CLOEXEC), 0);
    context_.cmd_fd = pipe_[1];
    qp_.context = &context_;
    qp_.handle = kHandle;
    EXPECT_TRUE(
        send_.ring.attach(kernel_send_.base(), kernel_send_.size(), kEntries, kStride, kStride));
    EXPECT_TRUE(receive_.ring.attach(kernel_receive_.base(), kernel_receive_.size(), kEntries,
                                     kStride, kStride));
    send_.limits = {.max_send_sge = 2, .max_receive_sge = 0, .max_inline = 32};
    receive_.limits = {.max_send_sge = 0, .max_receive_sge = 2};
    send_.doorbell = Doorbell(&qp_, Doorbell::Kind::kSend);
    receive_.doorbell = Doorbell(&qp_, Doorbell::Kind::kReceive);
    setState(KIWARP_QPS_RTS);
  }

  ~QueuesTest() override {
    close(pipe_[0]);
    close(pipe_[1]);
  }

  void setState(kiwarp_qp_state state) {
    kernel_send_.setState(state);
    kernel_receive_.setState(state);
  }

  void breakDoorbell() { context_.cmd_fd = pipe_[0]; }

  std::vector<Command> doorbells() {
    std::vector<Command> all;
    Command command = {};
    while (read(pipe_[0], &command, sizeof(command)) == sizeof(command)) all.push_back(command);
    return all;
  }

  // A list of work requests with wr_id 0, 1, ...
  template <typename Wr>
  static std::vector<Wr> listOf(size_t count) {
    std::vector<Wr> list(count);
    for (size_t i = 0; i < count; ++i) {
      list[i].wr_id = i;
      if (i + 1 < count) list[i].next = &list[i + 1];
    }
    return list;
  }

  std::array<int, 2> pipe_{};
  ibv_context context_{};
  ibv_qp qp_{};
  FakeWorkRing kernel_send_;
  FakeWorkRing kernel_receive_;
  SendQueue send_;
  ReceiveQueue receive_;
};

TEST_F(QueuesTest, SendsAListWithOneDoorbell) {
  auto list = listOf<ibv_send_wr>(3);
  list[2].opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(send_.post(list.data(), &bad), 0);
  EXPECT_EQ(kernel_send_.posted(), 3U);
  for (uint64_t id = 0; id < 3; ++id) EXPECT_EQ(kernel_send_.take<kiwarp_sqe>()->wr_id, id);

  auto commands = doorbells();
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].header.command, static_cast<uint32_t>(IB_USER_VERBS_CMD_POST_SEND));
  EXPECT_EQ(commands[0].header.in_words * 4U, sizeof(Command));
  EXPECT_EQ(commands[0].header.out_words * 4U, sizeof(ib_uverbs_post_send_resp));
  EXPECT_NE(commands[0].response, 0U);
  EXPECT_EQ(commands[0].qp_handle, kHandle);
  EXPECT_EQ(commands[0].wr_count, 0U);
  EXPECT_EQ(commands[0].sge_count, 0U);
  EXPECT_GE(commands[0].wqe_size, sizeof(ib_uverbs_send_wr));
}

TEST_F(QueuesTest, SendsInTheStatesThatAllowIt) {
  for (auto [state, expected] :
       {std::pair{KIWARP_QPS_RESET, EINVAL}, std::pair{KIWARP_QPS_INIT, EINVAL},
        std::pair{KIWARP_QPS_RTS, 0}, std::pair{KIWARP_QPS_CLOSING, 0},
        std::pair{KIWARP_QPS_ERROR, 0}}) {
    setState(state);
    auto list = listOf<ibv_send_wr>(1);
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(send_.post(list.data(), &bad), expected) << state;
    EXPECT_EQ(bad, expected == 0 ? nullptr : list.data());
    EXPECT_EQ(doorbells().size(), expected == 0 ? 1U : 0U);
  }
  EXPECT_EQ(kernel_send_.posted(), 3U);
}

TEST_F(QueuesTest, SendsWhatComesBeforeABadRequest) {
  auto list = listOf<ibv_send_wr>(4);
  list[2].num_sge = 3;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(send_.post(list.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &list[2]);
  EXPECT_EQ(kernel_send_.posted(), 2U);
  EXPECT_EQ(doorbells().size(), 1U);
}

// A thread that is cancelled while it posts has given the lock back when it ends.
TEST_F(QueuesTest, IsNoCancellationPoint) {
  pthread_t thread = 0;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void* queue) -> void* {
                  auto list = listOf<ibv_send_wr>(1);
                  ibv_send_wr* bad = nullptr;
                  pthread_cancel(pthread_self());
                  const bool sent = static_cast<SendQueue*>(queue)->post(list.data(), &bad) == 0;
                  return sent ? queue : nullptr;
                },
                &send_),
            0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, &send_);
  EXPECT_EQ(doorbells().size(), 1U);
}

TEST_F(QueuesTest, RingsNoDoorbellForNothing) {
  auto list = listOf<ibv_send_wr>(1);
  list[0].num_sge = 3;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(send_.post(list.data(), &bad), EINVAL);
  EXPECT_EQ(bad, list.data());
  EXPECT_EQ(doorbells().size(), 0U);
}

TEST_F(QueuesTest, SendsUpToAFullRing) {
  auto list = listOf<ibv_send_wr>(6);
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(send_.post(list.data(), &bad), ENOMEM);
  EXPECT_EQ(bad, &list[4]);
  EXPECT_EQ(kernel_send_.posted(), 4U);
  EXPECT_EQ(doorbells().size(), 1U);
  EXPECT_EQ(send_.post(&list[4], &bad), ENOMEM);
  EXPECT_EQ(bad, &list[4]);
  EXPECT_EQ(doorbells().size(), 0U);
}

TEST_F(QueuesTest, BuildsABatchWithOneDoorbell) {
  send_.start();
  for (uint64_t id = 0; id < 3; ++id) {
    kiwarp_sqe* sqe = send_.add(KIWARP_OP_WRITE, id, IBV_SEND_SIGNALED);
    ASSERT_NE(sqe, nullptr);
    EXPECT_EQ(sqe, send_.current());
  }
  EXPECT_EQ(kernel_send_.posted(), 0U);
  EXPECT_EQ(send_.complete(), 0);
  EXPECT_EQ(kernel_send_.posted(), 3U);
  for (uint64_t id = 0; id < 3; ++id) EXPECT_EQ(kernel_send_.take<kiwarp_sqe>()->wr_id, id);
  EXPECT_EQ(doorbells().size(), 1U);
}

TEST_F(QueuesTest, LeavesNothingOfAnAbortedBatch) {
  for (int round = 0; round < 3; ++round) {
    send_.start();
    for (uint32_t i = 0; i < kEntries; ++i) ASSERT_NE(send_.add(KIWARP_OP_SEND, 1, 0), nullptr);
    send_.abort();
  }
  EXPECT_EQ(kernel_send_.posted(), 0U);
  EXPECT_EQ(doorbells().size(), 0U);
  auto list = listOf<ibv_send_wr>(kEntries);
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(send_.post(list.data(), &bad), 0);
  EXPECT_EQ(kernel_send_.posted(), kEntries);
}

TEST_F(QueuesTest, RefusesABatchAsAWholeForItsFirstError) {
  send_.start();
  ASSERT_NE(send_.add(KIWARP_OP_SEND, 1, 0), nullptr);
  send_.failed(EINVAL);
  EXPECT_EQ(send_.current(), nullptr);
  EXPECT_EQ(send_.add(KIWARP_OP_SEND, 2, 0), nullptr);
  send_.failed(ENOMEM);
  EXPECT_EQ(send_.complete(), EINVAL);
  send_.start();
  for (uint32_t i = 0; i < kEntries; ++i) ASSERT_NE(send_.add(KIWARP_OP_SEND, 1, 0), nullptr);
  EXPECT_EQ(send_.add(KIWARP_OP_SEND, 1, 0), nullptr);
  EXPECT_EQ(send_.complete(), ENOMEM);
  EXPECT_EQ(kernel_send_.posted(), 0U);
  EXPECT_EQ(doorbells().size(), 0U);
}

TEST_F(QueuesTest, RefusesABatchInTheStatesThatDoNotAllowIt) {
  for (auto state : {KIWARP_QPS_RESET, KIWARP_QPS_INIT}) {
    setState(state);
    send_.start();
    EXPECT_EQ(send_.add(KIWARP_OP_SEND, 1, 0), nullptr);
    EXPECT_EQ(send_.complete(), EINVAL);
  }
  setState(KIWARP_QPS_ERROR);
  send_.start();
  EXPECT_NE(send_.add(KIWARP_OP_SEND, 1, 0), nullptr);
  EXPECT_EQ(send_.complete(), 0);
}

TEST_F(QueuesTest, ReceivesWithoutASystemCall) {
  breakDoorbell();
  for (auto state : {KIWARP_QPS_INIT, KIWARP_QPS_RTS, KIWARP_QPS_CLOSING}) {
    setState(state);
    auto list = listOf<ibv_recv_wr>(1);
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(receive_.post(list.data(), &bad), 0) << state;
  }
  EXPECT_EQ(kernel_receive_.posted(), 3U);
}

TEST_F(QueuesTest, HasReceivesFlushed) {
  setState(KIWARP_QPS_ERROR);
  auto list = listOf<ibv_recv_wr>(2);
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(receive_.post(list.data(), &bad), 0);
  auto commands = doorbells();
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].header.command, static_cast<uint32_t>(IB_USER_VERBS_CMD_POST_RECV));
  EXPECT_EQ(commands[0].qp_handle, kHandle);
  EXPECT_EQ(commands[0].wr_count, 0U);
  EXPECT_GE(commands[0].wqe_size, sizeof(ib_uverbs_recv_wr));
  EXPECT_EQ(kernel_receive_.posted(), 2U);
}

TEST_F(QueuesTest, ReceivesNothingInReset) {
  setState(KIWARP_QPS_RESET);
  auto list = listOf<ibv_recv_wr>(1);
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(receive_.post(list.data(), &bad), EINVAL);
  EXPECT_EQ(bad, list.data());
  EXPECT_EQ(kernel_receive_.posted(), 0U);
}

TEST_F(QueuesTest, ReceivesUpToAFullRingOrABadRequest) {
  auto list = listOf<ibv_recv_wr>(6);
  list[1].num_sge = 3;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(receive_.post(list.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &list[1]);
  EXPECT_EQ(kernel_receive_.posted(), 1U);
  EXPECT_EQ(receive_.post(&list[2], &bad), ENOMEM);
  EXPECT_EQ(bad, &list[5]);
  EXPECT_EQ(kernel_receive_.posted(), 4U);
}

// The ring of a shared receive queue, wherever its indices stand.
class SharedQueueAt : public testing::TestWithParam<uint32_t> {
 protected:
  SharedQueueAt() : kernel_(kEntries, kStride, GetParam()) {
    EXPECT_TRUE(queue_.ring.attach(kernel_.base(), kernel_.size(), kEntries, kStride, kStride));
    queue_.limits = {.max_receive_sge = 2};
  }

  // Posts requests with consecutive numbers. Returns how many were taken.
  size_t post(size_t count) {
    std::vector<ibv_recv_wr> list(count);
    for (size_t i = 0; i < count; ++i) {
      list[i].wr_id = next_ + i;
      if (i + 1 < count) list[i].next = &list[i + 1];
    }
    ibv_recv_wr* bad = nullptr;
    const int error = queue_.post(list.data(), &bad);
    const size_t posted = error == 0 ? count : static_cast<size_t>(bad - list.data());
    EXPECT_EQ(error, posted == count ? 0 : ENOMEM);
    next_ += posted;
    return posted;
  }

  void take(size_t count) {
    for (; count > 0; --count) {
      const auto* entry = kernel_.take<kiwarp_rqe>();
      ASSERT_NE(entry, nullptr);
      EXPECT_EQ(entry->wr_id, taken_++);
    }
  }

  FakeWorkRing kernel_;
  SharedQueue queue_;
  uint64_t next_ = 0;
  uint64_t taken_ = 0;
};

INSTANTIATE_TEST_SUITE_P(FirstIndex, SharedQueueAt, testing::Values(0U, 3U, 0xfffffffeU));

TEST_P(SharedQueueAt, FreesWhatTheKernelTook) {
  EXPECT_EQ(post(6), kEntries);
  EXPECT_EQ(post(1), 0U);
  for (int round = 0; round < 10; ++round) {
    take(3);
    EXPECT_EQ(post(2), 2U);
    EXPECT_EQ(post(2), 1U);
  }
  take(kEntries);
  EXPECT_EQ(kernel_.posted(), 0U);
}

TEST_P(SharedQueueAt, GoesOnInALargerRing) {
  EXPECT_EQ(post(3), 3U);
  take(1);
  FakeWorkRing larger(2 * kEntries, kStride, GetParam() + 1);
  larger.copyPosted(kernel_);
  queue_.ring.detach();
  ibv_recv_wr wr = {};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(queue_.post(&wr, &bad), ENOMEM);
  ASSERT_TRUE(queue_.ring.attach(larger.base(), larger.size(), 2 * kEntries, kStride, kStride));
  EXPECT_EQ(post(8), 6U);
  EXPECT_EQ(larger.posted(), 8U);
  for (uint64_t id = 1; id < 9; ++id) EXPECT_EQ(larger.take<kiwarp_rqe>()->wr_id, id);
}

TEST_P(SharedQueueAt, RefusesABadRequestOnly) {
  std::array<ibv_recv_wr, 2> list{};
  list[0].next = &list[1];
  list[1].num_sge = 3;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(queue_.post(list.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &list[1]);
  EXPECT_EQ(kernel_.posted(), 1U);
}

TEST(Queues, WithoutARingNothingCanBePosted) {
  SendQueue send;
  ReceiveQueue receive;
  ibv_send_wr send_wr = {};
  ibv_recv_wr receive_wr = {};
  ibv_send_wr* bad_send = nullptr;
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_EQ(send.post(&send_wr, &bad_send), ENOMEM);
  EXPECT_EQ(bad_send, &send_wr);
  EXPECT_EQ(receive.post(&receive_wr, &bad_receive), ENOMEM);
  EXPECT_EQ(bad_receive, &receive_wr);
  // A queue pair with a shared receive queue.
  receive.without_entries = EINVAL;
  EXPECT_EQ(receive.post(&receive_wr, &bad_receive), EINVAL);
}

}  // namespace
}  // namespace kiwarp::test
