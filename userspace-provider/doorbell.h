// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "rings/work_ring.h"

namespace kiwarp {

// A POST_SEND or POST_RECV command without work requests: makes the kernel read the ring.
//
// The kernel needs no doorbell to read on: what else goes on in the stream makes it look at the
// ring as well. So entries can be taken back after a doorbell that failed only where nothing reads
// them. Otherwise they stay posted, and the doorbell is owed.
class Doorbell {
 public:
  enum class Kind { kSend, kReceive };

  Doorbell() = default;
  Doorbell(ibv_qp* qp, Kind kind) : qp_(qp), kind_(kind) {}

  // Before anything is pushed: rings if that is owed. Returns 0 or a positive errno; then nothing
  // else can be posted.
  [[nodiscard]] int settle();

  // For the last count entries, which are published. Returns 0, and they are posted, or a positive
  // errno, and none of them is. Transmits in the caller's context, which may take long.
  [[nodiscard]] int ring(WorkRing& ring, uint32_t count);

 private:
  // Return 0 or a positive errno.
  [[nodiscard]] int ring() const;
  [[nodiscard]] int ringOnce() const;
  [[nodiscard]] int ringByIoctl() const;

  ibv_qp* qp_ = nullptr;
  Kind kind_ = Kind::kSend;
  bool owed_ = false;
};

}  // namespace kiwarp
