// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/random.h"

namespace kiwarp::vm {

struct Extent {
  size_t begin = 0;
  size_t end = 0;
};

// Hands out extents of a region in ring order. The sequence of extents depends only on the
// sequence of lengths, so two peers that know the lengths agree on the places.
class RingCursor {
 public:
  explicit RingCursor(size_t capacity) : capacity_(capacity) {}
  Extent take(size_t length);
  // What take() would give, without taking it.
  Extent peek(size_t length) const;
  size_t capacity() const { return capacity_; }

 private:
  size_t capacity_;
  size_t next_ = 0;
};

// Which extents are in use; they're released oldest first.
class Occupancy {
 public:
  bool isFree(const Extent& extent) const;
  void occupy(const Extent& extent) { used_.push_back(extent); }
  void cancelNewest() { used_.pop_back(); }
  void releaseOldest(size_t count = 1) {
    used_.erase(used_.begin(), used_.begin() + static_cast<std::ptrdiff_t>(count));
  }
  size_t count() const { return used_.size(); }

 private:
  std::deque<Extent> used_;
};

struct Piece {
  size_t offset;
  uint32_t length;
};

// Where a scatter or gather list lies in an arena: pieces in list order, with gaps (guards)
// before, between and behind them that nobody may touch.
struct Area {
  Extent extent;
  std::vector<Piece> pieces;
};

// Local memory for scattered buffers.
class Arena {
 public:
  Arena(uint8_t* base, size_t capacity) : base_(base), cursor_(capacity) {}

  // Empty when the arena has no room until older areas are released.
  std::optional<Area> scatter(Rng& rng, size_t total, unsigned pieces);
  void releaseOldest() { occupancy_.releaseOldest(); }
  void cancelNewest() { occupancy_.cancelNewest(); }
  uint8_t* at(size_t offset) const { return base_ + offset; }

 private:
  uint8_t* base_;
  RingCursor cursor_;
  Occupancy occupancy_;
};

// Splits total into at most the given number of lengths; zero lengths only when allowed.
std::vector<uint32_t> splitLength(Rng& rng, size_t total, unsigned pieces, bool allow_zero);

// Checks that the first `length` bytes of the pieces equal `expected` and that everything else
// in the extent is background. Returns a description of the first byte that is wrong.
std::optional<std::string> checkArea(const uint8_t* base, const Area& area, const uint8_t* expected,
                                     size_t length);
void fillArea(uint8_t* base, const Area& area, const uint8_t* data);

// "at +12 expected 0011.. got ffee.." around the first difference.
std::string describeDifference(const uint8_t* actual, const uint8_t* expected, size_t length,
                               size_t at);

}  // namespace kiwarp::vm
