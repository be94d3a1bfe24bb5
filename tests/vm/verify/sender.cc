// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/sender.h"

#include <algorithm>
#include <cstring>

#include "common/error.h"
#include "common/pattern.h"

namespace kiwarp::vm {
namespace {

constexpr uint64_t kScratchLimit = 64 << 10;

ibv_wr_opcode toVerbs(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
      return IBV_WR_SEND;
    case OpKind::kSendInvalidate:
      return IBV_WR_SEND_WITH_INV;
    case OpKind::kWrite:
      return IBV_WR_RDMA_WRITE;
    case OpKind::kRead:
      return IBV_WR_RDMA_READ;
  }
  return IBV_WR_SEND;
}

ibv_wc_opcode completionOf(OpKind kind) {
  if (kind == OpKind::kWrite) return IBV_WC_RDMA_WRITE;
  return kind == OpKind::kRead ? IBV_WC_RDMA_READ : IBV_WC_SEND;
}

bool usesTarget(const Op& op) { return op.kind == OpKind::kWrite && op.window < 0; }

}  // namespace

Sender::Sender(Lane* lane, const Oceans* oceans, const Profile& profile, const StreamParams& params,
               Report* report)
    : lane_(lane),
      oceans_(oceans),
      profile_(profile),
      report_(report),
      stream_(params),
      rng_(params.seed ^ (0x5eed0000 + params.qp) ^ (params.from_client ? 1 : 0)),
      sink_(lane->sink.memory.data(), lane->sink.memory.size()),
      scratch_(lane->scratch.memory.data(), lane->scratch.memory.size()) {
  window_ready_.fill(true);
  current_ = stream_.next();
  following_ = stream_.next();
}

bool Sender::peerAllows(const Group& group) const {
  if (group.has_send && group.send_index >= peer_receives_) return false;
  for (const Op& op : group.ops) {
    if (usesTarget(op) && !target_.isFree(op.extent)) return false;
    if (op.window >= 0 && !window_ready_[static_cast<size_t>(op.window)]) return false;
  }
  return true;
}

bool Sender::pump() {
  const uint64_t before = sequence_;
  uint64_t list = rng_.between(1, 8);
  while (current_ && outstanding_.size() + current_->ops.size() <= lane_->cap.max_send_wr &&
         peerAllows(*current_) && prepare(*current_)) {
    current_ = std::exchange(following_, stream_.next());
    if (--list == 0) {
      flush();
      list = rng_.between(1, 8);
    }
  }
  flush();
  return sequence_ != before;
}

std::optional<std::vector<std::optional<Area>>> Sender::reserveSinks(const Group& group) {
  std::vector<std::optional<Area>> sinks(group.ops.size());
  size_t taken = 0;
  for (size_t i = 0; i < group.ops.size(); ++i) {
    const Op& op = group.ops[i];
    if (op.kind != OpKind::kRead) continue;
    const auto pieces = static_cast<unsigned>(rng_.between(1, lane_->max_read_sge));
    sinks[i] = sink_.scatter(rng_, op.size, pieces);
    if (sinks[i]) {
      ++taken;
      continue;
    }
    // Areas are released oldest first, so a group that doesn't fit as a whole must not keep
    // some: hand them back in the only order there is once nothing older is in use.
    while (taken-- > 0) sink_.cancelNewest();
    return std::nullopt;
  }
  return sinks;
}

bool Sender::prepare(const Group& group) {
  auto sinks = reserveSinks(group);
  if (!sinks) return false;
  size_t extents = 0;
  for (size_t i = 0; i < group.ops.size(); ++i) {
    const Op& op = group.ops[i];
    if (usesTarget(op)) {
      target_.occupy(op.extent);
      ++extents;
    }
    if (op.kind == OpKind::kSendInvalidate) window_ready_[static_cast<size_t>(op.window)] = false;
    prepareOp(group, i, &*sinks);
  }
  if (extents > 0) target_release_.emplace_back(group.send_index, extents);
  return true;
}

