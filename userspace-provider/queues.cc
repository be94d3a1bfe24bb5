// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "queues.h"

#include <cerrno>

namespace kiwarp {
namespace {

// The progress of a call: the first request that isn't posted (null if all are), and why.
template <typename Wr>
struct Progress {
  Wr* bad = nullptr;
  int error = 0;
};

// Fills entries until the list or the ring ends; nothing is published yet.
template <typename Entry, typename Wr, typename Fill>
Progress<Wr> pushList(WorkRing& ring, Wr* wr, Fill fill) {
  for (; wr != nullptr; wr = wr->next) {
    std::byte* entry = ring.next();
    if (entry == nullptr) return {wr, ENOMEM};
    if (int error = fill(reinterpret_cast<Entry*>(entry), *wr); error != 0) return {wr, error};
    ring.push();
  }
  return {};
}

template <typename Wr>
int report(const Progress<Wr>& progress, Wr** bad_wr) {
  if (progress.error != 0) *bad_wr = progress.bad;
  return progress.error;
}

}  // namespace

int SendQueue::refusal() {
  if (ring.capacity() == 0) return ENOMEM;
  // From CLOSING on, requests are accepted and complete as flushed.
  const kiwarp_qp_state state = ring.state();
  if (state == KIWARP_QPS_RESET || state == KIWARP_QPS_INIT) return EINVAL;
  return doorbell.settle();
}

int SendQueue::submit() {
  const uint32_t count = ring.unpublished();
  if (count == 0) return 0;
  ring.publish();
  return doorbell.ring(ring, count);
}

int SendQueue::post(ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  std::lock_guard guard(lock);
  if (int error = refusal(); error != 0) return report(Progress<ibv_send_wr>{wr, error}, bad_wr);

  auto progress = pushList<kiwarp_sqe>(ring, wr, [this](kiwarp_sqe* sqe, const ibv_send_wr& from) {
    return fillSqe(sqe, from, limits);
  });
  if (int error = submit(); error != 0) progress = {wr, error};
  return report(progress, bad_wr);
}

void SendQueue::start() {
  lock.lock();
  current_ = nullptr;
  error_ = refusal();
}

int SendQueue::complete() {
  int error = error_;
  if (error == 0) {
    error = submit();
  } else {
    ring.drop();
  }
  lock.unlock();
  return error;
}

void SendQueue::abort() {
  ring.drop();
  lock.unlock();
}

int ReceiveQueue::post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  std::lock_guard guard(lock);
  if (ring.capacity() == 0) return report(Progress<ibv_recv_wr>{wr, without_entries}, bad_wr);
  if (ring.state() == KIWARP_QPS_RESET) {
    return report(Progress<ibv_recv_wr>{wr, EINVAL}, bad_wr);
  }
  if (int error = doorbell.settle(); error != 0) {
    return report(Progress<ibv_recv_wr>{wr, error}, bad_wr);
  }

  auto progress = pushList<kiwarp_rqe>(ring, wr, [this](kiwarp_rqe* rqe, const ibv_recv_wr& from) {
    return fillRqe(rqe, from, limits);
  });
  uint32_t count = ring.unpublished();
  if (count > 0) {
    ring.publish();
    if (ring.stateAfterPublish() == KIWARP_QPS_ERROR) {
      if (int error = doorbell.ring(ring, count); error != 0) progress = {wr, error};
    }
  }
  return report(progress, bad_wr);
}

// The kernel frees entries when it takes them. That is looked up only when the ring seems full:
// the index is in a cache line that the kernel writes to.
int SharedQueue::post(ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  std::lock_guard guard(lock);
  if (ring.capacity() == 0) return report(Progress<ibv_recv_wr>{wr, ENOMEM}, bad_wr);
  const auto fill = [this](kiwarp_rqe* rqe, const ibv_recv_wr& from) {
    return fillRqe(rqe, from, limits);
  };
  auto progress = pushList<kiwarp_rqe>(ring, wr, fill);
  if (progress.error == ENOMEM) {
    ring.releaseTaken();
    progress = pushList<kiwarp_rqe>(ring, progress.bad, fill);
  }
  if (ring.unpublished() > 0) ring.publish();
  return report(progress, bad_wr);
}

}  // namespace kiwarp
