// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "translate.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace kiwarp::test {
namespace {

constexpr uint32_t kMaxSge = 3;
constexpr uint32_t kMaxInline = 16;
constexpr QueueLimits kLimits = {.max_send_sge = kMaxSge,
                                 .max_receive_sge = 2,
                                 .max_inline = kMaxInline,
                                 .signal_all = false,
                                 .caps = KIWARP_CAP_MW};

// An entry with garbage in it, so that a member that isn't set shows.
struct Entry {
  Entry() { std::memset(static_cast<void*>(this), 0xa5, sizeof(*this)); }

  kiwarp_sqe sqe;
  union {
    std::array<kiwarp_sge, kMaxSge> sge;
    std::array<char, kMaxInline> payload;
    std::array<char, 64> guard;
  };
};

struct SendWr : ibv_send_wr {
  SendWr(ibv_wr_opcode op, unsigned int flags, ibv_sge* list = nullptr, int count = 0)
      : ibv_send_wr{} {
    wr_id = 0x1122334455667788;
    opcode = op;
    send_flags = flags;
    sg_list = list;
    num_sge = count;
  }
};

TEST(FillSqe, Send) {
  std::array<ibv_sge, 3> list = {{{0x1000, 10, 1}, {0x2000, 20, 2}, {0x3000, 30, 3}}};
  SendWr wr(IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_FENCE, list.data(), 3);
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, wr, kLimits), 0);
  EXPECT_EQ(entry.sqe.wr_id, 0x1122334455667788U);
  EXPECT_EQ(entry.sqe.opcode, KIWARP_OP_SEND);
  EXPECT_EQ(entry.sqe.flags, KIWARP_SQE_SIGNALED | KIWARP_SQE_FENCE);
  EXPECT_EQ(entry.sqe.num_sge, 3U);
  EXPECT_EQ(entry.sqe.inline_len, 0U);
  EXPECT_EQ(entry.sqe.remote_addr, 0U);
  EXPECT_EQ(entry.sqe.rkey, 0U);
  EXPECT_EQ(entry.sqe.inv_stag, 0U);
  EXPECT_EQ(entry.sqe.rsvd[0], 0U);
  EXPECT_EQ(entry.sqe.rsvd[1], 0U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(entry.sge[i].addr, list[i].addr);
    EXPECT_EQ(entry.sge[i].length, list[i].length);
    EXPECT_EQ(entry.sge[i].lkey, list[i].lkey);
  }
}

TEST(FillSqe, SendWithInvalidate) {
  SendWr wr(IBV_WR_SEND_WITH_INV, IBV_SEND_SOLICITED);
  wr.invalidate_rkey = 0xabcd;
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, wr, kLimits), 0);
  EXPECT_EQ(entry.sqe.opcode, KIWARP_OP_SEND_INV);
  EXPECT_EQ(entry.sqe.flags, KIWARP_SQE_SOLICITED);
  EXPECT_EQ(entry.sqe.inv_stag, 0xabcdU);
  EXPECT_EQ(entry.sqe.num_sge, 0U);
}

TEST(FillSqe, RemoteAddressOfWriteAndRead) {
  ibv_sge sge = {0x1000, 8, 5};
  for (auto [from, to] : {std::pair{IBV_WR_RDMA_WRITE, KIWARP_OP_WRITE},
                          std::pair{IBV_WR_RDMA_READ, KIWARP_OP_READ}}) {
    SendWr wr(from, 0, &sge, 1);
    wr.wr.rdma.remote_addr = 0xfedcba9876543210;
    wr.wr.rdma.rkey = 77;
    Entry entry;
    ASSERT_EQ(fillSqe(&entry.sqe, wr, kLimits), 0);
    EXPECT_EQ(entry.sqe.opcode, to);
    EXPECT_EQ(entry.sqe.flags, 0);
    EXPECT_EQ(entry.sqe.remote_addr, 0xfedcba9876543210U);
    EXPECT_EQ(entry.sqe.rkey, 77U);
  }
}

