// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/initiator.h"

#include <algorithm>
#include <cerrno>

#include "common/error.h"

namespace kiwarp::bench {

using vm::Clock;
using vm::fail;

constexpr vm::seconds kTimeLimit(600);
// The target's replies that may be on their way, and the receives for them.
constexpr uint64_t kReplies = 8;

namespace {

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

ibv_wr_opcode opcodeOf(Op op) {
  switch (op) {
    case Op::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Op::kRead:
      return IBV_WR_RDMA_READ;
    case Op::kWriteImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Op::kFetchAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    default:
      return IBV_WR_SEND;
  }
}

}  // namespace

Initiator::Initiator(const Plan& plan, vm::Address address, vm::Control& control)
    : plan_(plan), address_(address), wrs_(plan.list) {
  connect();
  // Where each connection's Writes go and its Reads come from.
  const vm::ControlMessage region = control.receive(vm::Deadline(kTimeLimit));
  if (region.type != kRegion) fail("the target did not tell its region");
  for (uint64_t i = 0; i < plan_.connectedBefore(); ++i) {
    end_->lane(i).remote_address = region.value[0] + i * plan_.size;
    end_->lane(i).remote_key = static_cast<uint32_t>(region.value[1]);
  }
}

vm::CmId Initiator::resolved() {
  vm::CmId id = events_.createId();
  vm::resolve(events_, id, address_, vm::Deadline(kTimeLimit));
  if (end_) return id;
  const uint64_t receives = plan_.op == Op::kChurn ? Plan::kChurnReceives : kReplies;
  end_ = std::make_unique<VerbsEnd>(id->verbs, plan_, receives);
  device_ = ibv_get_device_name(id->verbs->device);
  return id;
}

bool Initiator::establish(vm::CmId id, uint64_t index) {
  rdma_cm_id* raw = id.get();
  end_->prepare(std::move(id), index);
  const int error = vm::startConnect(raw, {});
  if (error == EADDRINUSE) {
    // Some devices flush the receives of a queue that never was connected.
    end_->lane(index).id.reset();
    end_->completions().drop();
    return false;
  }
  if (error) fail("rdma_connect: %s", vm::errnoName(error).c_str());
  events_.expect(RDMA_CM_EVENT_ESTABLISHED, vm::Deadline(kTimeLimit));
  return true;
}

void Initiator::connect() {
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < plan_.connectedBefore(); ++i) {
    while (!establish(resolved(), i)) ++repeats_;
  }
  connect_seconds_ = secondsSince(start);
  // The queues of a program that connects all the time are there before.
  if (!end_) resolved();
}

double Initiator::run(uint64_t messages) {
  for (uint64_t i = 0; i < plan_.connections; ++i) {
    Lane& lane = end_->lane(i);
    lane.posted = lane.completed = lane.arrived = 0;
  }
  if (plan_.op == Op::kChurn) return runChurn(messages);
  return plan_.op == Op::kLatency ? runLatency(messages) : runMessages(messages);
}

bool Initiator::mayPost(const Lane& lane, uint64_t messages) const {
  if (lane.posted == messages || lane.posted - lane.completed + plan_.list > plan_.depth) {
    return false;
  }
  // A peer with no receive posted for a Send is an error on iWARP: each reply opens the window.
  return !plan_.takesReceives() ||
         lane.posted + plan_.list <= plan_.window() * lane.arrived + plan_.receives;
}

bool Initiator::finished(const Lane& lane, uint64_t messages) const {
  return lane.completed == messages && lane.arrived == plan_.replies(messages);
}

Initiator::Asked Initiator::askedOf(uint64_t nth, uint64_t messages) const {
  if (plan_.list > 1) {
    if (nth % plan_.list != 0) return {};
    return {IBV_SEND_SIGNALED, plan_.list};
  }
  if (nth % plan_.signal != 0 && nth != messages) return {};
  return {IBV_SEND_SIGNALED, (nth - 1) % plan_.signal + 1};
}

