// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "cq.h"

#include <cerrno>
#include <memory>
#include <new>

#include "pabi/functions.h"
#include "translate.h"

namespace kiwarp {
namespace {

using CreateCqResponse = pabi::Response<ib_uverbs_create_cq_resp, kiwarp_create_cq_resp>;

// Returns 0 or a positive errno.
int mapRing(CompletionQueue* cq, int fd, const kiwarp_create_cq_resp& created) {
  if (int error = cq->mapping.map(fd, created.ring_key, created.ring_size); error != 0) {
    return error;
  }
  return cq->ring.attach(cq->mapping.base(), cq->mapping.size(), created.entries) ? 0 : EPROTO;
}

}  // namespace

ibv_cq* createCq(ibv_context* context, int entries, ibv_comp_channel* channel,
                 int completion_vector) {
  std::unique_ptr<CompletionQueue> cq(new (std::nothrow) CompletionQueue);
  if (!cq) {
    errno = ENOMEM;
    return nullptr;
  }
  ibv_cq* base = &cq->cq;
  pabi::Request<ib_uverbs_create_cq> request;
  CreateCqResponse response;
  int error = ibv_cmd_create_cq(context, entries, channel, completion_vector, base, &request,
                                sizeof(request), response.core(), sizeof(response));
  if (error == 0) {
    error = mapRing(cq.get(), context->cmd_fd, response.driver);
    if (error != 0) ibv_cmd_destroy_cq(base);
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  base->cqe = static_cast<int>(response.driver.entries);
  return &cq.release()->cq;
}

int destroyCq(ibv_cq* cq) {
  if (int error = ibv_cmd_destroy_cq(cq); error != 0) return error;
  delete CompletionQueue::of(cq);
  return 0;
}

int pollCq(ibv_cq* cq, int limit, ibv_wc* wc) {
  if (limit < 0) return -1;
  CompletionQueue* queue = CompletionQueue::of(cq);
  const auto poll = [=] {
    return queue->ring.poll(
        static_cast<uint32_t>(limit),
        [wc](uint32_t index, const kiwarp_cqe& cqe) { fillWc(&wc[index], cqe); });
  };
  uint32_t count = poll();
  if (count == 0 && queue->poll_backoff.foundNothing()) {
    queue->poll_backoff.yielded(queue->ring.waiting());
    count = poll();
  }
  if (count != 0) queue->poll_backoff.found();
  return static_cast<int>(count);
}

int reqNotifyCq(ibv_cq* cq, int solicited_only) {
  CompletionQueue* queue = CompletionQueue::of(cq);
  queue->poll_backoff.armed();
  queue->ring.arm(solicited_only != 0);
  return 0;
}

}  // namespace kiwarp
