// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "wire/term.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "bytes.h"

namespace kiwarp::test {
namespace {

const Bytes kTaggedHdr = hex("c140 01020304 1112131415161718");
const Bytes kSendHdr = hex("4143 00000000 00000000 00000001 00000000");
const Bytes kReadReqHdr = hex("4141 00000000 00000001 00000007 00000000");
const Bytes kReadReqBody = hex("a1a2a3a4 b1b2b3b4b5b6b7b8 c1c2c3c4 d1d2d3d4 e1e2e3e4e5e6e7e8");

int parse(const Bytes& bytes, kw_term* out) {
  return kw_term_parse(bytes.data(), bytes.size(), out);
}

Bytes build(const kw_term& t) {
  return built(KW_TERM_MAX_LEN, [&](u8* p) { return kw_term_build(p, &t); });
}

kw_term term(u16 packed) {
  kw_term t{};
  kw_term_set_code(&t, packed);
  return t;
}

void attach(kw_term* t, const Bytes& ddp_hdr, u16 seg_len) {
  t->has_len = t->has_ddp = true;
  t->seg_len = seg_len;
  t->ddp_hdr_len = static_cast<u8>(ddp_hdr.size());
  std::copy(ddp_hdr.begin(), ddp_hdr.end(), t->ddp_hdr);
}

Bytes ddpHdr(const kw_term& t) { return {t.ddp_hdr, t.ddp_hdr + t.ddp_hdr_len}; }
Bytes rrHdr(const kw_term& t) { return {t.rr_hdr, t.rr_hdr + KW_READ_REQ_LEN}; }

TEST(Term, CodeAlone) {
  const Bytes bytes = hex("2002 0000");
  EXPECT_EQ(build(term(KW_TERM_MPA_CRC)), bytes);

  kw_term t{};
  ASSERT_EQ(parse(bytes, &t), 0);
  EXPECT_EQ(t.layer, KW_TERM_LAYER_LLP);
  EXPECT_EQ(t.type, 0);
  EXPECT_EQ(t.code, 2);
  EXPECT_EQ(kw_term_get_code(&t), KW_TERM_MPA_CRC);
  EXPECT_FALSE(t.has_len || t.has_ddp || t.has_rdmap);
}

TEST(Term, WithTaggedHeader) {
  const Bytes bytes = hex("1101 c000 0030") + kTaggedHdr;
  kw_term t = term(KW_TERM_DDP_TAGGED_BOUNDS);
  attach(&t, kTaggedHdr, 0x30);
  EXPECT_EQ(build(t), bytes);

  kw_term back{};
  ASSERT_EQ(parse(bytes, &back), 0);
  EXPECT_EQ(kw_term_get_code(&back), KW_TERM_DDP_TAGGED_BOUNDS);
  EXPECT_TRUE(back.has_len);
  EXPECT_EQ(back.seg_len, 0x30);
  EXPECT_TRUE(back.has_ddp);
  EXPECT_EQ(ddpHdr(back), kTaggedHdr);
  EXPECT_FALSE(back.has_rdmap);
}

TEST(Term, WithUntaggedHeader) {
  const Bytes bytes = hex("1202 c000 1234") + kSendHdr;
  kw_term t = term(KW_TERM_DDP_UNTAGGED_NO_BUFFER);
  attach(&t, kSendHdr, 0x1234);
  EXPECT_EQ(build(t), bytes);

  kw_term back{};
  ASSERT_EQ(parse(bytes, &back), 0);
  EXPECT_EQ(back.seg_len, 0x1234);
  EXPECT_EQ(ddpHdr(back), kSendHdr);
  EXPECT_FALSE(back.has_rdmap);
}

TEST(Term, WithReadRequest) {
  const Bytes bytes = hex("0102 e000 002e") + kReadReqHdr + kReadReqBody;
  ASSERT_EQ(bytes.size(), size_t{KW_TERM_MAX_LEN});
  kw_term t = term(KW_TERM_RDMAP_ACCESS);
  attach(&t, kReadReqHdr, 46);
  t.has_rdmap = true;
  std::copy(kReadReqBody.begin(), kReadReqBody.end(), t.rr_hdr);
  EXPECT_EQ(build(t), bytes);

  kw_term back{};
  ASSERT_EQ(parse(bytes, &back), 0);
  EXPECT_EQ(kw_term_get_code(&back), KW_TERM_RDMAP_ACCESS);
  EXPECT_EQ(back.seg_len, 46);
  EXPECT_EQ(ddpHdr(back), kReadReqHdr);
  EXPECT_TRUE(back.has_rdmap);
  EXPECT_EQ(rrHdr(back), kReadReqBody);
}

kw_term described(u16 packed, const Bytes& ddp_hdr, const u8* read_req) {
  kw_term t;
  std::fill_n(reinterpret_cast<u8*>(&t), sizeof(t), kGuard);
  kw_term_set(&t, packed, 0x2e, ddp_hdr.empty() ? nullptr : ddp_hdr.data(), read_req);
  return t;
}

TEST(TermSet, DdpErrorsQuoteTheDdpHeader) {
  EXPECT_EQ(build(described(KW_TERM_DDP_TAGGED_BOUNDS, kTaggedHdr, nullptr)),
            hex("1101 c000 002e") + kTaggedHdr);
  EXPECT_EQ(build(described(KW_TERM_DDP_UNTAGGED_NO_BUFFER, kSendHdr, nullptr)),
            hex("1202 c000 002e") + kSendHdr);
  // DDP does not read what is behind its header.
  EXPECT_EQ(build(described(KW_TERM_DDP_UNTAGGED_NO_BUFFER, kReadReqHdr, kReadReqBody.data())),
            hex("1202 c000 002e") + kReadReqHdr);
}

TEST(TermSet, RdmapErrorsQuoteTheReadRequestToo) {
  EXPECT_EQ(build(described(KW_TERM_RDMAP_BOUNDS, kReadReqHdr, kReadReqBody.data())),
            hex("0101 e000 002e") + kReadReqHdr + kReadReqBody);
  EXPECT_EQ(build(described(KW_TERM_RDMAP_OPCODE, kSendHdr, nullptr)),
            hex("0206 c000 002e") + kSendHdr);
}

TEST(TermSet, ACatastropheAndTheLayerBelowQuoteNothing) {
  for (u16 packed : {KW_TERM_RDMAP_CATASTROPHIC, KW_TERM_DDP_CATASTROPHIC, KW_TERM_MPA_CRC,
                     KW_TERM_MPA_MARKER, KW_TERM_MPA_NO_IRD}) {
    EXPECT_EQ(build(described(packed, kReadReqHdr, kReadReqBody.data())), build(term(packed)));
  }
}

TEST(TermSet, WithoutASegmentAtFault) {
  EXPECT_EQ(build(described(KW_TERM_RDMAP_OPCODE, {}, nullptr)), hex("0206 0000"));
}

TEST(Term, HeaderWithoutLength) {
  kw_term t = term(KW_TERM_RDMAP_OPCODE);
  attach(&t, kSendHdr, 0);
  t.has_len = false;
  EXPECT_EQ(build(t), hex("0206 4000") + kSendHdr);

  kw_term back{};
  ASSERT_EQ(parse(build(t), &back), 0);
  EXPECT_FALSE(back.has_len);
  EXPECT_EQ(ddpHdr(back), kSendHdr);
}

TEST(Term, LengthWithoutHeader) {
  kw_term back{};
  ASSERT_EQ(parse(hex("0206 8000 0012"), &back), 0);
  EXPECT_TRUE(back.has_len);
  EXPECT_EQ(back.seg_len, 0x12);
  EXPECT_FALSE(back.has_ddp);
}

TEST(Term, TooShortForTheControlField) {
  for (size_t len = 0; len < KW_TERM_CTRL_LEN; len++) {
    kw_term t = term(0x7fff);
    EXPECT_EQ(kw_term_parse(hex("20020000").data(), len, &t), KW_TERM_SHORT) << len;
    EXPECT_EQ(kw_term_get_code(&t), 0) << "nothing of an earlier message may stay";
  }
}

TEST(Term, EveryTruncationIsFoundAndTheCodeKept) {
  for (const Bytes& whole :
       {hex("0102 e000 002e") + kReadReqHdr + kReadReqBody, hex("0102 c000 002e") + kSendHdr,
        hex("0102 c000 002e") + kTaggedHdr, hex("0102 4000") + kTaggedHdr, hex("0102 8000 002e")}) {
    for (size_t len = KW_TERM_CTRL_LEN; len < whole.size(); len++) {
      // A copy of just that many bytes: the sanitizer notices a read beyond it.
      const Bytes part(whole.begin(), whole.begin() + static_cast<long>(len));
      kw_term t{};
      EXPECT_EQ(parse(part, &t), KW_TERM_TRUNCATED) << len << " of " << whole.size();
      EXPECT_EQ(kw_term_get_code(&t), KW_TERM_RDMAP_ACCESS);
      EXPECT_FALSE(t.has_rdmap);
    }
    kw_term t{};
    EXPECT_EQ(parse(whole, &t), 0);
  }
}

TEST(Term, RdmapHeaderNeedsADdpHeader) {
  kw_term t{};
  EXPECT_EQ(parse(hex("0102 a000 002e") + kReadReqBody, &t), KW_TERM_BAD_FLAGS);
  EXPECT_EQ(parse(hex("0102 2000") + kReadReqBody, &t), KW_TERM_BAD_FLAGS);
  EXPECT_EQ(kw_term_get_code(&t), KW_TERM_RDMAP_ACCESS);
}

TEST(Term, OnlyAReadRequestHasAnRdmapHeader) {
  kw_term t{};
  ASSERT_EQ(parse(hex("0109 e000 0012") + kSendHdr, &t), 0);
  EXPECT_EQ(ddpHdr(t), kSendHdr);
  EXPECT_FALSE(t.has_rdmap);
  // A tagged segment that claims to be one is none, either: a Read Request is untagged.
  ASSERT_EQ(parse(hex("0109 e000 000e c141") + Bytes(12), &t), 0);
  EXPECT_FALSE(t.has_rdmap);
}

TEST(Term, BytesBehindAreIgnored) {
  kw_term t{};
  ASSERT_EQ(parse(hex("1100 c000 0012") + kTaggedHdr + hex("deadbeef"), &t), 0);
  EXPECT_EQ(ddpHdr(t), kTaggedHdr);
}

TEST(Term, ReservedBitsAreNotLookedAt) {
  kw_term t{};
  ASSERT_EQ(parse(hex("2002 1fff"), &t), 0);
  EXPECT_FALSE(t.has_len || t.has_ddp || t.has_rdmap);
}

// Every code by the numbers of the specifications: layer, type, code.
const std::map<u16, std::string> kCodes = {
    {0x0000, "RDMAP: local catastrophic error"},
    {0x0100, "RDMAP: invalid STag"},
    {0x0101, "RDMAP: base or bounds violation"},
    {0x0102, "RDMAP: access rights violation"},
    {0x0103, "RDMAP: STag not associated with the stream"},
    {0x0104, "RDMAP: tagged offset wraps"},
    {0x0109, "RDMAP: STag cannot be invalidated (protection)"},
    {0x01ff, "RDMAP: unspecified protection error"},
    {0x0205, "RDMAP: invalid RDMAP version"},
    {0x0206, "RDMAP: unexpected opcode"},
    {0x0207, "RDMAP: catastrophic error of the stream"},
    {0x0208, "RDMAP: catastrophic error of the device"},
    {0x0209, "RDMAP: STag cannot be invalidated (operation)"},
    {0x02ff, "RDMAP: unspecified operation error"},
    {0x1000, "DDP: local catastrophic error"},
    {0x1100, "DDP tagged: invalid STag"},
    {0x1101, "DDP tagged: base or bounds violation"},
    {0x1102, "DDP tagged: STag not associated with the stream"},
    {0x1103, "DDP tagged: tagged offset wraps"},
    {0x1104, "DDP tagged: invalid DDP version"},
    {0x1201, "DDP untagged: invalid queue number"},
    {0x1202, "DDP untagged: no buffer available for the MSN"},
    {0x1203, "DDP untagged: MSN out of range"},
    {0x1204, "DDP untagged: invalid message offset"},
    {0x1205, "DDP untagged: message too long for the buffer"},
    {0x1206, "DDP untagged: invalid DDP version"},
    {0x2001, "MPA: TCP connection closed, ended or lost"},
    {0x2002, "MPA: CRC mismatch"},
    {0x2003, "MPA: marker and ULPDU length disagree"},
    {0x2004, "MPA: invalid start-up frame"},
    {0x2005, "MPA: local catastrophic error"},
    {0x2006, "MPA: insufficient IRD"},
    {0x2007, "MPA: no matching RTR"},
};

TEST(TermCode, EveryCodeHasItsText) {
  for (unsigned packed = 0; packed <= 0xffff; packed++) {
    const auto code = kCodes.find(static_cast<u16>(packed));
    ASSERT_EQ(kw_term_str(static_cast<u16>(packed)),
              code == kCodes.end() ? "unknown error" : code->second)
        << packed;
  }
}

// The constants in the order of the numbers above.
constexpr u16 kConstants[] = {
    KW_TERM_RDMAP_CATASTROPHIC,
    KW_TERM_RDMAP_INV_STAG,
    KW_TERM_RDMAP_BOUNDS,
    KW_TERM_RDMAP_ACCESS,
    KW_TERM_RDMAP_STAG_NOT_ASSOC,
    KW_TERM_RDMAP_TO_WRAP,
    KW_TERM_RDMAP_PROT_CANT_INV,
    KW_TERM_RDMAP_PROT_UNSPEC,
    KW_TERM_RDMAP_VERSION,
    KW_TERM_RDMAP_OPCODE,
    KW_TERM_RDMAP_STREAM_CATASTROPHIC,
    KW_TERM_RDMAP_GLOBAL_CATASTROPHIC,
    KW_TERM_RDMAP_OP_CANT_INV,
    KW_TERM_RDMAP_OP_UNSPEC,
    KW_TERM_DDP_CATASTROPHIC,
    KW_TERM_DDP_TAGGED_INV_STAG,
    KW_TERM_DDP_TAGGED_BOUNDS,
    KW_TERM_DDP_TAGGED_STAG_NOT_ASSOC,
    KW_TERM_DDP_TAGGED_TO_WRAP,
    KW_TERM_DDP_TAGGED_VERSION,
    KW_TERM_DDP_UNTAGGED_INV_QN,
    KW_TERM_DDP_UNTAGGED_NO_BUFFER,
    KW_TERM_DDP_UNTAGGED_MSN_RANGE,
    KW_TERM_DDP_UNTAGGED_INV_MO,
    KW_TERM_DDP_UNTAGGED_TOO_LONG,
    KW_TERM_DDP_UNTAGGED_VERSION,
    KW_TERM_MPA_TCP_LOST,
    KW_TERM_MPA_CRC,
    KW_TERM_MPA_MARKER,
    KW_TERM_MPA_START_FRAME,
    KW_TERM_MPA_CATASTROPHIC,
    KW_TERM_MPA_NO_IRD,
    KW_TERM_MPA_NO_RTR,
};

TEST(TermCode, ConstantsHaveTheirNumbers) {
  ASSERT_EQ(std::size(kConstants), kCodes.size());
  size_t i = 0;
  for (const auto& [packed, text] : kCodes) EXPECT_EQ(kConstants[i++], packed) << text;
}

TEST(TermCode, SwappedNibblesAreReadWhereThatIsUnambiguous) {
  EXPECT_EQ(kw_term_unswap(0x0202), KW_TERM_MPA_CRC);
  EXPECT_EQ(kw_term_unswap(0x0201), KW_TERM_MPA_TCP_LOST);
  EXPECT_EQ(kw_term_unswap(0x0203), KW_TERM_MPA_MARKER);
  EXPECT_EQ(kw_term_unswap(0x1002), KW_TERM_RDMAP_ACCESS);
  EXPECT_EQ(kw_term_unswap(0x2106), KW_TERM_DDP_UNTAGGED_VERSION);
  EXPECT_EQ(kw_term_unswap(0x20ff), KW_TERM_RDMAP_OP_UNSPEC);
}

TEST(TermCode, ADefinedCodeIsTakenAtItsWord) {
  for (u16 packed : kConstants) EXPECT_EQ(kw_term_unswap(packed), packed);
}

TEST(TermCode, WhatIsUnknownBothWaysStays) {
  EXPECT_EQ(kw_term_unswap(0x020a), 0x020a);
  EXPECT_EQ(kw_term_unswap(0x3400), 0x3400);
  EXPECT_EQ(kw_term_unswap(0x1185), 0x1185);
}

}  // namespace
}  // namespace kiwarp::test
