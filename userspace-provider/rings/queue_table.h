// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>

#include "rings/work_ring.h"

namespace kiwarp {

// The rings of a queue pair that report to one completion ring; either may be absent.
struct QueueRings {
  WorkRing* send = nullptr;
  WorkRing* receive = nullptr;

  bool operator==(const QueueRings&) const = default;
};

// Maps queue pair numbers to rings: open addressing, so that a look-up stays short however many
// queue pairs share a completion queue. No locks: the completion ring has one.
class QueueTable {
 public:
  // No queue pair has this number; it marks free slots.
  static constexpr uint32_t kNoQueue = UINT32_MAX;

  // Replaces an entry of the same number. False without memory; the table is as before then.
  [[nodiscard]] bool insert(uint32_t number, QueueRings rings);

  // Null if absent. Good until the next insert() or erase().
  [[nodiscard]] const QueueRings* find(uint32_t number) const;

  void erase(uint32_t number);

 private:
  struct Slot {
    uint32_t number = kNoQueue;
    QueueRings rings;
  };

  [[nodiscard]] uint32_t home(uint32_t number) const;
  [[nodiscard]] uint32_t locate(uint32_t number) const;
  bool grow();

  std::unique_ptr<Slot[]> slots_;
  uint32_t size_ = 0;  // 0 or a power of two
  uint32_t used_ = 0;  // at most half of size_: a search ends at a free slot
};

}  // namespace kiwarp
