// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "cq.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

#include "pabi/functions.h"
#include "translate.h"

namespace kiwarp {
namespace {

using CreateCqResponse = pabi::Response<ib_uverbs_create_cq_resp, kiwarp_create_cq_resp>;
using ResizeCqResponse = pabi::Response<ib_uverbs_resize_cq_resp, kiwarp_create_cq_resp>;

// What the kernel will want to be mapped.
uint64_t ringBytes(const CompletionRing& ring, int entries) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t bytes = ring.bytesFor(std::bit_ceil(static_cast<uint32_t>(entries)));
  return (bytes + page - 1) / page * page;
}

}  // namespace

int CompletionQueue::map(const kiwarp_create_cq_resp& created) {
  if (int error = mapping.map(cq.context->cmd_fd, created.ring_key, created.ring_size);
      error != 0) {
    return error;
  }
  cq.cqe = static_cast<int>(created.entries);
  return ring.attach(mapping.base(), mapping.size(), created.entries) ? 0 : EPROTO;
}

int CompletionQueue::change(const kiwarp_create_cq_resp& resized, Mapping* mapping,
                            RingPlace* place) {
  unmapped = resized;
  const int error = mapping->map(cq.context->cmd_fd, resized.ring_key, resized.ring_size);
  is_behind.store(error != 0, std::memory_order_relaxed);
  if (error != 0) return error;
  *place = {mapping->base(), mapping->size(), resized.entries};
  std::swap(this->mapping, *mapping);
  cq.cqe = static_cast<int>(resized.entries);
  return 0;
}

int CompletionQueue::catchUp() {
  if (!is_behind.load(std::memory_order_relaxed)) return 0;
  Mapping mapping;
  const int error = ring.resize([&](RingPlace* place) {
    // Another thread may have done it.
    if (!is_behind.load(std::memory_order_relaxed)) return EALREADY;
    return change(unmapped, &mapping, place);
  });
  return error == EALREADY ? 0 : error;
}

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
    error = cq->map(response.driver);
    if (error != 0) ibv_cmd_destroy_cq(base);
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  return &cq.release()->cq;
}

// The lock is held over the system call, so that no thread arms a ring that is no longer used. What
// may fail in this process is done before the kernel has the new ring; if mapping it fails all the
// same, the next poll tries again.
int resizeCq(ibv_cq* cq, int entries) {
  if (entries < 1 || entries > KIWARP_MAX_CQE) return EINVAL;
  CompletionQueue* queue = CompletionQueue::of(cq);
  if (int error = queue->catchUp(); error != 0) return error;
  Mapping mapping;
  if (int error = mapping.reserve(ringBytes(queue->ring, entries)); error != 0) return error;
  return queue->ring.resize([&](RingPlace* place) {
    pabi::Request<ib_uverbs_resize_cq> request;
    ResizeCqResponse response;
    if (int error = ibv_cmd_resize_cq(cq, entries, &request, sizeof(request), response.core(),
                                      sizeof(response));
        error != 0) {
      return error;
    }
    return queue->change(response.driver, &mapping, place);
  });
}

int modifyCq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  pabi::ExRequest<ib_uverbs_ex_modify_cq> request;
  return ibv_cmd_modify_cq(cq, attr, &request, sizeof(request));
}

int destroyCq(ibv_cq* cq) {
  if (int error = ibv_cmd_destroy_cq(cq); error != 0) return error;
  delete CompletionQueue::of(cq);
  return 0;
}

int pollCq(ibv_cq* cq, int limit, ibv_wc* wc) {
  if (limit < 0) return -1;
  CompletionQueue* queue = CompletionQueue::of(cq);
  return static_cast<int>(queue->pollWithBackoff([=] {
    return queue->ring.poll(
        static_cast<uint32_t>(limit),
        [wc](uint32_t index, const kiwarp_cqe& cqe) { fillWc(&wc[index], cqe); });
  }));
}

int reqNotifyCq(ibv_cq* cq, int solicited_only) {
  CompletionQueue* queue = CompletionQueue::of(cq);
  queue->poll_backoff.armed();
  queue->ring.arm(solicited_only != 0);
  // Nothing raises an event before a poll has mapped the ring: who sleeps now sleeps for ever.
  return queue->is_behind.load(std::memory_order_relaxed) ? ENOMEM : 0;
}

}  // namespace kiwarp
