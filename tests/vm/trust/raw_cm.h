// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sys/socket.h>

#include <cstdint>

#include "common/clock.h"

namespace kiwarp::vm {

// rdma_ucm as a program that keeps to no library's rules can use it: an identifier is a number, and
// any thread may write any command at any time.
class RawCm {
 public:
  RawCm();
  ~RawCm();
  RawCm(const RawCm&) = delete;
  RawCm& operator=(const RawCm&) = delete;

  uint32_t listen(const sockaddr* address, socklen_t length, int backlog);
  // The identifier of the next connection request; other events are taken off and forgotten.
  uint32_t request(const Deadline& deadline);
  // The same of the next connection that ends.
  uint32_t disconnected(const Deadline& deadline);
  void forgetEvents();

  // errno, or 0.
  int accept(uint32_t id, uint32_t qpn);
  int reject(uint32_t id);
  int disconnect(uint32_t id);
  int destroy(uint32_t id);

 private:
  template <typename Command>
  int run(uint32_t command, const Command& body, uint16_t out);
  uint32_t await(uint32_t wanted, const Deadline& deadline);
  bool tryEvent(uint32_t* event, uint32_t* id);

  int fd_;
};

}  // namespace kiwarp::vm
