// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Queues without entries: a queue pair that only receives, or only sends. Nothing can be posted to
// them, not even by a process that writes into their rings.

#include <rdma/ib_user_verbs.h>
#include <rdma/kiwarp-abi.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <set>
#include <utility>

#include "badinput/harness.h"

namespace kiwarp::vm {
namespace {

struct Depths {
  uint32_t send, receive;
};

void expectDepths(const std::string& what, Depths expected, const ibv_qp_cap& cap) {
  expectSame(what, strf("%u and %u", expected.send, expected.receive),
             strf("%u and %u", cap.max_send_wr, cap.max_recv_wr));
}

void expectQueried(ibv_qp* qp, Depths expected) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  checkErrno(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
  expectDepths("queried", expected, attr.cap);
  expectDepths("queried as at creation", expected, init.cap);
}

void expectFull(const char* what, const PostResult& got) {
  expectErrno(what, ENOMEM, got.error);
  expectSame(std::string(what) + ": bad_wr", "1",
             got.bad_id ? std::to_string(*got.bad_id) : "none");
}

// A message to the client, which has receives.
void ping(Env& env, const End& from, const End& to) {
  mustRecv(to.qp(), 2, {});
  expectErrno("post", 0, postSend(from.qp(), {Work::send(3, {})}).error);
  env.expectWc(from.send_cq.get(), 3, {IBV_WC_SUCCESS}, "Send");
  env.expectWc(to.recv_cq.get(), 2, {IBV_WC_SUCCESS}, "receive");
}

void noSends(Env& env) {
  LinkOptions options;
  options.client.send_wr = 0;
  auto link = env.connect(options);
  expectDepths("granted", {0, 16}, link->client.cap);
  expectQueried(link->client.qp(), {0, 16});
  expectFull("send", postSend(link->client.qp(), {Work::send(1, {})}));
  ping(env, link->server, link->client);
}

void noReceives(Env& env) {
  LinkOptions options;
  options.client.recv_wr = 0;
  auto link = env.connect(options);
  expectDepths("granted", {16, 0}, link->client.cap);
  expectQueried(link->client.qp(), {16, 0});
  expectFull("receive", postRecv(link->client.qp(), 1, {}));
  ping(env, link->client, link->server);
}

void neither(Env& env) {
  LinkOptions options;
  options.client.send_wr = options.client.recv_wr = 0;
  auto link = env.connect(options);
  expectDepths("granted", {0, 0}, link->client.cap);
  expectFull("send", postSend(link->client.qp(), {Work::send(1, {})}));
  expectFull("receive", postRecv(link->client.qp(), 1, {}));
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  expectErrno("RTS to ERR", 0, ibv_modify_qp(link->client.qp(), &attr, IBV_QP_STATE));
  env.expectEnded(*link);
  expectFull("send in ERR", postSend(link->client.qp(), {Work::send(1, {})}));
  expectFull("receive in ERR", postRecv(link->client.qp(), 1, {}));
  attr.qp_state = IBV_QPS_RESET;
  expectErrno("ERR to RESET", 0, ibv_modify_qp(link->client.qp(), &attr, IBV_QP_STATE));
}

using Maps = std::set<std::pair<uintptr_t, uintptr_t>>;

Maps mapped() {
  Maps maps;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    uintptr_t start = 0, end = 0;
    if (line.find("/dev/infiniband/uverbs") != std::string::npos &&
        std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &start, &end) == 2) {
      maps.emplace(start, end);
    }
  }
  return maps;
}

// Both rings of a queue pair that was created since maps were read: the send ring is at the start
// of their mapping, the receive ring at the first place where one may be that shows the same state.
struct Rings {
  explicit Rings(const Maps& before) {
    for (const auto& [start, end] : mapped()) {
      if (before.contains({start, end})) continue;
      if (send) fail("more than one mapping is new");
      send = reinterpret_cast<kiwarp_ring_ctrl*>(start);
      size = end - start;
    }
    if (!send) fail("no mapping is new");
  }

  kiwarp_ring_ctrl* receive() const {
    if (send->state == KIWARP_QPS_RESET) fail("a ring cannot be told by this state");
    auto* base = reinterpret_cast<uint8_t*>(send);
    for (size_t at = KIWARP_RING_ENTRIES_OFF; at + KIWARP_RING_ENTRIES_OFF <= size;
         at += KIWARP_RING_ALIGN) {
      auto* ring = reinterpret_cast<kiwarp_ring_ctrl*>(base + at);
      if (ring->state == send->state) return ring;
    }
    fail("no receive ring");
  }

  kiwarp_ring_ctrl* send = nullptr;
  size_t size = 0;
};

void lie(kiwarp_ring_ctrl* ring, uint32_t count) { std::atomic_ref(ring->producer) += count; }

