// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/session.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

constexpr int kPollBatch = 32;
constexpr unsigned kYieldEvery = 16;
// With work outstanding and no event for this long, the completion queues are looked at anyway:
// whatever lies there had its wake-up lost.
constexpr milliseconds kWakeupLimit{3000};
constexpr milliseconds kLateWakeup{300};
// At the end, when nothing else goes on.
constexpr milliseconds kLastWakeup{10000};
constexpr seconds kFinishLimit{120};
constexpr milliseconds kAfterthought{500};
constexpr uint64_t kPrintedMismatches = 10;

enum FdIndex : size_t { kChannelFd, kControlFd, kCmFd, kAsyncFd, kFds };

}  // namespace

void Report::mismatch(const std::string& what) {
  if (counters.mismatches++ < kPrintedMismatches) std::printf("MISMATCH %s\n", what.c_str());
}

Session::Session(const Settings& settings)
    : settings_(settings), deadline_(seconds(settings.timeout_s)), last_progress_(Clock::now()) {
  const auto control_port =
      static_cast<uint16_t>(settings.control_port ? settings.control_port : settings.port + 1);
  if (settings_.server) {
    listener_ = cm_.listen(Address(settings_.address, settings_.port), 128);
    control_ =
        std::make_unique<Control>(Control::acceptOn(settings_.address, control_port, deadline_));
  } else {
    control_ =
        std::make_unique<Control>(Control::connectTo(settings_.address, control_port, deadline_));
  }
}

Session::~Session() = default;

bool Session::run() {
  hello();
  if (settings_.server) {
    acceptAll();
  } else {
    connectAll();
  }
  const int flags = fcntl(channel_->fd, F_GETFL);
  checkErrno(fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK), "fcntl of the channel");
  exchangeKeys();
  openWindows();
  sendCredits(true);
  runStreams();
  finish();
  disconnectAll();

  const bool ok = judge();
  printCounters();
  return ok;
}

// A device that does none of a class of operations must not pass for one that does them all. Runs
// of fewer operations may leave one out by chance.
bool Session::everyClassDone() const {
  constexpr uint64_t kEnough = 5000;
  const Counters& mine = report_.counters;
  const Profile& profile = settings_.profile;
  if (mine.posted() < kEnough) return true;
  bool ok = true;
  const auto done = [&ok](const char* what, bool wanted, uint64_t count) {
    if (!wanted || count != 0) return;
    ok = false;
    std::printf("NOT DONE AT ALL: %s\n", what);
  };
  done("Sends", true, mine.sends);
  done("Sends, solicited", true, mine.sends_solicited);
  done("Writes", true, mine.writes);
  done("Reads", profile.reads, mine.reads);
  done("atomic operations", profile.atomics, mine.atomics);
  done("Sends with Immediate", profile.immediates, mine.sends_immediate);
  done("Writes with Immediate", profile.immediates, mine.writes_immediate);
  done("Sends with Invalidate", profile.windows && profile.can_invalidate, mine.sends_invalidate);
  done("bindings of windows", profile.windows, mine.binds);
  done("Reads through windows", profile.windows && profile.reads, mine.window_reads);
  done("invalidations by the owner", profile.windows, mine.invalidated_here);
  const auto shares = [](const Worker& worker) { return worker.lane->shared != nullptr; };
  const bool shared = std::ranges::any_of(workers_, shares);
  done("shared receives", shared, mine.shared);
  done("limit events", shared, mine.limits);
  done("resizing of what is shared", shared, mine.resized);
  done("fences", true, mine.fenced);
  done("inline data", true, mine.inlined);
  done("lists", true, mine.lists);
  return ok;
}

bool Session::judge() {
  const Counters& mine = report_.counters;
  const uint64_t* theirs = peer_result_.value;
  bool ok = mine.mismatches == 0 && mine.lost_wakeups == 0 && theirs[0] == 0;
  const auto compare = [&ok](const char* what, uint64_t local, uint64_t remote) {
    if (local == remote) return;
    ok = false;
    std::printf("COUNTS DIFFER %s: here %llu, there %llu\n", what,
                static_cast<unsigned long long>(local), static_cast<unsigned long long>(remote));
  };
  compare("messages received here", mine.received, theirs[1]);
  compare("messages received there", mine.messages(), theirs[2]);
  compare("writes checked here", mine.checked_writes, theirs[3]);
  compare("writes checked there", mine.allWrites(), theirs[4]);
  compare("reads checked here", mine.checked_reads, mine.reads);
  compare("atomic operations checked here", mine.checked_atomics, mine.atomics);
  return everyClassDone() && ok;
}

