// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "peer.h"

#include <algorithm>
#include <numeric>

#include "../check.h"
#include "queue_pair.h"
#include "wire/crc.h"

namespace rx {
namespace {

using shim::Bytes;

// With one record more it is still below the size that ASan's allocator maps anew each time.
constexpr size_t kMaxStream = 1 << 17;

// Bytes that can be written or read at this place of the stream before the next marker.
size_t toMarker(bool markers, size_t at) {
  return markers ? KW_MARKER_INTERVAL - at % KW_MARKER_INTERVAL : ~size_t{0};
}

// Payload: each byte is one more than the one before.
const u8* pattern(u8 first) {
  static const auto bytes = [] {
    std::array<u8, 0x10000 + 0x100> all{};
    std::iota(all.begin(), all.end(), u8{0});
    return all;
  }();
  return &bytes[first];
}

// Writes to `out`, and keeps what it needs from one input to the next: allocations are slow here.
class Peer {
 public:
  Peer(const Config& config, Bytes& out) : config_(config), out_(out) {}

  // Bytes of a record: what, where, offset, length, and a byte to change in which place.
  void record(Input& in) {
    const u8 what = in.next(), where = in.next(), at = in.next(), size = in.next();
    const u8 place = in.next(), change = in.next();
    const u8 op = what & 0x0f;
    target_ = (what & 0xe0) == 0xc0 ? static_cast<u8>(kBindable + where % (kStags - kBindable))
                                    : static_cast<u8>(where % kBindable);
    const bool last = (what & 0x10) == 0;
    u32 len = size < 200 ? size : size < 248 ? (size - 199U) * 50 : (size - 247U) * 8192;
    if (size == 255) len = 0xffff - KW_DDP_UNTAGGED_LEN;

    static Bytes ulpdu;
    const u32 body = op == KW_RDMAP_READ_REQ      ? u32{KW_READ_REQ_LEN}
                     : op == KW_RDMAP_ATOMIC_REQ  ? u32{KW_ATOMIC_REQ_LEN}
                     : op == KW_RDMAP_ATOMIC_RESP ? u32{KW_ATOMIC_RESP_LEN}
                     : op == KW_RDMAP_TERMINATE   ? std::min<u32>(len, KW_TERM_MAX_LEN)
                                                  : len;
    const size_t head = header(ulpdu, op, last, where, at, body);
    ulpdu.resize(head + body);
    message(ulpdu.data() + head, body, op, where, at, len);
    if (ulpdu.size() > 0xffff) ulpdu.resize(0xffff);
    if (change != 0) ulpdu[place % std::min<size_t>(ulpdu.size(), 48)] ^= change;
    // Fewer bytes than a header, now and then.
    if ((what & 0xe0) == 0x80) ulpdu.resize(std::min<size_t>(ulpdu.size(), at % 20));
    frame(ulpdu, (what & 0xe0) == 0x20, (what & 0xe0) == 0x40);
  }

 private:
  void message(u8* body, u32 n, u8 op, u8 where, u8 at, u32 len) {
    if (op == KW_RDMAP_READ_REQ) {
      const kw_read_req req = {.sink_stag = 77,
                               .size = len,
                               .sink_to = at,
                               .src_stag = stagOf(target_),
                               .src_to = baseOf(target_) + (where >> 3) * 16U};
      kw_read_req_build(body, &req);
      return;
    }
    if (op == KW_RDMAP_ATOMIC_REQ) {
      const kw_atomic_req req = {.op = static_cast<u8>(where >> 3 & 0x0f),
                                 .req_id = at,
                                 .stag = stagOf(target_),
                                 .to = baseOf(target_) + at,
                                 .add_swap = len,
                                 .add_swap_mask = u64{len} << 60,
                                 .compare = at,
                                 .compare_mask = len};
      kw_atomic_req_build(body, &req);
      return;
    }
    if (op == KW_RDMAP_ATOMIC_RESP) {
      const kw_atomic_resp resp = {.req_id = answered_, .orig = at};
      kw_atomic_resp_build(body, &resp);
      return;
    }
    std::copy_n(pattern(pattern_), n, body);
    pattern_ = static_cast<u8>(pattern_ + n);
    if (op != KW_RDMAP_TERMINATE) return;
    // Layer, type and code; the flags; then a header that names one of the Reads.
    const u8 flags[] = {at, where, static_cast<u8>(where << 5), 0, 0, 46, 0x41, 0x41};
    std::copy_n(flags, std::min<size_t>(n, sizeof(flags)), body);
    if (n > 19) put_unaligned_be32(KW_QN_READ_REQ, body + 12);
    if (n > 23) put_unaligned_be32(at % 8, body + 16);
  }

