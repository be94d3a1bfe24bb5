// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "common/cm.h"
#include "common/error.h"
#include "common/verbs.h"

namespace kiwarp::vm {

// A call of the passive end failed while somebody waited for the connection.
class PassiveFailure : public Failure {
 public:
  using Failure::Failure;
};

// Both ends of one connection, in one thread. Each step is a call of its own, so that a failure can
// be put into just that one. Those that return int give errno, or 0; the others throw.
class ConnectionPair {
 public:
  ConnectionPair(const std::string& address, uint16_t port);
  ~ConnectionPair();
  ConnectionPair(const ConnectionPair&) = delete;
  ConnectionPair& operator=(const ConnectionPair&) = delete;

  int listen();
  // The listener's end; every end of the connection and every event that waits.
  void unlisten() { listener_.reset(); }
  void clear();

  int createActive();
  int resolveAddress();
  int resolveRoute();
  void awaitActive(rdma_cm_event_type type);
  int createQp(CmId& id);
  // An active end that could connect.
  void ready();
  int connect();
  // The passive end of this connect and of no earlier one.
  void awaitRequest();
  // There is an event to read at the listener's end.
  void awaitReadable();
  int takeRequest();
  int accept();
  int reject();
  int disconnect() { return rdma_disconnect(active_.get()) ? errno : 0; }
  // Established at both ends, or how one of them learned that it is not to be.
  int awaitEstablished(bool accepting);
  int awaitDisconnected();
  int awaitRejected();
  // connect and accept, and established.
  void establish();

  // Write, Read and Send to the passive end; and until all of them and the receive are complete.
  int postAll();
  int awaitAll();

  CmId& active() { return active_; }
  CmId& passive() { return passive_; }

 private:
  int post(ibv_wr_opcode opcode, uint32_t length);
  int postReceive();
  ConnectParams params() const;

  Address address_;
  EventChannel client_, server_;
  CmId anchor_;
  Pd pd_;
  Cq cq_;
  Memory memory_;
  Mr mr_;
  CmId listener_, active_, passive_;
  uint64_t token_ = 0;
  unsigned posted_ = 0;
};

}  // namespace kiwarp::vm
