// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/target.h"

#include "common/error.h"

namespace kiwarp::bench {

using vm::fail;

constexpr vm::seconds kTimeLimit(600);

Target::Target(const Plan& plan, vm::Address address)
    : plan_(plan),
      listener_(events_.listen(address, 128)),
      end_(listener_->verbs, plan, plan.op == Op::kChurn ? Plan::kChurnReceives : plan.receives) {}

void Target::acceptOne(rdma_cm_id* request, uint64_t index) {
  end_.prepare(vm::CmId(request), index);
  if (int error = vm::startAccept(request, {})) {
    fail("rdma_accept: %s", vm::errnoName(error).c_str());
  }
}

void Target::accept(vm::Control& control) {
  const vm::Deadline deadline(kTimeLimit);
  uint64_t begun = 0, established = 0;
  while (established < plan_.connectedBefore()) {
    const std::optional<vm::CmEvent> event = events_.next(deadline);
    if (!event) fail("%llu connections in time", static_cast<unsigned long long>(established));
    if (event->type == RDMA_CM_EVENT_ESTABLISHED) {
      ++established;
    } else if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      acceptOne(event->id, begun++);
    } else {
      fail("%s", vm::describe(*event).c_str());
    }
  }
  vm::ControlMessage region;
  region.type = kRegion;
  region.value[0] = reinterpret_cast<uintptr_t>(end_.region()->addr);
  region.value[1] = end_.region()->rkey;
  control.send(region);
}

void Target::take(uint64_t index, uint64_t expected) {
  Lane& lane = end_.lane(index);
  ++lane.arrived;
  if (plan_.op == Op::kLatency) {
    // The answer is what is waited for; there are receives enough meanwhile.
    end_.postSend(index, static_cast<uint32_t>(plan_.size), lane.arrived % plan_.signal == 0);
    end_.postReceives(index, 1);
    return;
  }
  const uint64_t rest = lane.arrived % plan_.window();
  if (rest == 0 || lane.arrived == expected) {
    end_.postReceives(index, rest ? rest : plan_.window());
    end_.postSend(index, 0, true);
  }
}

// The next connection may be asked for before the end of the last one is told.
vm::CmEvent Target::awaitEvent(rdma_cm_event_type type) {
  const vm::Deadline deadline(kTimeLimit);
  for (auto it = early_.begin(); it != early_.end(); ++it) {
    if (it->type != type) continue;
    vm::CmEvent found = *it;
    early_.erase(it);
    return found;
  }
  for (;;) {
    std::optional<vm::CmEvent> event = events_.next(deadline);
    if (!event) fail("no %s in time", rdma_event_str(type));
    if (event->type == type) return *event;
    if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) fail("%s", vm::describe(*event).c_str());
    early_.push_back(*event);
  }
}

// One message and its answer, until the peer disconnects.
void Target::serveConnection() {
  acceptOne(awaitEvent(RDMA_CM_EVENT_CONNECT_REQUEST).id, 0);
  awaitEvent(RDMA_CM_EVENT_ESTABLISHED);
  for (size_t done = 0; done < 2;) {
    for (const ibv_wc& wc : end_.completions().wait()) {
      ++done;
      if (wc.opcode & IBV_WC_RECV) end_.postSend(0, static_cast<uint32_t>(plan_.size), true);
    }
  }
  awaitEvent(RDMA_CM_EVENT_DISCONNECTED);
  vm::CmId& id = end_.lane(0).id;
  vm::checkErrno(rdma_disconnect(id.get()), "rdma_disconnect");
  id.reset();
}

void Target::serve(uint64_t messages) {
  if (plan_.op == Op::kChurn) {
    for (uint64_t i = 0; i < messages; ++i) serveConnection();
    return;
  }
  const uint64_t expected = plan_.arrivals(messages);
  for (uint64_t i = 0; i < plan_.connections; ++i) end_.lane(i).arrived = 0;
  uint64_t left = expected * plan_.connections;
  while (left > 0) {
    for (const ibv_wc& wc : end_.completions().wait()) {
      if ((wc.opcode & IBV_WC_RECV) == 0) continue;
      take(end_.indexOf(wc), expected);
      --left;
    }
  }
}

}  // namespace kiwarp::bench
