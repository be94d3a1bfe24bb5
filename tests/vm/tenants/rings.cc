// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The memory of rings: it is locked, so that RLIMIT_MEMLOCK bounds it, whatever the cgroup.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "common/error.h"
#include "common/verbs.h"
#include "tenants/cases.h"

namespace kiwarp::vm {
namespace {

constexpr rlim_t kLimit = 1 << 20;
constexpr int kEntries = 1024;
// An entry has 32 bytes; more than this many rings do not fit in the limit.
constexpr size_t kMost = kLimit / (kEntries * 32);

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

}  // namespace

void ringCases(const std::string& device, Tap* tap) {
  const rlimit limit{kLimit, kLimit};
  checkErrno(setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit");
  tap->run("rings are bounded by RLIMIT_MEMLOCK", [&] {
    Context context = openDevice(device);
    bounded(context.get());
  });
  tap->run("for all processes of a user together", [&] { ofTheUser(device); });
}

}  // namespace kiwarp::vm
