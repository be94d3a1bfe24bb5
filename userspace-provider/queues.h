// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The two queues of a queue pair, and a shared receive queue: ring, doorbell and lock together, as
// the verbs see them.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <mutex>

#include "doorbell.h"
#include "rings/spin_lock.h"
#include "rings/work_ring.h"
#include "translate.h"

namespace kiwarp {

// As ibv_post_send(3): posts the list up to the first request that can't be, in *bad_wr, and
// returns why not, as a positive errno. The whole list costs one doorbell.
class SendQueue {
 public:
  int post(ibv_send_wr* wr, ibv_send_wr** bad_wr);

  WorkRing ring;
  Doorbell doorbell;
  QueueLimits limits;
  // Held over the doorbell: a doorbell that fails takes its entries back, so that no others may
  // have been posted behind them. The kernel transmits in there, so waiters must sleep.
  std::mutex lock;
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
