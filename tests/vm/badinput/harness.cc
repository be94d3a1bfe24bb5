// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "badinput/harness.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "badinput/bystander.h"
#include "common/pattern.h"

namespace kiwarp::vm {
namespace {

constexpr milliseconds kQuiet{1};

std::string join(std::initializer_list<ibv_wc_status> statuses) {
  std::string text;
  for (ibv_wc_status status : statuses) {
    text += (text.empty() ? "" : " or ") + std::string(ibv_wc_status_str(status));
  }
  return text;
}

std::string join(std::initializer_list<ibv_event_type> types) {
  std::string text;
  for (ibv_event_type type : types) {
    text += (text.empty() ? "" : " or ") + std::string(ibv_event_type_str(type));
  }
  return text;
}

}  // namespace

void expectSame(const std::string& what, const std::string& expected, const std::string& got) {
  if (expected != got) {
    fail("%s: expected %s got %s", what.c_str(), expected.c_str(), got.c_str());
  }
}

void expectErrno(const std::string& what, int expected, int got) {
  expectSame(what, errnoName(expected), errnoName(got));
}

Work::Work(uint64_t id, std::vector<ibv_sge> sges) : sges_(std::move(sges)) {
  wr_.wr_id = id;
  wr_.send_flags = IBV_SEND_SIGNALED;
}

Work Work::send(uint64_t id, std::vector<ibv_sge> sges) {
  Work work(id, std::move(sges));
  work.wr_.opcode = IBV_WR_SEND;
  return work;
}

Work Work::write(uint64_t id, std::vector<ibv_sge> sges, uint64_t address, uint32_t rkey) {
  Work work(id, std::move(sges));
  work.wr_.opcode = IBV_WR_RDMA_WRITE;
  work.wr_.wr.rdma.remote_addr = address;
  work.wr_.wr.rdma.rkey = rkey;
  return work;
}

Work Work::read(uint64_t id, std::vector<ibv_sge> sges, uint64_t address, uint32_t rkey) {
  Work work = write(id, std::move(sges), address, rkey);
  work.wr_.opcode = IBV_WR_RDMA_READ;
  return work;
}

Work& Work::flags(unsigned more) {
  wr_.send_flags |= more;
  return *this;
}

Work& Work::opcode(ibv_wr_opcode opcode) {
  wr_.opcode = opcode;
  return *this;
}

Work& Work::invalidate(uint32_t rkey) {
  wr_.opcode = IBV_WR_SEND_WITH_INV;
  wr_.invalidate_rkey = rkey;
  return *this;
}

Work Work::bind(uint64_t id, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info) {
  Work work(id, {});
  work.wr_.opcode = IBV_WR_BIND_MW;
  work.wr_.bind_mw = {.mw = mw, .rkey = rkey, .bind_info = info};
  return work;
}

Work Work::localInvalidate(uint64_t id, uint32_t rkey) {
  Work work(id, {});
  work.wr_.opcode = IBV_WR_LOCAL_INV;
  work.wr_.invalidate_rkey = rkey;
  return work;
}

ibv_send_wr* Work::wr() {
  wr_.sg_list = sges_.data();
  wr_.num_sge = static_cast<int>(sges_.size());
  return &wr_;
}

PostResult postSend(ibv_qp* qp, std::vector<Work> list) {
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].wr()->next = i + 1 < list.size() ? list[i + 1].wr() : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, list.front().wr(), &bad);
  PostResult result{error, std::nullopt};
  if (error != 0 && bad) result.bad_id = bad->wr_id;
  return result;
}

namespace {

template <typename Queue, typename Post>
PostResult postOneRecv(Queue* queue, Post post, uint64_t id, std::vector<ibv_sge>& sges) {
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  const int error = post(queue, &wr, &bad);
  PostResult result{error, std::nullopt};
  if (error != 0 && bad) result.bad_id = bad->wr_id;
  return result;
}

}  // namespace

PostResult postRecv(ibv_qp* qp, uint64_t id, std::vector<ibv_sge> sges) {
  return postOneRecv(qp, ibv_post_recv, id, sges);
}

