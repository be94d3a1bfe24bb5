// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <string>
#include <vector>

#include "client/plan.h"
#include "common/cm.h"

namespace kiwarp::bench {

struct SocketCalls;

// The same work over plain TCP sockets, or rsockets, written and read in messages of the plan's
// size.
class TcpEnd {
 public:
  static TcpEnd connect(const Plan& plan, vm::Address address);
  static int listen(const Plan& plan, vm::Address address);
  static TcpEnd accept(const Plan& plan, int listener);
  ~TcpEnd();
  TcpEnd(TcpEnd&&) = default;
  TcpEnd& operator=(TcpEnd&&) = delete;
  TcpEnd(const TcpEnd&) = delete;
  TcpEnd& operator=(const TcpEnd&) = delete;

  double connectSeconds() const { return connect_seconds_; }
  std::string deviceName() const { return {}; }  // none
  // At the end that connected; in seconds.
  double run(uint64_t messages);
  void serve(uint64_t messages);

 private:
  explicit TcpEnd(const Plan& plan);
  void add(int fd);
  void encrypt(int fd);
  void writeAll(size_t length);
  void readAll(size_t length);

  Plan plan_;
  const SocketCalls* calls_;
  std::vector<uint8_t> buffer_;
  std::vector<int> fds_;
  double connect_seconds_ = 0;
};

}  // namespace kiwarp::bench
