// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Shared receive queues.

#include "chaos/calls.h"

namespace kiwarp::vm {
namespace {

void useRing(const File& file, SharedQueue* srq, const kiwarp_create_srq_resp& made) {
  srq->ring = nullptr;
  srq->entries = made.entries;
  srq->stride = made.stride;
  srq->ring = mapRing(file, made.ring_key, made.ring_size);
}

}  // namespace

void createSrq(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_create_srq_resp, kiwarp_create_srq_resp> answer;
  ib_uverbs_create_srq body{};
  body.response = place(&answer, rng);
  body.pd_handle = likelyPd(*file, rng);
  body.max_wr = static_cast<uint32_t>(1 + rng.below(rng.percent(95) ? 64 : 70000));
  body.max_sge = static_cast<uint32_t>(rng.below(5));
  body.srq_limit = static_cast<uint32_t>(rng.below(8));
  if (process->tell(kCreateSrq,
                    command(*file, IB_USER_VERBS_CMD_CREATE_SRQ, body, sizeof(answer.bytes)))) {
    return;
  }
  SharedQueue& srq = anyOf(file->srqs, rng);
  srq.handle = answer.core().srq_handle;
  useRing(*file, &srq, answer.driver());
}

void destroySrq(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_destroy_srq_resp, Nothing> answer;
  ib_uverbs_destroy_srq body{};
  body.response = place(&answer, rng);
  SharedQueue& srq = likely(file->srqs, rng);
  body.srq_handle = doubtful(srq.handle, rng);
  const int error =
      command(*file, IB_USER_VERBS_CMD_DESTROY_SRQ, body, sizeof(ib_uverbs_destroy_srq_resp));
  forget(&srq, body.srq_handle, process->tell(kDestroySrq, error), rng);
}

// Another limit, or another ring, while others post to the old one.
void modifySrq(Process* process, File* file, Rng& rng) {
  kiwarp_create_srq_resp made{};
  SharedQueue& srq = likely(file->srqs, rng);
  ib_uverbs_modify_srq core{};
  core.srq_handle = doubtful(srq.handle, rng);
  core.attr_mask = static_cast<uint32_t>(rng.percent(90) ? 1 + rng.below(3) : rng.next());
  core.max_wr = static_cast<uint32_t>(rng.below(rng.percent(95) ? 200 : 70000));
  core.srq_limit = static_cast<uint32_t>(rng.below(64));
  const kiwarp_modify_srq_req driver{rng.below(100) ? reinterpret_cast<uintptr_t>(&made) : 0x10};
  std::array<uint8_t, sizeof(core) + sizeof(driver)> body;
  std::memcpy(body.data(), &core, sizeof(core));
  std::memcpy(body.data() + sizeof(core), &driver, sizeof(driver));
  const int error = command(*file, IB_USER_VERBS_CMD_MODIFY_SRQ, body, 0);
  if (!process->tell(kModifySrq, error) && made.entries) useRing(*file, &srq, made);
}

void querySrq(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_query_srq_resp, Nothing> answer;
  ib_uverbs_query_srq body{};
  body.response = place(&answer, rng);
  body.srq_handle = doubtful(likely(file->srqs, rng).handle, rng);
  process->tell(kQuerySrq, command(*file, IB_USER_VERBS_CMD_QUERY_SRQ, body,
                                   sizeof(ib_uverbs_query_srq_resp)));
}

void postSrq(Process* process, File* file, Rng& rng) {
  SharedQueue& srq = likely(file->srqs, rng);
  uint8_t* ring = srq.ring;
  const uint32_t stride = srq.stride, entries = srq.entries;
  if (!ring || stride < sizeof(kiwarp_rqe)) return;
  fillRecvs(file, ring, entries, stride, rng);
  process->tell(kPostSrq, 0);
}

}  // namespace kiwarp::vm
