// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/receiver.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/error.h"
#include "common/pattern.h"

namespace kiwarp::vm {
namespace {

// Receives that no Send will use: they must come back flushed when the connection ends.
constexpr unsigned kSpares = 2;
constexpr uint64_t kSpareSize = 64;

// An immediate is in the completion: the receive's memory stays as it was.
uint32_t payloadOf(const Op& closing) {
  return closing.kind == OpKind::kWriteImmediate ? 0 : closing.size;
}

// What the completion says. With an immediate that is the length of the last Write, if there was
// one since the Send before.
uint32_t byteLenOf(const Group& group) {
  if (group.ops.back().kind != OpKind::kSendImmediate) return group.ops.back().size;
  const auto write = std::find_if(group.ops.rbegin(), group.ops.rend(),
                                  [](const Op& op) { return isWrite(op.kind); });
  return write == group.ops.rend() ? 0 : write->size;
}

bool hasImmediate(const Op& closing) {
  return closing.kind == OpKind::kSendImmediate || closing.kind == OpKind::kWriteImmediate;
}

void restore(uint8_t* base, const Extent& extent) {
  std::memset(base + extent.begin, kBackground, extent.end - extent.begin);
}

}  // namespace

Receiver::Receiver(Lane* lane, const Oceans* oceans, const Profile& profile,
                   const StreamParams& params, Report* report, Windows* windows)
    : lane_(lane),
      oceans_(oceans),
      profile_(profile),
      report_(report),
      windows_(windows),
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
  const uint64_t size = group ? payloadOf(group->ops.back()) : kSpareSize;
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
    expected_.push_back({*group, std::move(*area), inbox_.at(0)});
    ++posted_;
  } else {
    ++spares_;
  }
  return true;
}

uint64_t Receiver::posted() const {
  return lane_->shared ? lane_->shared->granted(lane_->index) : posted_;
}

bool Receiver::refill() {
  if (lane_->shared) return false;
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
  const bool by_window = op.window >= 0;
  const Memory& memory = by_window ? windows_->memory() : lane_->target.memory;
  const Area area = by_window ? windows_->area(op) : Area{op.extent, {{op.target, op.size}}};
  uint8_t* base = memory.data();
  if (auto bad = checkArea(base, area, expectedData(op), op.size)) {
    report_->mismatch(strf("qp %u: group %llu: Write of %u bytes%s: %s", lane_->index,
                           static_cast<unsigned long long>(group.index), op.size,
                           by_window ? " through a window" : "", bad->c_str()));
  }
  restore(base, area.extent);
  ++report_->counters.checked_writes;
  report_->counters.bytes_checked += op.size;
}

// What the group's atomic operations have left: their sender does not go on before.
void Receiver::checkWordOf(const Group& group) {
  const auto last = std::find_if(group.ops.rbegin(), group.ops.rend(),
                                 [](const Op& op) { return op.kind == OpKind::kAtomic; });
  if (last == group.ops.rend()) return;
  const auto word = static_cast<unsigned>(last->word);
  if (auto bad = checkWord(lane_->words.memory.data(), word, last->atomic.after)) {
    report_->mismatch(strf("qp %u: group %llu: word %u: %s", lane_->index,
                           static_cast<unsigned long long>(group.index), word, bad->c_str()));
  }
}

void Receiver::checkMessage(const Expected& expected, const Op& op) {
  const uint32_t size = payloadOf(op);
  auto bad = checkArea(expected.base, expected.area, expectedData(op), size);
  if (bad) {
    report_->mismatch(strf("qp %u: send %llu of %u bytes into %zu %sSGEs: %s", lane_->index,
                           static_cast<unsigned long long>(expected.group.send_index), size,
                           expected.area.pieces.size(), lane_->shared ? "shared " : "",
                           bad->c_str()));
  }
  restore(expected.base, expected.area.extent);
  ++report_->counters.received;
  if (op.solicited) ++report_->counters.received_solicited;
  report_->counters.bytes_checked += size;
}

void Receiver::checkInvalidation(const ibv_wc& wc, const Op& op) {
  const bool told = (wc.wc_flags & IBV_WC_WITH_INV) != 0;
  if (op.kind != OpKind::kSendInvalidate) {
    if (told) report_->mismatch(strf("qp %u: unasked invalidation", lane_->index));
    return;
  }
  const uint32_t rkey = windows_->rkey(static_cast<unsigned>(op.ends));
  if (profile_.tells_invalidate && (!told || wc.invalidated_rkey != rkey)) {
    report_->mismatch(strf("qp %u: invalidation of %#x expected, completion says flags %#x key %#x",
                           lane_->index, rkey, wc.wc_flags, wc.invalidated_rkey));
  }
}

