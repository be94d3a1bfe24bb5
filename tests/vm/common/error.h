// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <functional>
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

// What main() is: `run`'s value, or 1 if it throws a Failure, which goes to stdout behind `prefix`.
// Stdout is written line by line, so that whoever waits for a line sees it at once.
int runMain(const char* prefix, const std::function<int()>& run);

}  // namespace kiwarp::vm
