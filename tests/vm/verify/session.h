// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/async_events.h"
#include "common/cm.h"
#include "common/control.h"
#include "verify/lane.h"
#include "verify/receiver.h"
#include "verify/sender.h"
#include "verify/shared_receives.h"
#include "verify/windows.h"

namespace kiwarp::vm {

enum class Wait { kPoll, kEvent, kSolicited };

struct Settings {
  bool server = false;
  std::string address;
  uint16_t port = 18515;
  uint16_t control_port = 0;
  uint64_t seed = 1;
  uint64_t ops = 10000;
  uint64_t qps = 2;
  uint64_t depth = 64;
  uint64_t max_size = 2 << 20;
  uint64_t reads_in_flight = 16;
  uint64_t timeout_s = 300;
  uint64_t stall_s = 30;
  bool client_first = false;
  Wait wait = Wait::kEvent;
  Profile profile;
};

enum ControlType : uint32_t { kHello = 1, kKeys, kReady, kCredit, kWindowKey, kDone, kResult };

// Connects, exchanges keys, runs the streams of both directions to their end and compares the
// two peers' results.
class Session {
 public:
  explicit Session(const Settings& settings);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // True when every check on both sides held.
  bool run();
  // The state of everything, and the events that nobody has looked at yet.
  std::string dump();

 private:
  struct Worker {
    std::unique_ptr<Lane> lane;
    std::unique_ptr<Sender> sender;
    std::unique_ptr<Windows> windows;
    std::unique_ptr<Receiver> receiver;
    uint64_t credit_posted = 0;
    uint64_t credit_processed = 0;
    bool heard = false;
  };

  // A completion queue.
  struct Queue {
    ibv_cq* cq;
    bool armed = false, solicited = false;  // only for what is solicited
    bool watched = false;                   // it was empty after it had been armed
    bool owed = false;                      // and now there has to be an event

    void disarm() { armed = watched = owed = false; }
  };

  // setup.cc
  void hello();
  void openDevice(ibv_context* context);
  void makeOceans();
  Region makeRegion(uint64_t size, int access, bool shifted);
  void createLane(uint32_t index, CmId id);
  void createCqs(Lane* lane);
  void createLaneQp(Lane* lane);
  void createSharedReceives();
  StreamParams streamParams(uint32_t index, bool outgoing) const;
  void createStreams(Worker* worker);
  void tellWindow(const Lane& lane, unsigned window, const RemoteRegion& region);
  void connectAll();
  void acceptAll();
  void exchangeKeys();
  void openWindows();
  ConnectParams connectParams(uint32_t index) const;
  void checkPrivateData(const CmEvent& event, uint32_t index) const;

  // session.cc
  void runStreams();
  bool pollOnce();
  bool pollQueue(Queue* queue);
  void settle(milliseconds patience);
  void handle(ibv_cq* cq, const ibv_wc& wc);
  Worker& workerOf(const ibv_wc& wc);
  bool pumpAll();
  bool handleControl();
  void sendCredits(bool all);
  void idle();
  void arm();
  void sleep();
  void handleFd(size_t which);
  void drainChannel();
  void checkDeadlines(bool progress);
  bool streamsDone() const;
  void finish();
  void disconnectAll();
  bool everyClassDone() const;
  bool judge();
  void printCounters() const;
  void onCmEvent(const CmEvent& event);
  void onAsyncEvent(const AsyncEvent& event);
  bool onLastReceive(const AsyncEvent& event);

  Settings settings_;
  Report report_;
  Deadline deadline_;
  Clock::time_point last_progress_;
  EventChannel cm_;
  CmId listener_;
  std::unique_ptr<Control> control_;
  ibv_context* context_ = nullptr;
  ibv_device_attr attr_{};
  std::unique_ptr<AsyncEvents> async_;
  Pd pd_;
  CompChannel channel_;
  Cq shared_cq_;
  std::unique_ptr<SharedReceives> shared_receives_;
  std::vector<Queue> queues_;
  Oceans oceans_;
  Profile peer_profile_;
  uint64_t next_iova_ = uint64_t{1} << 44;
  std::vector<Worker> workers_;
  bool streams_over_ = false;
  bool peer_done_ = false;
  bool disconnecting_ = false;
  bool result_sent_ = false;
  ControlMessage peer_result_;
  unsigned empty_polls_ = 0;
};

}  // namespace kiwarp::vm
