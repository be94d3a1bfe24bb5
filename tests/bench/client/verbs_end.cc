// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/verbs_end.h"

#include <algorithm>
#include <cerrno>

#include "common/error.h"

namespace kiwarp::bench {

using vm::fail;

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr uint64_t kPage = 4096;

namespace {

// No device has to know of atomic operations unless they are what is measured.
int accessFor(const Plan& plan) {
  return plan.op == Op::kFetchAdd ? kAccess | IBV_ACCESS_REMOTE_ATOMIC : kAccess;
}

// The completion queue for ibv_start_poll(). What is read of a completion beside its status.
vm::Cq createCqEx(ibv_context* context, uint64_t entries, ibv_comp_channel* channel) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = static_cast<uint32_t>(entries);
  attr.channel = channel;
  attr.wc_flags = IBV_WC_EX_WITH_QP_NUM;
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &attr);
  if (!cq) fail("ibv_create_cq_ex: %s", vm::errnoName(errno).c_str());
  return vm::Cq(ibv_cq_ex_to_cq(cq));
}

// The builders that a run calls: some devices refuse those that they have not got.
uint64_t sendOps(Op op) {
  switch (op) {
    case Op::kWrite:
      return IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
    case Op::kRead:
      return IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ;
    case Op::kWriteImm:
      return IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    case Op::kFetchAdd:
      return IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    default:
      return IBV_QP_EX_WITH_SEND;
  }
}

}  // namespace

vm::Memory scatteredMemory(size_t size) {
  vm::Memory memory(size);
  for (size_t left = size; left > 0;) {
    const size_t page = std::min<size_t>(left, kPage);
    left -= page;
    std::fill_n(memory.data() + left, page, uint8_t{0x6b});
  }
  return memory;
}

Completions::Completions(ibv_context* context, uint64_t entries, const Plan& plan)
    : never_sleeps_(plan.poll),
      channel_(vm::createChannel(context)),
      cq_(plan.poll_ex ? createCqEx(context, entries, channel_.get())
                       : vm::createCq(context, static_cast<int>(entries), channel_.get())),
      cq_ex_(plan.poll_ex ? reinterpret_cast<ibv_cq_ex*>(cq_.get()) : nullptr) {}

Completions::~Completions() { ibv_ack_cq_events(cq_.get(), unacknowledged_); }

int Completions::poll() {
  if (cq_ex_) return pollEx();
  const int count = ibv_poll_cq(cq_.get(), static_cast<int>(found_.size()), found_.data());
  if (count < 0) fail("ibv_poll_cq failed");
  return count;
}

int Completions::pollEx() {
  ibv_poll_cq_attr attr{};
  int error = ibv_start_poll(cq_ex_, &attr);
  if (error == ENOENT) return 0;
  if (error) fail("ibv_start_poll: %s", vm::errnoName(error).c_str());
  size_t count = 0;
  while (!error) {
    ibv_wc& wc = found_[count++];
    wc.wr_id = cq_ex_->wr_id;
    wc.status = cq_ex_->status;
    // Of one that failed only these two are to be read.
    if (wc.status == IBV_WC_SUCCESS) {
      wc.opcode = ibv_wc_read_opcode(cq_ex_);
      wc.qp_num = ibv_wc_read_qp_num(cq_ex_);
    }
    error = count < found_.size() ? ibv_next_poll(cq_ex_) : ENOENT;
  }
  ibv_end_poll(cq_ex_);
  if (error != ENOENT) fail("ibv_next_poll: %s", vm::errnoName(error).c_str());
  return static_cast<int>(count);
}

// Until there is an event; how many completions there are then.
int Completions::sleep() {
  if (ibv_req_notify_cq(cq_.get(), 0)) fail("ibv_req_notify_cq failed");
  // What came before the request to notify raises no event.
  const int count = poll();
  if (count > 0) return count;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_.get(), &cq, &context)) fail("ibv_get_cq_event failed");
  ++unacknowledged_;
  return poll();
}

