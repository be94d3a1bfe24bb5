// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/plan.h"

#include "common/error.h"

namespace kiwarp::bench {

using vm::fail;

uint64_t Plan::arrivals(uint64_t messages) const {
  switch (op) {
    case Op::kSend:
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

vm::ControlMessage Plan::pack() const {
  vm::ControlMessage message;
  message.type = kPlan;
  const uint64_t values[] = {static_cast<uint64_t>(op),
                             tcp,
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
                             regions};
  static_assert(std::size(values) <= std::size(message.value));
  std::copy(std::begin(values), std::end(values), message.value);
  return message;
}

Plan Plan::unpack(const vm::ControlMessage& message) {
  const uint64_t* v = message.value;
  return {static_cast<Op>(v[0]),
          v[1] != 0,
          v[2],
          v[3],
          v[4],
          v[5],
          v[6],
          v[7],
          v[8],
          v[9],
          v[10],
          v[11],
          v[12]};
}

void Plan::check() const {
  if (list == 0 || count % list || warm_up % list) fail("--count is no multiple of --list");
  if (depth < list) fail("--depth is less than --list");
  if (signal == 0 || signal > depth) fail("--signal is not 1 to --depth");
  if (receives < 2 || receives < list) fail("--receives is less than --list, or than 2");
  if (connections == 0 || count == 0 || size == 0) fail("nothing to do");
  if (op == Op::kLatency && connections != 1) fail("latency is measured on one connection");
  if (tcp && (op == Op::kWrite || op == Op::kRead)) fail("TCP only sends");
  if (tcp && connections != 1) fail("TCP is measured on one connection");
}

Op parseOp(const std::string& name) {
  const char* const names[] = {"send", "write", "read", "latency", "idle"};
  for (uint64_t i = 0; i < std::size(names); ++i) {
    if (name == names[i]) return static_cast<Op>(i);
  }
  fail("no operation %s", name.c_str());
}

}  // namespace kiwarp::bench
