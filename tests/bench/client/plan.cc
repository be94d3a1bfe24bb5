// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/plan.h"

#include "common/error.h"

namespace kiwarp::bench {

using vm::fail;

uint64_t Plan::arrivals(uint64_t messages) const {
  switch (op) {
    case Op::kSend:
    case Op::kWriteImm:
    case Op::kLatency:
      return messages;
    case Op::kWrite:
      return 1;  // the Send behind the last Write
    default:
      return 0;
  }
}

uint64_t Plan::replies(uint64_t messages) const {
  return (arrivals(messages) + window() - 1) / window();
}

namespace {

constexpr bool Plan::*kFlags[] = {&Plan::tcp,  &Plan::srq,     &Plan::poll_ex, &Plan::post_wr,
                                  &Plan::poll, &Plan::rsocket, &Plan::tls,     &Plan::bystander};

}  // namespace

vm::ControlMessage Plan::pack() const {
  uint64_t flags = 0;
  for (size_t i = 0; i < std::size(kFlags); ++i) flags |= uint64_t{this->*kFlags[i]} << i;
  vm::ControlMessage message;
  message.type = kPlan;
  const uint64_t values[] = {static_cast<uint64_t>(op),
                             flags,
                             size,
                             count,
                             warm_up,
                             list,
                             depth,
                             signal,
                             receives,
                             connections,
                             idle,
                             qps,
                             regions,
                             processes};
  static_assert(std::size(values) <= std::size(message.value));
  std::copy(std::begin(values), std::end(values), message.value);
  return message;
}

Plan Plan::unpack(const vm::ControlMessage& message) {
  const uint64_t* v = message.value;
  Plan plan;
  plan.op = static_cast<Op>(v[0]);
  for (size_t i = 0; i < std::size(kFlags); ++i) plan.*kFlags[i] = (v[1] >> i & 1) != 0;
  plan.size = v[2];
  plan.count = v[3];
  plan.warm_up = v[4];
  plan.list = v[5];
  plan.depth = v[6];
  plan.signal = v[7];
  plan.receives = v[8];
  plan.connections = v[9];
  plan.idle = v[10];
  plan.qps = v[11];
  plan.regions = v[12];
  plan.processes = v[13];
  return plan;
}

void Plan::check() const {
  if (list == 0 || count % list || warm_up % list) fail("--count is no multiple of --list");
  if (depth < list) fail("--depth is less than --list");
  if (signal == 0 || signal > depth) fail("--signal is not 1 to --depth");
  if (receives < 2 || receives < list) fail("--receives is less than --list, or than 2");
  if (connections == 0 || count == 0 || size == 0) fail("nothing to do");
  if (processes == 0 || processes > kMostProcesses) fail("--processes is not 1 to 64");
  if (processes > 1 && (op == Op::kIdle || op == Op::kChurn || bystander)) {
    fail("that is measured of one process");
  }
  if (op == Op::kLatency && (connections != 1 || processes != 1)) {
    fail("latency is measured on one connection");
  }
  if (op == Op::kChurn && (connections != 1 || idle > 0)) fail("churn is of one at a time");
  if (op == Op::kChurn && (srq || rsocket || tls || poll)) fail("churn is without these options");
  if (op == Op::kFetchAdd && size != kAtomicSize) fail("an atomic operation is on 8 bytes");
  if (bystander && op == Op::kIdle) fail("there is nothing that a bystander could notice");
  if (tls && !tcp) fail("--tls goes with --tcp");
  if (tcp && rsocket) fail("it is --tcp or --rsocket");
  if (sockets() && op != Op::kSend && op != Op::kLatency && op != Op::kIdle && op != Op::kChurn) {
    fail("sockets only send");
  }
  if (sockets() && (srq || poll_ex || post_wr)) fail("sockets have no queues");
  if (tcp && poll && op != Op::kLatency) fail("TCP polls for latency only");
  if (rsocket && poll) fail("how long rsockets poll is in their configuration");
  if (sockets() && connections != 1) fail("sockets are measured on one connection");
}

Op parseOp(const std::string& name) {
  const char* const names[] = {"send", "write",     "read",      "latency",
                               "idle", "write-imm", "fetch-add", "churn"};
  for (uint64_t i = 0; i < std::size(names); ++i) {
    if (name == names[i]) return static_cast<Op>(i);
  }
  fail("no operation %s", name.c_str());
}

}  // namespace kiwarp::bench
