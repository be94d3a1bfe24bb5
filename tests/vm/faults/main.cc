// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-faults: lets each allocation and each user copy of each call fail in turn.

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "common/error.h"
#include "common/options.h"
#include "faults/plan.h"

namespace {

const char kUsage[] =
    "kiwarp-faults --device NAME --netdev NAME --addr ADDR [--exporter FILE] [--only REGEX]\n"
    "              [--dense N]\n"
    "  --device  of kiwarp's devices, the one that is used [da]\n"
    "  --netdev  an interface without a device, for one that is added and deleted [va]\n"
    "  --addr    an address of the device's interface\n"
    "  --exporter  kiwarp_ktest's, for dma-bufs; without it there are no cases of these\n"
    "  --only    cases whose names match\n"
    "  --dense   up to here each allocation of a call fails, from there on fewer and fewer [150]\n"
    "Needs the superuser and a kernel with fault injection. Prints TAP.\n";

// Memory that is there already allocates nothing when it is used.
void holdMemory() {
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
  free(malloc(1 << 20));
  if (mlockall(MCL_CURRENT | MCL_FUTURE)) std::perror("mlockall");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace kiwarp::vm;
  FaultOptions chosen;
  Options options(kUsage);
  options.text("--device", &chosen.device);
  options.text("--netdev", &chosen.netdev);
  options.text("--addr", &chosen.address);
  options.text("--exporter", &chosen.exporter);
  options.text("--only", &chosen.only);
  options.number("--dense", &chosen.dense);
  return runMain("not ok - Bail out! ", [&] {
    options.parse(argc, argv);
    if (chosen.address.empty()) options.misuse("--addr is needed");
    holdMemory();
    FaultPlan plan(chosen);
    verbCases(&plan);
    connectionCases(&plan);
    workerCases(&plan);
    adminCases(&plan);
    return plan.finish();
  });
}
