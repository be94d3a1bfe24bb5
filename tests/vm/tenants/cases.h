// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kiwarp::vm {

// Facts, each a case that may throw Failure.
class Tap {
 public:
  void run(const std::string& name, const std::function<void()>& test);
  // Prints the plan; the exit code.
  int finish() const;

 private:
  unsigned number_ = 0, failed_ = 0;
};

struct ContextDeleter {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
};
using Context = std::unique_ptr<ibv_context, ContextDeleter>;

// Throws Failure if there is no such device.
Context openDevice(const std::string& name);

void eventCases(const std::string& device, Tap* tap);
void ringCases(const std::string& device, Tap* tap);
void hugeRingCase(const std::string& device, Tap* tap);
// For ever, or until nothing has come for long.
void slowConsumer(const std::string& host);
void asyncCases(const std::string& host, Tap* tap);
// With a bound, in microseconds, on how long a real-time thread waits, or 0.
void doorbellCases(const std::string& host, uint64_t bound_us, Tap* tap);
void largeWritesCase(const std::string& host, uint64_t bound_us, Tap* tap);
void plainTcpCase(const std::string& host, Tap* tap);

}  // namespace kiwarp::vm
