// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <rdma/kiwarp-abi.h>

#include <atomic>
#include <cstdint>

#include "mapping.h"
#include "pabi/layout.h"
#include "rings/completion_ring.h"
#include "rings/poll_backoff.h"

namespace kiwarp {

struct CompletionQueue : pabi::Cq {
  CompletionQueue() : pabi::Cq() {}

  Mapping mapping;
  CompletionRing ring;
  PollBackoff poll_backoff;
  // The kernel's ring, if it could not be mapped when the queue was resized: no completion comes to
  // the old one any more.
  std::atomic<bool> is_behind{false};
  kiwarp_create_cq_resp unmapped{};

  static CompletionQueue* of(ibv_cq* cq) {
    return static_cast<CompletionQueue*>(reinterpret_cast<pabi::Cq*>(cq));
  }
  static CompletionQueue* of(ibv_cq_ex* cq) { return of(ibv_cq_ex_to_cq(cq)); }

  // Polls: poll() returns how many completions it found. Yields where that pays.
  template <typename Poll>
  uint32_t pollWithBackoff(Poll poll) {
    // Until that works what is in the old ring can be polled. ibv_resize_cq() has said why not.
    if (is_behind.load(std::memory_order_relaxed)) static_cast<void>(catchUp());
    uint32_t count = poll();
    if (count == 0 && poll_backoff.foundNothing()) {
      poll_backoff.yielded(ring.waiting());
      count = poll();
    }
    if (count != 0) poll_backoff.found();
    return count;
  }

  // Maps the ring that the kernel has made. Returns 0 or a positive errno.
  int map(const kiwarp_create_cq_resp& created);

  // The same for that of a queue that was resized, with the ring's locks; what was mapped before
  // goes to *mapping. After an error it is behind.
  int change(const kiwarp_create_cq_resp& resized, Mapping* mapping, RingPlace* place);

  // Maps the kernel's ring if it is behind. Returns 0 or a positive errno.
  int catchUp();
};

// Pointers are null with errno set on failure; numbers are 0 or a positive errno, but for
// pollCq(), which returns how many completions it stored or -1.
ibv_cq_ex* createCqEx(ibv_context* context, ibv_cq_init_attr_ex* attr);
ibv_cq* createCq(ibv_context* context, int entries, ibv_comp_channel* channel,
                 int completion_vector);
int resizeCq(ibv_cq* cq, int entries);
int modifyCq(ibv_cq* cq, ibv_modify_cq_attr* attr);
int destroyCq(ibv_cq* cq);
int pollCq(ibv_cq* cq, int limit, ibv_wc* wc);
int reqNotifyCq(ibv_cq* cq, int solicited_only);
int queryRtValues(ibv_context* context, ibv_values_ex* values);

}  // namespace kiwarp
