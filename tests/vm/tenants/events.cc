// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Completion events. A queue pair in ERROR flushes each receive that is posted to it, which makes
// completions without a peer.

#include <fcntl.h>
#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/verbs.h"
#include "tenants/cases.h"

namespace kiwarp::vm {
namespace {

constexpr unsigned kArmings = 1000;
constexpr unsigned kRounds = 1500;
constexpr seconds kLimit{90};

class Flusher {
 public:
  explicit Flusher(ibv_context* context) : pd_(allocPd(context)), channel_(createChannel(context)) {
    const int flags = fcntl(channel_->fd, F_GETFL);
    checkErrno(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), "fcntl of the channel");
    cq_ = createCq(context, 64, channel_.get());
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = cq_.get();
    init.cap = {16, 16, 1, 1, 0};
    qp_.reset(ibv_create_qp(pd_.get(), &init));
    if (!qp_) fail("ibv_create_qp: %s", errnoName(errno).c_str());
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    if (int error = ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE); error != 0) {
      fail("ibv_modify_qp: %s", errnoName(error).c_str());
    }
  }
  ~Flusher() { ibv_ack_cq_events(cq_.get(), read_); }
  Flusher(const Flusher&) = delete;
  Flusher& operator=(const Flusher&) = delete;

  void arm() {
    if (int error = ibv_req_notify_cq(cq_.get(), 0); error != 0) {
      fail("ibv_req_notify_cq: %s", errnoName(error).c_str());
    }
  }

  void complete() {
    ibv_recv_wr wr{}, *bad = nullptr;
    if (int error = ibv_post_recv(qp_.get(), &wr, &bad); error != 0) {
      fail("ibv_post_recv: %s", errnoName(error).c_str());
    }
  }

  unsigned poll() {
    ibv_wc wc[16];
    unsigned all = 0;
    for (int n = 0; (n = ibv_poll_cq(cq_.get(), 16, wc)) != 0; all += static_cast<unsigned>(n)) {
      if (n < 0) fail("ibv_poll_cq failed");
    }
    return all;
  }

  // Whether there was an event to read.
  bool readEvent() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_.get(), &cq, &context) != 0) return false;
    ++read_;
    return true;
  }

  bool awaitEvent(const Deadline& deadline) {
    while (!readEvent()) {
      if (deadline.passed()) return false;
      pollfd fd{channel_->fd, POLLIN, 0};
      ::poll(&fd, 1, deadline.pollTimeout());
    }
    return true;
  }

 private:
  Pd pd_;
  CompChannel channel_;
  Cq cq_;
  RawQp qp_;
  unsigned read_ = 0;
};

void unreadEvents(ibv_context* context) {
  Flusher flusher(context);
  for (unsigned i = 0; i < kArmings; ++i) {
    flusher.arm();
    flusher.complete();
    if (flusher.poll() != 1) fail("completion %u did not come", i);
  }
  // The first one, and once that is read the one for what was armed after it.
  const Deadline limit(kLimit);
  if (!flusher.awaitEvent(limit)) fail("no event");
  if (!flusher.awaitEvent(limit)) fail("nothing for what was armed while it was unread");
  if (flusher.readEvent()) fail("a third event for %u armings", kArmings);
}

// A consumer that goes to sleep between completions, and one in three times sees one by polling, so
// that it arms again while the event of the last time is unread.
void noneIsLost(ibv_context* context) {
  Flusher flusher(context);
  std::atomic<unsigned> seen{0};
  std::atomic<bool> stop{false};
  flusher.arm();
  std::thread producer([&] {
    for (unsigned i = 0; i < kRounds && !stop; ++i) {
      flusher.complete();
      while (seen.load() <= i && !stop) std::this_thread::yield();
    }
  });
  const Deadline limit(kLimit);
  unsigned count = 0, lost = 0;
  while (count < kRounds && lost == 0) {
    if (count % 3 == 2) {
      unsigned n = 0;
      while ((n = flusher.poll()) == 0 && lost == 0) {
        if (limit.passed()) lost = count + 1;
      }
      flusher.arm();
      count += n + flusher.poll();
    } else {
      if (!flusher.awaitEvent(limit)) lost = count + 1;
      flusher.arm();
      count += flusher.poll();
    }
    seen = count;
  }
  stop = true;
  producer.join();
  if (lost != 0) fail("nobody was woken for completion %u", lost);
}

}  // namespace

void eventCases(const std::string& device, Tap* tap) {
  Context context = openDevice(device);
  tap->run("one event waits, however often the queue is armed",
           [&] { unreadEvents(context.get()); });
  tap->run("no wake-up is lost meanwhile", [&] { noneIsLost(context.get()); });
}

}  // namespace kiwarp::vm
