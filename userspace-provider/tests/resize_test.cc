// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Completion queues that the kernel has resized, but whose new ring cannot be mapped at once.
#include <gtest/gtest.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/kiwarp-abi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cq.h"
#include "fake_calls.h"
#include "fake_device.h"
#include "fake_kernel.h"
#include "qp.h"

namespace kiwarp::test {
namespace {

constexpr uint32_t kRings = 3;
constexpr uint32_t kEntries = 64;
constexpr uint32_t kStride = 128;
// A page: more than a ring needs, and each begins where one does.
const size_t kRingBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// The kernel's completion queue, whose rings are in the device's file. It begins with the first,
// and each resizing takes the next.
class Device {
 public:
  Device() : fd_(memfd_create("rings", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_, kRings * kRingBytes), 0);
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, kRings * kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Device() { munmap(memory_, kRings * kRingBytes); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] int fd() const { return fd_; }  // which the context closes
  [[nodiscard]] uint32_t commands() const { return commands_; }
  [[nodiscard]] uint32_t armed() const { return control(ring_)->armed; }
  [[nodiscard]] uint32_t consumer() const { return control(ring_)->consumer; }

  [[nodiscard]] kiwarp_create_cq_resp description() const {
    return {
        .cq_id = 1, .entries = kEntries, .ring_key = ring_ * kRingBytes, .ring_size = kRingBytes};
  }

  void post(uint32_t qp_id, uint64_t wr_id) {
    *slot(ring_, producer_) = cqeOf(qp_id, KIWARP_OP_SEND, wr_id, 0);
    std::atomic_ref(control(ring_)->producer).store(++producer_, std::memory_order_release);
  }

  ssize_t command(const void* data, size_t size) {
    ++commands_;
    ib_uverbs_cmd_hdr header = {};
    std::memcpy(&header, data, sizeof(header));
    EXPECT_EQ(header.command, unsigned{IB_USER_VERBS_CMD_RESIZE_CQ});
    uint64_t response = 0;
    std::memcpy(&response, static_cast<const std::byte*>(data) + sizeof(header), sizeof(response));
    changeRing();
    const ib_uverbs_resize_cq_resp core = {.cqe = kEntries, .reserved = 0};
    const kiwarp_create_cq_resp driver = description();
    auto* answer = reinterpret_cast<std::byte*>(response);
    std::memcpy(answer, &core, sizeof(core));
    std::memcpy(answer + sizeof(core), &driver, sizeof(driver));
    return static_cast<ssize_t>(size);
  }

 private:
  [[nodiscard]] kiwarp_cq_ctrl* control(uint32_t ring) const {
    return reinterpret_cast<kiwarp_cq_ctrl*>(memory_ + ring * kRingBytes);
  }
  [[nodiscard]] kiwarp_cqe* slot(uint32_t ring, uint32_t index) const {
    return reinterpret_cast<kiwarp_cqe*>(memory_ + ring * kRingBytes + KIWARP_RING_ENTRIES_OFF) +
           index % kEntries;
  }

  // As kw_cq_change_ring().
  void changeRing() {
    const uint32_t to = ring_ + 1;
    ASSERT_LT(to, kRings);
    for (uint32_t i = consumer(); i != producer_; ++i) *slot(to, i) = *slot(ring_, i);
    control(to)->producer = producer_;
    control(to)->consumer = consumer();
    control(to)->armed = std::atomic_ref(control(ring_)->armed).exchange(0);
    ring_ = to;
  }

  int fd_;
  std::byte* memory_ = nullptr;
  uint32_t ring_ = 0;
  uint32_t producer_ = 0;
  uint32_t commands_ = 0;
};

using Ids = std::vector<uint64_t>;

class ResizeTest : public testing::Test {
 public:
  ResizeTest(const ResizeTest&) = delete;
  ResizeTest& operator=(const ResizeTest&) = delete;

 protected:
  ResizeTest()
      : kernel_send_(kEntries, kStride), writes_([this](int, const void* data, size_t size) {
          // From now on the file can be mapped no more, until the test says so.
          context_->context.cmd_fd = maps_ ? device_.fd() : -1;
          return device_.command(data, size);
        }) {
    ops_.name = "resize";
    verbs_device_.ops = &ops_;
    verbs_device_.sysfs = &sysfs_;
    verbs_device_.references = 1;
    context_ = newContext(&verbs_device_.device, device_.fd());
    if (context_ == nullptr) std::abort();
    cq_.cq.context = &context_->context;
    EXPECT_EQ(cq_.map(device_.description()), 0);
    EXPECT_TRUE(send_.attach(kernel_send_.base(), kernel_send_.size(), kEntries, kStride, kStride));
    for (const uint32_t id : {1U, 2U}) EXPECT_TRUE(cq_.ring.addQueue(id, {&send_, nullptr}));
  }

