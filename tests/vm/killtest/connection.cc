// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "killtest/connection.h"

#include <array>
#include <cstring>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

constexpr uint32_t kMagic = 0x6b696c6c;
constexpr uint32_t kDepth = 24;
// Less than the send queue holds: the ping-pong's Send always has a place.
constexpr uint32_t kStreamDepth = 16;
constexpr uint32_t kReceives = 8;
constexpr uint32_t kWriteSize = 65536, kReadSize = 30001, kSendSize = 5000;
// Memory: what the peer writes and reads, then own sinks.
constexpr uint64_t kExposed = 0, kOwn = 128 << 10, kInbox = 256 << 10;
constexpr size_t kMemory = 512 << 10, kSource = 64 << 10;
constexpr seconds kFlushLimit{60};

}  // namespace

Connection::Connection(CmId id, ibv_comp_channel* channel, bool client, uint64_t dereg)
    : pd_(allocPd(id->verbs)),
      memory_(kMemory),
      mr_(regMr(pd_.get(), memory_.data(), kMemory,
                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)),
      source_(kSource),
      source_mr_(regMr(pd_.get(), source_.data(), kSource, 0)),
      source_lkey_(source_mr_->lkey),
      cq_(createCq(id->verbs, 2 * (kDepth + kReceives), channel)),
      id_(std::move(id)),
      client_(client),
      dereg_(dereg) {
  QpConfig config;
  config.pd = pd_.get();
  config.send_cq = config.recv_cq = cq_.get();
  config.send_wr = kDepth;
  config.recv_wr = kReceives;
  config.signal_all = true;
  createQp(id_, config);
  for (unsigned i = 0; i < kReceives; ++i) postReceive();
}

ConnectParams Connection::params() const {
  const TrafficKeys keys{reinterpret_cast<uintptr_t>(memory_.data()) + kExposed, mr_->rkey, kMagic};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&keys);
  ConnectParams params;
  params.responder_resources = params.initiator_depth = 8;
  params.private_data.assign(bytes, bytes + sizeof(keys));
  return params;
}

void Connection::start(const CmEvent& event) {
  // The accepting side has the keys from the request, the connecting side from the reply.
  if (event.private_data.size() >= sizeof(peer_)) {
    std::memcpy(&peer_, event.private_data.data(), sizeof(peer_));
    if (peer_.magic != kMagic) fail("private data of something else");
  }
  if (event.type != RDMA_CM_EVENT_ESTABLISHED) return;
  established_ = true;
  fill();
  if (client_) send();
}

void Connection::send() {
  post(IBV_WR_SEND, {reinterpret_cast<uintptr_t>(source_.data()), kSendSize, source_lkey_});
}

void Connection::post(ibv_wr_opcode opcode, const ibv_sge& sge) {
  ibv_send_wr wr{};
  wr.wr_id = sequence_++ * 2;
  wr.opcode = opcode;
  ibv_sge list = sge;
  wr.sg_list = &list;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = peer_.address;
  wr.wr.rdma.rkey = peer_.rkey;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp, &wr, &bad);
  if (error == 0) {
    ++sends_out_;
  } else {
    end("ibv_post_send: " + errnoName(error));
  }
}

void Connection::postReceive() {
  ibv_sge sge{reinterpret_cast<uintptr_t>(memory_.data()) + kInbox, kSendSize, mr_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = sequence_++ * 2 + 1;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp, &wr, &bad);
  if (error == 0) {
    ++receives_out_;
  } else {
    end("ibv_post_recv: " + errnoName(error));
  }
}

void Connection::fill() {
  while (established_ && !ending_ && sends_out_ < kStreamDepth) {
    if (sequence_ % 3 != 0) {
      post(IBV_WR_RDMA_WRITE,
           {reinterpret_cast<uintptr_t>(source_.data()), kWriteSize, source_lkey_});
    } else {
      post(IBV_WR_RDMA_READ,
           {reinterpret_cast<uintptr_t>(memory_.data()) + kOwn, kReadSize, mr_->lkey});
    }
  }
}

void Connection::complete(const ibv_wc& wc) {
  const bool receive = wc.wr_id & 1;
  --(receive ? receives_out_ : sends_out_);
  if (wc.status == IBV_WC_SUCCESS) {
    ++completed_;
    if (receive && !ending_) {
      postReceive();
      // The ping-pong's answer; the peer has a receive for it.
      send();
    }
    return;
  }
  ++(wc.status == IBV_WC_WR_FLUSH_ERR ? flushed_ : failed_);
  end(std::string(receive ? "receive: " : "send: ") + ibv_wc_status_str(wc.status));
}

bool Connection::progress() {
  // One batch: under full load there's always another, and events have to be looked at too.
  std::array<ibv_wc, 32> wcs;
  const int n = ibv_poll_cq(cq_.get(), static_cast<int>(wcs.size()), wcs.data());
  for (int i = 0; i < n; ++i) complete(wcs[static_cast<size_t>(i)]);
  if (n < 0) end("ibv_poll_cq failed");
  fill();
  if (dereg_ != 0 && completed_ >= dereg_) deregister();
  return n > 0;
}

// What is in flight breaks a rule then, and only this connection may suffer.
void Connection::deregister() {
  source_mr_.reset();
  std::memset(source_.data(), 0xee, kSource);
  dereg_ = 0;
}

void Connection::arm() {
  const int error = ibv_req_notify_cq(cq_.get(), 0);
  if (error != 0) end("ibv_req_notify_cq: " + errnoName(error));
}

void Connection::end(const std::string& reason) {
  if (ending_) return;
  ending_ = true;
  reason_ = reason;
  end_limit_ = Deadline(kFlushLimit);
  // Takes the QP to its error state, from which everything posted comes back.
  rdma_disconnect(id_.get());
  if (established_) return;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(id_->qp, &attr, IBV_QP_STATE);
}

bool Connection::over() const { return ending_ && (clean() || end_limit_.passed()); }

std::string Connection::summary() const {
  return strf(
      "%s: %llu completed, %llu flushed, %llu failed, %u sends and %u receives never came "
      "back",
      reason_.c_str(), static_cast<unsigned long long>(completed_),
      static_cast<unsigned long long>(flushed_), static_cast<unsigned long long>(failed_),
      sends_out_, receives_out_);
}

}  // namespace kiwarp::vm
