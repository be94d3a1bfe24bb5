// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "mapping.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace kiwarp {
namespace {

// Of whole pages, and so is what it is mapped from.
const size_t kSize = 2 * static_cast<size_t>(sysconf(_SC_PAGESIZE));

// What stands for the kernel's memory.
class Memory {
 public:
  Memory() : fd_(memfd_create("rings", 0)) {
    EXPECT_EQ(ftruncate(fd_, 2 * kSize), 0);
    const char byte = 'k';
    EXPECT_EQ(pwrite(fd_, &byte, 1, kSize), 1);
  }
  ~Memory() { close(fd_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

bool hasByte(const Mapping& mapping) { return *static_cast<const char*>(mapping.base()) == 'k'; }

TEST(Mapping, IsWhereTheAddressSpaceWasReserved) {
  const Memory memory;
  Mapping mapping;
  ASSERT_EQ(mapping.reserve(kSize), 0);
  void* const reserved = mapping.base();
  ASSERT_EQ(mapping.map(memory.fd(), kSize, kSize), 0);
  EXPECT_EQ(mapping.base(), reserved);
  EXPECT_TRUE(hasByte(mapping));
}

TEST(Mapping, OfAnotherSizeTakesAnotherPlace) {
  const Memory memory;
  Mapping mapping;
  ASSERT_EQ(mapping.reserve(2 * kSize), 0);
  ASSERT_EQ(mapping.map(memory.fd(), kSize, kSize), 0);
  EXPECT_EQ(mapping.size(), kSize);
  EXPECT_TRUE(hasByte(mapping));
}

// A failed MAP_FIXED may leave the range unmapped. munmap() of it later could hit a new mapping
// there.
TEST(Mapping, ThatFailsOwnsNothing) {
  Mapping mapping;
  ASSERT_EQ(mapping.reserve(kSize), 0);
  EXPECT_EQ(mapping.map(-1, 0, kSize), EBADF);
  EXPECT_EQ(mapping.base(), nullptr);
  const Memory memory;
  ASSERT_EQ(mapping.map(memory.fd(), kSize, kSize), 0);
  EXPECT_TRUE(hasByte(mapping));
}

}  // namespace
}  // namespace kiwarp
