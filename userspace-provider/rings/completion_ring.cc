// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/completion_ring.h"

#include <algorithm>
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
  stamps_ = reinterpret_cast<kiwarp_cq_stamp*>(slots_ + entries);
  entries_ = entries;
  consumer_ = std::atomic_ref(control_->consumer).load(std::memory_order_relaxed);
  return true;
}

// What waits is in both rings. But some may have been discarded since, which moves the others.
void CompletionRing::copyWaiting(const Waiting& from) {
  const uint32_t end = producer();
  for (uint32_t i = from.first; i != from.end; ++i) {
    // Of a queue that ignores overruns these may have been overwritten.
    if (end - i > entries_) continue;
    const uint32_t slot_there = i & (from.entries - 1);
    *slot(i) = from.slots[slot_there];
    if (has_stamps_) stamps_[i & (entries_ - 1)] = from.stamps[slot_there];
  }
}

bool CompletionRing::continueIn(const RingPlace& place) {
  const uint32_t end = producer();
  const Waiting waiting = {.slots = slots_,
                           .stamps = stamps_,
                           .entries = entries_,
                           .first = end - std::min(end - consumer_, entries_),
                           .end = end};
  const uint32_t reached = consumer_;
  kiwarp_cq_ctrl* old = control_;
  if (!attach(place.base, place.size, place.entries)) return false;
  copyWaiting(waiting);
  consumer_ = reached;
  publishConsumer();
  if (const uint32_t armed = std::atomic_ref(old->armed).load(); armed != 0) armLocked(armed);
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
  discardLocked(number);
}

// Compacts the ring: entries of other queue pairs move towards the producer index, in order. The
// kernel reads entries only to resize the queue, which lock_ excludes. If overruns are ignored, the
// oldest entries may have been overwritten, and producer - consumer exceeds the ring.
void CompletionRing::discardLocked(uint32_t number) {
  const uint32_t end = producer();
  const uint32_t first = end - std::min(end - consumer_, entries_);
  uint32_t to = end;
  for (uint32_t from = end; from != first;) {
    if (slot(--from)->qp_id == number) continue;
    if (--to == from) continue;
    *slot(to) = *slot(from);
    if (has_stamps_) stamps_[to & (entries_ - 1)] = stamps_[from & (entries_ - 1)];
  }
  if (to == first) return;
  consumer_ = to;
  publishConsumer();
}

}  // namespace kiwarp
