// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <cstring>

#include "check.h"
#include "wire/ddp.h"

// A header that is read and written again is the same but for the reserved bits.
extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  if (size == 0) return 0;
  const u32 len = kw_ddp_hdr_len(data[0]);
  if (size < len) return 0;

  kw_ddp_hdr h{};
  kw_ddp_parse(data, &h);

  u8 again[KW_DDP_HDR_MAX] = {};
  if (h.tagged) {
    kw_ddp_put_tagged(again, h.last, h.rsvd_ulp_ctrl, h.stag, h.to);
  } else {
    kw_ddp_put_untagged(again, h.last, h.rsvd_ulp_ctrl, h.ulp_dword, h.qn, h.msn, h.mo);
  }
  KW_CHECK(((again[0] ^ data[0]) & (KW_DDP_CTRL_TAGGED | KW_DDP_CTRL_LAST)) == 0);
  KW_CHECK((h.dv == KW_DDP_VERSION) == (((again[0] ^ data[0]) & KW_DDP_CTRL_DV_MASK) == 0));
  KW_CHECK(std::memcmp(again + 1, data + 1, len - 1) == 0);
  return 0;
}
