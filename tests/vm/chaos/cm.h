// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <netinet/in.h>

#include <array>
#include <atomic>
#include <string>

#include "chaos/table.h"

namespace kiwarp::vm {

constexpr unsigned kIds = 24;
constexpr unsigned kPorts = 6;

// How far an identifier has come, as far as some thread has seen.
enum class Stage : uint8_t {
  kNone,
  kCreated,
  kResolving,
  kAddress,
  kRouting,
  kRoute,
  kConnecting,
  kListening,
  kRequested,
  kAccepting,
  kEstablished,
  kOver,
};

struct Id {
  std::atomic<uint32_t> number{0};
  std::atomic<Stage> stage{Stage::kNone};
};

// rdma_cm as a process uses it that keeps to no rules: what comes next, mostly, and now and then
// anything else, from any thread, with identifiers that another thread has just destroyed.
class ChaosCm {
 public:
  ChaosCm(Process* process, std::string own, std::string peer, uint16_t port);

  void randomCall(Rng& rng);

 private:
  template <typename Body>
  int run(uint32_t command, const Body& body, size_t out);
  void create(Id* id, unsigned slot);
  void destroy(Id* id, Rng& rng);
  void listen(Id* id, Rng& rng);
  void resolve(Id* id, Rng& rng);
  void route(Id* id, Rng& rng);
  void connect(Id* id, Rng& rng);
  void accept(Id* id, unsigned slot, Rng& rng);
  void reject(Id* id, Rng& rng);
  void disconnect(Id* id, Rng& rng);
  void ask(Id* id, Rng& rng);
  void migrate(Id* id, Rng& rng);
  void nextStep(Id* id, unsigned slot, Rng& rng);
  void anyStep(Id* id, unsigned slot, Rng& rng);
  void readEvent(Rng& rng);
  uint32_t anyQpn(Rng& rng) const;
  uint32_t number(const Id& id, Rng& rng) const;
  sockaddr_in6 address(const std::string& host, Rng& rng) const;

  Process* process_;
  std::string own_, peer_;
  uint16_t port_;
  int fds_[2];
  std::array<Id, kIds> ids_;
};

}  // namespace kiwarp::vm