void Sender::prepareOp(const Group& group, size_t i, std::vector<std::optional<Area>>* sinks) {
  const Op& op = group.ops[i];
  Prepared& prepared = batch_.emplace_back();
  Outstanding record;
  record.op = op;
  record.sequence = sequence_++;
  prepared.wr = {};
  prepared.wr.wr_id = wrId(lane_->index, record.sequence, false);
  prepared.wr.opcode = toVerbs(op.kind);
  prepared.wr.sg_list = prepared.sge.data();
  prepared.wr.send_flags = pickFlags(group, i, &record);

  const bool relayed = i + 1 < group.ops.size() && group.ops[i + 1].relay_of >= 0;
  if (op.kind == OpKind::kRead) {
    for (const Piece& piece : (*sinks)[i]->pieces) {
      prepared.sge[static_cast<size_t>(prepared.wr.num_sge++)] =
          lane_->sink.sge(piece.offset, piece.length);
    }
    if (prepared.wr.num_sge == 0 && (!profile_.zero_sge || rng_.percent(50))) {
      prepared.sge[static_cast<size_t>(prepared.wr.num_sge++)] = lane_->sink.sge(0, 0);
    }
    if (!relayed) {
      record.sink = std::move((*sinks)[i]);
      record.sink_op = op;
    }
  } else if (op.relay_of >= 0) {
    const auto read = static_cast<size_t>(op.relay_of);
    gatherRelay(op, group.ops[read], *(*sinks)[read], &prepared);
    record.sink = std::move((*sinks)[read]);
    record.sink_op = group.ops[read];
  } else {
    gather(op, &prepared, &record);
  }
  aimAtPeer(op, &prepared.wr);
  count(op, prepared.wr.send_flags);
  outstanding_.push_back(std::move(record));
}

unsigned Sender::pickFlags(const Group& group, size_t i, Outstanding* record) {
  const Op& op = group.ops[i];
  unsigned flags = 0;
  // The last one of a group is always signalled: it retires the unsignalled ones before it.
  record->signalled = lane_->signal_all || i + 1 == group.ops.size() || rng_.percent(50);
  if (record->signalled && !lane_->signal_all) flags |= IBV_SEND_SIGNALED;
  const bool is_read = op.kind == OpKind::kRead;
  if (!profile_.ordered && !is_read && previous_is_read_) flags |= IBV_SEND_FENCE;
  previous_is_read_ = is_read;
  if (op.fence && (!is_read || profile_.fenced_reads)) flags |= IBV_SEND_FENCE;
  if (op.kind == OpKind::kSend || op.kind == OpKind::kSendInvalidate) {
    // A peer that waits for solicited events only must get one before this side has to wait for
    // it: credits, target memory and windows come only from a peer that's awake.
    const bool may_stall = !following_ || !following_->has_send || !peerAllows(*following_) ||
                           following_->send_index + 1 >= peer_receives_;
    if (may_stall || rng_.percent(30)) flags |= IBV_SEND_SOLICITED;
  }
  return flags;
}

void Sender::aimAtPeer(const Op& op, ibv_send_wr* wr) const {
  const PeerKeys& peer = lane_->peer;
  if (op.kind == OpKind::kSendInvalidate) {
    wr->invalidate_rkey = peer.windows[static_cast<size_t>(op.window)].rkey;
  }
  if (op.kind != OpKind::kWrite && op.kind != OpKind::kRead) return;
  RemoteRegion remote = peer.target;
  uint64_t offset = op.target;
  if (op.kind == OpKind::kRead && !op.read_back) {
    remote = peer.ocean;
    offset = op.source;
  } else if (op.window >= 0) {
    remote = peer.windows[static_cast<size_t>(op.window)];
  }
  wr->wr.rdma.remote_addr = remote.base + offset;
  wr->wr.rdma.rkey = remote.rkey;
}

void Sender::gather(const Op& op, Prepared* prepared, Outstanding* record) {
  if (op.size <= lane_->cap.max_inline_data && rng_.percent(50)) {
    gatherInline(op, prepared);
  } else if (op.size > kScratchLimit || !profile_.reuse ||
             (op.size <= kStraddleLimit && !profile_.straddle) || rng_.percent(60) ||
             !gatherScratch(op, prepared, record)) {
    gatherOcean(op, prepared);
  }
}

