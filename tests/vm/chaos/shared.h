// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

#include "common/random.h"

namespace kiwarp::vm {

constexpr unsigned kRegions = 256;
constexpr unsigned kKinds = 64;

// Memory that some process has registered, perhaps still.
struct Exposed {
  std::atomic<uint64_t> address;
  std::atomic<uint32_t> length, rkey;
};

// What all processes of a run see, those of the other user and namespace included. Any of them may
// die at any point: there are no locks, and what is read here may be of yesterday.
struct Shared {
  Exposed exposed[kRegions];
};

// What a supervisor's processes count: how often each call, and the work of each operation,
// succeeded and failed.
struct Counts {
  struct {
    std::atomic<uint64_t> good, bad;
  } of[kKinds];
};

Shared* mapShared(const char* path);
Counts* mapCounts();
void printCounts(const Counts& counts, uint64_t seconds);

// Kinds of calls that are counted.
enum Kind : unsigned {
  kOpen,
  kReopen,
  kAllocPd,
  kDeallocPd,
  kRegMr,
  kDeregMr,
  kChannel,
  kCreateCq,
  kDestroyCq,
  kNotifyCq,
  kReadEvent,
  kCreateQp,
  kDestroyQp,
  kModifyQp,
  kQueryQp,
  kPostSend,
  kPostRecv,
  kCompletion,
  kRemap,
  kGarbage,
  kCreateId,
  kDestroyId,
  kBind,
  kResolveAddr,
  kResolveRoute,
  kListen,
  kConnect,
  kAccept,
  kReject,
  kDisconnect,
  kMigrate,
  kQueryRoute,
  kInitQpAttr,
  kGetEvent,
  kEstablished,
  kFork,
  kKill,
  kReregMr,
  kAllocMw,
  kDeallocMw,
  kCreateCqEx,
  kResizeCq,
  kModifyCq,
  kCreateSrq,
  kDestroySrq,
  kModifySrq,
  kQuerySrq,
  kPostSrq,
  kDmabuf,
  kRegDmabuf,
  kImportMr,
  kImportDevice,
  kImportPd,
  // Completions, by operation.
  kSent,
  kWritten,
  kRead,
  kReceived,
  kBound,
  kImmediate,
  kAtomic,
  kOther,
  kNrKinds,
};
static_assert(kNrKinds <= kKinds);

}  // namespace kiwarp::vm
