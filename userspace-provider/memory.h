// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Memory regions and windows: the kernel does all of the work. To bind a window is a work request:
// bindMw() is in qp.h.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pabi/layout.h"

namespace kiwarp {

struct Window {
  ibv_mw mw{};
  // The key of the last binding, of which another thread may not have posted the request yet.
  std::atomic<uint32_t> last_key{0};

  static Window* of(ibv_mw* mw) { return reinterpret_cast<Window*>(mw); }

  // A key that no other binding under way has.
  uint32_t takeKey() {
    uint32_t last = last_key.load(std::memory_order_relaxed);
    while (!last_key.compare_exchange_weak(last, ibv_inc_rkey(last), std::memory_order_relaxed)) {
    }
    return ibv_inc_rkey(last);
  }

  // The key is not used after all. If another was taken since, it is left out.
  void giveKeyBack(uint32_t key) {
    const uint32_t before = (key & ~kKeyMask) | ((key - 1) & kKeyMask);
    last_key.compare_exchange_strong(key, before, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kKeyMask = 0xff;  // what ibv_inc_rkey() counts in
};

// Pointers are null with errno set on failure; numbers are 0 or a positive errno.
ibv_mr* regMr(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access);
ibv_mr* regDmabufMr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
int reregMr(pabi::Mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access);
int deregMr(pabi::Mr* mr);
ibv_mw* allocMw(ibv_pd* pd, ibv_mw_type type);
int deallocMw(ibv_mw* mw);

// Those that were made through the same channel, in another context. What is only unimported
// stays.
ibv_mr* importMr(ibv_pd* pd, uint32_t handle);
void unimportMr(ibv_mr* mr);

}  // namespace kiwarp
