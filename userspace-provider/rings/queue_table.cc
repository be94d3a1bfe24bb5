// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings/queue_table.h"

#include <bit>
#include <new>
#include <utility>

namespace kiwarp {

// Multiplication by 2^32 / golden ratio: spreads both consecutive and random numbers.
uint32_t QueueTable::home(uint32_t number) const {
  return (number * 2654435769U) >> (32 - std::countr_zero(size_));
}

// The slot that holds number, or the free one where it would go.
uint32_t QueueTable::locate(uint32_t number) const {
  uint32_t i = home(number);
  while (slots_[i].number != number && slots_[i].number != kNoQueue) i = (i + 1) & (size_ - 1);
  return i;
}

bool QueueTable::insert(uint32_t number, QueueRings rings) {
  if (number == kNoQueue) return false;
  if (used_ * 2 >= size_ && !grow()) return false;
  Slot& slot = slots_[locate(number)];
  if (slot.number == kNoQueue) ++used_;
  slot = {number, rings};
  return true;
}

const QueueRings* QueueTable::find(uint32_t number) const {
  if (used_ == 0 || number == kNoQueue) return nullptr;
  const Slot& slot = slots_[locate(number)];
  return slot.number == number ? &slot.rings : nullptr;
}

// Moves later entries of the same run up, so that every search still finds them.
void QueueTable::erase(uint32_t number) {
  if (find(number) == nullptr) return;
  uint32_t mask = size_ - 1;
  uint32_t hole = locate(number);
  for (uint32_t i = (hole + 1) & mask; slots_[i].number != kNoQueue; i = (i + 1) & mask) {
    uint32_t distance = (i - home(slots_[i].number)) & mask;
    if (distance >= ((i - hole) & mask)) {
      slots_[hole] = slots_[i];
      hole = i;
    }
  }
  slots_[hole] = {};
  --used_;
}

bool QueueTable::grow() {
  constexpr uint32_t kFirstSize = 8;
  uint32_t old_size = size_;
  uint32_t new_size = old_size == 0 ? kFirstSize : old_size * 2;
  std::unique_ptr<Slot[]> old = std::move(slots_);
  slots_.reset(new (std::nothrow) Slot[new_size]);
  if (!slots_) {
    slots_ = std::move(old);
    return false;
  }
  size_ = new_size;
  for (uint32_t i = 0; i < old_size; ++i) {
    if (old[i].number != kNoQueue) slots_[locate(old[i].number)] = old[i];
  }
  return true;
}

}  // namespace kiwarp
