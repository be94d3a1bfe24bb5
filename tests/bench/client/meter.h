// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kiwarp::bench {

// What the host of a User-Mode Linux tells of it, over a line between the two: the CPU time of all
// processes that it consists of, and how often the host switched away from those of its user space,
// which is once for each system call.
class Meter {
 public:
  // A terminal; without a path there is no host to ask.
  explicit Meter(const std::string& path);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  struct Reading {
    uint64_t cpu_ns = 0, calls = 0;
  };
  bool present() const { return fd_ >= 0; }
  Reading read();

 private:
  int fd_ = -1;
};

// Counters of the kernel and of the processes of both ends, of the initiator's network namespace.
class Counters {
 public:
  // The processes' whose context switches count, and the RDMA device if there is one.
  Counters(std::vector<pid_t> processes, std::string device)
      : processes_(std::move(processes)), device_(std::move(device)) {}

  using Values = std::vector<std::pair<const char*, uint64_t>>;
  Values read() const;

 private:
  const std::vector<pid_t> processes_;
  const std::string device_;
};

}  // namespace kiwarp::bench
