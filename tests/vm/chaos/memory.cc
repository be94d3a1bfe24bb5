// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Memory regions and memory windows.

#include <sys/mman.h>

#include "chaos/calls.h"

namespace kiwarp::vm {
namespace {

constexpr uint32_t kLikelyAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                   IBV_ACCESS_MW_BIND;

}  // namespace

void expose(Process* process, uint64_t address, uint32_t length, uint32_t rkey, Rng& rng) {
  Exposed& exposed = process->shared->exposed[rng.below(kRegions)];
  exposed.address = address;
  exposed.length = length;
  exposed.rkey = rkey;
}

void regMr(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_reg_mr_resp, Nothing> answer;
  const uint64_t offset = rng.below(process->memory_size);
  const uint64_t length = 1 + rng.below(rng.percent(20) ? process->memory_size : 64 << 10);
  ib_uverbs_reg_mr body{};
  body.response = place(&answer, rng);
  body.start = reinterpret_cast<uintptr_t>(process->memory) + offset;
  body.length = rng.below(50) ? std::min<uint64_t>(length, process->memory_size - offset)
                              : rng.next() >> rng.below(60);
  body.hca_va = rng.percent(80) ? body.start : (rng.next() & ~(kPage - 1)) + offset % kPage;
  body.pd_handle = likelyPd(*file, rng);
  body.access_flags = rng.percent(80) ? kLikelyAccess : static_cast<uint32_t>(rng.below(64));
  if (process->tell(
          kRegMr, command(*file, IB_USER_VERBS_CMD_REG_MR, body, sizeof(ib_uverbs_reg_mr_resp)))) {
    return;
  }
  Region& region = anyOf(file->mrs, rng);
  region.handle = answer.core().mr_handle;
  region.lkey = answer.core().lkey;
  region.address = body.hca_va;
  region.length = static_cast<uint32_t>(body.length);
  expose(process, body.hca_va, static_cast<uint32_t>(body.length), answer.core().rkey, rng);
}

void deregMr(Process* process, File* file, Rng& rng) {
  Region& region = likely(file->mrs, rng);
  const ib_uverbs_dereg_mr body{doubtful(region.handle, rng)};
  const int error = command(*file, IB_USER_VERBS_CMD_DEREG_MR, body, 0);
  forget(&region, body.mr_handle, process->tell(kDeregMr, error), rng);
}

// Other memory, other rights, another protection domain, or any of these together.
void reregMr(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_rereg_mr_resp, Nothing> answer;
  Region& region = likely(file->mrs, rng);
  const uint64_t offset = rng.below(process->memory_size);
  ib_uverbs_rereg_mr body{};
  body.response = place(&answer, rng);
  body.mr_handle = doubtful(region.handle, rng);
  body.flags = static_cast<uint32_t>(rng.below(rng.percent(95) ? 8 : 64));
  body.start = reinterpret_cast<uintptr_t>(process->memory) + offset;
  body.length = 1 + rng.below(process->memory_size - offset);
  body.hca_va = body.start;
  body.pd_handle = likelyPd(*file, rng);
  body.access_flags = rng.percent(80) ? kLikelyAccess : static_cast<uint32_t>(rng.below(64));
  if (process->tell(kReregMr, command(*file, IB_USER_VERBS_CMD_REREG_MR, body,
                                      sizeof(ib_uverbs_rereg_mr_resp)))) {
    return;
  }
  region.lkey = answer.core().lkey;
  if (body.flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
    region.address = body.hca_va;
    region.length = static_cast<uint32_t>(body.length);
  }
  expose(process, region.address, region.length, answer.core().rkey, rng);
}

void allocMw(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_alloc_mw_resp, Nothing> answer;
  ib_uverbs_alloc_mw body{};
  body.response = place(&answer, rng);
  body.pd_handle = likelyPd(*file, rng);
  body.mw_type = static_cast<uint8_t>(rng.percent(95) ? 1 + rng.below(2) : rng.below(256));
  if (process->tell(kAllocMw, command(*file, IB_USER_VERBS_CMD_ALLOC_MW, body,
                                      sizeof(ib_uverbs_alloc_mw_resp)))) {
    return;
  }
  Window& window = anyOf(file->mws, rng);
  window.handle = answer.core().mw_handle;
  window.rkey = answer.core().rkey;
}

void deallocMw(Process* process, File* file, Rng& rng) {
  Window& window = likely(file->mws, rng);
  const ib_uverbs_dealloc_mw body{doubtful(window.handle, rng)};
  const int error = command(*file, IB_USER_VERBS_CMD_DEALLOC_MW, body, 0);
  forget(&window, body.mw_handle, process->tell(kDeallocMw, error), rng);
}

// Other memory at the addresses that are registered.
void remap(Process* process, File*, Rng& rng) {
  const size_t offset = rng.below(process->memory_size / kPage) * kPage;
  const size_t length =
      std::min<size_t>((1 + rng.below(32)) * kPage, process->memory_size - offset);
  uint8_t* at = process->memory + offset;
  if (rng.percent(50)) {
    process->tell(kRemap, madvise(at, length, MADV_DONTNEED) ? errno : 0);
  } else {
    void* there =
        mmap(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    process->tell(kRemap, there == MAP_FAILED ? errno : 0);
  }
}

void fillSges(File* file, uint8_t* at, unsigned count, Rng& rng) {
  for (unsigned i = 0; i < count; ++i) {
    const Region& region = likely(file->mrs, rng);
    const uint32_t length = region.length;
    const uint64_t offset = rng.below(length);
    kiwarp_sge sge{region.address + offset,
                   static_cast<uint32_t>(rng.below(std::min<uint64_t>(length - offset, 100000))),
                   region.lkey};
    if (rng.below(80) == 0) sge.lkey = static_cast<uint32_t>(rng.next());
    if (rng.below(80) == 0) sge.length = static_cast<uint32_t>(rng.next());
    std::memcpy(at + i * sizeof(sge), &sge, sizeof(sge));
  }
}

}  // namespace kiwarp::vm
