// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/verbs.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "common/error.h"

namespace kiwarp::vm {

Pd allocPd(ibv_context* context) {
  Pd pd(ibv_alloc_pd(context));
  if (!pd) fail("ibv_alloc_pd: %s", errnoName(errno).c_str());
  return pd;
}

Mr regMr(ibv_pd* pd, void* address, size_t length, int access) {
  Mr mr(ibv_reg_mr(pd, address, length, access));
  if (!mr) fail("ibv_reg_mr of %zu bytes: %s", length, errnoName(errno).c_str());
  return mr;
}

Mr regMrIova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  Mr mr(ibv_reg_mr_iova(pd, address, length, iova, access));
  if (!mr) fail("ibv_reg_mr_iova of %zu bytes: %s", length, errnoName(errno).c_str());
  return mr;
}

Mw allocMw(ibv_pd* pd, ibv_mw_type type) {
  Mw mw(ibv_alloc_mw(pd, type));
  if (!mw) fail("ibv_alloc_mw of type %d: %s", type, errnoName(errno).c_str());
  return mw;
}

Cq createCq(ibv_context* context, int entries, ibv_comp_channel* channel) {
  Cq cq(ibv_create_cq(context, entries, nullptr, channel, 0));
  if (!cq) fail("ibv_create_cq of %d entries: %s", entries, errnoName(errno).c_str());
  return cq;
}

Srq createSrq(ibv_pd* pd, uint32_t max_wr, uint32_t max_sge) {
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = max_wr;
  attr.attr.max_sge = max_sge;
  Srq srq(ibv_create_srq(pd, &attr));
  if (!srq) fail("ibv_create_srq of %u entries: %s", max_wr, errnoName(errno).c_str());
  return srq;
}

CompChannel createChannel(ibv_context* context) {
  CompChannel channel(ibv_create_comp_channel(context));
  if (!channel) fail("ibv_create_comp_channel: %s", errnoName(errno).c_str());
  return channel;
}

ibv_device_attr queryDevice(ibv_context* context) {
  ibv_device_attr attr{};
  checkErrno(ibv_query_device(context, &attr), "ibv_query_device");
  return attr;
}

ibv_qp_state queryState(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  checkErrno(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
  return attr.qp_state;
}

void setQpAccess(ibv_qp* qp, unsigned access) {
  ibv_qp_attr attr{};
  attr.qp_access_flags = access;
  checkErrno(ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS), "ibv_modify_qp access flags");
}

const char* opcodeName(ibv_wc_opcode opcode) {
  switch (opcode) {
    case IBV_WC_SEND:
      return "SEND";
    case IBV_WC_RDMA_WRITE:
      return "RDMA_WRITE";
    case IBV_WC_RDMA_READ:
      return "RDMA_READ";
    case IBV_WC_RECV:
      return "RECV";
    default:
      return "other";
  }
}

const char* stateName(ibv_qp_state state) {
  static const char* const kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state >= 0 && state < 7 ? kNames[state] : "?";
}

std::string describe(const ibv_wc& wc) {
  if (wc.status != IBV_WC_SUCCESS)
    return strf("wr_id %#llx qp %#x status %d (%s) vendor %#x",
                static_cast<unsigned long long>(wc.wr_id), wc.qp_num, wc.status,
                ibv_wc_status_str(wc.status), wc.vendor_err);
  return strf("wr_id %#llx qp %#x %s byte_len %u flags %#x",
              static_cast<unsigned long long>(wc.wr_id), wc.qp_num, opcodeName(wc.opcode),
              wc.byte_len, wc.wc_flags);
}

Memory::Memory(size_t length) : size_(length) {
  void* mapped = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) fail("mmap of %zu bytes: %s", length, errnoName(errno).c_str());
  data_ = static_cast<uint8_t*>(mapped);
}

Memory::~Memory() {
  if (data_) munmap(data_, size_);
}

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace kiwarp::vm
