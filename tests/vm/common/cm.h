// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/verbs.h"

namespace kiwarp::vm {

// What an rdma_cm event said; the event itself is acknowledged at once, because destroying an
// identifier waits for every event of it.
struct CmEvent {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  std::vector<uint8_t> private_data;
  uint8_t responder_resources;
  uint8_t initiator_depth;
};

std::string describe(const CmEvent& event);

// An IPv4 or IPv6 address (numeric, with %scope where needed) and port.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  Address(const std::string& host, uint16_t port);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

class CmId {
 public:
  CmId() = default;
  explicit CmId(rdma_cm_id* id) : id_(id) {}
  ~CmId() { reset(); }
  CmId(CmId&& other) noexcept : id_(std::exchange(other.id_, nullptr)) {}
  CmId& operator=(CmId&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  CmId(const CmId&) = delete;
  CmId& operator=(const CmId&) = delete;

  void reset();
  rdma_cm_id* get() const { return id_; }
  rdma_cm_id* operator->() const { return id_; }
  explicit operator bool() const { return id_ != nullptr; }

 private:
  rdma_cm_id* id_ = nullptr;
};

class EventChannel {
 public:
  EventChannel();
  ~EventChannel();
  EventChannel(const EventChannel&) = delete;
  EventChannel& operator=(const EventChannel&) = delete;

  int fd() const { return channel_->fd; }
  rdma_event_channel* raw() const { return channel_; }
  CmId createId();
  CmId listen(Address address, int backlog);

  // Empty when the deadline passed first.
  std::optional<CmEvent> next(const Deadline& deadline);
  // Throws when another event or none comes.
  CmEvent expect(rdma_cm_event_type type, const Deadline& deadline);

 private:
  rdma_event_channel* channel_;
};

struct QpConfig {
  ibv_pd* pd = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  uint32_t send_wr = 16;
  uint32_t recv_wr = 16;
  uint32_t send_sge = 1;
  uint32_t recv_sge = 1;
  uint32_t inline_data = 0;
  bool signal_all = false;
};

ibv_qp_init_attr toInitAttr(const QpConfig& config);

// Creates the QP of an identifier and returns what the device granted; throws when it refuses.
ibv_qp_cap createQp(CmId& id, const QpConfig& config);

struct ConnectParams {
  uint8_t responder_resources = 16;
  uint8_t initiator_depth = 16;
  std::vector<uint8_t> private_data;
};

// What to give the kernel for resolving, in milliseconds: a third of what is left. When the
// neighbour answers between its look-up and its going to sleep, the kernel looks again only at this
// timeout (drivers/infiniband/core/addr.c, process_one_req()), and there has to be time for the
// event then.
int resolveTimeout(const Deadline& deadline);

// Address and route resolution, after which id->verbs is set.
void resolve(EventChannel& channel, CmId& id, Address address, const Deadline& deadline);

// Both return errno (positive) as the library gave it, 0 when the request was accepted.
int startConnect(rdma_cm_id* id, const ConnectParams& params);
int startAccept(rdma_cm_id* id, const ConnectParams& params);

}  // namespace kiwarp::vm