TEST(FillSqe, Immediates) {
  QueueLimits limits = kLimits;
  limits.caps = KIWARP_CAP_IMM;
  ibv_sge sge = {0x1000, 8, 5};
  SendWr write(IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SOLICITED, &sge, 1);
  write.imm_data = 0x04030201;
  write.wr.rdma.remote_addr = 0xfedcba9876543210;
  write.wr.rdma.rkey = 77;
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, write, limits), 0);
  EXPECT_EQ(entry.sqe.opcode, KIWARP_OP_WRITE_IMM);
  EXPECT_EQ(entry.sqe.flags, KIWARP_SQE_SOLICITED);
  EXPECT_EQ(entry.sqe.remote_addr, 0xfedcba9876543210U);
  EXPECT_EQ(entry.sqe.rkey, 77U);
  EXPECT_EQ(entry.sqe.num_sge, 1U);
  EXPECT_EQ(entry.sqe.imm_data, 0x04030201U);
  EXPECT_EQ(entry.sqe.rsvd[1], 0U);

  SendWr send(IBV_WR_SEND_WITH_IMM, 0);
  send.imm_data = 1;
  ASSERT_EQ(fillSqe(&entry.sqe, send, limits), 0);
  EXPECT_EQ(entry.sqe.opcode, KIWARP_OP_SEND_IMM);
  EXPECT_EQ(entry.sqe.imm_data, 1U);
  // No message of RFC 7306 has payload and an immediate.
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_SEND_WITH_IMM, 0, &sge, 1), limits), EOPNOTSUPP);
  EXPECT_EQ(fillSqe(&entry.sqe, write, kLimits), EOPNOTSUPP);
  EXPECT_EQ(fillSqe(&entry.sqe, send, kLimits), EOPNOTSUPP);
}

TEST(FillSqe, Atomics) {
  QueueLimits limits = kLimits;
  limits.caps = KIWARP_CAP_ATOMIC;
  std::array<ibv_sge, 2> list = {{{0x1000, 8, 5}, {0x2000, 8, 5}}};
  for (auto [from, to] : {std::pair{IBV_WR_ATOMIC_FETCH_AND_ADD, KIWARP_OP_FETCH_ADD},
                          std::pair{IBV_WR_ATOMIC_CMP_AND_SWP, KIWARP_OP_CMP_SWAP}}) {
    SendWr wr(from, 0, list.data(), 1);
    wr.wr.atomic = {.remote_addr = 0xfedcba9876543210,
                    .compare_add = 0x0102030405060708,
                    .swap = 0x1112131415161718,
                    .rkey = 77};
    Entry entry;
    ASSERT_EQ(fillSqe(&entry.sqe, wr, limits), 0);
    EXPECT_EQ(entry.sqe.opcode, to);
    EXPECT_EQ(entry.sqe.remote_addr, 0xfedcba9876543210U);
    EXPECT_EQ(entry.sqe.rkey, 77U);
    EXPECT_EQ(entry.sqe.atomic.compare_add, 0x0102030405060708U);
    EXPECT_EQ(entry.sqe.atomic.swap, to == KIWARP_OP_CMP_SWAP ? 0x1112131415161718U : 0U);
    EXPECT_EQ(entry.sge[0].addr, 0x1000U);

    EXPECT_EQ(fillSqe(&entry.sqe, wr, kLimits), EOPNOTSUPP);
    EXPECT_EQ(fillSqe(&entry.sqe, SendWr(from, 0), limits), EINVAL) << "no SGE";
    EXPECT_EQ(fillSqe(&entry.sqe, SendWr(from, 0, list.data(), 2), limits), EINVAL);
    EXPECT_EQ(fillSqe(&entry.sqe, SendWr(from, IBV_SEND_INLINE, list.data(), 1), limits), EINVAL);
    ibv_sge short_one = {0x1000, 7, 5};
    EXPECT_EQ(fillSqe(&entry.sqe, SendWr(from, 0, &short_one, 1), limits), EINVAL);
  }
}

