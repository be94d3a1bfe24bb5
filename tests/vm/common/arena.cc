// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/arena.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/error.h"
#include "common/pattern.h"

namespace kiwarp::vm {

Extent RingCursor::peek(size_t length) const {
  const size_t begin = next_ + length > capacity_ ? 0 : next_;
  return {begin, begin + length};
}

Extent RingCursor::take(size_t length) {
  if (length > capacity_) fail("extent of %zu bytes in a region of %zu", length, capacity_);
  const Extent extent = peek(length);
  next_ = extent.end;
  return extent;
}

bool Occupancy::isFree(const Extent& extent) const {
  return std::none_of(used_.begin(), used_.end(), [&](const Extent& used) {
    return extent.begin < used.end && used.begin < extent.end;
  });
}

std::vector<uint32_t> splitLength(Rng& rng, size_t total, unsigned pieces, bool allow_zero) {
  const size_t least = allow_zero ? 0 : 1;
  if (!allow_zero) pieces = static_cast<unsigned>(std::min<size_t>(pieces, total));
  std::vector<size_t> cuts;
  for (unsigned i = 1; i < pieces; ++i) cuts.push_back(rng.between(0, total - least * pieces));
  std::sort(cuts.begin(), cuts.end());
  std::vector<uint32_t> lengths;
  size_t before = 0;
  for (size_t cut : cuts) {
    lengths.push_back(static_cast<uint32_t>(cut - before + least));
    before = cut;
  }
  if (pieces > 0) {
    const size_t used = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
    lengths.push_back(static_cast<uint32_t>(total - used));
  }
  return lengths;
}

std::optional<Area> Arena::scatter(Rng& rng, size_t total, unsigned pieces) {
  std::vector<uint32_t> lengths = splitLength(rng, total, pieces, false);
  std::vector<size_t> gaps(lengths.size() + 1);
  for (size_t& gap : gaps) gap = rng.between(16, 95);
  const size_t length = total + std::accumulate(gaps.begin(), gaps.end(), size_t{0});
  if (!occupancy_.isFree(cursor_.peek(length))) return std::nullopt;

  Area area;
  area.extent = cursor_.take(length);
  occupancy_.occupy(area.extent);
  size_t offset = area.extent.begin;
  for (size_t i = 0; i < lengths.size(); ++i) {
    offset += gaps[i];
    area.pieces.push_back({offset, lengths[i]});
    offset += lengths[i];
  }
  // The list visits memory out of address order, as a real gather list may.
  if (area.pieces.size() > 1 && rng.percent(50)) {
    std::rotate(area.pieces.begin(), area.pieces.begin() + 1, area.pieces.end());
  }
  return area;
}

std::string describeDifference(const uint8_t* actual, const uint8_t* expected, size_t length,
                               size_t at) {
  std::string want, got;
  for (size_t i = at; i < std::min(length, at + 8); ++i) {
    want += strf("%02x", expected ? expected[i] : kBackground);
    got += strf("%02x", actual[i]);
  }
  return strf("at +%zu of %zu expected %s got %s", at, length, want.c_str(), got.c_str());
}

namespace {

std::optional<std::string> checkGuards(const uint8_t* base, const Area& area) {
  std::vector<Piece> sorted = area.pieces;
  std::sort(sorted.begin(), sorted.end(),
            [](const Piece& a, const Piece& b) { return a.offset < b.offset; });
  size_t from = area.extent.begin;
  sorted.push_back({area.extent.end, 0});
  for (const Piece& piece : sorted) {
    if (auto bad = firstDisturbed(base + from, piece.offset - from)) {
      return "guard touched " + describeDifference(base + from, nullptr, piece.offset - from, *bad);
    }
    from = piece.offset + piece.length;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> checkArea(const uint8_t* base, const Area& area, const uint8_t* expected,
                                     size_t length) {
  size_t done = 0;
  for (const Piece& piece : area.pieces) {
    const size_t used = std::min<size_t>(piece.length, length - done);
    const uint8_t* actual = base + piece.offset;
    if (auto bad = firstDifference(actual, expected + done, used)) {
      return strf("message offset %zu: ", done) +
             describeDifference(actual, expected + done, used, *bad);
    }
    if (auto bad = firstDisturbed(actual + used, piece.length - used)) {
      return "behind the message " +
             describeDifference(actual + used, nullptr, piece.length - used, *bad);
    }
    done += used;
  }
  if (done != length) return strf("only %zu of %zu bytes have a place", done, length);
  return checkGuards(base, area);
}

void fillArea(uint8_t* base, const Area& area, const uint8_t* data) {
  for (const Piece& piece : area.pieces) {
    std::memcpy(base + piece.offset, data, piece.length);
    data += piece.length;
  }
}

}  // namespace kiwarp::vm
