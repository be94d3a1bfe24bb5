// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "pabi/guard.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(Guard, KnowsTheInstalledLibrary) { EXPECT_TRUE(pabi::libraryIsKnown()); }

}  // namespace
}  // namespace kiwarp::test
