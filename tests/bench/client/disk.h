// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <linux/aio_abi.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/verbs_end.h"

namespace kiwarp::bench {

struct DiskPlan {
  std::string path;
  bool write = false;
  bool random = false;
  bool scattered = false;  // pages of which no two are neighbours, not one piece
  uint64_t size = 4096;
  uint64_t depth = 1;
};

// Direct I/O on a block device or a file, so many requests under way.
class Disk {
 public:
  explicit Disk(const DiskPlan& plan);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  // So many requests, all of them completed; in seconds.
  double run(uint64_t requests);
  std::string deviceName() const { return {}; }  // no RDMA device of this process

 private:
  void prepare(iocb& request);
  void submit(std::vector<iocb*>& requests) const;

  const DiskPlan plan_;
  int fd_ = -1;
  aio_context_t context_ = 0;
  uint64_t blocks_ = 0, block_ = 0;
  vm::Memory memory_;
  std::vector<iocb> requests_;
};

}  // namespace kiwarp::bench
