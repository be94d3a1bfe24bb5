// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <cstring>
#include <vector>

#include "check.h"
#include "wire/mpa.h"

namespace {

// The frame arrives octet by octet. While octets are missing the parser says how many; once it
// has refused or accepted it stays with that.
int parseByPieces(const u8* data, size_t size, u8 kind, kw_mpa_frame* out) {
  int rc = KW_MPA_FRAME_LEN;
  for (size_t len = 1; len <= size; len++) {
    // A copy of its own for each length lets ASan see a read behind what has arrived.
    const std::vector<u8> arrived(data, data + len);
    const int now = kw_mpa_frame_parse(arrived.data(), len, kind, out);
    if (rc > 0) {
      KW_CHECK(now <= 0 || now == static_cast<int>(KW_MPA_FRAME_LEN - len));
    } else {
      KW_CHECK(now == rc);
    }
    rc = now;
  }
  return rc;
}

void check(const u8* data, size_t size, u8 kind) {
  kw_mpa_frame f{};
  const int rc = parseByPieces(data, size, kind, &f);
  KW_CHECK(rc >= KW_MPA_BAD_PD_LEN && rc <= static_cast<int>(KW_MPA_FRAME_LEN));
  if (rc != 0) return;

  KW_CHECK(f.kind == kind);
  KW_CHECK(f.rev == 1 || f.rev == 2);
  KW_CHECK(f.pd_len <= KW_MPA_PD_MAX);
  KW_CHECK(!f.enhanced || (f.rev == 2 && f.pd_len >= KW_MPA_ENH_LEN));
  KW_CHECK(!f.reject || kind == KW_MPA_REP);

  u8 again[KW_MPA_FRAME_LEN] = {};
  KW_CHECK(kw_mpa_frame_build(again, &f) == KW_MPA_FRAME_LEN);
  // All but the flags, whose reserved bits are dropped, is as it came.
  KW_CHECK(std::memcmp(again, data, KW_MPA_KEY_LEN) == 0);
  KW_CHECK((again[KW_MPA_KEY_LEN] & ~data[KW_MPA_KEY_LEN]) == 0);
  KW_CHECK(std::memcmp(again + KW_MPA_KEY_LEN + 1, data + KW_MPA_KEY_LEN + 1, 3) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  // More than the frame is private data, which the parser does not see.
  if (size > KW_MPA_FRAME_LEN + 4) size = KW_MPA_FRAME_LEN + 4;
  check(data, size, KW_MPA_REQ);
  check(data, size, KW_MPA_REP);
  return 0;
}
