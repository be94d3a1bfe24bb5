// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Posting to a send queue by the functions of the extended interface, ibv_wr_*(). They write into
// the ring at once.
#include <cerrno>

#include "qp.h"

namespace kiwarp {
namespace {

SendQueue& sendQueue(ibv_qp_ex* qp) { return QueuePair::of(&qp->qp_base)->send; }

kiwarp_sqe* add(ibv_qp_ex* qp, kiwarp_opcode opcode) {
  return sendQueue(qp).add(opcode, qp->wr_id, qp->wr_flags);
}

void addAtomic(ibv_qp_ex* qp, kiwarp_opcode opcode, uint32_t rkey, uint64_t address,
               uint64_t compare_add, uint64_t swap) {
  if (kiwarp_sqe* sqe = add(qp, opcode); sqe != nullptr) {
    sqe->rkey = rkey;
    sqe->remote_addr = address;
    sqe->atomic = {.compare_add = compare_add, .swap = swap};
  }
}

void addRdma(ibv_qp_ex* qp, kiwarp_opcode opcode, uint32_t rkey, uint64_t address) {
  if (kiwarp_sqe* sqe = add(qp, opcode); sqe != nullptr) {
    sqe->rkey = rkey;
    sqe->remote_addr = address;
  }
}

void wrSend(ibv_qp_ex* qp) { add(qp, KIWARP_OP_SEND); }

void wrSendInv(ibv_qp_ex* qp, uint32_t invalidate_rkey) {
  if (kiwarp_sqe* sqe = add(qp, KIWARP_OP_SEND_INV); sqe != nullptr) {
    sqe->inv_stag = invalidate_rkey;
  }
}

void wrRdmaWrite(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  addRdma(qp, KIWARP_OP_WRITE, rkey, address);
}

void wrRdmaRead(ibv_qp_ex* qp, uint32_t rkey, uint64_t address) {
  addRdma(qp, KIWARP_OP_READ, rkey, address);
}

void wrSendImm(ibv_qp_ex* qp, __be32 imm_data) {
  if (kiwarp_sqe* sqe = add(qp, KIWARP_OP_SEND_IMM); sqe != nullptr) sqe->imm_data = imm_data;
}

void wrRdmaWriteImm(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 imm_data) {
  if (kiwarp_sqe* sqe = add(qp, KIWARP_OP_WRITE_IMM); sqe != nullptr) {
    sqe->rkey = rkey;
    sqe->remote_addr = address;
    sqe->imm_data = imm_data;
  }
}

void wrAtomicFetchAdd(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t addend) {
  addAtomic(qp, KIWARP_OP_FETCH_ADD, rkey, address, addend, 0);
}

void wrAtomicCmpSwp(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, uint64_t compare,
                    uint64_t swap) {
  addAtomic(qp, KIWARP_OP_CMP_SWAP, rkey, address, compare, swap);
}

void wrLocalInv(ibv_qp_ex* qp, uint32_t invalidate_rkey) {
  if (kiwarp_sqe* sqe = add(qp, KIWARP_OP_LOCAL_INV); sqe != nullptr) {
    sqe->inv_stag = invalidate_rkey;
  }
}

void wrBindMw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
  kiwarp_sqe* sqe = add(qp, KIWARP_OP_BIND_MW);
  if (sqe == nullptr) return;
  if (int error = setBind(sqe, mw, rkey, *info); error != 0) sendQueue(qp).failed(error);
}

void wrSetSgeList(ibv_qp_ex* qp, size_t count, const ibv_sge* sges) {
  SendQueue& queue = sendQueue(qp);
  kiwarp_sqe* sqe = queue.current();
  if (sqe == nullptr) return;
  if (int error = setSges(sqe, sges, count, queue.limits); error != 0) queue.failed(error);
}

void wrSetSge(ibv_qp_ex* qp, uint32_t lkey, uint64_t address, uint32_t length) {
  const ibv_sge sge = {.addr = address, .length = length, .lkey = lkey};
  wrSetSgeList(qp, 1, &sge);
}

void wrSetInlineDataList(ibv_qp_ex* qp, size_t count, const ibv_data_buf* buffers) {
  SendQueue& queue = sendQueue(qp);
  kiwarp_sqe* sqe = queue.current();
  if (sqe == nullptr) return;
  int error = addInline(sqe, nullptr, 0, queue.limits);
  for (size_t i = 0; i < count && error == 0; ++i) {
    error = addInline(sqe, buffers[i].addr, buffers[i].length, queue.limits);
  }
  if (error != 0) queue.failed(error);
}

void wrSetInlineData(ibv_qp_ex* qp, void* data, size_t length) {
  const ibv_data_buf buffer = {.addr = data, .length = length};
  wrSetInlineDataList(qp, 1, &buffer);
}

void wrStart(ibv_qp_ex* qp) { sendQueue(qp).start(); }

int wrComplete(ibv_qp_ex* qp) { return sendQueue(qp).complete(); }

void wrAbort(ibv_qp_ex* qp) { sendQueue(qp).abort(); }

// Each operation that can be asked for, and the function that builds it.
struct SendOp {
  uint64_t flag;
  uint32_t caps;  // that the module needs for it
  void (*enable)(ibv_qp_ex* qp);
};

constexpr SendOp kSendOps[] = {
    {IBV_QP_EX_WITH_SEND, 0, [](ibv_qp_ex* qp) { qp->wr_send = wrSend; }},
    {IBV_QP_EX_WITH_SEND_WITH_INV, 0, [](ibv_qp_ex* qp) { qp->wr_send_inv = wrSendInv; }},
    {IBV_QP_EX_WITH_RDMA_WRITE, 0, [](ibv_qp_ex* qp) { qp->wr_rdma_write = wrRdmaWrite; }},
    {IBV_QP_EX_WITH_RDMA_READ, 0, [](ibv_qp_ex* qp) { qp->wr_rdma_read = wrRdmaRead; }},
    {IBV_QP_EX_WITH_SEND_WITH_IMM, KIWARP_CAP_IMM,
     [](ibv_qp_ex* qp) { qp->wr_send_imm = wrSendImm; }},
    {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, KIWARP_CAP_IMM,
     [](ibv_qp_ex* qp) { qp->wr_rdma_write_imm = wrRdmaWriteImm; }},
    {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, KIWARP_CAP_ATOMIC,
     [](ibv_qp_ex* qp) { qp->wr_atomic_fetch_add = wrAtomicFetchAdd; }},
    {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, KIWARP_CAP_ATOMIC,
     [](ibv_qp_ex* qp) { qp->wr_atomic_cmp_swp = wrAtomicCmpSwp; }},
    {IBV_QP_EX_WITH_LOCAL_INV, KIWARP_CAP_MW, [](ibv_qp_ex* qp) { qp->wr_local_inv = wrLocalInv; }},
    {IBV_QP_EX_WITH_BIND_MW, KIWARP_CAP_MW, [](ibv_qp_ex* qp) { qp->wr_bind_mw = wrBindMw; }},
};

}  // namespace

bool knowsSendOps(uint64_t flags, uint32_t caps) {
  for (const SendOp& op : kSendOps) {
    if ((caps & op.caps) == op.caps) flags &= ~op.flag;
  }
  return flags == 0;
}

void enableSendOps(QueuePair* pair, uint64_t flags) {
  ibv_qp_ex* qp = &pair->qp_ex;
  for (const SendOp& op : kSendOps) {
    if ((flags & op.flag) != 0) op.enable(qp);
  }
  qp->wr_set_sge = wrSetSge;
  qp->wr_set_sge_list = wrSetSgeList;
  qp->wr_set_inline_data = wrSetInlineData;
  qp->wr_set_inline_data_list = wrSetInlineDataList;
  qp->wr_start = wrStart;
  qp->wr_complete = wrComplete;
  qp->wr_abort = wrAbort;
  pair->valid |= pabi::kQpExValid;
}

}  // namespace kiwarp
