// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/error.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace kiwarp::vm {
namespace {

std::string vstrf(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(static_cast<size_t>(length > 0 ? length : 0), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, args);
  return text;
}

}  // namespace

std::string strf(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = vstrf(format, args);
  va_end(args);
  return text;
}

std::string errnoName(int error) {
  if (error == 0) return "0";
  const char* name = strerrorname_np(error < 0 ? -error : error);
  if (!name) return strf("%d", error);
  return error < 0 ? strf("-%s", name) : name;
}

void fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = vstrf(format, args);
  va_end(args);
  throw Failure(text);
}

void checkErrno(int rc, const char* what) {
  if (rc != 0) fail("%s: %s", what, errnoName(rc == -1 ? errno : rc).c_str());
}

int runMain(const char* prefix, const std::function<int()>& run) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run();
  } catch (const Failure& failure) {
    std::printf("%s%s\n", prefix, failure.what());
    return 1;
  }
}

}  // namespace kiwarp::vm