bool Receiver::flushed() const {
  return lane_->shared ? lane_->last_receive : spares_ > 0 && spares_flushed_ == spares_;
}

bool Receiver::isFlushedSpare(const ibv_wc& wc) const {
  return wc.status == IBV_WC_WR_FLUSH_ERR && expected_.empty() && spares_flushed_ < spares_ &&
         sequenceOf(wc.wr_id) == posted_ + spares_flushed_;
}

Receiver::Expected Receiver::expectedFor(const ibv_wc& wc) {
  const uint64_t sequence = sequenceOf(wc.wr_id);
  if (!lane_->shared) {
    if (expected_.empty() || sequence != expected_.front().group.send_index) {
      fail("qp %u: receive completion out of order: %s", lane_->index, describe(wc).c_str());
    }
    Expected expected = std::move(expected_.front());
    expected_.pop_front();
    return expected;
  }
  if (!coming_) fail("qp %u: a receive too many: %s", lane_->index, describe(wc).c_str());
  const Area& area = lane_->shared->take(lane_->index, sequence);
  Expected expected{*coming_, area, lane_->shared->base(sequence)};
  ++report_->counters.shared;
  fetch();
  return expected;
}

void Receiver::checkCompletion(const ibv_wc& wc, const Group& group) const {
  const Op& closing = group.ops.back();
  const bool immediate = hasImmediate(closing);
  const ibv_wc_opcode opcode = immediate ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  if (wc.opcode != opcode || wc.byte_len != byteLenOf(group) ||
      wc.qp_num != lane_->id->qp->qp_num || immediate != ((wc.wc_flags & IBV_WC_WITH_IMM) != 0)) {
    fail("qp %u: wrong receive completion for a %s of %u bytes: %s", lane_->index,
         immediate ? "message with immediate" : "Send", byteLenOf(group), describe(wc).c_str());
  }
  if (immediate && wc.imm_data != closing.immediate) {
    report_->mismatch(strf("qp %u: send %llu: immediate %#x, expected %#x", lane_->index,
                           static_cast<unsigned long long>(group.send_index), wc.imm_data,
                           closing.immediate));
  }
}

void Receiver::checkGroup(const Group& group) {
  for (const Op& op : group.ops) {
    if (isWrite(op.kind)) checkWrite(group, op);
  }
  checkWordOf(group);
}

void Receiver::complete(const ibv_wc& wc) {
  if (!lane_->shared && isFlushedSpare(wc)) {
    ++spares_flushed_;
    ++report_->counters.flushed;
    return;
  }
  if (wc.status != IBV_WC_SUCCESS) {
    fail("qp %u: receive completion: %s", lane_->index, describe(wc).c_str());
  }
  const Expected expected = expectedFor(wc);
  const Op& closing = expected.group.ops.back();
  checkCompletion(wc, expected.group);
  checkGroup(expected.group);
  checkMessage(expected, closing);
  if (lane_->shared) {
    lane_->shared->release(sequenceOf(wc.wr_id));
  } else {
    inbox_.releaseOldest();
  }
  checkInvalidation(wc, closing);
  if (closing.ends >= 0) {
    windows_->renew(static_cast<unsigned>(closing.ends), closing.kind == OpKind::kSendInvalidate);
  }
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
  checkUntouched("window region", windows_->memory());
  checkUntouched("receive region", lane_->inbox.memory);
  checkUntouched("Read sink region", lane_->sink.memory);
  if (lane_->shared) checkUntouched("shared receive region", lane_->shared->memory());
  if (!lane_->words.mr) return;
  if (auto bad = checkWords(lane_->words.memory.data(), stream_.words())) {
    report_->mismatch(strf("qp %u: at the end: %s", lane_->index, bad->c_str()));
  }
}

std::string Receiver::dump() const {
  std::string text = strf("  receiver: posted %llu, processed %llu, spares %u (%u flushed)",
                          static_cast<unsigned long long>(posted()),
                          static_cast<unsigned long long>(processed_), spares_, spares_flushed_);
  if (lane_->shared) text += "\n  " + lane_->shared->dump();
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
