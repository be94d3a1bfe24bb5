// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "wire/mpa.h"

#include <gtest/gtest.h>

#include <cstring>

#include "bytes.h"

namespace kiwarp::test {
namespace {

const Bytes kReqKey = hex("4d504120494420526571204672616d65");
const Bytes kRepKey = hex("4d504120494420526570204672616d65");
// Fifteen bytes: the flags take the sixteenth.
const Bytes kStartKey = hex("4d5041206964656e74206672616d65");
const Bytes kPrivKey = hex("4d504120707269766174652064617461");

int parse(const Bytes& bytes, unsigned kinds, kw_mpa_frame* out) {
  // An empty vector has no address, and memcmp requires one.
  static const u8 nothing = 0;
  return kw_mpa_frame_parse(bytes.empty() ? &nothing : bytes.data(), bytes.size(),
                            static_cast<u8>(kinds), out);
}

int parse(const Bytes& bytes, unsigned kinds) {
  kw_mpa_frame ignored{};
  return parse(bytes, kinds, &ignored);
}

Bytes build(const kw_mpa_frame& f) {
  return built(KW_MPA_FRAME_LEN, [&](u8* p) { return kw_mpa_frame_build(p, &f); });
}

TEST(MpaFrame, WritesRequestAndReply) {
  EXPECT_EQ(build({.kind = KW_MPA_REQ,
                   .rev = 1,
                   .markers = false,
                   .crc = true,
                   .large_fpdu = false,
                   .reject = false,
                   .enhanced = false,
                   .pd_len = 0}),
            kReqKey + hex("40 01 0000"));
  EXPECT_EQ(build({.kind = KW_MPA_REP,
                   .rev = 2,
                   .markers = true,
                   .crc = false,
                   .large_fpdu = false,
                   .reject = true,
                   .enhanced = true,
                   .pd_len = 512}),
            kRepKey + hex("b0 02 0200"));
}

TEST(MpaFrame, ReadsRequest) {
  kw_mpa_frame f{};
  ASSERT_EQ(parse(kReqKey + hex("d0 02 0104"), KW_MPA_REQ, &f), 0);
  EXPECT_EQ(f.kind, KW_MPA_REQ);
  EXPECT_EQ(f.rev, 2);
  EXPECT_TRUE(f.markers);
  EXPECT_TRUE(f.crc);
  EXPECT_FALSE(f.reject);
  EXPECT_TRUE(f.enhanced);
  EXPECT_EQ(f.pd_len, 0x104);
}

TEST(MpaFrame, ReadsReply) {
  kw_mpa_frame f{};
  ASSERT_EQ(parse(kRepKey + hex("20 01 0200") + Bytes(512), KW_MPA_REP, &f), 0);
  EXPECT_EQ(f.kind, KW_MPA_REP);
  EXPECT_EQ(f.rev, 1);
  EXPECT_FALSE(f.markers);
  EXPECT_FALSE(f.crc);
  EXPECT_TRUE(f.reject);
  EXPECT_FALSE(f.enhanced);
  EXPECT_EQ(f.pd_len, 512);
}

TEST(MpaFrame, EveryFlagComesBack) {
  for (u8 kind : {KW_MPA_REQ, KW_MPA_REP}) {
    for (unsigned bits = 0; bits < 32; bits++) {
      const kw_mpa_frame in{.kind = kind,
                            .rev = 2,
                            .markers = (bits & 1) != 0,
                            .crc = (bits & 2) != 0,
                            .large_fpdu = (bits & 16) != 0,
                            .reject = kind == KW_MPA_REP && (bits & 4) != 0,
                            .enhanced = (bits & 8) != 0,
                            .pd_len = 7};
      kw_mpa_frame out{};
      ASSERT_EQ(parse(build(in), kind, &out), 0);
      EXPECT_EQ(out.markers, in.markers);
      EXPECT_EQ(out.crc, in.crc);
      EXPECT_EQ(out.large_fpdu, in.large_fpdu);
      EXPECT_EQ(out.reject, in.reject);
      EXPECT_EQ(out.enhanced, in.enhanced);
      EXPECT_EQ(out.pd_len, 7);
    }
  }
}

TEST(MpaFrame, SaysHowManyBytesAreMissing) {
  const Bytes whole = kReqKey + hex("40 01 0000");
  for (size_t len = 0; len < whole.size(); len++) {
    EXPECT_EQ(parse(Bytes(whole.begin(), whole.begin() + static_cast<long>(len)), KW_MPA_REQ),
              static_cast<int>(KW_MPA_FRAME_LEN - len));
  }
}

TEST(MpaFrame, FindsAWrongKeyAtItsFirstWrongByte) {
  for (size_t wrong = 0; wrong < KW_MPA_KEY_LEN; wrong++) {
    Bytes bytes = kReqKey + hex("40 01 0000");
    bytes[wrong] ^= 0x20;
    for (size_t len = 0; len <= bytes.size(); len++) {
      const Bytes prefix(bytes.begin(), bytes.begin() + static_cast<long>(len));
      EXPECT_EQ(parse(prefix, KW_MPA_REQ),
                len > wrong ? KW_MPA_BAD_KEY : static_cast<int>(KW_MPA_FRAME_LEN - len))
          << "wrong byte " << wrong << " length " << len;
    }
  }
}

TEST(MpaFrame, TheOtherKindIsAWrongKey) {
  EXPECT_EQ(parse(kReqKey + hex("40 01 0000"), KW_MPA_REP), KW_MPA_BAD_KEY);
  EXPECT_EQ(parse(kRepKey + hex("40 01 0000"), KW_MPA_REQ), KW_MPA_BAD_KEY);
  // They differ from the tenth byte on, the last letter of "Req" and "Rep".
  EXPECT_EQ(parse(Bytes(kReqKey.begin(), kReqKey.begin() + 9), KW_MPA_REP), 11);
  EXPECT_EQ(parse(Bytes(kReqKey.begin(), kReqKey.begin() + 10), KW_MPA_REP), KW_MPA_BAD_KEY);
}

TEST(MpaFrame, UnknownRevision) {
  for (unsigned rev = 0; rev < 256; rev++) {
    Bytes bytes = kReqKey + hex("40 00 0000");
    bytes[17] = static_cast<u8>(rev);
    kw_mpa_frame f{};
    const int rc = parse(bytes, KW_MPA_REQ, &f);
    EXPECT_EQ(rc, rev <= 2 ? 0 : KW_MPA_BAD_REV) << rev;
    EXPECT_EQ(f.rev, rev);
  }
}

TEST(MpaFrame, PrivateDataLength) {
  EXPECT_EQ(parse(kReqKey + hex("40 01 0200"), KW_MPA_REQ), 0);
  EXPECT_EQ(parse(kReqKey + hex("40 01 0201"), KW_MPA_REQ), KW_MPA_BAD_PD_LEN);
  EXPECT_EQ(parse(kReqKey + hex("40 01 ffff"), KW_MPA_REQ), KW_MPA_BAD_PD_LEN);
}

TEST(MpaFrame, EnhancedDataMustFit) {
  EXPECT_EQ(parse(kReqKey + hex("50 02 0003"), KW_MPA_REQ), KW_MPA_BAD_PD_LEN);
  EXPECT_EQ(parse(kReqKey + hex("50 02 0004"), KW_MPA_REQ), 0);
  EXPECT_EQ(parse(kReqKey + hex("40 02 0003"), KW_MPA_REQ), 0);
}

TEST(MpaFrame, RevisionIsJudgedBeforePrivateDataLength) {
  EXPECT_EQ(parse(kReqKey + hex("40 03 ffff"), KW_MPA_REQ), KW_MPA_BAD_REV);
}

TEST(MpaFrame, ReservedBitsAreNotLookedAt) {
  kw_mpa_frame f{};
  // R in a request; S, with a length too small for it, in revision 1.
  ASSERT_EQ(parse(kReqKey + hex("37 01 0000"), KW_MPA_REQ, &f), 0);
  EXPECT_FALSE(f.markers);
  EXPECT_FALSE(f.large_fpdu);
  EXPECT_FALSE(f.crc);
  EXPECT_FALSE(f.reject);
  EXPECT_FALSE(f.enhanced);
}

Bytes buildStart(bool markers, bool crc) {
  kw_mpa_frame f{};
  f.kind = KW_MPA_START;
  f.markers = markers;
  f.crc = crc;
  return built(KW_MPA_START_LEN, [&](u8* p) { return kw_mpa_frame_build(p, &f); });
}

// draft-culley-iwarp-mpa-03 section 8.1.1.
TEST(MpaStartKey, Writes) {
  EXPECT_EQ(buildStart(false, false), kStartKey + hex("00"));
  EXPECT_EQ(buildStart(true, false), kStartKey + hex("80"));
  EXPECT_EQ(buildStart(false, true), kStartKey + hex("40"));
  EXPECT_EQ(buildStart(true, true), kStartKey + hex("c0"));
}

TEST(MpaStartKey, EveryFlagByte) {
  for (unsigned flags = 0; flags < 256; flags++) {
    kw_mpa_frame f{};
    Bytes bytes = kStartKey + hex("00");
    bytes[15] = static_cast<u8>(flags);
    const unsigned rev = flags & 7;
    EXPECT_EQ(parse(bytes, KW_MPA_START, &f), rev ? KW_MPA_BAD_REV : 0) << flags;
    EXPECT_EQ(f.kind, KW_MPA_START);
    EXPECT_EQ(f.rev, rev);
    EXPECT_EQ(f.markers, (flags & 0x80) != 0);
    EXPECT_EQ(f.crc, (flags & 0x40) != 0);
    // All else is for other frames, or reserved.
    EXPECT_FALSE(f.large_fpdu || f.reject || f.enhanced);
    EXPECT_EQ(f.pd_len, 0);
  }
}

TEST(MpaStartKey, SaysHowManyBytesAreMissing) {
  const Bytes whole = kStartKey + hex("40");
  for (size_t len = 0; len < whole.size(); len++) {
    EXPECT_EQ(parse(Bytes(whole.begin(), whole.begin() + static_cast<long>(len)), KW_MPA_START),
              static_cast<int>(KW_MPA_START_LEN - len));
  }
}

// Streaming-mode private data of revision 0; Documentation/protocol.md has the layout.
TEST(MpaPrivateData, Writes) {
  kw_mpa_frame f{};
  f.kind = KW_MPA_PRIV;
  f.pd_len = 0x1ff;
  // M, C and the rest go with the Start Key.
  f.markers = f.crc = f.large_fpdu = f.enhanced = true;
  EXPECT_EQ(build(f), kPrivKey + hex("00 00 01ff"));
  f.reject = true;
  EXPECT_EQ(build(f), kPrivKey + hex("20 00 01ff"));
}

TEST(MpaPrivateData, Reads) {
  kw_mpa_frame f{};
  ASSERT_EQ(parse(kPrivKey + hex("ff 00 0003") + hex("aabbcc"), KW_MPA_PRIV, &f), 0);
  EXPECT_EQ(f.kind, KW_MPA_PRIV);
  EXPECT_EQ(f.rev, 0);
  EXPECT_TRUE(f.reject);
  EXPECT_FALSE(f.markers || f.crc || f.large_fpdu || f.enhanced);
  EXPECT_EQ(f.pd_len, 3);
  ASSERT_EQ(parse(kPrivKey + hex("df 00 0200"), KW_MPA_PRIV, &f), 0);
  EXPECT_FALSE(f.reject);
  EXPECT_EQ(parse(kPrivKey + hex("00 00 0201"), KW_MPA_PRIV), KW_MPA_BAD_PD_LEN);
  EXPECT_EQ(parse(kPrivKey + hex("00 01 0000"), KW_MPA_PRIV), KW_MPA_BAD_REV);
}

constexpr unsigned kListener = KW_MPA_REQ | KW_MPA_START | KW_MPA_PRIV;

TEST(MpaListener, KnowsEachKindByItsKey) {
  const struct {
    Bytes bytes;
    u8 kind;
    u8 rev;
  } cases[] = {{kReqKey + hex("40 01 0000"), KW_MPA_REQ, 1},
               {kReqKey + hex("40 02 0000"), KW_MPA_REQ, 2},
               {kStartKey + hex("40"), KW_MPA_START, 0},
               {kPrivKey + hex("00 00 0000"), KW_MPA_PRIV, 0}};
  for (const auto& c : cases) {
    kw_mpa_frame f{};
    EXPECT_EQ(parse(c.bytes, kListener, &f), 0);
    EXPECT_EQ(f.kind, c.kind);
    EXPECT_EQ(f.rev, c.rev);
    // Only kinds that are waited for.
    EXPECT_EQ(parse(c.bytes, kListener & ~c.kind), KW_MPA_BAD_KEY);
  }
  EXPECT_EQ(parse(kRepKey + hex("40 01 0000"), kListener), KW_MPA_BAD_KEY);
}

TEST(MpaListener, NeverAsksForMoreThanTheShortestFrameThatMayCome) {
  const Bytes start = kStartKey + hex("40");
  for (size_t len = 0; len < start.size(); len++) {
    const Bytes prefix(start.begin(), start.begin() + static_cast<long>(len));
    EXPECT_EQ(parse(prefix, kListener), static_cast<int>(KW_MPA_START_LEN - len)) << len;
  }
  const Bytes req = kReqKey + hex("40 01 0000");
  for (size_t len = 0; len < req.size(); len++) {
    const Bytes prefix(req.begin(), req.begin() + static_cast<long>(len));
    // "MPA " is common to all.
    const size_t whole = len <= 4 ? KW_MPA_START_LEN : KW_MPA_FRAME_LEN;
    EXPECT_EQ(parse(prefix, kListener), static_cast<int>(whole - len)) << len;
  }
}

Bytes build(const kw_mpa_enh& e) {
  return built(KW_MPA_ENH_LEN, [&](u8* p) { return kw_mpa_enh_build(p, &e); });
}

TEST(MpaEnhanced, Writes) {
  EXPECT_EQ(build({.p2p = true,
                   .rtr_send = false,
                   .rtr_write = true,
                   .rtr_read = true,
                   .ird = 16,
                   .ord = 0x1234}),
            hex("8010 d234"));
  EXPECT_EQ(build({.p2p = false,
                   .rtr_send = true,
                   .rtr_write = false,
                   .rtr_read = false,
                   .ird = KW_MPA_DEPTH_NONE,
                   .ord = 0}),
            hex("7fff 0000"));
}

TEST(MpaEnhanced, EachBitAlone) {
  const struct {
    const char* bytes;
    bool kw_mpa_enh::*flag;
  } cases[] = {{"80000000", &kw_mpa_enh::p2p},
               {"40000000", &kw_mpa_enh::rtr_send},
               {"00008000", &kw_mpa_enh::rtr_write},
               {"00004000", &kw_mpa_enh::rtr_read}};
  for (const auto& c : cases) {
    kw_mpa_enh e{};
    kw_mpa_enh_parse(hex(c.bytes).data(), &e);
    EXPECT_TRUE(e.*c.flag) << c.bytes;
    EXPECT_EQ(e.p2p + e.rtr_send + e.rtr_write + e.rtr_read, 1) << c.bytes;
    EXPECT_EQ(e.ird, 0) << c.bytes;
    EXPECT_EQ(e.ord, 0) << c.bytes;
    EXPECT_EQ(build(e), hex(c.bytes));
  }
}

TEST(MpaEnhanced, ReadsDepths) {
  kw_mpa_enh e{};
  kw_mpa_enh_parse(hex("3fff c102").data(), &e);
  EXPECT_FALSE(e.p2p);
  EXPECT_FALSE(e.rtr_send);
  EXPECT_TRUE(e.rtr_write);
  EXPECT_TRUE(e.rtr_read);
  EXPECT_EQ(e.ird, KW_MPA_DEPTH_NONE);
  EXPECT_EQ(e.ord, 0x102);
}

TEST(MpaEnhanced, ATooLargeDepthDoesNotSpillIntoTheFlags) {
  EXPECT_EQ(build({.p2p = false,
                   .rtr_send = false,
                   .rtr_write = false,
                   .rtr_read = false,
                   .ird = 0x4000,
                   .ord = 0xffff}),
            hex("3fff 3fff"));
}

}  // namespace
}  // namespace kiwarp::test
