// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "common/cm.h"
#include "common/verbs.h"

namespace kiwarp::vm {

constexpr seconds kTimeLimit{60};

struct Settings {
  std::string attack, address, other_address;
  uint64_t port = 18900, rounds = 200, qpn = 0, accept_qpn = 0;
};

// One fact of the TAP output.
void fact(bool good, const std::string& what);

// A device and what queue pairs need; the context is that of the device that has the address.
class Device {
 public:
  explicit Device(const Settings& settings);

  RawQp createQp();
  // With the rights that a connection manager gives.
  RawQp createQpInInit();
  // An identifier that could connect at once to the given port of the address.
  CmId resolved(uint16_t port);
  ibv_context* context() const { return anchor_->verbs; }
  ibv_pd* pd() const { return pd_.get(); }
  ibv_cq* cq() const { return cq_.get(); }
  EventChannel& cm() { return cm_; }

 private:
  std::string address_;
  EventChannel cm_;
  CmId anchor_;
  Pd pd_;
  Cq cq_;
};

// errno, or 0: the identifier has no queue pair of its own and names one by number.
int connectByNumber(rdma_cm_id* id, uint32_t qpn);

void attackUnpublished(const Settings& settings);
void attackChurn(const Settings& settings);
void attackForeign(const Settings& settings);
void attackContainer(const Settings& settings);
void attackKernel(const Settings& settings);
void attackTwice(const Settings& settings);
void attackSlowStart(const Settings& settings);
void attackSlowAgain(const Settings& settings);
void attackGone(const Settings& settings);
void attackDropped(const Settings& settings);
void attackUnanswered(const Settings& settings);
void attackAnswerShort(const Settings& settings);
void attackAnswerNone(const Settings& settings);
void attackAnswerCut(const Settings& settings);
void attackAnswerLong(const Settings& settings);
void attackAgain(const Settings& settings);
void beVictim(const Settings& settings);

}  // namespace kiwarp::vm
