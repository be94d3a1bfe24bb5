// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Completion queues: another size, and events that wait for more completions.

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "extended/cases.h"

namespace kiwarp::vm {
namespace {

// Long enough to see an event that should not come.
constexpr int kQuietMs = 30;
constexpr int kTimeLimitMs = 20000;

LinkOptions deep(int cqe) {
  LinkOptions options;
  options.cqe = cqe;
  options.client.send_wr = options.server.recv_wr = 64;
  return options;
}

// Empty Sends from the client, which complete with the wr_ids first, first + 1, ...
void sendMany(Link& link, uint64_t first, uint64_t count) {
  for (uint64_t id = first; id < first + count; ++id) {
    mustRecv(link.server.qp(), id, {});
    expectErrno("post", 0, postSend(link.client.qp(), {Work::send(id, {})}).error);
  }
}

// All have completed when the last receive has: its completions are the server's.
void awaitMany(Env& env, ibv_cq* cq, uint64_t first, uint64_t count, const std::string& what) {
  for (uint64_t id = first; id < first + count; ++id) {
    env.expectWc(cq, id, {IBV_WC_SUCCESS},
                 strf("%s, completion %d", what.c_str(), static_cast<int>(id)));
  }
}

void expectSize(const std::string& what, ibv_cq* cq, int at_least) {
  if (cq->cqe < at_least) fail("%s: %d entries", what.c_str(), cq->cqe);
}

void resizeWithWaiting(Env& env) {
  auto link = env.connect(deep(16));
  ibv_cq* sends = link->client.send_cq.get();
  ibv_cq* receives = link->server.recv_cq.get();
  sendMany(*link, 0, 12);
  awaitMany(env, receives, 0, 12, "receives");
  expectErrno("more entries", 0, ibv_resize_cq(sends, 100));
  expectSize("more entries", sends, 100);
  awaitMany(env, sends, 0, 5, "in the larger one");
  expectErrno("fewer entries than completions", EINVAL, ibv_resize_cq(sends, 4));
  expectSize("after a refusal", sends, 100);
  expectErrno("as many as completions", 0, ibv_resize_cq(sends, 7));
  expectErrno("the same once more", 0, ibv_resize_cq(sends, 7));
  awaitMany(env, sends, 5, 7, "in the smaller one");
  // The places are free again: as many as there are fit.
  sendMany(*link, 12, 7);
  awaitMany(env, receives, 12, 7, "receives");
  awaitMany(env, sends, 12, 7, "after all were free");
  expectErrno("one entry", 0, ibv_resize_cq(sends, 1));
  sendMany(*link, 19, 1);
  awaitMany(env, sends, 19, 1, "of one entry");
  awaitMany(env, receives, 19, 1, "receives");
  env.expectAlive(*link);
}

void resizeRefused(Env& env) {
  Cq cq = createCq(env.context(), 16);
  expectErrno("no entries", EINVAL, ibv_resize_cq(cq.get(), 0));
  expectErrno("-1 entries", EINVAL, ibv_resize_cq(cq.get(), -1));
  expectErrno("one too many", EINVAL, ibv_resize_cq(cq.get(), env.attr().max_cqe + 1));
  expectErrno("the most", 0, ibv_resize_cq(cq.get(), env.attr().max_cqe));
  expectErrno("few", 0, ibv_resize_cq(cq.get(), 3));
}

// A link all of whose queues have events.
struct EventLink {
  explicit EventLink(Env& env, int entries = 64) : channel(createChannel(env.context())) {
    LinkOptions options = deep(entries);
    options.make_cq = [&](int cqe) { return createCq(env.context(), cqe, channel.get()); };
    link = env.connect(options);
    cq = link->server.recv_cq.get();
  }

