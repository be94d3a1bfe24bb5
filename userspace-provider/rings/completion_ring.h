// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <rdma/kiwarp-abi.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "rings/queue_table.h"
#include "rings/spin_lock.h"

namespace kiwarp {

// Where a completion ring is mapped.
struct RingPlace {
  void* base = nullptr;
  size_t size = 0;
  uint32_t entries = 0;
};

// The user's side of a completion ring, and the queues that report to it.
//
// A completion frees entries of the ring that it came from, so polling needs the queue pair. One
// lock covers polling and the table of queue pairs: a queue pair that was removed may be freed,
// because no poll is or will be using it.
class CompletionRing {
 public:
  // base: a mapping of size bytes with the control structure at its start. False if the ring that
  // the kernel describes doesn't fit it.
  [[nodiscard]] bool attach(void* base, size_t size, uint32_t entries);

  // Before attach(): the kernel says of each completion when it came, behind the entries.
  void haveStamps() { has_stamps_ = true; }

  // The application uses the ring, and all queue pairs that report to it, from one thread at a
  // time.
  void useWithoutLock() {
    lock_.disable();
    arm_lock_.disable();
  }

  // What a ring of so many entries takes.
  [[nodiscard]] uint64_t bytesFor(uint32_t entries) const;

  // Makes number's completions count. Call it before anything is posted to that queue pair:
  // completions that are here already under its number belong to a destroyed one, and are dropped.
  // False without memory.
  [[nodiscard]] bool addQueue(uint32_t number, QueueRings rings);

  // Ends it and discards its completions, unless the number belongs to a younger queue pair by now:
  // the kernel may reuse it as soon as it destroyed this one.
  void removeQueue(uint32_t number, QueueRings rings);

  // Drops the waiting completions of number.
  void discard(uint32_t number) {
    std::lock_guard guard(lock_);
    discardLocked(number);
  }

  // Takes up to limit completions, oldest first, calls deliver(index, completion) for each and
  // returns how many. Those of destroyed queue pairs are skipped.
  template <typename Deliver>
  uint32_t poll(uint32_t limit, Deliver deliver) {
    std::lock_guard guard(lock_);
    Batch batch = open();
    kiwarp_cqe completion;
    uint32_t delivered = 0;
    while (delivered < limit && take(&batch, &completion)) deliver(delivered++, completion);
    release(&batch);
    return delivered;
  }

  // The same, one completion at a time. If start() is true the lock is held until end(), and
  // current() and currentStamp() are of the completion that the last start() or next() found.
  bool start() {
    lock_.lock();
    if (next()) return true;
    end();
    return false;
  }
  bool next() {
    Batch batch = open();
    const bool found = take(&batch, &current_);
    release(&batch);
    return found;
  }
  void end() { lock_.unlock(); }
  [[nodiscard]] const kiwarp_cqe& current() const { return current_; }
  // Only with haveStamps().
  [[nodiscard]] const kiwarp_cq_stamp& currentStamp() const { return current_stamp_; }

  // How many completions can be polled.
  uint32_t waiting() {
    std::lock_guard guard(lock_);
    return producer() - consumer_;
  }

  // Has the kernel change the ring: change(place) does that, and fills in where the new one is. No
  // poll and no arming is under way meanwhile. Completions keep their index. The kernel may have
  // used the new ring for a while: what this side has done to the old one since goes with it, and
  // must still be mapped when change() returns. Returns what change()
  // does, 0 or a positive errno, or EPROTO if the ring doesn't fit its place.
  template <typename Change>
  int resize(Change change) {
    std::lock_guard guard(lock_);
    std::lock_guard arm_guard(arm_lock_);
    RingPlace place;
    if (int error = change(&place); error != 0) return error;
    return continueIn(place) ? 0 : EPROTO;
  }