void Sender::gatherInline(const Op& op, Prepared* prepared) {
  uint8_t* data = prepared->inline_data.data();
  std::memcpy(data, oceans_->own.data() + op.source, op.size);
  const auto pieces = static_cast<unsigned>(rng_.between(1, std::min(4u, lane_->cap.max_send_sge)));
  for (uint32_t length : splitLength(rng_, op.size, pieces, false)) {
    // Inline data needs no MR: its lkey means nothing.
    prepared->sge[static_cast<size_t>(prepared->wr.num_sge++)] = {reinterpret_cast<uintptr_t>(data),
                                                                  length, 0xdeadbeef};
    data += length;
  }
  prepared->wr.send_flags |= IBV_SEND_INLINE;
}

void Sender::gatherOcean(const Op& op, Prepared* prepared) {
  const auto pieces = static_cast<unsigned>(rng_.between(1, lane_->cap.max_send_sge));
  uint64_t offset = op.source;
  if (op.size == 0 && !profile_.zero_sge) return;
  for (uint32_t length : splitLength(rng_, op.size, pieces, profile_.zero_sge)) {
    const bool shifted = rng_.percent(50);
    const uint64_t base = shifted ? oceans_->own_shifted_base : oceans_->own_base;
    const uint32_t lkey = shifted ? oceans_->own_shifted_mr->lkey : oceans_->own_mr->lkey;
    prepared->sge[static_cast<size_t>(prepared->wr.num_sge++)] = {base + offset, length, lkey};
    offset += length;
  }
}

bool Sender::gatherScratch(const Op& op, Prepared* prepared, Outstanding* record) {
  const auto pieces = static_cast<unsigned>(rng_.between(1, lane_->cap.max_send_sge));
  record->scratch = scratch_.scatter(rng_, op.size, pieces);
  if (!record->scratch) return false;
  fillArea(scratch_.at(0), *record->scratch, oceans_->own.data() + op.source);
  for (const Piece& piece : record->scratch->pieces) {
    prepared->sge[static_cast<size_t>(prepared->wr.num_sge++)] =
        lane_->scratch.sge(piece.offset, piece.length);
  }
  return true;
}

void Sender::gatherRelay(const Op& op, const Op& read, const Area& sink, Prepared* prepared) {
  // Both offsets count from the ocean's start; the sink holds it from the Read's source on.
  uint64_t skip = op.source - read.source;
  uint32_t left = op.size;
  for (const Piece& piece : sink.pieces) {
    if (skip >= piece.length) {
      skip -= piece.length;
      continue;
    }
    const auto used = static_cast<uint32_t>(std::min<uint64_t>(left, piece.length - skip));
    if (used == 0) break;
    prepared->sge[static_cast<size_t>(prepared->wr.num_sge++)] =
        lane_->sink.sge(piece.offset + skip, used);
    left -= used;
    skip = 0;
  }
}

void Sender::flush() {
  if (batch_.empty()) return;
  for (size_t i = 0; i + 1 < batch_.size(); ++i) batch_[i].wr.next = &batch_[i + 1].wr;
  ibv_send_wr* bad = nullptr;
  const int rc = ibv_post_send(lane_->id->qp, &batch_.front().wr, &bad);
  if (rc != 0) {
    fail("qp %u: ibv_post_send of a list of %zu: %s at wr_id %#llx (%zu outstanding of %u)",
         lane_->index, batch_.size(), errnoName(rc).c_str(),
         bad ? static_cast<unsigned long long>(bad->wr_id) : 0ull, outstanding_.size(),
         lane_->cap.max_send_wr);
  }
  ++report_->counters.lists;
  // Inline data belongs to the caller again as soon as the call returns.
  for (Prepared& prepared : batch_) prepared.inline_data.fill(kScribble);
  batch_.clear();
}

void Sender::count(const Op& op, unsigned flags) {
  Counters& counters = report_->counters;
  switch (op.kind) {
    case OpKind::kSend:
      ++counters.sends;
      break;
    case OpKind::kSendInvalidate:
      ++counters.sends_invalidate;
      break;
    case OpKind::kWrite:
      ++counters.writes;
      break;
    case OpKind::kRead:
      ++counters.reads;
      break;
  }
  if (flags & IBV_SEND_SOLICITED) ++counters.sends_solicited;
  if (flags & IBV_SEND_INLINE) ++counters.inlined;
  if (flags & IBV_SEND_FENCE) ++counters.fenced;
  if (!(flags & IBV_SEND_SIGNALED) && !lane_->signal_all) ++counters.unsignalled;
  if (op.kind != OpKind::kRead) counters.bytes_sent += op.size;
}

