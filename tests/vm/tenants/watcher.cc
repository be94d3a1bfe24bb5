// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "tenants/watcher.h"

#include <pthread.h>
#include <sched.h>

#include <cstdio>
#include <ctime>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void pinToFirstCpu() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

Watcher::Watcher(uint64_t bound_us)
    : bound_(static_cast<int64_t>(bound_us) * 1000), thread_([this] { watch(); }) {}

Watcher::~Watcher() {
  stop_ = true;
  thread_.join();
}

int64_t Watcher::report(const char* when) {
  const int64_t worst = worst_.exchange(0);
  std::printf("# %s: a real-time thread waited %.3f ms at most%s\n", when,
              static_cast<double>(worst) / 1e6, real_time_ ? "" : " (no priority)");
  return worst;
}

void Watcher::judge(const char* when) {
  const int64_t worst = report(when);
  if (bound_ && worst > bound_) fail("%s: waited %lld ns", when, 1LL * worst);
}

void Watcher::watch() {
  pinToFirstCpu();
  const sched_param priority{90};
  real_time_ = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
  int64_t next = nanoseconds();
  while (!stop_) {
    next += 1'000'000;
    const timespec until{static_cast<time_t>(next / 1'000'000'000), next % 1'000'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    const int64_t now = nanoseconds();
    if (now - next > worst_) worst_ = now - next;
    next = now;
  }
}

}  // namespace kiwarp::vm
