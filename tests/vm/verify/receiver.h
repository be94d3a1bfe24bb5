// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/arena.h"
#include "common/random.h"
#include "verify/lane.h"
#include "verify/op_stream.h"
#include "verify/shared_receives.h"
#include "verify/windows.h"

namespace kiwarp::vm {

// Follows the peer's stream of operations: posts a receive of the right size for each coming
// Send and, when it has arrived, checks it and all that went before it. Where receives are shared,
// it takes one of theirs.
class Receiver {
 public:
  Receiver(Lane* lane, const Oceans* oceans, const Profile& profile, const StreamParams& params,
           Report* report, Windows* windows);

  // Posts receives while the queue and the memory for them allow.
  bool refill();
  void complete(const ibv_wc& wc);
  // The connection has ended, and no receive of it is left.
  bool flushed() const;
  // For how many messages there is, or was, a receive.
  uint64_t posted() const;
  uint64_t processed() const { return processed_; }
  bool done() const { return !coming_ && expected_.empty(); }
  // At the end of a run nothing outside of any transfer may have changed.
  void checkRest();
  std::string dump() const;

 private:
  struct Expected {
    Group group;
    Area area;
    uint8_t* base;  // of the area
  };

  void fetch();
  bool post(const Group* group);
  // The oldest spare receive, behind the last Send, has come back.
  bool isFlushedSpare(const ibv_wc& wc) const;
  Expected expectedFor(const ibv_wc& wc);
  void checkCompletion(const ibv_wc& wc, const Group& group) const;
  void checkGroup(const Group& group);
  void checkWrite(const Group& group, const Op& op);
  void checkMessage(const Expected& expected, const Op& op);
  void checkWordOf(const Group& group);
  void checkInvalidation(const ibv_wc& wc, const Op& op);
  const uint8_t* expectedData(const Op& op) const;
  void checkUntouched(const char* what, const Memory& memory);

  Lane* lane_;
  const Oceans* oceans_;
  Profile profile_;
  Report* report_;
  Windows* windows_;
  OpStream stream_;
  Rng rng_;
  Arena inbox_;
  // Groups without a Send are skipped: nothing of them concerns this side.
  std::optional<Group> coming_;
  std::deque<Expected> expected_;
  uint64_t posted_ = 0;
  uint64_t processed_ = 0;
  unsigned spares_ = 0;
  unsigned spares_flushed_ = 0;
};

}  // namespace kiwarp::vm
