// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "queue_pair.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "../check.h"

namespace rx {
namespace {

constexpr u32 kRights = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |
                        IB_ACCESS_REMOTE_ATOMIC;
const char kPd = 0, kAnotherPd = 0;

struct Layout {
  u32 access;
  const void* pd;
  u64 base;
  std::vector<u32> extents;
};

const std::array<Layout, kRegions> kLayouts = {{
    {kRights, &kPd, 0x10000, {512}},
    {IB_ACCESS_REMOTE_READ, &kPd, 0x20000, {256}},
    {IB_ACCESS_LOCAL_WRITE, &kPd, 0x30000, {1024}},
    {kRights, &kAnotherPd, 0x40000, {128}},
    {kRights, &kPd, 0, {64, 100, 348}},
    {kRights, &kPd, ~u64{0} - 255, {255}},
    {IB_ACCESS_LOCAL_WRITE, &kPd, 0x50000, {7, 249, 256}},
    {kRights, &kPd, 0x60000, {1500, 1000}},
    {IB_ACCESS_LOCAL_WRITE, &kPd, 0x70000, {100, 1, 300, 111}},
}};

enum class For : u8 { kThisStream, kAnotherStream, kAllStreams };

// A part of kBindable. What a peer may write to through one is no other's; there are bytes between.
struct Window {
  u32 access;
  const void* pd;
  For streams;
  u64 shift, len;
  bool zero_based = false;
  bool bound = true;
};

constexpr u32 kRemote = kRights & ~IB_ACCESS_LOCAL_WRITE;

const std::array<Window, kStags - kRegions> kWindows = {{
    {kRemote, &kPd, For::kThisStream, 10, 200},
    {IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ, &kPd, For::kThisStream, 250, 130, true},
    {IB_ACCESS_REMOTE_READ, &kPd, For::kAllStreams, 0, 512},
    {kRemote, &kPd, For::kAllStreams, 400, 60},
    {kRemote, &kPd, For::kAnotherStream, 470, 40},
    {kRemote, &kAnotherPd, For::kAllStreams, 470, 40},
    {kRemote, &kPd, For::kThisStream, 470, 40, false, false},
}};

const Window& windowOf(u8 id) { return kWindows[id - kRegions]; }

bool inWindow(const Window& w, u64 off) { return off >= w.shift && off - w.shift < w.len; }

// A byte of kBindable; bound: by the windows, too, that were not at first.
bool bindableWritable(u64 off, bool bound) {
  return std::any_of(kWindows.begin(), kWindows.end(), [off, bound](const Window& w) {
    return (w.access & IB_ACCESS_REMOTE_WRITE) != 0 && w.pd == &kPd && (w.bound || bound) &&
           w.streams != For::kAnotherStream && inWindow(w, off);
  });
}

// Posted work names two regions; the others need a right of the queue pair, too.
bool writable(u8 region, u64 off, u32 qp_access, bool bound) {
  const bool posted = region == kReceive || region == kSink;
  const u32 access = posted ? IB_ACCESS_LOCAL_WRITE : IB_ACCESS_REMOTE_WRITE & qp_access;
  if (region == kBindable) return access != 0 && bindableWritable(off, bound);
  return (kLayouts[region].access & access) != 0 && kLayouts[region].pd == &kPd;
}

// Each extent is an allocation of its own, so that ASan notices a step across its ends.
struct Arena {
  std::array<std::vector<kw_extent>, kRegions> extents;

  Arena() {
    for (u8 r = 0; r < kRegions; r++) {
      u64 off = 0;
      for (u32 len : kLayouts[r].extents) {
        extents[r].push_back({off, static_cast<u8*>(std::malloc(len))});
        off += len;
      }
    }
  }
  ~Arena() {
    for (auto& region : extents)
      for (auto& e : region) std::free(e.va);
  }