template <typename Body, typename Answer>
void doorbell(const ibv_qp* qp, uint32_t command, uint32_t wqe_size) {
  struct {
    ib_uverbs_cmd_hdr head;
    Body body;
  } request{};
  Answer answer{};
  request.head.command = command;
  request.head.in_words = sizeof(request) / 4;
  request.head.out_words = sizeof(answer) / 4;
  request.body.response = reinterpret_cast<uintptr_t>(&answer);
  request.body.qp_handle = qp->handle;
  request.body.wqe_size = wqe_size;
  const ssize_t n = write(qp->context->cmd_fd, &request, sizeof(request));
  if (n != static_cast<ssize_t>(sizeof(request))) fail("doorbell: %s", errnoName(errno).c_str());
}

void sendDoorbell(const ibv_qp* qp) {
  doorbell<ib_uverbs_post_send, ib_uverbs_post_send_resp>(qp, IB_USER_VERBS_CMD_POST_SEND,
                                                          sizeof(ib_uverbs_send_wr));
}

void receiveDoorbell(const ibv_qp* qp) {
  doorbell<ib_uverbs_post_recv, ib_uverbs_post_recv_resp>(qp, IB_USER_VERBS_CMD_POST_RECV,
                                                          sizeof(ib_uverbs_recv_wr));
}

void expectNothing(ibv_cq* cq, const char* what) {
  ibv_wc wc{};
  const int n = ibv_poll_cq(cq, 1, &wc);
  expectSame(what, "no completion", n == 0 ? "no completion" : describe(wc));
}

// In ERR doorbells flush what is on the rings, before they return: here nothing can be.
void inventedInError(Env& env) {
  Cq cq = createCq(env.context(), 16);
  QpConfig config;
  config.send_cq = config.recv_cq = cq.get();
  config.send_wr = config.recv_wr = 0;
  ibv_qp_init_attr init = toInitAttr(config);
  const Maps before = mapped();
  RawQp qp(ibv_create_qp(env.pd(), &init));
  if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  const Rings rings(before);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  expectErrno("to ERR", 0, ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE));
  for (const uint32_t count : {1U, 2U, 0x80000000U}) {
    lie(rings.send, count);
    lie(rings.receive(), count);
    sendDoorbell(qp.get());
    receiveDoorbell(qp.get());
    expectNothing(cq.get(), "flushed");
  }
}

// A connection whose client's queues have no entries.
struct Empty {
  explicit Empty(Env& env) {
    const Deadline limit = env.deadline();
    link.client.id = env.clientCm().createId();
    resolve(env.clientCm(), link.client.id, Address(env.address(), env.port()), limit);
    prepare(env, &link.client, 0);
    checkErrno(startConnect(link.client.id.get(), {}), "rdma_connect");
    link.server.id = CmId(env.serverCm().expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit).id);
    prepare(env, &link.server, 16);
    checkErrno(startAccept(link.server.id.get(), {}), "rdma_accept");
    env.serverCm().expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    env.clientCm().expect(RDMA_CM_EVENT_ESTABLISHED, limit);
  }

  void prepare(Env& env, End* end, uint32_t depth) {
    end->send_cq = createCq(env.context(), 64);
    end->recv_cq = createCq(env.context(), 64);
    QpConfig config;
    config.pd = env.pd();
    config.send_cq = end->send_cq.get();
    config.recv_cq = end->recv_cq.get();
    config.send_wr = config.recv_wr = depth;
    const Maps before = mapped();
    end->cap = createQp(end->id, config);
    if (depth == 0) rings.emplace(before);
  }

  // The connection has ended, and no queue of the client's had anything to complete.
  void expectFailed(Env& env) const {
    env.expectEnded(link);
    expectNothing(link.client.send_cq.get(), "the send queue");
    expectNothing(link.client.recv_cq.get(), "the receive queue");
  }

  Link link;
  std::optional<Rings> rings;
};

void inventedSend(Env& env) {
  Empty empty(env);
  lie(empty.rings->send, 1);
  sendDoorbell(empty.link.client.qp());
  empty.expectFailed(env);
}

void inventedReceive(Env& env) {
  Empty empty(env);
  lie(empty.rings->receive(), 1);
  expectErrno("peer's post", 0, postSend(empty.link.server.qp(), {Work::send(1, {})}).error);
  empty.expectFailed(env);
}

}  // namespace

void addEmptyCases(std::vector<Case>* cases) {
  cases->push_back({"empty-send-queue", noSends});
  cases->push_back({"empty-receive-queue", noReceives});
  cases->push_back({"empty-queues", neither});
  cases->push_back({"empty-queues-index-in-error", inventedInError});
  cases->push_back({"empty-send-queue-index", inventedSend});
  cases->push_back({"empty-receive-queue-index", inventedReceive});
}

}  // namespace kiwarp::vm
