// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cm.h"
#include "common/verbs.h"
#include "verify/op_stream.h"
#include "verify/profile.h"

namespace kiwarp::vm {

struct Region {
  Memory memory;
  Mr mr;
  uint64_t base = 0;  // the address that SGEs and the peer use for the first byte

  ibv_sge sge(size_t offset, uint32_t length) const { return {base + offset, length, mr->lkey}; }
};

struct RemoteRegion {
  uint64_t base = 0;
  uint32_t rkey = 0;
};

struct PeerKeys {
  RemoteRegion ocean;
  RemoteRegion target;
  RemoteRegion words;
  std::array<RemoteRegion, kWindows> windows;
  bool known = false;
};

struct Counters {
  uint64_t sends = 0, sends_solicited = 0, sends_invalidate = 0, sends_immediate = 0;
  uint64_t writes = 0, writes_immediate = 0, reads = 0, atomics = 0;
  uint64_t inlined = 0, unsignalled = 0, fenced = 0, lists = 0;
  uint64_t received = 0, received_solicited = 0, checked_writes = 0, checked_reads = 0,
           checked_atomics = 0;
  uint64_t bytes_sent = 0, bytes_checked = 0;
  uint64_t binds = 0, window_reads = 0, invalidated_here = 0;
  uint64_t shared = 0, limits = 0, resized = 0;
  uint64_t mismatches = 0, lost_wakeups = 0;
  uint64_t wakeups = 0, flushed = 0;

  // Those that take a receive of the peer's.
  uint64_t messages() const {
    return sends + sends_invalidate + sends_immediate + writes_immediate;
  }
  uint64_t allWrites() const { return writes + writes_immediate; }
  uint64_t posted() const { return messages() + writes + reads + atomics; }
};

class Report {
 public:
  Counters counters;
  // Prints the first few and counts all.
  void mismatch(const std::string& what);
};

// Oceans are one per process: both registrations of ours lie over the same memory.
struct Oceans {
  Memory own;
  Memory peer;
  Mr own_mr;
  Mr own_shifted_mr;
  uint64_t own_base = 0;
  uint64_t own_shifted_base = 0;
};

class SharedReceives;

// One connection and the memory that belongs to it.
struct Lane {
  uint32_t index = 0;
  // Verbs objects die in the reverse order: the QP before its CQs and MRs.
  Cq send_cq_owned, recv_cq_owned;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  Region target, sink, scratch, inbox, words;
  // Where it takes its receives from, if not from its own queue.
  SharedReceives* shared = nullptr;
  CmId id;
  ibv_qp_cap cap{};
  uint32_t max_read_sge = 1;
  bool signal_all = false;
  bool established = false;
  bool disconnected = false;
  // The event of those that share receives has come: there are no more completions of theirs.
  bool last_receive = false;
  PeerKeys peer;
};

constexpr uint64_t kRecvBit = uint64_t{1} << 63;
// The receive was any lane's: its sequence is a place in the shared queue's memory.
constexpr uint64_t kSharedBit = uint64_t{1} << 62;
constexpr unsigned kLaneShift = 48;

inline uint64_t wrId(uint32_t lane, uint64_t sequence, bool recv) {
  return (recv ? kRecvBit : 0) | (uint64_t{lane} << kLaneShift) | sequence;
}
inline uint32_t laneOf(uint64_t wr_id) {
  return static_cast<uint32_t>((wr_id & ~kRecvBit) >> kLaneShift);
}
inline uint64_t sequenceOf(uint64_t wr_id) { return wr_id & ((uint64_t{1} << kLaneShift) - 1); }

}  // namespace kiwarp::vm
