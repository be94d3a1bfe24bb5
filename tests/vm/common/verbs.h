// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace kiwarp::vm {

template <typename T, auto Destroy>
struct VerbsDeleter {
  void operator()(T* object) const noexcept { Destroy(object); }
};

using Pd = std::unique_ptr<ibv_pd, VerbsDeleter<ibv_pd, ibv_dealloc_pd>>;
using Mr = std::unique_ptr<ibv_mr, VerbsDeleter<ibv_mr, ibv_dereg_mr>>;
using Cq = std::unique_ptr<ibv_cq, VerbsDeleter<ibv_cq, ibv_destroy_cq>>;
using CompChannel =
    std::unique_ptr<ibv_comp_channel, VerbsDeleter<ibv_comp_channel, ibv_destroy_comp_channel>>;
using Srq = std::unique_ptr<ibv_srq, VerbsDeleter<ibv_srq, ibv_destroy_srq>>;
using RawQp = std::unique_ptr<ibv_qp, VerbsDeleter<ibv_qp, ibv_destroy_qp>>;

// ibv_dealloc_mw() is an inline function of the header's: no argument for a template.
struct MwDeleter {
  void operator()(ibv_mw* mw) const noexcept { ibv_dealloc_mw(mw); }
};
using Mw = std::unique_ptr<ibv_mw, MwDeleter>;

// Each throws Failure with the errno when the device refuses.
Pd allocPd(ibv_context* context);
Mr regMr(ibv_pd* pd, void* address, size_t length, int access);
// The MR answers to addresses that start at iova instead of at the buffer's address.
Mr regMrIova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access);
Mw allocMw(ibv_pd* pd, ibv_mw_type type);
Cq createCq(ibv_context* context, int entries, ibv_comp_channel* channel = nullptr);
CompChannel createChannel(ibv_context* context);
Srq createSrq(ibv_pd* pd, uint32_t max_wr, uint32_t max_sge);

ibv_device_attr queryDevice(ibv_context* context);
ibv_qp_state queryState(ibv_qp* qp);
void setQpAccess(ibv_qp* qp, unsigned access);

const char* opcodeName(ibv_wc_opcode opcode);
const char* stateName(ibv_qp_state state);
std::string describe(const ibv_wc& wc);

// Anonymous memory with its own lifetime, so that nothing on the heap lies beside an MR.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t length);
  ~Memory();
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace kiwarp::vm
