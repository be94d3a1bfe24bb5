// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <span>
#include <unordered_map>
#include <vector>

#include "client/plan.h"
#include "common/cm.h"
#include "common/verbs.h"

namespace kiwarp::bench {

// Memory of pages of which no two are neighbours: the kernel gives ascending ones as they are first
// written to, so that is done from the last to the first. By chance it would be anything up to one
// piece, which is up to 9 % faster. Pages that were never written to are one and the same.
vm::Memory scatteredMemory(size_t size);

// A completion queue whose owner sleeps until there is something in it, or polls for it.
class Completions {
 public:
  Completions(ibv_context* context, uint64_t entries, const Plan& plan);
  ~Completions();
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;

  ibv_cq* get() const { return cq_.get(); }
  // One or more; throws when one of them is an error.
  std::span<const ibv_wc> wait();
  // Forgets what there is, of queues that were destroyed.
  void drop();

 private:
  int poll();
  int pollEx();
  int sleep();

  const bool never_sleeps_;
  vm::CompChannel channel_;
  vm::Cq cq_;
  ibv_cq_ex* cq_ex_ = nullptr;  // if completions are read one by one
  unsigned unacknowledged_ = 0;
  std::array<ibv_wc, 32> found_;
};

struct Lane {
  vm::CmId id;
  ibv_qp_ex* qp_ex = nullptr;  // if work is posted by its functions
  ibv_sge buffer{};
  uint64_t posted = 0, completed = 0;  // at the initiator
  uint64_t arrived = 0;                // replies at the initiator, messages at the target
  uint64_t remote_address = 0;
  uint32_t remote_key = 0;
};

// What both ends have: a protection domain, one completion queue, a buffer for each connection
// that carries messages.
class VerbsEnd {
 public:
  VerbsEnd(ibv_context* context, const Plan& plan, uint64_t receives);

  void prepare(vm::CmId id, uint64_t index);
  Lane& lane(uint64_t index) { return lanes_[index]; }
  std::vector<Lane>& lanes() { return lanes_; }
  Completions& completions() { return completions_; }
  const vm::Mr& region() const { return region_; }
  // Which connection's it is: a receive of a shared queue does not say so itself.
  uint64_t indexOf(const ibv_wc& wc) const;
  void postReceives(uint64_t index, uint64_t count);
  // A Send of that many bytes from the lane's buffer.
  void postSend(uint64_t index, uint32_t length, bool signaled);

 private:
  // What no request names: it fills the device's tables.
  void registerRegions();
  void createQps();
  vm::Srq createSrq();
  void createQp(Lane& lane, vm::QpConfig& config);

  const Plan plan_;
  const uint64_t receives_;
  vm::Pd pd_;
  Completions completions_;
  vm::Memory memory_;
  vm::Mr region_;
  std::vector<vm::Mr> unused_;
  std::vector<vm::RawQp> unconnected_;
  vm::Srq srq_;
  std::unordered_map<uint32_t, uint64_t> by_number_;  // of queue pairs, if there is an SRQ
  std::vector<Lane> lanes_;
};

// Completions carry the connection's index and how many requests they stand for.
constexpr uint64_t makeWrId(uint64_t index, uint64_t requests) { return index << 16 | requests; }
constexpr uint64_t requestsOf(const ibv_wc& wc) { return wc.wr_id & 0xffff; }

}  // namespace kiwarp::bench
