// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Shared receive queues: what they refuse, when their events come, and what the end of a queue
// pair leaves.

#include <rdma/kiwarp-abi.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "badinput/harness.h"

namespace kiwarp::vm {
namespace {

constexpr uint32_t kEntries = 16;
constexpr uint32_t kNoBuffer = 0x1202;  // DDP, untagged, no buffer for the MSN

void refuseSrq(Env& env, const char* what, int error, uint32_t max_wr, uint32_t max_sge) {
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = max_wr;
  attr.attr.max_sge = max_sge;
  errno = 0;
  Srq srq(ibv_create_srq(env.pd(), &attr));
  expectErrno(what, error, srq ? 0 : errno);
}

int modify(ibv_srq* srq, int mask, uint32_t max_wr, uint32_t limit) {
  ibv_srq_attr attr{};
  attr.max_wr = max_wr;
  attr.srq_limit = limit;
  return ibv_modify_srq(srq, &attr, mask);
}

ibv_srq_attr query(ibv_srq* srq) {
  ibv_srq_attr attr{};
  expectErrno("ibv_query_srq", 0, ibv_query_srq(srq, &attr));
  return attr;
}

void expectNumber(const std::string& what, uint32_t expected, uint32_t got) {
  expectSame(what, strf("%u", expected), strf("%u", got));
}

void mustPost(ibv_srq* srq, uint64_t id, std::vector<ibv_sge> sges = {}) {
  expectErrno("posting to the SRQ", 0, postSrqRecv(srq, id, std::move(sges)).error);
}

// The server's queue pair receives from the SRQ.
std::unique_ptr<Link> connect(Env& env, ibv_srq* srq) {
  LinkOptions options;
  options.server.srq = srq;
  return env.connect(options);
}

void send(Env& env, const Link& link, uint64_t id, std::vector<ibv_sge> sges = {}) {
  expectErrno("post", 0, postSend(link.client.qp(), {Work::send(id, std::move(sges))}).error);
  env.expectWc(link.client.send_cq.get(), id, {IBV_WC_SUCCESS}, "Send");
}

void toState(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  expectErrno(strf("to state %d", state), 0, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

void toError(ibv_qp* qp) { toState(qp, IBV_QPS_ERR); }

// No further event of this kind. Those that the kernel has raised by now are readable: what is
// asked for last is raised by a modify of this very process.
void expectNoEvent(Env& env, const void* element, ibv_event_type type) {
  for (const AsyncEvent& event : env.async().drain()) {
    if (event.element == element && event.type == type) {
      fail("%s came again", ibv_event_type_str(type));
    }
  }
}

void limits(Env& env) {
  const ibv_device_attr& most = env.attr();
  if (most.max_srq <= 0 || most.max_srq_wr <= 0 || most.max_srq_sge <= 0) fail("no SRQs");
  if ((most.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) == 0) fail("no IBV_DEVICE_SRQ_RESIZE");
  const auto max_wr = static_cast<uint32_t>(most.max_srq_wr);
  const auto max_sge = static_cast<uint32_t>(most.max_srq_sge);
  refuseSrq(env, "no entries", EINVAL, 0, 1);
  refuseSrq(env, "too many entries", EINVAL, max_wr + 1, 1);
  refuseSrq(env, "too many SGEs", EINVAL, 1, max_sge + 1);
  Srq most_entries = createSrq(env.pd(), max_wr, 1);
  expectNumber("the most entries", max_wr, query(most_entries.get()).max_wr);

  ibv_srq_init_attr_ex attr{};
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  attr.pd = env.pd();
  attr.attr.max_wr = kEntries;
  attr.srq_type = IBV_SRQT_TM;
  Srq matching(ibv_create_srq_ex(env.context(), &attr));
  expectErrno("an SRQ with tag matching", EOPNOTSUPP, matching ? 0 : errno);
  attr.srq_type = IBV_SRQT_XRC;
  Srq xrc(ibv_create_srq_ex(env.context(), &attr));
  expectErrno("an XRC SRQ", EOPNOTSUPP, xrc ? 0 : errno);
  attr.srq_type = IBV_SRQT_BASIC;
  Srq basic(ibv_create_srq_ex(env.context(), &attr));
  if (!basic) fail("ibv_create_srq_ex: %s", errnoName(errno).c_str());

  uint32_t first = 0, second = 0;
  expectErrno("ibv_get_srq_num", 0, ibv_get_srq_num(basic.get(), &first));
  expectErrno("ibv_get_srq_num", 0, ibv_get_srq_num(most_entries.get(), &second));
  if (first == second) fail("two SRQs have the number %u", first);
}

void attributes(Env& env) {
  Srq srq = createSrq(env.pd(), kEntries - 1, 3);
  ibv_srq_attr attr = query(srq.get());
  expectNumber("entries", kEntries, attr.max_wr);
  expectNumber("SGEs", 3, attr.max_sge);
  expectNumber("limit", 0, attr.srq_limit);
  expectErrno("an unknown attribute", EINVAL, modify(srq.get(), 0x40, 0, 0));
  expectErrno("a limit over the size", EINVAL, modify(srq.get(), IBV_SRQ_LIMIT, 0, kEntries + 1));
  expectErrno("no entries", EINVAL, modify(srq.get(), IBV_SRQ_MAX_WR, 0, 0));
  expectErrno(
      "too many entries", EINVAL,
      modify(srq.get(), IBV_SRQ_MAX_WR, static_cast<uint32_t>(env.attr().max_srq_wr) + 1, 0));
  expectErrno("too small for the limit", EINVAL,
              modify(srq.get(), IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 4, 5));
  expectNumber("entries after what was refused", kEntries, query(srq.get()).max_wr);
  expectErrno("nothing", 0, modify(srq.get(), 0, 0, 0));
}

void full(Env& env) {
  Srq srq = createSrq(env.pd(), kEntries, 2);
  Buffer buffer(env.pd(), 4096, IBV_ACCESS_LOCAL_WRITE);
  const PostResult too_many = postSrqRecv(srq.get(), 1, std::vector<ibv_sge>(3, buffer.sge(0, 4)));
  expectErrno("too many SGEs", EINVAL, too_many.error);
  if (too_many.bad_id != 1) fail("too many SGEs: bad_wr is wrong");
  for (uint32_t i = 0; i < kEntries; ++i) mustPost(srq.get(), i);
  const PostResult refused = postSrqRecv(srq.get(), 77, {});
  expectErrno("one more", ENOMEM, refused.error);
  if (refused.bad_id != 77) fail("one more: bad_wr is wrong");

  // A slot is free when its entry was taken; the order is that of posting, round the ring.
  auto link = connect(env, srq.get());
  expectErrno("a receive posted to the queue pair", EINVAL,
              postRecv(link->server.qp(), 1, {}).error);
  for (uint32_t i = 0; i < 3 * kEntries; ++i) {
    send(env, *link, i);
    env.expectWc(link->server.recv_cq.get(), i, {IBV_WC_SUCCESS}, "receive");
    mustPost(srq.get(), kEntries + i);
  }
  expectErrno("one more", ENOMEM, postSrqRecv(srq.get(), 78, {}).error);
}

void foreignPd(Env& env) {
  Srq srq = createSrq(env.otherPd(), kEntries, 1);
  Cq cq = createCq(env.context(), 4);
  QpConfig config;
  config.send_cq = config.recv_cq = cq.get();
  config.srq = srq.get();
  ibv_qp_init_attr attr = toInitAttr(config);
  RawQp qp(ibv_create_qp(env.pd(), &attr));
  expectErrno("an SRQ of another protection domain", EINVAL, qp ? 0 : errno);
}

void busy(Env& env) {
  Srq srq = createSrq(env.pd(), kEntries, 1);
  auto link = connect(env, srq.get());
  expectErrno("in use", EBUSY, ibv_destroy_srq(srq.get()));
  mustPost(srq.get(), 5);
  send(env, *link, 1);
  env.expectWc(link->server.recv_cq.get(), 5, {IBV_WC_SUCCESS}, "receive");
}

void limitOnce(Env& env) {
  Srq srq = createSrq(env.pd(), kEntries, 1);
  auto link = connect(env, srq.get());
  const auto receive = [&](uint64_t id) {
    send(env, *link, 1);
    env.expectWc(link->server.recv_cq.get(), id, {IBV_WC_SUCCESS}, "receive");
  };
  for (uint64_t id = 0; id < 6; ++id) mustPost(srq.get(), id);
  expectErrno("arm", 0, modify(srq.get(), IBV_SRQ_LIMIT, 0, 4));
  expectNumber("limit", 4, query(srq.get()).srq_limit);
  receive(0);
  receive(1);
  expectNumber("limit, not passed", 4, query(srq.get()).srq_limit);
  expectNoEvent(env, srq.get(), IBV_EVENT_SRQ_LIMIT_REACHED);
  receive(2);
  env.expectEvent(srq.get(), {IBV_EVENT_SRQ_LIMIT_REACHED}, "limit");
  expectNumber("limit, passed", 0, query(srq.get()).srq_limit);
  receive(3);
  expectNoEvent(env, srq.get(), IBV_EVENT_SRQ_LIMIT_REACHED);

  // Less is posted already.
  expectErrno("arm", 0, modify(srq.get(), IBV_SRQ_LIMIT, 0, 3));
  env.expectEvent(srq.get(), {IBV_EVENT_SRQ_LIMIT_REACHED}, "limit that is passed already");
  expectErrno("arm", 0, modify(srq.get(), IBV_SRQ_LIMIT, 0, 2));
  expectErrno("disarm", 0, modify(srq.get(), IBV_SRQ_LIMIT, 0, 0));
  receive(4);
  receive(5);
  expectNoEvent(env, srq.get(), IBV_EVENT_SRQ_LIMIT_REACHED);

  // Events that nobody reads don't pile up.
  for (int i = 0; i < 100; ++i) {
    expectErrno("arm", 0, modify(srq.get(), IBV_SRQ_LIMIT, 0, 1));
    while (query(srq.get()).srq_limit != 0) continue;
  }
  env.expectEvent(srq.get(), {IBV_EVENT_SRQ_LIMIT_REACHED}, "limit, many times");
  const auto more = env.async().drain();
  if (more.size() > 1) fail("%zu events were left unread", more.size());
}

void resize(Env& env) {
  Srq srq = createSrq(env.pd(), kEntries, 1);
  auto link = connect(env, srq.get());
  uint64_t posted = 0, done = 0;
  const auto post = [&](uint32_t count) {
    for (; count > 0; --count) mustPost(srq.get(), posted++);
  };
  const auto receive = [&](uint32_t count) {
    for (; count > 0; --count) {
      send(env, *link, 1);
      env.expectWc(link->server.recv_cq.get(), done++, {IBV_WC_SUCCESS}, "receive");
    }
  };
  // Always with the ring's end in between.
  post(kEntries);
  receive(10);
  post(10);
  expectErrno("to less than is posted", EINVAL, modify(srq.get(), IBV_SRQ_MAX_WR, 8, 0));
  expectErrno("larger", 0, modify(srq.get(), IBV_SRQ_MAX_WR, 50, 0));
  expectNumber("entries", 64, query(srq.get()).max_wr);
  post(64 - kEntries);
  expectErrno("one more", ENOMEM, postSrqRecv(srq.get(), 78, {}).error);
  receive(60);
  expectErrno("smaller, with an event", 0, modify(srq.get(), IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, 8, 4));
  expectNumber("entries", 8, query(srq.get()).max_wr);
  receive(1);
  env.expectEvent(srq.get(), {IBV_EVENT_SRQ_LIMIT_REACHED}, "limit");
  post(5);
  expectErrno("one more", ENOMEM, postSrqRecv(srq.get(), 79, {}).error);
  receive(8);
}

void empty(Env& env) {
  Srq srq = createSrq(env.pd(), kEntries, 1);
  auto link = connect(env, srq.get());
  auto other = connect(env, srq.get());
  mustRecv(link->client.qp(), 3, {});
  expectErrno("post", 0, postSend(link->client.qp(), {Work::send(1, {})}).error);
  const ibv_wc wc = env.awaitWc(link->client.recv_cq.get(), "client's receive");
  expectSame("client's receive", ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR),
             ibv_wc_status_str(wc.status));
  expectNumber("Terminate", KIWARP_TERM_RECEIVED | kNoBuffer, wc.vendor_err);
  env.expectEvent(link->server.qp(), {IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_LAST_WQE_REACHED},
                  "server");
  env.expectEvent(link->server.qp(), {IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_LAST_WQE_REACHED},
                  "server");
  env.expectEnded(*link);
  // A queue pair that is used again has nothing of the Terminate.
  ibv_qp* used = link->client.qp();
  toState(used, IBV_QPS_RESET);
  toState(used, IBV_QPS_INIT);
  mustRecv(used, 4, {});
  toError(used);
  expectNumber("Terminate of an earlier connection", 0,
               env.awaitWc(link->client.recv_cq.get(), "receive posted since").vendor_err);
  // What is posted is for the others.
  mustPost(srq.get(), 9);
  send(env, *other, 2);
  env.expectWc(other->server.recv_cq.get(), 9, {IBV_WC_SUCCESS}, "receive of another");
  toError(link->server.qp());
  expectNoEvent(env, link->server.qp(), IBV_EVENT_QP_LAST_WQE_REACHED);
}

// The last event comes without a connection, too, but not again and again.
void lastWqe(Env& env) {
  Srq srq = createSrq(env.pd(), kEntries, 1);
  Cq cq = createCq(env.context(), 4);
  QpConfig config;
  config.send_cq = config.recv_cq = cq.get();
  config.srq = srq.get();
  ibv_qp_init_attr attr = toInitAttr(config);
  RawQp qp(ibv_create_qp(env.pd(), &attr));
  if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  expectNumber("receives granted", 0, attr.cap.max_recv_wr);
  toError(qp.get());
  env.expectEvent(qp.get(), {IBV_EVENT_QP_LAST_WQE_REACHED}, "never connected");
  for (int i = 0; i < 100; ++i) {
    toState(qp.get(), IBV_QPS_RESET);
    toError(qp.get());
  }
  expectNoEvent(env, qp.get(), IBV_EVENT_QP_LAST_WQE_REACHED);
}

// The entry of a message that is cut off completes, before the last event; the next one stays.
void cutOff(Env& env) {
  constexpr size_t kLong = 64 << 20;
  Srq srq = createSrq(env.pd(), kEntries, 1);
  Buffer source(env.pd(), kLong, IBV_ACCESS_LOCAL_WRITE);
  Buffer sink(env.pd(), kLong, IBV_ACCESS_LOCAL_WRITE);
  std::memset(source.data(), 0x11, kLong);
  auto link = connect(env, srq.get());
  auto other = connect(env, srq.get());
  mustPost(srq.get(), 5, {sink.sge(0, kLong)});
  mustPost(srq.get(), 6);
  std::thread sender([&] { postSend(link->client.qp(), {Work::send(1, {source.sge(0, kLong)})}); });
  const auto* first = static_cast<volatile uint8_t*>(sink.data());
  while (*first != 0x11) std::this_thread::yield();
  toError(link->server.qp());
  sender.join();
  env.expectWc(link->server.recv_cq.get(), 5, {IBV_WC_WR_FLUSH_ERR, IBV_WC_SUCCESS}, "receive");
  env.expectEvent(link->server.qp(), {IBV_EVENT_QP_LAST_WQE_REACHED}, "server");
  send(env, *other, 2);
  env.expectWc(other->server.recv_cq.get(), 6, {IBV_WC_SUCCESS}, "receive of another");
  ibv_wc wc{};
  expectNumber("further completions", 0,
               static_cast<uint32_t>(ibv_poll_cq(link->server.recv_cq.get(), 1, &wc)));
}

std::set<uintptr_t> mappedRings() {
  std::set<uintptr_t> starts;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    uintptr_t start = 0;
    if (line.find("/dev/infiniband/uverbs") != std::string::npos &&
        std::sscanf(line.c_str(), "%" SCNxPTR, &start) == 1) {
      starts.insert(start);
    }
  }
  return starts;
}

// An SRQ whose ring can be written to as no provider would.
struct OpenSrq {
  explicit OpenSrq(Env& env) {
    const std::set<uintptr_t> before = mappedRings();
    srq = createSrq(env.pd(), kEntries, 2);
    for (uintptr_t start : mappedRings()) {
      if (!before.contains(start)) ring = start;
    }
    if (ring == 0) fail("the SRQ has no ring");
  }