  template <typename F>
  void each(F f) {
    for (u8 r = 0; r < kRegions; r++)
      for (size_t i = 0; i < extents[r].size(); i++) f(r, extents[r][i], kLayouts[r].extents[i]);
  }
};

Arena& arena() {
  static Arena a;
  return a;
}

u8 initial(u8 region) { return static_cast<u8>(0xa0 + region); }

// Of a region or a window.
shim::Bytes bytesOf(u8 id) {
  const u8 region = id < kRegions ? id : u8{kBindable};
  shim::Bytes all;
  arena().each([&](u8 r, const kw_extent& e, u32 n) {
    if (r == region) all.insert(all.end(), e.va, e.va + n);
  });
  if (id < kRegions) return all;
  const auto from = all.begin() + static_cast<ptrdiff_t>(windowOf(id).shift);
  return {from, from + static_cast<ptrdiff_t>(windowOf(id).len)};
}

// What is done to windows without a message, one after the other.
struct Local {
  u8 opcode;
  u8 id;
};
constexpr Local kLocal[] = {{KIWARP_OP_LOCAL_INV, kWindow},
                            {KIWARP_OP_BIND_MW, kWindowUnbound},
                            {KIWARP_OP_BIND_MW, kWindow},
                            {KIWARP_OP_LOCAL_INV, kWindowZeroBased}};

QueuePair* current = nullptr;

// Buffers of posted receives: their SGEs go to sge, a different list for each of the first four.
kw_recv receive(unsigned i, kiwarp_sge* sge) {
  kw_recv r{};
  r.sge = sge;
  r.wr_id = 100 + i;
  r.index = i;
  const u32 stag = stagOf(kReceive);
  const u64 base = baseOf(kReceive);
  switch (i % 4) {
    case 0:
      r.sge[r.num_sge++] = {base, 128, stag};
      break;
    case 1:
      r.sge[r.num_sge++] = {base + 128, 3, stag};
      r.sge[r.num_sge++] = {base, 0, 0};
      r.sge[r.num_sge++] = {baseOf(kSink), 400, stagOf(kSink)};
      r.sge[r.num_sge++] = {base + 200, 800, stag};
      break;
    case 2:
      break;
    case 3:
      r.sge[r.num_sge++] = {base + 900, 125, stag};
      break;  // one byte too long
  }
  for (u32 k = 0; k < r.num_sge; k++) r.len += r.sge[k].length;
  return r;
}

const kw_stream_ops kOps = {
    .next_wqe = [](kw_stream* s, kw_wqe* w) { return QueuePair::of(s).nextWqe(w); },
    .wqes_left = [](kw_stream* s) { return QueuePair::of(s).wqesLeft(); },
    .wqe_done = [](kw_stream* s, u32 index,
                   u16 status) { QueuePair::of(s).wqeDone(index, status); },
    .wqe_zc_start = [](kw_stream* s, u32 index) { QueuePair::of(s).zcopyStart(index); },
    .wqe_zc_done = [](kw_stream* s, u32 index,
                      bool good) { QueuePair::of(s).zcopyDone(index, good); },
    .retire = [](kw_stream*, u32) { return false; },
    .local_op = [](kw_stream* s, const kw_wqe* w) { return QueuePair::of(s).localOp(w); },
    .next_recv = [](kw_stream* s, kw_recv* r) { return QueuePair::of(s).nextRecv(r); },
    .recv_done =
        [](kw_stream* s, const kw_recv* r, u16 status, u32 len, bool solicited, bool invalidated,
           u32 inv_stag) {
          QueuePair::of(s).recvDone(
              r, status, len,
              u64{solicited} << 33 | u64{invalidated} << 32 | (invalidated ? inv_stag : 0));
        },
    .recv_imm =
        [](kw_stream* s, const kw_recv* r, u32 len, bool solicited, __be32 imm) {
          QueuePair::of(s).recvImm(r, len, u64{solicited} << 33 | u64{1} << 34 | imm);
        },
    .mem = [](kw_stream* s, u32 stag) { return QueuePair::of(s).mem(stag); },
    .invalidate = [](kw_stream* s, u32 stag,
                     bool remote) { return QueuePair::of(s).invalidate(stag, remote); },
    .notify = [](kw_stream*) {},
    .started = [](kw_stream*) { return 0; },
    .closing = [](kw_stream* s) { QueuePair::of(s).events.push_back({What::kClosing}); },
    .failed = [](kw_stream* s, kw_fail why) { QueuePair::of(s).fail(why); },
    .linger = [](kw_stream*, socket*, unsigned long) { return -ENODEV; },
    .ended = [](kw_stream* s) { QueuePair::of(s).end(); },
};

}  // namespace

u32 stagOf(u8 id) { return (0x1000U + id) << 8 | 0x5a; }

u64 baseOf(u8 id) {
  if (id < kRegions) return kLayouts[id].base;
  return windowOf(id).zero_based ? 0 : kLayouts[kBindable].base + windowOf(id).shift;
}

u64 lengthOf(u8 id) {
  if (id >= kRegions) return windowOf(id).len;
  const auto& e = kLayouts[id].extents;
  return std::accumulate(e.begin(), e.end(), u64{0});
}

kiwarp_sge readSink(unsigned i) {
  static constexpr u32 kLength[] = {16, 0, 300, 5, 200, 64, 1};
  const unsigned n = i % std::size(kLength);
  // The last but one has a sink that the stream may not write to.
  return {baseOf(kSink) + 8 * i, kLength[n], n == 5 ? stagOf(kReadOnly) : stagOf(kSink)};
}

QueuePair& QueuePair::of(kw_stream* s) {
  KW_CHECK(current != nullptr && s == &current->stream);
  return *current;
}

QueuePair::QueuePair(const Config& config, shim::Tcp& tcp) : config_(config) {
  static const char another_stream = 0;
  arena().each([](u8 r, const kw_extent& e, u32 n) { std::fill_n(e.va, n, initial(r)); });
  for (u8 r = 0; r < kRegions; r++) {
    mems_[r] = {.stag = stagOf(r),
                .access = kLayouts[r].access,
                .pd = kLayouts[r].pd,
                .base = baseOf(r),
                .len = lengthOf(r),
                .valid = true,
                .nr_ext = static_cast<u32>(arena().extents[r].size()),
                .ext = arena().extents[r].data()};
  }
  for (u8 id = kRegions; id < kStags; id++) {
    const Window& w = windowOf(id);
    mems_[id] = {.stag = stagOf(id),
                 .access = w.access,
                 .window_pd = w.pd,
                 .base = baseOf(id),
                 .len = w.len,
                 .valid = w.bound,
                 .fast = true,
                 .nr_ext = mems_[kBindable].nr_ext,
                 .ext = mems_[kBindable].ext,
                 .shift = w.shift,
                 .stream = w.streams == For::kThisStream ? &stream
                           : w.streams == For::kAnotherStream
                               ? static_cast<const void*>(&another_stream)
                               : nullptr};
  }
  current = this;
  KW_CHECK(kw_domain_init(&domain_, true) == 0);
  kw_stream_init(&stream, &kOps, &domain_, &counters);
  stream.pd = &kPd;
  stream.access = config.access;
  const kw_stream_params p = {
      .crc = config.crc,
      .tx_markers = config.tx_markers,
      .rx_markers = config.rx_markers,
      .initiator = config.initiator,
      .large_fpdu = false,
      .rtr = static_cast<kw_rtr>(config.initiator ? config.rtr : 0),
      .rtr_await = config.initiator || config.rtr == 0 ? 0 : 1U << config.rtr,
      .ird = config.ird,
      .ord = config.ord,
      .set = {.zcopy_min = config.zcopy ? 512U : 0U,
              .first_fpdu_timeout_ms = 200,
              .immediate = config.immediate,
              .atomics = config.atomics}};
  KW_CHECK(kw_stream_start(&stream, tcp.handle(), &p) == 0);
}

QueuePair::~QueuePair() {
  kw_domain_exit(&domain_);
  current = nullptr;
}

void QueuePair::checkLegal() const {
  KW_CHECK(domain_.srcu.readers == 0);
  KW_CHECK(!stream.rx.running);
  KW_CHECK(stream.irq_len <= config_.ird + 1 && stream.irq_counted <= config_.ird);
  KW_CHECK(stream.orq_len <= std::max(config_.ord, 1U));
  const bool live = stream.state == KW_STREAM_OPEN || stream.state == KW_STREAM_CLOSING;
  KW_CHECK(live == !(failed || ended));
  KW_CHECK(live || stream.state == KW_STREAM_ERROR || stream.state == KW_STREAM_DEAD);
  KW_CHECK(!stream.rx.recv_open || (recv_taken_ && stream.state != KW_STREAM_ERROR));
  if (live) KW_CHECK(stream.rx.staged < std::max(stream.rx.need, 1U));
  // Nothing is held for longer than a pass.
  for (const kw_mem& m : mems_) KW_CHECK(atomic_read(&m.users) == 0);
}

shim::Bytes QueuePair::memory() {
  shim::Bytes all;
  all.reserve(8192);
  arena().each([&](u8, const kw_extent& e, u32 n) { all.insert(all.end(), e.va, e.va + n); });
  return all;
}

void QueuePair::checkUntouched() const {
  arena().each([this](u8 r, const kw_extent& e, u32 n) {
    // Of all others the first byte tells.
    if (r != kBindable && writable(r, 0, config_.access, bound_)) return;
    for (u32 i = 0; i < n; i++)
      KW_CHECK(e.va[i] == initial(r) || writable(r, e.off + i, config_.access, bound_));
  });
  for (const auto& [id, bytes] : at_invalidation_) KW_CHECK(bytes == bytesOf(id));
  if (failed) KW_CHECK(at_failure_ == memory());
}

unsigned QueuePair::firstSend() const {
  return config_.reads + (config_.local ? std::size(kLocal) : 0);
}

unsigned QueuePair::immediateAlone() const { return firstSend() + (config_.sends ? 2 : 0); }

bool QueuePair::wqesLeft() const {
  return next_wqe_ < immediateAlone() + (config_.immediate_alone ? 1 : 0);
}

bool QueuePair::nextWqe(kw_wqe* w) {
  KW_CHECK(!failed && !ended);
  const unsigned i = next_wqe_;
  const unsigned sends = firstSend();
  const unsigned alone = immediateAlone();
  if (!wqesLeft()) return false;
  *w = {};
  w->wr_id = i;
  w->index = i;
  w->raddr = 0x7000;
  w->rkey = 0x1234;
  w->num_sge = 1;
  if (i < config_.reads) {
    w->opcode = i % 3 == 2 ? KIWARP_OP_READ_INV : KIWARP_OP_READ;
    w->sge[0] = readSink(i);
    if (config_.atomics && i % 2 != 0) {
      w->opcode = i % 4 == 1 ? KIWARP_OP_FETCH_ADD : KIWARP_OP_CMP_SWAP;
      w->sge[0].length = sizeof(u64);
    }
  } else if (i < sends) {
    const Local& local = kLocal[i - config_.reads];
    w->opcode = local.opcode;
    w->inv_stag = w->rkey = stagOf(local.id);
    w->flags = config_.fence ? KIWARP_SQE_FENCE : 0;
    w->num_sge = 0;
  } else if (i == alone) {
    w->opcode = KIWARP_OP_SEND_IMM;
    w->num_sge = 0;
  } else {
    w->opcode = i == sends          ? KIWARP_OP_SEND
                : config_.immediate ? KIWARP_OP_WRITE_IMM
                                    : KIWARP_OP_WRITE;
    w->sge[0] = {baseOf(kLarge) + 5, 1700, stagOf(kLarge)};
  }
  w->len = w->num_sge != 0 ? w->sge[0].length : 0;
  wqe_done_.push_back(false);
  next_wqe_++;
  return true;
}

void QueuePair::wqeDone(u32 index, u16 status) {
  KW_CHECK(!ended && index < next_wqe_ && !wqe_done_[index]);
  KW_CHECK(!zcopy_.contains(index) || status != IB_WC_SUCCESS);
  wqe_done_[index] = true;
  events.push_back({What::kDone, index, status});
}

void QueuePair::zcopyStart(u32 index) {
  KW_CHECK(!failed && !ended && config_.zcopy && !wqe_done_[index]);
  KW_CHECK(zcopy_.insert(index).second);
}

void QueuePair::zcopyDone(u32 index, bool good) {
  KW_CHECK(!ended && zcopy_.erase(index) == 1 && !(good && failed));
  if (good) wqeDone(index, IB_WC_SUCCESS);
}

// A window that is bound again keeps its STag here, so that the peer has a use for it.
int QueuePair::localOp(const kw_wqe* w) {
  KW_CHECK(!failed && !ended);
  const Local& local = kLocal[w->index - config_.reads];
  kw_mem& m = mems_[local.id];
  KW_CHECK(w->opcode == local.opcode && atomic_read(&m.users) == 0);
  m.valid = local.opcode == KIWARP_OP_BIND_MW;
  if (m.valid) {
    at_invalidation_.erase(local.id);
    bound_ |= local.id == kWindowUnbound;
  } else {
    at_invalidation_[local.id] = bytesOf(local.id);
  }
  local_meanwhile |= arriving;
  events.push_back({What::kLocal, w->index});
  return IB_WC_SUCCESS;
}

// What is behind the last receive cannot be read, as if the process had spoilt it, or is none.
int QueuePair::nextRecv(kw_recv* r) {
  KW_CHECK(!failed && !ended && !recv_taken_);
  if (next_recv_ == config_.recvs) return config_.spoilt ? -EINVAL : 0;
  *r = receive(next_recv_++, recv_sge_.data());
  recv_taken_ = true;
  return 1;
}

void QueuePair::recvDone(const kw_recv* r, u16 status, u32 len, u64 flags) {
  KW_CHECK(!failed && !ended && recv_taken_ && len <= r->len);
  KW_CHECK(r->index + 1 == next_recv_);
  recv_taken_ = false;
  events.push_back({What::kReceived, r->wr_id, status | u64{len} << 32, flags});
}

// The bytes are those of a Write, which went elsewhere.
void QueuePair::recvImm(const kw_recv* r, u32 len, u64 flags) {
  KW_CHECK(config_.immediate && !failed && !ended && recv_taken_);
  KW_CHECK(r->index + 1 == next_recv_);
  recv_taken_ = false;
  events.push_back({What::kReceived, r->wr_id, u64{len} << 32, flags});
}

kw_mem* QueuePair::mem(u32 stag) {
  KW_CHECK(domain_.srcu.readers > 0);
  const auto it = std::find_if(mems_.begin(), mems_.end(),
                               [&](const kw_mem& m) { return m.stag == stag && m.valid; });
  return it != mems_.end() ? &*it : nullptr;
}

// Windows of type 2 are for one stream. Of regions, any that the peer may access is taken for a
// fast registration.
int QueuePair::invalidateRemotely(kw_mem* m) {
  if (m == nullptr) return -ENOENT;
  if (kw_mem_domain(m) != &kPd) return -EACCES;
  if (m->window_pd != nullptr && m->stream == nullptr) return -EOPNOTSUPP;
  if (m->window_pd != nullptr && m->stream != &stream) return -EACCES;
  if ((m->access & (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)) == 0) return -EPERM;
  // Whoever held it would be waited for, in the context that holds it.
  KW_CHECK(atomic_read(&m->users) == 0);
  m->valid = false;
  const auto id = static_cast<u8>(m - mems_.data());
  at_invalidation_[id] = bytesOf(id);
  return 0;
}

int QueuePair::invalidate(u32 stag, bool remote) {
  kw_mem* m = mem(stag);
  if (!remote) {
    events.push_back({What::kReadInvalidated, stag});
    if (m != nullptr) m->valid = false;
    return 0;
  }
  const int rv = invalidateRemotely(m);
  events.push_back({What::kInvalidated, stag, rv == 0});
  return rv;
}

void QueuePair::fail(kw_fail why) {
  KW_CHECK(!failed && !ended);
  failed = true;
  recv_taken_ = false;
  events.push_back({What::kFailed, static_cast<u64>(why)});
  at_failure_ = memory();
}

void QueuePair::end() {
  KW_CHECK(!ended);
  ended = true;
  events.push_back({What::kEnded, static_cast<u64>(static_cast<s64>(stream.status))});
  cancel_delayed_work(&stream.end_work);
}

}  // namespace rx
