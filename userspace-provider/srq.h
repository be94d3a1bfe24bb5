// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include "mapping.h"
#include "pabi/layout.h"
#include "queues.h"

namespace kiwarp {

// Lives from createSrq() to destroySrq(). Completions don't refer to it.
struct SharedReceiveQueue : pabi::Srq {
  SharedReceiveQueue() : pabi::Srq() {}

  Mapping mapping;
  SharedQueue queue;

  static SharedReceiveQueue* of(ibv_srq* srq) {
    return static_cast<SharedReceiveQueue*>(reinterpret_cast<pabi::Srq*>(srq));
  }
};

// Pointers are null with errno set on failure; numbers are 0 or a positive errno.
ibv_srq* createSrq(ibv_pd* pd, ibv_srq_init_attr* attr);
int modifySrq(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask);
int querySrq(ibv_srq* srq, ibv_srq_attr* attr);
int destroySrq(ibv_srq* srq);
int getSrqNum(ibv_srq* srq, uint32_t* number);
int postSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

}  // namespace kiwarp
