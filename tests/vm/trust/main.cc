// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-trust: what an ordinary user's process can try against others and against the kernel.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include "common/error.h"
#include "common/options.h"
#include "trust/attack.h"

namespace kiwarp::vm {
namespace {

const char kUsage[] =
    "kiwarp-trust --attack NAME --addr ADDR [--port N] [--rounds N] [--qpn N] [--accept-qpn N]\n"
    "  --attack  unpublished, churn, foreign, container, kernel, twice, slow-start, slow-again,\n"
    "            gone, dropped, unanswered, answer-short, answer-none, answer-cut, answer-long,\n"
    "            again; or victim\n"
    "  --addr    an address of the device's interface\n"
    "  --rounds  how often (200)\n"
    "  --qpn     for foreign, container and kernel: the other's queue pair\n"
    "  --other-addr  for container: an address of the other's device\n"
    "  --accept-qpn  for kernel: the one on the device of the address\n"
    "Prints TAP.\n";

unsigned facts = 0, failures = 0;

void onAlarm(int) {
  static const char kText[] = "not ok - stuck inside a call beyond every deadline\n";
  [[maybe_unused]] ssize_t n = write(STDOUT_FILENO, kText, std::strlen(kText));
  _exit(3);
}

}  // namespace

void fact(bool good, const std::string& what) {
  ++facts;
  if (!good) ++failures;
  std::printf("%s %u - %s\n", good ? "ok" : "not ok", facts, what.c_str());
}

}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  using namespace kiwarp::vm;
  static const std::map<std::string, std::function<void(const Settings&)>> kAttacks = {
      {"unpublished", attackUnpublished},
      {"churn", attackChurn},
      {"foreign", attackForeign},
      {"twice", attackTwice},
      {"slow-start", attackSlowStart},
      {"slow-again", attackSlowAgain},
      {"dropped", attackDropped},
      {"unanswered", attackUnanswered},
      {"answer-short", attackAnswerShort},
      {"answer-none", attackAnswerNone},
      {"answer-cut", attackAnswerCut},
      {"answer-long", attackAnswerLong},
      {"again", attackAgain},
      {"kernel", attackKernel},
      {"container", attackContainer},
      {"gone", attackGone},
      {"victim", beVictim},
  };
  Settings settings;
  Options options(kUsage);
  options.text("--attack", &settings.attack);
  options.text("--addr", &settings.address);
  options.text("--other-addr", &settings.other_address);
  options.number("--port", &settings.port);
  options.number("--rounds", &settings.rounds);
  options.number("--qpn", &settings.qpn);
  options.number("--accept-qpn", &settings.accept_qpn);
  return runMain("not ok - Bail out! ", [&] {
    options.parse(argc, argv);
    const auto attack = kAttacks.find(settings.attack);
    if (attack == kAttacks.end()) options.misuse("--attack is needed");
    if (settings.address.empty()) options.misuse("--addr is needed");
    std::signal(SIGALRM, onAlarm);
    alarm(300);
    attack->second(settings);
    return failures == 0 ? 0 : 1;
  });
}
