// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cm.h"
#include "common/verbs.h"
#include "verify/op_stream.h"

namespace kiwarp::vm {

// What this side's device and provider can do; `can` concerns what it sends, `serves` what it
// lets the peer do.
struct Profile {
  // Whether this side posts Reads; it always serves the peer's.
  bool reads = true;
  // RDMA Reads of no bytes.
  bool zero_reads = true;
  // Short messages out of memory that straddles a page (siw garbles them).
  bool straddle = true;
  bool can_invalidate = true;
  // A process's regions are not the peer's to invalidate (siw allows it).
  bool serves_invalidate = false;
  // The receive's completion says what was invalidated (siw's provider keeps it to itself).
  bool tells_invalidate = true;
  // MRs whose addresses differ from the memory's.
  bool iova = true;
  // RDMA Reads with a fence.
  bool fenced_reads = true;
  // Completions come in the order of posting even when a Read lies between (siw's do not unless
  // what follows the Read is fenced).
  bool ordered = true;
  // Source buffers change as soon as their work request has completed (siw completes before TCP has
  // let go of them). Without this, messages come only from memory that never changes.
  bool reuse = true;
  // SGEs of no length inside a list.
  bool zero_sge = true;
  uint32_t inline_data = 256;
  uint32_t max_sge = 16;
};

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
  std::array<RemoteRegion, kWindows> windows;
  bool known = false;
};

struct Counters {
  uint64_t sends = 0, sends_solicited = 0, sends_invalidate = 0, writes = 0, reads = 0;
  uint64_t inlined = 0, unsignalled = 0, fenced = 0, lists = 0;
  uint64_t received = 0, checked_writes = 0, checked_reads = 0;
  uint64_t bytes_sent = 0, bytes_checked = 0;
  uint64_t mismatches = 0, lost_wakeups = 0;
  uint64_t wakeups = 0, flushed = 0;

  uint64_t posted() const { return sends + sends_invalidate + writes + reads; }
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

// One connection and the memory that belongs to it.
struct Lane {
  uint32_t index = 0;
  // Verbs objects die in the reverse order: the QP before its CQs and MRs.
  Cq send_cq_owned, recv_cq_owned;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  Region target, sink, scratch, inbox;
  Memory window_memory;
  std::array<Mr, kWindows> windows;
  CmId id;
  ibv_qp_cap cap{};
  uint32_t max_read_sge = 1;
  bool signal_all = false;
  bool established = false;
  bool disconnected = false;
  PeerKeys peer;

  uint64_t windowBase(unsigned window) const;
};

constexpr uint64_t kRecvBit = uint64_t{1} << 63;
constexpr unsigned kLaneShift = 48;

inline uint64_t wrId(uint32_t lane, uint64_t sequence, bool recv) {
  return (recv ? kRecvBit : 0) | (uint64_t{lane} << kLaneShift) | sequence;
}
inline uint32_t laneOf(uint64_t wr_id) {
  return static_cast<uint32_t>((wr_id & ~kRecvBit) >> kLaneShift);
}
inline uint64_t sequenceOf(uint64_t wr_id) { return wr_id & ((uint64_t{1} << kLaneShift) - 1); }

}  // namespace kiwarp::vm
