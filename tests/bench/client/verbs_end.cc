// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/verbs_end.h"

#include <algorithm>
#include <cerrno>

#include "common/error.h"

namespace kiwarp::bench {

using vm::fail;

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr uint64_t kPage = 4096;

vm::Memory scatteredMemory(size_t size) {
  vm::Memory memory(size);
  for (size_t left = size; left > 0;) {
    const size_t page = std::min<size_t>(left, kPage);
    left -= page;
    std::fill_n(memory.data() + left, page, uint8_t{0x6b});
  }
  return memory;
}

Completions::Completions(ibv_context* context, uint64_t entries)
    : channel_(vm::createChannel(context)),
      cq_(vm::createCq(context, static_cast<int>(entries), channel_.get())) {}

Completions::~Completions() { ibv_ack_cq_events(cq_.get(), unacknowledged_); }

int Completions::poll() {
  const int count = ibv_poll_cq(cq_.get(), static_cast<int>(found_.size()), found_.data());
  if (count < 0) fail("ibv_poll_cq failed");
  return count;
}

std::span<const ibv_wc> Completions::wait() {
  int count = poll();
  while (count == 0) {
    if (ibv_req_notify_cq(cq_.get(), 0)) fail("ibv_req_notify_cq failed");
    // What came before the request to notify raises no event.
    count = poll();
    if (count > 0) break;
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel_.get(), &cq, &context)) fail("ibv_get_cq_event failed");
    ++unacknowledged_;
    count = poll();
  }
  const std::span<const ibv_wc> seen(found_.data(), static_cast<size_t>(count));
  for (const ibv_wc& wc : seen) {
    if (wc.status != IBV_WC_SUCCESS) fail("%s", vm::describe(wc).c_str());
  }
  return seen;
}

VerbsEnd::VerbsEnd(ibv_context* context, const Plan& plan, uint64_t receives)
    : plan_(plan),
      receives_(receives),
      pd_(vm::allocPd(context)),
      completions_(context, plan.connections * (plan.depth + receives + 8) + 8),
      memory_(scatteredMemory(std::max(plan.connections * plan.size, kPage))),
      region_(vm::regMr(pd_.get(), memory_.data(), memory_.size(), kAccess)),
      lanes_(plan.allConnections()) {
  registerRegions();
  createQps();
}

void VerbsEnd::createQps() {
  vm::QpConfig config;
  config.send_cq = config.recv_cq = completions_.get();
  config.send_wr = config.recv_wr = 1;
  ibv_qp_init_attr attr = vm::toInitAttr(config);
  for (uint64_t i = 0; i < plan_.qps; ++i) {
    unconnected_.emplace_back(ibv_create_qp(pd_.get(), &attr));
    if (!unconnected_.back()) {
      fail("ibv_create_qp: %s after %llu", vm::errnoName(errno).c_str(),
           static_cast<unsigned long long>(i));
    }
  }
}

void VerbsEnd::registerRegions() {
  for (uint64_t i = 0; i < plan_.regions; ++i) {
    unused_.push_back(vm::regMr(pd_.get(), memory_.data(), kPage, kAccess));
  }
}

void VerbsEnd::prepare(vm::CmId id, uint64_t index) {
  const bool works = index < plan_.connections;
  vm::QpConfig config;
  config.pd = pd_.get();
  config.send_cq = config.recv_cq = completions_.get();
  // Some to spare for the target's replies and for the Send behind the last Write.
  config.send_wr = works ? static_cast<uint32_t>(plan_.depth + 8) : 16;
  config.recv_wr = works ? static_cast<uint32_t>(receives_) : 16;
  vm::createQp(id, config);
  Lane& lane = lanes_[index];
  lane.id = std::move(id);
  if (!works) return;
  lane.buffer = {reinterpret_cast<uintptr_t>(memory_.data()) + index * plan_.size,
                 static_cast<uint32_t>(plan_.size), region_->lkey};
  postReceives(index, receives_);
}

void VerbsEnd::postReceives(uint64_t index, uint64_t count) {
  Lane& lane = lanes_[index];
  std::array<ibv_recv_wr, 64> wrs;
  while (count > 0) {
    const size_t batch = std::min<size_t>(count, wrs.size());
    for (size_t i = 0; i < batch; ++i) {
      wrs[i] = {makeWrId(index, 1), i + 1 < batch ? &wrs[i + 1] : nullptr, &lane.buffer, 1};
    }
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(lane.id->qp, wrs.data(), &bad);
    if (error) fail("ibv_post_recv: %s", vm::errnoName(error).c_str());
    count -= batch;
  }
}

void VerbsEnd::postSend(uint64_t index, uint32_t length, bool signaled) {
  Lane& lane = lanes_[index];
  ibv_sge sge = lane.buffer;
  sge.length = length;
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = makeWrId(index, 0);
  wr.sg_list = &sge;
  wr.num_sge = length > 0 ? 1 : 0;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
  const int error = ibv_post_send(lane.id->qp, &wr, &bad);
  if (error) fail("ibv_post_send: %s", vm::errnoName(error).c_str());
}

}  // namespace kiwarp::bench
