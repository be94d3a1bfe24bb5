// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
// The stream, kernel/stream/, under a peer that sends anything in any pieces.
#include <algorithm>
#include <random>

#include "../check.h"
#include "peer.h"
#include "queue_pair.h"

namespace rx {
namespace {

using shim::Bytes;

// The results that two runs over the same bytes must have in common.
struct Outcome {
  Bytes memory;
  Bytes sent;
  std::vector<Event> events;
  std::array<u64, KW_NR_COUNTERS> counters;
  bool local_meanwhile;    // windows changed while it arrived
  bool failed_before_end;  // by what had arrived
  bool failed;
};

// How the stream arrives: all at once, or in pieces of any size and layout.
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
  bool anotherSoftirq() { return !whole_ && random_() % 4 == 0; }
  bool workIsLate() { return !whole_ && random_() % 4 == 0; }

 private:
  bool whole_;
  std::minstd_rand random_;
};

// TCP closes its window when the receive buffer is full. A stream that leaves so much in the
// socket waits for bytes that cannot come.
void checkWindow(const Config& config, shim::Tcp& tcp, QueuePair& qp) {
  if (qp.ended) return;
  // What there was no memory for is tried again, though nothing arrives.
  if (config.fail != 0 && qp.stream.rx_work.pending) {
    KW_CHECK(qp.count(KW_CNT_RX_NO_MEMORY) != 0);
    shim::runOne(&qp.stream.rx_work);
  }
  if (qp.ended) return;
  // Under pressure TCP may drop what comes behind anything that is left.
  KW_CHECK(tcp_inq(tcp.sk()) <= (config.pressure ? 0 : config.rcvbuf / 2));
}

void feed(const Config& config, shim::Tcp& tcp, QueuePair& qp, const Bytes& stream, u32 seed) {
  Cutter cutter(seed);
  for (size_t at = 0; at < stream.size() && !qp.ended;) {
    const size_t n = cutter.piece(stream.size() - at);
    tcp.arrive(stream, at, n, cutter.layout());
    at += n;
    if (!cutter.tell() && at < stream.size()) continue;
    if (cutter.anotherSoftirq()) shim::newSoftirq();
    tcp.dataReady();
    // What comes meanwhile is left to it.
    if (qp.stream.rx.later && cutter.workIsLate() && at < stream.size()) continue;
    while (qp.stream.rx.later) shim::runOne(&qp.stream.rx_work);
    qp.checkLegal();
    checkWindow(config, tcp, qp);
    if (!config.blocked) shim::runWork(0);
  }
}

// Nothing more can happen: both halves closed, or reset, or every time-out over.
void finish(const Config& config, shim::Tcp& tcp, QueuePair& qp) {
  if (config.blocked) {
    // A new softirq, whose budget does not depend on how much came when; what is more than that is
    // sent before the end comes.
    shim::runWork(1);
    tcp.unblock();
    shim::runWork(0);
  }
  if (!qp.ended) {
    switch (config.end) {
      case End::kFin:
        tcp.fin();
        break;
      case End::kReset:
        tcp.reset();
        break;
      case End::kAbort:
        kw_stream_abort(&qp.stream);
        break;
      case End::kClose:
        kw_stream_close(&qp.stream);
        shim::runWork(HZ);
        if (!qp.ended) tcp.fin();
        break;
    }
  }
  shim::runWork(60 * HZ);
  KW_CHECK(qp.ended && tcp.released() && !shim::workPending());
  KW_CHECK(qp.stream.state == KW_STREAM_DEAD && qp.stream.sock == nullptr);
  KW_CHECK(atomic_read(&qp.stream.users) == 0 && qp.stream.unused);
}

void checkCounters(const Config& config, const QueuePair& qp, const Bytes& stream,
                   const shim::Tcp& tcp) {
  const u64 errors = qp.count(KW_CNT_RX_CRC_ERRORS) + qp.count(KW_CNT_RX_MARKER_ERRORS) +
                     qp.count(KW_CNT_RX_DDP_ERRORS) + qp.count(KW_CNT_RX_RDMAP_ERRORS);
  KW_CHECK(errors <= 1 && (errors == 0 || qp.failed));
  KW_CHECK(qp.count(KW_CNT_TERM_SENT) <= 1 && qp.count(KW_CNT_TERM_RECEIVED) <= 1);
  KW_CHECK(qp.count(KW_CNT_TX_OCTETS) == tcp.sent().size());
  KW_CHECK(qp.count(KW_CNT_RX_OCTETS) <= stream.size());
  KW_CHECK(qp.count(KW_CNT_RX_FPDUS) * 8 <= stream.size());
  KW_CHECK(config.crc || qp.count(KW_CNT_RX_CRC_ERRORS) == 0);
  KW_CHECK(config.fail != 0 || qp.count(KW_CNT_RX_NO_MEMORY) == 0);
}

Outcome run(const Config& config, const Bytes& stream, u32 seed) {
  const long before = shim::allocated();
  Outcome out;
  {
    shim::Tcp tcp(config.seq, config.rcvbuf);
    QueuePair qp(config, tcp);
    qp.checkLegal();
    // After a while a responder sends; then all that is posted has been sent.
    shim::runWork(HZ);
    qp.checkLegal();
    tcp.sk()->pressure = config.pressure;
    if (config.blocked) tcp.block();
    if (seed != 0) shim::failAllocation(config.fail);
    qp.arriving = true;
    feed(config, tcp, qp, stream, seed);
    qp.arriving = false;
    shim::failAllocation(0);
    out.memory = QueuePair::memory();
    out.failed_before_end = qp.failed;
    finish(config, tcp, qp);
    qp.checkLegal();
    qp.checkUntouched();
    // What could not be answered before is worked now.
    KW_CHECK(config.atomics || out.memory == QueuePair::memory());
    checkCounters(config, qp, stream, tcp);
    checkSent(config, tcp.sent());
    out.sent = tcp.sent();
    out.events = qp.events;
    out.failed = qp.failed;
    out.local_meanwhile = qp.local_meanwhile;
    for (int i = 0; i < KW_NR_COUNTERS; i++) {
      out.counters[i] = qp.count(static_cast<kw_counter>(i));
    }
  }
  kw_tx_pool_exit();
  KW_CHECK(shim::allocated() == before);
  return out;
}

// Prints where two runs differ, for the investigation.
bool same(const char* what, const Bytes& a, const Bytes& b) {
  if (a == b) return true;
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
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

// A work request that waited for a Read was at fault: it starts at the end of a pass.
bool failedLocally(const Outcome& o) {
  return std::any_of(o.events.begin(), o.events.end(), [](const Event& e) {
    return e.what == What::kFailed && e.a == KW_FAIL_LOCAL;
  });
}

bool invalidated(const Outcome& o) {
  return std::any_of(o.events.begin(), o.events.end(),
                     [](const Event& e) { return e.what == What::kInvalidated; });
}

void checkSame(const Config& config, Outcome a, Outcome b) {
  // How much is received before that depends on where passes end.
  if (failedLocally(a) || failedLocally(b)) return;
  // What the peer may do with a window depends on when that pass was, too.
  if (a.local_meanwhile || b.local_meanwhile) return;
  // An operation is worked when its answer is sent: behind which Writes depends on the pieces, and
  // whether a Send with Invalidate that does not wait for the answer takes its region away.
  if (config.atomics && (invalidated(a) || invalidated(b))) return;
  KW_CHECK(a.failed_before_end == b.failed_before_end);
  // A responder's own work waits for the initiator's ready-to-receive message. Whether it or a
  // response is first, and so what had been sent when the stream ended, depends on when each came.
  // The peer's FIN is a failure if a Read is outstanding then.
  const bool responder_waits = !config.initiator && config.rtr != 0 &&
                               (config.sends || config.immediate_alone || config.reads != 0);
  // A Read that waits for another's response alternates with a response of our own: which of them
  // is first depends on when each was there. An RTR can be such a Read. Reads of no length are
  // answered whatever the IRD is. A Read that has not been sent when the FIN comes is no failure.
  const unsigned reads = config.reads + (config.initiator && config.rtr == KW_RTR_READ ? 1 : 0);
  const bool turns = reads > config.ord;
  if (turns && config.end == End::kFin && a.failed != b.failed) return;
  KW_CHECK(responder_waits || a.failed == b.failed);
  if (config.atomics) return;
  KW_CHECK(same("memory", a.memory, b.memory));
  if (responder_waits) return;
  // An abort, a reset or a failure comes while there is more to send. Which of our work requests
  // were done by then, and how much was sent, depends on those turns; what was received does not.
  if (turns && (a.failed || config.end == End::kAbort || config.end == End::kReset)) {
    for (Outcome* o : {&a, &b}) {
      std::erase_if(o->events,
                    [](const Event& e) { return e.what == What::kDone || e.what == What::kLocal; });
      o->counters[KW_CNT_TX_FPDUS] = o->counters[KW_CNT_TX_OCTETS] = 0;
    }
  }
  KW_CHECK(a.events == b.events);
  // The runs may differ in the number of pieces that were dropped or waited for.
  for (int c : {KW_CNT_RX_DROPPED, KW_CNT_TX_BLOCKED, KW_CNT_TX_NO_MEMORY}) {
    a.counters[c] = b.counters[c] = 0;
  }
  if (a.failed) a.counters[KW_CNT_RX_OCTETS] = b.counters[KW_CNT_RX_OCTETS] = 0;
  if (!turns) KW_CHECK(same("sent", a.sent, b.sent));
  KW_CHECK(a.counters == b.counters);
}

}  // namespace
}  // namespace rx

extern "C" int LLVMFuzzerInitialize(int*, char***) { return kw_streams_init(); }

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  rx::Input in(data, size);
  const rx::Config config(in);
  const rx::Bytes& stream = rx::peerStream(config, in);
  const rx::Outcome pieces = rx::run(config, stream, config.cuts + 1);
  // While it can send, what is sent depends on the time of arrivals; otherwise nothing does.
  if (config.blocked && config.fail == 0) rx::checkSame(config, pieces, rx::run(config, stream, 0));
  return 0;
}
