// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Translation from the verbs' structures to those of the rings.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/kiwarp-abi.h>

#include <cstdint>

namespace kiwarp {

// The capacity of a queue pair's entries.
struct QueueLimits {
  uint32_t max_send_sge = 0;
  uint32_t max_receive_sge = 0;
  uint32_t max_inline = 0;
  bool signal_all = false;
  bool windows = false;  // the module has memory windows
};

// Fills an entry, which must have room for what limits allow. Returns 0; EINVAL, or EOPNOTSUPP for
// what the module hasn't: the entry is garbage then.
[[nodiscard]] int fillSqe(kiwarp_sqe* sqe, const ibv_send_wr& wr, const QueueLimits& limits);
[[nodiscard]] int fillRqe(kiwarp_rqe* rqe, const ibv_recv_wr& wr, const QueueLimits& limits);

void fillWc(ibv_wc* wc, const kiwarp_cqe& cqe);

// What fillWc() fills in, for those who read one member at a time.
[[nodiscard]] ibv_wc_opcode wcOpcode(const kiwarp_cqe& cqe);
[[nodiscard]] inline unsigned int wcFlags(const kiwarp_cqe& cqe) {
  return (cqe.flags & KIWARP_CQE_WITH_INV) != 0 ? IBV_WC_WITH_INV : 0;
}

}  // namespace kiwarp
