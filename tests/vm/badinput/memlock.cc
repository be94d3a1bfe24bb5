// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "badinput/memlock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <thread>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

size_t pinned() {
  FILE* status = std::fopen("/proc/self/status", "re");
  if (!status) fail("/proc/self/status: %s", errnoName(errno).c_str());
  char line[256];
  unsigned long kib = 0;
  while (std::fgets(line, sizeof(line), status)) {
    if (std::sscanf(line, "VmPin: %lu kB", &kib) == 1) break;
  }
  std::fclose(status);
  return kib * 1024;
}

void getCapabilities(__user_cap_data_struct* data) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  checkErrno(static_cast<int>(syscall(SYS_capget, &header, data)), "capget");
}

void setCapabilities(const __user_cap_data_struct* data) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  syscall(SYS_capset, &header, data);
}

}  // namespace

MemlockLimit::MemlockLimit() {
  checkErrno(getrlimit(RLIMIT_MEMLOCK, &saved_limit_), "getrlimit");
  getCapabilities(saved_);
  __user_cap_data_struct lowered[2] = {saved_[0], saved_[1]};
  lowered[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
  setCapabilities(lowered);
}

MemlockLimit::~MemlockLimit() {
  setCapabilities(saved_);
  setrlimit(RLIMIT_MEMLOCK, &saved_limit_);
}

void MemlockLimit::set(size_t bytes) const {
  rlimit limit = saved_limit_;
  limit.rlim_cur = bytes;
  checkErrno(setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit");
}

void MemlockLimit::setMore(size_t bytes) const { set(pinned() + bytes); }

void withMemlockLimit(const std::function<void(const MemlockLimit&)>& run) {
  std::string failure;
  std::thread poor([&] {
    try {
      run(MemlockLimit());
    } catch (const Failure& caught) {
      failure = caught.what();
    }
  });
  poor.join();
  if (!failure.empty()) throw Failure(failure);
}

}  // namespace kiwarp::vm