  // Asks the kernel for an event at the next completion. The fence pairs with the kernel's: one of
  // the two sides sees what the other wrote. So a completion that comes while the ring is being
  // armed either raises the event or is found by the next poll.
  //
  // May be called between start() and end().
  void arm(bool solicited_only) {
    std::lock_guard guard(arm_lock_);
    armLocked(solicited_only ? KIWARP_CQ_ARM_SOLICITED : KIWARP_CQ_ARM_ANY);
  }

 private:
  // Completions that are being taken: the next, the end of what the kernel has published, and the
  // entries that the last ones free, all before free_index of one work ring.
  struct Batch {
    uint32_t next = 0;
    uint32_t producer = 0;
    WorkRing* freed = nullptr;
    uint32_t free_index = 0;
  };

  [[nodiscard]] uint32_t producer() const {
    return std::atomic_ref(control_->producer).load(std::memory_order_acquire);
  }
  [[nodiscard]] Batch open() const { return {.next = consumer_, .producer = producer()}; }

  // The next completion that is of a queue pair. The entries that it covers are free when another
  // ring's are taken, or at release().
  bool take(Batch* batch, kiwarp_cqe* completion) {
    while (batch->next != batch->producer) {
      const uint32_t index = batch->next++;
      *completion = *slot(index);
      const QueueRings* queue = lookUp(completion->qp_id);
      if (queue == nullptr) continue;
      WorkRing* ring = completion->opcode == KIWARP_OP_RECV ? queue->receive : queue->send;
      if (ring == nullptr) continue;
      if (has_stamps_) current_stamp_ = stamps_[index & (entries_ - 1)];
      if (ring != batch->freed) release(batch);
      batch->freed = ring;
      batch->free_index = completion->wqe_index;
      return true;
    }
    return false;
  }

  // The consumer index is stored before the entries are free: a work request that is posted to one
  // of them may complete at once, and must find a free slot.
  void release(Batch* batch) {
    if (batch->next != consumer_) {
      consumer_ = batch->next;
      publishConsumer();
    }
    if (batch->freed != nullptr) batch->freed->release(batch->free_index);
  }

  void publishConsumer() {
    std::atomic_ref(control_->consumer).store(consumer_, std::memory_order_release);
  }

  [[nodiscard]] kiwarp_cqe* slot(uint32_t index) const { return slots_ + (index & (entries_ - 1)); }

  const QueueRings* lookUp(uint32_t number) {
    if (number == last_number_) return &last_rings_;
    const QueueRings* found = queues_.find(number);
    if (found == nullptr) return nullptr;
    last_number_ = number;
    last_rings_ = *found;
    return &last_rings_;
  }

  void armLocked(uint32_t bits) {
    std::atomic_ref(control_->armed).fetch_or(bits, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

  // Completions of a ring that was left.
  struct Waiting {
    const kiwarp_cqe* slots = nullptr;
    const kiwarp_cq_stamp* stamps = nullptr;
    uint32_t entries = 0;
    uint32_t first = 0;
    uint32_t end = 0;
  };

  void discardLocked(uint32_t number);
  void copyWaiting(const Waiting& from);
  bool continueIn(const RingPlace& place);

  void forgetLast() {
    last_number_ = QueueTable::kNoQueue;
    last_rings_ = {};
  }

  kiwarp_cq_ctrl* control_ = nullptr;
  kiwarp_cqe* slots_ = nullptr;
  uint32_t entries_ = 0;
  uint32_t consumer_ = 0;
  OptionalLock lock_;
  // What arming and resizing exclude. Taken inside lock_.
  OptionalLock arm_lock_;
  kiwarp_cqe current_ = {};
  kiwarp_cq_stamp current_stamp_ = {};
  kiwarp_cq_stamp* stamps_ = nullptr;
  bool has_stamps_ = false;
  // Completions come in runs of one queue pair: keeping the last one saves most searches.
  uint32_t last_number_ = QueueTable::kNoQueue;
  QueueRings last_rings_;
  QueueTable queues_;
};

}  // namespace kiwarp
