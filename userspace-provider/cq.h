// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

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

  static CompletionQueue* of(ibv_cq* cq) {
    return static_cast<CompletionQueue*>(reinterpret_cast<pabi::Cq*>(cq));
  }
};

// Pointers are null with errno set on failure; numbers are 0 or a positive errno, but for
// pollCq(), which returns how many completions it stored or -1.
ibv_cq* createCq(ibv_context* context, int entries, ibv_comp_channel* channel,
                 int completion_vector);
int resizeCq(ibv_cq* cq, int entries);
int modifyCq(ibv_cq* cq, ibv_modify_cq_attr* attr);
int destroyCq(ibv_cq* cq);
int pollCq(ibv_cq* cq, int limit, ibv_wc* wc);
int reqNotifyCq(ibv_cq* cq, int solicited_only);

}  // namespace kiwarp
