// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <cstring>

#include "check.h"
#include "wire/term.h"

// A message that is read and written again says the same, in no more bytes than it had.
extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  kw_term t;
  std::memset(&t, 0xa5, sizeof(t));
  const int rc = kw_term_parse(data, size, &t);
  KW_CHECK(rc <= 0 && rc >= KW_TERM_BAD_FLAGS);
  KW_CHECK((rc == KW_TERM_SHORT) == (size < KW_TERM_CTRL_LEN));
  if (rc == KW_TERM_SHORT) return 0;

  const u16 code = kw_term_get_code(&t);
  KW_CHECK(code == get_unaligned_be16(data));
  KW_CHECK(std::strlen(kw_term_str(code)) > 0);
  const u16 meant = kw_term_unswap(code);
  KW_CHECK(kw_term_unswap(meant) == meant);
  if (rc != 0) return 0;

  u8 again[KW_TERM_MAX_LEN];
  const size_t len = kw_term_build(again, &t);
  KW_CHECK(len <= size && len <= sizeof(again));
  // R is dropped where there was no Read Request; the reserved bits always.
  KW_CHECK((again[2] & ~data[2]) == 0);
  KW_CHECK(std::memcmp(again + KW_TERM_CTRL_LEN, data + KW_TERM_CTRL_LEN, len - KW_TERM_CTRL_LEN) ==
           0);

  kw_term twice;
  KW_CHECK(kw_term_parse(again, len, &twice) == 0);
  KW_CHECK(std::memcmp(&twice, &t, sizeof(t)) == 0);
  return 0;
}