  // Returns how long it is.
  size_t header(Bytes& h, u8 op, bool last, u8 where, u8 at, u32 len) {
    const kw_rdmap_op_info& info = kw_rdmap_ops[op];
    const u8 ctrl = KW_RDMAP_CTRL(op);
    h.resize(info.tagged ? KW_DDP_TAGGED_LEN : KW_DDP_UNTAGGED_LEN);
    if (op == KW_RDMAP_READ_RESP) {
      const kiwarp_sge sink = readSink(read_);
      kw_ddp_put_tagged(h.data(), last, ctrl, sink.lkey, sink.addr + read_done_);
      read_done_ += len;
      if (last) {
        read_++;
        read_done_ = 0;
      }
    } else if (info.tagged) {
      const u64 off = (where & 0x80) != 0 ? lengthOf(target_) - at : at;
      kw_ddp_put_tagged(h.data(), last, ctrl, stagOf(target_), baseOf(target_) + off);
    } else {
      u32& msn = msn_[info.qn];
      u32& mo = mo_[info.qn];
      answered_ = read_;
      if (op == KW_RDMAP_ATOMIC_RESP && last) read_++;
      kw_ddp_put_untagged(h.data(), last, ctrl, stagOf(target_), info.qn, msn, mo);
      mo += len;
      if (last) {
        msn++;
        mo = 0;
      }
    }
    return h.size();
  }

  void put(const u8* p, size_t len) {
    while (len != 0) {
      marker();
      const size_t n = std::min(len, toMarker(config_.rx_markers, out_.size()));
      crc_ = kw_crc32c(crc_, p, n);
      out_.insert(out_.end(), p, p + n);
      p += n;
      len -= n;
    }
  }

  // A marker before the FPDU's first byte points nowhere; the FPDU starts behind it.
  void marker() {
    if (!config_.rx_markers || out_.size() % KW_MARKER_INTERVAL != 0) return;
    u8 m[KW_MARKER_LEN];
    const size_t back = begun_ ? out_.size() - start_ : 0;
    kw_marker_put(m, static_cast<u16>(back + marker_error_));
    crc_ = kw_crc32c(crc_, m, sizeof(m));
    out_.insert(out_.end(), m, m + sizeof(m));
  }

  void frame(const Bytes& ulpdu, bool bad_crc, bool bad_marker) {
    static constexpr u8 kPad[4] = {};
    const u32 len = static_cast<u32>(ulpdu.size());
    u8 head[KW_MPA_HDR_LEN];
    put_unaligned_be16(static_cast<u16>(len), head);
    crc_ = KW_CRC_SEED;
    begun_ = false;
    marker_error_ = bad_marker ? 4 : 0;
    marker();
    begun_ = true;
    start_ = out_.size();
    put(head, sizeof(head));
    put(ulpdu.data(), len);
    put(kPad, kw_fpdu_pad(len));
    marker();
    u8 field[KW_MPA_CRC_LEN];
    kw_crc_put(field, crc_ ^ (bad_crc ? 1U : 0U));
    out_.insert(out_.end(), field, field + sizeof(field));
  }

