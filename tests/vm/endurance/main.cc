// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-endurance: thousands of rounds of what ends connections while data flows. What has to be
// there, wires, devices and the module, and what has to be true when it is done, is
// tests/vm/byhand/endurance.sh's.

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/options.h"
#include "endurance/rounds.h"

namespace kiwarp::vm {
namespace {

const char kUsage[] =
    "kiwarp-endurance --kind kills|links|loads [options]\n"
    "  --rounds N     how many (50)\n"
    "  --wires N      wires 0 to N-1 are there (3). Kills and links go on at all of them at\n"
    "                 a time, a load takes them all\n"
    "  --seed N       what happens when\n"
    "  --module FILE  the module, for loads\n"
    "Prints a line a minute, and what was said in rounds that failed; after ten of them it ends.\n"
    "Exit: 0 all rounds were good, 1 some were not, 2 usage.\n";

constexpr milliseconds kProgress{60'000};
constexpr uint64_t kMostBad = 10;
// Below those that clients get. A port comes again when no TIME-WAIT of its last round is left.
constexpr uint64_t kFirstPort = 10000, kPorts = 20000;

struct Settings {
  std::string kind, module;
  uint64_t rounds = 50, wires = 3, seed = 1;
};

using Round = void (Rounds::*)(uint16_t port);

const std::map<std::string, Round> kKinds{
    {"kills", &Rounds::kill}, {"links", &Rounds::link}, {"loads", &Rounds::load}};

void printIndented(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::printf("#   %.300s\n", text.substr(at, end - at).c_str());
    at = end + 1;
  }
}

bool oneRound(Rounds& rounds, Round round, uint64_t number) {
  std::string failure;
  try {
    (rounds.*round)(static_cast<uint16_t>(kFirstPort + number % kPorts));
  } catch (const Failure& caught) {
    failure = caught.what();
  }
  const std::string said = rounds.cleanUp();
  if (failure.empty()) return true;
  std::printf("# round %llu: %s\n", static_cast<unsigned long long>(number), failure.c_str());
  printIndented(said);
  std::fflush(stdout);
  return false;
}

// A worker's rounds are first, first + step, ...; it writes a character for each to the pipe.
void work(const Settings& settings, const std::vector<uint64_t>& wires, uint64_t first,
          uint64_t step, int pipe) {
  Rounds rounds(wires, settings.seed * 1000 + first, settings.module);
  const Round round = kKinds.at(settings.kind);
  for (uint64_t number = first; number < settings.rounds; number += step) {
    const char result = oneRound(rounds, round, number) ? '+' : '-';
    if (write(pipe, &result, 1) != 1) return;
  }
}

class Workers {
 public:
  explicit Workers(const Settings& settings);
  int wait();

 private:
  void start(const std::vector<uint64_t>& wires, uint64_t first, uint64_t step);
  void progress() const;

  const Settings settings_;
  std::array<int, 2> pipe_{};
  std::vector<pid_t> pids_;
  Clock::time_point begin_ = Clock::now();
  uint64_t good_ = 0, bad_ = 0;
};

Workers::Workers(const Settings& settings) : settings_(settings) {
  checkErrno(pipe(pipe_.data()), "pipe");
  std::vector<uint64_t> all;
  for (uint64_t i = 0; i < settings.wires; ++i) all.push_back(i);
  if (settings.kind == "loads") {
    start(all, 0, 1);
  } else {
    for (const uint64_t wire : all) start({wire}, wire, settings.wires);
  }
  close(pipe_[1]);
}

void Workers::start(const std::vector<uint64_t>& wires, uint64_t first, uint64_t step) {
  const pid_t pid = fork();
  checkErrno(pid < 0 ? -1 : 0, "fork");
  if (pid != 0) {
    pids_.push_back(pid);
    return;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  close(pipe_[0]);
  const int rc = runMain("# FAILED: ", [&] {
    work(settings_, wires, first, step, pipe_[1]);
    return 0;
  });
  std::fflush(stdout);
  _exit(rc);
}

void Workers::progress() const {
  const double took = std::chrono::duration<double>(Clock::now() - begin_).count();
  const unsigned long long done = good_ + bad_, all = settings_.rounds, bad = bad_;
  std::printf("# %s: %llu of %llu rounds, %llu bad, %.2f a second\n", settings_.kind.c_str(), done,
              all, bad, static_cast<double>(done) / took);
}

int Workers::wait() {
  Deadline next(kProgress);
  for (;;) {
    pollfd fd{pipe_[0], POLLIN, 0};
    if (poll(&fd, 1, next.pollTimeout()) > 0) {
      std::array<char, 256> results{};
      const ssize_t got = read(pipe_[0], results.data(), results.size());
      if (got <= 0) break;
      const auto good = std::count(results.begin(), results.begin() + got, '+');
      good_ += static_cast<uint64_t>(good);
      bad_ += static_cast<uint64_t>(got - good);
      if (bad_ >= kMostBad) break;
    }
    if (next.passed()) {
      progress();
      next = Deadline(kProgress);
    }
  }
  // After too many bad rounds some are still at work.
  for (const pid_t pid : pids_) {
    if (bad_ >= kMostBad) kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  progress();
  return good_ == settings_.rounds ? 0 : 1;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  Options options(kUsage);
  options.text("--kind", &settings.kind);
  options.text("--module", &settings.module);
  options.number("--rounds", &settings.rounds);
  options.number("--wires", &settings.wires);
  options.number("--seed", &settings.seed);
  options.parse(argc, argv);
  if (!kKinds.contains(settings.kind)) options.misuse("--kind is kills, links or loads");
  if ((settings.kind == "loads") == settings.module.empty()) {
    options.misuse("--module is for loads, which need it");
  }
  return settings;
}

}  // namespace
}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  using namespace kiwarp::vm;
  return runMain("# FAILED: ", [&] { return Workers(parse(argc, argv)).wait(); });
}
