// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/op_stream.h"

#include <algorithm>
#include <array>

namespace kiwarp::vm {
namespace {

constexpr uint64_t kLargeShare = 4;
constexpr uint64_t kSmallLimit = 4096;

}  // namespace

uint64_t regionSize(uint64_t max_size) {
  // A group holds less than two large messages, and wrapping wastes less than one more.
  return (3 * max_size + (1 << 20) + 4095) & ~uint64_t{4095};
}

OpStream::OpStream(const StreamParams& params)
    : params_(params),
      rng_(params.seed * 1000003 + uint64_t{params.qp} * 2 + (params.from_client ? 1 : 0)),
      target_(regionSize(params.max_size)) {}

uint32_t OpStream::boundarySize() {
  // Pages, and multiples of what one TCP segment carries at the usual MTUs (IPv4 and IPv6, with
  // time stamps, less the FPDU's own bytes): where an off-by-one would be made.
  static constexpr std::array<uint32_t, 9> kUnits = {4096, 1428, 1448,  1408, 8928,
                                                     8948, 1220, 64768, 65536};
  const uint64_t unit = kUnits[rng_.below(kUnits.size())];
  const uint64_t times = unit > 60000 ? rng_.between(1, 2) : rng_.between(1, 6);
  return static_cast<uint32_t>(unit * times + 28 - rng_.below(57));
}

uint32_t OpStream::pickSize(uint64_t limit) {
  uint64_t size = 0;
  const uint64_t roll = rng_.below(100);
  if (roll < 4) {
    size = 0;
  } else if (roll < 16) {
    size = rng_.between(1, 16);
  } else if (roll < 34) {
    size = rng_.between(1, 256);
  } else if (roll < 62) {
    size = boundarySize();
  } else {
    // Logarithmic: each power of two is as likely as the next.
    const unsigned bits = roll < 93 ? 16 : 40;
    const uint64_t top = std::min<uint64_t>(uint64_t{1} << bits, params_.max_size);
    unsigned width = 1;
    while ((uint64_t{1} << width) < top) ++width;
    size = rng_.next() & ((uint64_t{1} << rng_.between(1, width)) - 1);
  }
  // A size above the limit is drawn anew below it rather than clamped, which would make the
  // limit itself by far the most frequent size.
  return static_cast<uint32_t>(size <= limit ? size : rng_.below(limit + 1));
}

uint64_t OpStream::unstraddled(uint64_t offset, uint64_t size) const {
  const bool straddles = offset / kPage != (offset + size) / kPage;
  if (params_.straddle || size > kStraddleLimit || !straddles) return offset;
  return offset / kPage * kPage;
}

uint64_t OpStream::pickSource(uint32_t size) {
  return unstraddled(rng_.below(params_.ocean_size - size + 1), size);
}

uint64_t OpStream::nextLimit(const Group& group) const {
  const uint64_t threshold = params_.max_size / kLargeShare;
  const bool had_large = std::any_of(group.ops.begin(), group.ops.end(),
                                     [&](const Op& op) { return op.size > threshold; });
  return had_large ? std::min(kSmallLimit, params_.max_size) : params_.max_size;
}

uint32_t OpStream::pickReadSize(uint64_t limit) {
  const uint32_t size = pickSize(limit);
  return size == 0 && !params_.zero_reads ? 1 : size;
}

Op OpStream::makeSend(uint64_t limit) {
  return makeSendOf(pickSize(std::min(limit, params_.send_limit)));
}

Op OpStream::makeSendOf(uint32_t size) {
  Op op{};
  op.kind = OpKind::kSend;
  op.size = size;
  op.from = DataFrom::kOwnOcean;
  op.source = pickSource(op.size);
  return op;
}

Op OpStream::makeWrite(uint64_t limit) { return place(makeSendOf(pickSize(limit))); }

Op OpStream::makeClosing(uint64_t limit) {
  if (!params_.immediates || rng_.percent(60)) return makeSend(limit);
  const bool write = rng_.percent(50);
  Op op = write ? makeWrite(limit) : makeSendOf(0);
  op.kind = write ? OpKind::kWriteImmediate : OpKind::kSendImmediate;
  op.immediate = static_cast<uint32_t>(rng_.next());
  return op;
}

Op OpStream::place(Op op) {
  op.kind = OpKind::kWrite;
  const uint64_t shift = rng_.below(kGuard);
  op.extent = target_.take(op.size + shift + 2 * kGuard);
  op.target = op.extent.begin + kGuard + shift;
  return op;
}

Op OpStream::makeRead(uint64_t limit) {
  Op op = makeSendOf(pickReadSize(limit));
  op.kind = OpKind::kRead;
  op.from = DataFrom::kPeerOcean;
  return op;
}

Op OpStream::makeAtomic(unsigned word) {
  Op op{};
  op.kind = OpKind::kAtomic;
  op.size = kWordSize;
  op.word = static_cast<int>(word);
  op.atomic = words_.draw(&rng_, word);
  return op;
}

Extent windowRange(const StreamParams& params, unsigned window, uint64_t use) {
  if (!params.windows) return {kGuard, kWindowSize - kGuard};
  Rng rng(params.seed ^ uint64_t{params.qp} << 32 ^ uint64_t{params.from_client} << 48 ^
          (use * kWindows + window) << 4);
  // It begins and ends anywhere in a page, and often covers parts of two.
  const uint64_t begin = rng.between(kGuard, kWindowSize / 2);
  return {begin, rng.between(begin + 1, kWindowSize - kGuard)};
}

void OpStream::addWindowWrite(Group* group, unsigned window) {
  const Extent range = windowRange(params_, window, uses_[window]++);
  const uint64_t length = range.end - range.begin;
  // All of the window, to both of its ends, is as right as any part.
  const bool whole = params_.windows && rng_.percent(30);
  Op write = makeSendOf(whole ? static_cast<uint32_t>(length) : pickSize(length));
  write.kind = OpKind::kWrite;
  write.window = static_cast<int>(window);
  write.extent = range;
  write.target = rng_.below(length - write.size + 1);
  group->ops.push_back(write);
}

Op OpStream::makeEndOfWindow(unsigned window) {
  const bool by_peer =
      !params_.windows || (params_.invalidate && !isTypeOne(window) && rng_.percent(60));
  Op end = by_peer ? makeSend(kSmallLimit) : makeClosing(kSmallLimit);
  if (by_peer) end.kind = OpKind::kSendInvalidate;
  end.ends = static_cast<int>(window);
  return end;
}

void OpStream::addWindow(Group* group) {
  const unsigned window = window_;
  window_ = (window_ + 1) % kWindows;
  addWindowWrite(group, window);
  const bool read_back = params_.windows && params_.reads && rng_.percent(40) &&
                         (params_.zero_reads || group->ops.back().size > 0);
  if (read_back) {
    Op read = group->ops.back();
    read.kind = OpKind::kRead;
    read.read_back = true;
    group->ops.push_back(read);
  }
  Op end = makeEndOfWindow(window);
  // It takes away what the Read needs.
  end.fence = read_back;
  group->ops.push_back(end);
}

void OpStream::addWrites(Group* group) {
  const uint64_t count = rng_.between(1, 4);
  for (uint64_t i = 0; i < count; ++i) {
    group->ops.push_back(makeWrite(nextLimit(*group)));
  }
  Op send = makeClosing(nextLimit(*group));
  send.fence = rng_.percent(25);
  group->ops.push_back(send);
}

// The first half of the words is for groups with a Send, which the peer checks when it has come;
// the other half, which may change at any time, is checked at the end.
void OpStream::addWord(Group* group) {
  const unsigned word = word_;
  word_ = (word_ + 1) % (kWords / 2);
  const uint64_t count = rng_.between(1, 3);
  for (uint64_t i = 0; i < count; ++i) group->ops.push_back(makeAtomic(word));
  if (params_.reads && rng_.percent(40)) {
    // Without a fence: Reads and atomic operations are carried out in order.
    Op read = group->ops.back();
    read.kind = OpKind::kRead;
    group->ops.push_back(read);
  }
  Op send = makeClosing(kSmallLimit);
  send.fence = true;
  group->ops.push_back(send);
}

void OpStream::addReads(Group* group) {
  const uint64_t count = rng_.between(1, 4);
  for (uint64_t i = 0; i < count; ++i) {
    const bool atomic = params_.atomics && rng_.percent(35);
    Op read = atomic ? makeAtomic(static_cast<unsigned>(rng_.between(kWords / 2, kWords - 1)))
                     : makeRead(nextLimit(*group));
    read.fence = rng_.percent(20);
    group->ops.push_back(read);
  }
}

void OpStream::addReadBack(Group* group) {
  Op write = place(makeSendOf(pickReadSize(params_.max_size)));
  if (!params_.straddle && write.size <= kStraddleLimit) write.size = 0;
  group->ops.push_back(write);
  if (!params_.straddle && write.size == 0) {
    group->ops.push_back(makeClosing(kSmallLimit));
    return;
  }
  Op read = write;
  read.kind = OpKind::kRead;
  read.read_back = true;
  group->ops.push_back(read);
  // The peer clears the place when the Send arrives: only the fence keeps it until it's read.
  Op send = makeClosing(kSmallLimit);
  send.fence = true;
  group->ops.push_back(send);
}

void OpStream::addRelay(Group* group) {
  Op read = makeRead(params_.max_size);
  group->ops.push_back(read);
  const uint64_t skip = rng_.below(read.size + 1);
  Op relay{};
  relay.kind = OpKind::kSend;
  const bool by_write = rng_.percent(50);
  const uint64_t limit = by_write ? params_.max_size : params_.send_limit;
  relay.size = static_cast<uint32_t>(rng_.below(std::min(read.size - skip, limit) + 1));
  if (!params_.straddle && relay.size <= kStraddleLimit) relay.size = 0;
  relay.from = DataFrom::kPeerOcean;
  relay.source = read.source + skip;
  relay.relay_of = 0;
  relay.fence = true;
  group->ops.push_back(by_write ? place(relay) : relay);
  if (by_write) group->ops.push_back(makeClosing(kSmallLimit));
}

std::optional<Group> OpStream::next() {
  if (made_ >= params_.ops) return std::nullopt;
  Group group;
  group.index = groups_++;
  uint64_t roll = rng_.below(100);
  // The opening group has a Send, so that a peer may wait for it before it sends at all.
  if (group.index == 0) roll = 0;
  if (roll < 26) {
    group.ops.push_back(makeClosing(params_.max_size));
  } else if (roll < 36 && (params_.invalidate || params_.windows)) {
    addWindow(&group);
  } else if (roll < 44 && params_.atomics) {
    addWord(&group);
  } else if (roll < 64 || !params_.reads) {
    addWrites(&group);
  } else if (roll < 82) {
    addReads(&group);
  } else if (roll < 91 || !params_.relays) {
    addReadBack(&group);
  } else {
    addRelay(&group);
  }
  made_ += group.ops.size();
  group.last = made_ >= params_.ops;
  group.has_send = takesReceive(group.ops.back().kind);
  if (group.has_send) {
    group.send_index = sends_++;
    group.ops.back().solicited = rng_.percent(30);
  }
  return group;
}

}  // namespace kiwarp::vm
