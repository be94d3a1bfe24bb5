// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/random.h"

namespace kiwarp::vm {

Memory makeOcean(uint64_t seed, size_t length) {
  Memory ocean(length);
  Rng rng(seed);
  auto* words = reinterpret_cast<uint64_t*>(ocean.data());
  for (size_t i = 0; i < length / sizeof(uint64_t); ++i) words[i] = rng.next();
  return ocean;
}

std::optional<size_t> firstDifference(const uint8_t* actual, const uint8_t* expected,
                                      size_t length) {
  if (length == 0 || std::memcmp(actual, expected, length) == 0) return std::nullopt;
  return static_cast<size_t>(std::mismatch(actual, actual + length, expected).first - actual);
}

std::optional<size_t> firstDisturbed(const uint8_t* memory, size_t length) {
  static const auto kReference = [] {
    std::array<uint8_t, 4096> page;
    page.fill(kBackground);
    return page;
  }();
  for (size_t at = 0; at < length; at += kReference.size()) {
    const size_t piece = std::min(length - at, kReference.size());
    if (auto difference = firstDifference(memory + at, kReference.data(), piece)) {
      return at + *difference;
    }
  }
  return std::nullopt;
}

}  // namespace kiwarp::vm
