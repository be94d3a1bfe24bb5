// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/random.h"
#include "endurance/program.h"
#include "faults/netlink.h"

namespace kiwarp::vm {

// Wire N: interface vaN in namespace a, at 10.1.N.1, and vbN in b, at 10.1.N.2. The devices on it
// are daN and dbN.
class Wire {
 public:
  explicit Wire(uint64_t number);

  // Traffic from b to a in processes of their own, on so many connections. Those who stay do not
  // end with their connections, only when their device goes.
  void startServer(uint16_t port, bool stays);
  void startClient(uint16_t port, uint64_t qps, bool stays);
  // Throws unless both ends move data, in time.
  void awaitFlow();
  // Throws unless the two have ended with such codes.
  void expectEnd(Program& program, const char* who, int code);
  // Throws unless the connections of one who stays have ended, and all its work has come back.
  void expectAllBack(Program& program, const char* who, uint64_t connections);
  void stop();

  void addDevices();
  void deleteA();
  void deleteB();
  // Both at the same time.
  void deleteBoth();
  // What a round that failed has left.
  void deleteLeft();
  void expectNoDevices();

  Program& server() { return *server_; }
  Program& client() { return *client_; }
  // What the two have said, for a round that went wrong.
  std::string said() const;

 private:
  void addDevice(RdmaNetlink& netlink, const std::string& device, const std::string& netdev);
  void deleteDevice(RdmaNetlink& netlink, const std::string& device);

  std::string number_;
  std::string da_, db_;
  std::unique_ptr<RdmaNetlink> a_, b_;
  std::unique_ptr<Program> server_, client_;
};

// The three kinds of rounds. Each throws a Failure that says what went wrong.
class Rounds {
 public:
  Rounds(const std::vector<uint64_t>& wires, uint64_t seed, std::string module);

  // One of the two processes is killed, and the other gets all its work back and ends.
  void kill(uint16_t port);
  // Both devices are added, and deleted while traffic flows.
  void link(uint16_t port);
  // The module is loaded, devices are added on all wires, and it is unloaded while traffic flows.
  void load(uint16_t port);
  // What the round's programs said; they are gone then.
  std::string cleanUp();

 private:
  void wait(uint64_t most);

  std::vector<std::unique_ptr<Wire>> wires_;
  Rng random_;
  std::string module_;
  // How long it takes from a client's start until data flows, about.
  uint64_t setup_us_ = 200000;
};

}  // namespace kiwarp::vm
