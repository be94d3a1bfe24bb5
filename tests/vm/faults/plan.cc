// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "faults/plan.h"

#include <cerrno>
#include <cstdio>
#include <regex>
#include <utility>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

int plain(const FaultCase& test) {
  test.prepare();
  int error = test.call();
  if (!error) error = test.then();
  test.undo();
  return error;
}

}  // namespace

FaultPlan::FaultPlan(FaultOptions options) : options_(std::move(options)) {}

bool FaultPlan::wanted(const std::string& name) const {
  return options_.only.empty() || std::regex_search(name, std::regex(options_.only));
}

void FaultPlan::fact(bool good, const std::string& what) {
  ++facts_;
  if (!good) ++failures_;
  std::printf("%s %u - %s\n", good ? "ok" : "not ok", facts_, what.c_str());
}

int FaultPlan::finish() const {
  std::printf("1..%u\n", facts_);
  return failures_ == 0 ? 0 : 1;
}

// What is wrong, or nothing.
std::string FaultPlan::attemptAll(const FaultCase& test, unsigned* injected, unsigned* refused) {
  // The first may fill caches, so that later calls allocate less.
  if (int error = plain(test)) return "without a failure: " + errnoName(error);

  for (unsigned nth = 1;; nth += step(nth)) {
    test.prepare();
    Outcome outcome = injector_.run(nth, test.call);
    if (!outcome.error) outcome.error = test.then();
    test.undo();
    if (!outcome.injected) {
      if (outcome.error) return strf("%u is none: %s", nth, errnoName(outcome.error).c_str());
      return "";
    }
    ++*injected;
    if (outcome.error) ++*refused;
    if (outcome.error && outcome.error != ENOMEM && outcome.error != EFAULT &&
        !test.also.contains(outcome.error)) {
      return strf("failure %u: %s", nth, errnoName(outcome.error).c_str());
    }
    if (int after = plain(test)) return strf("after failure %u: %s", nth, errnoName(after).c_str());
  }
}

void FaultPlan::run(const FaultCase& test) {
  if (!wanted(test.name)) return;
  unsigned injected = 0, refused = 0;
  std::string wrong;
  try {
    wrong = attemptAll(test, &injected, &refused);
  } catch (const Failure& failure) {
    wrong = strf("around failure %u: %s", injected, failure.what());
  }
  if (wrong.empty() && injected == 0) wrong = "nothing in it can fail";
  fact(wrong.empty(), strf("%s: %u failures, %u errors%s%s", test.name.c_str(), injected, refused,
                           wrong.empty() ? "" : ": ", wrong.c_str()));
}

}  // namespace kiwarp::vm
