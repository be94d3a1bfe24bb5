// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/arena.h"
#include "common/random.h"
#include "common/verbs.h"
#include "verify/lane.h"

namespace kiwarp::vm {

// Which queue pairs of a side take their receives from the shared queue: with two, both of the
// server's and none of the client's; with more, half of them on either side.
constexpr bool sharesReceives(bool server, uint64_t lane) { return (lane % 4 < 2) == server; }

// The longest Send to such a queue pair: any receive has to do for it.
constexpr uint64_t kSharedSendLimit = 32 << 10;

// A shared receive queue. Each queue pair may use so many of its receives and no more, which its
// peer is told, so that the queue never runs dry. It is filled up again only when its limit event
// has come. The limit is so high that the event comes before a queue pair has used its whole share,
// and one that does not come leaves the peer without a receive.
class SharedReceives {
 public:
  struct Params {
    std::vector<uint32_t> lanes;  // those that share it
    uint32_t share = 0;           // of each
    uint64_t size = 0;            // of the longest message
    uint32_t max_sge = 1;
    uint64_t seed = 0;
  };

  SharedReceives(ibv_pd* pd, const Params& params, Report* report);

  ibv_srq* queue() const { return srq_.get(); }
  uint32_t share() const { return params_.share; }
  uint32_t maxSge() const { return params_.max_sge; }

  // Fills the queue if that is due. Returns whether anything was posted.
  bool refill();
  void onLimit();
  // How many messages may have come for this lane in all.
  uint64_t granted(uint32_t lane) const;

  // The receive that a message for this lane took. It is the caller's until released.
  const Area& take(uint32_t lane, uint64_t slot);
  uint8_t* base(uint64_t slot) { return slots_[slot].arena.at(0); }
  void release(uint64_t slot);

  const Memory& memory() const { return memory_; }
  std::string dump() const;

 private:
  struct Slot {
    Arena arena;
    Area area;
    // Whose share it belongs to; each receive that a lane has taken is posted again for that lane.
    uint32_t lane;
    bool posted = false;
  };

  void postList();
  void prepare(uint64_t index, ibv_recv_wr* wr, ibv_sge* sge);
  void resize();
  void arm();

  Params params_;
  Report* report_;
  Rng rng_;
  Memory memory_;
  Mr mr_;
  Srq srq_;
  std::vector<Slot> slots_;
  std::deque<uint64_t> free_;
  std::vector<uint64_t> granted_;  // by lane
  uint64_t posted_ = 0;
  uint64_t taken_ = 0;
  bool armed_ = false;
};

}  // namespace kiwarp::vm
