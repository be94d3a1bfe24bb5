// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"

namespace kiwarp::vm {

struct AsyncEvent {
  ibv_event_type type;
  // The QP, CQ or SRQ concerned; null for events of the device or port.
  const void* element;
};

std::string describe(const AsyncEvent& event);

// Reads a context's asynchronous events without blocking and acknowledges each at once, since
// destroying a QP or CQ waits for that. Not thread-safe: one thread owns it.
class AsyncEvents {
 public:
  explicit AsyncEvents(ibv_context* context);

  int fd() const { return context_->async_fd; }
  // Empty when none is waiting.
  std::optional<AsyncEvent> tryNext();
  // The next event that concerns the element; others before it are kept for later callers.
  std::optional<AsyncEvent> waitFor(const void* element, const Deadline& deadline);
  std::vector<AsyncEvent> drain();
  // For an element that is about to be destroyed: another may get its address.
  void drop(const void* element);

 private:
  ibv_context* context_;
  std::vector<AsyncEvent> kept_;
};

}  // namespace kiwarp::vm
