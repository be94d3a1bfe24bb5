// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "endurance/rounds.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <thread>
#include <utility>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

// For what takes some milliseconds, or a minute under the checkers on a machine that does much
// else: who is not done after that hangs.
constexpr seconds kLimit{180};
constexpr uint64_t kConnections = 4;
constexpr uint64_t kMostDelayUs = 40000;

bool deviceExists(const std::string& device) {
  return access(("/sys/class/infiniband/" + device).c_str(), F_OK) == 0;
}

// The kernel lists one device at a time, and leaves one out if another goes meanwhile.
uint32_t indexOf(RdmaNetlink& netlink, const std::string& device) {
  for (const Deadline deadline(kLimit);;) {
    try {
      return netlink.indexOf(device);
    } catch (const Failure&) {
      if (!deviceExists(device) || deadline.passed()) throw;
    }
  }
}

bool portActive(const std::string& device) {
  std::ifstream file("/sys/class/infiniband/" + device + "/ports/1/state");
  std::string state;
  return std::getline(file, state) && state.find("ACTIVE") != std::string::npos;
}

void checkRequest(int error, const char* what, const std::string& device) {
  if (error != 0) fail("%s %s: %s", what, device.c_str(), errnoName(error).c_str());
}

void loadModule(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  checkErrno(fd < 0 ? -1 : 0, file.c_str());
  const long rc = syscall(SYS_finit_module, fd, "", 0);
  const int error = errno;
  close(fd);
  checkRequest(rc == 0 ? 0 : error, "insmod", file);
}

// As rmmod: it does not wait for users of the module.
void unloadModule() {
  const long rc = syscall(SYS_delete_module, "kiwarp", O_NONBLOCK);
  checkRequest(rc == 0 ? 0 : errno, "rmmod", "kiwarp");
}

}  // namespace

Wire::Wire(uint64_t number)
    : number_(std::to_string(number)), da_("da" + number_), db_("db" + number_) {
  enterNamespace("a");
  a_ = std::make_unique<RdmaNetlink>();
  enterNamespace("b");
  b_ = std::make_unique<RdmaNetlink>();
}

void Wire::startServer(uint16_t port, bool stays) {
  KillTestSettings settings;
  settings.loop = stays;
  settings.server = "10.1." + number_ + ".1";
  settings.port = port;
  server_ = std::make_unique<Program>("a", settings);
  if (!server_->says("listening", kLimit)) fail("the server does not listen");
}

void Wire::startClient(uint16_t port, uint64_t qps, bool stays) {
  KillTestSettings settings;
  settings.loop = stays;
  settings.client = "10.1." + number_ + ".1";
  settings.port = port;
  settings.qps = qps;
  client_ = std::make_unique<Program>("b", settings);
}

void Wire::awaitFlow() {
  if (!client_->says("flowing", kLimit)) fail("nothing flows at the client");
  if (!server_->says("flowing", kLimit)) fail("nothing flows at the server");
}

void Wire::expectEnd(Program& program, const char* who, int code) {
  if (!program.ends(kLimit)) fail("the %s does not end", who);
  if (program.code() != code) fail("the %s: exit code %d, not %d", who, program.code(), code);
}

void Wire::expectAllBack(Program& program, const char* who, uint64_t connections) {
  if (!program.says(", 0 sends and 0 receives never came back", kLimit, connections)) {
    fail("the %s has not got all its work back", who);
  }
}

void Wire::stop() {
  server_.reset();
  client_.reset();
}

void Wire::addDevice(RdmaNetlink& netlink, const std::string& device, const std::string& netdev) {
  checkRequest(netlink.addLink(device, netdev), "rdma link add", device);
  for (const Deadline deadline(kLimit); !portActive(device); usleep(1000)) {
    if (deadline.passed()) fail("the port of %s is not active", device.c_str());
  }
}

void Wire::addDevices() {
  addDevice(*a_, da_, "va" + number_);
  addDevice(*b_, db_, "vb" + number_);
}

void Wire::deleteDevice(RdmaNetlink& netlink, const std::string& device) {
  checkRequest(netlink.deleteLink(indexOf(netlink, device)), "rdma link delete", device);
}

void Wire::deleteA() { deleteDevice(*a_, da_); }

void Wire::deleteB() { deleteDevice(*b_, db_); }

