// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "areas.h"

#include <cstring>

#include "command.h"
#include "common/error.h"
#include "common/pattern.h"

namespace kiwarp::interop {

using vm::fail;

Area::Area(ibv_pd* pd, size_t size, int access)
    : guard_(vm::kPage), memory_(size + 2 * guard_), size_(size) {
  erase();
  mr_ = vm::regMr(pd, data(), size, access);
  address_ = reinterpret_cast<uint64_t>(data());
  lkey_ = mr_->lkey;
}

Area::Area(ibv_pd* pd, size_t size, int access, uint64_t iova)
    : guard_(vm::kPage + iova % vm::kPage),
      memory_(size + 2 * guard_),
      size_(size),
      address_(iova) {
  erase();
  mr_ = vm::regMrIova(pd, data(), size, iova, access);
  lkey_ = mr_->lkey;
}

ibv_sge Area::sge(uint64_t offset, uint32_t length) const {
  return {address_ + offset, length, lkey_};
}

void Area::erase() { std::memset(memory_.data(), vm::kBackground, memory_.size()); }

void Area::fill(uint64_t offset, const std::vector<uint8_t>& bytes) {
  if (offset > size_ || bytes.size() > size_ - offset) fail("fill goes beyond the area");
  std::memcpy(data() + offset, bytes.data(), bytes.size());
}

std::string Area::look() const {
  const uint8_t* all = memory_.data();
  const auto first = vm::firstDisturbed(all, memory_.size());
  if (!first) return "clean";
  size_t last = memory_.size() - 1;
  while (all[last] == vm::kBackground) --last;
  return vm::strf("%ld ", static_cast<long>(*first) - static_cast<long>(guard_)) +
         toHex(all + *first, last - *first + 1);
}

int parseAccess(const std::string& text) {
  static const std::map<std::string, int> kFlags = {
      {"none", 0},
      {"local_write", IBV_ACCESS_LOCAL_WRITE},
      {"remote_write", IBV_ACCESS_REMOTE_WRITE},
      {"remote_read", IBV_ACCESS_REMOTE_READ},
      {"mw_bind", IBV_ACCESS_MW_BIND},
      {"zero_based", IBV_ACCESS_ZERO_BASED},
      {"remote_atomic", IBV_ACCESS_REMOTE_ATOMIC},
  };
  int access = 0;
  for (const std::string& part : split(text, ',')) {
    auto found = kFlags.find(part);
    if (found == kFlags.end()) fail("no access right %s", part.c_str());
    access |= found->second;
  }
  return access;
}

}  // namespace kiwarp::interop
