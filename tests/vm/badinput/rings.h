// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The rings of a queue pair as the process that has them mapped sees them, for what a process can
// write there.
#pragma once

#include <rdma/kiwarp-abi.h>

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "badinput/harness.h"

namespace kiwarp::vm {

// Both rings of a queue pair that was created since maps were read: the send ring is at the start
// of their mapping, the receive ring at the first place where one may be that shows the same state.
struct Rings {
  using Maps = std::set<std::pair<uintptr_t, uintptr_t>>;

  // The mappings of the device.
  static Maps mapped();

  explicit Rings(const Maps& before);

  kiwarp_ring_ctrl* receive() const;
  // The send queue's first entry.
  kiwarp_sqe* firstSend() const;

  kiwarp_ring_ctrl* send = nullptr;
  size_t size = 0;
};

// Says that so many entries more are posted than are.
void lie(kiwarp_ring_ctrl* ring, uint32_t count);

// The system calls by which the kernel looks at a ring.
void sendDoorbell(const ibv_qp* qp);
void receiveDoorbell(const ibv_qp* qp);

// A connection whose client's queues have depth entries, and whose rings are known.
struct RingLink {
  RingLink(Env& env, uint32_t depth);

  Link link;
  std::optional<Rings> rings;

 private:
  void prepare(Env& env, End* end, uint32_t depth);
};

}  // namespace kiwarp::vm
