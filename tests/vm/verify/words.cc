// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/words.h"

#include <cstring>

#include "common/arena.h"
#include "common/error.h"

namespace kiwarp::vm {

Atomic Words::draw(Rng* rng, unsigned word) {
  Atomic atomic;
  atomic.before = values_[word];
  atomic.swap = rng->percent(50);
  if (!atomic.swap) {
    // Carries through all bits, and through few.
    atomic.compare_add = rng->percent(50) ? rng->next() : rng->between(0, 2);
    atomic.after = atomic.before + atomic.compare_add;
  } else {
    atomic.swap_value = rng->next();
    const bool matches = rng->percent(60);
    // A single bit that differs is enough to leave the word alone.
    atomic.compare_add = matches ? atomic.before : atomic.before ^ uint64_t { 1 } << rng->below(64);
    atomic.after = matches ? atomic.swap_value : atomic.before;
  }
  values_[word] = atomic.after;
  return atomic;
}

std::optional<std::string> checkWord(const uint8_t* region, unsigned word, uint64_t value) {
  const size_t at = wordOffset(word);
  const Area area{{at - kWordSize, at + 2 * kWordSize}, {{at, kWordSize}}};
  return checkArea(region, area, reinterpret_cast<const uint8_t*>(&value), kWordSize);
}

std::optional<std::string> checkWords(const uint8_t* region, const Words& words) {
  for (unsigned word = 0; word < kWords; ++word) {
    if (auto bad = checkWord(region, word, words.value(word)))
      return strf("word %u: ", word) + *bad;
  }
  const size_t used = wordOffset(kWords);
  const uint8_t* rest = region + used;
  if (auto bad = firstDisturbed(rest, kWordsRegion - used)) {
    return "behind the words: " + describeDifference(rest, nullptr, kWordsRegion - used, *bad);
  }
  return std::nullopt;
}

}  // namespace kiwarp::vm
