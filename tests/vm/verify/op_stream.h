// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/arena.h"
#include "common/random.h"

namespace kiwarp::vm {

enum class OpKind { kSend, kSendInvalidate, kWrite, kRead };

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
  // Writes and read-backs: where in the peer's target region, with the guards around it.
  Extent extent;
  uint64_t target;
  int window = -1;         // a Write into, or the invalidation of, this small region
  int relay_of = -1;       // the payload is what this earlier Read of the group brought
  bool read_back = false;  // a Read of what an earlier Write of the group placed
  bool fence = false;
};

// Operations that are posted in order and that the peer checks when the closing Send arrives. A
// group of Reads has no Send: only the reader checks it.
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
};

// Memory for messages of up to max_size, sized so that the largest group always fits once the
// earlier ones are done.
uint64_t regionSize(uint64_t max_size);

// The operations of one direction of one QP, a pure function of its parameters.
class OpStream {
 public:
  explicit OpStream(const StreamParams& params);
  // Empty after the last group.
  std::optional<Group> next();

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
  // Turns a Send into a Write to the next place in the target region.
  Op place(Op op);
  Op makeRead(uint64_t limit);
  void addInvalidation(Group* group);
  void addWrites(Group* group);
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
};

}  // namespace kiwarp::vm
