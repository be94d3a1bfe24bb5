// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <gtest/gtest.h>

#include "bytes.h"
#include "wire/check.h"
#include "wire/term.h"

namespace kiwarp::test {
namespace {

TEST(Rdmap, ControlByte) {
  EXPECT_EQ(KW_RDMAP_CTRL(KW_RDMAP_WRITE), 0x40);
  EXPECT_EQ(KW_RDMAP_CTRL(KW_RDMAP_SEND), 0x43);
  EXPECT_EQ(KW_RDMAP_CTRL(KW_RDMAP_ATOMIC_RESP), 0x4b);
  for (unsigned byte = 0; byte < 256; byte++) {
    EXPECT_EQ(kw_rdmap_op(static_cast<u8>(byte)), byte % 16);
    EXPECT_EQ(kw_rdmap_rv(static_cast<u8>(byte)), byte / 64);
  }
}

struct OpRow {
  u8 op;
  bool tagged;
  u8 qn;
  u8 body_len;
};

constexpr OpRow kOps[] = {
    {0, true, 0, 0},  {1, false, 1, 28}, {2, true, 0, 0},    {3, false, 0, 0},
    {4, false, 0, 0}, {5, false, 0, 0},  {6, false, 0, 0},   {7, false, 2, 0},
    {8, false, 0, 8}, {9, false, 0, 8},  {10, false, 1, 52}, {11, false, 3, 12},
};

TEST(Rdmap, TableOfOpcodes) {
  for (const auto& row : kOps) {
    const kw_rdmap_op_info& info = kw_rdmap_ops[row.op];
    EXPECT_TRUE(info.valid) << int{row.op};
    EXPECT_EQ(info.tagged, row.tagged) << int{row.op};
    EXPECT_EQ(info.qn, row.qn) << int{row.op};
    EXPECT_EQ(info.body_len, row.body_len) << int{row.op};
  }
  for (int op = 12; op < KW_RDMAP_NR_OPS; op++) EXPECT_FALSE(kw_rdmap_ops[op].valid) << op;
}

u16 checkHeader(bool tagged, u8 ctrl, u32 qn, u8 version = KW_RDMAP_VERSION) {
  kw_ddp_hdr h{};
  h.tagged = tagged;
  h.dv = KW_DDP_VERSION;
  h.rsvd_ulp_ctrl = ctrl;
  h.qn = qn;
  return kw_rdmap_check_header(&h, version);
}

TEST(RdmapCheck, OnlyTheConnectionsVersionIsValid) {
  for (u8 version : {u8{0}, u8{1}}) {
    for (u8 rv = 0; rv < 4; rv++) {
      const u8 ctrl = static_cast<u8>(rv << 6 | KW_RDMAP_SEND);
      EXPECT_EQ(checkHeader(false, ctrl, KW_QN_SEND, version),
                rv == version ? 0 : KW_TERM_RDMAP_VERSION)
          << int{rv};
    }
  }
}

TEST(RdmapVersion, IsSetInBothFieldsAndNowhereElse) {
  for (u8 first : {u8{0x41}, u8{0xc1}, u8{0x01}}) {
    for (u8 op = 0; op < 12; op++) {
      u8 hdr[] = {first, KW_RDMAP_CTRL(op)};
      kw_rdmap_set_version(hdr, 0);
      EXPECT_EQ(hdr[0], first & 0xfc);
      EXPECT_EQ(hdr[1], op);
      kw_rdmap_set_version(hdr, 1);
      EXPECT_EQ(hdr[0], first);
      EXPECT_EQ(hdr[1], KW_RDMAP_CTRL(op));
    }
  }
}

TEST(RdmapCheck, ReservedBitsAreNotChecked) {
  EXPECT_EQ(checkHeader(false, 0x73, KW_QN_SEND), 0);
  EXPECT_EQ(checkHeader(true, 0x70, 0), 0);
}

TEST(RdmapCheck, EachOpcodeHasOneModelAndOneQueue) {
  for (u8 op = 0; op < KW_RDMAP_NR_OPS; op++) {
    const u8 ctrl = KW_RDMAP_CTRL(op);
    const kw_rdmap_op_info& info = kw_rdmap_ops[op];
    EXPECT_EQ(checkHeader(true, ctrl, 0) == 0, info.valid && info.tagged) << int{op};
    for (u32 qn = 0; qn < 5; qn++) {
      const bool fits = info.valid && !info.tagged && info.qn == qn;
      EXPECT_EQ(checkHeader(false, ctrl, qn), fits ? 0 : KW_TERM_RDMAP_OPCODE)
          << int{op} << " on queue " << qn;
    }
  }
}

TEST(RdmapCheck, TheVersionComesBeforeTheOpcode) {
  EXPECT_EQ(checkHeader(false, 0x8f, 0), KW_TERM_RDMAP_VERSION);
}

const Bytes kReadReq = hex("a1a2a3a4 b1b2b3b4b5b6b7b8 c1c2c3c4 d1d2d3d4 e1e2e3e4e5e6e7e8");

TEST(ReadRequest, Reads) {
  kw_read_req r{};
  kw_read_req_parse(kReadReq.data(), &r);
  EXPECT_EQ(r.sink_stag, 0xa1a2a3a4U);
  EXPECT_EQ(r.sink_to, 0xb1b2b3b4b5b6b7b8ULL);
  EXPECT_EQ(r.size, 0xc1c2c3c4U);
  EXPECT_EQ(r.src_stag, 0xd1d2d3d4U);
  EXPECT_EQ(r.src_to, 0xe1e2e3e4e5e6e7e8ULL);
}

TEST(ReadRequest, Writes) {
  const kw_read_req r{.sink_stag = 0xa1a2a3a4,
                      .size = 0xc1c2c3c4,
                      .sink_to = 0xb1b2b3b4b5b6b7b8,
                      .src_stag = 0xd1d2d3d4,
                      .src_to = 0xe1e2e3e4e5e6e7e8};
  EXPECT_EQ(built(KW_READ_REQ_LEN, [&](u8* p) { return kw_read_req_build(p, &r); }), kReadReq);
}

TEST(ImmediateData, BothWays) {
  const Bytes bytes = {1, 2, 3, 4, 0, 0, 0, 0};
  EXPECT_EQ(kw_imm_parse(bytes.data()), cpu_to_be32(0x01020304));
  EXPECT_EQ(built(KW_IMM_LEN, [](u8* p) { return kw_imm_build(p, cpu_to_be32(0x01020304)); }),
            bytes);
}

TEST(ImmediateData, TheOtherFourBytesAreNotLookedAt) {
  const Bytes bytes = {0xff, 0, 0, 7, 9, 9, 9, 9};
  EXPECT_EQ(kw_imm_parse(bytes.data()), cpu_to_be32(0xff000007));
}

const Bytes kAtomicReq =
    hex("00000002 01020304 a1a2a3a4 b1b2b3b4b5b6b7b8 c1c2c3c4c5c6c7c8 d1d2d3d4d5d6d7d8"
        "e1e2e3e4e5e6e7e8 f1f2f3f4f5f6f7f8");

TEST(AtomicRequest, Reads) {
  kw_atomic_req r{};
  kw_atomic_req_parse(kAtomicReq.data(), &r);
  EXPECT_EQ(r.op, KW_ATOMIC_CMP_SWAP);
  EXPECT_EQ(r.req_id, 0x01020304U);
  EXPECT_EQ(r.stag, 0xa1a2a3a4U);
  EXPECT_EQ(r.to, 0xb1b2b3b4b5b6b7b8ULL);
  EXPECT_EQ(r.add_swap, 0xc1c2c3c4c5c6c7c8ULL);
  EXPECT_EQ(r.add_swap_mask, 0xd1d2d3d4d5d6d7d8ULL);
  EXPECT_EQ(r.compare, 0xe1e2e3e4e5e6e7e8ULL);
  EXPECT_EQ(r.compare_mask, 0xf1f2f3f4f5f6f7f8ULL);
}

TEST(AtomicRequest, ReservedBitsAreNotLookedAt) {
  Bytes bytes = kAtomicReq;
  bytes[0] = bytes[1] = bytes[2] = 0xff;
  bytes[3] = 0xf0;
  kw_atomic_req r{};
  kw_atomic_req_parse(bytes.data(), &r);
  EXPECT_EQ(r.op, KW_ATOMIC_FETCH_ADD);
}

TEST(AtomicRequest, Writes) {
  kw_atomic_req r{.op = KW_ATOMIC_CMP_SWAP,
                  .req_id = 0x01020304,
                  .stag = 0xa1a2a3a4,
                  .to = 0xb1b2b3b4b5b6b7b8,
                  .add_swap = 0xc1c2c3c4c5c6c7c8,
                  .add_swap_mask = 0xd1d2d3d4d5d6d7d8,
                  .compare = 0xe1e2e3e4e5e6e7e8,
                  .compare_mask = 0xf1f2f3f4f5f6f7f8};
  const auto write = [&] {
    return built(KW_ATOMIC_REQ_LEN, [&](u8* p) { return kw_atomic_req_build(p, &r); });
  };
  EXPECT_EQ(write(), kAtomicReq);
  r.op = 0xf2;
  EXPECT_EQ(write(), kAtomicReq);
}

// The pseudocode of RFC 7306 section 5.1.1.
u64 addByTheBit(u64 original, u64 add, u64 mask) {
  u64 result = 0;
  unsigned carry = 0;
  for (unsigned bit = 0; bit < 64; bit++) {
    const u64 at = u64{1} << bit;
    const unsigned sum = carry + ((original & at) != 0 ? 1 : 0) + ((add & at) != 0 ? 1 : 0);
    if ((sum & 1) != 0) result |= at;
    carry = (sum >> 1) != 0 && (mask & at) == 0 ? 1 : 0;
  }
  return result;
}

TEST(AtomicResult, FetchAddHasFields) {
  const u64 values[] = {0,
                        1,
                        0xff,
                        0x8000000000000000,
                        ~u64{0},
                        0x7f80ff01ffffffff,
                        0xffffffff,
                        0x80000000U,
                        0x0123456789abcdef};
  const u64 masks[] = {0, ~u64{0}, 0x8080808080808080, 0x8000000080000000, u64{1} << 63, 1, 0x90};
  kw_atomic_req r{};
  r.op = KW_ATOMIC_FETCH_ADD;
  r.compare = 7;
  for (u64 original : values) {
    for (u64 add : values) {
      r.add_swap = add;
      for (u64 mask : masks) {
        r.add_swap_mask = mask;
        EXPECT_EQ(kw_atomic_result(&r, original), addByTheBit(original, add, mask))
            << std::hex << original << " + " << add << ", mask " << mask;
      }
      r.add_swap_mask = 0;
      EXPECT_EQ(kw_atomic_result(&r, original), original + add);
    }
  }
}

TEST(AtomicResult, CmpSwapComparesAndSwapsWhatTheMasksSay) {
  kw_atomic_req r{};
  r.op = KW_ATOMIC_CMP_SWAP;
  r.add_swap = 0xaabbccddeeff0011;
  r.add_swap_mask = ~u64{0};
  r.compare = 0x1122334455667788;
  r.compare_mask = ~u64{0};
  EXPECT_EQ(kw_atomic_result(&r, 0x1122334455667788), 0xaabbccddeeff0011);
  EXPECT_EQ(kw_atomic_result(&r, 0x1122334455667789), 0x1122334455667789U);
  r.compare_mask = ~u64{1};
  EXPECT_EQ(kw_atomic_result(&r, 0x1122334455667789), 0xaabbccddeeff0011);
  r.add_swap_mask = 0xff000000000000ff;
  EXPECT_EQ(kw_atomic_result(&r, 0x1122334455667789), 0xaa22334455667711U);
  r.compare_mask = 0;
  EXPECT_EQ(kw_atomic_result(&r, 0), 0xaa00000000000011U) << "a Swap";
}

TEST(AtomicResponse, BothWays) {
  const Bytes bytes = hex("01020304 a1a2a3a4a5a6a7a8");
  kw_atomic_resp r{};
  kw_atomic_resp_parse(bytes.data(), &r);
  EXPECT_EQ(r.req_id, 0x01020304U);
  EXPECT_EQ(r.orig, 0xa1a2a3a4a5a6a7a8ULL);
  EXPECT_EQ(built(KW_ATOMIC_RESP_LEN, [&](u8* p) { return kw_atomic_resp_build(p, &r); }), bytes);
}

}  // namespace
}  // namespace kiwarp::test
