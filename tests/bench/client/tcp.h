// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <optional>
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
  uint64_t repeats() const { return 0; }
  std::string deviceName() const { return {}; }  // none
  // At the end that connected; in seconds.
  double run(uint64_t messages);
  void serve(uint64_t messages);

 private:
  explicit TcpEnd(const Plan& plan);
  void add(int fd);
  void encrypt(int fd);
  void connectOne();
  void acceptOne(int listener);
  void closeLast();
  double runChurn(uint64_t messages);
  void serveChurn(uint64_t messages);
  void writeAll(size_t length);
  void readAll(size_t length);

  Plan plan_;
  std::optional<vm::Address> peer_;  // at the end that connects
  const SocketCalls* calls_;
  std::vector<uint8_t> buffer_;
  std::vector<int> fds_;  // the last one carries the messages
  double connect_seconds_ = 0;
};

}  // namespace kiwarp::bench