std::span<const ibv_wc> Completions::wait() {
  int count = poll();
  while (count == 0) count = never_sleeps_ ? poll() : sleep();
  const std::span<const ibv_wc> seen(found_.data(), static_cast<size_t>(count));
  for (const ibv_wc& wc : seen) {
    if (wc.status != IBV_WC_SUCCESS) fail("%s", vm::describe(wc).c_str());
  }
  return seen;
}

void Completions::drop() {
  while (poll() > 0) {
  }
}

VerbsEnd::VerbsEnd(ibv_context* context, const Plan& plan, uint64_t receives)
    : plan_(plan),
      receives_(receives),
      pd_(vm::allocPd(context)),
      completions_(context, plan.connections * (plan.depth + receives + 8) + 8, plan),
      memory_(scatteredMemory(std::max(plan.connections * plan.size, kPage))),
      region_(vm::regMr(pd_.get(), memory_.data(), memory_.size(), accessFor(plan))),
      srq_(createSrq()),
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

// As many receives as the connections would have by themselves.
vm::Srq VerbsEnd::createSrq() {
  if (!plan_.srq) return {};
  return vm::createSrq(pd_.get(), static_cast<uint32_t>(plan_.connections * receives_), 1);
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
  Lane& lane = lanes_[index];
  lane.id = std::move(id);
  createQp(lane, config);
  if (!works) return;
  if (srq_) by_number_[lane.id->qp->qp_num] = index;
  lane.buffer = {reinterpret_cast<uintptr_t>(memory_.data()) + index * plan_.size,
                 static_cast<uint32_t>(plan_.size), region_->lkey};
  postReceives(index, receives_);
}

void VerbsEnd::createQp(Lane& lane, vm::QpConfig& config) {
  if (srq_) {
    config.srq = srq_.get();
    config.recv_wr = 0;
  }
  if (!plan_.post_wr) {
    vm::createQp(lane.id, config);
    return;
  }
  const ibv_qp_init_attr plain = vm::toInitAttr(config);
  ibv_qp_init_attr_ex attr{};
  attr.send_cq = plain.send_cq;
  attr.recv_cq = plain.recv_cq;
  attr.srq = plain.srq;
  attr.cap = plain.cap;
  attr.qp_type = plain.qp_type;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = config.pd;
  attr.send_ops_flags = sendOps(plan_.op);
  vm::checkErrno(rdma_create_qp_ex(lane.id.get(), &attr), "rdma_create_qp_ex");
  lane.qp_ex = ibv_qp_to_qp_ex(lane.id->qp);
  if (!lane.qp_ex) fail("ibv_qp_to_qp_ex: none");
}

uint64_t VerbsEnd::indexOf(const ibv_wc& wc) const {
  return srq_ && (wc.opcode & IBV_WC_RECV) != 0 ? by_number_.at(wc.qp_num) : wc.wr_id >> 16;
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
    const int error = srq_ ? ibv_post_srq_recv(srq_.get(), wrs.data(), &bad)
                           : ibv_post_recv(lane.id->qp, wrs.data(), &bad);
    if (error) fail("posting receives: %s", vm::errnoName(error).c_str());
    count -= batch;
  }
}

void VerbsEnd::postSend(uint64_t index, uint32_t length, bool signaled) {
  Lane& lane = lanes_[index];
  ibv_sge sge = lane.buffer;
  sge.length = length;
  if (ibv_qp_ex* qp = lane.qp_ex) {
    ibv_wr_start(qp);
    qp->wr_id = makeWrId(index, 0);
    qp->wr_flags = signaled ? IBV_SEND_SIGNALED : 0;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, length > 0 ? 1 : 0, &sge);
    if (int error = ibv_wr_complete(qp)) fail("a Send: %s", vm::errnoName(error).c_str());
    return;
  }
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
