// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "badinput/harness.h"

namespace kiwarp::vm {

// Traffic on a connection of its own while the cases misbehave on theirs: each round Sends both
// ways, a Write and a Read, all checked.
class Bystander {
 public:
  Bystander(ibv_pd* pd, Link* link);
  ~Bystander();
  Bystander(const Bystander&) = delete;
  Bystander& operator=(const Bystander&) = delete;

  // Waits until some more rounds have gone well; throws what went wrong otherwise.
  void check();
  bool concerns(const void* element) const;

 private:
  void loop();
  void round(uint64_t number);
  void await(ibv_cq* cq, uint64_t id, const char* what);

  Link* link_;
  Buffer client_source_, client_sink_, server_source_, server_target_;
  std::atomic<uint64_t> rounds_{0};
  std::atomic<bool> stop_{false};
  std::mutex lock_;
  std::string error_;
  std::thread thread_;
};

}  // namespace kiwarp::vm
