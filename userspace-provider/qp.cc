// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "qp.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>

#include "context.h"
#include "cq.h"
#include "domain.h"
#include "memory.h"
#include "pabi/functions.h"

namespace kiwarp {
namespace {

using CreateQpResponse = pabi::Response<ib_uverbs_create_qp_resp, kiwarp_create_qp_resp>;

size_t minSendStride(const QueueLimits& limits) {
  return sizeof(kiwarp_sqe) +
         std::max(limits.max_send_sge * sizeof(kiwarp_sge), static_cast<size_t>(limits.max_inline));
}

size_t minReceiveStride(const QueueLimits& limits) {
  return sizeof(kiwarp_rqe) + limits.max_receive_sge * sizeof(kiwarp_sge);
}

// Both rings are in one mapping, the send ring first. One that was granted no entries stays as it
// is, without a ring: nothing can be posted to it. Returns 0 or a positive errno.
int mapRings(QueuePair* qp, int fd, const ibv_qp_cap& granted,
             const kiwarp_create_qp_resp& created) {
  Mapping& mapping = qp->mapping;
  if (int error = mapping.map(fd, created.ring_key, created.ring_size); error != 0) return error;
  const uint64_t border = created.rq_offset;
  if (border % KIWARP_RING_ALIGN != 0 || border > mapping.size()) return EPROTO;
  auto* base = static_cast<std::byte*>(mapping.base());
  const bool send_fits = granted.max_send_wr == 0 ||
                         qp->send.ring.attach(base, border, created.sq_entries, created.sq_stride,
                                              minSendStride(qp->send.limits));
  const bool receive_fits =
      granted.max_recv_wr == 0 ||
      qp->receive.ring.attach(base + border, mapping.size() - border, created.rq_entries,
                              created.rq_stride, minReceiveStride(qp->receive.limits));
  return send_fits && receive_fits ? 0 : EPROTO;
}

void leaveCqs(QueuePair* qp) {
  ibv_qp& base = qp->qp;
  CompletionRing& send = CompletionQueue::of(base.send_cq)->ring;
  CompletionRing& receive = CompletionQueue::of(base.recv_cq)->ring;
  if (&send == &receive) {
    send.removeQueue(base.qp_num, {&qp->send.ring, &qp->receive.ring});
    return;
  }
  send.removeQueue(base.qp_num, {&qp->send.ring, nullptr});
  receive.removeQueue(base.qp_num, {nullptr, &qp->receive.ring});
}

// What is discarded has to be in the rings that are mapped. Returns 0 or a positive errno.
int catchUpCqs(const ibv_qp& qp) {
  const int error = CompletionQueue::of(qp.send_cq)->catchUp();
  return error != 0 ? error : CompletionQueue::of(qp.recv_cq)->catchUp();
}

// Returns 0 or a positive errno, with nothing left behind.
int joinCqs(QueuePair* qp) {
  ibv_qp& base = qp->qp;
  if (int error = catchUpCqs(base); error != 0) return error;
  CompletionRing& send = CompletionQueue::of(base.send_cq)->ring;
  CompletionRing& receive = CompletionQueue::of(base.recv_cq)->ring;
  bool joined = false;
  if (&send == &receive) {
    joined = send.addQueue(base.qp_num, {&qp->send.ring, &qp->receive.ring});
  } else {
    joined = send.addQueue(base.qp_num, {&qp->send.ring, nullptr}) &&
             receive.addQueue(base.qp_num, {nullptr, &qp->receive.ring});
  }
  if (!joined) leaveCqs(qp);
  return joined ? 0 : ENOMEM;
}

// Creation after the kernel's part; base is valid. Returns 0 or a positive errno.
int setUp(QueuePair* qp, const ibv_qp_init_attr_ex& attr, const kiwarp_create_qp_resp& created) {
  ibv_qp* base = &qp->qp;
  qp->send.limits = {.max_send_sge = attr.cap.max_send_sge,
                     .max_inline = created.max_inline,
                     .signal_all = attr.sq_sig_all != 0,
                     .caps = Context::of(base->context)->caps};
  qp->receive.limits = {.max_receive_sge = attr.cap.max_recv_sge};
  if (attr.srq != nullptr) qp->receive.without_entries = EINVAL;
  qp->send.doorbell = Doorbell(base, Doorbell::Kind::kSend);
  qp->receive.doorbell = Doorbell(base, Doorbell::Kind::kReceive);
  if (int error = mapRings(qp, base->context->cmd_fd, attr.cap, created); error != 0) return error;
  return joinCqs(qp);
}

// The rings hold what was asked for, rounded up; all of it can be used.
void reportCapacity(QueuePair* qp, ibv_qp_cap* cap) {
  cap->max_send_wr = qp->send.ring.capacity();
  cap->max_recv_wr = qp->receive.ring.capacity();
  cap->max_inline_data = qp->send.limits.max_inline;
}

// The lock of a completion queue is never taken inside a queue's: an application may post while it
// holds the former, between ibv_start_poll() and ibv_end_poll().
template <typename Queue>
void emptyQueue(Queue* queue, ibv_cq* cq, uint32_t number) {
  CompletionQueue::of(cq)->ring.discard(number);
  std::lock_guard guard(queue->lock);
  if (queue->ring.capacity() > 0) queue->ring.reset();
}

// The transition to RESET drops all work requests without completions. The kernel writes no more of
// them, and in RESET nothing is posted.
void emptyQueues(QueuePair* qp) {
  emptyQueue(&qp->send, qp->qp.send_cq, qp->qp.qp_num);
  emptyQueue(&qp->receive, qp->qp.recv_cq, qp->qp.qp_num);
}

// Returns 0 or a positive errno.
int create(QueuePair* qp, ibv_context* context, ibv_qp_init_attr_ex* attr) {
  pabi::Request<ib_uverbs_create_qp> request;
  CreateQpResponse response;
  // libibverbs knows no flags here, not even the lack of them.
  const uint32_t comp_mask = attr->comp_mask;
  attr->comp_mask &= ~static_cast<uint32_t>(IBV_QP_INIT_ATTR_CREATE_FLAGS);
  int error = ibv_cmd_create_qp_ex(context, qp, attr, &request, sizeof(request), response.core(),
                                   sizeof(response));
  attr->comp_mask = comp_mask;
  if (error != 0) return error;
  error = setUp(qp, *attr, response.driver);
  if (error != 0) {
    ibv_cmd_destroy_qp(&qp->qp);
    return error;
  }
  reportCapacity(qp, &attr->cap);
  return 0;
}

// Returns 0 or a positive errno.
int refusal(const ibv_qp_init_attr_ex& attr) {
  // The kernel refuses other types, too. But these may lack a domain or a queue that the rest have,
  // for which it would be EINVAL.
  if (attr.qp_type == IBV_QPT_XRC_SEND || attr.qp_type == IBV_QPT_XRC_RECV) return EOPNOTSUPP;
  constexpr uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attr.comp_mask & ~kKnown) != 0) return EOPNOTSUPP;
  // There are none; to ask for none is no error.
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr.create_flags != 0) {
    return EOPNOTSUPP;
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr ||
      attr.send_cq == nullptr || attr.recv_cq == nullptr) {
    return EINVAL;
  }
  return 0;
}

}  // namespace