TEST(FillSqe, SignalsEverythingIfTheQueuePairDoes) {
  QueueLimits limits = kLimits;
  limits.signal_all = true;
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_SEND, 0), limits), 0);
  EXPECT_EQ(entry.sqe.flags, KIWARP_SQE_SIGNALED);
}

TEST(FillSqe, InlineGathersThePayload) {
  char first[] = "0123456";
  char second[] = "abcdefghi";
  std::array<ibv_sge, 3> list = {{{reinterpret_cast<uintptr_t>(first), 7, 0},
                                  {0, 0, 0},
                                  {reinterpret_cast<uintptr_t>(second), 9, 0}}};
  SendWr wr(IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, list.data(), 3);
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, wr, kLimits), 0);
  EXPECT_EQ(entry.sqe.flags, KIWARP_SQE_INLINE);
  EXPECT_EQ(entry.sqe.num_sge, 0U);
  EXPECT_EQ(entry.sqe.inline_len, kMaxInline);
  EXPECT_EQ(std::string_view(entry.payload.data(), kMaxInline), "0123456abcdefghi");
  EXPECT_EQ(entry.guard[kMaxInline], '\xa5');
}

TEST(FillSqe, InlineOfNothing) {
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_SEND, IBV_SEND_INLINE), kLimits), 0);
  EXPECT_EQ(entry.sqe.flags, KIWARP_SQE_INLINE);
  EXPECT_EQ(entry.sqe.inline_len, 0U);
}

TEST(FillSqe, RefusesTooMuchInline) {
  char data[kMaxInline + 1] = {};
  auto address = reinterpret_cast<uintptr_t>(data);
  std::array<ibv_sge, 2> list = {{{address, kMaxInline, 0}, {address, 1, 0}}};
  Entry entry;
  SendWr one(IBV_WR_SEND, IBV_SEND_INLINE, list.data(), 1);
  EXPECT_EQ(fillSqe(&entry.sqe, one, kLimits), 0);
  SendWr both(IBV_WR_SEND, IBV_SEND_INLINE, list.data(), 2);
  EXPECT_EQ(fillSqe(&entry.sqe, both, kLimits), EINVAL);
  // Lengths whose sum wraps to less than the limit.
  list[1].length = UINT32_MAX;
  EXPECT_EQ(fillSqe(&entry.sqe, both, kLimits), EINVAL);
  EXPECT_EQ(entry.guard[kMaxInline], '\xa5');
}

TEST(FillSqe, RefusesWhatReadCannotDo) {
  std::array<ibv_sge, 2> list = {{{0x1000, 8, 1}, {0x2000, 8, 1}}};
  Entry entry;
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_RDMA_READ, 0, list.data(), 1), kLimits), 0);
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_RDMA_READ, 0, list.data(), 2), kLimits), EINVAL);
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_RDMA_READ, IBV_SEND_INLINE, list.data(), 1), kLimits),
            EINVAL);
}

TEST(FillSqe, RefusesBadCountsFlagsAndOpcodes) {
  std::array<ibv_sge, 4> list = {};
  Entry entry;
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_SEND, 0, list.data(), 4), kLimits), EINVAL);
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_SEND, 0, list.data(), -1), kLimits), EINVAL);
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_SEND, IBV_SEND_IP_CSUM), kLimits), EINVAL);
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_SEND, 1U << 31), kLimits), EINVAL);
  for (auto opcode : {IBV_WR_TSO, static_cast<ibv_wr_opcode>(15)}) {
    EXPECT_EQ(fillSqe(&entry.sqe, SendWr(opcode, 0), kLimits), EINVAL) << opcode;
  }
}

