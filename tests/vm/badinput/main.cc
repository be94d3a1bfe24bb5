// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-badinput: everything a process can do wrong through verbs, with the exact errno,
// completion, event and state that has to come of it, beside a connection that must not notice.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "badinput/harness.h"
#include "common/cases.h"
#include "common/options.h"

namespace {

using kiwarp::vm::Case;
using kiwarp::vm::Env;
using kiwarp::vm::Failure;

const char kUsage[] =
    "kiwarp-badinput --addr ADDR [options]\n"
    "  --port N            port to listen on (18600); the next 50 are used too\n"
    "  --case NAME         run only this one; --list lists them\n"
    "  --skip LIST         names not to run, where the peer or device is known to crash on them\n"
    "  --tenant            be the other process of a case\n"
    "  --startup-timeout S bound within which the device gives a silent peer up (60)\n"
    "GoogleTest runs the cases: --gtest_repeat=N and such are understood, too.\n"
    "Prints TAP. Exit: 0 all passed, 1 not, 2 usage, 3 stuck in a call.\n";

// The longest case waits for one time-out of start-up.
constexpr unsigned kCaseAlarm = 120;

void onAlarm(int) {
  static const char kText[] = "not ok - stuck inside a call beyond every deadline\n";
  [[maybe_unused]] ssize_t n = write(STDOUT_FILENO, kText, std::strlen(kText));
  _exit(3);
}

std::vector<Case> allCases() {
  std::vector<Case> cases;
  kiwarp::vm::addCreateCases(&cases);
  kiwarp::vm::addQueueCases(&cases);
  kiwarp::vm::addEmptyCases(&cases);
  kiwarp::vm::addRingCases(&cases);
  kiwarp::vm::addSrqCases(&cases);
  kiwarp::vm::addDetailsCases(&cases);
  kiwarp::vm::addLocalCases(&cases);
  kiwarp::vm::addRemoteCases(&cases);
  kiwarp::vm::addWindowCases(&cases);
  kiwarp::vm::addConnectCases(&cases);
  return cases;
}

void runCase(const Case& test, Env& env) {
  alarm(kCaseAlarm);
  std::string result;
  try {
    test.run(env);
  } catch (const Failure& failure) {
    result = failure.what();
  }
  try {
    env.checkBystander();
  } catch (const Failure& failure) {
    result += (result.empty() ? "" : "; ") + std::string(failure.what());
  }
  if (!result.empty()) kiwarp::vm::fail("%s", result.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::string address, only, skip;
  uint64_t port = 18600, startup = 60;
  bool list = false, tenant = false;
  return kiwarp::vm::runMain("Bail out! ", [&] {
    kiwarp::vm::initCases(&argc, argv);
    kiwarp::vm::Options options(kUsage);
    options.text("--addr", &address);
    options.number("--port", &port);
    options.text("--case", &only);
    options.text("--skip", &skip);
    options.number("--startup-timeout", &startup);
    options.flag("--list", &list);
    options.flag("--tenant", &tenant);
    options.parse(argc, argv);
    std::vector<Case> cases = allCases();
    if (list) {
      for (const Case& test : cases) std::printf("%s\n", test.name.c_str());
      return 0;
    }
    if (!only.empty()) {
      std::erase_if(cases, [&only](const Case& test) { return test.name != only; });
      if (cases.empty()) options.misuse("no case " + only);
    }
    std::erase_if(cases, [&skip](const Case& test) {
      return ("," + skip + ",").find("," + test.name + ",") != std::string::npos;
    });
    if (address.empty()) options.misuse("--addr is needed");
    std::signal(SIGALRM, onAlarm);
    alarm(kCaseAlarm);
    if (tenant) {
      kiwarp::vm::beTenant(address, static_cast<uint16_t>(port));
      return 0;
    }
    Env env(address, static_cast<uint16_t>(port), startup);
    for (const Case& test : cases) {
      kiwarp::vm::addCase(test.name, [&test, &env] { runCase(test, env); });
    }
    return kiwarp::vm::runCases();
  });
}
