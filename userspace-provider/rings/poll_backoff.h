// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <ctime>

namespace kiwarp {

// When an empty poll of a completion queue yields the CPU.
//
// A consumer of events sleeps when it has found the queue empty. Then each completion raises an
// event and wakes it up, which preempts the peer if that runs on this CPU: a context switch for
// each message. So the first empty poll after a completion yields instead, as long as that pays. A
// peer with more to send makes many completions meanwhile, without an event. Completions that
// follow a yield count as credit. A yield without any costs credit. Without credit (an idle CPU, a
// peer that waits for an answer, a CPU that computes) yields become rare.
//
// A consumer that never sleeps yields after kPolls empty polls: with few CPUs the peer may need
// this one, and the poller would run until its time slice ends. On a CPU of its own that is a
// system call in vain, each time. So the poller looks at its involuntary context switches, which a
// yield to another thread counts as: while they are fewer than half of the yields, the empty polls
// between two yields double, up to kMostPolls. They are counted whatever is found in between: a
// thread that came to this CPU later is noticed, however soon it answers. They are kPolls in a row
// again as soon as that happens.
//
// Several threads may poll one queue: a count that is lost then does not matter.
class PollBackoff {
 public:
  // A poll found completions.
  void found() {
    if (get(empty_) != 0) set(empty_, 0);
  }

  // The consumer asks for an event: it sleeps.
  void armed() {
    if (get(sleeps_) == 0) set(sleeps_, 1);
  }

  // A poll found nothing. True if this has yielded for a consumer of events: then the caller polls
  // again, and reports by yielded() how many completions there were.
  bool foundNothing() {
    const uint32_t empty = get(empty_) + 1;
    set(empty_, empty);
    if (empty == 1 && get(sleeps_) != 0) return yieldIfItPays();
    // Who sleeps asks for an event before it has polled so often.
    if (empty == kPolls) set(sleeps_, 0);
    if (isYieldDue(empty)) yieldAsPoller();
    return false;
  }

  void yielded(uint32_t completions) {
    const bool late = get(late_) != 0;
    const uint32_t credit = get(credit_);
    if (completions >= (late ? kMany : kSeveral)) {
      set(credit_, std::min(credit + completions, kMostCredit));
      set(skipped_, 0);
    } else if (!late && credit >= kCost) {
      set(credit_, credit - kCost);
    } else {
      const uint32_t skipped = std::min(2 * get(skipped_) + 1, kMostSkipped);
      set(skipped_, skipped);
      set(skip_, skipped);
      set(yields_, 0);  // The next is timed.
    }
  }

 private:
  using Count = std::atomic<uint32_t>;

  static constexpr uint32_t kPolls = 32;
  // A quarter of a millisecond of polls: what another thread waits if it comes to this CPU later.
  static constexpr uint32_t kMostPolls = 16384;
  // After so many yields with kPolls in between the kernel is asked what came of them, as that is
  // another system call. A rarer yield is judged by itself.
  static constexpr uint32_t kJudged = 16;
  // One yield of so many is timed: where the clock is a system call it costs another.
  static constexpr uint32_t kTimed = 16;
  // A thread that computes keeps the CPU for a time slice of the scheduler, which is longer. But
  // so does a peer that has many messages to send.
  static constexpr int64_t kLateNs = 700'000;
  static constexpr uint32_t kMany = 8;
  // An event would have brought one completion at the same cost.
  static constexpr uint32_t kSeveral = 2;
  // The cost of a yield without completions, in completions.
  static constexpr uint32_t kCost = 4;
  static constexpr uint32_t kMostCredit = 1024;
  // Without credit at least one opportunity of so many is used.
  static constexpr uint32_t kMostSkipped = 1023;

  static uint32_t get(const Count& count) { return count.load(std::memory_order_relaxed); }
  static void set(Count& count, uint32_t value) { count.store(value, std::memory_order_relaxed); }

  static int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  // Whether a poller yields, after so many empty polls in a row.
  bool isYieldDue(uint32_t empty) {
    const uint32_t polls = get(polls_);
    if (polls == kPolls) return empty % kPolls == 0;
    const uint32_t since = get(since_) + 1;
    set(since_, since);
    return since >= polls;
  }

  // Whether this thread was switched away from, since the last call, at least half as often as it
  // has yielded. Where several threads poll a queue, each takes the other's count for its own; the
  // next look corrects that.
  bool othersRan(uint32_t yields) {
    rusage usage{};
    if (getrusage(RUSAGE_THREAD, &usage) != 0) return true;
    const auto switches = static_cast<uint32_t>(usage.ru_nivcsw);
    const uint32_t since = switches - get(switches_);
    set(switches_, switches);
    return since >= (yields + 1) / 2;
  }

  void yieldAsPoller() {
    sched_yield();
    const uint32_t polls = get(polls_);
    const uint32_t yields = get(polled_yields_) + 1;
    if (polls == kPolls && yields < kJudged) {
      set(polled_yields_, yields);
      return;
    }
    set(polls_, othersRan(yields) ? kPolls : std::min(2 * polls, kMostPolls));
    set(since_, 0);
    set(polled_yields_, 0);
  }

  bool yieldIfItPays() {
    const uint32_t skip = get(skip_);
    if (skip != 0) {
      set(skip_, skip - 1);
      return false;
    }
    const uint32_t yields = get(yields_);
    set(yields_, yields + 1);
    if (yields % kTimed != 0) {
      sched_yield();
      return true;
    }
    const int64_t begun = now();
    sched_yield();
    set(late_, now() - begun > kLateNs ? 1 : 0);
    return true;
  }

  Count empty_{0};          // polls that found nothing, since one that found something
  Count polls_{kPolls};     // empty ones between two yields of a poller
  Count since_{0};          // if that is more than kPolls: since the last one
  Count polled_yields_{0};  // since the last othersRan()
  Count switches_{0};       // the kernel's count then
  Count sleeps_{0};         // whether the consumer asks for events
  Count skip_{0};           // opportunities to skip before the next yield
  Count skipped_{0};        // how many were skipped before the last one
  Count credit_{0};
  Count yields_{0};
  Count late_{0};  // whether the last timed one took long
};

}  // namespace kiwarp
