// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Protection domains, and what programs put on top of them. A parent domain is another name for a
// protection domain. It has a thread domain, to which the objects made by it belong.
//
// A thread domain is the promise that one thread at a time uses them. Nothing is made of that: a
// lock without contention is cheap, and a second code path is not. Nor are a parent domain's
// allocators ever called: the queues are memory of the kernel's.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

namespace kiwarp {

struct ThreadDomain {
  ibv_td td{};
  std::atomic<uint32_t> users{0};

  static ThreadDomain* of(ibv_td* td) { return reinterpret_cast<ThreadDomain*>(td); }
};

struct Domain {
  ibv_pd pd{};
  // Of a parent domain: what it leads to. It has the kernel's handle of that.
  Domain* parent_of = nullptr;
  ThreadDomain* thread_domain = nullptr;
  // Of a protection domain: its parent domains.
  std::atomic<uint32_t> users{0};
  // Parent domains that were deallocated. Queue pairs and windows that were made by one still point
  // to it, so it stays, for the next one, as long as the protection domain does.
  Domain* retired = nullptr;
  Domain* next_retired = nullptr;
  // Parent domains in use, and the program's own until it deallocates or unimports it.
  std::atomic<uint32_t> references{1};

  static Domain* of(ibv_pd* pd) { return reinterpret_cast<Domain*>(pd); }
};

// Two names for one protection domain are the same.
inline bool samePd(const ibv_pd* a, const ibv_pd* b) {
  return a->context == b->context && a->handle == b->handle;
}

// Pointers are null with errno set on failure; numbers are 0 or a positive errno. What is in use by
// a parent domain is not deallocated: EBUSY.
ibv_pd* allocPd(ibv_context* context);
int deallocPd(ibv_pd* pd);
ibv_td* allocTd(ibv_context* context, ibv_td_init_attr* attr);
int deallocTd(ibv_td* td);
ibv_pd* allocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* attr);

// A protection domain that was made through the same channel, in another context. What is only
// unimported stays.
ibv_pd* importPd(ibv_context* context, uint32_t handle);
void unimportPd(ibv_pd* pd);

}  // namespace kiwarp
