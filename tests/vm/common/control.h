// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"

namespace kiwarp::vm {

// One message of the side channel; both ends run on the same architecture.
struct ControlMessage {
  uint32_t type = 0;
  uint32_t qp = 0;
  uint64_t value[16] = {};
};

// A plain TCP connection beside the RDMA connections: it carries parameters, keys, credits and
// results, so that what is under test never has to vouch for itself.
class Control {
 public:
  static Control acceptOn(const std::string& host, uint16_t port, const Deadline& deadline);
  // Tries again until somebody listens.
  static Control connectTo(const std::string& host, uint16_t port, const Deadline& deadline);
  ~Control();
  Control(Control&& other) noexcept;
  Control& operator=(Control&&) = delete;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  int fd() const { return fd_; }
  void send(const ControlMessage& message);
  // Never blocks. Throws when the peer has gone.
  std::optional<ControlMessage> tryReceive();
  ControlMessage receive(const Deadline& deadline);

 private:
  explicit Control(int fd);

  int fd_;
  std::vector<uint8_t> partial_;
};

}  // namespace kiwarp::vm
