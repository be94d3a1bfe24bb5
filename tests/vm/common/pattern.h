// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/verbs.h"

namespace kiwarp::vm {

// The byte that memory holds where no transfer has anything to write.
constexpr uint8_t kBackground = 0xb6;
// What a source buffer is overwritten with once its owner may use it again.
constexpr uint8_t kScribble = 0x5d;

// Pseudo-random memory derived from a seed. Payloads are slices of it, so that neither end has
// to generate a pattern for each message: the receiver compares against its own copy.
Memory makeOcean(uint64_t seed, size_t length);

// The offset of the first byte that differs.
std::optional<size_t> firstDifference(const uint8_t* actual, const uint8_t* expected,
                                      size_t length);
// The offset of the first byte that isn't the background.
std::optional<size_t> firstDisturbed(const uint8_t* memory, size_t length);

}  // namespace kiwarp::vm
