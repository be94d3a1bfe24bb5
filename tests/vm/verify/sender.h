// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/arena.h"
#include "common/random.h"
#include "verify/lane.h"
#include "verify/op_stream.h"

namespace kiwarp::vm {

// Posts one direction's operations as the peer's receives and target memory allow, and checks
// what its Reads bring.
class Sender {
 public:
  Sender(Lane* lane, const Oceans* oceans, const Profile& profile, const StreamParams& params,
         Report* report);

  // Posts what may be posted now. Returns whether anything was.
  bool pump();
  void complete(const ibv_wc& wc);
  void onCredit(uint64_t receives_posted, uint64_t sends_processed);
  void onWindowKey(unsigned window, uint32_t rkey);
  bool done() const { return !current_ && outstanding_.empty(); }
  std::string dump() const;

 private:
  struct Outstanding {
    Op op;
    uint64_t sequence;
    bool signalled;
    std::optional<Area> scratch;
    // The Read whose sink is checked and released when this work request completes.
    std::optional<Area> sink;
    Op sink_op;
  };
  struct Prepared {
    ibv_send_wr wr;
    std::array<ibv_sge, 32> sge;
    std::array<uint8_t, 1024> inline_data;
  };

  bool peerAllows(const Group& group) const;
  bool prepare(const Group& group);
  std::optional<std::vector<std::optional<Area>>> reserveSinks(const Group& group);
  void prepareOp(const Group& group, size_t i, std::vector<std::optional<Area>>* sinks);
  void gather(const Op& op, Prepared* prepared, Outstanding* record);
  void gatherInline(const Op& op, Prepared* prepared);
  void gatherOcean(const Op& op, Prepared* prepared);
  bool gatherScratch(const Op& op, Prepared* prepared, Outstanding* record);
  void gatherRelay(const Op& op, const Op& read, const Area& sink, Prepared* prepared);
  void aimAtPeer(const Op& op, ibv_send_wr* wr) const;
  unsigned pickFlags(const Group& group, size_t i, Outstanding* record);
  void flush();
  void retire(Outstanding* record);
  void checkSink(const Outstanding& record);
  void count(const Op& op, unsigned flags);

  Lane* lane_;
  const Oceans* oceans_;
  Profile profile_;
  Report* report_;
  OpStream stream_;
  Rng rng_;
  std::optional<Group> current_;
  std::optional<Group> following_;
  std::deque<Outstanding> outstanding_;
  std::deque<Prepared> batch_;
  Arena sink_;
  Arena scratch_;
  Occupancy target_;
  // Which Send, once processed by the peer, gives back how many extents of its target region.
  std::deque<std::pair<uint64_t, size_t>> target_release_;
  std::array<bool, kWindows> window_ready_;
  bool previous_is_read_ = false;
  uint64_t sequence_ = 0;
  uint64_t peer_receives_ = 0;
  uint64_t peer_processed_ = 0;
};

}  // namespace kiwarp::vm
