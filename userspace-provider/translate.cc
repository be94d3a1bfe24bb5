// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "translate.h"

#include <algorithm>
#include <array>
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

// What the verbs call an operation: its opcode here, and the capability that the module needs.
struct Operation {
  bool known = false;
  kiwarp_opcode opcode = KIWARP_OP_SEND;
  uint32_t caps = 0;
};

constexpr auto kOperations = [] {
  std::array<Operation, IBV_WR_DRIVER1 + 1> all{};
  all[IBV_WR_SEND] = {true, KIWARP_OP_SEND, 0};
  all[IBV_WR_SEND_WITH_INV] = {true, KIWARP_OP_SEND_INV, 0};
  all[IBV_WR_RDMA_WRITE] = {true, KIWARP_OP_WRITE, 0};
  all[IBV_WR_RDMA_READ] = {true, KIWARP_OP_READ, 0};
  all[IBV_WR_LOCAL_INV] = {true, KIWARP_OP_LOCAL_INV, KIWARP_CAP_MW};
  all[IBV_WR_BIND_MW] = {true, KIWARP_OP_BIND_MW, KIWARP_CAP_MW};
  all[IBV_WR_SEND_WITH_IMM] = {true, KIWARP_OP_SEND_IMM, KIWARP_CAP_IMM};
  all[IBV_WR_RDMA_WRITE_WITH_IMM] = {true, KIWARP_OP_WRITE_IMM, KIWARP_CAP_IMM};
  all[IBV_WR_ATOMIC_FETCH_AND_ADD] = {true, KIWARP_OP_FETCH_ADD, KIWARP_CAP_ATOMIC};
  all[IBV_WR_ATOMIC_CMP_AND_SWP] = {true, KIWARP_OP_CMP_SWAP, KIWARP_CAP_ATOMIC};
  return all;
}();

// Requests that send nothing. Their list of SGEs isn't looked at.
bool isLocal(kiwarp_opcode opcode) {
  return opcode == KIWARP_OP_BIND_MW || opcode == KIWARP_OP_LOCAL_INV;
}

bool isAtomic(uint8_t opcode) {
  return opcode == KIWARP_OP_FETCH_ADD || opcode == KIWARP_OP_CMP_SWAP;
}

