// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/async_events.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

const void* elementOf(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq;
    default:
      return nullptr;
  }
}

}  // namespace

std::string describe(const AsyncEvent& event) { return ibv_event_type_str(event.type); }

AsyncEvents::AsyncEvents(ibv_context* context) : context_(context) {
  const int flags = fcntl(context->async_fd, F_GETFL);
  checkErrno(fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK), "fcntl of the async fd");
}

std::optional<AsyncEvent> AsyncEvents::tryNext() {
  ibv_async_event event{};
  if (ibv_get_async_event(context_, &event)) return std::nullopt;
  AsyncEvent result{event.event_type, elementOf(event)};
  ibv_ack_async_event(&event);
  return result;
}

std::optional<AsyncEvent> AsyncEvents::waitFor(const void* element, const Deadline& deadline) {
  auto matches = [element](const AsyncEvent& event) { return event.element == element; };
  for (;;) {
    while (auto event = tryNext()) kept_.push_back(*event);
    auto found = std::find_if(kept_.begin(), kept_.end(), matches);
    if (found != kept_.end()) {
      AsyncEvent result = *found;
      kept_.erase(found);
      return result;
    }
    if (deadline.passed()) return std::nullopt;
    pollfd poller{fd(), POLLIN, 0};
    poll(&poller, 1, deadline.pollTimeout());
  }
}

void AsyncEvents::drop(const void* element) {
  while (auto event = tryNext()) kept_.push_back(*event);
  std::erase_if(kept_, [element](const AsyncEvent& event) { return event.element == element; });
}

std::vector<AsyncEvent> AsyncEvents::drain() {
  while (auto event = tryNext()) kept_.push_back(*event);
  return std::exchange(kept_, {});
}

}  // namespace kiwarp::vm
