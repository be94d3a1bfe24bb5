// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
// The queue pair above the stream: registered memory, posted work, and its results.
#pragma once

#include <array>
#include <compare>
#include <map>
#include <set>
#include <vector>

#include "config.h"

extern "C" {
#include "stream/counters.h"
#include "stream/ops.h"
#include "stream/rx.h"
#include "stream/tx_pool.h"
}

namespace rx {

enum RegionId : u8 {
  kReadWrite,  // one extent
  kReadOnly,   // for the peer
  kReceive,    // local write only
  kOtherPd,    // all rights, but of another protection domain
  kScattered,  // three extents
  kTop,        // ends at the last of all addresses
  kSink,       // of Reads: local write only, scattered
  kLarge,
  kBindable,  // local write only, scattered: what the windows are parts of
  kRegions,
  kWindow = kRegions,  // type 2, of this stream, all rights
  kWindowZeroBased,    // type 2, of this stream, its addresses from 0
  kWindowReadOnly,     // type 1: of all streams; the whole region
  kWindowShared,       // type 1, all rights
  kWindowElsewhere,    // type 2, all rights, of another stream
  kWindowOtherPd,      // all rights, but of another protection domain
  kWindowUnbound,
  kStags,
};

// Of a region or a window.
u32 stagOf(u8 id);
u64 baseOf(u8 id);
u64 lengthOf(u8 id);

// The Read that is posted as number i.
kiwarp_sge readSink(unsigned i);

enum class What : u8 {
  kReceived,
  kDone,
  kInvalidated,
  kReadInvalidated,
  kLocal,
  kFailed,
  kClosing,
  kEnded
};

struct Event {
  What what;
  u64 a = 0, b = 0, c = 0;
  auto operator<=>(const Event&) const = default;
};

// One stream, started on `tcp`, with its struct kw_stream_ops.
class QueuePair {
 public:
  QueuePair(const Config& config, shim::Tcp& tcp);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  kw_stream stream{};
  kw_counters counters{};
  std::vector<Event> events;
  bool failed = false;
  bool ended = false;
  // The peer's stream arrives, and a window was bound or invalidated meanwhile.
  bool arriving = false;
  bool local_meanwhile = false;

  // The invariants while the stream is not in the middle of something.
  void checkLegal() const;
  // Every region's bytes.
  static shim::Bytes memory();
  // Nothing was written to which the peer has no right.
  void checkUntouched() const;
  u64 count(kw_counter c) const { return counters.v[c]; }

  // struct kw_stream_ops
  bool nextWqe(kw_wqe* w);
  bool wqesLeft() const;
  void wqeDone(u32 index, u16 status);
  void zcopyStart(u32 index);
  void zcopyDone(u32 index, bool good);
  int localOp(const kw_wqe* w);
  int nextRecv(kw_recv* r);
  void recvDone(const kw_recv* r, u16 status, u32 len, u64 flags);
  void recvImm(const kw_recv* r, u32 len, u64 flags);
  kw_mem* mem(u32 stag);
  int invalidate(u32 stag, bool remote);
  void fail(kw_fail why);
  void end();

  static QueuePair& of(kw_stream* s);

 private:
  int invalidateRemotely(kw_mem* m);

  const Config& config_;
  kw_domain domain_{};
  std::array<kw_mem, kStags> mems_{};
  std::map<u8, shim::Bytes> at_invalidation_;  // by RegionId
  // Which work requests are the first Send, and the Send with Immediate alone.
  unsigned firstSend() const;
  unsigned immediateAlone() const;

  unsigned next_wqe_ = 0;
  unsigned next_recv_ = 0;
  bool bound_ = false;  // kWindowUnbound is, or was
  bool recv_taken_ = false;
  std::array<kiwarp_sge, 4> recv_sge_{};
  std::vector<bool> wqe_done_;
  std::set<u32> zcopy_;
  shim::Bytes at_failure_;
};

}  // namespace rx
