// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <rdma/kiwarp-abi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kiwarp {

// The user's side of a send or receive ring: fills entries, and knows which are free.
//
// One poster at a time (the owner of the ring's lock) calls everything but release(), which belongs
// to the one completion ring that the queue reports to. They share only tail_.
//
// A slot is free again when a completion that covers its entry has been polled, not when the
// kernel took the entry. Until then the work request is outstanding, as the verbs count it. Only
// the ring of a shared receive queue, which no completion says anything of, has a slot back when
// the kernel took its entry.
class WorkRing {
 public:
  // base: size mapped bytes with the control structure at its start. What is on the ring already
  // (a shared receive queue's that was resized) counts as posted. False if the ring that
  // the kernel describes doesn't fit it, or can't hold entries of at least min_stride bytes.
  [[nodiscard]] bool attach(void* base, size_t size, uint32_t entries, uint32_t stride,
                            size_t min_stride);

  // Back to a ring without entries, before its memory goes.
  void detach() { entries_ = 0; }

  [[nodiscard]] uint32_t capacity() const { return entries_; }
  [[nodiscard]] uint32_t stride() const { return stride_; }

  [[nodiscard]] kiwarp_qp_state state() const {
    return static_cast<kiwarp_qp_state>(
        std::atomic_ref(control_->state).load(std::memory_order_relaxed));
  }

  // The next entry to fill, or null while all are outstanding. The kernel doesn't see it before
  // push() and publish().
  [[nodiscard]] std::byte* next() const {
    if (head_ - tail_.load(std::memory_order_acquire) >= entries_) return nullptr;
    return slots_ + static_cast<size_t>(head_ & (entries_ - 1)) * stride_;
  }
  void push() { ++head_; }
  [[nodiscard]] uint32_t unpublished() const { return head_ - published_; }

  // Shows the kernel what was pushed.
  void publish() {
    std::atomic_ref(control_->producer).store(head_, std::memory_order_release);
    published_ = head_;
  }

  // After publish(): the state, read so late that either the kernel finds the entries when it
  // flushes the ring, or this returns the state in which it flushes.
  [[nodiscard]] kiwarp_qp_state stateAfterPublish() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return state();
  }

  // Forgets what was pushed since.
  void drop() { head_ = published_; }

  // Undoes the publication of the last count entries. False if the kernel has taken any of them:
  // then it takes the others, too. Only while it does not read the ring: it reads entries before it
  // says that it takes them.
  [[nodiscard]] bool takeBack(uint32_t count);

  // A completion says that all entries before index are free.
  void release(uint32_t index) {
    uint32_t tail = tail_.load(std::memory_order_relaxed);
    if (static_cast<int32_t>(index - tail) > 0) tail_.store(index, std::memory_order_release);
  }

  // For a shared receive queue, by its poster: all entries that the kernel took are free.
  void releaseTaken() {
    tail_.store(std::atomic_ref(control_->consumer).load(std::memory_order_acquire),
                std::memory_order_relaxed);
  }

  // Empties the ring. Only while the kernel doesn't take entries (the queue pair was just created
  // or is in RESET) and no completion of the queue pair waits to be polled.
  void reset();

 private:
  kiwarp_ring_ctrl* control_ = nullptr;
  std::byte* slots_ = nullptr;
  uint32_t entries_ = 0;
  uint32_t stride_ = 0;
  uint32_t head_ = 0;
  uint32_t published_ = 0;
  std::atomic<uint32_t> tail_{0};
};

}  // namespace kiwarp
