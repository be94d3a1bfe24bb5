// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "faults/injector.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <limits>
#include <vector>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

const std::string kDebugfs = "/sys/kernel/debug/";
const char* const kKinds[] = {"failslab", "fail_page_alloc", "fail_usercopy"};
const char* const kAllocations[] = {"failslab", "fail_page_alloc"};

void setFile(const std::string& path, const std::string& value) {
  std::ofstream file(path);
  file << value;
  file.close();
  if (!file) fail("cannot write '%s' to %s", value.c_str(), path.c_str());
}

void setKnob(const char* kind, const char* knob, const std::string& value) {
  setFile(kDebugfs + kind + "/" + knob, value);
}

// Code: its first address and the one behind it.
struct Text {
  uint64_t start, end;
};

// Where the kernel has loaded the module.
Text moduleText() {
  std::ifstream modules("/proc/modules");
  for (std::string line; std::getline(modules, line);) {
    char name[64];
    unsigned long long size = 0, at = 0;
    if (std::sscanf(line.c_str(), "%63s %llu %*s %*s %*s %llx", name, &size, &at) == 3 &&
        std::string(name) == "kiwarp" && at != 0) {
      return {at, at + size};
    }
  }
  fail("/proc/modules does not say where kiwarp is");
}

// A function of the kernel's.
Text functionText(const std::string& wanted) {
  std::ifstream symbols("/proc/kallsyms");
  std::vector<uint64_t> starts;
  uint64_t start = 0;
  for (std::string line; std::getline(symbols, line);) {
    char name[256];
    unsigned long long at = 0;
    if (std::sscanf(line.c_str(), "%llx %*c %255s", &at, name) != 2) continue;
    starts.push_back(at);
    if (name == wanted) start = at;
  }
  if (start == 0) fail("/proc/kallsyms does not say where %s is", wanted.c_str());
  uint64_t end = std::numeric_limits<uint64_t>::max();
  for (uint64_t at : starts) {
    if (at > start) end = std::min(end, at);
  }
  return {start, end};
}

std::string hex(uint64_t number) { return strf("%#llx", static_cast<unsigned long long>(number)); }

}  // namespace

Injector::Injector() : fd_(open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC)) {
  if (fd_ < 0) fail("/proc/thread-self/fail-nth: %s", errnoName(errno).c_str());
}

Injector::~Injector() { close(fd_); }

void Injector::arm(unsigned nth) {
  char text[16];
  const int length = std::snprintf(text, sizeof(text), "%u", nth);
  // A copy that fails is that of this call: then it is the one that was to fail.
  while (pwrite(fd_, text, static_cast<size_t>(length), 0) != length) {
    if (errno != EFAULT && errno != EINTR) fail("fail-nth: %s", errnoName(errno).c_str());
  }
}

unsigned Injector::disarm() {
  char text[16] = {};
  unsigned left = 1;
  const ssize_t got = pread(fd_, text, sizeof(text) - 1, 0);
  if (got > 0 && std::sscanf(text, "%u", &left) != 1) fail("fail-nth says %s", text);
  if (got < 0 && errno != EFAULT && errno != ENOMEM) fail("fail-nth: %s", errnoName(errno).c_str());
  arm(0);
  return left;
}

Outcome Injector::run(unsigned nth, const std::function<int()>& call) {
  Outcome outcome;
  arm(nth);
  outcome.error = call();
  outcome.injected = disarm() == 0;
  return outcome;
}

FaultSettings::FaultSettings() {
  for (const char* kind : kAllocations) setKnob(kind, "ignore-gfp-wait", "N");
  setKnob("fail_page_alloc", "min-order", "0");
  setKnob("fail_page_alloc", "ignore-gfp-highmem", "N");
  for (const char* kind : kKinds) setKnob(kind, "verbose", "0");
}

FaultSettings::~FaultSettings() {
  try {
    stop();
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
  }
}

void FaultSettings::failModules(unsigned interval, unsigned times) {
  const Text module = moduleText();
  // kw_accept_heard() calls it with the first event of an accepted connection. It drops an event
  // for which it has no memory.
  const Text dropping = functionText("ucma_event_handler");
  for (const char* kind : kAllocations) {
    setKnob(kind, "require-start", hex(module.start));
    setKnob(kind, "require-end", hex(module.end));
    setKnob(kind, "reject-start", hex(dropping.start));
    setKnob(kind, "reject-end", hex(dropping.end));
    setKnob(kind, "interval", std::to_string(interval));
    setKnob(kind, "times", std::to_string(times));
    setKnob(kind, "probability", "100");
  }
}

unsigned FaultSettings::left() const {
  unsigned sum = 0;
  for (const char* kind : kAllocations) {
    std::ifstream file(kDebugfs + kind + "/times");
    unsigned times = 0;
    if (!(file >> times)) fail("cannot read %s/times", kind);
    sum += times;
  }
  return sum;
}

void FaultSettings::stop() {
  for (const char* kind : kAllocations) {
    setKnob(kind, "probability", "0");
    setKnob(kind, "require-start", "0");
    setKnob(kind, "require-end", "0xffffffffffffffff");
    setKnob(kind, "reject-start", "0");
    setKnob(kind, "reject-end", "0");
    setKnob(kind, "times", "1");
  }
}

}  // namespace kiwarp::vm
