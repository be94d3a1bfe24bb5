// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <cstring>

#include "check.h"
#include "wire/mpa.h"

// Every four bytes are valid enhanced data and come back unchanged.
extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  if (size < KW_MPA_ENH_LEN) return 0;

  kw_mpa_enh enh{};
  kw_mpa_enh_parse(data, &enh);
  KW_CHECK(enh.ird <= KW_MPA_DEPTH_MASK && enh.ord <= KW_MPA_DEPTH_MASK);

  u8 again[KW_MPA_ENH_LEN] = {};
  KW_CHECK(kw_mpa_enh_build(again, &enh) == KW_MPA_ENH_LEN);
  KW_CHECK(std::memcmp(again, data, KW_MPA_ENH_LEN) == 0);
  return 0;
}
