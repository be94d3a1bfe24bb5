// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Translation from the verbs' structures to those of the rings.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/kiwarp-abi.h>

#include <cstddef>
#include <cstdint>

namespace kiwarp {

// The capacity of a queue pair's entries.
struct QueueLimits {
  uint32_t max_send_sge = 0;
  uint32_t max_receive_sge = 0;
  uint32_t max_inline = 0;
  bool signal_all = false;
  uint32_t caps = 0;  // KIWARP_CAP_* of the module
};

// The parts of a send entry: first its header, then one kind of payload, or none. The payload's
// functions return 0, EINVAL or EOPNOTSUPP; the entry is garbage then.
void beginSqe(kiwarp_sqe* sqe, kiwarp_opcode opcode, uint64_t wr_id, unsigned int send_flags,
              const QueueLimits& limits);
[[nodiscard]] int setSges(kiwarp_sqe* sqe, const ibv_sge* sges, size_t count,
                          const QueueLimits& limits);
// Appends to what is there already.
[[nodiscard]] int addInline(kiwarp_sqe* sqe, const void* data, size_t length,
                            const QueueLimits& limits);

// What BIND_MW has behind the header's common part. What only the kernel knows of window and region
// it checks when the request's turn comes. Returns 0 or EINVAL.
[[nodiscard]] int setBind(kiwarp_sqe* sqe, const ibv_mw* window, uint32_t rkey,
                          const ibv_mw_bind_info& info);

// Fills an entry, which must have room for what limits allow. Returns 0, EINVAL, or EOPNOTSUPP for
// what the module hasn't; the entry is garbage then.
[[nodiscard]] int fillSqe(kiwarp_sqe* sqe, const ibv_send_wr& wr, const QueueLimits& limits);
[[nodiscard]] int fillRqe(kiwarp_rqe* rqe, const ibv_recv_wr& wr, const QueueLimits& limits);

void fillWc(ibv_wc* wc, const kiwarp_cqe& cqe);

// What fillWc() fills in, for those who read one member at a time.
[[nodiscard]] ibv_wc_opcode wcOpcode(const kiwarp_cqe& cqe);
[[nodiscard]] inline unsigned int wcFlags(const kiwarp_cqe& cqe) {
  unsigned int flags = 0;
  if ((cqe.flags & KIWARP_CQE_WITH_INV) != 0) flags |= IBV_WC_WITH_INV;
  if ((cqe.flags & KIWARP_CQE_WITH_IMM) != 0) flags |= IBV_WC_WITH_IMM;
  return flags;
}

}  // namespace kiwarp
