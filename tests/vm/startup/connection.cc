// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "startup/connection.h"

#include <cerrno>
#include <cstring>
#include <thread>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

struct Message {
  uint64_t address;
  uint32_t rkey;
  uint32_t check;
};

constexpr uint32_t kCheck = 0x6b69776fu;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr size_t kReadLength = 1024;
// The message out, the message in, what the peer may read, and what is read from it.
constexpr size_t kOut = 0, kIn = 64, kShared = 4096, kSink = 8192, kSize = 12288;

}  // namespace

Connection::Connection(CmId id) : memory_(kSize), id_(std::move(id)) {
  pd_ = allocPd(id_->verbs);
  mr_ = regMr(pd_.get(), memory_.data(), memory_.size(), kAccess);
  send_cq_ = createCq(id_->verbs, 256);
  recv_cq_ = createCq(id_->verbs, 4);
  QpConfig config;
  config.pd = pd_.get();
  config.send_cq = send_cq_.get();
  config.recv_cq = recv_cq_.get();
  config.send_wr = 128;
  config.signal_all = true;
  createQp(id_, config);
  for (size_t i = 0; i < kReadLength; i++) memory_.data()[kShared + i] = static_cast<uint8_t>(i);
  postReceive();
}

void Connection::postReceive() {
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data() + kIn), sizeof(Message), mr_->lkey};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const int rc = ibv_post_recv(id_->qp, &wr, &bad);
  if (rc != 0) fail("ibv_post_recv: %s", errnoName(rc).c_str());
}

void Connection::await(ibv_wc_opcode opcode, seconds limit) {
  ibv_cq* cq = opcode == IBV_WC_RECV ? recv_cq_.get() : send_cq_.get();
  const Deadline deadline(limit);
  ibv_wc wc{};
  int n = 0;
  while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
    if (deadline.passed()) fail("no completion of a %s in time", opcodeName(opcode));
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (n < 0) fail("ibv_poll_cq failed");
  if (wc.status != IBV_WC_SUCCESS || wc.opcode != opcode)
    fail("wanted a %s: %s", opcodeName(opcode), describe(wc).c_str());
}

void Connection::send() {
  const Message message{reinterpret_cast<uint64_t>(memory_.data() + kShared), mr_->rkey, kCheck};
  std::memcpy(memory_.data() + kOut, &message, sizeof(message));
  ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data() + kOut), sizeof(Message), mr_->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const int rc = ibv_post_send(id_->qp, &wr, &bad);
  if (rc != 0) fail("ibv_post_send: %s", errnoName(rc).c_str());
}

void Connection::receive(seconds limit) {
  await(IBV_WC_RECV, limit);
  Message message{};
  std::memcpy(&message, memory_.data() + kIn, sizeof(message));
  if (message.check != kCheck) fail("the message is not the peer's");
  peer_address_ = message.address;
  peer_rkey_ = message.rkey;
}

// All at once, so that most of them wait for the depth to let them go; after the message, which
// is complete by then.
void Connection::read(uint64_t count) {
  await(IBV_WC_SEND, kLimit);
  for (uint64_t i = 0; i < count; i++) {
    ibv_sge sge{reinterpret_cast<uint64_t>(memory_.data() + kSink), kReadLength, mr_->lkey};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = peer_address_;
    wr.wr.rdma.rkey = peer_rkey_;
    const int rc = ibv_post_send(id_->qp, &wr, &bad);
    if (rc != 0) fail("ibv_post_send of a read: %s", errnoName(rc).c_str());
  }
  for (uint64_t i = 0; i < count; i++) await(IBV_WC_RDMA_READ, kLimit);
  if (count > 0 && std::memcmp(memory_.data() + kSink, memory_.data() + kShared, kReadLength) != 0)
    fail("the read brought something else");
}

CmId resolvedId(EventChannel& channel, const std::string& from, const std::string& to,
                uint16_t port) {
  CmId id = channel.createId();
  Address source(from, 0);
  checkErrno(rdma_bind_addr(id.get(), source.get()), "rdma_bind_addr of a client");
  resolve(channel, id, Address(to, port), Deadline(kLimit));
  return id;
}

std::vector<uint8_t> privateData(size_t length, bool of_server) {
  std::vector<uint8_t> data(length);
  for (size_t i = 0; i < data.size(); i++)
    data[i] = static_cast<uint8_t>((of_server ? 101 : 1) + i);
  return data;
}

}  // namespace kiwarp::vm
