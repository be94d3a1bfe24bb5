// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "extended/polling.h"

#include <cerrno>
#include <chrono>
#include <thread>

namespace kiwarp::vm {

ibv_cq_init_attr_ex cqAttributes(uint32_t entries, uint64_t wc_flags, uint32_t flags) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = entries;
  attr.wc_flags = wc_flags;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = flags;
  return attr;
}

Cq createCqEx(ibv_context* context, ibv_cq_init_attr_ex attr) {
  ibv_cq_ex* cq = ibv_create_cq_ex(context, &attr);
  if (!cq) fail("ibv_create_cq_ex: %s", errnoName(errno).c_str());
  return Cq(ibv_cq_ex_to_cq(cq));
}

Batch::Batch(ibv_cq_ex* cq) : cq_(cq) {
  const Deadline limit(seconds(20));
  ibv_poll_cq_attr attr{};
  while (int error = ibv_start_poll(cq, &attr)) {
    expectErrno("ibv_start_poll", ENOENT, error);
    if (limit.passed()) fail("no completion");
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void Batch::next() const {
  const Deadline limit(seconds(20));
  while (int error = ibv_next_poll(cq_)) {
    expectErrno("ibv_next_poll", ENOENT, error);
    if (limit.passed()) fail("no next completion");
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void Batch::end() {
  if (cq_) ibv_end_poll(cq_);
  cq_ = nullptr;
}

void expectNumber(const char* what, uint64_t expected, uint64_t got) {
  expectSame(what, strf("%llu", static_cast<unsigned long long>(expected)),
             strf("%llu", static_cast<unsigned long long>(got)));
}

}  // namespace kiwarp::vm
