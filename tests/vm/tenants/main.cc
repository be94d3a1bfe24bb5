// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-tenants: what a process does that wants more than its share. Prints TAP.

#include <cstdio>
#include <string>

#include "common/error.h"
#include "common/options.h"
#include "tenants/cases.h"

namespace kiwarp::vm {
namespace {

const char kUsage[] =
    "kiwarp-tenants --device DEVICE [--events] [--rings] [--huge-ring]\n"
    "kiwarp-tenants --doorbells ADDRESS | --large ADDRESS [--bound MICROSECONDS]\n"
    "kiwarp-tenants --tcp ADDRESS | --async ADDRESS | --slow ADDRESS\n"
    "  --events     arms a completion queue without reading its events\n"
    "  --rings      creates completion queues until that is refused\n"
    "  --huge-ring  asks for a ring of 32 MiB with no memory that may be locked\n"
    "  --doorbells  rings for as much work as there can be, over a connection to itself\n"
    "  --bound      how long a real-time thread may wait meanwhile, in microseconds\n"
    "  --large      rings for 32 MiB, likewise\n"
    "  --tcp        sends as much over a plain TCP connection to itself, and measures the same\n"
    "  --async      fails its connections to itself without reading asynchronous events\n"
    "  --slow       listens, and answers no request that has no private data\n"
    "Prints TAP. Exit: 0 all is well, 1 it is not, 2 usage.\n";

int run(int argc, char** argv) {
  std::string device, host, large, offender, slow, tcp;
  bool events = false, rings = false, huge = false;
  uint64_t bound = 0;
  Options options(kUsage);
  options.text("--device", &device);
  options.flag("--events", &events);
  options.flag("--rings", &rings);
  options.flag("--huge-ring", &huge);
  options.text("--doorbells", &host);
  options.text("--large", &large);
  options.text("--tcp", &tcp);
  options.text("--async", &offender);
  options.text("--slow", &slow);
  options.number("--bound", &bound);
  options.parse(argc, argv);
  if (!slow.empty()) {
    slowConsumer(slow);
    return 1;
  }
  if ((device + host + large + tcp + offender).empty()) options.misuse("--device is missing");
  Tap tap;
  if (events) eventCases(device, &tap);
  if (rings) ringCases(device, &tap);
  if (huge) hugeRingCase(device, &tap);
  if (!host.empty()) doorbellCases(host, bound, &tap);
  if (!large.empty()) largeWritesCase(large, bound, &tap);
  if (!tcp.empty()) plainTcpCase(tcp, &tap);
  if (!offender.empty()) asyncCases(offender, &tap);
  return tap.finish();
}

}  // namespace
}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  try {
    return kiwarp::vm::run(argc, argv);
  } catch (const std::exception& error) {
    std::printf("Bail out! %s\n", error.what());
    return 1;
  }
}
