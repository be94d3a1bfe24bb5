// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "faults/pair.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "faults/plan.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kMemory = 1 << 20;
constexpr uint32_t kWrite = 200000, kRead = 30001, kSend = 5000;
constexpr size_t kOwn = 512 << 10;
constexpr int kResolveMs = 20000;

int succeeded(int rc) { return rc ? errno : 0; }

void checkPassive(int error, const char* call) {
  if (error) throw PassiveFailure(strf("%s: %s", call, errnoName(error).c_str()));
}

// Which errno an event that ends the set-up stands for.
int errorOf(const CmEvent& event) {
  const int error = event.status < 0 ? -event.status : event.status;
  return error ? error : ECONNABORTED;
}

}  // namespace

ConnectionPair::ConnectionPair(const std::string& address, uint16_t port)
    : address_(address, port), memory_(kMemory) {
  anchor_ = client_.createId();
  resolve(client_, anchor_, address_, Deadline(kTimeLimit));
  pd_ = allocPd(anchor_->verbs);
  cq_ = createCq(anchor_->verbs, 256);
  mr_ = regMr(pd_.get(), memory_.data(), kMemory,
              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  if (int error = listen()) fail("rdma_listen: %s", errnoName(error).c_str());
}

ConnectionPair::~ConnectionPair() {
  try {
    clear();
  } catch (const Failure&) {
    // The identifiers go with the process.
  }
}

int ConnectionPair::listen() {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(server_.raw(), &id, nullptr, RDMA_PS_TCP)) return errno;
  CmId fresh(id);
  if (rdma_bind_addr(id, address_.get()) || rdma_listen(id, 16)) return errno;
  listener_ = std::move(fresh);
  return 0;
}

void ConnectionPair::clear() {
  active_.reset();
  passive_.reset();
  const Deadline now{milliseconds(0)};
  while (std::optional<CmEvent> event = server_.next(now)) {
    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) CmId(event->id).reset();
  }
  while (client_.next(now)) continue;
  ibv_wc wc[16];
  while (ibv_poll_cq(cq_.get(), 16, wc) > 0) continue;
  posted_ = 0;
}

int ConnectionPair::createActive() {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(client_.raw(), &id, nullptr, RDMA_PS_TCP)) return errno;
  active_ = CmId(id);
  return 0;
}

int ConnectionPair::resolveAddress() {
  return succeeded(rdma_resolve_addr(active_.get(), nullptr, address_.get(), kResolveMs));
}

int ConnectionPair::resolveRoute() {
  return succeeded(rdma_resolve_route(active_.get(), kResolveMs));
}

void ConnectionPair::awaitActive(rdma_cm_event_type type) {
  client_.expect(type, Deadline(kTimeLimit));
}

int ConnectionPair::createQp(CmId& id) {
  QpConfig config;
  config.pd = pd_.get();
  config.send_cq = config.recv_cq = cq_.get();
  config.signal_all = true;
  ibv_qp_init_attr attr = toInitAttr(config);
  return succeeded(rdma_create_qp(id.get(), pd_.get(), &attr));
}

void ConnectionPair::ready() {
  if (!listener_) checkErrno(listen(), "rdma_listen");
  checkErrno(createActive(), "rdma_create_id");
  checkErrno(resolveAddress(), "rdma_resolve_addr");
  awaitActive(RDMA_CM_EVENT_ADDR_RESOLVED);
  checkErrno(resolveRoute(), "rdma_resolve_route");
  awaitActive(RDMA_CM_EVENT_ROUTE_RESOLVED);
  checkErrno(createQp(active_), "rdma_create_qp");
}

ConnectParams ConnectionPair::params() const {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&token_);
  ConnectParams params;
  params.responder_resources = params.initiator_depth = 4;
  params.private_data.assign(bytes, bytes + sizeof(token_));
  return params;
}

int ConnectionPair::connect() {
  ++token_;
  return startConnect(active_.get(), params());
}

void ConnectionPair::awaitReadable() {
  pollfd poller{server_.fd(), POLLIN, 0};
  if (poll(&poller, 1, Deadline(kTimeLimit).pollTimeout()) != 1) fail("no event at the listener");
}

int ConnectionPair::takeRequest() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(server_.raw(), &event)) return errno;
  if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) passive_ = CmId(event->id);
  rdma_ack_cm_event(event);
  return 0;
}

