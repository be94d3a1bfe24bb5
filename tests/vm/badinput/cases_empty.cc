// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Queues without entries: a queue pair that only receives, or only sends. Nothing can be posted to
// them, not even by a process that writes into their rings.

#include "badinput/harness.h"
#include "badinput/rings.h"

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
  const Rings::Maps before = Rings::mapped();
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

// The connection has ended, and no queue of the client's had anything to complete.
void expectFailed(Env& env, const Link& link) {
  env.expectEnded(link);
  expectNothing(link.client.send_cq.get(), "the send queue");
  expectNothing(link.client.recv_cq.get(), "the receive queue");
}

void inventedSend(Env& env) {
  RingLink empty(env, 0);
  lie(empty.rings->send, 1);
  sendDoorbell(empty.link.client.qp());
  expectFailed(env, empty.link);
}

void inventedReceive(Env& env) {
  RingLink empty(env, 0);
  lie(empty.rings->receive(), 1);
  expectErrno("peer's post", 0, postSend(empty.link.server.qp(), {Work::send(1, {})}).error);
  expectFailed(env, empty.link);
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
