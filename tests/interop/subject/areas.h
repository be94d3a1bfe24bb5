// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/page.h"
#include "common/verbs.h"

namespace kiwarp::interop {

// A memory region between two guard areas, all of it filled with a background until somebody
// writes to it.
class Area {
 public:
  Area(ibv_pd* pd, size_t size, int access);
  Area(ibv_pd* pd, size_t size, int access, uint64_t iova);

  ibv_mr* mr() const { return mr_.get(); }
  // The address by which work requests and the peer know the first byte.
  uint64_t address() const { return address_; }
  ibv_sge sge(uint64_t offset, uint32_t length) const;

  void deregister() { mr_.reset(); }
  void erase();
  void fill(uint64_t offset, const std::vector<uint8_t>& bytes);
  // "clean", or the offset from the region's start (negative in the guard before it) of the first
  // byte that is not background, and all bytes from there to the last such.
  std::string look() const;

 private:
  uint8_t* data() const { return memory_.data() + guard_; }

  // The length of the guard before. The RDMA core wants a region and its iova at the same place in
  // a page.
  size_t guard_;
  vm::Memory memory_;
  size_t size_;
  uint64_t address_;
  uint32_t lkey_;
  vm::Mr mr_;
};

// "local_write,remote_read" and so on; "none" for none.
int parseAccess(const std::string& text);

}  // namespace kiwarp::interop