void Sender::complete(const ibv_wc& wc) {
  const uint64_t sequence = sequenceOf(wc.wr_id);
  if (wc.status != IBV_WC_SUCCESS) {
    fail("qp %u: send completion: %s", lane_->index, describe(wc).c_str());
  }
  auto signalled = std::find_if(outstanding_.begin(), outstanding_.end(),
                                [](const Outstanding& record) { return record.signalled; });
  if (signalled == outstanding_.end() || signalled->sequence != sequence) {
    fail("qp %u: completion of %llu, expected %llu", lane_->index,
         static_cast<unsigned long long>(sequence),
         signalled == outstanding_.end() ? ~0ull
                                         : static_cast<unsigned long long>(signalled->sequence));
  }
  if (wc.opcode != completionOf(signalled->op.kind) || wc.qp_num != lane_->id->qp->qp_num) {
    fail("qp %u: wrong completion: %s", lane_->index, describe(wc).c_str());
  }
  while (outstanding_.front().sequence != sequence) {
    retire(&outstanding_.front());
    outstanding_.pop_front();
  }
  retire(&outstanding_.front());
  outstanding_.pop_front();
}

void Sender::retire(Outstanding* record) {
  if (record->sink) {
    checkSink(*record);
    std::memset(sink_.at(record->sink->extent.begin), kBackground,
                record->sink->extent.end - record->sink->extent.begin);
    sink_.releaseOldest();
  }
  if (record->scratch) {
    for (const Piece& piece : record->scratch->pieces) {
      std::memset(scratch_.at(piece.offset), kScribble, piece.length);
    }
    scratch_.releaseOldest();
  }
}

void Sender::checkSink(const Outstanding& record) {
  const Op& read = record.sink_op;
  const Memory& ocean = read.from == DataFrom::kOwnOcean ? oceans_->own : oceans_->peer;
  auto bad = checkArea(sink_.at(0), *record.sink, ocean.data() + read.source, read.size);
  if (bad) {
    report_->mismatch(strf("qp %u: wr %llu: %s of %u bytes in %zu SGEs: %s", lane_->index,
                           static_cast<unsigned long long>(record.sequence),
                           read.read_back ? "read-back" : "Read", read.size,
                           record.sink->pieces.size(), bad->c_str()));
  }
  ++report_->counters.checked_reads;
  report_->counters.bytes_checked += read.size;
}

void Sender::onCredit(uint64_t receives_posted, uint64_t sends_processed) {
  peer_receives_ = std::max(peer_receives_, receives_posted);
  peer_processed_ = std::max(peer_processed_, sends_processed);
  while (!target_release_.empty() && target_release_.front().first < peer_processed_) {
    target_.releaseOldest(target_release_.front().second);
    target_release_.pop_front();
  }
}

void Sender::onWindowKey(unsigned window, uint32_t rkey) {
  if (window >= kWindows) fail("qp %u: key for window %u", lane_->index, window);
  lane_->peer.windows[window].rkey = rkey;
  window_ready_[window] = true;
}

std::string Sender::dump() const {
  std::string text = strf(
      "  sender: next wr %llu, peer has posted %llu receives and processed %llu sends",
      static_cast<unsigned long long>(sequence_), static_cast<unsigned long long>(peer_receives_),
      static_cast<unsigned long long>(peer_processed_));
  if (current_) {
    text += strf("\n  waiting: group %llu, send %llu, %zu wrs, peer %s",
                 static_cast<unsigned long long>(current_->index),
                 static_cast<unsigned long long>(current_->send_index), current_->ops.size(),
                 peerAllows(*current_) ? "allows it" : "does not allow it");
  }
  text += strf("\n  outstanding: %zu", outstanding_.size());
  for (size_t i = 0; i < std::min<size_t>(outstanding_.size(), 8); ++i) {
    const Outstanding& record = outstanding_[i];
    text += strf("\n    wr %llu %s%s%s size %u", static_cast<unsigned long long>(record.sequence),
                 opcodeName(completionOf(record.op.kind)), record.op.fence ? " fenced" : "",
                 record.signalled ? "" : " unsignalled", record.op.size);
  }
  return text;
}

}  // namespace kiwarp::vm
