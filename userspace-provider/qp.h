// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "mapping.h"
#include "pabi/layout.h"
#include "queues.h"

namespace kiwarp {

// Lives from createQp() to destroyQp(). Its completion queues find it by number and use its rings
// under their locks. The application keeps both completion queues until it has destroyed it.
struct QueuePair : pabi::Qp {
  QueuePair() : pabi::Qp() {}

  Mapping mapping;
  SendQueue send;
  ReceiveQueue receive;

  static QueuePair* of(ibv_qp* qp) {
    return static_cast<QueuePair*>(reinterpret_cast<pabi::Qp*>(qp));
  }
};

// Pointers are null with errno set on failure; numbers are 0 or a positive errno.
ibv_qp* createQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr);
ibv_qp* createQp(ibv_pd* pd, ibv_qp_init_attr* attr);
int modifyQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask);
int queryQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr);
int destroyQp(ibv_qp* qp);
int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);
int bindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* mw_bind);

// qp_ex.cc: flags of enum ibv_qp_create_send_ops_flags; caps are KIWARP_CAP_* of the module.
bool knowsSendOps(uint64_t flags, uint32_t caps);
void enableSendOps(QueuePair* pair, uint64_t flags);

}  // namespace kiwarp
