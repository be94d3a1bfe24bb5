// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/sender.h"

#include <algorithm>
#include <cstring>

#include "common/error.h"
#include "common/pattern.h"

namespace kiwarp::vm {
namespace {

constexpr uint64_t kScratchLimit = 64 << 10;

ibv_wr_opcode toVerbs(const Op& op) {
  switch (op.kind) {
    case OpKind::kSend:
      return IBV_WR_SEND;
    case OpKind::kSendInvalidate:
      return IBV_WR_SEND_WITH_INV;
    case OpKind::kSendImmediate:
      return IBV_WR_SEND_WITH_IMM;
    case OpKind::kWrite:
      return IBV_WR_RDMA_WRITE;
    case OpKind::kWriteImmediate:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case OpKind::kRead:
      return IBV_WR_RDMA_READ;
    case OpKind::kAtomic:
      return op.atomic.swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  return IBV_WR_SEND;
}

ibv_wc_opcode completionOf(const Op& op) {
  if (isWrite(op.kind)) return IBV_WC_RDMA_WRITE;
  if (op.kind == OpKind::kAtomic) return op.atomic.swap ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD;
  return op.kind == OpKind::kRead ? IBV_WC_RDMA_READ : IBV_WC_SEND;
}

bool usesTarget(const Op& op) { return isWrite(op.kind) && op.window < 0; }

const char* describe(const Op& op) {
  if (op.kind == OpKind::kAtomic) return op.atomic.swap ? "CmpSwap" : "FetchAdd";
  if (op.word >= 0) return "Read of a word";
  if (op.window >= 0) return "read-back through a window";
  return op.read_back ? "read-back" : "Read";
}

// That of a group with a Send, which the peer looks at when the Send has come; -1 if there is none.
int wordOf(const Group& group) { return group.has_send ? group.ops.front().word : -1; }

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
  current_ = stream_.next();
  following_ = stream_.next();
}

bool Sender::peerIsDoneWith(const Op& op) const {
  if (usesTarget(op) && !target_.isFree(op.extent)) return false;
  return op.window < 0 || window_ready_[static_cast<size_t>(op.window)];
}

bool Sender::peerAllows(const Group& group) const {
  if (group.has_send && group.send_index >= peer_receives_) return false;
  const int word = wordOf(group);
  if (word >= 0 && word_used_[static_cast<size_t>(word)]) return false;
  return std::all_of(group.ops.begin(), group.ops.end(),
                     [this](const Op& op) { return peerIsDoneWith(op); });
}

bool Sender::pump() {
  const uint64_t before = sequence_;
  pumpLocal();
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

// Without a flush(): the peer's operations may follow in the same list.
void Sender::pumpLocal() {
  while (!local_.empty() && outstanding_.size() < lane_->cap.max_send_wr) {
    prepareLocal(local_.front());
    local_.pop_front();
  }
}

void Sender::prepareLocal(const LocalWork& work) {
  const bool bind = work.wr.opcode == IBV_WR_BIND_MW;
  Outstanding record;
  record.op = {};
  record.opcode = bind ? IBV_WC_BIND_MW : IBV_WC_LOCAL_INV;
  record.sequence = sequence_++;
  record.done = work.done;
  // A binding always is: the peer waits for it.
  record.signalled = lane_->signal_all || bind || rng_.percent(50);
  ibv_send_wr wr = work.wr;
  wr.wr_id = wrId(lane_->index, record.sequence, false);
  if (record.signalled && !lane_->signal_all) wr.send_flags |= IBV_SEND_SIGNALED;
  outstanding_.push_back(std::move(record));
  if (bind && wr.bind_mw.mw->type == IBV_MW_TYPE_1) {
    bindTypeOne(wr);
  } else {
    batch_.emplace_back().wr = wr;
  }
}

// Such a window has a call of its own.
void Sender::bindTypeOne(const ibv_send_wr& wr) {
  flush();
  ibv_mw_bind bind{};
  bind.wr_id = wr.wr_id;
  bind.send_flags = wr.send_flags;
  bind.bind_info = wr.bind_mw.bind_info;
  const int rc = ibv_bind_mw(lane_->id->qp, wr.bind_mw.mw, &bind);
  if (rc != 0) fail("qp %u: ibv_bind_mw: %s", lane_->index, errnoName(rc).c_str());
}

std::optional<std::vector<std::optional<Area>>> Sender::reserveSinks(const Group& group) {
  std::vector<std::optional<Area>> sinks(group.ops.size());
  size_t taken = 0;
  for (size_t i = 0; i < group.ops.size(); ++i) {
    const Op& op = group.ops[i];
    if (!bringsData(op.kind)) continue;
    const uint32_t most = op.kind == OpKind::kAtomic ? 1 : lane_->max_read_sge;
    const auto pieces = static_cast<unsigned>(rng_.between(1, most));
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
  occupy(group);
  for (size_t i = 0; i < group.ops.size(); ++i) prepareOp(group, i, &*sinks);
  return true;
}

void Sender::occupy(const Group& group) {
  size_t extents = 0;
  for (const Op& op : group.ops) {
    if (usesTarget(op)) {
      target_.occupy(op.extent);
      ++extents;
    }
    if (op.ends >= 0) window_ready_[static_cast<size_t>(op.ends)] = false;
  }
  const int word = wordOf(group);
  if (word >= 0) word_used_[static_cast<size_t>(word)] = true;
  if (extents > 0 || word >= 0) releases_.push_back({group.send_index, extents, word});
}

void Sender::prepareOp(const Group& group, size_t i, std::vector<std::optional<Area>>* sinks) {
  const Op& op = group.ops[i];
  Prepared& prepared = batch_.emplace_back();
  Outstanding record;
  record.op = op;
  record.sequence = sequence_++;
  prepared.wr = {};
  prepared.wr.wr_id = wrId(lane_->index, record.sequence, false);
  record.opcode = completionOf(op);
  prepared.wr.opcode = toVerbs(op);
  prepared.wr.sg_list = prepared.sge.data();
  prepared.wr.send_flags = pickFlags(group, i, &record);

  const bool relayed = i + 1 < group.ops.size() && group.ops[i + 1].relay_of >= 0;
  if (bringsData(op.kind)) {
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
  const bool is_read = bringsData(op.kind);
  if (!profile_.ordered && !is_read && previous_is_read_) flags |= IBV_SEND_FENCE;
  previous_is_read_ = is_read;
  if (op.fence && (!is_read || profile_.fenced_reads)) flags |= IBV_SEND_FENCE;
  if (takesReceive(op.kind)) {
    // A peer that waits for solicited events only must get one before this side has to wait for
    // it: credits, target memory and windows come only from a peer that's awake.
    const bool may_stall = !following_ || !following_->has_send || !peerAllows(*following_) ||
                           following_->send_index + 1 >= peer_receives_;
    if (may_stall || op.solicited) flags |= IBV_SEND_SOLICITED;
  }
  return flags;
}

RemoteRegion Sender::aim(const Op& op) const {
  const PeerKeys& peer = lane_->peer;
  if (op.window >= 0) {
    const RemoteRegion& window = peer.windows[static_cast<size_t>(op.window)];
    return {window.base + op.target, window.rkey};
  }
  if (op.word >= 0) {
    return {peer.words.base + wordOffset(static_cast<unsigned>(op.word)), peer.words.rkey};
  }
  if (op.kind == OpKind::kRead && !op.read_back) {
    return {peer.ocean.base + op.source, peer.ocean.rkey};
  }
  return {peer.target.base + op.target, peer.target.rkey};
}

void Sender::aimAtPeer(const Op& op, ibv_send_wr* wr) const {
  const RemoteRegion at = aim(op);
  switch (op.kind) {
    case OpKind::kSendInvalidate:
      wr->invalidate_rkey = lane_->peer.windows[static_cast<size_t>(op.ends)].rkey;
      break;
    case OpKind::kWriteImmediate:
      wr->imm_data = op.immediate;
      [[fallthrough]];
    case OpKind::kWrite:
    case OpKind::kRead:
      wr->wr.rdma.remote_addr = at.base;
      wr->wr.rdma.rkey = at.rkey;
      break;
    case OpKind::kAtomic:
      wr->wr.atomic.remote_addr = at.base;
      wr->wr.atomic.rkey = at.rkey;
      wr->wr.atomic.compare_add = op.atomic.compare_add;
      wr->wr.atomic.swap = op.atomic.swap_value;
      break;
    case OpKind::kSendImmediate:
      wr->imm_data = op.immediate;
      break;
    case OpKind::kSend:
      break;
  }
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
    case OpKind::kSendImmediate:
      ++counters.sends_immediate;
      break;
    case OpKind::kWrite:
      ++counters.writes;
      break;
    case OpKind::kWriteImmediate:
      ++counters.writes_immediate;
      break;
    case OpKind::kRead:
      ++counters.reads;
      if (op.window >= 0) ++counters.window_reads;
      break;
    case OpKind::kAtomic:
      ++counters.atomics;
      break;
  }
  if (flags & IBV_SEND_SOLICITED) ++counters.sends_solicited;
  if (flags & IBV_SEND_INLINE) ++counters.inlined;
  if (flags & IBV_SEND_FENCE) ++counters.fenced;
  if (!(flags & IBV_SEND_SIGNALED) && !lane_->signal_all) ++counters.unsignalled;
  if (!bringsData(op.kind)) counters.bytes_sent += op.size;
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
  if (wc.opcode != signalled->opcode || wc.qp_num != lane_->id->qp->qp_num) {
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
  if (record->done) record->done();
}

const uint8_t* Sender::expectedData(const Op& op) const {
  if (op.kind == OpKind::kAtomic) return reinterpret_cast<const uint8_t*>(&op.atomic.before);
  if (op.word >= 0) return reinterpret_cast<const uint8_t*>(&op.atomic.after);
  const Memory& ocean = op.from == DataFrom::kOwnOcean ? oceans_->own : oceans_->peer;
  return ocean.data() + op.source;
}

void Sender::checkSink(const Outstanding& record) {
  const Op& read = record.sink_op;
  auto bad = checkArea(sink_.at(0), *record.sink, expectedData(read), read.size);
  if (bad) {
    report_->mismatch(strf("qp %u: wr %llu: %s of %u bytes in %zu SGEs: %s", lane_->index,
                           static_cast<unsigned long long>(record.sequence), describe(read),
                           read.size, record.sink->pieces.size(), bad->c_str()));
  }
  Counters& counters = report_->counters;
  ++(read.kind == OpKind::kAtomic ? counters.checked_atomics : counters.checked_reads);
  counters.bytes_checked += read.size;
}

void Sender::onCredit(uint64_t receives_posted, uint64_t sends_processed) {
  peer_receives_ = std::max(peer_receives_, receives_posted);
  peer_processed_ = std::max(peer_processed_, sends_processed);
  while (!releases_.empty() && releases_.front().send_index < peer_processed_) {
    const Release& release = releases_.front();
    target_.releaseOldest(release.extents);
    if (release.word >= 0) word_used_[static_cast<size_t>(release.word)] = false;
    releases_.pop_front();
  }
}

void Sender::onWindowKey(unsigned window, const RemoteRegion& region) {
  if (window >= kWindows) fail("qp %u: key for window %u", lane_->index, window);
  lane_->peer.windows[window] = region;
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
                 opcodeName(record.opcode), record.op.fence ? " fenced" : "",
                 record.signalled ? "" : " unsignalled", record.op.size);
  }
  return text;
}

}  // namespace kiwarp::vm
