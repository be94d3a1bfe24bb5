// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/work_ring.h"

#include <bit>

namespace kiwarp {

bool WorkRing::attach(void* base, size_t size, uint32_t entries, uint32_t stride,
                      size_t min_stride) {
  if (base == nullptr || !std::has_single_bit(entries) || stride < min_stride ||
      stride % alignof(kiwarp_sqe) != 0) {
    return false;
  }
  if (size < KIWARP_RING_ENTRIES_OFF + static_cast<uint64_t>(entries) * stride) return false;
  control_ = static_cast<kiwarp_ring_ctrl*>(base);
  slots_ = static_cast<std::byte*>(base) + KIWARP_RING_ENTRIES_OFF;
  entries_ = entries;
  stride_ = stride;
  head_ = std::atomic_ref(control_->producer).load(std::memory_order_relaxed);
  published_ = head_;
  tail_.store(std::atomic_ref(control_->consumer).load(std::memory_order_acquire),
              std::memory_order_relaxed);
  return true;
}

bool WorkRing::takeBack(uint32_t count) {
  const uint32_t first = head_ - count;
  const uint32_t taken =
      std::atomic_ref(control_->consumer).load(std::memory_order_acquire) - first;
  // A consumer index before the first entry wraps to a huge difference: nothing was taken.
  if (taken != 0 && taken <= count) return false;
  head_ = first;
  publish();
  return true;
}

void WorkRing::reset() {
  head_ = std::atomic_ref(control_->consumer).load(std::memory_order_acquire);
  tail_.store(head_, std::memory_order_relaxed);
  publish();
}

}  // namespace kiwarp
