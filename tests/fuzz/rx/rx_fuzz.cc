// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
// The stream, kernel/stream/, under a peer that sends anything in any pieces.
#include <algorithm>
#include <random>

#include "../check.h"
#include "owner.h"
#include "peer.h"

namespace rx {
namespace {

using shim::Bytes;

// What two runs over the same bytes must agree on.
struct Outcome {
  Bytes memory;
  Bytes sent;
  std::vector<Event> events;
  std::array<u64, KW_NR_COUNTERS> counters;
  bool failed;
};

// How the stream comes: all at once, or in pieces of every size and make.
class Cutter {
 public:
  explicit Cutter(u32 seed) : whole_(seed == 0), random_(seed) {}

  size_t piece(size_t left) {
    if (whole_) return left;
    static constexpr u32 kSizes[] = {1, 2, 3, 7, 48, 500, 1448, 9000, 65536};
    return std::min<size_t>(left, 1 + random_() % kSizes[random_() % std::size(kSizes)]);
  }
  shim::Layout layout() {
    shim::Layout l;
    if (whole_) return l;
    const u32 r = static_cast<u32>(random_());
    static constexpr u32 kHeads[] = {~0U, 0, 1, 17, 64, 700};
    static constexpr u32 kFrags[] = {~0U, 1, 5, 300, 4096};
    l.head = kHeads[(r & 0xff) % std::size(kHeads)];
    l.frag = kFrags[(r >> 8 & 0xff) % std::size(kFrags)];
    l.adjoin = (r >> 16 & 1) != 0;
    l.list = (r >> 17 & 3) == 0;
    l.overlap = (r >> 19 & 7) == 0 ? r >> 22 & 63 : 0;
    return l;
  }
  bool tell() { return whole_ || random_() % 8 != 0; }

