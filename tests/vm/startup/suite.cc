// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "startup/suite.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string result = text.str();
  while (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

void expectPrivate(const CmEvent& event, size_t length, bool of_server) {
  if (event.private_data != privateData(length, of_server))
    fail("%zu bytes of private data, or not those that were sent", event.private_data.size());
}

}  // namespace

Device::Device(const std::string& name, std::string address)
    : name_(name), folder_("/sys/class/infiniband/" + name), address_(std::move(address)) {
  const std::filesystem::path settings = folder_ + "/settings";
  if (!std::filesystem::exists(settings)) return;
  for (const auto& entry : std::filesystem::directory_iterator(settings))
    defaults_[entry.path().filename()] = contents(entry.path());
}

std::string Device::get(const std::string& setting) const {
  return contents(folder_ + "/settings/" + setting);
}

int Device::tryPut(const std::string& setting, const std::string& value) const {
  const int fd = open((folder_ + "/settings/" + setting).c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) fail("no setting %s", setting.c_str());
  const std::string line = value + "\n";
  const ssize_t n = write(fd, line.data(), line.size());
  const int error = n < 0 ? errno : 0;
  close(fd);
  return error;
}

void Device::put(const std::string& setting, const std::string& value) const {
  const int error = tryPut(setting, value);
  if (error != 0) fail("%s=%s: %s", setting.c_str(), value.c_str(), errnoName(error).c_str());
}

void Device::reset() const {
  for (const auto& [setting, value] : defaults_) put(setting, value);
}

uint64_t Device::count(const std::string& counter) const {
  return std::stoull(contents(folder_ + "/ports/1/hw_counters/" + counter));
}

Suite::Suite(Device server, Device client, const std::string& wire_path)
    : server_(std::move(server)), client_(std::move(client)), wire_(wire_path) {}

int Suite::finish() const {
  std::printf("1..%u\n", number_);
  return failed_ == 0 && wire_.good() ? 0 : 1;
}

void Suite::fact(const std::string& what, const std::function<void()>& test) {
  std::string why;
  try {
    test();
  } catch (const Failure& failure) {
    why = strf(" (%s)", failure.what());
    failed_++;
  }
  std::printf("%s %u - %s%s\n", why.empty() ? "ok" : "not ok", ++number_, what.c_str(),
              why.c_str());
  std::fflush(stdout);
}

void Suite::attempt(const std::string& what, const Attempt& a) {
  port_++;
  fact(what, [&] { make(a); });
}

void Suite::wire(const std::string& what, const std::string& pattern) {
  wire_ << port_ << '|' << what << '|' << pattern << '\n';
}

void Suite::both(const std::string& setting, const std::string& value) {
  server_.put(setting, value);
  client_.put(setting, value);
}

void Suite::reset() {
  server_.reset();
  client_.reset();
}

void Suite::make(const Attempt& a) {
  const Device& at_server = a.swapped ? client_ : server_;
  const Device& at_client = a.swapped ? server_ : client_;
  const Deadline limit(kLimit);
  EventChannel server_cm, client_cm;
  CmId listener = server_cm.listen(Address(at_server.address(), port_), 4);
  Connection client(resolvedId(client_cm, at_client.address(), at_server.address(), port_));
  const std::string on = ibv_get_device_name(client.id()->verbs->device);
  if (on != at_client.name()) fail("the client's device is %s", on.c_str());
  int rc = startConnect(
      client.id(), {a.client_ird, a.client_ord, kiwarp::vm::privateData(a.client_private, false)});
  if (rc != 0) fail("rdma_connect: %s", errnoName(rc).c_str());

  std::optional<Connection> server;
  if (!a.unheard) {
    const CmEvent request = server_cm.expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit);
    CmId id(request.id);
    expectPrivate(request, a.client_private, false);
    const std::vector<uint8_t> answer = kiwarp::vm::privateData(a.server_private, true);
    if (a.rejects) {
      rc = rdma_reject(id.get(), answer.data(), static_cast<uint8_t>(answer.size()));
      if (rc != 0) rc = errno;
    } else {
      server.emplace(std::move(id));
      rc = startAccept(server->id(), {a.server_ird, a.server_ord, answer});
    }
    if (errnoName(rc) != (a.refused.empty() ? "0" : a.refused))
      fail("%s: %s", a.rejects ? "rdma_reject" : "rdma_accept", errnoName(rc).c_str());
  }

  const std::optional<CmEvent> event = client_cm.next(limit);
  if (!event) fail("the client hears nothing");
  if (describe(*event) != a.outcome)
    fail("expected %s, got %s", a.outcome.c_str(), describe(*event).c_str());
  if (!a.unheard && a.refused.empty()) expectPrivate(*event, a.server_private, true);
  if (event->type != RDMA_CM_EVENT_ESTABLISHED) return;

  server_cm.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
  talk(a, *server, client);
  checkErrno(rdma_disconnect(client.id()), "rdma_disconnect");
  client_cm.expect(RDMA_CM_EVENT_DISCONNECTED, limit);
  server_cm.expect(RDMA_CM_EVENT_DISCONNECTED, limit);
}

void Suite::talk(const Attempt& a, Connection& server, Connection& client) {
  Connection& first = a.server_first ? server : client;
  Connection& second = a.server_first ? client : server;
  first.send();
  if (a.stays_silent) {
    try {
      second.receive(seconds(2));
    } catch (const Failure&) {
      return;
    }
    fail("the server spoke first");
  }
  second.receive();
  second.send();
  first.receive();
  client.read(a.reads);
}

void Suite::number(const std::string& name, uint64_t initial, uint64_t min, uint64_t max,
                   bool or_0) {
  std::vector<std::string> bad{std::to_string(max + 1), "x", "-1", "", "1.5", "99999999999"};
  if (min > 1) bad.push_back(std::to_string(min - 1));
  if (min > 0 && !or_0) bad.emplace_back("0");
  const std::string least = std::to_string(min), most = std::to_string(max);
  isSet(name, std::to_string(initial), most, most, bad);
  fact(name + " goes down to " + (or_0 ? "0" : least), [&] {
    server_.put(name, least);
    if (or_0) server_.put(name, "0");
    if (server_.get(name) != (or_0 ? "0" : least)) fail("reads %s", server_.get(name).c_str());
  });
}

void Suite::isSwitch(const std::string& name, const std::string& initial) {
  isSet(name, initial, "0", "0", {"2", "x", ""});
  isSet(name, "0", "on", "1", {"-1"});
}

void Suite::isSet(const std::string& name, const std::string& initial, const std::string& good,
                  const std::string& read_back, const std::vector<std::string>& bad) {
  fact(strf(R"(%s: "%s" at first, takes "%s", refuses %zu others)", name.c_str(), initial.c_str(),
            good.c_str(), bad.size()),
       [&] {
         if (server_.get(name) != initial) fail("is %s at first", server_.get(name).c_str());
         server_.put(name, good);
         for (const std::string& value : bad) {
           const int error = server_.tryPut(name, value);
           if (error != EINVAL) fail("\"%s\": %s", value.c_str(), errnoName(error).c_str());
         }
         if (server_.get(name) != read_back) fail("is %s in the end", server_.get(name).c_str());
       });
}

}  // namespace kiwarp::vm