void Session::printCounters() const {
  const Counters& mine = report_.counters;
  const auto n = [](uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "posted %llu: message %llu (solicited %llu, Send with invalidate %llu, with immediate %llu), "
      "write %llu (with immediate %llu), read %llu, atomic %llu; inline %llu, unsignalled %llu, "
      "fenced %llu, in %llu lists, %llu bytes\n",
      n(mine.posted()), n(mine.messages()), n(mine.sends_solicited), n(mine.sends_invalidate),
      n(mine.sends_immediate), n(mine.allWrites()), n(mine.writes_immediate), n(mine.reads),
      n(mine.atomics), n(mine.inlined), n(mine.unsignalled), n(mine.fenced), n(mine.lists),
      n(mine.bytes_sent));
  std::printf(
      "verified: %llu receives, %llu writes, %llu reads, %llu atomics, %llu bytes; %llu receives "
      "flushed at the end; %llu wake-ups\n",
      n(mine.received), n(mine.checked_writes), n(mine.checked_reads), n(mine.checked_atomics),
      n(mine.bytes_checked), n(mine.flushed), n(mine.wakeups));
  std::printf(
      "windows: %llu bindings, %llu Reads, %llu invalidated here; shared receives: %llu, "
      "%llu limit events, resized %llu times\n",
      n(mine.binds), n(mine.window_reads), n(mine.invalidated_here), n(mine.shared), n(mine.limits),
      n(mine.resized));
  std::printf("mismatches here %llu, at the peer %llu; lost wake-ups here %llu\n",
              n(mine.mismatches), n(peer_result_.value[0]), n(mine.lost_wakeups));
}

void Session::runStreams() {
  last_progress_ = Clock::now();
  while (!streamsDone()) {
    bool progress = pollOnce();
    progress |= pumpAll();
    sendCredits(false);
    checkDeadlines(progress);
    if (!progress) idle();
  }
  sendCredits(true);
}

bool Session::streamsDone() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
    return worker.sender->done() && worker.receiver->done();
  });
}

bool Session::pollOnce() {
  bool any = false;
  for (Queue& queue : queues_) any |= pollQueue(&queue);
  return any;
}

// Once it was found empty after it was armed, what comes has to have an event: sooner or later, and
// whatever else wakes this side up before.
bool Session::pollQueue(Queue* queue) {
  const uint64_t solicited = report_.counters.received_solicited;
  std::array<ibv_wc, kPollBatch> wcs;
  const int n = ibv_poll_cq(queue->cq, kPollBatch, wcs.data());
  if (n < 0) fail("ibv_poll_cq: %s", errnoName(n).c_str());
  for (int i = 0; i < n; ++i) handle(queue->cq, wcs[static_cast<size_t>(i)]);
  if (queue->watched) {
    const bool news = report_.counters.received_solicited != solicited;
    queue->owed |= queue->solicited ? news : n > 0;
  }
  queue->watched |= queue->armed && n < kPollBatch;
  return n > 0;
}

Session::Worker& Session::workerOf(const ibv_wc& wc) {
  // A shared receive is any queue pair's that has taken it.
  const bool shared = (wc.wr_id & kSharedBit) != 0;
  const auto worker = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& candidate) {
    const Lane& lane = *candidate.lane;
    return shared ? lane.id->qp->qp_num == wc.qp_num : lane.index == laneOf(wc.wr_id);
  });
  if (worker == workers_.end() || (shared && !worker->lane->shared)) {
    fail("completion of nothing posted: %s", describe(wc).c_str());
  }
  return *worker;
}

void Session::handle(ibv_cq* cq, const ibv_wc& wc) {
  Worker& worker = workerOf(wc);
  const bool receive = (wc.wr_id & kRecvBit) != 0;
  if (cq != (receive ? worker.lane->recv_cq : worker.lane->send_cq)) {
    fail("completion in another queue: %s", describe(wc).c_str());
  }
  if (receive) {
    worker.receiver->complete(wc);
    worker.heard = true;
  } else {
    worker.sender->complete(wc);
  }
}

bool Session::pumpAll() {
  bool any = shared_receives_ && shared_receives_->refill();
  for (Worker& worker : workers_) {
    any |= worker.receiver->refill();
    if (!settings_.server || !settings_.client_first || worker.heard) {
      any |= worker.sender->pump();
    }
  }
  return any;
}

