// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Completion queues of the extended interface: created with attributes, and polled one completion
// at a time.
#include <cerrno>
#include <ctime>
#include <memory>
#include <new>

#include "context.h"
#include "cq.h"
#include "domain.h"
#include "pabi/functions.h"
#include "translate.h"

namespace kiwarp {
namespace {

using CreateCqExResponse = pabi::Response<ib_uverbs_ex_create_cq_resp, kiwarp_create_cq_resp>;

constexpr uint64_t kStampFlags =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
// Of the standard ones some mean nothing here and are 0, as in struct ibv_wc.
constexpr uint64_t kKnownWcFlags = IBV_WC_STANDARD_FLAGS | kStampFlags;
constexpr uint32_t kKnownFlags =
    IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

const kiwarp_cqe& current(ibv_cq_ex* cq) { return CompletionQueue::of(cq)->ring.current(); }

// Those that every consumer reads are members.
int show(ibv_cq_ex* cq, bool found) {
  if (!found) return ENOENT;
  const kiwarp_cqe& cqe = current(cq);
  cq->wr_id = cqe.wr_id;
  cq->status = static_cast<ibv_wc_status>(cqe.status);
  return 0;
}

int startPoll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) return EINVAL;
  CompletionQueue* queue = CompletionQueue::of(cq);
  return show(cq, queue->pollWithBackoff([=]() -> uint32_t { return queue->ring.start(); }) != 0);
}

int nextPoll(ibv_cq_ex* cq) { return show(cq, CompletionQueue::of(cq)->ring.next()); }

void endPoll(ibv_cq_ex* cq) { CompletionQueue::of(cq)->ring.end(); }

ibv_wc_opcode readOpcode(ibv_cq_ex* cq) { return wcOpcode(current(cq)); }

uint32_t readVendorErr(ibv_cq_ex* cq) { return current(cq).vendor_err; }

uint32_t readByteLen(ibv_cq_ex* cq) { return current(cq).byte_len; }

// ibv_wc_read_invalidated_rkey() calls this, too.
__be32 readImmData(ibv_cq_ex* cq) {
  const kiwarp_cqe& cqe = current(cq);
  if ((wcFlags(cqe) & IBV_WC_WITH_IMM) != 0) return cqe.imm_data;
  return (wcFlags(cqe) & IBV_WC_WITH_INV) != 0 ? cqe.inv_stag : 0;
}

uint32_t readQpNum(ibv_cq_ex* cq) { return current(cq).qp_id; }

unsigned int readWcFlags(ibv_cq_ex* cq) { return wcFlags(current(cq)); }

uint64_t readCompletionTs(ibv_cq_ex* cq) {
  return CompletionQueue::of(cq)->ring.currentStamp().monotonic_ns;
}

uint64_t readCompletionWallclockNs(ibv_cq_ex* cq) {
  return CompletionQueue::of(cq)->ring.currentStamp().realtime_ns;
}

// What InfiniBand's headers have, and iWARP's have not.
uint32_t readNothing32(ibv_cq_ex* /*cq*/) { return 0; }
uint8_t readNothing8(ibv_cq_ex* /*cq*/) { return 0; }

void setReaders(ibv_cq_ex* cq, uint64_t wc_flags) {
  cq->start_poll = startPoll;
  cq->next_poll = nextPoll;
  cq->end_poll = endPoll;
  cq->read_opcode = readOpcode;
  cq->read_vendor_err = readVendorErr;
  cq->read_wc_flags = readWcFlags;
  cq->read_imm_data = readImmData;
  if ((wc_flags & IBV_WC_EX_WITH_BYTE_LEN) != 0) cq->read_byte_len = readByteLen;
  if ((wc_flags & IBV_WC_EX_WITH_QP_NUM) != 0) cq->read_qp_num = readQpNum;
  if ((wc_flags & IBV_WC_EX_WITH_SRC_QP) != 0) cq->read_src_qp = readNothing32;
  if ((wc_flags & IBV_WC_EX_WITH_SLID) != 0) cq->read_slid = readNothing32;
  if ((wc_flags & IBV_WC_EX_WITH_SL) != 0) cq->read_sl = readNothing8;
  if ((wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS) != 0) cq->read_dlid_path_bits = readNothing8;
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0) {
    cq->read_completion_ts = readCompletionTs;
  }
  if ((wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0) {
    cq->read_completion_wallclock_ns = readCompletionWallclockNs;
  }
}

// Returns 0 or a positive errno.
int create(CompletionQueue* cq, ibv_context* context, const ibv_cq_init_attr_ex& attr) {
  const bool has_flags = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  const uint32_t flags = has_flags ? attr.flags : 0;
  constexpr uint32_t kKnown = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if ((attr.comp_mask & ~kKnown) != 0 || (flags & ~kKnownFlags) != 0 ||
      (attr.wc_flags & ~kKnownWcFlags) != 0) {
    return EOPNOTSUPP;
  }
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
      (attr.parent_domain == nullptr || attr.parent_domain->context != context ||
       Domain::of(attr.parent_domain)->parent_of == nullptr)) {
    return EINVAL;
  }
  const bool needs_cap =
      (attr.wc_flags & kStampFlags) != 0 || (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
  if (needs_cap && (Context::of(context)->caps & KIWARP_CAP_CQ_TIMESTAMP) == 0) return EOPNOTSUPP;
  if ((attr.wc_flags & kStampFlags) != 0) cq->ring.haveStamps();
  if ((flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0) cq->ring.useWithoutLock();
  pabi::ExRequest<ib_uverbs_ex_create_cq> request;
  CreateCqExResponse response;
  int error = pabi::createCqEx(context, &attr, cq, &request, sizeof(request), response.core(),
                               sizeof(response), 0);
  if (error != 0) return error;
  error = cq->map(response.driver);
  if (error != 0) ibv_cmd_destroy_cq(&cq->cq);
  return error;
}

}  // namespace

ibv_cq_ex* createCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  std::unique_ptr<CompletionQueue> cq(new (std::nothrow) CompletionQueue);
  const int error = cq ? create(cq.get(), context, *attr) : ENOMEM;
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  setReaders(&cq->cq_ex, attr->wc_flags);
  return &cq.release()->cq_ex;
}

// The clock that stamps are of, in nanoseconds. Devices have put all of them into tv_nsec, and
// programs read that alone.
int queryRtValues(ibv_context* /*context*/, ibv_values_ex* values) {
  const uint32_t wanted = values->comp_mask;
  values->comp_mask = 0;
  if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) == 0) return EINVAL;
  timespec now{};
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return errno;
  values->raw_clock.tv_sec = 0;
  values->raw_clock.tv_nsec = now.tv_sec * 1'000'000'000 + now.tv_nsec;
  values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  return 0;
}

}  // namespace kiwarp