ibv_qp* createQpEx(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  const bool has_ops = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  int error = refusal(*attr);
  if (error == 0 && has_ops && !knowsSendOps(attr->send_ops_flags, Context::of(context)->caps)) {
    error = EOPNOTSUPP;
  }
  std::unique_ptr<QueuePair> qp;
  if (error == 0) {
    qp.reset(new (std::nothrow) QueuePair);
    error = qp ? create(qp.get(), context, attr) : ENOMEM;
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  if (has_ops) enableSendOps(qp.get(), attr->send_ops_flags);
  return &qp.release()->qp;
}

ibv_qp* createQp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended = {};
  extended.qp_context = attr->qp_context;
  extended.send_cq = attr->send_cq;
  extended.recv_cq = attr->recv_cq;
  extended.srq = attr->srq;
  extended.cap = attr->cap;
  extended.qp_type = attr->qp_type;
  extended.sq_sig_all = attr->sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_qp* qp = createQpEx(pd->context, &extended);
  if (qp != nullptr) attr->cap = extended.cap;
  return qp;
}

int modifyQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) {
  const bool is_reset = (attr_mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RESET;
  if (is_reset) {
    if (int error = catchUpCqs(*qp); error != 0) return error;
  }
  pabi::Request<ib_uverbs_modify_qp> request;
  int error = ibv_cmd_modify_qp(qp, attr, attr_mask, &request, sizeof(request));
  if (error == 0 && is_reset) emptyQueues(QueuePair::of(qp));
  return error;
}

int queryQp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr) {
  pabi::Request<ib_uverbs_query_qp> request;
  int error = ibv_cmd_query_qp(qp, attr, attr_mask, init_attr, &request, sizeof(request));
  if (error != 0) return error;
  reportCapacity(QueuePair::of(qp), &attr->cap);
  reportCapacity(QueuePair::of(qp), &init_attr->cap);
  return 0;
}

// The kernel first: if it refuses, the queue pair stays as it is. Once it agreed it writes no more
// completions; those that wait are skipped from here on.
int destroyQp(ibv_qp* qp) {
  if (int error = ibv_cmd_destroy_qp(qp); error != 0) return error;
  QueuePair* pair = QueuePair::of(qp);
  leaveCqs(pair);
  delete pair;
  return 0;
}

int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  return QueuePair::of(qp)->send.post(wr, bad_wr);
}

int postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return QueuePair::of(qp)->receive.post(wr, bad_wr);
}

// Each binding of a window of type 1 has another key, so that peers of the one before find nothing.
// That holds for threads that bind one window at a time, too: which of their bindings comes last
// they do not know, but they have two keys.
int bindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* mw_bind) {
  if (!samePd(qp->pd, mw->pd)) return EPERM;
  ibv_send_wr wr = {};
  wr.wr_id = mw_bind->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = mw_bind->send_flags;
  Window* window = Window::of(mw);
  const uint32_t key = window->takeKey();
  wr.bind_mw = {.mw = mw, .rkey = key, .bind_info = mw_bind->bind_info};
  ibv_send_wr* bad_wr = nullptr;
  const int error = postSend(qp, &wr, &bad_wr);
  if (error == 0) {
    std::atomic_ref(mw->rkey).store(key, std::memory_order_relaxed);
  } else {
    window->giveKeyBack(key);
  }
  return error;
}

}  // namespace kiwarp
