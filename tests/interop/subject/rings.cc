// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "rings.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "common/error.h"
#include "rdma/kiwarp-abi.h"

namespace kiwarp::interop {

using vm::fail;

Rings::Maps Rings::mapped() {
  Maps maps;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    uintptr_t start = 0, end = 0;
    if (line.find("/dev/infiniband/uverbs") != std::string::npos &&
        sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &start, &end) == 2) {
      maps.emplace(start, end);
    }
  }
  return maps;
}

Rings Rings::since(const Maps& before) {
  Rings rings;
  for (const auto& [start, end] : mapped()) {
    if (before.contains({start, end})) continue;
    if (!rings.memory_.empty()) fail("more than one mapping is new");
    rings.memory_ = {reinterpret_cast<uint8_t*>(start), end - start};
  }
  if (rings.memory_.empty()) fail("no mapping is new");
  return rings;
}

uint8_t* Rings::find(uint64_t wr_id) const {
  // A receive ring begins at a multiple of the alignment, not with the mapping: that is the send
  // ring's place.
  for (size_t at = KIWARP_RING_ALIGN; at + KIWARP_RING_ENTRIES_OFF < memory_.size();
       at += KIWARP_RING_ALIGN) {
    uint8_t* ring = memory_.data() + at;
    const auto* entry = reinterpret_cast<kiwarp_rqe*>(ring + KIWARP_RING_ENTRIES_OFF);
    const auto* control = reinterpret_cast<kiwarp_ring_ctrl*>(ring);
    if (entry->wr_id == wr_id && control->producer == 1) return ring;
  }
  fail("no ring has the receive %llu alone", static_cast<unsigned long long>(wr_id));
}

void Rings::setPieces(uint64_t wr_id, uint32_t count) const {
  auto* entry = reinterpret_cast<kiwarp_rqe*>(find(wr_id) + KIWARP_RING_ENTRIES_OFF);
  std::atomic_ref(entry->num_sge) = count;
}

void Rings::setProducer(uint64_t wr_id, uint32_t count) const {
  std::atomic_ref(reinterpret_cast<kiwarp_ring_ctrl*>(find(wr_id))->producer) = count;
}

}  // namespace kiwarp::interop