TEST(FillSqe, LocalInvalidate) {
  ibv_sge sge = {0x1000, 8, 5};
  SendWr wr(IBV_WR_LOCAL_INV, IBV_SEND_SIGNALED | IBV_SEND_FENCE, &sge, 1);
  wr.invalidate_rkey = 0xabcd;
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, wr, kLimits), 0);
  EXPECT_EQ(entry.sqe.opcode, KIWARP_OP_LOCAL_INV);
  EXPECT_EQ(entry.sqe.flags, KIWARP_SQE_SIGNALED | KIWARP_SQE_FENCE);
  EXPECT_EQ(entry.sqe.inv_stag, 0xabcdU);
  EXPECT_EQ(entry.sqe.num_sge, 0U) << "it has no memory of its own";
  EXPECT_EQ(entry.sqe.rsvd[0], 0U);
  EXPECT_EQ(entry.sqe.rsvd[1], 0U);
}

// A window, and what it is to be bound to.
struct BindWr : SendWr {
  BindWr() : SendWr(IBV_WR_BIND_MW, IBV_SEND_SIGNALED) {
    mr.lkey = 0x4455;
    bind_mw = {.mw = &mw,
               .rkey = 0x112233,
               .bind_info = {.mr = &mr,
                             .addr = 0xfedcba9876543210,
                             .length = 0x100000000,
                             .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED}};
  }

  ibv_mw mw = {};
  ibv_mr mr = {};
};

TEST(FillSqe, BindsAWindow) {
  BindWr wr;
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, wr, kLimits), 0);
  EXPECT_EQ(entry.sqe.opcode, KIWARP_OP_BIND_MW);
  EXPECT_EQ(entry.sqe.flags, KIWARP_SQE_SIGNALED);
  EXPECT_EQ(entry.sqe.num_sge, 0U);
  EXPECT_EQ(entry.sqe.inline_len, 0U);
  EXPECT_EQ(entry.sqe.remote_addr, 0xfedcba9876543210U);
  EXPECT_EQ(entry.sqe.rkey, 0x112233U);
  EXPECT_EQ(entry.sqe.inv_stag, 0U);
  EXPECT_EQ(entry.sqe.bind.length, 0x100000000U);
  EXPECT_EQ(entry.sqe.bind.access,
            static_cast<uint32_t>(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED));
  EXPECT_EQ(entry.sqe.bind.lkey, 0x4455U);
}

TEST(FillSqe, BindsAWindowToNothing) {
  BindWr wr;
  wr.bind_mw.bind_info = {};
  Entry entry;
  ASSERT_EQ(fillSqe(&entry.sqe, wr, kLimits), 0);
  EXPECT_EQ(entry.sqe.bind.length, 0U);
  EXPECT_EQ(entry.sqe.bind.lkey, 0U);
}

TEST(FillSqe, RefusesABindThatNamesNothing) {
  Entry entry;
  BindWr no_window;
  no_window.bind_mw.mw = nullptr;
  EXPECT_EQ(fillSqe(&entry.sqe, no_window, kLimits), EINVAL);
  BindWr no_region;
  no_region.bind_mw.bind_info.mr = nullptr;
  EXPECT_EQ(fillSqe(&entry.sqe, no_region, kLimits), EINVAL);
  BindWr in_line;
  in_line.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(fillSqe(&entry.sqe, in_line, kLimits), EINVAL);
}

TEST(FillSqe, WindowsNeedAModuleThatHasThem) {
  QueueLimits limits = kLimits;
  limits.caps = 0;
  Entry entry;
  EXPECT_EQ(fillSqe(&entry.sqe, BindWr(), limits), EOPNOTSUPP);
  EXPECT_EQ(fillSqe(&entry.sqe, SendWr(IBV_WR_LOCAL_INV, 0), limits), EOPNOTSUPP);
}

