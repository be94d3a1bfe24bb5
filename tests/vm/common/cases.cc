// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/cases.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <utility>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

class CaseTest : public testing::Test {
 public:
  explicit CaseTest(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override {
    try {
      body_();
    } catch (const Failure& failure) {
      ADD_FAILURE() << failure.what();
    }
  }

 private:
  std::function<void()> body_;
};

class TapPrinter : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& info) override {
    const testing::TestResult& result = *info.result();
    std::string why;
    for (int i = 0; i < result.total_part_count(); i++)
      why += std::string(i == 0 ? " # " : "; ") + result.GetTestPartResult(i).message();
    std::printf("%s %u - %s%s\n", result.Passed() ? "ok" : "not ok", ++number_, info.name(),
                why.c_str());
    std::fflush(stdout);
  }
  void OnTestProgramEnd(const testing::UnitTest& /*all*/) override {
    std::printf("1..%u\n", number_);
  }

  unsigned number_ = 0;
};

}  // namespace

void addCase([[maybe_unused]] const std::string& name,
             [[maybe_unused]] const std::function<void()>& body) {
// The analyzer takes the factory that RegisterTest() keeps for a leak, inside GoogleTest's header.
#ifndef __clang_analyzer__
  testing::RegisterTest("kiwarp", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                        [body]() -> testing::Test* {
                          // GoogleTest's, which deletes it.
                          return new CaseTest(body);
                        });
#endif
}

void initCases(int* argc, char** argv) {
  testing::InitGoogleTest(argc, argv);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  // GoogleTest's, likewise.
  listeners.Append(new TapPrinter);
}

int runCases() { return RUN_ALL_TESTS(); }

}  // namespace kiwarp::vm
