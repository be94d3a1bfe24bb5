// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <set>
#include <span>

namespace kiwarp::interop {

// The rings of a queue pair, as they are mapped into this process: for a consumer that writes what
// it should not. The verbs hide them, so they are what /proc has more than before.
class Rings {
 public:
  using Maps = std::set<std::pair<uintptr_t, uintptr_t>>;

  static Maps mapped();
  // What was mapped since.
  static Rings since(const Maps& before);

  // Of the only receive so far, which has this number: how many pieces of memory it has.
  void setPieces(uint64_t wr_id, uint32_t count) const;
  // Of its ring: how many entries there are.
  void setProducer(uint64_t wr_id, uint32_t count) const;

 private:
  uint8_t* find(uint64_t wr_id) const;

  std::span<uint8_t> memory_;
};

}  // namespace kiwarp::interop
