// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace kiwarp::vm {

// What this side's device and provider can do; `can` concerns what it sends, `serves` what it
// lets the peer do.
struct Profile {
  // Whether this side posts Reads; it always serves the peer's.
  bool reads = true;
  // RDMA Reads of no bytes.
  bool zero_reads = true;
  // Short messages out of memory that straddles a page (siw garbles them).
  bool straddle = true;
  bool can_invalidate = true;
  // A process's regions are not the peer's to invalidate (siw allows it). Its windows are.
  bool serves_invalidate = false;
  // The receive's completion says what was invalidated (siw's provider keeps it to itself).
  bool tells_invalidate = true;
  // MRs whose addresses differ from the memory's.
  bool iova = true;
  // RDMA Reads with a fence.
  bool fenced_reads = true;
  // Completions come in the order of posting even when a Read lies between (siw's do not unless
  // what follows the Read is fenced).
  bool ordered = true;
  // Source buffers change as soon as their work request has completed (siw completes before TCP has
  // let go of them). Without this, messages come only from memory that never changes.
  bool reuse = true;
  // SGEs of no length inside a list.
  bool zero_sge = true;
  // These four only if both sides have them: some queue pairs share one receive queue;
  bool srq = true;
  // memory windows are in the place of regions for what is invalidated;
  bool windows = true;
  // the operations of RFC 7306.
  bool immediates = true;
  bool atomics = true;
  uint32_t inline_data = 256;
  uint32_t max_sge = 16;
};

Profile siwProfile();

// Takes away what --without calls by this name. False if it knows no such name.
bool takeAway(Profile* profile, const std::string& name);

// What can be taken away, as the side channel carries it.
uint64_t pack(const Profile& profile);
void unpack(uint64_t packed, Profile* profile);

// Takes away from both what only one of them has, where that is of no use.
void agree(Profile* mine, Profile* theirs);

}  // namespace kiwarp::vm
