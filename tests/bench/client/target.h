// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

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

  const Plan plan_;
  vm::EventChannel events_;
  vm::CmId listener_;
  VerbsEnd end_;
};

}  // namespace kiwarp::bench