  // Whether an event comes; the queue's only.
  bool eventWithin(int ms) const {
    pollfd fd{channel->fd, POLLIN, 0};
    if (poll(&fd, 1, ms) == 0) return false;
    ibv_cq* from = nullptr;
    void* context = nullptr;
    checkErrno(ibv_get_cq_event(channel.get(), &from, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(from, 1);
    if (from != cq) fail("an event of another queue");
    return true;
  }
  void expectEvent(const char* what) const {
    if (!eventWithin(kTimeLimitMs)) fail("%s: no event", what);
  }
  void expectQuiet(const char* what) const {
    if (eventWithin(kQuietMs)) fail("%s: an event", what);
  }
  void arm() const { expectErrno("arming", 0, ibv_req_notify_cq(cq, 0)); }

  // In this order: the queues go before their channel.
  CompChannel channel;
  std::unique_ptr<Link> link;
  ibv_cq* cq = nullptr;
};

// A program that polls some of what there is for each event, arms the queue and sleeps. What it
// leaves came before, and nothing comes after it.
void leftAlone(Env& env) {
  const EventLink events(env);
  ibv_wc wc[4];
  events.arm();
  sendMany(*events.link, 0, 11);
  // The queue may be armed after each poll, or before it.
  for (int left = 11; left > 0; left -= 4) {
    events.expectEvent("entries that were left");
    if (left == 7) events.arm();
    int count = 0;
    while (count < std::min(left, 4)) {
      count += ibv_poll_cq(events.cq, std::min(left, 4) - count, wc + count);
    }
    if (left != 7) events.arm();
  }
  events.expectQuiet("an empty queue");
  sendMany(*events.link, 11, 3);
  events.expectEvent("armed while it was empty");
  events.expectQuiet("not armed");
  expectErrno("solicited completions", 0, ibv_req_notify_cq(events.cq, 1));
  events.expectQuiet("unsolicited ones were left");
}

// Completions that come while the queue is not armed, and are not polled before it is.
void leftBeforeArming(Env& env) {
  const EventLink events(env);
  sendMany(*events.link, 0, 2);
  events.expectQuiet("never armed");
  events.arm();
  events.expectEvent("entries that were there before the queue was armed at all");
  awaitMany(env, events.cq, 0, 2, "both");
  // Until nothing looks at the empty queue any more.
  events.expectQuiet("an empty queue");
  sendMany(*events.link, 2, 3);
  ibv_wc wc;
  while (ibv_poll_cq(events.cq, 1, &wc) == 0) continue;
  events.arm();
  events.expectEvent("entries that came between two armings");
}

void resizeArmed(Env& env) {
  const EventLink events(env, 16);
  events.arm();
  expectErrno("resize", 0, ibv_resize_cq(events.cq, 200));
  events.expectQuiet("an empty queue");
  sendMany(*events.link, 0, 1);
  events.expectEvent("a completion in the new ring");
  awaitMany(env, events.cq, 0, 1, "it");
  sendMany(*events.link, 1, 1);
  events.expectQuiet("not armed");
  awaitMany(env, events.cq, 1, 1, "the second");
}

// One thread sends, one polls or sleeps on events, and the queue changes its size all the time.
void resizeUnderTraffic(Env& env, bool sleep) {
  constexpr uint64_t kMessages = 1500;
  constexpr uint64_t kWindow = 48;
  const EventLink events(env);
  Link& link = *events.link;
  std::atomic<uint64_t> received{0};
  std::atomic<bool> over{false};
  std::string failure;
  std::thread receiver([&] {
    try {
      if (sleep) events.arm();
      while (received < kMessages) {
        ibv_wc wc{};
        const int n = ibv_poll_cq(events.cq, 1, &wc);
        if (n < 0) fail("ibv_poll_cq: %d", n);
        if (n == 1) {
          if (wc.status != IBV_WC_SUCCESS || wc.wr_id != received) {
            fail("after %d: %s", static_cast<int>(received.load()), describe(wc).c_str());
          }
          ++received;
        } else if (sleep) {
          events.expectEvent("asleep");
          events.arm();
        }
      }
    } catch (const Failure& caught) {
      failure = caught.what();
    }
    over = true;
  });
  std::thread sender([&] {
    for (uint64_t id = 0; id < kMessages && !over;) {
      if (id - received >= kWindow) {
        std::this_thread::yield();
        continue;
      }
      sendMany(link, id++, 1);
      ibv_wc wc{};
      while (ibv_poll_cq(link.client.send_cq.get(), 1, &wc) == 1) continue;
    }
  });
  int resized = 0;
  uint64_t last = 0;
  while (!over) {
    // Not without traffic between.
    if (received < last + 4) {
      std::this_thread::yield();
      continue;
    }
    last = received;
    const int entries = resized % 3 == 0 ? 4000 : 64 << (resized % 4);
    if (int error = ibv_resize_cq(events.cq, entries); error != 0) {
      over = true;
      failure = strf("resize %d: %s", resized, errnoName(error).c_str());
    }
    ++resized;
  }
  receiver.join();
  sender.join();
  if (!failure.empty()) fail("%s", failure.c_str());
  if (resized == 0) fail("the queue was never resized");
  env.expectAlive(link);
}

void resizeWhilePolled(Env& env) { resizeUnderTraffic(env, false); }
void resizeWhileSleeping(Env& env) { resizeUnderTraffic(env, true); }

void moderate(ibv_cq* cq, uint16_t count, uint16_t period) {
  ibv_modify_cq_attr attr{};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate = {.cq_count = count, .cq_period = period};
  expectErrno("ibv_modify_cq", 0, ibv_modify_cq(cq, &attr));
}

void moderateByCount(Env& env) {
  const EventLink events(env);
  moderate(events.cq, 16, 0);
  events.arm();
  sendMany(*events.link, 0, 15);
  events.expectQuiet("15 of 16");
  sendMany(*events.link, 15, 1);
  events.expectEvent("16 of 16");
  awaitMany(env, events.cq, 0, 16, "all");
  // What is polled before the queue is armed does not count. (The last of it might, if it is polled
  // before the kernel looks whether the queue is armed.)
  sendMany(*events.link, 16, 14);
  awaitMany(env, events.cq, 16, 14, "unarmed");
  events.arm();
  sendMany(*events.link, 30, 12);
  awaitMany(env, events.cq, 30, 12, "12 more");
  events.expectQuiet("12 more of 16");
  moderate(events.cq, 0, 0);
  events.expectEvent("moderation is over: what was held back");
  events.arm();
  sendMany(*events.link, 42, 1);
  events.expectEvent("one without moderation");
}

void moderateByTime(Env& env) {
  constexpr uint16_t kPeriodUs = 60000;
  const EventLink events(env);
  for (uint16_t count : {0, 100}) {
    moderate(events.cq, count, kPeriodUs);
    events.arm();
    const auto begun = std::chrono::steady_clock::now();
    sendMany(*events.link, count, 1);
    events.expectEvent("one, after the period");
    if (std::chrono::steady_clock::now() - begun < std::chrono::microseconds(kPeriodUs)) {
      fail("the event came before the period was over");
    }
    awaitMany(env, events.cq, count, 1, "it");
  }
  // Enough of them end the wait.
  moderate(events.cq, 2, UINT16_MAX);
  events.arm();
  sendMany(*events.link, 200, 2);
  events.expectEvent("two of two");
  awaitMany(env, events.cq, 200, 2, "both");
}

void moderateRefused(Env& env) {
  Cq cq = createCq(env.context(), 16);
  ibv_modify_cq_attr attr{};
  expectErrno("nothing to modify", EINVAL, ibv_modify_cq(cq.get(), &attr));
  attr.attr_mask = 1U << 5;
  expectErrno("an attribute that does not exist", EINVAL, ibv_modify_cq(cq.get(), &attr));
  ibv_device_attr_ex device{};
  expectErrno("ibv_query_device_ex", 0, ibv_query_device_ex(env.context(), nullptr, &device));
  expectSame("most completions", "65535", strf("%d", device.cq_mod_caps.max_cq_count));
  expectSame("longest period", "65535", strf("%d", device.cq_mod_caps.max_cq_period));
}

// A queue pair that nobody connects, with receives posted, which all complete into one queue.
RawQp qpWithReceives(Env& env, ibv_cq* cq, uint64_t count) {
  QpConfig config;
  config.send_cq = config.recv_cq = cq;
  config.recv_wr = 64;
  ibv_qp_init_attr attr = toInitAttr(config);
  RawQp qp(ibv_create_qp(env.pd(), &attr));
  if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  for (uint64_t id = 0; id < count; ++id) mustRecv(qp.get(), id, {});
  return qp;
}

// Completions of a queue pair that is destroyed do not overflow a queue that others share.
void destroyOther(Env& env) {
  auto link = env.connect(deep(16));
  ibv_cq* sends = link->client.send_cq.get();
  ibv_cq* receives = link->server.recv_cq.get();
  RawQp with_more = qpWithReceives(env, sends, 64);
  sendMany(*link, 0, 8);
  awaitMany(env, receives, 0, 8, "receives");
  with_more.reset();
  awaitMany(env, sends, 0, 8, "of another queue pair");
  // This one's flush completions are in the queue when it is destroyed.
  RawQp completed = qpWithReceives(env, sends, 12);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  expectErrno("to ERROR", 0, ibv_modify_qp(completed.get(), &attr, IBV_QP_STATE));
  completed.reset();
  sendMany(*link, 8, 16);
  awaitMany(env, receives, 8, 16, "receives");
  awaitMany(env, sends, 8, 16, "after flush completions");
  env.expectAlive(*link);
}

}  // namespace

void addCqCases(std::vector<Case>* cases) {
  cases->insert(cases->end(), {{"cq-resize", resizeWithWaiting},
                               {"cq-resize-refused", resizeRefused},
                               {"cq-left", leftAlone},
                               {"cq-left-before-arming", leftBeforeArming},
                               {"cq-resize-armed", resizeArmed},
                               {"cq-resize-polled", resizeWhilePolled},
                               {"cq-resize-sleeping", resizeWhileSleeping},
                               {"cq-moderate-count", moderateByCount},
                               {"cq-moderate-time", moderateByTime},
                               {"cq-moderate-refused", moderateRefused},
                               {"cq-destroy-other", destroyOther}});
}

}  // namespace kiwarp::vm