// What follows the header's common part. Returns 0 or EINVAL.
int fillOperation(kiwarp_sqe* sqe, const ibv_send_wr& wr) {
  switch (sqe->opcode) {
    case KIWARP_OP_SEND:
      return 0;
    case KIWARP_OP_SEND_INV:
    case KIWARP_OP_LOCAL_INV:
      sqe->inv_stag = wr.invalidate_rkey;
      return 0;
    case KIWARP_OP_SEND_IMM:
      sqe->imm_data = wr.imm_data;
      return 0;
    case KIWARP_OP_BIND_MW:
      return setBind(sqe, wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
    case KIWARP_OP_FETCH_ADD:
    case KIWARP_OP_CMP_SWAP:
      sqe->remote_addr = wr.wr.atomic.remote_addr;
      sqe->rkey = wr.wr.atomic.rkey;
      sqe->atomic.compare_add = wr.wr.atomic.compare_add;
      if (sqe->opcode == KIWARP_OP_CMP_SWAP) sqe->atomic.swap = wr.wr.atomic.swap;
      return 0;
    case KIWARP_OP_WRITE_IMM:
      sqe->imm_data = wr.imm_data;
      [[fallthrough]];
    default:
      sqe->remote_addr = wr.wr.rdma.remote_addr;
      sqe->rkey = wr.wr.rdma.rkey;
      return 0;
  }
}

// Operations whose payload is not any number of bytes in any number of pieces.
constexpr uint32_t kRestricted = 1U << KIWARP_OP_READ | 1U << KIWARP_OP_SEND_IMM |
                                 1U << KIWARP_OP_FETCH_ADD | 1U << KIWARP_OP_CMP_SWAP;

// Why an operation cannot have this list of SGEs; 0 if it can.
int checkSges(uint8_t opcode, const ibv_sge* sges, size_t count) {
  if ((kRestricted >> opcode & 1) == 0) return 0;
  if (opcode == KIWARP_OP_READ && count > kMaxReadSge) return EINVAL;
  // The value before an atomic operation goes into one SGE of its size.
  if (isAtomic(opcode) && (count != 1 || sges[0].length != sizeof(uint64_t))) return EINVAL;
  // RFC 7306 has no message with payload and an immediate.
  const auto has_bytes = [](const ibv_sge& sge) { return sge.length != 0; };
  if (opcode == KIWARP_OP_SEND_IMM && std::any_of(sges, sges + count, has_bytes)) return EOPNOTSUPP;
  return 0;
}

// Why an operation cannot send inline so many bytes; 0 if it can.
int checkInline(uint8_t opcode, size_t length) {
  if ((kRestricted >> opcode & 1) == 0) return 0;
  if (opcode == KIWARP_OP_READ || isAtomic(opcode)) return EINVAL;
  return opcode == KIWARP_OP_SEND_IMM && length != 0 ? EOPNOTSUPP : 0;
}

int fillInline(kiwarp_sqe* sqe, const ibv_send_wr& wr, const QueueLimits& limits) {
  // Nothing to copy is inline, too.
  int error = addInline(sqe, nullptr, 0, limits);
  for (int i = 0; i < wr.num_sge && error == 0; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    // The verbs carry addresses as numbers. NOLINTNEXTLINE(performance-no-int-to-ptr)
    error = addInline(sqe, reinterpret_cast<const void*>(sge.addr), sge.length, limits);
  }
  return error;
}

// One SGE is what nearly all requests have: of a known size it is copied without a call.
inline void copySges(void* to, const ibv_sge* sges, size_t count) {
  if (count == 1) {
    std::memcpy(to, sges, sizeof(kiwarp_sge));
  } else if (count > 0) {
    std::memcpy(to, sges, count * sizeof(kiwarp_sge));
  }
}

inline int putSges(kiwarp_sqe* sqe, const ibv_sge* sges, size_t count, const QueueLimits& limits) {
  if (count > limits.max_send_sge) return EINVAL;
  if (int error = checkSges(sqe->opcode, sges, count); error != 0) return error;
  sqe->num_sge = static_cast<uint16_t>(count);
  copySges(sqe + 1, sges, count);
  return 0;
}

// What the verbs call a completed operation.
constexpr auto kCompleted = [] {
  std::array<ibv_wc_opcode, 16> all{};
  all[KIWARP_OP_SEND] = IBV_WC_SEND;
  all[KIWARP_OP_SEND_INV] = IBV_WC_SEND;
  all[KIWARP_OP_SEND_IMM] = IBV_WC_SEND;
  all[KIWARP_OP_WRITE] = IBV_WC_RDMA_WRITE;
  all[KIWARP_OP_WRITE_IMM] = IBV_WC_RDMA_WRITE;
  all[KIWARP_OP_READ] = IBV_WC_RDMA_READ;
  all[KIWARP_OP_READ_INV] = IBV_WC_RDMA_READ;
  all[KIWARP_OP_LOCAL_INV] = IBV_WC_LOCAL_INV;
  all[KIWARP_OP_BIND_MW] = IBV_WC_BIND_MW;
  all[KIWARP_OP_FETCH_ADD] = IBV_WC_FETCH_ADD;
  all[KIWARP_OP_CMP_SWAP] = IBV_WC_COMP_SWAP;
  all[KIWARP_OP_RECV] = IBV_WC_RECV;
  return all;
}();

inline ibv_wc_opcode opcodeOf(const kiwarp_cqe& cqe) {
  // An opcode that this process made up comes back as it is, in a completion in error.
  const ibv_wc_opcode opcode =
      cqe.opcode < kCompleted.size() ? kCompleted[cqe.opcode] : IBV_WC_SEND;
  const bool with_imm = (cqe.flags & KIWARP_CQE_WITH_IMM) != 0;
  return with_imm && opcode == IBV_WC_RECV ? IBV_WC_RECV_RDMA_WITH_IMM : opcode;
}

}  // namespace