  const Config& config_;
  Bytes& out_;
  u8 target_ = 0;  // RegionId
  u8 pattern_ = 0;
  std::array<u32, 4> msn_ = {1, 1, 1, 1};
  std::array<u32, 4> mo_{};
  unsigned read_ = 0;
  unsigned answered_ = 0;  // of those, by an Atomic Response
  u32 read_done_ = 0;
  u32 crc_ = 0;
  size_t start_ = 0;
  bool begun_ = false;
  u16 marker_error_ = 0;
};

// Takes the markers out of a stream, checking where they point.
class Unmarked {
 public:
  Unmarked(const Bytes& sent, bool markers) : sent_(sent), markers_(markers) {}

  void begin() {
    crc_ = KW_CRC_SEED;
    begun_ = false;
    marker();
    begun_ = true;
    start_ = at_;
  }
  Bytes take(size_t len) {
    Bytes bytes;
    while (bytes.size() < len) {
      marker();
      const size_t n = std::min(len - bytes.size(), toMarker(markers_, at_));
      KW_CHECK(n <= sent_.size() - at_);
      crc_ = kw_crc32c(crc_, &sent_[at_], n);
      bytes.insert(bytes.end(), &sent_[at_], &sent_[at_] + n);
      at_ += n;
    }
    return bytes;
  }
  // The marker before the CRC field is covered by it, and the field is never split.
  u32 crcField() {
    marker();
    KW_CHECK(at_ + KW_MPA_CRC_LEN <= sent_.size());
    at_ += KW_MPA_CRC_LEN;
    return get_unaligned_be32(&sent_[at_ - KW_MPA_CRC_LEN]);
  }
  u32 expectedField() const {
    u8 field[KW_MPA_CRC_LEN];
    kw_crc_put(field, crc_);
    return get_unaligned_be32(field);
  }
  bool done() const { return at_ == sent_.size(); }

 private:
  void marker() {
    if (!markers_ || at_ % KW_MARKER_INTERVAL != 0) return;
    KW_CHECK(at_ + KW_MARKER_LEN <= sent_.size());
    KW_CHECK(get_unaligned_be16(&sent_[at_]) == 0);
    KW_CHECK(get_unaligned_be16(&sent_[at_ + 2]) == (begun_ ? at_ - start_ : 0));
    crc_ = kw_crc32c(crc_, &sent_[at_], KW_MARKER_LEN);
    at_ += KW_MARKER_LEN;
  }

  const Bytes& sent_;
  bool markers_;
  size_t at_ = 0;
  size_t start_ = 0;
  bool begun_ = false;
  u32 crc_ = 0;
};

}  // namespace

const Bytes& peerStream(const Config& config, Input& in) {
  static Bytes out;
  out.clear();
  if (config.raw) {
    out = in.rest();
  } else {
    Peer peer(config, out);
    while (!in.empty() && out.size() <= kMaxStream) peer.record(in);
  }
  return out;
}

void checkSent(const Config& config, const Bytes& sent) {
  Unmarked stream(sent, config.tx_markers);
  bool terminated = false;
  while (!stream.done()) {
    KW_CHECK(!terminated);
    stream.begin();
    const u32 len = get_unaligned_be16(stream.take(KW_MPA_HDR_LEN).data());
    KW_CHECK(len >= KW_DDP_TAGGED_LEN && len <= KW_MULPDU_MAX);
    const Bytes ulpdu = stream.take(len);
    for (u8 pad : stream.take(kw_fpdu_pad(len))) KW_CHECK(pad == 0);
    const u32 field = stream.crcField();
    KW_CHECK(!config.crc || field == stream.expectedField());

    const u8 op = kw_rdmap_op(ulpdu[1]);
    const kw_rdmap_op_info& info = kw_rdmap_ops[op];
    KW_CHECK(info.valid && kw_rdmap_rv(ulpdu[1]) == KW_RDMAP_VERSION);
    KW_CHECK(((ulpdu[0] & KW_DDP_CTRL_TAGGED) != 0) == info.tagged);
    if (op == KW_RDMAP_TERMINATE) {
      kw_term t;
      KW_CHECK(kw_term_parse(ulpdu.data() + KW_DDP_UNTAGGED_LEN, len - KW_DDP_UNTAGGED_LEN, &t) ==
               0);
      terminated = true;
    }
  }
}

}  // namespace rx
