// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "links.h"

#include <algorithm>
#include <utility>

#include "common/error.h"

namespace kiwarp::interop {

using vm::checkErrno;
using vm::fail;

namespace {

constexpr uint32_t kQueue = 64;
constexpr uint32_t kSges = 4;
constexpr vm::seconds kResolveLimit{30};

}  // namespace

ibv_qp* Link::qp() const {
  if (!id || !id->qp) fail("the connection has no queue pair");
  return id->qp;
}

Links::Links(const std::string& address, uint16_t port)
    : listener_(channel_.listen(vm::Address(address, port), 64)) {
  if (!listener_->verbs) fail("no RDMA device has the address %s", address.c_str());
  pd_ = vm::allocPd(listener_->verbs);
  other_pd_ = vm::allocPd(listener_->verbs);
  async_ = std::make_unique<vm::AsyncEvents>(listener_->verbs);
}

void Links::createQp(Link& link, ibv_srq* srq) {
  link.send_cq = vm::createCq(link.id->verbs, kQueue);
  // A spoilt ring may be flushed with more entries than it has.
  link.recv_cq = vm::createCq(link.id->verbs, 2 * kQueue);
  vm::QpConfig config;
  config.pd = pd();
  config.send_cq = link.send_cq.get();
  config.recv_cq = link.recv_cq.get();
  config.srq = srq;
  config.send_wr = config.recv_wr = kQueue;
  config.send_sge = config.recv_sge = kSges;
  const Rings::Maps before = Rings::mapped();
  vm::createQp(link.id, config);
  link.rings = Rings::since(before);
}

template <typename Predicate>
std::optional<vm::CmEvent> Links::find(const vm::Deadline& deadline, Predicate predicate) {
  for (;;) {
    auto found = std::find_if(kept_.begin(), kept_.end(), predicate);
    if (found != kept_.end()) {
      vm::CmEvent event = *found;
      kept_.erase(found);
      return event;
    }
    auto event = channel_.next(deadline);
    if (!event) return std::nullopt;
    kept_.push_back(std::move(*event));
  }
}

std::optional<vm::CmEvent> Links::request(const std::string& name, ibv_srq* srq,
                                          const vm::Deadline& deadline) {
  auto event =
      find(deadline, [](const vm::CmEvent& e) { return e.type == RDMA_CM_EVENT_CONNECT_REQUEST; });
  if (!event) return std::nullopt;
  if (links_.contains(name)) fail("there is a connection %s", name.c_str());
  Link& link = links_[name];
  link.id = vm::CmId(event->id);
  createQp(link, srq);
  return event;
}

void Links::expect(const std::string& name, rdma_cm_event_type type, const vm::Deadline& deadline) {
  const auto got = event(name, deadline);
  if (!got) fail("no event %s", rdma_event_str(type));
  if (got->type != type) {
    fail("event %s (%d) instead of %s", rdma_event_str(got->type), got->status,
         rdma_event_str(type));
  }
}

void Links::prepare(const std::string& name, const std::string& address, uint16_t port,
                    ibv_srq* srq) {
  if (links_.contains(name)) fail("there is a connection %s", name.c_str());
  Link& link = links_[name];
  link.id = channel_.createId();
  resolve(name, address, port);
  createQp(link, srq);
}

void Links::renew(const std::string& name, const std::string& address, uint16_t port) {
  Link& link = at(name);
  vm::CmId old = std::exchange(link.id, channel_.createId());
  link.id->qp = std::exchange(old->qp, nullptr);
  dropEvents(old.get());
  resolve(name, address, port);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = link.id->port_num;
  checkErrno(ibv_modify_qp(link.qp(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT),
             "ibv_modify_qp INIT");
}

void Links::resolve(const std::string& name, const std::string& address, uint16_t port) {
  const vm::Deadline deadline(kResolveLimit);
  const Link& link = at(name);
  checkErrno(rdma_resolve_addr(link.id.get(), nullptr, vm::Address(address, port).get(),
                               vm::resolveTimeout(deadline)),
             "rdma_resolve_addr");
  expect(name, RDMA_CM_EVENT_ADDR_RESOLVED, deadline);
  checkErrno(rdma_resolve_route(link.id.get(), vm::resolveTimeout(deadline)), "rdma_resolve_route");
  expect(name, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline);
}

Link& Links::at(const std::string& name) {
  auto found = links_.find(name);
  if (found == links_.end()) fail("no connection %s", name.c_str());
  return found->second;
}

void Links::forget(const std::string& name) {
  Link& link = at(name);
  const rdma_cm_id* id = link.id.get();
  if (id && id->qp) async_->drop(id->qp);
  // The queue pair and the identifier go before the completion queues.
  link.id.reset();
  links_.erase(name);
  dropEvents(id);
}

void Links::dropEvents(const rdma_cm_id* id) {
  std::erase_if(kept_, [id](const vm::CmEvent& e) { return e.id == id; });
}

std::optional<vm::CmEvent> Links::event(const std::string& name, const vm::Deadline& deadline) {
  const rdma_cm_id* id = at(name).id.get();
  return find(deadline, [id](const vm::CmEvent& e) {
    return e.id == id && e.type != RDMA_CM_EVENT_CONNECT_REQUEST;
  });
}

std::optional<vm::AsyncEvent> Links::asyncEvent(const std::string& name,
                                                const vm::Deadline& deadline) {
  return async_->waitFor(at(name).qp(), deadline);
}

void Links::createSrq(const std::string& name, uint32_t entries) {
  if (srqs_.contains(name)) fail("there is a shared receive queue %s", name.c_str());
  srqs_[name] = vm::createSrq(pd(), entries, kSges);
}

void Links::destroySrq(const std::string& name) {
  const auto found = srqs_.find(name);
  if (found == srqs_.end()) fail("no shared receive queue %s", name.c_str());
  async_->drop(found->second.get());
  checkErrno(ibv_destroy_srq(found->second.get()), "ibv_destroy_srq");
  static_cast<void>(found->second.release());
  srqs_.erase(found);
}

ibv_srq* Links::srq(const std::string& name) const {
  const auto found = srqs_.find(name);
  if (found == srqs_.end()) fail("no shared receive queue %s", name.c_str());
  return found->second.get();
}

std::optional<vm::AsyncEvent> Links::srqEvent(const std::string& name,
                                              const vm::Deadline& deadline) {
  return async_->waitFor(srq(name), deadline);
}

}  // namespace kiwarp::interop
