// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/arena.h"
#include "common/random.h"
#include "verify/lane.h"
#include "verify/op_stream.h"

namespace kiwarp::vm {

// A work request that no peer hears of: to bind or to invalidate a window.
struct LocalWork {
  ibv_send_wr wr{};            // without the wr_id and the flags, which are the sender's
  std::function<void()> done;  // if not empty: it has completed
};

// Posts one direction's operations as the peer's receives and target memory allow, and checks
// what its Reads bring.
class Sender {
 public:
  Sender(Lane* lane, const Oceans* oceans, const Profile& profile, const StreamParams& params,
         Report* report);

  // Posts what may be posted now. Returns whether anything was.
  bool pump();
  // Has it posted by pump(), in the order of these calls.
  void postLocal(LocalWork work) { local_.push_back(std::move(work)); }
  void complete(const ibv_wc& wc);
  void onCredit(uint64_t receives_posted, uint64_t sends_processed);
  void onWindowKey(unsigned window, const RemoteRegion& region);
  bool done() const { return !current_ && outstanding_.empty() && local_.empty(); }
  std::string dump() const;

 private:
  struct Outstanding {
    Op op;
    ibv_wc_opcode opcode;
    uint64_t sequence;
    bool signalled;
    std::function<void()> done;
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

  // What the peer has to be done with before its places may be used again.
  struct Release {
    uint64_t send_index;
    size_t extents;
    int word;
  };

  bool peerAllows(const Group& group) const;
  bool peerIsDoneWith(const Op& op) const;
  void occupy(const Group& group);
  void pumpLocal();
  void prepareLocal(const LocalWork& work);
  void bindTypeOne(const ibv_send_wr& wr);
  bool prepare(const Group& group);
  std::optional<std::vector<std::optional<Area>>> reserveSinks(const Group& group);
  void prepareOp(const Group& group, size_t i, std::vector<std::optional<Area>>* sinks);
  void gather(const Op& op, Prepared* prepared, Outstanding* record);
  void gatherInline(const Op& op, Prepared* prepared);
  void gatherOcean(const Op& op, Prepared* prepared);
  bool gatherScratch(const Op& op, Prepared* prepared, Outstanding* record);
  void gatherRelay(const Op& op, const Op& read, const Area& sink, Prepared* prepared);
  RemoteRegion aim(const Op& op) const;
  void aimAtPeer(const Op& op, ibv_send_wr* wr) const;
  unsigned pickFlags(const Group& group, size_t i, Outstanding* record);
  void flush();
  void retire(Outstanding* record);
  const uint8_t* expectedData(const Op& op) const;
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
  std::deque<Release> releases_;
  std::array<bool, kWindows> window_ready_{};
  std::array<bool, kWords> word_used_{};
  std::deque<LocalWork> local_;
  bool previous_is_read_ = false;
  uint64_t sequence_ = 0;
  uint64_t peer_receives_ = 0;
  uint64_t peer_processed_ = 0;
};

}  // namespace kiwarp::vm
