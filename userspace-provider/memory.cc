// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "memory.h"

#include <cerrno>
#include <memory>
#include <new>

#include "pabi/functions.h"

namespace kiwarp {

ibv_mr* regMr(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  std::unique_ptr<pabi::Mr> mr(new (std::nothrow) pabi::Mr{});
  if (!mr) {
    errno = ENOMEM;
    return nullptr;
  }
  pabi::Request<ib_uverbs_reg_mr> request;
  pabi::PlainResponse<ib_uverbs_reg_mr_resp> response;
  if (int error = ibv_cmd_reg_mr(pd, address, length, iova, access, mr.get(), &request,
                                 sizeof(request), response.core(), sizeof(ib_uverbs_reg_mr_resp));
      error != 0) {
    errno = error;
    return nullptr;
  }
  return &mr.release()->mr;
}

ibv_mr* regDmabufMr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
  std::unique_ptr<pabi::Mr> mr(new (std::nothrow) pabi::Mr{});
  if (!mr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (int error = pabi::regDmabufMr(pd, offset, length, iova, fd, access, mr.get()); error != 0) {
    errno = error;
    return nullptr;
  }
  return &mr.release()->mr;
}

int reregMr(pabi::Mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access) {
  pabi::Request<ib_uverbs_rereg_mr> request;
  pabi::PlainResponse<ib_uverbs_rereg_mr_resp> response;
  return ibv_cmd_rereg_mr(mr, static_cast<uint32_t>(flags), address, length,
                          reinterpret_cast<uintptr_t>(address), access, pd, &request,
                          sizeof(request), response.core(), sizeof(ib_uverbs_rereg_mr_resp));
}

int deregMr(pabi::Mr* mr) {
  if (int error = ibv_cmd_dereg_mr(mr); error != 0) return error;
  delete mr;
  return 0;
}

ibv_mw* allocMw(ibv_pd* pd, ibv_mw_type type) {
  std::unique_ptr<Window> window(new (std::nothrow) Window);
  if (!window) {
    errno = ENOMEM;
    return nullptr;
  }
  pabi::Request<ib_uverbs_alloc_mw> request;
  pabi::PlainResponse<ib_uverbs_alloc_mw_resp> response;
  if (int error = ibv_cmd_alloc_mw(pd, type, &window->mw, &request, sizeof(request),
                                   response.core(), sizeof(ib_uverbs_alloc_mw_resp));
      error != 0) {
    errno = error;
    return nullptr;
  }
  window->last_key = window->mw.rkey;
  return &window.release()->mw;
}

int deallocMw(ibv_mw* mw) {
  if (int error = ibv_cmd_dealloc_mw(mw); error != 0) return error;
  delete Window::of(mw);
  return 0;
}

ibv_mr* importMr(ibv_pd* pd, uint32_t handle) {
  std::unique_ptr<pabi::Mr> mr(new (std::nothrow) pabi::Mr{});
  if (!mr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (int error = ibv_cmd_query_mr(pd, mr.get(), handle); error != 0) {
    errno = error;
    return nullptr;
  }
  return &mr.release()->mr;
}

void unimportMr(ibv_mr* mr) { delete reinterpret_cast<pabi::Mr*>(mr); }

}  // namespace kiwarp
