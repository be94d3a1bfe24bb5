// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "badinput/rings.h"

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <fstream>

namespace kiwarp::vm {

Rings::Maps Rings::mapped() {
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

Rings::Rings(const Maps& before) {
  for (const auto& [start, end] : mapped()) {
    if (before.contains({start, end})) continue;
    if (send) fail("more than one mapping is new");
    send = reinterpret_cast<kiwarp_ring_ctrl*>(start);
    size = end - start;
  }
  if (!send) fail("no mapping is new");
}

kiwarp_ring_ctrl* Rings::receive() const {
  if (send->state == KIWARP_QPS_RESET) fail("a ring cannot be told by this state");
  auto* base = reinterpret_cast<uint8_t*>(send);
  for (size_t at = KIWARP_RING_ENTRIES_OFF; at + KIWARP_RING_ENTRIES_OFF <= size;
       at += KIWARP_RING_ALIGN) {
    auto* ring = reinterpret_cast<kiwarp_ring_ctrl*>(base + at);
    if (ring->state == send->state) return ring;
  }
  fail("no receive ring");
}

kiwarp_sqe* Rings::firstSend() const {
  return reinterpret_cast<kiwarp_sqe*>(reinterpret_cast<uint8_t*>(send) + KIWARP_RING_ENTRIES_OFF);
}

void lie(kiwarp_ring_ctrl* ring, uint32_t count) { std::atomic_ref(ring->producer) += count; }

namespace {

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

}  // namespace

void sendDoorbell(const ibv_qp* qp) {
  doorbell<ib_uverbs_post_send, ib_uverbs_post_send_resp>(qp, IB_USER_VERBS_CMD_POST_SEND,
                                                          sizeof(ib_uverbs_send_wr));
}

void receiveDoorbell(const ibv_qp* qp) {
  doorbell<ib_uverbs_post_recv, ib_uverbs_post_recv_resp>(qp, IB_USER_VERBS_CMD_POST_RECV,
                                                          sizeof(ib_uverbs_recv_wr));
}

RingLink::RingLink(Env& env, uint32_t depth) {
  const Deadline limit = env.deadline();
  link.client.id = env.clientCm().createId();
  resolve(env.clientCm(), link.client.id, Address(env.address(), env.port()), limit);
  prepare(env, &link.client, depth);
  checkErrno(startConnect(link.client.id.get(), {}), "rdma_connect");
  link.server.id = CmId(env.serverCm().expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit).id);
  prepare(env, &link.server, 16);
  checkErrno(startAccept(link.server.id.get(), {}), "rdma_accept");
  env.serverCm().expect(RDMA_CM_EVENT_ESTABLISHED, limit);
  env.clientCm().expect(RDMA_CM_EVENT_ESTABLISHED, limit);
}

void RingLink::prepare(Env& env, End* end, uint32_t depth) {
  end->send_cq = createCq(env.context(), 64);
  end->recv_cq = createCq(env.context(), 64);
  QpConfig config;
  config.pd = env.pd();
  config.send_cq = end->send_cq.get();
  config.recv_cq = end->recv_cq.get();
  config.send_wr = config.recv_wr = depth;
  config.send_sge = 2;
  const Rings::Maps before = Rings::mapped();
  end->cap = createQp(end->id, config);
  if (end == &link.client) rings.emplace(before);
}

}  // namespace kiwarp::vm
