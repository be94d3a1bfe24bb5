// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/cm.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"

namespace kiwarp::vm {

std::string describe(const CmEvent& event) {
  return strf("%s status %s", rdma_event_str(event.type), errnoName(event.status).c_str());
}

Address::Address(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  const int rc = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  if (rc != 0) fail("address %s: %s", host.c_str(), gai_strerror(rc));
  std::memcpy(&storage, found->ai_addr, found->ai_addrlen);
  length = found->ai_addrlen;
  freeaddrinfo(found);
}

void CmId::reset() {
  if (!id_) return;
  if (id_->qp) rdma_destroy_qp(id_);
  rdma_destroy_id(id_);
  id_ = nullptr;
}

namespace {

// librdmacm lists the devices, and says ENODEV if one of them goes meanwhile.
rdma_event_channel* createChannel() {
  for (int left = 20;; left--) {
    rdma_event_channel* channel = rdma_create_event_channel();
    if (channel || errno != ENODEV || left == 0) return channel;
    usleep(50'000);
  }
}

}  // namespace

EventChannel::EventChannel() : channel_(createChannel()) {
  if (!channel_) fail("rdma_create_event_channel: %s", errnoName(errno).c_str());
  const int flags = fcntl(channel_->fd, F_GETFL);
  checkErrno(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), "fcntl of the event channel");
}

EventChannel::~EventChannel() { rdma_destroy_event_channel(channel_); }

CmId EventChannel::createId() {
  rdma_cm_id* id = nullptr;
  checkErrno(rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
  return CmId(id);
}

CmId EventChannel::listen(Address address, int backlog) {
  CmId id = createId();
  checkErrno(rdma_bind_addr(id.get(), address.get()), "rdma_bind_addr");
  checkErrno(rdma_listen(id.get(), backlog), "rdma_listen");
  return id;
}

std::optional<CmEvent> EventChannel::next(const Deadline& deadline) {
  for (;;) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event) == 0) {
      CmEvent result{event->event, event->status, event->id, {}, 0, 0};
      const rdma_conn_param& conn = event->param.conn;
      const auto* bytes = static_cast<const uint8_t*>(conn.private_data);
      if (bytes) result.private_data.assign(bytes, bytes + conn.private_data_len);
      result.responder_resources = conn.responder_resources;
      result.initiator_depth = conn.initiator_depth;
      rdma_ack_cm_event(event);
      return result;
    }
    if (errno != EAGAIN && errno != EINTR) {
      fail("rdma_get_cm_event: %s", errnoName(errno).c_str());
    }
    if (deadline.passed()) return std::nullopt;
    pollfd poller{channel_->fd, POLLIN, 0};
    poll(&poller, 1, deadline.pollTimeout());
  }
}

CmEvent EventChannel::expect(rdma_cm_event_type type, const Deadline& deadline) {
  std::optional<CmEvent> event = next(deadline);
  if (!event) fail("no %s before the deadline", rdma_event_str(type));
  if (event->type != type)
    fail("expected %s, got %s", rdma_event_str(type), describe(*event).c_str());
  return *event;
}

ibv_qp_init_attr toInitAttr(const QpConfig& config) {
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = config.send_cq;
  attr.recv_cq = config.recv_cq;
  attr.srq = config.srq;
  attr.cap.max_send_wr = config.send_wr;
  attr.cap.max_recv_wr = config.recv_wr;
  attr.cap.max_send_sge = config.send_sge;
  attr.cap.max_recv_sge = config.recv_sge;
  attr.cap.max_inline_data = config.inline_data;
  attr.sq_sig_all = config.signal_all ? 1 : 0;
  return attr;
}

ibv_qp_cap createQp(CmId& id, const QpConfig& config) {
  ibv_qp_init_attr attr = toInitAttr(config);
  checkErrno(rdma_create_qp(id.get(), config.pd, &attr), "rdma_create_qp");
  return attr.cap;
}

int resolveTimeout(const Deadline& deadline) { return deadline.pollTimeout() / 3; }

void resolve(EventChannel& channel, CmId& id, Address address, const Deadline& deadline) {
  const int timeout = resolveTimeout(deadline);
  checkErrno(rdma_resolve_addr(id.get(), nullptr, address.get(), timeout), "rdma_resolve_addr");
  channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED, deadline);
  checkErrno(rdma_resolve_route(id.get(), timeout), "rdma_resolve_route");
  channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED, deadline);
}

namespace {

rdma_conn_param toConnParam(const ConnectParams& params) {
  rdma_conn_param conn{};
  conn.responder_resources = params.responder_resources;
  conn.initiator_depth = params.initiator_depth;
  conn.retry_count = 7;
  conn.private_data = params.private_data.data();
  conn.private_data_len = static_cast<uint8_t>(params.private_data.size());
  return conn;
}

}  // namespace

int startConnect(rdma_cm_id* id, const ConnectParams& params) {
  rdma_conn_param conn = toConnParam(params);
  return rdma_connect(id, &conn) ? errno : 0;
}

int startAccept(rdma_cm_id* id, const ConnectParams& params) {
  rdma_conn_param conn = toConnParam(params);
  return rdma_accept(id, &conn) ? errno : 0;
}

}  // namespace kiwarp::vm