void Initiator::postOld(Lane& lane, uint64_t index, uint64_t messages) {
  for (uint64_t i = 0; i < plan_.list; ++i) {
    const Asked asked = askedOf(lane.posted + i + 1, messages);
    ibv_send_wr& wr = wrs_[i];
    wr = {};
    wr.next = i + 1 < plan_.list ? &wrs_[i + 1] : nullptr;
    wr.sg_list = &lane.buffer;
    wr.num_sge = 1;
    wr.opcode = opcodeOf(plan_.op);
    wr.send_flags = asked.flags;
    wr.wr_id = makeWrId(index, asked.requests);
    if (plan_.op == Op::kFetchAdd) {
      wr.wr.atomic = {lane.remote_address, 1, 0, lane.remote_key};
    } else {
      wr.wr.rdma = {lane.remote_address, lane.remote_key};
    }
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(lane.id->qp, wrs_.data(), &bad);
  if (error) fail("ibv_post_send: %s", vm::errnoName(error).c_str());
}

void Initiator::postEx(Lane& lane, uint64_t index, uint64_t messages) {
  ibv_qp_ex* qp = lane.qp_ex;
  ibv_wr_start(qp);
  for (uint64_t i = 0; i < plan_.list; ++i) {
    const Asked asked = askedOf(lane.posted + i + 1, messages);
    qp->wr_id = makeWrId(index, asked.requests);
    qp->wr_flags = asked.flags;
    switch (plan_.op) {
      case Op::kWrite:
        ibv_wr_rdma_write(qp, lane.remote_key, lane.remote_address);
        break;
      case Op::kRead:
        ibv_wr_rdma_read(qp, lane.remote_key, lane.remote_address);
        break;
      case Op::kWriteImm:
        ibv_wr_rdma_write_imm(qp, lane.remote_key, lane.remote_address, 0);
        break;
      case Op::kFetchAdd:
        ibv_wr_atomic_fetch_add(qp, lane.remote_key, lane.remote_address, 1);
        break;
      default:
        ibv_wr_send(qp);
    }
    ibv_wr_set_sge(qp, lane.buffer.lkey, lane.buffer.addr, lane.buffer.length);
  }
  if (int error = ibv_wr_complete(qp)) fail("ibv_wr_complete: %s", vm::errnoName(error).c_str());
}

void Initiator::postList(uint64_t index, uint64_t messages) {
  Lane& lane = end_->lane(index);
  if (lane.qp_ex) {
    postEx(lane, index, messages);
  } else {
    postOld(lane, index, messages);
  }
  lane.posted += plan_.list;
  // The Send that tells the target that all is written.
  if (plan_.op == Op::kWrite && lane.posted == messages) end_->postSend(index, 0, true);
}

void Initiator::take(const ibv_wc& wc) {
  const uint64_t index = end_->indexOf(wc);
  Lane& lane = end_->lane(index);
  if (wc.opcode == IBV_WC_RECV) {
    ++lane.arrived;
    end_->postReceives(index, 1);
  } else {
    lane.completed += requestsOf(wc);
  }
}

double Initiator::runMessages(uint64_t messages) {
  const Clock::time_point start = Clock::now();
  for (;;) {
    bool all = true;
    for (uint64_t i = 0; i < plan_.connections; ++i) {
      while (mayPost(end_->lane(i), messages)) postList(i, messages);
      all = all && finished(end_->lane(i), messages);
    }
    if (all) return secondsSince(start);
    for (const ibv_wc& wc : end_->completions().wait()) take(wc);
  }
}

// Waits for the answer, and for its own Send: what is disconnected then has nothing to flush.
void Initiator::connectSendDisconnect() {
  while (!establish(resolved(), 0)) ++repeats_;
  end_->postSend(0, static_cast<uint32_t>(plan_.size), true);
  for (size_t done = 0; done < 2;) done += end_->completions().wait().size();
  vm::CmId& id = end_->lane(0).id;
  vm::checkErrno(rdma_disconnect(id.get()), "rdma_disconnect");
  events_.expect(RDMA_CM_EVENT_DISCONNECTED, vm::Deadline(kTimeLimit));
  id.reset();
}

double Initiator::runChurn(uint64_t messages) {
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < messages; ++i) connectSendDisconnect();
  return secondsSince(start);
}

double Initiator::runLatency(uint64_t messages) {
  Lane& lane = end_->lane(0);
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < messages; ++i) {
    end_->postSend(0, static_cast<uint32_t>(plan_.size), i % plan_.signal == 0);
    while (lane.arrived == i) {
      for (const ibv_wc& wc : end_->completions().wait()) take(wc);
    }
  }
  return secondsSince(start);
}

}  // namespace kiwarp::bench
