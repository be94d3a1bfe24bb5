// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace kiwarp {

// A POST_SEND or POST_RECV command without work requests: makes the kernel read the ring.
class Doorbell {
 public:
  enum class Kind { kSend, kReceive };

  Doorbell() = default;
  Doorbell(ibv_qp* qp, Kind kind) : qp_(qp), kind_(kind) {}

  // Returns 0 or a positive errno. Transmits in the caller's context, which may take long.
  [[nodiscard]] int ring() const;

 private:
  [[nodiscard]] int ringByIoctl() const;

  ibv_qp* qp_ = nullptr;
  Kind kind_ = Kind::kSend;
};

}  // namespace kiwarp
