// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include "../shim/shim.h"

namespace rx {

// The fuzzer's bytes, one after the other; zeros when they are used up.
class Input {
 public:
  Input(const u8* p, size_t n) : p_(p), left_(n) {}
  u8 next() {
    if (left_ == 0) return 0;
    left_--;
    return *p_++;
  }
  bool empty() const { return left_ == 0; }
  shim::Bytes rest() { return {p_, p_ + left_}; }

 private:
  const u8* p_;
  size_t left_;
};

enum class End : u8 { kFin, kReset, kAbort, kClose };

// The configuration of a run: the input's first bytes.
struct Config {
  bool crc, initiator, rx_markers, tx_markers;
  bool raw;      // the stream is the input as it is, not records of FPDUs
  bool blocked;  // nothing can be sent while the stream arrives
  End end;
  u8 rtr;
  u32 access;  // of the queue pair
  u32 ird, ord;
  unsigned recvs;        // receives posted
  unsigned reads;        // RDMA Reads posted
  bool sends;            // a Send and a Write are posted, too
  bool zcopy;            // they are sent without a copy
  bool immediate;        // the setting; the Write that is posted has an immediate
  bool atomics;          // the setting; every second Read that is posted is a FetchAdd
  bool immediate_alone;  // and a Send with Immediate is posted
  bool local;            // windows are invalidated and bound behind the Reads
  bool fence;            // and not before those are done
  bool spoilt;           // the receive behind the last one is not valid
  bool pressure;         // TCP is short of memory
  int rcvbuf;
  u32 seq;        // of the first byte
  u32 cuts;       // seed of the pieces of the stream
  unsigned fail;  // which allocation fails

  explicit Config(Input& in) {
    const u8 a = in.next(), b = in.next(), c = in.next(), d = in.next();
    crc = (a & 1) != 0;
    initiator = (a & 2) != 0;
    raw = (a & 4) != 0;
    blocked = (a & 8) != 0;
    rx_markers = (a & 0x10) != 0;
    tx_markers = (a & 0x20) != 0;
    end = static_cast<End>(a >> 6);
    rtr = b & 3;
    sends = (b & 4) != 0;
    static constexpr u32 kDepth[] = {0, 1, 3, 255};
    ird = kDepth[b >> 3 & 3];
    ord = kDepth[b >> 5 & 3];
    access = (b & 0x80) != 0 ? 0 : IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ;
    recvs = c & 7;
    reads = c >> 3 & 7;
    static constexpr int kRcvbuf[] = {1 << 20, 65536, 16384, 2304};
    rcvbuf = kRcvbuf[c >> 6];
    seq = (d & 1) != 0 ? 0xffffff80U : 0x1000U;
    fail = d >> 1 & 7;
    zcopy = (d & 0x10) != 0;
    immediate = (d & 0x20) != 0;
    atomics = (d & 0x40) != 0;
    if (atomics && access != 0) access |= IB_ACCESS_REMOTE_ATOMIC;
    local = (d & 0x80) != 0;
    const u8 e = in.next();
    spoilt = (e & 1) != 0;
    immediate_alone = immediate && (e & 2) != 0;
    fence = (e & 4) != 0;
    pressure = (e & 8) != 0;
    cuts = static_cast<u32>(e << 8) | d;
  }
};

}  // namespace rx