void Session::sendCredits(bool all) {
  for (Worker& worker : workers_) {
    const uint64_t posted = worker.receiver->posted();
    const uint64_t processed = worker.receiver->processed();
    const uint64_t news = (posted - worker.credit_posted) + (processed - worker.credit_processed);
    if (news == 0 || (!all && news < worker.lane->cap.max_recv_wr / 2)) continue;
    ControlMessage message;
    message.type = kCredit;
    message.qp = worker.lane->index;
    message.value[0] = worker.credit_posted = posted;
    message.value[1] = worker.credit_processed = processed;
    control_->send(message);
  }
}

bool Session::handleControl() {
  bool any = false;
  while (auto message = control_->tryReceive()) {
    any = true;
    if (message->qp >= workers_.size()) fail("side channel: qp %u", message->qp);
    Sender& sender = *workers_[message->qp].sender;
    switch (message->type) {
      case kCredit:
        sender.onCredit(message->value[0], message->value[1]);
        break;
      case kWindowKey:
        sender.onWindowKey(static_cast<unsigned>(message->value[0]),
                           {message->value[1], static_cast<uint32_t>(message->value[2])});
        break;
      case kDone:
        peer_done_ = true;
        break;
      case kResult:
        peer_result_ = *message;
        // The peer closes the side channel soon; nothing else will come.
        return true;
      default:
        fail("side channel: message type %u", message->type);
    }
  }
  return any;
}

void Session::idle() {
  if (settings_.wait == Wait::kPoll) {
    if (++empty_polls_ % kYieldEvery != 0) return;
    sendCredits(true);
    handleControl();
    while (auto event = cm_.next(Deadline(milliseconds(0)))) onCmEvent(*event);
    while (auto event = async_->tryNext()) onAsyncEvent(*event);
    sched_yield();
    return;
  }
  sendCredits(true);
  arm();
  // A completion that came before the request for an event causes none.
  if (!pollOnce()) sleep();
}

// One that an event is owed for is armed, or that event is lost.
void Session::arm() {
  for (Queue& queue : queues_) {
    if (queue.owed) continue;
    queue.solicited = settings_.wait == Wait::kSolicited &&
                      std::any_of(workers_.begin(), workers_.end(), [&queue](const Worker& worker) {
                        return worker.lane->recv_cq == queue.cq;
                      });
    checkErrno(ibv_req_notify_cq(queue.cq, queue.solicited ? 1 : 0), "ibv_req_notify_cq");
    queue.armed = true;
  }
}

// Events that are owed come, or are lost.
void Session::settle(milliseconds patience) {
  const auto owed = [](const Queue& queue) { return queue.owed; };
  const Deadline limit(patience);
  while (std::ranges::any_of(queues_, owed)) {
    pollfd channel{channel_->fd, POLLIN, 0};
    if (poll(&channel, 1, limit.pollTimeout()) != 0) {
      drainChannel();
      continue;
    }
    ++report_.counters.lost_wakeups;
    std::printf("LOST WAKE-UP: completions without an event\n");
    for (Queue& queue : queues_) queue.disarm();
  }
}

void Session::sleep() {
  std::array<pollfd, kFds> fds{{{channel_->fd, POLLIN, 0},
                                {control_->fd(), POLLIN, 0},
                                {cm_.fd(), POLLIN, 0},
                                {async_->fd(), POLLIN, 0}}};
  const int ready = poll(fds.data(), fds.size(), static_cast<int>(kWakeupLimit.count()));
  for (size_t i = 0; i < fds.size(); ++i) {
    if (fds[i].revents) handleFd(i);
  }
  if (ready != 0) return;
  if (pollOnce()) last_progress_ = Clock::now();
  // A completion may have come this very moment: then its event is just behind it.
  settle(kLateWakeup);
}

void Session::handleFd(size_t which) {
  switch (which) {
    case kChannelFd:
      drainChannel();
      break;
    case kControlFd:
      handleControl();
      break;
    case kCmFd:
      while (auto event = cm_.next(Deadline(milliseconds(0)))) onCmEvent(*event);
      break;
    default:
      while (auto event = async_->tryNext()) onAsyncEvent(*event);
      break;
  }
}

void Session::drainChannel() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
    ++report_.counters.wakeups;
    for (Queue& queue : queues_) {
      if (queue.cq == cq) queue.disarm();
    }
  }
}

void Session::checkDeadlines(bool progress) {
  const auto now = Clock::now();
  if (progress) last_progress_ = now;
  if (deadline_.passed())
    fail("not finished within %llu s", static_cast<unsigned long long>(settings_.timeout_s));
  if (now - last_progress_ > seconds(settings_.stall_s)) {
    fail("no progress for %llu s", static_cast<unsigned long long>(settings_.stall_s));
  }
}