void beginSqe(kiwarp_sqe* sqe, kiwarp_opcode opcode, uint64_t wr_id, unsigned int send_flags,
              const QueueLimits& limits) {
  uint8_t flags = 0;
  if (limits.signal_all || (send_flags & IBV_SEND_SIGNALED) != 0) flags |= KIWARP_SQE_SIGNALED;
  if ((send_flags & IBV_SEND_SOLICITED) != 0) flags |= KIWARP_SQE_SOLICITED;
  if ((send_flags & IBV_SEND_FENCE) != 0) flags |= KIWARP_SQE_FENCE;
  *sqe = {};
  sqe->wr_id = wr_id;
  sqe->opcode = opcode;
  sqe->flags = flags;
}

int setSges(kiwarp_sqe* sqe, const ibv_sge* sges, size_t count, const QueueLimits& limits) {
  return putSges(sqe, sges, count, limits);
}

int addInline(kiwarp_sqe* sqe, const void* data, size_t length, const QueueLimits& limits) {
  if (int error = checkInline(sqe->opcode, length); error != 0) return error;
  if (length > limits.max_inline - sqe->inline_len) return EINVAL;
  auto* payload = reinterpret_cast<std::byte*>(sqe + 1);
  if (length > 0) std::memcpy(payload + sqe->inline_len, data, length);
  sqe->flags |= KIWARP_SQE_INLINE;
  sqe->inline_len += static_cast<uint32_t>(length);
  return 0;
}

int setBind(kiwarp_sqe* sqe, const ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info& info) {
  if (window == nullptr) return EINVAL;
  if (info.mr == nullptr && info.length != 0) return EINVAL;
  sqe->remote_addr = info.addr;
  sqe->rkey = rkey;
  sqe->bind = {.length = info.length,
               .access = info.mw_access_flags,
               .lkey = info.mr != nullptr ? info.mr->lkey : 0};
  return 0;
}

int fillSqe(kiwarp_sqe* sqe, const ibv_send_wr& wr, const QueueLimits& limits) {
  if (static_cast<size_t>(wr.opcode) >= kOperations.size()) return EINVAL;
  const Operation& operation = kOperations[wr.opcode];
  if (!operation.known || (wr.send_flags & ~kKnownSendFlags) != 0) return EINVAL;
  if ((limits.caps & operation.caps) != operation.caps) return EOPNOTSUPP;
  beginSqe(sqe, operation.opcode, wr.wr_id, wr.send_flags, limits);
  if (int error = fillOperation(sqe, wr); error != 0) return error;
  if (isLocal(operation.opcode)) return (wr.send_flags & IBV_SEND_INLINE) != 0 ? EINVAL : 0;
  // A negative number is too large a one.
  const auto count = static_cast<uint32_t>(wr.num_sge);
  if ((wr.send_flags & IBV_SEND_INLINE) == 0) return putSges(sqe, wr.sg_list, count, limits);
  return count <= limits.max_send_sge ? fillInline(sqe, wr, limits) : EINVAL;
}

int fillRqe(kiwarp_rqe* rqe, const ibv_recv_wr& wr, const QueueLimits& limits) {
  if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > limits.max_receive_sge) return EINVAL;
  rqe->wr_id = wr.wr_id;
  rqe->num_sge = static_cast<uint32_t>(wr.num_sge);
  rqe->rsvd = 0;
  copySges(rqe + 1, wr.sg_list, static_cast<size_t>(wr.num_sge));
  return 0;
}

ibv_wc_opcode wcOpcode(const kiwarp_cqe& cqe) { return opcodeOf(cqe); }

void fillWc(ibv_wc* wc, const kiwarp_cqe& cqe) {
  *wc = {};
  wc->wr_id = cqe.wr_id;
  wc->status = static_cast<ibv_wc_status>(cqe.status);
  wc->opcode = opcodeOf(cqe);
  wc->vendor_err = cqe.vendor_err;
  wc->byte_len = cqe.byte_len;
  wc->qp_num = cqe.qp_id;
  wc->wc_flags = wcFlags(cqe);
  if ((wc->wc_flags & IBV_WC_WITH_INV) != 0) wc->invalidated_rkey = cqe.inv_stag;
  if ((wc->wc_flags & IBV_WC_WITH_IMM) != 0) wc->imm_data = cqe.imm_data;
}

}  // namespace kiwarp
