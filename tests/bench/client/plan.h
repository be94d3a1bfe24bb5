// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "common/control.h"

namespace kiwarp::bench {

enum class Op : uint64_t { kSend, kWrite, kRead, kLatency, kIdle, kWriteImm, kFetchAdd, kChurn };

constexpr uint64_t kAtomicSize = 8;

// What one run does. The initiator's options fill it in; the target gets it by the side channel.
struct Plan {
  Op op = Op::kSend;
  bool tcp = false;
  bool srq = false;        // each end receives by one shared receive queue
  bool poll_ex = false;    // completions by ibv_start_poll(), ibv_next_poll(), ibv_end_poll()
  bool post_wr = false;    // posting by ibv_wr_start() and its like
  bool poll = false;       // no end ever sleeps
  bool rsocket = false;    // as tcp, by rsockets
  bool tls = false;        // with tcp: the kernel encrypts
  bool bystander = false;  // others are measured beside it
  uint64_t size = 65536;
  uint64_t count = 1000;     // messages on each connection, after those that warm up
  uint64_t warm_up = 32;     // and those
  uint64_t list = 1;         // work requests in one call that posts
  uint64_t depth = 128;      // work requests outstanding on a connection
  uint64_t signal = 16;      // of single ones, every so many asks for a completion
  uint64_t receives = 256;   // receives that the target has posted on a connection
  uint64_t processes = 1;    // at each end, each with connections of its own
  uint64_t connections = 1;  // of a process, that carry the messages
  uint64_t idle = 0;         // connections that do nothing meanwhile
  uint64_t qps = 0;          // queue pairs without a connection, at each end
  uint64_t regions = 0;      // memory regions that nobody uses, at each end

  uint64_t allConnections() const { return connections + idle; }
  // Those that are made before the run: of kChurn each message has one of its own.
  uint64_t connectedBefore() const { return op == Op::kChurn ? 0 : allConnections(); }
  // What an end has posted at once on a connection of its own for each message.
  static constexpr uint64_t kChurnReceives = 1;
  static constexpr uint64_t kMostProcesses = 64;
  // A target answers so many messages with one of no length: their receives are posted again.
  uint64_t window() const { return receives / 2; }
  // Neither has queues of its own.
  bool sockets() const { return tcp || rsocket; }
  // Each message takes one of the target's receives.
  bool takesReceives() const { return op == Op::kSend || op == Op::kWriteImm; }
  // What the target receives on a connection of `messages` messages.
  uint64_t arrivals(uint64_t messages) const;
  uint64_t replies(uint64_t messages) const;

  vm::ControlMessage pack() const;
  static Plan unpack(const vm::ControlMessage& message);
  // Throws Failure when the numbers do not fit each other.
  void check() const;
};

Op parseOp(const std::string& name);

// Messages of the side channel.
enum Talk : uint32_t { kPlan = 1, kReady, kRegion, kEnd };

}  // namespace kiwarp::bench