void Session::finish() {
  const Deadline limit(kFinishLimit);
  ControlMessage message;
  message.type = kDone;
  control_->send(message);
  while (!peer_done_) {
    if (limit.passed() || deadline_.passed()) fail("the peer did not finish");
    if (!pollOnce()) idle();
  }
  settle(kLastWakeup);
  for (Worker& worker : workers_) worker.receiver->checkRest();
  const Counters& counters = report_.counters;
  message.type = kResult;
  message.value[0] = counters.mismatches + counters.lost_wakeups;
  message.value[1] = counters.messages();
  message.value[2] = counters.received;
  message.value[3] = counters.allWrites();
  message.value[4] = counters.checked_writes;
  control_->send(message);
  result_sent_ = true;
  while (peer_result_.type != kResult) {
    if (limit.passed() || deadline_.passed()) fail("the peer told no result");
    if (!pollOnce()) idle();
  }
}

void Session::disconnectAll() {
  disconnecting_ = true;
  if (!settings_.server) {
    for (Worker& worker : workers_)
      checkErrno(rdma_disconnect(worker.lane->id.get()), "rdma_disconnect");
  }
  const Deadline limit(kFinishLimit);
  const auto over = [](const Worker& worker) {
    return worker.lane->disconnected && worker.receiver->flushed();
  };
  while (!std::all_of(workers_.begin(), workers_.end(), over)) {
    if (limit.passed()) fail("the connections did not end with their receives flushed");
    pollOnce();
    if (auto event = cm_.next(Deadline(milliseconds(20)))) onCmEvent(*event);
    while (auto event = async_->tryNext()) onAsyncEvent(*event);
  }
}

void Session::onCmEvent(const CmEvent& event) {
  // The client disconnects when it has the server's result. Its own goes over another connection
  // and may come later, where packets get lost.
  const bool may_end = disconnecting_ || (settings_.server && result_sent_);
  for (Worker& worker : workers_) {
    if (worker.lane->id.get() != event.id) continue;
    if (event.type == RDMA_CM_EVENT_DISCONNECTED && may_end) {
      worker.lane->disconnected = true;
      rdma_disconnect(event.id);
      return;
    }
    if (event.type == RDMA_CM_EVENT_ESTABLISHED) return;
    fail("qp %u: %s", worker.lane->index, describe(event).c_str());
  }
  fail("unexpected event: %s", describe(event).c_str());
}

// The end of a connection whose receives are shared: nothing of them is flushed.
bool Session::onLastReceive(const AsyncEvent& event) {
  if (!disconnecting_ && !result_sent_) return false;
  for (Worker& worker : workers_) {
    Lane& lane = *worker.lane;
    if (lane.id->qp != event.element || !lane.shared || lane.last_receive) continue;
    return lane.last_receive = true;
  }
  return false;
}

void Session::onAsyncEvent(const AsyncEvent& event) {
  if (event.type == IBV_EVENT_SRQ_LIMIT_REACHED && shared_receives_ &&
      event.element == shared_receives_->queue()) {
    shared_receives_->onLimit();
    return;
  }
  if (event.type == IBV_EVENT_QP_LAST_WQE_REACHED && onLastReceive(event)) return;
  if (!event.element) {
    std::printf("note: %s\n", describe(event).c_str());
    if (event.type == IBV_EVENT_DEVICE_FATAL) fail("the device is gone");
    return;
  }
  fail("asynchronous event: %s", describe(event).c_str());
}

std::string Session::dump() {
  std::string text;
  // What ended a connection often shows in an event just behind the completion.
  const Deadline limit(kAfterthought);
  while (auto event = cm_.next(limit)) text += "event: " + describe(*event) + "\n";
  while (async_) {
    auto event = async_->tryNext();
    if (!event) break;
    text += "event: " + describe(*event) + "\n";
  }
  for (const Worker& worker : workers_) {
    const Lane& lane = *worker.lane;
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    const char* state = "unknown";
    if (lane.id->qp && ibv_query_qp(lane.id->qp, &attr, IBV_QP_STATE, &init) == 0) {
      state = stateName(attr.qp_state);
    }
    text +=
        strf("qp %u (number %#x) state %s%s%s\n%s\n%s\n", lane.index,
             lane.id->qp ? lane.id->qp->qp_num : 0, state,
             lane.established ? "" : ", not established", lane.disconnected ? ", disconnected" : "",
             worker.sender->dump().c_str(), worker.receiver->dump().c_str());
  }
  return text;
}

}  // namespace kiwarp::vm