void Wire::deleteBoth() {
  std::string failure;
  std::thread other([this, &failure] {
    try {
      deleteA();
    } catch (const Failure& caught) {
      failure = caught.what();
    }
  });
  std::string another;
  try {
    deleteB();
  } catch (const Failure& caught) {
    another = caught.what();
  }
  other.join();
  if (!failure.empty() || !another.empty()) fail("%s %s", failure.c_str(), another.c_str());
}

void Wire::deleteLeft() {
  if (deviceExists(da_)) deleteA();
  if (deviceExists(db_)) deleteB();
}

void Wire::expectNoDevices() {
  if (deviceExists(da_)) fail("%s is left", da_.c_str());
  if (deviceExists(db_)) fail("%s is left", db_.c_str());
}

std::string Wire::said() const {
  std::string text;
  if (server_) text += "server:\n" + server_->said();
  if (client_) text += "client:\n" + client_->said();
  return text;
}

Rounds::Rounds(const std::vector<uint64_t>& wires, uint64_t seed, std::string module)
    : random_(seed), module_(std::move(module)) {
  for (const uint64_t number : wires) wires_.push_back(std::make_unique<Wire>(number));
}

void Rounds::wait(uint64_t most) { usleep(static_cast<useconds_t>(random_.below(most))); }

void Rounds::kill(uint16_t port) {
  Wire& wire = *wires_[0];
  wire.startServer(port, false);
  const auto begin = Clock::now();
  wire.startClient(port, random_.between(1, kConnections), false);
  // Some are killed in set-up, where there may be nothing yet to come back.
  if (random_.percent(40)) {
    wait(setup_us_ + setup_us_ / 4);
  } else {
    wire.awaitFlow();
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
    setup_us_ = (7 * setup_us_ + static_cast<uint64_t>(took.count())) / 8;
    wait(kMostDelayUs);
  }
  const bool client = random_.percent(50);
  Program& victim = client ? wire.client() : wire.server();
  Program& survivor = client ? wire.server() : wire.client();
  const char* who = client ? "client" : "server";
  const char* other = client ? "server" : "client";
  victim.kill();
  wire.expectEnd(victim, who, 128 + SIGKILL);
  if (survivor.hasSaid("flowing")) {
    wire.expectEnd(survivor, other, 0);
  } else {
    survivor.kill();
    if (!survivor.ends(kLimit)) fail("the %s, which had no traffic, does not die", other);
  }
}

void Rounds::link(uint16_t port) {
  Wire& wire = *wires_[0];
  wire.deleteLeft();
  wire.addDevices();
  wire.startServer(port, true);
  wire.startClient(port, kConnections, true);
  wire.awaitFlow();
  wait(kMostDelayUs);
  switch (random_.below(3)) {
    case 0:
      wire.deleteA();
      wire.expectEnd(wire.server(), "server", kKillTestDeviceWent);
      wire.expectAllBack(wire.client(), "client", kConnections);
      wire.deleteB();
      break;
    case 1:
      wire.deleteB();
      wire.expectEnd(wire.client(), "client", kKillTestDeviceWent);
      wire.expectAllBack(wire.server(), "server", kConnections);
      wire.deleteA();
      break;
    default:
      wire.deleteBoth();
  }
  wire.expectEnd(wire.server(), "server", kKillTestDeviceWent);
  wire.expectEnd(wire.client(), "client", kKillTestDeviceWent);
  wire.expectNoDevices();
}

void Rounds::load(uint16_t port) {
  // What a round that failed has left.
  if (access("/sys/module/kiwarp", F_OK) == 0) unloadModule();
  loadModule(module_);
  for (auto& wire : wires_) wire->addDevices();
  for (auto& wire : wires_) {
    wire->startServer(port, true);
    wire->startClient(port, kConnections, true);
  }
  for (auto& wire : wires_) wire->awaitFlow();
  wait(kMostDelayUs);
  unloadModule();
  for (auto& wire : wires_) {
    wire->expectEnd(wire->server(), "server", kKillTestDeviceWent);
    wire->expectEnd(wire->client(), "client", kKillTestDeviceWent);
    wire->expectNoDevices();
  }
}

std::string Rounds::cleanUp() {
  std::string text;
  for (auto& wire : wires_) {
    text += wire->said();
    wire->stop();
  }
  return text;
}

}  // namespace kiwarp::vm
