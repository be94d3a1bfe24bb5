// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/types.h"

namespace kiwarp::test {

using Bytes = std::vector<u8>;

inline u8 nibble(char digit) {
  return static_cast<u8>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

// Bytes from lower-case hexadecimal digits; blanks are for the reader.
inline Bytes hex(std::string_view text) {
  Bytes bytes;
  bool high = true;
  for (char c : text) {
    if (c == ' ') continue;
    if (high) {
      bytes.push_back(static_cast<u8>(nibble(c) << 4));
    } else {
      bytes.back() = static_cast<u8>(bytes.back() | nibble(c));
    }
    high = !high;
  }
  return bytes;
}

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Fills the field behind each byte that a function writes, so that a write beyond it shows.
inline constexpr u8 kGuard = 0xa5;

// The bytes that a builder writes: build(buffer) returns how many. The result has guard bytes, and
// the test fails, if it wrote more, or left one of them unwritten.
template <typename Build>
Bytes built(size_t capacity, Build build) {
  constexpr size_t kSlack = 16;
  Bytes first(capacity + kSlack, kGuard);
  Bytes second(capacity + kSlack, static_cast<u8>(~kGuard));
  const size_t written = build(first.data());
  build(second.data());
  size_t touched = 0;
  for (size_t i = 0; i < first.size(); i++) {
    if (first[i] != kGuard || second[i] != static_cast<u8>(~kGuard)) touched = i + 1;
  }
  first.resize(touched > written ? touched : written);
  for (size_t i = 0; i < first.size(); i++) {
    if (first[i] == kGuard && second[i] == static_cast<u8>(~kGuard)) return {};
  }
  return first;
}

}  // namespace kiwarp::test
