// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <algorithm>
#include <cstring>

#include "common/error.h"
#include "common/pattern.h"
#include "verify/session.h"

namespace kiwarp::vm {
namespace {

constexpr uint64_t kMagic = 0x6b69776172707631;
constexpr seconds kConnectLimit{60};
constexpr uint64_t kScratchSize = 1 << 20;

struct PrivateData {
  uint64_t magic;
  uint64_t cookie;
  uint32_t index;
  uint32_t reply;
  // Long enough that a frame cut short would be noticed.
  uint8_t filler[104];
};

PrivateData privateDataFor(uint64_t seed, uint32_t index, bool reply) {
  PrivateData data{};
  data.magic = kMagic;
  data.cookie = seed * 31 + index;
  data.index = index;
  data.reply = reply ? 1 : 0;
  Rng rng(data.cookie + data.reply);
  for (uint8_t& byte : data.filler) byte = static_cast<uint8_t>(rng.next());
  return data;
}

uint64_t oceanSize(uint64_t max_size) { return ((2 << 20) + max_size + 4095) & ~uint64_t{4095}; }

}  // namespace

void Session::hello() {
  ControlMessage mine;
  mine.type = kHello;
  const uint64_t parameters[] = {settings_.seed,     settings_.ops,          settings_.qps,
                                 settings_.max_size, settings_.client_first, kMagic,
                                 settings_.depth,    pack(settings_.profile)};
  std::copy(std::begin(parameters), std::end(parameters), mine.value);
  if (!settings_.server) control_->send(mine);
  const ControlMessage theirs = control_->receive(deadline_);
  if (theirs.type != kHello || theirs.value[5] != kMagic) fail("the peer speaks another protocol");
  if (settings_.server) {
    settings_.seed = theirs.value[0];
    settings_.ops = theirs.value[1];
    settings_.qps = theirs.value[2];
    settings_.max_size = theirs.value[3];
    settings_.client_first = theirs.value[4] != 0;
    settings_.depth = theirs.value[6];
    // The listener exists from here on, so a client that has the answer may connect.
    control_->send(mine);
  }
  unpack(theirs.value[7], &peer_profile_);
  agree(&settings_.profile, &peer_profile_);
}

void Session::openDevice(ibv_context* context) {
  if (context_) {
    if (context_ != context) fail("connections over different devices");
    return;
  }
  context_ = context;
  attr_ = queryDevice(context);
  async_ = std::make_unique<AsyncEvents>(context);
  pd_ = allocPd(context);
  channel_ = createChannel(context);
  makeOceans();
  if (settings_.profile.srq) createSharedReceives();
}

void Session::makeOceans() {
  const uint64_t size = oceanSize(settings_.max_size);
  const uint64_t server_seed = settings_.seed * 2 + 77, client_seed = settings_.seed * 2 + 78;
  oceans_.own = makeOcean(settings_.server ? server_seed : client_seed, size);
  oceans_.peer = makeOcean(settings_.server ? client_seed : server_seed, size);
  const int access = IBV_ACCESS_REMOTE_READ;
  oceans_.own_mr = regMr(pd_.get(), oceans_.own.data(), size, access);
  oceans_.own_base = reinterpret_cast<uintptr_t>(oceans_.own.data());
  oceans_.own_shifted_base = oceans_.own_base;
  if (settings_.profile.iova) {
    oceans_.own_shifted_base = next_iova_;
    next_iova_ += uint64_t{1} << 40;
    oceans_.own_shifted_mr =
        regMrIova(pd_.get(), oceans_.own.data(), size, oceans_.own_shifted_base, access);
  } else {
    oceans_.own_shifted_mr = regMr(pd_.get(), oceans_.own.data(), size, access);
  }
}

void Session::createSharedReceives() {
  SharedReceives::Params params;
  for (uint32_t i = 0; i < settings_.qps; ++i) {
    if (sharesReceives(settings_.server, i)) params.lanes.push_back(i);
  }
  if (params.lanes.empty()) return;
  params.share = static_cast<uint32_t>(std::max<uint64_t>(settings_.depth / 4, 4));
  params.size = std::min(settings_.max_size, kSharedSendLimit);
  params.max_sge = std::min(settings_.profile.max_sge, static_cast<uint32_t>(attr_.max_srq_sge));
  params.seed = settings_.seed;
  shared_receives_ = std::make_unique<SharedReceives>(pd_.get(), params, &report_);
  shared_receives_->refill();
}

Region Session::makeRegion(uint64_t size, int access, bool shifted) {
  Region region;
  region.memory = Memory(size);
  std::memset(region.memory.data(), kBackground, size);
  region.base = reinterpret_cast<uintptr_t>(region.memory.data());
  if (shifted && settings_.profile.iova) {
    region.base = next_iova_;
    next_iova_ += uint64_t{1} << 40;
    region.mr = regMrIova(pd_.get(), region.memory.data(), size, region.base, access);
  } else {
    region.mr = regMr(pd_.get(), region.memory.data(), size, access);
  }
  return region;
}

void Session::createCqs(Lane* lane) {
  const int entries = static_cast<int>(2 * settings_.depth + 8);
  const bool share = lane->index % 2 == 0 && settings_.wait != Wait::kSolicited;
  if (share) {
    // Even lanes share one CQ for everything, odd ones have a CQ for each queue.
    const int lanes = static_cast<int>((settings_.qps + 1) / 2);
    if (!shared_cq_) {
      shared_cq_ = createCq(context_, entries * lanes, channel_.get());
      queues_.push_back({shared_cq_.get()});
    }
    lane->send_cq = lane->recv_cq = shared_cq_.get();
    return;
  }
  lane->send_cq_owned = createCq(context_, entries, channel_.get());
  lane->recv_cq_owned = createCq(context_, entries, channel_.get());
  lane->send_cq = lane->send_cq_owned.get();
  lane->recv_cq = lane->recv_cq_owned.get();
  queues_.push_back({lane->send_cq});
  queues_.push_back({lane->recv_cq});
}

void Session::createLaneQp(Lane* lane) {
  const Profile& profile = settings_.profile;
  const auto sge = static_cast<uint32_t>(
      std::min<uint64_t>(profile.max_sge, static_cast<uint64_t>(attr_.max_sge)));
  lane->signal_all = lane->index % 4 == 3;
  QpConfig config;
  config.pd = pd_.get();
  config.send_cq = lane->send_cq;
  config.recv_cq = lane->recv_cq;
  config.send_wr = static_cast<uint32_t>(settings_.depth);
  config.recv_wr = static_cast<uint32_t>(std::max<uint64_t>(settings_.depth / 2, 8));
  config.send_sge = sge;
  config.recv_sge = sge;
  config.inline_data = profile.inline_data;
  config.srq = lane->shared ? lane->shared->queue() : nullptr;
  config.signal_all = lane->signal_all;
  lane->cap = createQp(lane->id, config);
  // A device may grant more than was asked for; this side keeps to what it can build.
  lane->cap.max_send_wr = config.send_wr;
  lane->cap.max_recv_wr = lane->shared ? lane->shared->share() : config.recv_wr;
  lane->cap.max_send_sge = std::min(lane->cap.max_send_sge, sge);
  lane->cap.max_recv_sge = std::min(lane->cap.max_recv_sge, sge);
  lane->cap.max_inline_data = std::min(lane->cap.max_inline_data, profile.inline_data);
  lane->max_read_sge =
      std::clamp<uint32_t>(static_cast<uint32_t>(attr_.max_sge_rd), 1, lane->cap.max_send_sge);
}

void Session::createLane(uint32_t index, CmId id) {
  auto lane = std::make_unique<Lane>();
  lane->index = index;
  lane->id = std::move(id);
  const uint64_t size = regionSize(settings_.max_size);
  const int local = IBV_ACCESS_LOCAL_WRITE;
  const bool shifted = index % 2 == 1;
  createCqs(lane.get());
  lane->target =
      makeRegion(size, local | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, shifted);
  lane->sink = makeRegion(size, local, shifted);
  lane->inbox = makeRegion(size, local, false);
  lane->scratch = makeRegion(kScratchSize, 0, shifted);
  if (settings_.profile.atomics) {
    lane->words = makeRegion(kWordsRegion,
                             local | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ, shifted);
  }
  if (shared_receives_ && sharesReceives(settings_.server, index)) {
    lane->shared = shared_receives_.get();
  }
  createLaneQp(lane.get());
  Worker worker;
  worker.lane = std::move(lane);
  createStreams(&worker);
  workers_.push_back(std::move(worker));
}

StreamParams Session::streamParams(uint32_t index, bool outgoing) const {
  const Profile& mine = settings_.profile;
  const Profile& theirs = peer_profile_;
  const Profile& source = outgoing ? mine : theirs;
  const Profile& sink = outgoing ? theirs : mine;
  const bool from_server = settings_.server == outgoing;

  StreamParams params;
  params.seed = settings_.seed;
  params.qp = index;
  params.from_client = !from_server;
  params.ops = (settings_.ops + 2 * settings_.qps - 1) / (2 * settings_.qps);
  params.max_size = settings_.max_size;
  params.ocean_size = oceanSize(settings_.max_size);
  params.straddle = mine.straddle && theirs.straddle;
  params.zero_reads = mine.zero_reads && theirs.zero_reads;
  params.windows = mine.windows;
  params.immediates = mine.immediates;
  params.atomics = mine.atomics;
  params.reads = source.reads;
  params.relays = source.reuse;
  params.invalidate = source.can_invalidate && (params.windows || sink.serves_invalidate);
  if (sink.srq && sharesReceives(!from_server, index)) params.send_limit = kSharedSendLimit;
  return params;
}

void Session::tellWindow(const Lane& lane, unsigned window, const RemoteRegion& region) {
  ControlMessage message;
  message.type = kWindowKey;
  message.qp = lane.index;
  message.value[0] = window;
  message.value[1] = region.base;
  message.value[2] = region.rkey;
  control_->send(message);
}

void Session::createStreams(Worker* worker) {
  Lane* lane = worker->lane.get();
  const Profile& mine = settings_.profile;
  const StreamParams out = streamParams(lane->index, true), in = streamParams(lane->index, false);
  worker->sender = std::make_unique<Sender>(lane, &oceans_, mine, out, &report_);
  worker->windows =
      std::make_unique<Windows>(pd_.get(), in, worker->sender.get(), &report_,
                                [this, lane](unsigned window, const RemoteRegion& region) {
                                  tellWindow(*lane, window, region);
                                });
  worker->receiver =
      std::make_unique<Receiver>(lane, &oceans_, mine, in, &report_, worker->windows.get());
  worker->receiver->refill();
}

ConnectParams Session::connectParams(uint32_t index) const {
  ConnectParams params;
  const auto limit = static_cast<uint64_t>(std::max(attr_.max_qp_rd_atom, 1));
  const auto depth = static_cast<uint8_t>(std::min({settings_.reads_in_flight, limit, 255ul}));
  params.responder_resources = depth;
  params.initiator_depth = depth;
  const PrivateData data = privateDataFor(settings_.seed, index, settings_.server);
  const auto* bytes = reinterpret_cast<const uint8_t*>(&data);
  params.private_data.assign(bytes, bytes + sizeof(data));
  return params;
}

void Session::checkPrivateData(const CmEvent& event, uint32_t index) const {
  const PrivateData expected = privateDataFor(settings_.seed, index, !settings_.server);
  // rdma_cm may pad to its own size, so only the front is compared.
  if (event.private_data.size() < sizeof(expected) ||
      std::memcmp(event.private_data.data(), &expected, sizeof(expected)) != 0) {
    fail("qp %u: private data is wrong (%zu bytes came)", index, event.private_data.size());
  }
}

void Session::connectAll() {
  const Deadline limit(kConnectLimit);
  for (uint32_t i = 0; i < settings_.qps; ++i) {
    CmId id = cm_.createId();
    resolve(cm_, id, Address(settings_.address, settings_.port), limit);
    openDevice(id->verbs);
    createLane(i, std::move(id));
    Lane* lane = workers_.back().lane.get();
    checkErrno(startConnect(lane->id.get(), connectParams(i)), "rdma_connect");
    checkPrivateData(cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit), i);
    lane->established = true;
  }
}