PostResult postSrqRecv(ibv_srq* srq, uint64_t id, std::vector<ibv_sge> sges) {
  return postOneRecv(srq, ibv_post_srq_recv, id, sges);
}

void mustRecv(ibv_qp* qp, uint64_t id, std::vector<ibv_sge> sges) {
  expectErrno("posting a receive", 0, postRecv(qp, id, std::move(sges)).error);
}

Buffer::Buffer(ibv_pd* pd, size_t size, int access) : memory_(size + 2 * kMargin), size_(size) {
  std::memset(memory_.data(), kBackground, memory_.size());
  mr_ = regMr(pd, data(), size, access);
}

std::string rdma(const std::string& arguments) {
  std::FILE* pipe = popen(("rdma " + arguments).c_str(), "re");
  if (!pipe) fail("rdma: %s", errnoName(errno).c_str());
  std::string text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  if (const int status = pclose(pipe); status != 0) fail("rdma ends with %d", status);
  return text;
}

ibv_sge Buffer::sge(int64_t offset, uint32_t length) const {
  return {address() + static_cast<uint64_t>(offset), length, mr_ ? mr_->lkey : 0};
}

void Buffer::erase(size_t offset, size_t length) const {
  std::memset(data() + offset, kBackground, length);
}

void Buffer::expectUntouched(const std::string& what) const {
  if (auto bad = firstDisturbed(memory_.data(), memory_.size())) {
    fail("%s: byte %ld of the region was written", what.c_str(),
         static_cast<long>(*bad) - static_cast<long>(kMargin));
  }
}

Env::Env(const std::string& address, uint16_t port, uint64_t startup_limit_s)
    : address_(address), port_(port), spare_port_(port), startup_limit_(startup_limit_s) {
  listener_ = server_cm_.listen(Address(address, port), 64);
  anchor_ = client_cm_.createId();
  resolve(client_cm_, anchor_, Address(address, port), deadline());
  context_ = anchor_->verbs;
  attr_ = queryDevice(context_);
  async_ = std::make_unique<AsyncEvents>(context_);
  pd_ = allocPd(context_);
  other_pd_ = allocPd(context_);
  LinkOptions options;
  options.client.send_wr = options.server.send_wr = 32;
  bystander_link_ = connect(options);
  bystander_ = std::make_unique<Bystander>(pd_.get(), bystander_link_.get());
}

Env::~Env() = default;

void Env::prepareEnd(End* end, QpConfig config, const LinkOptions& options) {
  if (end->id->verbs != context_) {
    fail("connection over device %s, expected %s", ibv_get_device_name(end->id->verbs->device),
         ibv_get_device_name(context_->device));
  }
  const auto make_cq = [&] {
    return options.make_cq ? options.make_cq(options.cqe) : createCq(context_, options.cqe);
  };
  end->send_cq = make_cq();
  end->recv_cq = make_cq();
  if (!config.pd) config.pd = pd_.get();
  config.send_cq = end->send_cq.get();
  config.recv_cq = end->recv_cq.get();
  end->cap = options.make_qp ? options.make_qp(end->id, config) : createQp(end->id, config);
}

std::unique_ptr<Link> Env::connect(const LinkOptions& options) {
  auto link = std::make_unique<Link>();
  const Deadline limit = deadline();
  link->client.id = client_cm_.createId();
  resolve(client_cm_, link->client.id, Address(address_, port_), limit);
  prepareEnd(&link->client, options.client, options);
  checkErrno(startConnect(link->client.id.get(), {}), "rdma_connect");
  link->server.id = CmId(server_cm_.expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit).id);
  prepareEnd(&link->server, options.server, options);
  checkErrno(startAccept(link->server.id.get(), {}), "rdma_accept");
  server_cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
  client_cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
  return link;
}

