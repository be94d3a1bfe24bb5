// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "chaos/shared.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

const char* const kNames[kNrKinds] = {
    "open",         "reopen",        "alloc_pd",     "dealloc_pd",   "reg_mr",
    "dereg_mr",     "channel",       "create_cq",    "destroy_cq",   "notify_cq",
    "event",        "create_qp",     "destroy_qp",   "modify_qp",    "query_qp",
    "post_send",    "post_recv",     "completion",   "remap",        "garbage",
    "create_id",    "destroy_id",    "bind",         "resolve_addr", "resolve_route",
    "listen",       "connect",       "accept",       "reject",       "disconnect",
    "migrate",      "query_route",   "init_qp_attr", "cm_event",     "established",
    "fork",         "kill",          "rereg_mr",     "alloc_mw",     "dealloc_mw",
    "create_cq_ex", "resize_cq",     "modify_cq",    "create_srq",   "destroy_srq",
    "modify_srq",   "query_srq",     "post_srq",     "dmabuf",       "reg_dmabuf_mr",
    "import_mr",    "import_device", "import_pd",    "sent",         "written",
    "read",         "received",      "bound",        "immediate",    "atomic",
    "other"};

void* mapped(size_t length, int flags, int fd) {
  void* at = mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) fail("mmap: %s", errnoName(errno).c_str());
  return at;
}

}  // namespace

Shared* mapShared(const char* path) {
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) fail("%s: %s", path, errnoName(errno).c_str());
  if (ftruncate(fd, sizeof(Shared))) fail("%s: %s", path, errnoName(errno).c_str());
  void* at = mapped(sizeof(Shared), MAP_SHARED, fd);
  close(fd);
  return static_cast<Shared*>(at);
}

Counts* mapCounts() {
  return static_cast<Counts*>(mapped(sizeof(Counts), MAP_SHARED | MAP_ANONYMOUS, -1));
}

void printCounts(const Counts& counts, uint64_t seconds) {
  std::printf("# %llu s:", static_cast<unsigned long long>(seconds));
  for (unsigned i = 0; i < kNrKinds; ++i) {
    const uint64_t good = counts.of[i].good, bad = counts.of[i].bad;
    if (good || bad) {
      std::printf(" %s %llu/%llu", kNames[i], static_cast<unsigned long long>(good),
                  static_cast<unsigned long long>(bad));
    }
  }
  std::printf("\n");
}

}  // namespace kiwarp::vm
