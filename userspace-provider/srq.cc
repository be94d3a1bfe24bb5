// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "srq.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "pabi/functions.h"

namespace kiwarp {
namespace {

using CreateSrqResponse = pabi::Response<ib_uverbs_create_srq_resp, kiwarp_create_srq_resp>;
using ModifySrqRequest = pabi::DriverRequest<ib_uverbs_modify_srq, kiwarp_modify_srq_req>;

size_t minStride(const QueueLimits& limits) {
  return sizeof(kiwarp_rqe) + limits.max_receive_sge * sizeof(kiwarp_sge);
}

// Returns 0 or a positive errno; then the queue has no ring.
int useRing(SharedReceiveQueue* srq, Mapping mapping, const kiwarp_create_srq_resp& created) {
  SharedQueue& queue = srq->queue;
  queue.ring.detach();
  srq->mapping = std::move(mapping);
  return queue.ring.attach(srq->mapping.base(), srq->mapping.size(), created.entries,
                           created.stride, minStride(queue.limits))
             ? 0
             : EPROTO;
}

// The kernel moves what is posted to another ring. Nobody may post meanwhile: the caller has the
// lock. What may fail in this process is done before. Returns 0 or a positive errno.
int resize(SharedReceiveQueue* srq, ibv_srq_attr* attr, int attr_mask) {
  if (attr->max_wr == 0 || attr->max_wr > KIWARP_MAX_SRQ_WR) return EINVAL;
  const size_t page = sysconf(_SC_PAGESIZE);
  const size_t size =
      KIWARP_RING_ENTRIES_OFF + size_t{std::bit_ceil(attr->max_wr)} * srq->queue.ring.stride();
  Mapping mapping;
  if (int error = mapping.reserve((size + page - 1) / page * page); error != 0) return error;
  kiwarp_create_srq_resp moved = {};
  ModifySrqRequest request;
  request.driver.response = reinterpret_cast<uintptr_t>(&moved);
  int error = ibv_cmd_modify_srq(&srq->srq, attr, attr_mask, &request.core, sizeof(request));
  if (error != 0) return error;
  error = mapping.map(srq->srq.context->cmd_fd, moved.ring_key, moved.ring_size);
  if (error != 0) {
    srq->queue.ring.detach();
    return error;
  }
  return useRing(srq, std::move(mapping), moved);
}

// Returns 0 or a positive errno.
int mapRing(SharedReceiveQueue* srq, int fd, const kiwarp_create_srq_resp& created) {
  Mapping mapping;
  if (int error = mapping.map(fd, created.ring_key, created.ring_size); error != 0) return error;
  return useRing(srq, std::move(mapping), created);
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
