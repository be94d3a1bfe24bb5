// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <cstring>

#include "check.h"
#include "wire/rdmap.h"

namespace {

void checkReadReq(const u8* body) {
  kw_read_req req{};
  u8 again[KW_READ_REQ_LEN] = {};
  kw_read_req_parse(body, &req);
  KW_CHECK(kw_read_req_build(again, &req) == KW_READ_REQ_LEN);
  KW_CHECK(std::memcmp(again, body, KW_READ_REQ_LEN) == 0);
}

void checkAtomicReq(const u8* body) {
  kw_atomic_req req{};
  u8 again[KW_ATOMIC_REQ_LEN] = {};
  kw_atomic_req_parse(body, &req);
  KW_CHECK(req.op <= 0x0f);
  KW_CHECK(kw_atomic_req_build(again, &req) == KW_ATOMIC_REQ_LEN);
  KW_CHECK(again[3] == (body[3] & 0x0f));
  KW_CHECK(std::memcmp(again + 4, body + 4, KW_ATOMIC_REQ_LEN - 4) == 0);
}

void checkAtomicResp(const u8* body) {
  kw_atomic_resp resp{};
  u8 again[KW_ATOMIC_RESP_LEN] = {};
  kw_atomic_resp_parse(body, &resp);
  KW_CHECK(kw_atomic_resp_build(again, &resp) == KW_ATOMIC_RESP_LEN);
  KW_CHECK(std::memcmp(again, body, KW_ATOMIC_RESP_LEN) == 0);
}

}  // namespace

// The first byte is RDMAP's control byte, the rest the message's body.
extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  if (size == 0) return 0;
  KW_CHECK(kw_rdmap_rv(data[0]) <= 3);
  const u8 op = kw_rdmap_op(data[0]);
  const kw_rdmap_op_info& info = kw_rdmap_ops[op];
  if (!info.valid || size - 1 < info.body_len) return 0;

  const u8* body = data + 1;
  if (op == KW_RDMAP_READ_REQ) checkReadReq(body);
  if (op == KW_RDMAP_ATOMIC_REQ) checkAtomicReq(body);
  if (op == KW_RDMAP_ATOMIC_RESP) checkAtomicResp(body);
  return 0;
}
