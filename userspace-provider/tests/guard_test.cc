// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "pabi/guard.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pabi/layout.h"

namespace kiwarp::test {
namespace {

std::string libraryOf(int release, const std::string& patch = "0") {
  return "libibverbs.so.1.14." + std::to_string(release) + "." + patch;
}

TEST(Guard, TakesTheReleasesOfTheLayout) {
  for (int release = pabi::kFirstRelease; release <= pabi::kLastRelease; ++release) {
    const std::string name = libraryOf(release);
    EXPECT_TRUE(pabi::isKnownLibrary(name.c_str()));
    EXPECT_TRUE(pabi::isKnownLibrary(("/usr/lib/x86_64-linux-gnu/" + name).c_str()));
    EXPECT_TRUE(pabi::isKnownLibrary(("/opt/lib/" + libraryOf(release, "12")).c_str()));
  }
}

TEST(Guard, RefusesOtherReleases) {
  for (int release : {pabi::kFirstRelease - 1, pabi::kLastRelease + 1, pabi::kFirstRelease / 10,
                      pabi::kFirstRelease * 10, 0}) {
    EXPECT_FALSE(pabi::isKnownLibrary(("/usr/lib/" + libraryOf(release)).c_str())) << release;
  }
}

TEST(Guard, RefusesEverythingElse) {
  const std::string known = "/usr/lib/" + libraryOf(pabi::kFirstRelease);
  ASSERT_TRUE(pabi::isKnownLibrary(known.c_str()));
  EXPECT_FALSE(pabi::isKnownLibrary((known + "/other.so").c_str()));
  EXPECT_FALSE(pabi::isKnownLibrary((known + ".1").c_str()));
  EXPECT_FALSE(pabi::isKnownLibrary((known + "rc1").c_str()));
  EXPECT_FALSE(pabi::isKnownLibrary((known.substr(0, known.size() - 1)).c_str()));
  EXPECT_FALSE(pabi::isKnownLibrary(("/usr/lib/" + libraryOf(pabi::kFirstRelease, "-1")).c_str()));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/lib/libibverbs.so.1"));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/lib/libibverbs.so.2.14.44.0"));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/bin/static-program"));
  EXPECT_FALSE(pabi::isKnownLibrary(""));
}

constexpr std::string_view kLine =
    "7f0a1b2c3000-7f0a1b2d0000 r-xp 00005000 fd:01 4711                     ";

TEST(Guard, FindsTheFileOfAMapping) {
  const std::string line(kLine);
  for (const char* file : {"/usr/lib/libibverbs.so.1.14.44.0", "/opt/my libraries/libibverbs.so.1",
                           "/usr/lib/libibverbs.so.1.14.44.0 (deleted)", "/a  b (deleted) c", ""}) {
    for (const char* end : {"\n", ""}) {
      const std::string text = line + file + end;
      EXPECT_EQ(pabi::mappedFile(text, 0x7f0a1b2c3000), file);
      EXPECT_EQ(pabi::mappedFile(text, 0x7f0a1b2cffff), file);
    }
  }
}

TEST(Guard, TakesTheMappingOfTheAddressOnly) {
  const std::string line = std::string(kLine) + "/usr/lib/libibverbs.so.1.14.44.0\n";
  for (std::uintptr_t address : {0UL, 0x7f0a1b2c2fffUL, 0x7f0a1b2d0000UL, ~0UL}) {
    EXPECT_EQ(pabi::mappedFile(line, address), std::nullopt) << std::hex << address;
  }
}

TEST(Guard, TakesNoFileForMemoryWithoutOne) {
  for (const char* line :
       {"1000-2000 rw-p 00000000 00:00 0 \n", "1000-2000 rw-p 00000000 00:00 0\n",
        "1000-2000 rw-p 00000000 00:00 0                          [heap]\n",
        "1000-2000 rw-p 00000000 00:00 0                          [anon:code]\n", "1000-2000 rw-p",
        "1000-2000 "}) {
    EXPECT_EQ(pabi::mappedFile(line, 0x1800), "") << line;
  }
}

TEST(Guard, TakesNothingFromOtherLines) {
  for (const char* line :
       {"", "\n", "1000", "1000-", "1000-2000", "1000 2000 r-xp", "1000-2000-3000 r-xp 0 0 0 /a",
        "-1000-2000 r-xp 0 0 0 /a", " 1000-2000 r-xp 0 0 0 /a", "x-y r-xp 0 0 0 /a",
        "0-fffffffffffffffff r-xp 0 0 0 /a", "/usr/lib/libibverbs.so.1.14.44.0"}) {
    EXPECT_EQ(pabi::mappedFile(line, 0x1800), std::nullopt) << line;
  }
}

TEST(Guard, KnowsTheInstalledLibrary) { EXPECT_TRUE(pabi::libraryIsKnown()); }

}  // namespace
}  // namespace kiwarp::test
