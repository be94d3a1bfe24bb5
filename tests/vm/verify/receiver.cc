// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/receiver.h"

#include <array>
#include <cstring>

#include "common/error.h"
#include "common/pattern.h"

namespace kiwarp::vm {
namespace {

// Receives that no Send will use: they must come back flushed when the connection ends.
constexpr unsigned kSpares = 2;
constexpr uint64_t kSpareSize = 64;

void restore(uint8_t* base, const Extent& extent) {
  std::memset(base + extent.begin, kBackground, extent.end - extent.begin);
}

}  // namespace

Receiver::Receiver(Lane* lane, const Oceans* oceans, const Profile& profile,
                   const StreamParams& params, Report* report, Renew renew)
    : lane_(lane),
      oceans_(oceans),
      profile_(profile),
      report_(report),
      renew_(std::move(renew)),
      stream_(params),
      rng_(params.seed ^ (0x4ecf0000 + params.qp) ^ (params.from_client ? 1 : 0)),
      inbox_(lane->inbox.memory.data(), lane->inbox.memory.size()) {
  fetch();
}

void Receiver::fetch() {
  do {
    coming_ = stream_.next();
  } while (coming_ && !coming_->has_send);
}

bool Receiver::post(const Group* group) {
  const uint64_t size = group ? group->ops.back().size : kSpareSize;
  // Most receives fit the message exactly, where one byte too few would show.
  uint64_t capacity = size + (rng_.percent(60) ? 0 : rng_.between(1, 300));
  if (capacity == 0 && !profile_.zero_sge) capacity = 1;
  const auto pieces = static_cast<unsigned>(rng_.between(1, lane_->cap.max_recv_sge));
  std::optional<Area> area = inbox_.scatter(rng_, capacity, pieces);
  if (!area) return false;

  std::array<ibv_sge, 32> sge;
  ibv_recv_wr wr{};
  wr.wr_id = wrId(lane_->index, posted_ + spares_, true);
  wr.sg_list = sge.data();
  for (const Piece& piece : area->pieces) {
    sge[static_cast<size_t>(wr.num_sge++)] = lane_->inbox.sge(piece.offset, piece.length);
  }
  ibv_recv_wr* bad = nullptr;
  const int rc = ibv_post_recv(lane_->id->qp, &wr, &bad);
  if (rc != 0) {
    fail("qp %u: ibv_post_recv: %s (%zu outstanding of %u)", lane_->index, errnoName(rc).c_str(),
         expected_.size(), lane_->cap.max_recv_wr);
  }
  if (group) {
    expected_.push_back({*group, std::move(*area)});
    ++posted_;
  } else {
    ++spares_;
  }
  return true;
}

bool Receiver::refill() {
  bool any = false;
  while (coming_ && expected_.size() + kSpares < lane_->cap.max_recv_wr && post(&*coming_)) {
    fetch();
    any = true;
  }
  while (!coming_ && spares_ < kSpares && post(nullptr)) any = true;
  return any;
}

const uint8_t* Receiver::expectedData(const Op& op) const {
  const Memory& ocean = op.from == DataFrom::kOwnOcean ? oceans_->peer : oceans_->own;
  return ocean.data() + op.source;
}

void Receiver::checkWrite(const Group& group, const Op& op) {
  uint8_t* base = lane_->target.memory.data();
  Area area{op.extent, {{op.target, op.size}}};
  if (op.window >= 0) {
    base = lane_->window_memory.data();
    const size_t begin = static_cast<size_t>(op.window) * kWindowSize;
    area = {{begin, begin + kWindowSize}, {{begin + op.target, op.size}}};
  }
  if (auto bad = checkArea(base, area, expectedData(op), op.size)) {
    report_->mismatch(strf("qp %u: group %llu: Write of %u bytes: %s", lane_->index,
                           static_cast<unsigned long long>(group.index), op.size, bad->c_str()));
  }
  restore(base, area.extent);
  ++report_->counters.checked_writes;
  report_->counters.bytes_checked += op.size;
}

void Receiver::checkMessage(const Expected& expected, const Op& op) {
  auto bad = checkArea(inbox_.at(0), expected.area, expectedData(op), op.size);
  if (bad) {
    report_->mismatch(strf("qp %u: send %llu of %u bytes into %zu SGEs: %s", lane_->index,
                           static_cast<unsigned long long>(expected.group.send_index), op.size,
                           expected.area.pieces.size(), bad->c_str()));
  }
  restore(inbox_.at(0), expected.area.extent);
  inbox_.releaseOldest();
  ++report_->counters.received;
  report_->counters.bytes_checked += op.size;
}

void Receiver::checkInvalidation(const ibv_wc& wc, const Op& op) {
  const bool told = (wc.wc_flags & IBV_WC_WITH_INV) != 0;
  if (op.kind != OpKind::kSendInvalidate) {
    if (told) report_->mismatch(strf("qp %u: unasked invalidation", lane_->index));
    return;
  }
  const auto window = static_cast<unsigned>(op.window);
  const uint32_t rkey = lane_->windows[window]->rkey;
  if (profile_.tells_invalidate && (!told || wc.invalidated_rkey != rkey)) {
    report_->mismatch(strf("qp %u: invalidation of %#x expected, completion says flags %#x key %#x",
                           lane_->index, rkey, wc.wc_flags, wc.invalidated_rkey));
  }
  renew_(window);
}

void Receiver::complete(const ibv_wc& wc) {
  const uint64_t sequence = sequenceOf(wc.wr_id);
  if (wc.status == IBV_WC_WR_FLUSH_ERR && expected_.empty() &&
      sequence == posted_ + spares_flushed_ && spares_flushed_ < spares_) {
    ++spares_flushed_;
    ++report_->counters.flushed;
    return;
  }
  if (wc.status != IBV_WC_SUCCESS) {
    fail("qp %u: receive completion: %s", lane_->index, describe(wc).c_str());
  }
  if (expected_.empty() || sequence != expected_.front().group.send_index) {
    fail("qp %u: receive completion out of order: %s", lane_->index, describe(wc).c_str());
  }
  Expected expected = std::move(expected_.front());
  expected_.pop_front();
  const Op& send = expected.group.ops.back();
  if (wc.opcode != IBV_WC_RECV || wc.byte_len != send.size || wc.qp_num != lane_->id->qp->qp_num) {
    fail("qp %u: wrong receive completion for a Send of %u bytes: %s", lane_->index, send.size,
         describe(wc).c_str());
  }
  for (const Op& op : expected.group.ops) {
    if (op.kind == OpKind::kWrite) checkWrite(expected.group, op);
  }
  checkMessage(expected, send);
  checkInvalidation(wc, send);
  ++processed_;
}

void Receiver::checkUntouched(const char* what, const Memory& memory) {
  if (auto bad = firstDisturbed(memory.data(), memory.size())) {
    report_->mismatch(
        strf("qp %u: %s changed outside of any transfer: %s", lane_->index, what,
             describeDifference(memory.data(), nullptr, memory.size(), *bad).c_str()));
  }
}

void Receiver::checkRest() {
  checkUntouched("target region", lane_->target.memory);
  checkUntouched("window region", lane_->window_memory);
  checkUntouched("receive region", lane_->inbox.memory);
  checkUntouched("Read sink region", lane_->sink.memory);
}

std::string Receiver::dump() const {
  std::string text = strf("  receiver: posted %llu, processed %llu, spares %u (%u flushed)",
                          static_cast<unsigned long long>(posted_),
                          static_cast<unsigned long long>(processed_), spares_, spares_flushed_);
  if (!expected_.empty()) {
    const Group& group = expected_.front().group;
    text += strf("\n  awaited: send %llu of group %llu, size %u, after %zu other wrs",
                 static_cast<unsigned long long>(group.send_index),
                 static_cast<unsigned long long>(group.index), group.ops.back().size,
                 group.ops.size() - 1);
  }
  return text;
}

}  // namespace kiwarp::vm