 private:
  bool whole_;
  std::minstd_rand random_;
};

// TCP closes its window when the receive buffer is full. A stream that leaves so much in the
// socket waits for bytes that cannot come.
void checkWindow(const Config& config, shim::Tcp& tcp, const Owner& owner) {
  if (owner.ended || config.fail != 0) return;
  KW_CHECK(tcp_inq(tcp.sk()) <= config.rcvbuf / 2);
}

void feed(const Config& config, shim::Tcp& tcp, Owner& owner, const Bytes& stream, u32 seed) {
  Cutter cutter(seed);
  for (size_t at = 0; at < stream.size() && !owner.ended;) {
    const size_t n = cutter.piece(stream.size() - at);
    tcp.arrive(stream, at, n, cutter.layout());
    at += n;
    if (!cutter.tell() && at < stream.size()) continue;
    tcp.dataReady();
    owner.checkLegal();
    checkWindow(config, tcp, owner);
    if (!config.blocked) shim::runWork(0);
  }
}

// Nothing is left to happen: both halves closed, or reset, or every time-out over.
void finish(const Config& config, shim::Tcp& tcp, Owner& owner) {
  if (config.blocked) tcp.unblock();
  if (!owner.ended) {
    switch (config.end) {
      case End::kFin:
        tcp.fin();
        break;
      case End::kReset:
        tcp.reset();
        break;
      case End::kAbort:
        kw_stream_abort(&owner.stream);
        break;
      case End::kClose:
        kw_stream_close(&owner.stream);
        shim::runWork(HZ);
        if (!owner.ended) tcp.fin();
        break;
    }
  }
  shim::runWork(60 * HZ);
  KW_CHECK(owner.ended && tcp.released() && !shim::workPending());
  KW_CHECK(owner.stream.state == KW_STREAM_DEAD && owner.stream.sock == nullptr);
}

void checkCounters(const Config& config, const Owner& owner, const Bytes& stream,
                   const shim::Tcp& tcp) {
  const u64 errors = owner.count(KW_CNT_RX_CRC_ERRORS) + owner.count(KW_CNT_RX_MARKER_ERRORS) +
                     owner.count(KW_CNT_RX_DDP_ERRORS) + owner.count(KW_CNT_RX_RDMAP_ERRORS);
  KW_CHECK(errors <= 1 && (errors == 0 || owner.failed));
  KW_CHECK(owner.count(KW_CNT_TERM_SENT) <= 1 && owner.count(KW_CNT_TERM_RECEIVED) <= 1);
  KW_CHECK(owner.count(KW_CNT_TX_OCTETS) == tcp.sent().size());
  KW_CHECK(owner.count(KW_CNT_RX_OCTETS) <= stream.size());
  KW_CHECK(owner.count(KW_CNT_RX_FPDUS) * 8 <= stream.size());
  KW_CHECK(config.crc || owner.count(KW_CNT_RX_CRC_ERRORS) == 0);
}

Outcome run(const Config& config, const Bytes& stream, u32 seed) {
  const long before = shim::allocated();
  Outcome out;
  {
    shim::Tcp tcp(config.seq, config.rcvbuf);
    Owner owner(config, tcp);
    owner.checkLegal();
    // A responder speaks after a while; then all that is posted has been sent.
    shim::runWork(HZ);
    owner.checkLegal();
    if (config.blocked) tcp.block();
    if (seed != 0) shim::failAllocation(config.fail);
    feed(config, tcp, owner, stream, seed);
    shim::failAllocation(0);
    out.memory = Owner::memory();
    finish(config, tcp, owner);
    owner.checkLegal();
    owner.checkUntouched();
    KW_CHECK(out.memory == Owner::memory());
    checkCounters(config, owner, stream, tcp);
    checkSent(config, tcp.sent());
    out.sent = tcp.sent();
    out.events = owner.events;
    out.failed = owner.failed;
    for (int i = 0; i < KW_NR_COUNTERS; i++) {
      out.counters[i] = owner.count(static_cast<kw_counter>(i));
    }
  }
  kw_tx_pool_exit();
  KW_CHECK(shim::allocated() == before);
  return out;
}

// Says where two runs part, for whoever has to find out why.
bool same(const char* what, const Bytes& a, const Bytes& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at.first == a.end() && at.second == b.end()) return true;
  const auto tail = [](auto from, auto end) {
    for (int n = 0; from != end && n < 32; ++from, n++) std::fprintf(stderr, " %02x", *from);
    std::fprintf(stderr, "\n");
  };
  std::fprintf(stderr, "%s, byte %td:\n  in pieces:", what, at.first - a.begin());
  tail(at.first, a.end());
  std::fprintf(stderr, "  in one:   ");
  tail(at.second, b.end());
  return false;
}

void checkSame(const Config& config, Outcome a, Outcome b) {
  // In how many pieces something was dropped or waited for is what differs.
  for (int c : {KW_CNT_RX_DROPPED, KW_CNT_TX_BLOCKED, KW_CNT_TX_NO_MEMORY}) {
    a.counters[c] = b.counters[c] = 0;
  }
  if (a.failed) a.counters[KW_CNT_RX_OCTETS] = b.counters[KW_CNT_RX_OCTETS] = 0;
  KW_CHECK(a.failed == b.failed);
  KW_CHECK(a.events == b.events);
  KW_CHECK(same("memory", a.memory, b.memory));
  // A Read that waits for another's response and a response of our own take turns: which of
  // them is first depends on when each was there.
  const bool turns = config.reads > config.ord && config.ird != 0;
  if (!turns) KW_CHECK(same("sent", a.sent, b.sent));
  KW_CHECK(a.counters == b.counters);
}

}  // namespace
}  // namespace rx

extern "C" int LLVMFuzzerInitialize(int*, char***) { return kw_streams_init(); }

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  rx::Input in(data, size);
  const rx::Config config(in);
  const rx::Bytes stream = rx::peerStream(config, in);
  const rx::Outcome pieces = rx::run(config, stream, config.cuts + 1);
  // When it can send, what is sent depends on when things come; when not, nothing does.
  if (config.blocked && config.fail == 0) rx::checkSame(config, pieces, rx::run(config, stream, 0));
  return 0;
}
