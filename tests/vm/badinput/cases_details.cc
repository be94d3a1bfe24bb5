// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// What the kernel tells "rdma resource show -dd" of queue pairs, completion queues and shared
// receive queues follows each step that their owner takes.

#include <poll.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "badinput/harness.h"
#include "common/resources.h"

namespace kiwarp::vm {
namespace {

constexpr uint32_t kSrqEntries = 16, kCqEntries = 8;

using Values = std::vector<std::pair<std::string, std::string>>;

std::vector<Resource> resources(Env& env, ResourceKind kind) {
  return ownResources(ibv_get_device_name(env.context()->device), kind);
}

std::string detail(const Resource& of, const std::string& name) {
  const auto found = of.details.find(name);
  return found == of.details.end() ? "nothing" : found->second;
}

// The object has these values, soon: a completion may be there before all of its traces are.
template <typename Which>
void expectDetails(Env& env, const std::string& when, ResourceKind kind, Which which,
                   const Values& values) {
  const Deadline limit = env.deadline();
  for (;;) {
    const std::vector<Resource> all = resources(env, kind);
    const auto found = std::ranges::find_if(all, which);
    if (found == all.end()) fail("%s: the object is not shown", when.c_str());
    const bool same = std::ranges::all_of(
        values, [&](const auto& value) { return detail(*found, value.first) == value.second; });
    if (same) return;
    if (!limit.passed()) continue;
    for (const auto& [name, value] : values) {
      expectSame(strf("%s: %s", when.c_str(), name.c_str()), value, detail(*found, name));
    }
  }
}

// How far one direction of a queue pair has got.
struct Progress {
  uint32_t sends = 0, reads = 0;
};

void send(Env& env, const End& from, uint64_t id, std::vector<ibv_sge> sges = {}) {
  expectErrno("post", 0, postSend(from.qp(), {Work::send(id, std::move(sges))}).error);
  env.expectWc(from.send_cq.get(), id, {IBV_WC_SUCCESS}, "Send");
}

std::string number(uint64_t value) { return std::to_string(value); }

// The figures of a queue pair whose connection is open. MSNs are the next message's.
void expectQp(Env& env, const std::string& when, const End& end, const Progress& out,
              const Progress& in, uint32_t recvs) {
  const std::string sent = number(out.sends + out.reads), received = number(in.sends);
  expectDetails(env, when, ResourceKind::kQp,
                [&](const Resource& qp) { return qp.lqpn == end.qp()->qp_num; },
                {{"stream", "open"},
                 {"tx_send_msn", number(out.sends + 1)},
                 {"tx_read_msn", number(out.reads + 1)},
                 {"rx_send_msn", number(in.sends + 1)},
                 {"rx_read_msn", number(in.reads + 1)},
                 {"reads_out", "0"},
                 {"reads_in", "0"},
                 {"sq_entries", number(end.cap.max_send_wr)},
                 {"sq_posted", sent},
                 {"sq_taken", sent},
                 {"sq_done", sent},
                 {"rq_entries", number(end.cap.max_recv_wr)},
                 {"rq_posted", number(recvs)},
                 {"rq_taken", received},
                 {"rq_done", received}});
}

void qpDetails(Env& env) {
  constexpr uint32_t kSends = 3, kReads = 2, kRecvs = 5;
  LinkOptions options;
  options.client.send_wr = 32;
  options.server.recv_wr = 64;
  auto link = env.connect(options);
  const End &client = link->client, &server = link->server;
  Buffer local(env.pd(), 4096, IBV_ACCESS_LOCAL_WRITE);
  Buffer remote(env.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  const auto expectBoth = [&](const std::string& when, const Progress& up, const Progress& down,
                              uint32_t server_recvs, uint32_t client_recvs) {
    expectQp(env, when + ", client", client, up, down, client_recvs);
    expectQp(env, when + ", server", server, down, up, server_recvs);
  };
  expectBoth("at first", {}, {}, 0, 0);
  for (uint64_t id = 0; id < kRecvs; ++id) mustRecv(server.qp(), id, {remote.sge(0, 8)});
  expectBoth("receives posted", {}, {}, kRecvs, 0);
  for (uint64_t id = 0; id < kSends; ++id) send(env, client, id, {local.sge(0, 8)});
  expectBoth("Sends", {kSends, 0}, {}, kRecvs, 0);
  for (uint64_t id = 0; id < kReads; ++id) {
    const Work read = Work::read(id, {local.sge(0, 8)}, remote.address(), remote.rkey());
    expectErrno("post", 0, postSend(client.qp(), {read}).error);
    env.expectWc(client.send_cq.get(), id, {IBV_WC_SUCCESS}, "Read");
  }
  expectBoth("Reads", {kSends, kReads}, {}, kRecvs, 0);
  mustRecv(client.qp(), 1, {});
  send(env, server, 1);
  expectBoth("one the other way", {kSends, kReads}, {1, 0}, kRecvs, 1);
}

struct CqFigures {
  uint32_t completions = 0, unpolled = 0, armed = 0, armed_solicited = 0, overflow = 0;
};

void cqDetails(Env& env) {
  constexpr int kAny = 0, kSolicited = 1;
  constexpr uint32_t kRecvs = 3 + kCqEntries + 1;
  CompChannel channel = createChannel(env.context());
  Cq cq = createCq(env.context(), kCqEntries, channel.get());
  LinkOptions options;
  options.server.recv_wr = kRecvs;
  options.make_qp = [&](CmId& id, const QpConfig& config) {
    QpConfig with = config;
    if (config.recv_wr == kRecvs) with.recv_cq = cq.get();
    return createQp(id, with);
  };
  auto link = env.connect(options);
  // Its name is the number of its entries, which no other of this process has.
  const auto which = [&](const Resource& shown) {
    return shown.cqe == static_cast<uint32_t>(cq->cqe);
  };
  const auto expectCq = [&](const char* when, CqFigures figures) {
    expectDetails(env, when, ResourceKind::kCq, which,
                  {{"entries", number(kCqEntries)},
                   {"unpolled", number(figures.unpolled)},
                   {"completions", number(figures.completions)},
                   {"armed", number(figures.armed)},
                   {"armed_solicited", number(figures.armed_solicited)},
                   {"overflow", number(figures.overflow)}});
  };
  const auto arm = [&](int solicited) {
    expectErrno("arm", 0, ibv_req_notify_cq(cq.get(), solicited));
  };
  const auto expectWakeUp = [&](const char* what) {
    ibv_cq* woken = nullptr;
    void* context = nullptr;
    pollfd waiting{channel->fd, POLLIN, 0};
    if (poll(&waiting, 1, env.deadline().pollTimeout()) != 1) fail("%s: no event", what);
    checkErrno(ibv_get_cq_event(channel.get(), &woken, &context), "ibv_get_cq_event");
    ibv_ack_cq_events(woken, 1);
  };
  for (uint64_t id = 0; id < kRecvs; ++id) mustRecv(link->server.qp(), id, {});
  expectCq("at first", {});
  send(env, link->client, 1);
  expectCq("not armed", {.completions = 1, .unpolled = 1});
  env.expectWc(cq.get(), 0, {IBV_WC_SUCCESS}, "receive");
  expectCq("polled", {.completions = 1});
  arm(kSolicited);
  expectCq("armed for what is solicited", {.completions = 1, .armed_solicited = 1});
  send(env, link->client, 2);
  expectCq("not solicited", {.completions = 2, .unpolled = 1, .armed_solicited = 1});
  env.expectWc(cq.get(), 1, {IBV_WC_SUCCESS}, "receive");
  // Entries that are left behind would have an event sooner or later.
  arm(kAny);
  expectCq("armed for all", {.completions = 2, .armed = 1, .armed_solicited = 1});
  send(env, link->client, 3);
  expectWakeUp("armed for all");
  expectCq("an event has come", {.completions = 3, .unpolled = 1});
  env.expectWc(cq.get(), 2, {IBV_WC_SUCCESS}, "receive");
  for (uint64_t id = 0; id < kCqEntries; ++id) send(env, link->client, id);
  expectCq("full", {.completions = 3 + kCqEntries, .unpolled = kCqEntries});
  expectErrno("post", 0, postSend(link->client.qp(), {Work::send(9, {})}).error);
  env.expectEvent(cq.get(), {IBV_EVENT_CQ_ERR}, "CQ's event");
  env.expectEvent(link->server.qp(), {IBV_EVENT_QP_FATAL}, "QP's event");
  env.expectEnded(*link);
  expectCq("one too many", {.completions = 3 + kCqEntries, .unpolled = kCqEntries, .overflow = 1});
}

// What the device tells of the queue follows each step.
void srqDetails(Env& env) {
  Srq srq = createSrq(env.pd(), kSrqEntries - 1, 1);
  LinkOptions options;
  options.server.srq = srq.get();
  auto link = env.connect(options);
  uint32_t posted = 0, taken = 0, entries = kSrqEntries, limit = 0;
  const auto expectSrq = [&](const char* when) {
    expectDetails(env, when, ResourceKind::kSrq, [](const Resource&) { return true; },
                  {{"entries", number(entries)},
                   {"posted", number(posted)},
                   {"taken", number(taken)},
                   {"limit", number(limit)}});
  };
  const auto post = [&](uint32_t count) {
    for (; count > 0; --count) {
      expectErrno("posting to the SRQ", 0, postSrqRecv(srq.get(), posted++, {}).error);
    }
  };
  const auto receive = [&](uint32_t count) {
    for (; count > 0; --count) {
      send(env, link->client, 1);
      env.expectWc(link->server.recv_cq.get(), taken++, {IBV_WC_SUCCESS}, "receive");
    }
  };
  const auto modify = [&](const char* what, int mask) {
    ibv_srq_attr attr{};
    attr.max_wr = entries;
    attr.srq_limit = limit;
    expectErrno(what, 0, ibv_modify_srq(srq.get(), &attr, mask));
  };
  expectSrq("at first");
  post(7);
  expectSrq("posted");
  limit = 4;
  modify("arm", IBV_SRQ_LIMIT);
  receive(3);
  expectSrq("armed, at the limit");
  receive(1);
  limit = 0;
  env.expectEvent(srq.get(), {IBV_EVENT_SRQ_LIMIT_REACHED}, "limit");
  expectSrq("below the limit");
  post(13);
  expectSrq("full");
  entries = 32;
  limit = 9;
  modify("larger", IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
  receive(2);
  expectSrq("resized");
  link.reset();
  expectErrno("destroy", 0, ibv_destroy_srq(srq.release()));
  if (!resources(env, ResourceKind::kSrq).empty()) fail("what was destroyed is shown");
}

}  // namespace

void addDetailsCases(std::vector<Case>* cases) {
  cases->push_back({"srq-details", srqDetails});
  cases->push_back({"qp-details", qpDetails});
  cases->push_back({"cq-details", cqDetails});
}

}  // namespace kiwarp::vm
