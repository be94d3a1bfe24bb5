// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/basics.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <functional>
#include <limits>

#include "common/clock.h"
#include "common/error.h"

namespace kiwarp::bench {

using vm::Clock;

namespace {

// Short ones, so that some have the CPU for themselves on a machine that is busy.
constexpr int kRounds = 3000;
constexpr int kFew = 10;

// Nanoseconds of one of so many, in the round that nobody else disturbed.
double least(int count, const std::function<void()>& once) {
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) once();
    const double took = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    best = std::min(best, took / count);
  }
  return best;
}

void exactly(ssize_t done) { vm::checkErrno(done == 1 ? 0 : -1, "pipe"); }

// Two processes on one CPU, each of which waits for the other: two switches a turn, four calls.
class PingPong {
 public:
  PingPong() {
    vm::checkErrno(pipe(there_), "pipe");
    vm::checkErrno(pipe(back_), "pipe");
    peer_ = fork();
    vm::checkErrno(peer_ < 0 ? -1 : 0, "fork");
    if (peer_ > 0) return;
    close(there_[1]);
    char byte = 0;
    while (::read(there_[0], &byte, 1) == 1 && ::write(back_[1], &byte, 1) == 1) {
    }
    _exit(0);
  }
  ~PingPong() {
    close(there_[1]);
    waitpid(peer_, nullptr, 0);
    for (int fd : {there_[0], back_[0], back_[1]}) close(fd);
  }
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;

  void turn() const {
    char byte = 0;
    exactly(::write(there_[1], &byte, 1));
    exactly(::read(back_[0], &byte, 1));
  }

 private:
  int there_[2] = {}, back_[2] = {};
  pid_t peer_ = -1;
};

double pipeByItself() {
  int ends[2];
  vm::checkErrno(pipe(ends), "pipe");
  char byte = 0;
  const double both = least(kFew, [&] {
    exactly(::write(ends[1], &byte, 1));
    exactly(::read(ends[0], &byte, 1));
  });
  close(ends[0]);
  close(ends[1]);
  return both;
}

double pageFault() {
  constexpr size_t kPages = 16, kPage = 4096;
  double best = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    void* memory =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    vm::checkErrno(memory == MAP_FAILED ? -1 : 0, "mmap");
    vm::checkErrno(madvise(memory, kPages * kPage, MADV_NOHUGEPAGE) && errno != EINVAL ? -1 : 0,
                   "madvise");
    auto* at = static_cast<volatile uint8_t*>(memory);
    const Clock::time_point start = Clock::now();
    for (size_t i = 0; i < kPages; ++i) at[i * kPage] = 1;
    const double took = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    best = std::min(best, took / kPages);
    munmap(memory, kPages * kPage);
  }
  return best;
}

}  // namespace

int runBasics() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  vm::checkErrno(sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
  vm::checkErrno(prctl(PR_SET_TIMERSLACK, 1), "PR_SET_TIMERSLACK");
  const double call = least(kFew, [] { syscall(SYS_getppid); });
  const double pipe_pair = pipeByItself();
  double turn = 0;
  {
    const PingPong pair;
    turn = least(kFew, [&] { pair.turn(); });
  }
  // Beyond the time that was asked for.
  constexpr timespec kSleep = {0, 50'000};
  const double timer = least(1, [&] { clock_nanosleep(CLOCK_MONOTONIC, 0, &kSleep, nullptr); }) -
                       static_cast<double>(kSleep.tv_nsec);
  std::printf("null_call_ns=%.0f pipe_ns=%.0f switch_ns=%.0f timer_ns=%.0f fault_ns=%.0f\n", call,
              pipe_pair, turn / 2, timer, pageFault());
  return 0;
}

}  // namespace kiwarp::bench
