// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <deque>
#include <memory>

#include "client/verbs_end.h"

namespace kiwarp::bench {

// The end that listens. It sleeps unless a message for it arrives: Writes and Reads don't wake it.
class Target {
 public:
  // The address and port to listen on.
  Target(const Plan& plan, vm::Address address);

  // Until all connections are there; then tells the initiator where its memory is.
  void accept(vm::Control& control);
  // Receives and answers what a run of so many messages brings.
  void serve(uint64_t messages);

 private:
  void take(uint64_t index, uint64_t expected);
  void acceptOne(rdma_cm_id* request, uint64_t index);
  vm::CmEvent awaitEvent(rdma_cm_event_type type);
  void serveConnection();

  const Plan plan_;
  vm::EventChannel events_;
  std::deque<vm::CmEvent> early_;  // came before what was waited for
  vm::CmId listener_;
  VerbsEnd end_;
};

}  // namespace kiwarp::bench
