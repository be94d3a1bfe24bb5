// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "domain.h"

#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "pabi/commands.h"
#include "pabi/functions.h"

namespace kiwarp {
namespace {

constexpr uint32_t kKnownAttrs =
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

// Returns 0 or a positive errno.
int refusal(const ibv_context* context, const ibv_parent_domain_init_attr& attr) {
  if ((attr.comp_mask & ~kKnownAttrs) != 0) return EOPNOTSUPP;
  if (attr.pd == nullptr || attr.pd->context != context ||
      Domain::of(attr.pd)->parent_of != nullptr) {
    return EINVAL;
  }
  if (attr.td != nullptr && attr.td->context != context) return EINVAL;
  const bool has_allocators = (attr.comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
  if (has_allocators && (attr.alloc == nullptr || attr.free == nullptr)) return EINVAL;
  return 0;
}

// Of all lists of retired domains.
std::mutex retired_lock;

void release(Domain* domain) {
  if (--domain->references != 0) return;
  while (domain->retired != nullptr) {
    std::unique_ptr<Domain> parent(domain->retired);
    domain->retired = parent->next_retired;
  }
  delete domain;
}

void retire(Domain* parent) {
  std::lock_guard guard(retired_lock);
  parent->next_retired = std::exchange(parent->parent_of->retired, parent);
}

// Null if there is no memory.
Domain* newParent(Domain* domain) {
  std::lock_guard guard(retired_lock);
  if (domain->retired == nullptr) return new (std::nothrow) Domain;
  return std::exchange(domain->retired, domain->retired->next_retired);
}

void freeParentDomain(Domain* parent) {
  Domain* domain = parent->parent_of;
  if (parent->thread_domain != nullptr) parent->thread_domain->users--;
  retire(parent);
  domain->users--;
  release(domain);
}

}  // namespace

ibv_pd* allocPd(ibv_context* context) {
  std::unique_ptr<Domain> domain(new (std::nothrow) Domain);
  if (!domain) {
    errno = ENOMEM;
    return nullptr;
  }
  pabi::Request<ib_uverbs_alloc_pd> request;
  pabi::PlainResponse<ib_uverbs_alloc_pd_resp> response;
  if (int error = ibv_cmd_alloc_pd(context, &domain->pd, &request, sizeof(request), response.core(),
                                   sizeof(ib_uverbs_alloc_pd_resp));
      error != 0) {
    errno = error;
    return nullptr;
  }
  return &domain.release()->pd;
}

int deallocPd(ibv_pd* pd) {
  Domain* domain = Domain::of(pd);
  if (domain->parent_of != nullptr) {
    freeParentDomain(domain);
    return 0;
  }
  if (domain->users != 0) return EBUSY;
  if (int error = ibv_cmd_dealloc_pd(pd); error != 0) return error;
  release(domain);
  return 0;
}

ibv_td* allocTd(ibv_context* context, ibv_td_init_attr* attr) {
  ThreadDomain* domain = nullptr;
  int error = EOPNOTSUPP;
  if (attr->comp_mask == 0) {
    domain = new (std::nothrow) ThreadDomain;
    error = ENOMEM;
  }
  if (domain == nullptr) {
    errno = error;
    return nullptr;
  }
  domain->td.context = context;
  return &domain->td;
}

int deallocTd(ibv_td* td) {
  ThreadDomain* domain = ThreadDomain::of(td);
  if (domain->users != 0) return EBUSY;
  delete domain;
  return 0;
}

ibv_pd* allocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* attr) {
  int error = refusal(context, *attr);
  Domain* parent = nullptr;
  if (error == 0) {
    parent = newParent(Domain::of(attr->pd));
    error = ENOMEM;
  }
  if (parent == nullptr) {
    errno = error;
    return nullptr;
  }
  parent->pd = *attr->pd;
  parent->parent_of = Domain::of(attr->pd);
  parent->parent_of->users++;
  parent->parent_of->references++;
  parent->thread_domain = nullptr;
  if (attr->td != nullptr) {
    parent->thread_domain = ThreadDomain::of(attr->td);
    parent->thread_domain->users++;
  }
  return &parent->pd;
}

ibv_pd* importPd(ibv_context* context, uint32_t handle) {
  auto* domain = new (std::nothrow) Domain;
  if (domain == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  domain->pd.context = context;
  domain->pd.handle = handle;
  return &domain->pd;
}

// A domain that parent domains lead to goes with the last of them: the call cannot fail.
void unimportPd(ibv_pd* pd) {
  Domain* domain = Domain::of(pd);
  if (domain->parent_of != nullptr) {
    freeParentDomain(domain);
  } else {
    release(domain);
  }
}

}  // namespace kiwarp
