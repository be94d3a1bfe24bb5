// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "killtest/kill_test.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "common/async_events.h"
#include "common/error.h"
#include "killtest/connection.h"

namespace kiwarp::vm {
namespace {

constexpr milliseconds kTick{500};
constexpr seconds kConnectLimit{120};

class KillTest {
 public:
  explicit KillTest(const KillTestSettings& settings)
      : settings_(settings), limit_(seconds(settings.seconds)) {}
  int run();

 private:
  using Held = std::unique_ptr<Connection>;

  void connectOne();
  void useDevice(ibv_context* context);
  void onCmEvent(const CmEvent& event);
  void onAsync(const AsyncEvent& event);
  Connection* find(const rdma_cm_id* id);
  bool progressAll();
  void wait();
  void handleEvents();
  void reap();
  void reportFlow();
  bool finished() const;

  KillTestSettings settings_;
  Deadline limit_;
  EventChannel cm_;
  CmId listener_;
  std::unique_ptr<AsyncEvents> async_;
  CompChannel channel_;
  std::vector<Held> connections_;
  uint64_t ended_ = 0;
  bool told_flow_ = false;
  bool clean_ = true;
  bool device_gone_ = false;
};

void KillTest::useDevice(ibv_context* context) {
  if (channel_) return;
  channel_ = createChannel(context);
  const int flags = fcntl(channel_->fd, F_GETFL);
  checkErrno(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), "fcntl of the channel");
  async_ = std::make_unique<AsyncEvents>(context);
}

void KillTest::connectOne() {
  const Deadline limit(kConnectLimit);
  CmId id = cm_.createId();
  resolve(cm_, id, Address(settings_.client, static_cast<uint16_t>(settings_.port)), limit);
  useDevice(id->verbs);
  connections_.push_back(
      std::make_unique<Connection>(std::move(id), channel_.get(), true, settings_.dereg));
  Connection& connection = *connections_.back();
  checkErrno(startConnect(connection.id(), connection.params()), "rdma_connect");
  // Events of earlier connections may come between.
  for (;;) {
    auto event = cm_.next(limit);
    if (!event) fail("no connection before the deadline");
    onCmEvent(*event);
    if (event->id == connection.id()) break;
  }
}

Connection* KillTest::find(const rdma_cm_id* id) {
  auto found = std::find_if(connections_.begin(), connections_.end(),
                            [id](const Held& held) { return held->id() == id; });
  return found == connections_.end() ? nullptr : found->get();
}

void KillTest::onCmEvent(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    CmId id(event.id);
    try {
      useDevice(id->verbs);
      auto held = std::make_unique<Connection>(std::move(id), channel_.get(), false);
      held->start(event);
      checkErrno(startAccept(held->id(), held->params()), "rdma_accept");
      connections_.push_back(std::move(held));
    } catch (const Failure& failure) {
      // A caller that was killed half-way is no reason to stop serving the others.
      std::printf("request dropped: %s\n", failure.what());
    }
    return;
  }
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    std::printf("event: %s\n", describe(event).c_str());
    device_gone_ = true;
    return;
  }
  Connection* connection = find(event.id);
  if (!connection) return;
  if (event.type == RDMA_CM_EVENT_ESTABLISHED) {
    connection->start(event);
  } else {
    connection->end(describe(event));
  }
}

void KillTest::onAsync(const AsyncEvent& event) {
  std::printf("async: %s\n", describe(event).c_str());
  if (event.type == IBV_EVENT_DEVICE_FATAL) device_gone_ = true;
}

bool KillTest::progressAll() {
  bool any = false;
  for (Held& held : connections_) any |= held->progress();
  return any;
}

void KillTest::wait() {
  for (Held& held : connections_) held->arm();
  if (progressAll()) return;
  pollfd fds[] = {{cm_.fd(), POLLIN, 0},
                  {channel_ ? channel_->fd : -1, POLLIN, 0},
                  {async_ ? async_->fd() : -1, POLLIN, 0}};
  poll(fds, 3, static_cast<int>(kTick.count()));
}

void KillTest::handleEvents() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (channel_ && ibv_get_cq_event(channel_.get(), &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
  }
  while (auto event = cm_.next(Deadline(milliseconds(0)))) onCmEvent(*event);
  while (async_) {
    auto event = async_->tryNext();
    if (!event) break;
    onAsync(*event);
  }
}

void KillTest::reap() {
  std::erase_if(connections_, [this](const Held& held) {
    if (!held->over()) return false;
    std::printf("ended: %s\n", held->summary().c_str());
    clean_ = clean_ && held->clean();
    ++ended_;
    return true;
  });
}

void KillTest::reportFlow() {
  const bool flows =
      !connections_.empty() && std::all_of(connections_.begin(), connections_.end(),
                                           [](const Held& held) { return held->flowing(); });
  if (flows && !told_flow_) std::printf("flowing: %zu connections\n", connections_.size());
  told_flow_ = flows;
}

bool KillTest::finished() const {
  return device_gone_ || (connections_.empty() && ended_ > 0 && !settings_.loop);
}

int KillTest::run() {
  if (settings_.server.empty()) {
    for (uint64_t i = 0; i < settings_.qps; ++i) connectOne();
  } else {
    listener_ = cm_.listen(Address(settings_.server, static_cast<uint16_t>(settings_.port)), 128);
    std::printf("listening\n");
  }
  while (!finished()) {
    if (!progressAll()) wait();
    handleEvents();
    reportFlow();
    if (settings_.seconds != 0 && limit_.passed()) {
      for (Held& held : connections_) held->end("time is over");
    }
    reap();
  }
  if (!device_gone_) return clean_ ? 0 : 1;
  // What the device flushed before it went can still be told; then every object has to go, or the
  // device's own removal would wait for this process.
  progressAll();
  for (Held& held : connections_) {
    held->end("device gone");
    std::printf("ended: %s\n", held->summary().c_str());
  }
  connections_.clear();
  return kKillTestDeviceWent;
}

// A device that goes may take its mapped rings along: better a line than a bare signal.
void onBus(int) {
  static const char kText[] = "SIGBUS: the device took its mapped memory away\n";
  [[maybe_unused]] ssize_t n = write(STDOUT_FILENO, kText, std::strlen(kText));
  _exit(1);
}

}  // namespace

int runKillTest(const KillTestSettings& settings) {
  std::signal(SIGBUS, onBus);
  return runMain("FAILED: ", [&] { return KillTest(settings).run(); });
}

}  // namespace kiwarp::vm
