// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "srq.h"

#include <cerrno>
#include <memory>
#include <mutex>
#include <new>

#include "pabi/functions.h"

namespace kiwarp {
namespace {

using CreateSrqResponse = pabi::Response<ib_uverbs_create_srq_resp, kiwarp_create_srq_resp>;
using ModifySrqRequest = pabi::DriverRequest<ib_uverbs_modify_srq, kiwarp_modify_srq_req>;

size_t minStride(const QueueLimits& limits) {
  return sizeof(kiwarp_rqe) + limits.max_receive_sge * sizeof(kiwarp_sge);
}

// Returns 0 or a positive errno; then the queue has no ring.
int mapRing(SharedReceiveQueue* srq, int fd, const kiwarp_create_srq_resp& created) {
  SharedQueue& queue = srq->queue;
  queue.ring.detach();
  if (int error = srq->mapping.map(fd, created.ring_key, created.ring_size); error != 0) {
    return error;
  }
  return queue.ring.attach(srq->mapping.base(), srq->mapping.size(), created.entries,
                           created.stride, minStride(queue.limits))
             ? 0
             : EPROTO;
}

// The kernel moves what is posted to another ring. Nobody may post meanwhile: the caller has the
// lock. Returns 0 or a positive errno.
int resize(SharedReceiveQueue* srq, ibv_srq_attr* attr, int attr_mask) {
  kiwarp_create_srq_resp moved = {};
  ModifySrqRequest request;
  request.driver.response = reinterpret_cast<uintptr_t>(&moved);
  if (int error = ibv_cmd_modify_srq(&srq->srq, attr, attr_mask, &request.core, sizeof(request));
      error != 0) {
    return error;
  }
  return mapRing(srq, srq->srq.context->cmd_fd, moved);
}

}  // namespace

ibv_srq* createSrq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  std::unique_ptr<SharedReceiveQueue> srq(new (std::nothrow) SharedReceiveQueue);
  if (!srq) {
    errno = ENOMEM;
    return nullptr;
  }
  ibv_srq* base = &srq->srq;
  pabi::Request<ib_uverbs_create_srq> request;
  CreateSrqResponse response;
  int error = ibv_cmd_create_srq(pd, base, attr, &request, sizeof(request), response.core(),
                                 sizeof(response));
  if (error == 0) {
    srq->srq_num = response.driver.srq_id;
    srq->queue.limits = {.max_receive_sge = attr->attr.max_sge};
    error = mapRing(srq.get(), pd->context->cmd_fd, response.driver);
    if (error != 0) ibv_cmd_destroy_srq(base);
  }
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  return &srq.release()->srq;
}

int modifySrq(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask) {
  if ((attr_mask & IBV_SRQ_MAX_WR) != 0) {
    SharedReceiveQueue* shared = SharedReceiveQueue::of(srq);
    std::lock_guard guard(shared->queue.lock);
    return resize(shared, attr, attr_mask);
  }
  pabi::Request<ib_uverbs_modify_srq> request;
  return ibv_cmd_modify_srq(srq, attr, attr_mask, &request, sizeof(request));
}

int querySrq(ibv_srq* srq, ibv_srq_attr* attr) {
  pabi::Request<ib_uverbs_query_srq> request;
  return ibv_cmd_query_srq(srq, attr, &request, sizeof(request));
}

int destroySrq(ibv_srq* srq) {
  if (int error = ibv_cmd_destroy_srq(srq); error != 0) return error;
  delete SharedReceiveQueue::of(srq);
  return 0;
}

int getSrqNum(ibv_srq* srq, uint32_t* number) {
  *number = SharedReceiveQueue::of(srq)->srq_num;
  return 0;
}

int postSrqRecv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  return SharedReceiveQueue::of(srq)->queue.post(wr, bad_wr);
}

}  // namespace kiwarp
