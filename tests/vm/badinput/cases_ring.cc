// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// What a process writes into its own send ring: nothing of it is done, the connection ends, and the
// entry's completion says why.

#include "badinput/harness.h"
#include "badinput/rings.h"

namespace kiwarp::vm {
namespace {

constexpr uint32_t kDepth = 16;
constexpr uint64_t kId = 7;

// The first entry, of the process's own making, and as many as it says there are. The peer has
// a receive, which nothing comes for.
void forged(Env& env, const kiwarp_sqe& entry, uint32_t count, ibv_wc_status status) {
  RingLink ring(env, kDepth);
  mustRecv(ring.link.server.qp(), 1, {});
  *ring.rings->firstSend() = entry;
  lie(ring.rings->send, count);
  sendDoorbell(ring.link.client.qp());
  env.expectWc(ring.link.client.send_cq.get(), kId, {status}, "the entry");
  env.expectWc(ring.link.server.recv_cq.get(), 1, {IBV_WC_WR_FLUSH_ERR}, "the peer's receive");
  env.expectEnded(ring.link);
}

// More than any ring has: the first would be a Send of no bytes.
void inventedEntries(Env& env) {
  kiwarp_sqe entry{};
  entry.wr_id = kId;
  entry.opcode = KIWARP_OP_SEND;
  forged(env, entry, 0x10000, IBV_WC_LOC_QP_OP_ERR);
}

// As much as an entry can have at most, in a ring whose entries have no room for it.
void longInline(Env& env) {
  kiwarp_sqe entry{};
  entry.wr_id = kId;
  entry.opcode = KIWARP_OP_SEND;
  entry.flags = KIWARP_SQE_INLINE | KIWARP_SQE_SIGNALED;
  entry.inline_len = 256;
  forged(env, entry, 1, IBV_WC_LOC_LEN_ERR);
}

// A Read has one sink on the wire; the queue pair's entries have room for two.
void readSinks(Env& env) {
  kiwarp_sqe entry{};
  entry.wr_id = kId;
  entry.opcode = KIWARP_OP_READ;
  entry.num_sge = 2;
  forged(env, entry, 1, IBV_WC_LOC_QP_OP_ERR);
}

// They name memory of the kernel's.
void kernelOperations(Env& env) {
  for (const uint8_t opcode : {KIWARP_OP_REG_MR, KIWARP_OP_READ_INV}) {
    kiwarp_sqe entry{};
    entry.wr_id = kId;
    entry.opcode = opcode;
    entry.remote_addr = 0x1000;
    forged(env, entry, 1, IBV_WC_LOC_QP_OP_ERR);
  }
}

}  // namespace

void addRingCases(std::vector<Case>* cases) {
  cases->push_back({"send-ring-index", inventedEntries});
  cases->push_back({"send-ring-inline", longInline});
  cases->push_back({"send-ring-read-sinks", readSinks});
  cases->push_back({"send-ring-kernel-operations", kernelOperations});
}

}  // namespace kiwarp::vm
