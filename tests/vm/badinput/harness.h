// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/async_events.h"
#include "common/cm.h"
#include "common/error.h"
#include "common/verbs.h"

namespace kiwarp::vm {

class Bystander;

// What the command rdma prints; fails the case when it fails.
std::string rdma(const std::string& arguments);

// Throws "expected X got Y", which becomes the case's result.
void expectSame(const std::string& what, const std::string& expected, const std::string& got);
void expectErrno(const std::string& what, int expected, int got);

// A work request with its own list of SGEs.
class Work {
 public:
  static Work send(uint64_t id, std::vector<ibv_sge> sges);
  static Work write(uint64_t id, std::vector<ibv_sge> sges, uint64_t address, uint32_t rkey);
  static Work read(uint64_t id, std::vector<ibv_sge> sges, uint64_t address, uint32_t rkey);
  Work& flags(unsigned more);
  Work& opcode(ibv_wr_opcode opcode);
  Work& invalidate(uint32_t rkey);
  // rkey: the window's from now on.
  static Work bind(uint64_t id, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info);
  static Work localInvalidate(uint64_t id, uint32_t rkey);

  uint64_t id() const { return wr_.wr_id; }
  ibv_send_wr* wr();

 private:
  explicit Work(uint64_t id, std::vector<ibv_sge> sges);
  ibv_send_wr wr_{};
  std::vector<ibv_sge> sges_;
};

struct PostResult {
  int error;
  std::optional<uint64_t> bad_id;
};

PostResult postSend(ibv_qp* qp, std::vector<Work> list);
PostResult postRecv(ibv_qp* qp, uint64_t id, std::vector<ibv_sge> sges);
PostResult postSrqRecv(ibv_srq* srq, uint64_t id, std::vector<ibv_sge> sges);
// For a receive that a case only prepares: fails the case when it's refused.
void mustRecv(ibv_qp* qp, uint64_t id, std::vector<ibv_sge> sges);

// An MR of one or more pages between a page on either side that nobody may touch.
class Buffer {
 public:
  Buffer(ibv_pd* pd, size_t size, int access);
  uint8_t* data() const { return memory_.data() + kMargin; }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(data()); }
  size_t size() const { return size_; }
  uint32_t lkey() const { return mr_->lkey; }
  uint32_t rkey() const { return mr_->rkey; }
  ibv_mr* mr() const { return mr_.get(); }
  ibv_sge sge(int64_t offset, uint32_t length) const;
  void deregister() { mr_.reset(); }
  // For a case that deregisters it itself.
  ibv_mr* release() { return mr_.release(); }
  // These bytes are background again.
  void erase(size_t offset, size_t length) const;
  // Fails the case when any byte, of the MR or of the margins, is not the background.
  void expectUntouched(const std::string& what) const;

 private:
  static constexpr size_t kMargin = 4096;
  Memory memory_;
  size_t size_;
  Mr mr_;
};

struct End {
  Cq send_cq, recv_cq;
  CmId id;
  ibv_qp_cap cap{};
  ibv_qp* qp() const { return id->qp; }
};

struct LinkOptions {
  QpConfig client, server;
  int cqe = 64;
  // Make the objects of both ends in other ways than createCq() and createQp() do.
  std::function<Cq(int entries)> make_cq;
  std::function<ibv_qp_cap(CmId&, const QpConfig&)> make_qp;
};

class Link {
 public:
  End client, server;
};

// What a case works with: one device, a listener on it, and a second connection under load.
class Env {
 public:
  Env(const std::string& address, uint16_t port, uint64_t startup_limit_s);
  ~Env();
  Env(const Env&) = delete;
  Env& operator=(const Env&) = delete;

  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_.get(); }
  ibv_pd* otherPd() const { return other_pd_.get(); }
  const ibv_device_attr& attr() const { return attr_; }
  AsyncEvents& async() { return *async_; }
  EventChannel& clientCm() { return client_cm_; }
  EventChannel& serverCm() { return server_cm_; }
  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }
  uint16_t sparePort() { return ++spare_port_; }
  seconds startupLimit() const { return startup_limit_; }
  Deadline deadline() const { return Deadline(seconds(20)); }

  std::unique_ptr<Link> connect(const LinkOptions& options = {});
  // Proves that the second connection still works, and that no event concerned it.
  void checkBystander();

  ibv_wc awaitWc(ibv_cq* cq, const std::string& what);
  void expectWc(ibv_cq* cq, uint64_t id, std::initializer_list<ibv_wc_status> statuses,
                const std::string& what);
  // Exactly one of the given types has to come for the element.
  void expectEvent(const void* element, std::initializer_list<ibv_event_type> types,
                   const std::string& what);
  // Both ends see DISCONNECTED, in any order, and both QPs end in ERR.
  void expectEnded(const Link& link);
  void expectState(ibv_qp* qp, ibv_qp_state state, const std::string& what);
  // A Send posted now comes back flushed.
  void expectFlushes(const End& end, const std::string& what);
  // The connection still moves data both ways, then nothing is left on its queues.
  void expectAlive(Link& link);

 private:
  void prepareEnd(End* end, QpConfig config, const LinkOptions& options);

  std::string address_;
  uint16_t port_;
  uint16_t spare_port_;
  seconds startup_limit_;
  EventChannel client_cm_, server_cm_;
  CmId listener_;
  // Keeps the context known before the first connection.
  CmId anchor_;
  ibv_context* context_ = nullptr;
  ibv_device_attr attr_{};
  std::unique_ptr<AsyncEvents> async_;
  Pd pd_, other_pd_;
  std::unique_ptr<Link> bystander_link_;
  std::unique_ptr<Bystander> bystander_;
};

struct Case {
  std::string name;
  std::function<void(Env&)> run;
};

void addRemoteCases(std::vector<Case>* cases);
void addLocalCases(std::vector<Case>* cases);
void addQueueCases(std::vector<Case>* cases);
void addCreateCases(std::vector<Case>* cases);
void addEmptyCases(std::vector<Case>* cases);
void addRingCases(std::vector<Case>* cases);
void addSrqCases(std::vector<Case>* cases);
void addDetailsCases(std::vector<Case>* cases);
void addWindowCases(std::vector<Case>* cases);
// Another process's part in one of them.
void beTenant(const std::string& address, uint16_t port);
void addConnectCases(std::vector<Case>* cases);

}  // namespace kiwarp::vm
