// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <stdexcept>
#include <string>

namespace kiwarp::vm {

// A test program ends its work by throwing this; main() prints it and exits non-zero.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string strf(const char* format, ...) __attribute__((format(printf, 1, 2)));

// "ENOMEM" rather than a number or a sentence: what a table of expectations holds.
std::string errnoName(int error);

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// For calls that return 0 or -1 with errno, as librdmacm does.
void checkErrno(int rc, const char* what);

}  // namespace kiwarp::vm
