// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "common/cm.h"

namespace kiwarp::vm {

// An emulated machine may be a hundred times slower than its clock.
constexpr seconds kLimit{60};

// One side of a connection: its queue pair and memory, and the message that each side sends the
// other before the client reads.
class Connection {
 public:
  explicit Connection(CmId id);

  rdma_cm_id* id() const { return id_.get(); }
  void send();
  void receive(seconds limit = kLimit);
  void read(uint64_t count);

 private:
  void postReceive();
  void await(ibv_wc_opcode opcode, seconds limit);

  Memory memory_;
  Pd pd_;
  Mr mr_;
  Cq send_cq_, recv_cq_;
  CmId id_;
  uint64_t peer_address_ = 0;
  uint32_t peer_rkey_ = 0;
};

// An identifier of the client's, bound to its own address, whose route is resolved.
CmId resolvedId(EventChannel& channel, const std::string& from, const std::string& to,
                uint16_t port);

// Bytes that tell whose they are and that none is missing.
std::vector<uint8_t> privateData(size_t length, bool of_server);

}  // namespace kiwarp::vm
