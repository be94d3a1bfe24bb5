// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <type_traits>

#include "mapping.h"
#include "pabi/layout.h"
#include "rings/completion_ring.h"

namespace kiwarp {

struct CompletionQueue {
  pabi::Cq base = {};
  Mapping mapping;
  CompletionRing ring;

  static CompletionQueue* of(ibv_cq* cq) { return reinterpret_cast<CompletionQueue*>(cq); }
};

static_assert(std::is_standard_layout_v<CompletionQueue>, "of() relies on base being at the start");

// Pointers are null with errno set on failure; numbers are 0 or a positive errno, but for
// pollCq(), which returns how many completions it stored or -1.
ibv_cq* createCq(ibv_context* context, int entries, ibv_comp_channel* channel,
                 int completion_vector);
int destroyCq(ibv_cq* cq);
int pollCq(ibv_cq* cq, int limit, ibv_wc* wc);
int reqNotifyCq(ibv_cq* cq, int solicited_only);

}  // namespace kiwarp
