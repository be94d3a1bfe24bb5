// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>

namespace kiwarp::vm {

// SplitMix64: both peers derive the same sequence from a seed, whatever the C++ library.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound); bound 0 gives 0. The bias is far below what a test could notice.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  bool percent(unsigned chance) { return below(100) < chance; }

 private:
  uint64_t state_;
};

}  // namespace kiwarp::vm
