// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The module's side of the rings, as kiwarp-abi.h describes it, in plain memory.
#pragma once

#include <rdma/kiwarp-abi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace kiwarp::test {

// Zeroed memory with the alignment of a page, as a mapping has.
class RingMemory {
 public:
  explicit RingMemory(size_t size)
      : size_(size), base_(static_cast<std::byte*>(operator new(size, kAlignment))) {
    std::memset(base_.get(), 0, size);
  }

  [[nodiscard]] void* base() const { return base_.get(); }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::byte* entry(size_t index, size_t stride) const {
    return base_.get() + KIWARP_RING_ENTRIES_OFF + index * stride;
  }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::byte* base) const { operator delete(base, kAlignment); }
  };

  size_t size_;
  std::unique_ptr<std::byte, Free> base_;
};

// A send or receive ring.
class FakeWorkRing {
 public:
  FakeWorkRing(uint32_t entries, uint32_t stride, uint32_t first_index = 0)
      : memory_(KIWARP_RING_ENTRIES_OFF + size_t{entries} * stride),
        entries_(entries),
        stride_(stride) {
    control()->producer = first_index;
    control()->consumer = first_index;
  }

  [[nodiscard]] void* base() const { return memory_.base(); }
  [[nodiscard]] size_t size() const { return memory_.size(); }
  [[nodiscard]] uint32_t entries() const { return entries_; }
  [[nodiscard]] uint32_t stride() const { return stride_; }
  [[nodiscard]] uint32_t consumer() const { return control()->consumer; }
  [[nodiscard]] uint32_t producer() const {
    return std::atomic_ref(control()->producer).load(std::memory_order_acquire);
  }

  void setState(kiwarp_qp_state state) {
    std::atomic_ref(control()->state).store(state, std::memory_order_relaxed);
  }

  // As a flush begins: the state, a full fence, and what is posted then.
  [[nodiscard]] uint32_t fail() {
    setState(KIWARP_QPS_ERROR);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return posted();
  }

  [[nodiscard]] uint32_t posted() const { return producer() - consumer(); }

  // As the module does when a shared receive queue is resized. Begins at the other's consumer.
  void copyPosted(const FakeWorkRing& other) {
    for (uint32_t i = consumer(); i != other.producer(); ++i) {
      std::memcpy(memory_.entry(i & (entries_ - 1), stride_),
                  other.memory_.entry(i & (other.entries_ - 1), stride_), stride_);
    }
    control()->producer = other.producer();
  }

  // Takes the oldest posted entry off the ring; the pointer is good until user space posts again.
  template <typename Entry>
  const Entry* take() {
    if (posted() == 0) return nullptr;
    uint32_t index = control()->consumer;
    std::atomic_ref(control()->consumer).store(index + 1, std::memory_order_release);
    return reinterpret_cast<const Entry*>(memory_.entry(index & (entries_ - 1), stride_));
  }

 private:
  [[nodiscard]] kiwarp_ring_ctrl* control() const {
    return static_cast<kiwarp_ring_ctrl*>(memory_.base());
  }

  RingMemory memory_;
  uint32_t entries_;
  uint32_t stride_;
};

class FakeCq {
 public:
  explicit FakeCq(uint32_t entries, uint32_t first_index = 0)
      : memory_(KIWARP_RING_ENTRIES_OFF + size_t{entries} * sizeof(kiwarp_cqe)),
        entries_(entries),
        producer_(first_index) {
    control()->producer = first_index;
    control()->consumer = first_index;
  }

  [[nodiscard]] void* base() const { return memory_.base(); }
  [[nodiscard]] size_t size() const { return memory_.size(); }
  [[nodiscard]] uint32_t entries() const { return entries_; }
  [[nodiscard]] uint32_t armed() const { return std::atomic_ref(control()->armed).load(); }
  [[nodiscard]] uint32_t events() const { return events_.load(); }

  [[nodiscard]] uint32_t waiting() const {
    return producer_ - std::atomic_ref(control()->consumer).load(std::memory_order_acquire);
  }

  // False if the queue is full; the real kernel calls that an overrun.
  bool post(const kiwarp_cqe& cqe) {
    if (waiting() == entries_) return false;
    std::memcpy(memory_.entry(producer_ & (entries_ - 1), sizeof(cqe)), &cqe, sizeof(cqe));
    std::atomic_ref(control()->producer).store(++producer_, std::memory_order_release);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    uint32_t fitting = KIWARP_CQ_ARM_ANY;
    if ((cqe.flags & KIWARP_CQE_SOLICITED) != 0 || cqe.status != KIWARP_CQE_SUCCESS) {
      fitting |= KIWARP_CQ_ARM_SOLICITED;
    }
    std::atomic_ref armed(control()->armed);
    if ((armed.load(std::memory_order_relaxed) & fitting) != 0) {
      armed.exchange(0);
      events_.fetch_add(1);
    }
    return true;
  }

 private:
  [[nodiscard]] kiwarp_cq_ctrl* control() const {
    return static_cast<kiwarp_cq_ctrl*>(memory_.base());
  }

  RingMemory memory_;
  uint32_t entries_;
  uint32_t producer_;
  std::atomic<uint32_t> events_{0};
};

inline kiwarp_cqe cqeOf(uint32_t qp_id, uint8_t opcode, uint64_t wr_id, uint32_t wqe_index) {
  kiwarp_cqe cqe = {};
  cqe.qp_id = qp_id;
  cqe.opcode = opcode;
  cqe.wr_id = wr_id;
  cqe.wqe_index = wqe_index;
  return cqe;
}

}  // namespace kiwarp::test
