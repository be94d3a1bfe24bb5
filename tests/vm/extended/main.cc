// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-extended: the verbs beyond those that every program uses, rightly and wrongly, with the
// exact errno.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "common/cases.h"
#include "common/options.h"
#include "extended/cases.h"

namespace {

using kiwarp::vm::Case;
using kiwarp::vm::Env;

const char kUsage[] =
    "kiwarp-extended --addr ADDR [options]\n"
    "  --port N     port to listen on (18700)\n"
    "  --exporter FILE  kiwarp_ktest's, for cases with dma-bufs\n"
    "  --extensions  the settings of RFC 7306 are on; without this they are off\n"
    "  --debian     the kernel has udmabuf and dma-heap; without this cases say so and pass\n"
    "  --case NAME  run only those whose names begin so; --list lists them\n"
    "GoogleTest runs the cases: --gtest_repeat=N and such are understood, too.\n"
    "Prints TAP. Exit: 0 all passed, 1 not, 2 usage, 3 stuck in a call.\n";

constexpr unsigned kCaseAlarm = 120;
constexpr uint64_t kStartupLimit = 60;

void onAlarm(int) {
  static const char kText[] = "not ok - stuck inside a call beyond every deadline\n";
  [[maybe_unused]] ssize_t n = write(STDOUT_FILENO, kText, std::strlen(kText));
  _exit(3);
}

struct Arguments {
  std::string exporter;
  bool extensions = false, debian = false;
};

std::vector<Case> allCases(const Arguments& arguments) {
  std::vector<Case> cases;
  kiwarp::vm::addCqCases(&cases);
  kiwarp::vm::addDmabufCases(&cases, arguments.exporter, arguments.debian);
  kiwarp::vm::addDomainCases(&cases);
  kiwarp::vm::addMrCases(&cases);
  kiwarp::vm::addPollCases(&cases);
  kiwarp::vm::addPostCases(&cases, arguments.extensions);
  return cases;
}

void runCase(const Case& test, Env& env) {
  alarm(kCaseAlarm);
  test.run(env);
  env.checkBystander();
}

}  // namespace

int main(int argc, char** argv) {
  std::string address, only;
  Arguments arguments;
  uint64_t port = 18700;
  bool list = false;
  return kiwarp::vm::runMain("Bail out! ", [&] {
    kiwarp::vm::initCases(&argc, argv);
    kiwarp::vm::Options options(kUsage);
    options.text("--addr", &address);
    options.number("--port", &port);
    options.text("--case", &only);
    options.text("--exporter", &arguments.exporter);
    options.flag("--extensions", &arguments.extensions);
    options.flag("--debian", &arguments.debian);
    options.flag("--list", &list);
    options.parse(argc, argv);
    std::vector<Case> cases = allCases(arguments);
    std::erase_if(cases, [&only](const Case& test) { return !test.name.starts_with(only); });
    if (cases.empty()) options.misuse("no case " + only);
    if (list) {
      for (const Case& test : cases) std::printf("%s\n", test.name.c_str());
      return 0;
    }
    if (address.empty()) options.misuse("--addr is needed");
    std::signal(SIGALRM, onAlarm);
    alarm(kCaseAlarm);
    Env env(address, static_cast<uint16_t>(port), kStartupLimit);
    for (const Case& test : cases) {
      kiwarp::vm::addCase(test.name, [&test, &env] { runCase(test, env); });
    }
    return kiwarp::vm::runCases();
  });
}
