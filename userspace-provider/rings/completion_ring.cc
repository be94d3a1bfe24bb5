// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/completion_ring.h"

#include <bit>

namespace kiwarp {

uint64_t CompletionRing::bytesFor(uint32_t entries) const {
  const size_t entry = sizeof(kiwarp_cqe) + (has_stamps_ ? sizeof(kiwarp_cq_stamp) : 0);
  return KIWARP_RING_ENTRIES_OFF + uint64_t{entries} * entry;
}

bool CompletionRing::attach(void* base, size_t size, uint32_t entries) {
  if (base == nullptr || !std::has_single_bit(entries)) return false;
  if (size < bytesFor(entries)) return false;
  control_ = static_cast<kiwarp_cq_ctrl*>(base);
  slots_ = reinterpret_cast<kiwarp_cqe*>(static_cast<std::byte*>(base) + KIWARP_RING_ENTRIES_OFF);
  stamps_ = reinterpret_cast<const kiwarp_cq_stamp*>(slots_ + entries);
  entries_ = entries;
  consumer_ = std::atomic_ref(control_->consumer).load(std::memory_order_relaxed);
  return true;
}

bool CompletionRing::continueIn(const RingPlace& place) {
  const uint32_t reached = consumer_;
  if (!attach(place.base, place.size, place.entries)) return false;
  consumer_ = reached;
  std::atomic_ref(control_->consumer).store(reached, std::memory_order_release);
  return true;
}

bool CompletionRing::addQueue(uint32_t number, QueueRings rings) {
  std::lock_guard guard(lock_);
  discardLocked(number);
  forgetLast();
  return queues_.insert(number, rings);
}

void CompletionRing::removeQueue(uint32_t number, QueueRings rings) {
  std::lock_guard guard(lock_);
  const QueueRings* found = queues_.find(number);
  if (found == nullptr || *found != rings) return;
  queues_.erase(number);
  forgetLast();
}

// The kernel never reads entries back, so a dropped one can be renamed in place.
void CompletionRing::discardLocked(uint32_t number) {
  uint32_t producer = std::atomic_ref(control_->producer).load(std::memory_order_acquire);
  for (uint32_t i = consumer_; i != producer; ++i) {
    if (slot(i)->qp_id == number) slot(i)->qp_id = QueueTable::kNoQueue;
  }
}

}  // namespace kiwarp
