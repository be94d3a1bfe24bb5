// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kiwarp {

// Memory of the kernel's with rings in it, mapped.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping() { reset(); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    return *this;
  }

  // Sets address space aside, for a map() of the same size that should not fail any more. Returns 0
  // or a positive errno.
  [[nodiscard]] int reserve(uint64_t size) {
    void* base = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return errno;
    reset();
    base_ = base;
    size_ = size;
    return 0;
  }

  // Returns 0 or a positive errno.
  [[nodiscard]] int map(int fd, uint64_t key, uint64_t size) {
    if (base_ != nullptr && size == size_) {
      if (mapAt(base_, fd, key, size, MAP_FIXED) != MAP_FAILED) return 0;
      // The kernel may have unmapped what was there: it is not ours any more.
      base_ = nullptr;
      size_ = 0;
    }
    void* base = mapAt(nullptr, fd, key, size, 0);
    if (base == MAP_FAILED) return errno;
    reset();
    base_ = base;
    size_ = size;
    return 0;
  }

  void reset() {
    if (base_ != nullptr) munmap(base_, size_);
    base_ = nullptr;
    size_ = 0;
  }

  [[nodiscard]] void* base() const { return base_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  static void* mapAt(void* at, int fd, uint64_t key, uint64_t size, int flags) {
    return mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, static_cast<off_t>(key));
  }

  void* base_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kiwarp