TEST(FillRqe, CopiesTheList) {
  std::array<ibv_sge, 3> list = {{{0x1000, 10, 1}, {0x2000, 20, 2}, {0, 0, 0}}};
  ibv_recv_wr wr = {};
  wr.wr_id = 42;
  wr.sg_list = list.data();
  wr.num_sge = 2;
  struct {
    kiwarp_rqe rqe;
    std::array<kiwarp_sge, 2> sge;
  } entry = {};
  entry.rqe.rsvd = 1;
  ASSERT_EQ(fillRqe(&entry.rqe, wr, kLimits), 0);
  EXPECT_EQ(entry.rqe.wr_id, 42U);
  EXPECT_EQ(entry.rqe.num_sge, 2U);
  EXPECT_EQ(entry.rqe.rsvd, 0U);
  EXPECT_EQ(entry.sge[1].addr, 0x2000U);
  EXPECT_EQ(entry.sge[1].length, 20U);
  EXPECT_EQ(entry.sge[1].lkey, 2U);
  wr.num_sge = 3;
  EXPECT_EQ(fillRqe(&entry.rqe, wr, kLimits), EINVAL);
  wr.num_sge = -1;
  EXPECT_EQ(fillRqe(&entry.rqe, wr, kLimits), EINVAL);
}

TEST(FillWc, CarriesEverything) {
  kiwarp_cqe cqe = {};
  cqe.wr_id = 0x1122334455667788;
  cqe.opcode = KIWARP_OP_RECV;
  cqe.status = IBV_WC_REM_ACCESS_ERR;
  cqe.byte_len = 1U << 31;
  cqe.qp_id = 17;
  cqe.vendor_err = 99;
  cqe.inv_stag = 1234;
  ibv_wc wc;
  std::memset(&wc, 0xa5, sizeof(wc));
  fillWc(&wc, cqe);
  EXPECT_EQ(wc.wr_id, 0x1122334455667788U);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(wc.byte_len, 1U << 31);
  EXPECT_EQ(wc.qp_num, 17U);
  EXPECT_EQ(wc.vendor_err, 99U);
  EXPECT_EQ(wc.wc_flags, 0U);
  EXPECT_EQ(wc.invalidated_rkey, 0U) << "nobody was invalidated";

  cqe.flags = KIWARP_CQE_WITH_INV | KIWARP_CQE_SOLICITED;
  fillWc(&wc, cqe);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_WITH_INV));
  EXPECT_EQ(wc.invalidated_rkey, 1234U);
}

TEST(FillWc, Immediate) {
  kiwarp_cqe cqe = {};
  cqe.opcode = KIWARP_OP_RECV;
  cqe.flags = KIWARP_CQE_WITH_IMM;
  cqe.byte_len = 4096;
  cqe.imm_data = 0x04030201;
  ibv_wc wc;
  fillWc(&wc, cqe);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_WITH_IMM));
  EXPECT_EQ(wc.imm_data, 0x04030201U);
  EXPECT_EQ(wc.byte_len, 4096U);
}

TEST(FillWc, MapsOpcodes) {
  for (auto [from, to] :
       {std::pair{KIWARP_OP_SEND, IBV_WC_SEND}, std::pair{KIWARP_OP_SEND_INV, IBV_WC_SEND},
        std::pair{KIWARP_OP_WRITE, IBV_WC_RDMA_WRITE}, std::pair{KIWARP_OP_READ, IBV_WC_RDMA_READ},
        std::pair{KIWARP_OP_WRITE_IMM, IBV_WC_RDMA_WRITE},
        std::pair{KIWARP_OP_SEND_IMM, IBV_WC_SEND},
        std::pair{KIWARP_OP_FETCH_ADD, IBV_WC_FETCH_ADD},
        std::pair{KIWARP_OP_CMP_SWAP, IBV_WC_COMP_SWAP}, std::pair{KIWARP_OP_RECV, IBV_WC_RECV},
        std::pair{KIWARP_OP_LOCAL_INV, IBV_WC_LOCAL_INV},
        std::pair{KIWARP_OP_BIND_MW, IBV_WC_BIND_MW}}) {
    kiwarp_cqe cqe = {};
    cqe.opcode = from;
    ibv_wc wc;
    fillWc(&wc, cqe);
    EXPECT_EQ(wc.opcode, to);
  }
}

}  // namespace
}  // namespace kiwarp::test
