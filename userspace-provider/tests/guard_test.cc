// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "pabi/guard.h"

#include <gtest/gtest.h>

namespace kiwarp::test {
namespace {

TEST(Guard, TakesThePatchLevelsOfOneRelease) {
  EXPECT_TRUE(pabi::isKnownLibrary("/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.44.0"));
  EXPECT_TRUE(pabi::isKnownLibrary("/opt/lib/libibverbs.so.1.14.44.12"));
  EXPECT_TRUE(pabi::isKnownLibrary("libibverbs.so.1.14.44.0"));
}

TEST(Guard, RefusesEverythingElse) {
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/lib/libibverbs.so.1.14.45.0"));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/lib/libibverbs.so.1.14.4.0"));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/lib/libibverbs.so.1.14.440.0"));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/lib/libibverbs.so.1.14.44."));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/lib/libibverbs.so.1"));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/lib/libibverbs.so.1.14.44.0/other.so"));
  EXPECT_FALSE(pabi::isKnownLibrary("/usr/bin/static-program"));
  EXPECT_FALSE(pabi::isKnownLibrary(""));
}

TEST(Guard, KnowsTheInstalledLibrary) { EXPECT_TRUE(pabi::libraryIsKnown()); }

}  // namespace
}  // namespace kiwarp::test
