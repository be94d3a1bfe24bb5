// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/disk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/error.h"

namespace kiwarp::bench {

using vm::Clock;
using vm::fail;

namespace {

// Pages that are written to from the first to the last are one piece, as far as the kernel has one.
vm::Memory wholeMemory(size_t size) {
  vm::Memory memory(size);
  std::fill_n(memory.data(), size, uint8_t{0x6b});
  return memory;
}

uint64_t bytesOf(int fd) {
  struct stat about {};
  vm::checkErrno(fstat(fd, &about), "fstat");
  if (S_ISREG(about.st_mode)) return static_cast<uint64_t>(about.st_size);
  uint64_t size = 0;
  vm::checkErrno(ioctl(fd, BLKGETSIZE64, &size), "BLKGETSIZE64");
  return size;
}

}  // namespace

Disk::Disk(const DiskPlan& plan)
    : plan_(plan),
      memory_(plan.scattered ? scatteredMemory(plan.size * plan.depth)
                             : wholeMemory(plan.size * plan.depth)),
      requests_(plan.depth) {
  fd_ = open(plan_.path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  vm::checkErrno(fd_ < 0 ? -1 : 0, plan_.path.c_str());
  blocks_ = bytesOf(fd_) / plan_.size;
  if (blocks_ == 0) fail("%s is too small", plan_.path.c_str());
  vm::checkErrno(static_cast<int>(syscall(SYS_io_setup, plan_.depth, &context_)), "io_setup");
  for (uint64_t i = 0; i < plan_.depth; ++i) {
    iocb& request = requests_[i];
    request.aio_data = i;
    request.aio_fildes = static_cast<uint32_t>(fd_);
    request.aio_lio_opcode = plan_.write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
    request.aio_buf = reinterpret_cast<uintptr_t>(memory_.data()) + i * plan_.size;
    request.aio_nbytes = plan_.size;
  }
}

Disk::~Disk() {
  if (context_) syscall(SYS_io_destroy, context_);
  if (fd_ >= 0) close(fd_);
}

void Disk::prepare(iocb& request) {
  // Numerical Recipes' generator will do: no two requests are to be neighbours.
  block_ = plan_.random ? block_ * 6364136223846793005u + 1442695040888963407u : block_ + 1;
  request.aio_offset =
      static_cast<int64_t>((plan_.random ? block_ >> 33 : block_) % blocks_ * plan_.size);
}

void Disk::submit(std::vector<iocb*>& requests) const {
  const auto count = static_cast<long>(requests.size());
  if (count > 0 && syscall(SYS_io_submit, context_, count, requests.data()) != count) {
    fail("io_submit: %s", vm::errnoName(errno).c_str());
  }
  requests.clear();
}

double Disk::run(uint64_t requests) {
  std::vector<iocb*> next;
  std::vector<io_event> events(plan_.depth);
  const Clock::time_point start = Clock::now();
  uint64_t begun = std::min(requests, plan_.depth);
  for (uint64_t i = 0; i < begun; ++i) {
    prepare(requests_[i]);
    next.push_back(&requests_[i]);
  }
  for (uint64_t ended = 0; ended < requests;) {
    submit(next);
    const long count = syscall(SYS_io_getevents, context_, 1L, plan_.depth, events.data(), nullptr);
    if (count < 1) fail("io_getevents: %s", vm::errnoName(errno).c_str());
    for (long i = 0; i < count; ++i) {
      if (events[i].res != static_cast<int64_t>(plan_.size)) fail("an I/O error");
      if (begun == requests) continue;
      ++begun;
      prepare(requests_[events[i].data]);
      next.push_back(&requests_[events[i].data]);
    }
    ended += static_cast<uint64_t>(count);
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace kiwarp::bench
