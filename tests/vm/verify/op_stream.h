// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/arena.h"
#include "common/random.h"
#include "verify/words.h"

namespace kiwarp::vm {

enum class OpKind {
  kSend,
  kSendInvalidate,
  kSendImmediate,  // without payload
  kWrite,
  kWriteImmediate,
  kRead,
  kAtomic,
};

// It takes one of the peer's receives.
constexpr bool takesReceive(OpKind kind) {
  return kind == OpKind::kSend || kind == OpKind::kSendInvalidate ||
         kind == OpKind::kSendImmediate || kind == OpKind::kWriteImmediate;
}
constexpr bool isWrite(OpKind kind) {
  return kind == OpKind::kWrite || kind == OpKind::kWriteImmediate;
}
// Its completion comes with something in this side's memory.
constexpr bool bringsData(OpKind kind) { return kind == OpKind::kRead || kind == OpKind::kAtomic; }

enum class DataFrom {
  kOwnOcean,   // payload is a slice of the sender's ocean
  kPeerOcean,  // payload was, or is to be, read from the peer's ocean
};

// One work request as both peers know it; how it's gathered, signalled or inlined is the
// sender's own business and not part of it.
struct Op {
  OpKind kind;
  uint32_t size;
  DataFrom from;
  uint64_t source;  // offset in that ocean
  // Writes and read-backs: where in the peer's target region, with the guards around it. If they
  // go through a window: what of the small region it covers, and where in that.
  Extent extent;
  uint64_t target;
  int window = -1;         // a Write into, or a Read from, this small region
  int ends = -1;           // the small region that is used no more once this has arrived
  int word = -1;           // an atomic operation on, or a Read of, this word
  Atomic atomic;           // that operation; a Read brings what the one before it has left
  uint32_t immediate = 0;  // of those that have one
  int relay_of = -1;       // the payload is what this earlier Read of the group brought
  bool read_back = false;  // a Read of what an earlier Write of the group placed
  bool fence = false;
  // Of those that take a receive. The sender may have to ask for an event of others, too.
  bool solicited = false;
};

// Operations that are posted in order and that the peer checks when the closing one arrives, which
// takes a receive ("Send" stands for all that do). A group of Reads and atomic operations has no
// Send: only its sender checks it.
struct Group {
  uint64_t index = 0;
  uint64_t send_index = 0;
  std::vector<Op> ops;
  bool has_send = false;
  bool last = false;
};

constexpr unsigned kWindows = 4;
constexpr uint64_t kWindowSize = 8192;
constexpr uint64_t kGuard = 64;
constexpr uint64_t kStraddleLimit = 256;
constexpr uint64_t kPage = 4096;

struct StreamParams {
  uint64_t seed = 0;
  uint32_t qp = 0;
  bool from_client = false;
  uint64_t ops = 0;
  uint64_t max_size = 0;
  uint64_t ocean_size = 0;
  bool reads = true;
  bool zero_reads = true;
  bool straddle = true;
  bool relays = true;
  bool invalidate = true;
  bool windows = false;
  bool immediates = false;
  bool atomics = false;
  // The longest Send, if that is less than the longest message.
  uint64_t send_limit = UINT64_MAX;
};

// What the window covers of its small region in its n-th use.
Extent windowRange(const StreamParams& params, unsigned window, uint64_t use);
// Those of type 1 are not the peer's to invalidate.
constexpr bool isTypeOne(unsigned window) { return window == 0; }

// Memory for messages of up to max_size, sized so that the largest group always fits once the
// earlier ones are done.
uint64_t regionSize(uint64_t max_size);

// The operations of one direction of one QP, a pure function of its parameters.
class OpStream {
 public:
  explicit OpStream(const StreamParams& params);
  // Empty after the last group.
  std::optional<Group> next();
  // As the groups so far leave them.
  const Words& words() const { return words_; }

 private:
  uint32_t pickSize(uint64_t limit);
  // The size of something that is read back or relayed.
  uint32_t pickReadSize(uint64_t limit);
  uint32_t boundarySize();
  uint64_t pickSource(uint32_t size);
  uint64_t unstraddled(uint64_t offset, uint64_t size) const;
  uint64_t nextLimit(const Group& group) const;
  Op makeSend(uint64_t limit);
  Op makeSendOf(uint32_t size);
  Op makeWrite(uint64_t limit);
  // What closes a group: a Send, or another message that takes a receive.
  Op makeClosing(uint64_t limit);
  // Turns a Send into a Write to the next place in the target region.
  Op place(Op op);
  Op makeRead(uint64_t limit);
  Op makeAtomic(unsigned word);
  void addWindow(Group* group);
  void addWindowWrite(Group* group, unsigned window);
  Op makeEndOfWindow(unsigned window);
  void addWrites(Group* group);
  void addWord(Group* group);
  void addReads(Group* group);
  void addReadBack(Group* group);
  void addRelay(Group* group);

  StreamParams params_;
  Rng rng_;
  RingCursor target_;
  uint64_t made_ = 0;
  uint64_t groups_ = 0;
  uint64_t sends_ = 0;
  unsigned window_ = 0;
  std::array<uint64_t, kWindows> uses_{};
  Words words_;
  unsigned word_ = 0;
};

}  // namespace kiwarp::vm
