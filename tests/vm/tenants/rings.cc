// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The memory of rings: it is locked, so that RLIMIT_MEMLOCK bounds it, whatever the cgroup.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/verbs.h"
#include "tenants/cases.h"

namespace kiwarp::vm {
namespace {

constexpr rlim_t kLimit = 1 << 20;
constexpr int kEntries = 1024;
constexpr int kHuge = 1 << 20;
// An entry has 32 bytes; more than this many rings do not fit in the limit.
constexpr size_t kMost = kLimit / (size_t{kEntries} * 32);

size_t createUntilRefused(ibv_context* context, std::vector<Cq>* cqs) {
  while (cqs->size() <= kMost) {
    Cq cq(ibv_create_cq(context, kEntries, nullptr, nullptr, 0));
    if (!cq) {
      if (errno != ENOMEM) fail("refused with %s", errnoName(errno).c_str());
      return cqs->size();
    }
    cqs->push_back(std::move(cq));
  }
  fail("%zu rings, more than the limit has room for", cqs->size());
}

void bounded(ibv_context* context) {
  std::vector<Cq> cqs;
  const size_t first = createUntilRefused(context, &cqs);
  if (first < kMost / 2) fail("%zu rings only", first);
  cqs.clear();
  const size_t again = createUntilRefused(context, &cqs);
  if (again != first) fail("%zu rings at first, %zu when they were given back", first, again);
}

// The limit is the user's: another process of theirs has no share of its own.
void ofTheUser(const std::string& device) {
  Context context = openDevice(device);
  std::vector<Cq> cqs;
  createUntilRefused(context.get(), &cqs);
  const pid_t child = fork();
  if (child < 0) fail("fork: %s", errnoName(errno).c_str());
  if (child == 0) {
    try {
      Context own = openDevice(device);
      _exit(ibv_create_cq(own.get(), kEntries, nullptr, nullptr, 0) == nullptr ? 0 : 1);
    } catch (const Failure&) {
      _exit(2);
    }
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) fail("the child died");
  if (WEXITSTATUS(status) == 1) fail("another process had a ring more");
  if (WEXITSTATUS(status) != 0) fail("the child could not open the device");
}

// A mapping of a device that this process has, as /proc shows it.
struct Area {
  uintptr_t start = 0;
  size_t size = 0;
  off_t offset = 0;
};

std::map<uintptr_t, Area> deviceAreas() {
  std::map<uintptr_t, Area> areas;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t start = 0, end = 0;
    uint64_t offset = 0;
    if (line.find("/dev/infiniband/uverbs") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64, &start, &end,
                    &offset) != 3) {
      fail("not understood: %s", line.c_str());
    }
    areas[start] = {start, end - start, static_cast<off_t>(offset)};
  }
  return areas;
}

// A mapping of a ring of one's own making: it stays when the ring's object goes.
class Mapping {
 public:
  Mapping(ibv_context* context, const Area& area)
      : base_(mmap(nullptr, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, context->cmd_fd,
                   area.offset)),
        size_(area.size) {
    if (base_ == MAP_FAILED) fail("mmap: %s", errnoName(errno).c_str());
  }
  Mapping(Mapping&& other) noexcept : base_(other.base_), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&&) = delete;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (size_ != 0) munmap(base_, size_);
  }

  void leaveLastPage() {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    checkErrno(munmap(base_, size_ - page), "munmap");
    base_ = static_cast<char*>(base_) + size_ - page;
    size_ = page;
  }

 private:
  void* base_;
  size_t size_;
};

bool refused(ibv_context* context) {
  return !Cq(ibv_create_cq(context, kEntries, nullptr, nullptr, 0));
}

// Maps each ring and destroys its object, until no more is to be had.
std::vector<Mapping> keepMappings(ibv_context* context) {
  std::vector<Mapping> kept;
  while (kept.size() <= kMost) {
    const auto before = deviceAreas();
    Cq cq(ibv_create_cq(context, kEntries, nullptr, nullptr, 0));
    if (!cq) {
      if (errno != ENOMEM) fail("refused with %s", errnoName(errno).c_str());
      return kept;
    }
    for (const auto& [start, area] : deviceAreas()) {
      if (before.count(start) == 0) kept.emplace_back(context, area);
    }
  }
  fail("%zu rings are mapped, more than the limit has room for", kept.size());
}

void keptMappings(ibv_context* context) {
  {
    std::vector<Mapping> kept = keepMappings(context);
    if (kept.size() < kMost / 2) fail("%zu mappings only", kept.size());
    for (Mapping& mapping : kept) mapping.leaveLastPage();
    if (!refused(context)) fail("a ring counts no more with one of its pages still mapped");
  }
  if (refused(context)) fail("they count though nothing is mapped any more");
}

void keptByChild(ibv_context* context) {
  pid_t child = 0;
  {
    std::vector<Mapping> kept = keepMappings(context);
    child = fork();
    if (child < 0) fail("fork: %s", errnoName(errno).c_str());
    if (child == 0) {
      for (;;) pause();
    }
  }
  const bool while_mapped = refused(context);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (!while_mapped) fail("what a child has mapped does not count");
  if (refused(context)) fail("they count though the child is gone");
}

}  // namespace

void hugeRingCase(const std::string& device, Tap* tap) {
  tap->run("32 MiB of rings are too many where no memory may be locked", [&] {
    // The context has some that counts.
    const Context context = openDevice(device);
    const rlimit limit{0, 0};
    checkErrno(setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit");
    const Cq cq(ibv_create_cq(context.get(), kHuge, nullptr, nullptr, 0));
    if (cq) fail("they are not");
    if (errno != ENOMEM) fail("refused with %s", errnoName(errno).c_str());
  });
}

void ringCases(const std::string& device, Tap* tap) {
  const rlimit limit{kLimit, kLimit};
  checkErrno(setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit");
  tap->run("rings are bounded by RLIMIT_MEMLOCK", [&] {
    Context context = openDevice(device);
    bounded(context.get());
  });
  tap->run("for all processes of a user together", [&] { ofTheUser(device); });
  tap->run("also those that stay mapped when their queue is gone, to the last page", [&] {
    Context context = openDevice(device);
    keptMappings(context.get());
  });
  tap->run("or that a child has mapped", [&] {
    Context context = openDevice(device);
    keptByChild(context.get());
  });
}

}  // namespace kiwarp::vm