  // NOLINTBEGIN(performance-no-int-to-ptr): where the ring is mapped.
  void setProducer(uint32_t index) const {
    std::atomic_ref(reinterpret_cast<kiwarp_ring_ctrl*>(ring)->producer) = index;
  }
  void setPieces(uint32_t index, uint32_t count) const {
    const size_t stride = sizeof(kiwarp_rqe) + 2 * sizeof(kiwarp_sge);
    const uintptr_t entry = ring + KIWARP_RING_ENTRIES_OFF + index * stride;
    std::atomic_ref(reinterpret_cast<kiwarp_rqe*>(entry)->num_sge) = count;
  }
  // NOLINTEND(performance-no-int-to-ptr)

  Srq srq;
  uintptr_t ring = 0;
};

// Nonsense in the ring ends the queue pair that takes it, and only that.
void nonsense(Env& env) {
  OpenSrq open(env);
  auto first = connect(env, open.srq.get());
  auto second = connect(env, open.srq.get());
  auto third = connect(env, open.srq.get());
  const auto sendToNonsense = [&env](const Link& link) {
    expectErrno("post", 0, postSend(link.client.qp(), {Work::send(1, {})}).error);
    env.expectEnded(link);
  };
  mustPost(open.srq.get(), 1);
  mustPost(open.srq.get(), 2);
  open.setPieces(0, 3);
  sendToNonsense(*first);
  env.expectWc(first->server.recv_cq.get(), 1, {IBV_WC_WR_FLUSH_ERR}, "entry of 3 SGEs");

  for (uint32_t producer : {0U, 2 + kEntries, 0x80000000U}) {
    open.setProducer(producer);
    expectErrno("resize", EINVAL, modify(open.srq.get(), IBV_SRQ_MAX_WR, 2 * kEntries, 0));
  }
  sendToNonsense(*second);
  open.setProducer(2);
  send(env, *third, 2);
  env.expectWc(third->server.recv_cq.get(), 2, {IBV_WC_SUCCESS}, "what is left");
}

// Four peers at once take what is posted to below the limit, time after time: each arming has one
// event, and none comes before less than the limit is posted.
void limitOfSenders(Env& env) {
  constexpr uint32_t kSenders = 4, kEach = 8, kAll = kSenders * kEach, kLimit = 12;
  constexpr uint32_t kRounds = 25;
  Srq srq = createSrq(env.pd(), kAll, 1);
  LinkOptions options;
  options.server.srq = srq.get();
  options.client.send_wr = kEach;
  std::vector<std::unique_ptr<Link>> links;
  for (uint32_t i = 0; i < kSenders; ++i) links.push_back(env.connect(options));
  const std::vector<Work> sends(kEach, Work::send(1, {}));
  // The events of the queue so far. Read at once: one that waits to be read stands for others.
  uint32_t events = 0;
  const auto readEvents = [&] {
    for (const AsyncEvent& event : env.async().drain()) {
      if (event.element != srq.get()) continue;
      expectSame("event", ibv_event_type_str(IBV_EVENT_SRQ_LIMIT_REACHED),
                 ibv_event_type_str(event.type));
      ++events;
    }
  };
  for (uint32_t round = 1; round <= kRounds; ++round) {
    for (uint32_t i = 0; i < kAll; ++i) mustPost(srq.get(), i);
    expectErrno("arm", 0, modify(srq.get(), IBV_SRQ_LIMIT, 0, kLimit));
    readEvents();
    expectNumber("events before anything is sent", round - 1, events);
    std::barrier together(kSenders);
    std::array<int, kSenders> errors{};
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < kSenders; ++i) {
      threads.emplace_back([&, i] {
        together.arrive_and_wait();
        errors[i] = postSend(links[i]->client.qp(), sends).error;
      });
    }
    const Deadline limit = env.deadline();
    uint32_t received = 0;
    while ((received < kAll || events < round) && !limit.passed()) {
      readEvents();
      for (const auto& link : links) {
        ibv_wc wc{};
        while (ibv_poll_cq(link->server.recv_cq.get(), 1, &wc) == 1) {
          if (wc.status != IBV_WC_SUCCESS) fail("receive: %s", describe(wc).c_str());
          ++received;
        }
      }
    }
    for (std::jthread& thread : threads) thread.join();
    for (const int error : errors) expectErrno("post", 0, error);
    expectNumber("receives", kAll, received);
    expectNumber("events", round, events);
    expectNumber("limit afterwards", 0, query(srq.get()).srq_limit);
    for (const auto& link : links) {
      for (uint32_t i = 0; i < kEach; ++i) {
        env.expectWc(link->client.send_cq.get(), 1, {IBV_WC_SUCCESS}, "Send");
      }
    }
  }
  // The last event is behind all that a queue pair may have raised too often.
  expectErrno("arm", 0, modify(srq.get(), IBV_SRQ_LIMIT, 0, 1));
  const Deadline limit = env.deadline();
  while (events <= kRounds && !limit.passed()) readEvents();
  readEvents();
  expectNumber("events in the end", kRounds + 1, events);
}

}  // namespace

void addSrqCases(std::vector<Case>* cases) {
  cases->push_back({"srq-limits", limits});
  cases->push_back({"srq-attributes", attributes});
  cases->push_back({"srq-full", full});
  cases->push_back({"srq-foreign-pd", foreignPd});
  cases->push_back({"srq-busy", busy});
  cases->push_back({"srq-limit-event", limitOnce});
  cases->push_back({"srq-limit-event-senders", limitOfSenders});
  cases->push_back({"srq-resize", resize});
  cases->push_back({"srq-empty", empty});
  cases->push_back({"srq-last-wqe", lastWqe});
  cases->push_back({"srq-cut-off", cutOff});
  cases->push_back({"srq-nonsense", nonsense});
}

}  // namespace kiwarp::vm
