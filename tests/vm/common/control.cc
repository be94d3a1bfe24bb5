// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "common/cm.h"
#include "common/error.h"

namespace kiwarp::vm {
namespace {

// A peer that stopped reading its side channel is as good as hung.
constexpr milliseconds kSendLimit{20'000};

class ScopedFd {
 public:
  explicit ScopedFd(int fd) : fd_(fd) {}
  ~ScopedFd() {
    if (fd_ >= 0) close(fd_);
  }
  ScopedFd(const ScopedFd&) = delete;
  ScopedFd& operator=(const ScopedFd&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

Control::Control(int fd) : fd_(fd) {
  const int on = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Control::~Control() {
  if (fd_ >= 0) close(fd_);
}

Control::Control(Control&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), partial_(std::move(other.partial_)) {}

Control Control::acceptOn(const std::string& host, uint16_t port, const Deadline& deadline) {
  Address address(host, port);
  ScopedFd listener(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  checkErrno(bind(listener.get(), address.get(), address.length), "bind of the side channel");
  checkErrno(::listen(listener.get(), 1), "listen on the side channel");
  pollfd poller{listener.get(), POLLIN, 0};
  if (poll(&poller, 1, deadline.pollTimeout()) != 1) fail("no client came");
  const int fd = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) fail("accept: %s", errnoName(errno).c_str());
  return Control(fd);
}

Control Control::connectTo(const std::string& host, uint16_t port, const Deadline& deadline) {
  Address address(host, port);
  for (;;) {
    ScopedFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), address.get(), address.length) == 0) return Control(fd.release());
    if (deadline.passed()) fail("side channel: connect: %s", errnoName(errno).c_str());
    std::this_thread::sleep_for(milliseconds(50));
  }
}

void Control::send(const ControlMessage& message) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&message);
  size_t sent = 0;
  const Deadline deadline(kSendLimit);
  while (sent < sizeof(message)) {
    const ssize_t n =
        ::send(fd_, bytes + sent, sizeof(message) - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      sent += static_cast<size_t>(n);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) fail("side channel: send: %s", errnoName(errno).c_str());
    if (deadline.passed()) fail("side channel: the peer has stopped reading");
    pollfd poller{fd_, POLLOUT, 0};
    poll(&poller, 1, deadline.pollTimeout());
  }
}

std::optional<ControlMessage> Control::tryReceive() {
  uint8_t buffer[sizeof(ControlMessage)];
  const size_t missing = sizeof(ControlMessage) - partial_.size();
  const ssize_t n = recv(fd_, buffer, missing, MSG_DONTWAIT);
  if (n == 0) fail("side channel: the peer has gone");
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return std::nullopt;
    fail("side channel: recv: %s", errnoName(errno).c_str());
  }
  partial_.insert(partial_.end(), buffer, buffer + n);
  if (partial_.size() < sizeof(ControlMessage)) return std::nullopt;
  ControlMessage message;
  std::memcpy(&message, partial_.data(), sizeof(message));
  partial_.clear();
  return message;
}

ControlMessage Control::receive(const Deadline& deadline) {
  for (;;) {
    if (auto message = tryReceive()) return *message;
    if (deadline.passed()) fail("side channel: nothing came before the deadline");
    pollfd poller{fd_, POLLIN, 0};
    poll(&poller, 1, deadline.pollTimeout());
  }
}

}  // namespace kiwarp::vm
