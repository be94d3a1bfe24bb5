// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/shared_receives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "common/pattern.h"

namespace kiwarp::vm {
namespace {

constexpr uint64_t kSpareRoom = 300;
// Between the pieces of a receive, of which there are 32 at most.
constexpr uint64_t kGaps = uint64_t{96} * 33;
constexpr size_t kList = 8;
constexpr uint64_t kPageMask = kPage - 1;

uint64_t slotSize(uint64_t message) {
  return (message + kSpareRoom + kGaps + kPageMask) & ~kPageMask;
}

}  // namespace

SharedReceives::SharedReceives(ibv_pd* pd, const Params& params, Report* report)
    : params_(params), report_(report), rng_(params.seed ^ 0x5a9e0000) {
  const uint64_t count = params_.lanes.size() * params_.share;
  const uint64_t size = slotSize(params_.size);
  memory_ = Memory(count * size);
  std::memset(memory_.data(), kBackground, memory_.size());
  mr_ = regMr(pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  srq_ = createSrq(pd, static_cast<uint32_t>(count), params_.max_sge);
  granted_.resize(1 + *std::max_element(params_.lanes.begin(), params_.lanes.end()));
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t lane = params_.lanes[i % params_.lanes.size()];
    slots_.push_back({Arena(memory_.data() + i * size, size), {}, lane});
    free_.push_back(i);
  }
}

uint64_t SharedReceives::granted(uint32_t lane) const { return granted_[lane]; }

void SharedReceives::prepare(uint64_t index, ibv_recv_wr* wr, ibv_sge* sge) {
  Slot& slot = slots_[index];
  const auto pieces = static_cast<unsigned>(rng_.between(1, params_.max_sge));
  auto area = slot.arena.scatter(rng_, params_.size + rng_.between(0, kSpareRoom), pieces);
  if (!area) fail("shared receive %llu is in use", static_cast<unsigned long long>(index));
  slot.area = std::move(*area);
  slot.posted = true;
  wr->wr_id = kRecvBit | kSharedBit | index;
  wr->sg_list = sge;
  for (const Piece& piece : slot.area.pieces) {
    const auto address = reinterpret_cast<uintptr_t>(slot.arena.at(piece.offset));
    sge[wr->num_sge++] = {address, piece.length, mr_->lkey};
  }
}

void SharedReceives::postList() {
  std::array<ibv_recv_wr, kList> wrs{};
  std::array<std::array<ibv_sge, 32>, kList> sges;
  const uint64_t count = std::min<uint64_t>(rng_.between(1, kList), free_.size());
  for (uint64_t i = 0; i < count; ++i) {
    // Not in the order of the memory, which would hide a receive taken for its neighbour.
    std::swap(free_.front(), free_[rng_.below(free_.size())]);
    const uint64_t index = free_.front();
    free_.pop_front();
    prepare(index, &wrs[i], sges[i].data());
    if (i > 0) wrs[i - 1].next = &wrs[i];
    ++granted_[slots_[index].lane];
  }
  ibv_recv_wr* bad = nullptr;
  const int rc = ibv_post_srq_recv(srq_.get(), wrs.data(), &bad);
  if (rc != 0) fail("ibv_post_srq_recv: %s (%s)", errnoName(rc).c_str(), dump().c_str());
  posted_ += count;
}

// Moves what is posted to another ring, while messages come.
void SharedReceives::resize() {
  ibv_srq_attr attr{};
  attr.max_wr = static_cast<uint32_t>(rng_.between(slots_.size(), 2 * slots_.size()));
  const int rc = ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_MAX_WR);
  if (rc != 0) fail("ibv_modify_srq of its size: %s", errnoName(rc).c_str());
  ++report_->counters.resized;
}

void SharedReceives::arm() {
  ibv_srq_attr attr{};
  attr.srq_limit = static_cast<uint32_t>(slots_.size()) - params_.share + 1;
  armed_ = true;
  const int rc = ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_LIMIT);
  if (rc != 0) fail("ibv_modify_srq of its limit: %s", errnoName(rc).c_str());
}

// Armed only when something was posted: a message that is still coming would raise the next event
// at once.
bool SharedReceives::refill() {
  if (armed_ || free_.empty()) return false;
  while (!free_.empty()) postList();
  // Behind the first event in any case, so that short runs do it, too.
  if (report_->counters.limits == 1 || rng_.percent(10)) resize();
  arm();
  return true;
}

void SharedReceives::onLimit() {
  if (!armed_) report_->mismatch("a limit event that was not asked for");
  armed_ = false;
  // One event is all that was asked for.
  ibv_srq_attr attr{};
  const int rc = ibv_query_srq(srq_.get(), &attr);
  if (rc != 0 || attr.srq_limit != 0 || attr.max_wr < slots_.size()) {
    report_->mismatch(strf("after a limit event: ibv_query_srq: %d, limit %u, %u entries", rc,
                           attr.srq_limit, attr.max_wr));
  }
  ++report_->counters.limits;
}

const Area& SharedReceives::take(uint32_t lane, uint64_t slot) {
  if (slot >= slots_.size() || !slots_[slot].posted) {
    fail("qp %u: message in shared receive %llu, which is not posted", lane,
         static_cast<unsigned long long>(slot));
  }
  slots_[slot].posted = false;
  slots_[slot].lane = lane;
  ++taken_;
  return slots_[slot].area;
}

void SharedReceives::release(uint64_t slot) {
  slots_[slot].arena.releaseOldest();
  free_.push_back(slot);
}

std::string SharedReceives::dump() const {
  return strf("shared receives: %zu, %llu posted in all, %llu taken, %zu free, limit event %s",
              slots_.size(), static_cast<unsigned long long>(posted_),
              static_cast<unsigned long long>(taken_), free_.size(),
              armed_ ? "awaited" : "has come");
}

}  // namespace kiwarp::vm
