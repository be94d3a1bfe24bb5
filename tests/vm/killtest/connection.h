// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

#include "common/cm.h"
#include "common/verbs.h"

namespace kiwarp::vm {

// What a side tells the other in its private data.
struct TrafficKeys {
  uint64_t address;
  uint32_t rkey;
  uint32_t magic;
};

// One connection that keeps its send queue full of Writes and Reads and plays ping-pong with
// Sends, until something ends it; then it waits for every posted work request to come back.
class Connection {
 public:
  // With `dereg` it deregisters what it sends from after so many completions, whatever is posted.
  Connection(CmId id, ibv_comp_channel* channel, bool client, uint64_t dereg = 0);

  ConnectParams params() const;
  void start(const CmEvent& established);
  // Polls and posts again. Returns whether there was anything.
  bool progress();
  void arm();
  void end(const std::string& reason);
  // Everything came back, or the time for that is over.
  bool over() const;
  bool clean() const { return sends_out_ == 0 && receives_out_ == 0; }
  std::string summary() const;

  rdma_cm_id* id() const { return id_.get(); }
  bool flowing() const { return completed_ >= kFlowing; }
  bool ending() const { return ending_; }
  uint64_t completed() const { return completed_; }

 private:
  static constexpr uint64_t kFlowing = 100;

  void post(ibv_wr_opcode opcode, const ibv_sge& sge);
  void send();
  void deregister();
  void postReceive();
  void fill();
  void complete(const ibv_wc& wc);

  // The QP goes before its CQ, the MR and the PD.
  Pd pd_;
  Memory memory_;
  Mr mr_;
  Memory source_;
  Mr source_mr_;
  uint32_t source_lkey_;
  Cq cq_;
  CmId id_;
  TrafficKeys peer_{};
  bool client_;
  uint64_t dereg_;
  bool established_ = false;
  bool ending_ = false;
  Deadline end_limit_{milliseconds(0)};
  std::string reason_;
  uint64_t sequence_ = 0;
  unsigned sends_out_ = 0, receives_out_ = 0;
  uint64_t completed_ = 0, flushed_ = 0, failed_ = 0;
};

}  // namespace kiwarp::vm
