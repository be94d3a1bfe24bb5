// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// What a plain TCP connection makes a real-time thread wait, beside which the module's figures
// stand.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "tenants/cases.h"
#include "tenants/watcher.h"

namespace kiwarp::vm {
namespace {

constexpr uint16_t kPort = 7401;
// As many bytes as largeWritesCase() writes.
constexpr size_t kBytes = size_t{32} << 20;
constexpr size_t kChunk = size_t{1} << 20;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd < 0) fail("no socket: %s", errnoName(errno).c_str());
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

void sendAll(const Socket& socket) {
  const std::vector<uint8_t> chunk(kChunk);
  for (size_t sent = 0; sent < kBytes;) {
    const ssize_t n = send(socket.fd(), chunk.data(), kChunk, MSG_NOSIGNAL);
    if (n <= 0) fail("send: %s", errnoName(errno).c_str());
    sent += static_cast<size_t>(n);
  }
  shutdown(socket.fd(), SHUT_WR);
}

size_t receiveAll(const Socket& socket) {
  std::vector<uint8_t> chunk(kChunk);
  size_t received = 0;
  for (ssize_t n = 0; (n = recv(socket.fd(), chunk.data(), kChunk, 0)) > 0;) {
    received += static_cast<size_t>(n);
  }
  return received;
}

void transfer(const std::string& host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) fail("%s", host.c_str());
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const Socket listener(socket(AF_INET, SOCK_STREAM, 0));
  checkErrno(bind(listener.fd(), name, sizeof(address)), "bind");
  checkErrno(listen(listener.fd(), 1), "listen");
  const Socket client(socket(AF_INET, SOCK_STREAM, 0));
  checkErrno(connect(client.fd(), name, sizeof(address)), "connect");
  const Socket server(accept(listener.fd(), nullptr, nullptr));
  size_t received = 0;
  std::thread reader([&] { received = receiveAll(server); });
  try {
    sendAll(client);
  } catch (...) {
    shutdown(client.fd(), SHUT_RDWR);
    reader.join();
    throw;
  }
  reader.join();
  if (received != kBytes) fail("%zu of %zu bytes arrived", received, kBytes);
}

}  // namespace

void plainTcpCase(const std::string& host, Tap* tap) {
  pinToFirstCpu();
  Watcher watcher(0);
  tap->run("32 MiB over plain TCP: all are sent", [&] {
    transfer(host);
    watcher.report("plain TCP, 32 MiB");
  });
}

}  // namespace kiwarp::vm
