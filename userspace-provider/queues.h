// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The two queues of a queue pair, and a shared receive queue: ring, doorbell and lock together, as
// the verbs see them.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <mutex>

#include "doorbell.h"
#include "rings/spin_lock.h"
#include "rings/work_ring.h"
#include "translate.h"

namespace kiwarp {

// As ibv_post_send(3): posts the list up to the first request that can't be, in *bad_wr, and
// returns why not, as a positive errno. The whole list costs one doorbell. If that fails all of the
// list stays posted, or nothing: see Doorbell.
class SendQueue {
 public:
  int post(ibv_send_wr* wr, ibv_send_wr** bad_wr);

  // The same, one request at a time. All between start() and complete() or abort(), which have the
  // lock, is posted or nothing. add() gives the entry of the next request, with its header, and
  // current() gives it again; both are null after an error. The first error is what complete()
  // returns.
  void start();
  kiwarp_sqe* add(kiwarp_opcode opcode, uint64_t wr_id, unsigned int send_flags) {
    std::byte* entry = error_ == 0 ? ring.next() : nullptr;
    current_ = reinterpret_cast<kiwarp_sqe*>(entry);
    if (entry == nullptr) {
      failed(ENOMEM);
      return nullptr;
    }
    ring.push();
    beginSqe(current_, opcode, wr_id, send_flags, limits);
    return current_;
  }
  [[nodiscard]] kiwarp_sqe* current() const { return current_; }
  void failed(int error) {
    if (error_ == 0) error_ = error;
    current_ = nullptr;
  }
  [[nodiscard]] int complete();
  void abort();

  WorkRing ring;
  Doorbell doorbell;
  QueueLimits limits;
  // Held over the doorbell: a doorbell that fails may take its entries back, so that no others may
  // have been posted behind them. The kernel transmits in there, so waiters must sleep.
  std::mutex lock;

 private:
  // 0, or why nothing can be posted now.
  [[nodiscard]] int refusal();
  // Shows the kernel what was pushed. Returns 0 or why nothing of it is posted.
  int submit();

  kiwarp_sqe* current_ = nullptr;
  int error_ = 0;
};

// As ibv_post_recv(3), likewise; without a system call unless the queue pair is in error.
class ReceiveQueue {
 public:
  int post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

  WorkRing ring;
  Doorbell doorbell;
  QueueLimits limits;
  // What post() returns if the queue has no entries.
  int without_entries = ENOMEM;
  SpinLock lock;
};

// As ibv_post_srq_recv(3), likewise; never with a system call.
class SharedQueue {
 public:
  int post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

  WorkRing ring;
  QueueLimits limits;
  SpinLock lock;
};

}  // namespace kiwarp