  ~ResizeTest() override {
    letMap();
    verbs_uninit_context(context_);
    std::free(context_);
  }

  int resize() { return resizeCq(&cq_.cq, kEntries); }
  int resizeInVain() {
    maps_ = false;
    return resize();
  }
  void letMap() {
    maps_ = true;
    context_->context.cmd_fd = device_.fd();
  }

  Ids poll(int limit = 10) {
    std::array<ibv_wc, 10> wc{};
    const int count = pollCq(&cq_.cq, limit, wc.data());
    Ids ids;
    for (int i = 0; i < count; ++i) ids.push_back(wc[i].wr_id);
    return ids;
  }

  Device device_;
  pabi::DeviceOps ops_{};
  pabi::SysfsDevice sysfs_{};
  pabi::Device verbs_device_{};
  verbs_context* context_ = nullptr;
  bool maps_ = true;
  FakeWorkRing kernel_send_;
  WorkRing send_;
  CompletionQueue cq_;
  WritesTo writes_;
};

TEST_F(ResizeTest, GoesOnInTheNewRing) {
  device_.post(1, 10);
  ASSERT_EQ(resize(), 0);
  device_.post(1, 11);
  EXPECT_EQ(poll(), (Ids{10, 11}));
  EXPECT_EQ(device_.consumer(), 2U);
}

TEST_F(ResizeTest, ThatCouldNotMapIsMadeUpForByAPoll) {
  for (const uint64_t id : {10, 11, 12}) device_.post(1, id);
  EXPECT_EQ(resizeInVain(), EBADF);
  device_.post(1, 13);
  EXPECT_EQ(poll(1), (Ids{10}));
  EXPECT_EQ(poll(1), (Ids{11}));
  EXPECT_EQ(reqNotifyCq(&cq_.cq, 0), ENOMEM);
  EXPECT_EQ(device_.armed(), 0U);
  letMap();
  EXPECT_EQ(poll(), (Ids{12, 13}));
  EXPECT_EQ(device_.consumer(), 4U);
  EXPECT_EQ(device_.armed(), unsigned{KIWARP_CQ_ARM_ANY});
  device_.post(1, 14);
  EXPECT_EQ(poll(), (Ids{14}));
  EXPECT_EQ(device_.commands(), 1U);
}

// Discarding moves what waits of other queue pairs.
TEST_F(ResizeTest, KeepsInOrderWhatWaitedWhenSomeWasDiscarded) {
  device_.post(1, 10);
  device_.post(2, 20);
  device_.post(1, 11);
  device_.post(2, 21);
  EXPECT_EQ(resizeInVain(), EBADF);
  cq_.ring.removeQueue(2, {&send_, nullptr});
  device_.post(2, 22);
  device_.post(1, 12);
  letMap();
  EXPECT_EQ(poll(), (Ids{10, 11, 12}));
}

TEST_F(ResizeTest, MapsFirstWhenResizedAgain) {
  device_.post(1, 10);
  EXPECT_EQ(resizeInVain(), EBADF);
  EXPECT_EQ(resizeInVain(), EBADF);
  EXPECT_EQ(device_.commands(), 1U);
  device_.post(1, 11);
  letMap();
  EXPECT_EQ(resize(), 0);
  EXPECT_EQ(device_.commands(), 2U);
  device_.post(1, 12);
  EXPECT_EQ(poll(), (Ids{10, 11, 12}));
}

// What is to be discarded may be in the ring that is not mapped.
TEST_F(ResizeTest, LetsNoQueuePairBeResetBefore) {
  EXPECT_EQ(resizeInVain(), EBADF);
  QueuePair pair;
  pair.qp.context = &context_->context;
  pair.qp.send_cq = &cq_.cq;
  pair.qp.recv_cq = &cq_.cq;
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RESET;
  EXPECT_EQ(modifyQp(&pair.qp, &attr, IBV_QP_STATE), EBADF);
  EXPECT_EQ(device_.commands(), 1U);
}

}  // namespace
}  // namespace kiwarp::test