void ConnectionPair::awaitRequest() {
  const Deadline deadline(kTimeLimit);
  while (std::optional<CmEvent> event = server_.next(deadline)) {
    if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    CmId id(event->id);
    if (event->private_data.size() >= sizeof(token_) &&
        std::memcmp(event->private_data.data(), &token_, sizeof(token_)) == 0) {
      passive_ = std::move(id);
      return;
    }
  }
  fail("no connection request");
}

int ConnectionPair::postReceive() {
  ibv_sge sge{reinterpret_cast<uintptr_t>(memory_.data()), kSend, mr_->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const int error = ibv_post_recv(passive_->qp, &wr, &bad);
  if (!error) ++posted_;
  return error;
}

int ConnectionPair::accept() { return startAccept(passive_.get(), params()); }

int ConnectionPair::reject() { return succeeded(rdma_reject(passive_.get(), nullptr, 0)); }

int ConnectionPair::awaitEstablished(bool accepting) {
  const Deadline deadline(kTimeLimit);
  bool client = false, server = false;
  while (!client || !server) {
    pollfd pollers[] = {{client_.fd(), POLLIN, 0}, {server_.fd(), POLLIN, 0}};
    poll(pollers, 2, deadline.pollTimeout());
    if (std::optional<CmEvent> event = client_.next(Deadline(milliseconds(0)))) {
      if (event->id != active_.get()) continue;
      if (event->type != RDMA_CM_EVENT_ESTABLISHED) return errorOf(*event);
      client = true;
    }
    if (std::optional<CmEvent> event = server_.next(Deadline(milliseconds(0)))) {
      if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        CmId id(event->id);
        if (!accepting || event->private_data.size() < sizeof(token_) ||
            std::memcmp(event->private_data.data(), &token_, sizeof(token_)) != 0) {
          continue;
        }
        passive_ = std::move(id);
        checkPassive(createQp(passive_), "rdma_create_qp");
        checkPassive(accept(), "rdma_accept");
        continue;
      }
      if (!passive_ || event->id != passive_.get()) continue;
      if (event->type != RDMA_CM_EVENT_ESTABLISHED) return errorOf(*event);
      server = true;
    }
    if (deadline.passed()) return ETIMEDOUT;
  }
  return 0;
}

int ConnectionPair::awaitDisconnected() {
  const Deadline deadline(kTimeLimit);
  for (EventChannel* channel : {&client_, &server_}) {
    const rdma_cm_id* id = channel == &client_ ? active_.get() : passive_.get();
    for (bool seen = false; !seen;) {
      std::optional<CmEvent> event = channel->next(deadline);
      if (!event) return ETIMEDOUT;
      seen = event->id == id && event->type == RDMA_CM_EVENT_DISCONNECTED;
    }
  }
  return 0;
}

int ConnectionPair::awaitRejected() {
  const Deadline deadline(kTimeLimit);
  while (std::optional<CmEvent> event = client_.next(deadline)) {
    if (event->id != active_.get()) continue;
    return event->type == RDMA_CM_EVENT_REJECTED ? 0 : errorOf(*event);
  }
  return ETIMEDOUT;
}

void ConnectionPair::establish() {
  ready();
  checkErrno(connect(), "rdma_connect");
  checkErrno(awaitEstablished(true), "the connection");
}

int ConnectionPair::post(ibv_wr_opcode opcode, uint32_t length) {
  const auto base = reinterpret_cast<uintptr_t>(memory_.data());
  ibv_sge sge{base + kOwn, length, mr_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = opcode;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = base;
  wr.wr.rdma.rkey = mr_->rkey;
  const int error = ibv_post_send(active_->qp, &wr, &bad);
  if (!error) ++posted_;
  return error;
}

int ConnectionPair::postAll() {
  if (int error = postReceive()) return error;
  if (int error = post(IBV_WR_RDMA_WRITE, kWrite)) return error;
  if (int error = post(IBV_WR_RDMA_READ, kRead)) return error;
  return post(IBV_WR_SEND, kSend);
}

int ConnectionPair::awaitAll() {
  const Deadline deadline(kTimeLimit);
  int error = 0;
  while (posted_ > 0) {
    ibv_wc wc[4];
    const int n = ibv_poll_cq(cq_.get(), 4, wc);
    if (n < 0) return EIO;
    for (int i = 0; i < n; ++i) {
      if (wc[i].status != IBV_WC_SUCCESS) error = ECONNABORTED;
    }
    posted_ -= static_cast<unsigned>(n);
    if (n == 0) {
      if (deadline.passed()) return ETIMEDOUT;
      poll(nullptr, 0, 1);
    }
  }
  return error;
}

}  // namespace kiwarp::vm
