// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// What the provider and libibverbs write to the device, taken by a test.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <utility>

namespace kiwarp::test {

// While set it has the calls in the kernel's place: it returns what write() does, -1 with errno.
using Write = std::function<ssize_t(int fd, const void* data, size_t size)>;
extern Write on_write;

// Sets it for as long as this lives.
class WritesTo {
 public:
  explicit WritesTo(Write write) { on_write = std::move(write); }
  ~WritesTo() { on_write = nullptr; }
  WritesTo(const WritesTo&) = delete;
  WritesTo& operator=(const WritesTo&) = delete;
};

}  // namespace kiwarp::test
