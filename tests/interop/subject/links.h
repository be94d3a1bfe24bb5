// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/async_events.h"
#include "common/cm.h"
#include "rings.h"

namespace kiwarp::interop {

// A connection under test, from before its start-up to after its end.
struct Link {
  vm::Cq send_cq, recv_cq;
  vm::CmId id;
  Rings rings;

  ibv_qp* qp() const;
};

// The device as the driver sees it: one listener, the connections by the driver's names, and the
// events, which are kept until the driver asks for those of a connection.
class Links {
 public:
  explicit Links(const std::string& address, uint16_t port);

  ibv_pd* pd() const { return pd_.get(); }
  ibv_pd* otherPd() const { return other_pd_.get(); }

  // A connection request gets a queue pair and a name; empty when none came in time. The queue pair
  // takes its receives from srq, unless that is null; so below.
  std::optional<vm::CmEvent> request(const std::string& name, ibv_srq* srq,
                                     const vm::Deadline& deadline);
  // A connection that is to be made: resolved, with a queue pair.
  void prepare(const std::string& name, const std::string& address, uint16_t port, ibv_srq* srq);
  // Likewise, with the queue pair of a connection that has ended, which goes from RESET to INIT.
  void renew(const std::string& name, const std::string& address, uint16_t port);
  void forget(const std::string& name);
  Link& at(const std::string& name);

  std::optional<vm::CmEvent> event(const std::string& name, const vm::Deadline& deadline);
  std::optional<vm::AsyncEvent> asyncEvent(const std::string& name, const vm::Deadline& deadline);

  void createSrq(const std::string& name, uint32_t entries);
  // The device refuses while queue pairs use it.
  void destroySrq(const std::string& name);
  ibv_srq* srq(const std::string& name) const;
  std::optional<vm::AsyncEvent> srqEvent(const std::string& name, const vm::Deadline& deadline);

 private:
  void createQp(Link& link, ibv_srq* srq);
  void resolve(const std::string& name, const std::string& address, uint16_t port);
  void dropEvents(const rdma_cm_id* id);
  // The next event of a connection has to be this one.
  void expect(const std::string& name, rdma_cm_event_type type, const vm::Deadline& deadline);
  // The oldest event that the predicate accepts; others are kept for whoever asks later.
  template <typename Predicate>
  std::optional<vm::CmEvent> find(const vm::Deadline& deadline, Predicate predicate);

  vm::EventChannel channel_;
  vm::CmId listener_;
  std::deque<vm::CmEvent> kept_;
  vm::Pd pd_, other_pd_;
  std::unique_ptr<vm::AsyncEvents> async_;
  // The queue pairs that use them go first.
  std::map<std::string, vm::Srq> srqs_;
  std::map<std::string, Link> links_;
};

}  // namespace kiwarp::interop
