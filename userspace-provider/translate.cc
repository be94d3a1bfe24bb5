// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "translate.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace kiwarp {
namespace {

static_assert(sizeof(ibv_sge) == sizeof(kiwarp_sge));
static_assert(offsetof(ibv_sge, addr) == offsetof(kiwarp_sge, addr));
static_assert(offsetof(ibv_sge, length) == offsetof(kiwarp_sge, length));
static_assert(offsetof(ibv_sge, lkey) == offsetof(kiwarp_sge, lkey));

// RFC 5040: an RDMA Read Request has one sink: one STag, one offset.
constexpr uint32_t kMaxReadSge = 1;

constexpr unsigned int kKnownSendFlags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

// Requests that send nothing. Their list of SGEs isn't looked at.
bool isLocal(const ibv_send_wr& wr) {
  return wr.opcode == IBV_WR_BIND_MW || wr.opcode == IBV_WR_LOCAL_INV;
}

// Returns 0 or EINVAL. What only the kernel knows of window and region it checks when the request's
// turn comes.
int fillBind(kiwarp_sqe* sqe, const ibv_send_wr& wr) {
  const ibv_mw_bind_info& info = wr.bind_mw.bind_info;
  if (wr.bind_mw.mw == nullptr) return EINVAL;
  if (info.mr == nullptr && info.length != 0) return EINVAL;
  sqe->opcode = KIWARP_OP_BIND_MW;
  sqe->remote_addr = info.addr;
  sqe->rkey = wr.bind_mw.rkey;
  sqe->bind = {.length = info.length,
               .access = info.mw_access_flags,
               .lkey = info.mr != nullptr ? info.mr->lkey : 0};
  return 0;
}

// The opcode and what depends on it. Returns 0, EINVAL or EOPNOTSUPP.
int fillOperation(kiwarp_sqe* sqe, const ibv_send_wr& wr, const QueueLimits& limits) {
  sqe->remote_addr = 0;
  sqe->rkey = 0;
  sqe->inv_stag = 0;
  sqe->rsvd[0] = 0;
  sqe->rsvd[1] = 0;
  if (isLocal(wr) && !limits.windows) return EOPNOTSUPP;
  if (isLocal(wr) && (wr.send_flags & IBV_SEND_INLINE) != 0) return EINVAL;
  switch (wr.opcode) {
    case IBV_WR_SEND:
      sqe->opcode = KIWARP_OP_SEND;
      return 0;
    case IBV_WR_SEND_WITH_INV:
      sqe->opcode = KIWARP_OP_SEND_INV;
      sqe->inv_stag = wr.invalidate_rkey;
      return 0;
    case IBV_WR_LOCAL_INV:
      sqe->opcode = KIWARP_OP_LOCAL_INV;
      sqe->inv_stag = wr.invalidate_rkey;
      return 0;
    case IBV_WR_BIND_MW:
      return fillBind(sqe, wr);
    case IBV_WR_RDMA_WRITE:
      sqe->opcode = KIWARP_OP_WRITE;
      break;
    case IBV_WR_RDMA_READ:
      if ((wr.send_flags & IBV_SEND_INLINE) != 0) return EINVAL;
      if (static_cast<uint32_t>(wr.num_sge) > kMaxReadSge) return EINVAL;
      sqe->opcode = KIWARP_OP_READ;
      break;
    default:
      return EINVAL;
  }
  sqe->remote_addr = wr.wr.rdma.remote_addr;
  sqe->rkey = wr.wr.rdma.rkey;
  return 0;
}

int fillInline(kiwarp_sqe* sqe, const ibv_send_wr& wr, uint32_t max_inline) {
  auto* payload = reinterpret_cast<std::byte*>(sqe + 1);
  uint32_t length = 0;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if (sge.length > max_inline - length) return EINVAL;
    if (sge.length == 0) continue;
    // The verbs carry addresses as numbers. NOLINTNEXTLINE(performance-no-int-to-ptr)
    std::memcpy(payload + length, reinterpret_cast<const void*>(sge.addr), sge.length);
    length += sge.length;
  }
  sqe->flags |= KIWARP_SQE_INLINE;
  sqe->num_sge = 0;
  sqe->inline_len = length;
  return 0;
}


}  // namespace

int fillSqe(kiwarp_sqe* sqe, const ibv_send_wr& wr, const QueueLimits& limits) {
  const int num_sge = isLocal(wr) ? 0 : wr.num_sge;
  if (num_sge < 0 || static_cast<uint32_t>(num_sge) > limits.max_send_sge) return EINVAL;
  if ((wr.send_flags & ~kKnownSendFlags) != 0) return EINVAL;
  if (int error = fillOperation(sqe, wr, limits); error != 0) return error;

  sqe->wr_id = wr.wr_id;
  sqe->flags = 0;
  if (limits.signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0) {
    sqe->flags |= KIWARP_SQE_SIGNALED;
  }
  if ((wr.send_flags & IBV_SEND_SOLICITED) != 0) sqe->flags |= KIWARP_SQE_SOLICITED;
  if ((wr.send_flags & IBV_SEND_FENCE) != 0) sqe->flags |= KIWARP_SQE_FENCE;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) return fillInline(sqe, wr, limits.max_inline);

  sqe->num_sge = static_cast<uint16_t>(num_sge);
  sqe->inline_len = 0;
  if (num_sge > 0) std::memcpy(sqe + 1, wr.sg_list, num_sge * sizeof(kiwarp_sge));
  return 0;
}

int fillRqe(kiwarp_rqe* rqe, const ibv_recv_wr& wr, const QueueLimits& limits) {
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > limits.max_receive_sge) return EINVAL;
  rqe->wr_id = wr.wr_id;
  rqe->num_sge = static_cast<uint32_t>(wr.num_sge);
  rqe->rsvd = 0;
  if (wr.num_sge > 0) std::memcpy(rqe + 1, wr.sg_list, wr.num_sge * sizeof(kiwarp_sge));
  return 0;
}

ibv_wc_opcode wcOpcode(const kiwarp_cqe& cqe) {
  switch (cqe.opcode) {
    case KIWARP_OP_RECV:
      return IBV_WC_RECV;
    case KIWARP_OP_WRITE:
      return IBV_WC_RDMA_WRITE;
    case KIWARP_OP_READ:
    case KIWARP_OP_READ_INV:
      return IBV_WC_RDMA_READ;
    case KIWARP_OP_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    case KIWARP_OP_BIND_MW:
      return IBV_WC_BIND_MW;
    default:
      return IBV_WC_SEND;
  }
}

void fillWc(ibv_wc* wc, const kiwarp_cqe& cqe) {
  *wc = {};
  wc->wr_id = cqe.wr_id;
  wc->status = static_cast<ibv_wc_status>(cqe.status);
  wc->opcode = wcOpcode(cqe);
  wc->vendor_err = cqe.vendor_err;
  wc->byte_len = cqe.byte_len;
  wc->qp_num = cqe.qp_id;
  wc->wc_flags = wcFlags(cqe);
  if ((wc->wc_flags & IBV_WC_WITH_INV) != 0) wc->invalidated_rkey = cqe.inv_stag;
}

}  // namespace kiwarp
