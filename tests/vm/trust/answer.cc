// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// A peer that is no RNIC answers the start-up of revision 2, and not as it should; and a queue pair
// that has such a peer is connected to another.

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/error.h"
#include "trust/attack.h"

namespace kiwarp::vm {
namespace {

// Of a request or an answer, before its private data.
constexpr size_t kHeader = 20;
// What is asked for, in IRD and ORD, with nothing behind it.
constexpr size_t kControl = 4;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { release(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  Socket& operator=(Socket&&) = delete;

  int fd() const { return fd_; }
  void release() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

// A port at which start-up is answered by hand.
class Answerer {
 public:
  Answerer(const Settings& settings, uint16_t port)
      : listener_(socket(Address(settings.address, port).family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    Address address(settings.address, port);
    const int on = 1;
    if (listener_.fd() < 0 ||
        setsockopt(listener_.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
        bind(listener_.fd(), address.get(), address.length) || listen(listener_.fd(), 4)) {
      fail("the answerer's port: %s", errnoName(errno).c_str());
    }
  }

  // Revision 2, and as many bytes of private data, zeros, as are announced; or only some of them.
  Socket answer(uint16_t length, std::optional<uint16_t> sent = {}) {
    Socket peer(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<uint8_t, kHeader + kControl> request{};
    if (peer.fd() < 0 || recv(peer.fd(), request.data(), request.size(), MSG_WAITALL) !=
                             static_cast<ssize_t>(request.size())) {
      fail("the request: %s", errnoName(errno).c_str());
    }
    std::string reply("MPA ID Rep Frame\x10\2", 18);
    reply += {static_cast<char>(length >> 8), static_cast<char>(length)};
    reply.append(sent.value_or(length), '\0');
    // One segment: what follows later would be another thing to be tried.
    if (send(peer.fd(), reply.data(), reply.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(reply.size())) {
      fail("the answer: %s", errnoName(errno).c_str());
    }
    return peer;
  }
  // Who tries again is refused.
  void stop() { listener_.release(); }

 private:
  Socket listener_;
};

// The peer closes the connection behind what it sends, if that is not all.
void answered(Device& device, const Settings& settings, uint16_t length, uint16_t sent) {
  const auto port = static_cast<uint16_t>(settings.port + length);
  Answerer answerer(settings, port);
  CmId id = device.resolved(port);
  RawQp qp = device.createQpInInit();
  if (int rc = connectByNumber(id.get(), qp->qp_num)) {
    fail("rdma_connect: %s", errnoName(rc).c_str());
  }
  Socket peer = answerer.answer(length, sent);
  if (sent < length) {
    answerer.stop();
    peer.release();
  }
  const std::optional<CmEvent> event = device.cm().next(Deadline(kTimeLimit));
  const std::string got = event ? describe(*event) : "nothing";
  size_t set = 0;
  if (event) {
    for (uint8_t byte : event->private_data) set += byte != 0;
  }
  fact(event && event->type != RDMA_CM_EVENT_ESTABLISHED,
       strf("an answer with %u bytes of %u of private data: no connection, got %s", sent, length,
            got.c_str()));
  fact(event && event->private_data.size() <= sent,
       strf("its private data: %u bytes at most, got %zu, %zu of them not 0", sent,
            event ? event->private_data.size() : 0, set));
}

}  // namespace

// Revision 2 begins its private data with IRD and ORD. An answer that lacks them is none.
void attackAnswerShort(const Settings& settings) {
  Device device(settings);
  for (uint16_t length : {3, 1}) answered(device, settings, length, length);
}

void attackAnswerNone(const Settings& settings) {
  Device device(settings);
  answered(device, settings, 0, 0);
}

// What is announced does not come.
void attackAnswerCut(const Settings& settings) {
  Device device(settings);
  answered(device, settings, 200, 0);
}

// More is announced than there may be.
void attackAnswerLong(const Settings& settings) {
  Device device(settings);
  answered(device, settings, 0x1fff, 0);
}

// The queue pair of a connection is connected a second time, by number. Then it is destroyed, while
// the peer of the first connection keeps silent and does not close it.
void attackAgain(const Settings& settings) {
  const auto port = static_cast<uint16_t>(settings.port);
  Answerer answerer(settings, port);
  Device device(settings);
  CmId first = device.resolved(port), second = device.resolved(port);
  RawQp qp = device.createQpInInit();
  if (int rc = connectByNumber(first.get(), qp->qp_num)) {
    fail("rdma_connect: %s", errnoName(rc).c_str());
  }
  Socket peer = answerer.answer(kControl);
  device.cm().expect(RDMA_CM_EVENT_ESTABLISHED, Deadline(kTimeLimit));
  const int rc = connectByNumber(second.get(), qp->qp_num);
  std::string got = errnoName(rc);
  bool refused = rc != 0;
  std::optional<Socket> other;
  if (!refused) {
    other.emplace(answerer.answer(kControl));
    const std::optional<CmEvent> event = device.cm().next(Deadline(kTimeLimit));
    got = event ? describe(*event) : "nothing";
    refused = event && event->type != RDMA_CM_EVENT_ESTABLISHED;
  }
  fact(refused, "connected a second time: no, got " + got);
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    qp.reset();
    destroyed = true;
  });
  const Deadline deadline(kTimeLimit);
  while (!destroyed && !deadline.passed()) std::this_thread::sleep_for(milliseconds(1));
  fact(destroyed, "it is destroyed while its peer keeps silent");
  peer.release();
  other.reset();
  destroyer.join();
}

}  // namespace kiwarp::vm