void Env::checkBystander() {
  bystander_->check();
  for (const AsyncEvent& event : async_->drain()) {
    if (bystander_->concerns(event.element)) {
      fail("bystander got the event %s", describe(event).c_str());
    }
  }
  // What a failed case left behind must not be taken for the next one's.
  while (client_cm_.next(Deadline(milliseconds(0)))) continue;
  while (auto event = server_cm_.next(Deadline(milliseconds(0)))) {
    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) CmId dropped(event->id);
  }
}

ibv_wc Env::awaitWc(ibv_cq* cq, const std::string& what) {
  const Deadline limit = deadline();
  for (;;) {
    ibv_wc wc{};
    const int n = ibv_poll_cq(cq, 1, &wc);
    if (n == 1) return wc;
    if (n < 0) fail("%s: ibv_poll_cq returned %d", what.c_str(), n);
    if (limit.passed()) fail("%s: expected a completion got none", what.c_str());
    std::this_thread::sleep_for(kQuiet);
  }
}

void Env::expectWc(ibv_cq* cq, uint64_t id, std::initializer_list<ibv_wc_status> statuses,
                   const std::string& what) {
  const ibv_wc wc = awaitWc(cq, what);
  if (wc.wr_id != id) {
    fail("%s: expected wr_id %#llx got %s", what.c_str(), static_cast<unsigned long long>(id),
         describe(wc).c_str());
  }
  if (std::find(statuses.begin(), statuses.end(), wc.status) == statuses.end()) {
    fail("%s: expected %s got %s", what.c_str(), join(statuses).c_str(),
         ibv_wc_status_str(wc.status));
  }
}

void Env::expectEvent(const void* element, std::initializer_list<ibv_event_type> types,
                      const std::string& what) {
  auto event = async_->waitFor(element, deadline());
  const std::string got = event ? describe(*event) : "no event";
  if (!event || std::find(types.begin(), types.end(), event->type) == types.end()) {
    fail("%s: expected %s got %s", what.c_str(), join(types).c_str(), got.c_str());
  }
}

void Env::expectState(ibv_qp* qp, ibv_qp_state state, const std::string& what) {
  expectSame(what + "'s state", stateName(state), stateName(queryState(qp)));
}

void Env::expectEnded(const Link& link) {
  const Deadline limit = deadline();
  const auto disconnected = [&](EventChannel& channel, const CmId& id, const char* what) {
    const CmEvent event = channel.expect(RDMA_CM_EVENT_DISCONNECTED, limit);
    if (event.id != id.get()) fail("%s: DISCONNECTED is for another connection", what);
  };
  disconnected(client_cm_, link.client.id, "client");
  disconnected(server_cm_, link.server.id, "server");
  expectState(link.client.qp(), IBV_QPS_ERR, "client");
  expectState(link.server.qp(), IBV_QPS_ERR, "server");
}

void Env::expectFlushes(const End& end, const std::string& what) {
  constexpr uint64_t kId = 0xf1;
  expectErrno(what + ": post after the end", 0, postSend(end.qp(), {Work::send(kId, {})}).error);
  expectWc(end.send_cq.get(), kId, {IBV_WC_WR_FLUSH_ERR}, what + ": Send after the end");
  expectErrno(what + ": receive after the end", 0, postRecv(end.qp(), kId, {}).error);
  expectWc(end.recv_cq.get(), kId, {IBV_WC_WR_FLUSH_ERR}, what + ": receive after the end");
}

void Env::expectAlive(Link& link) {
  constexpr uint64_t kId = 0xa1;
  const auto ping = [this](const End& from, const End& to, const char* what) {
    expectErrno(std::string(what) + " receive", 0, postRecv(to.qp(), kId, {}).error);
    expectErrno(std::string(what) + " post", 0, postSend(from.qp(), {Work::send(kId, {})}).error);
    expectWc(from.send_cq.get(), kId, {IBV_WC_SUCCESS}, std::string(what) + " Send");
    expectWc(to.recv_cq.get(), kId, {IBV_WC_SUCCESS}, std::string(what) + " receive");
  };
  ping(link.client, link.server, "still alive: client to server");
  ping(link.server, link.client, "still alive: server to client");
}

}  // namespace kiwarp::vm
