// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <cstring>
#include <vector>

#include "check.h"
#include "wire/mpa.h"

namespace {

// The frame arrives byte by byte. While bytes are missing the parser says how many, and never more
// than the frame turns out to have. Once it has refused or accepted it does not change its result.
int parseByPieces(const u8* data, size_t size, u8 kinds, kw_mpa_frame* out) {
  int rc = KW_MPA_START_LEN;
  size_t most = 0;
  for (size_t len = 1; len <= size; len++) {
    // A copy of its own for each length lets ASan see a read behind what has arrived.
    const std::vector<u8> arrived(data, data + len);
    const int now = kw_mpa_frame_parse(arrived.data(), len, kinds, out);
    if (rc > 0) {
      if (now > 0) {
        const size_t whole = len + static_cast<size_t>(now);
        KW_CHECK(whole == KW_MPA_START_LEN || whole == KW_MPA_FRAME_LEN);
        KW_CHECK(whole >= most);
        most = whole;
      }
      KW_CHECK(now != 0 || len == kw_mpa_frame_len(out->kind));
    } else {
      KW_CHECK(now == rc);
    }
    rc = now;
  }
  return rc;
}

bool revisionFits(const kw_mpa_frame& f) {
  const bool zero = f.kind == KW_MPA_START || f.kind == KW_MPA_PRIV;
  return f.rev <= (zero ? 0 : 2);
}

void check(const u8* data, size_t size, u8 kinds) {
  kw_mpa_frame f{};
  const int rc = parseByPieces(data, size, kinds, &f);
  KW_CHECK(rc >= KW_MPA_BAD_PD_LEN && rc <= static_cast<int>(KW_MPA_FRAME_LEN));
  if (rc != 0) return;

  KW_CHECK((f.kind & kinds) != 0 && (f.kind & (f.kind - 1)) == 0);
  KW_CHECK(revisionFits(f));
  KW_CHECK(f.pd_len <= KW_MPA_PD_MAX);
  KW_CHECK(!f.enhanced || (f.rev == 2 && f.pd_len >= KW_MPA_ENH_LEN));
  KW_CHECK(!f.reject || f.kind == KW_MPA_REP || f.kind == KW_MPA_PRIV);

  u8 again[KW_MPA_FRAME_LEN] = {};
  const size_t len = kw_mpa_frame_len(f.kind);
  const size_t flags = f.kind == KW_MPA_START ? KW_MPA_START_LEN - 1 : KW_MPA_KEY_LEN;
  KW_CHECK(kw_mpa_frame_build(again, &f) == len);
  // All but the flags, whose reserved bits are dropped, is unchanged.
  KW_CHECK(std::memcmp(again, data, flags) == 0);
  KW_CHECK((again[flags] & ~data[flags]) == 0);
  KW_CHECK(std::memcmp(again + flags + 1, data + flags + 1, len - flags - 1) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  // More than the frame is private data, which the parser does not see.
  if (size > KW_MPA_FRAME_LEN + 4) size = KW_MPA_FRAME_LEN + 4;
  // What a listener waits for, and each kind alone.
  for (unsigned kinds : {KW_MPA_REQ | KW_MPA_START | KW_MPA_PRIV, +KW_MPA_REQ, +KW_MPA_REP,
                         +KW_MPA_START, +KW_MPA_PRIV})
    check(data, size, static_cast<u8>(kinds));
  return 0;
}
