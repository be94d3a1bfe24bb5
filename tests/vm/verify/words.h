// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "common/pattern.h"
#include "common/random.h"

namespace kiwarp::vm {

// The words in a region of the receiver's that one direction of one queue pair changes by atomic
// operations. Nobody else does, so that both sides know each value in advance.
constexpr unsigned kWords = 32;
// Each word has a guard on both sides.
constexpr uint64_t kWordStride = 24;
constexpr uint64_t kWordSize = sizeof(uint64_t);
constexpr uint64_t kWordsRegion = 4096;

constexpr uint64_t wordOffset(unsigned word) { return word * kWordStride + kWordSize; }

struct Atomic {
  bool swap = false;  // CmpSwap instead of FetchAdd
  uint64_t compare_add = 0;
  uint64_t swap_value = 0;
  uint64_t before = 0;
  uint64_t after = 0;
};

// The values as the operations that were drawn so far leave them.
class Words {
 public:
  // The regions hold the background at first.
  Words() { values_.fill(0x0101010101010101ULL * kBackground); }
  // Draws an operation and carries it out.
  Atomic draw(Rng* rng, unsigned word);
  uint64_t value(unsigned word) const { return values_[word]; }

 private:
  std::array<uint64_t, kWords> values_;
};

// Whether the word has this value, with its guards untouched; if not, what is wrong.
std::optional<std::string> checkWord(const uint8_t* region, unsigned word, uint64_t value);
// The whole region, at the end of a run.
std::optional<std::string> checkWords(const uint8_t* region, const Words& words);

}  // namespace kiwarp::vm
