// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// These replace the C library's functions.
#include "fake_calls.h"

#include <dlfcn.h>
#include <sys/syscall.h>

#include <cstdarg>

namespace kiwarp::test {

Write on_write;

namespace {

using Syscall = long (*)(long, ...);

// The C library's own.
Syscall realSyscall() {
  static const auto real = reinterpret_cast<Syscall>(dlsym(RTLD_NEXT, "syscall"));
  return real;
}

}  // namespace
}  // namespace kiwarp::test

extern "C" {

__attribute__((visibility("default"))) long syscall(long number, ...) noexcept {
  long given[6];  // as many as any call has
  va_list arguments;
  va_start(arguments, number);
  for (long& argument : given) argument = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_write && kiwarp::test::on_write) {
    return kiwarp::test::on_write(static_cast<int>(given[0]),
                                  reinterpret_cast<const void*>(given[1]),
                                  static_cast<size_t>(given[2]));
  }
  return kiwarp::test::realSyscall()(number, given[0], given[1], given[2], given[3], given[4],
                                     given[5]);
}

// libibverbs' commands.
__attribute__((visibility("default"))) ssize_t write(int fd, const void* data, size_t size) {
  return syscall(SYS_write, fd, data, size);
}

}  // extern "C"