void Session::acceptAll() {
  const Deadline limit(kConnectLimit);
  uint64_t established = 0;
  while (established < settings_.qps) {
    auto event = cm_.next(limit);
    if (!event)
      fail("%llu of %llu connections came", static_cast<unsigned long long>(established),
           static_cast<unsigned long long>(settings_.qps));
    if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      CmId id(event->id);
      const auto index = static_cast<uint32_t>(workers_.size());
      checkPrivateData(*event, index);
      openDevice(id->verbs);
      createLane(index, std::move(id));
      checkErrno(startAccept(workers_.back().lane->id.get(), connectParams(index)), "rdma_accept");
    } else if (event->type == RDMA_CM_EVENT_ESTABLISHED) {
      ++established;
      for (Worker& worker : workers_) {
        if (worker.lane->id.get() == event->id) worker.lane->established = true;
      }
    } else {
      fail("while accepting: %s", describe(*event).c_str());
    }
  }
}

void Session::exchangeKeys() {
  for (Worker& worker : workers_) {
    const Lane& lane = *worker.lane;
    ControlMessage message;
    message.type = kKeys;
    message.qp = lane.index;
    const bool shifted = lane.index % 2 == 0;
    message.value[0] = shifted ? oceans_.own_shifted_base : oceans_.own_base;
    message.value[1] = shifted ? oceans_.own_shifted_mr->rkey : oceans_.own_mr->rkey;
    message.value[2] = lane.target.base;
    message.value[3] = lane.target.mr->rkey;
    message.value[4] = lane.words.base;
    message.value[5] = lane.words.mr ? lane.words.mr->rkey : 0;
    control_->send(message);
  }
  for (uint64_t known = 0; known < settings_.qps; ++known) {
    const ControlMessage message = control_->receive(deadline_);
    if (message.type != kKeys || message.qp >= workers_.size()) fail("keys expected");
    PeerKeys& peer = workers_[message.qp].lane->peer;
    peer.ocean = {message.value[0], static_cast<uint32_t>(message.value[1])};
    peer.target = {message.value[2], static_cast<uint32_t>(message.value[3])};
    peer.words = {message.value[4], static_cast<uint32_t>(message.value[5])};
    peer.known = true;
  }
}

void Session::openWindows() {
  for (Worker& worker : workers_) worker.windows->open();
}

}  // namespace kiwarp::vm
