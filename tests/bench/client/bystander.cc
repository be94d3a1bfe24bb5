// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/bystander.h"

#include <poll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <thread>
#include <utility>

#include "common/error.h"

namespace kiwarp::bench {

using vm::Clock;
using vm::fail;

namespace {

constexpr vm::milliseconds kPeriod(1);
constexpr vm::seconds kTimeLimit(60);
constexpr int kLookMs = 100;

double microsecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// A thread's timers may be late by 50 us by default, so that several expire at a time.
void wantExactTimers() { vm::checkErrno(prctl(PR_SET_TIMERSLACK, 1UL), "PR_SET_TIMERSLACK"); }

// By the nearest rank.
double percentile(std::vector<double>* samples, double of) {
  const auto rank = std::ceil(of * static_cast<double>(samples->size()));
  const auto at = samples->begin() + static_cast<ptrdiff_t>(std::max(rank, 1.0)) - 1;
  std::nth_element(samples->begin(), at, samples->end());
  return *at;
}

void print(const char* name, std::vector<double> samples) {
  if (samples.empty()) fail("the run ended before there was a sample of %s", name);
  std::printf("%s_samples=%zu %s_50=%.1f %s_99=%.1f %s_99_9=%.1f %s_max=%.1f\n", name,
              samples.size(), name, percentile(&samples, 0.5), name, percentile(&samples, 0.99),
              name, percentile(&samples, 0.999), name,
              *std::max_element(samples.begin(), samples.end()));
}

}  // namespace

BystanderEcho::BystanderEcho(vm::Control control) : control_(std::move(control)) {
  served_ = std::async(std::launch::async, [this] { serve(); });
}

BystanderEcho::~BystanderEcho() {
  stop_ = true;
  served_.wait();
}

void BystanderEcho::serve() {
  pollfd poller{control_.fd(), POLLIN, 0};
  while (!stop_) {
    if (poll(&poller, 1, kLookMs) <= 0) continue;
    if (const auto message = control_.tryReceive()) control_.send(*message);
  }
}

Bystander::~Bystander() {
  stop_ = true;
  if (timer_.valid()) timer_.wait();
  if (pings_.valid()) pings_.wait();
}

void Bystander::begin() {
  timer_ = std::async(std::launch::async, [this] { return runTimer(); });
  pings_ = std::async(std::launch::async, [this] { return runPings(); });
}

void Bystander::endAndPrint() {
  stop_ = true;
  print("timer", timer_.get());
  print("ping", pings_.get());
}

// A period that has passed meanwhile counts, too: whoever was to run in it is late.
Bystander::Samples Bystander::runTimer() const {
  Samples late;
  wantExactTimers();
  for (Clock::time_point due = Clock::now() + kPeriod; !stop_; due += kPeriod) {
    std::this_thread::sleep_until(due);
    late.push_back(microsecondsSince(due));
  }
  return late;
}

// The same of messages: each is measured from when it was to be sent.
Bystander::Samples Bystander::runPings() {
  Samples took;
  wantExactTimers();
  for (Clock::time_point due = Clock::now() + kPeriod; !stop_; due += kPeriod) {
    std::this_thread::sleep_until(due);
    control_.send({});
    control_.receive(vm::Deadline(kTimeLimit));
    took.push_back(microsecondsSince(due));
  }
  return took;
}

}  // namespace kiwarp::bench
