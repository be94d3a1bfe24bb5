// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/verbs_end.h"

namespace kiwarp::bench {

// The end that begins the connections, posts the work, and has the clock.
class Initiator {
 public:
  // The target's address, and the port of its RDMA listener.
  Initiator(const Plan& plan, vm::Address address, vm::Control& control);

  double connectSeconds() const { return connect_seconds_; }
  // How often another port had to be tried.
  uint64_t repeats() const { return repeats_; }
  std::string deviceName() const { return device_; }
  // So many messages on each connection; returns when the target has all of them. In seconds.
  double run(uint64_t messages);

 private:
  void connect();
  // An identifier whose device and route are known. The first one decides where the queues are.
  vm::CmId resolved();
  // False if the port that rdma_cm chose is in use: of a connection that has ended TCP keeps it for
  // a minute, which rdma_cm does not know.
  bool establish(vm::CmId id, uint64_t index);
  void connectSendDisconnect();
  double runChurn(uint64_t messages);
  double runMessages(uint64_t messages);
  double runLatency(uint64_t messages);
  bool mayPost(const Lane& lane, uint64_t messages) const;
  bool finished(const Lane& lane, uint64_t messages) const;
  void postList(uint64_t index, uint64_t messages);
  // The flags of a connection's nth message, and how many its completion stands for.
  struct Asked {
    unsigned flags = 0;
    uint64_t requests = 0;
  };
  Asked askedOf(uint64_t nth, uint64_t messages) const;
  void postOld(Lane& lane, uint64_t index, uint64_t messages);
  void postEx(Lane& lane, uint64_t index, uint64_t messages);
  void take(const ibv_wc& wc);

  const Plan plan_;
  const vm::Address address_;
  vm::EventChannel events_;
  std::unique_ptr<VerbsEnd> end_;
  std::vector<ibv_send_wr> wrs_;
  std::string device_;
  double connect_seconds_ = 0;
  uint64_t repeats_ = 0;
};

}  // namespace kiwarp::bench
