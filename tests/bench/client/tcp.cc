// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/tcp.h"

#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>

#include "common/error.h"

namespace kiwarp::bench {

// Sockets are the kernel's or librdmacm's: the calls are the same, by other names.
struct SocketCalls {
  int (*socket)(int, int, int);
  int (*bind)(int, const sockaddr*, socklen_t);
  int (*listen)(int, int);
  int (*accept)(int, sockaddr*, socklen_t*);
  int (*connect)(int, const sockaddr*, socklen_t);
  int (*setsockopt)(int, int, int, const void*, socklen_t);
  ssize_t (*write)(int, const void*, size_t);
  ssize_t (*recv)(int, void*, size_t, int);
  int (*close)(int);
};

using vm::Clock;
using vm::fail;

namespace {

constexpr int kBusyPoll = 50;  // microseconds, as the kernel's documentation recommends
constexpr int kEmptyReads = 32;

constexpr SocketCalls kTcp = {::socket,     ::bind,  ::listen, ::accept, ::connect,
                              ::setsockopt, ::write, ::recv,   ::close};
constexpr SocketCalls kRsocket = {::rsocket,     ::rbind,  ::rlisten, ::raccept, ::rconnect,
                                  ::rsetsockopt, ::rwrite, ::rrecv,   ::rclose};

const SocketCalls& callsOf(const Plan& plan) { return plan.rsocket ? kRsocket : kTcp; }

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

TcpEnd::TcpEnd(const Plan& plan) : plan_(plan), calls_(&callsOf(plan)), buffer_(plan.size) {}

TcpEnd::~TcpEnd() {
  for (int fd : fds_) calls_->close(fd);
}

void TcpEnd::add(int fd) {
  const int one = 1;
  vm::checkErrno(fd < 0 ? -1 : 0, "socket");
  fds_.push_back(fd);
  vm::checkErrno(calls_->setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)),
                 "TCP_NODELAY");
  if (!plan_.poll) return;
  // The kernel looks into the adapter's queue while it has nothing to read, instead of sleeping.
  vm::checkErrno(setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &kBusyPoll, sizeof(kBusyPoll)),
                 "SO_BUSY_POLL");
}

// What a handshake would have agreed on. What the keys are does not matter to the time: these are
// of zeros.
void TcpEnd::encrypt(int fd) {
  if (!plan_.tls) return;
  tls12_crypto_info_aes_gcm_128 keys{};
  keys.info.version = TLS_1_3_VERSION;
  keys.info.cipher_type = TLS_CIPHER_AES_GCM_128;
  vm::checkErrno(setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")), "TCP_ULP");
  vm::checkErrno(setsockopt(fd, SOL_TLS, TLS_TX, &keys, sizeof(keys)), "TLS_TX");
  vm::checkErrno(setsockopt(fd, SOL_TLS, TLS_RX, &keys, sizeof(keys)), "TLS_RX");
}

void TcpEnd::connectOne() {
  add(calls_->socket(peer_->family(), SOCK_STREAM, 0));
  vm::checkErrno(calls_->connect(fds_.back(), peer_->get(), peer_->length), "connect");
  encrypt(fds_.back());
}

void TcpEnd::acceptOne(int listener) {
  add(calls_->accept(listener, nullptr, nullptr));
  encrypt(fds_.back());
}

void TcpEnd::closeLast() {
  calls_->close(fds_.back());
  fds_.pop_back();
}

TcpEnd TcpEnd::connect(const Plan& plan, vm::Address address) {
  TcpEnd end(plan);
  end.peer_ = address;
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < plan.connectedBefore(); ++i) end.connectOne();
  end.connect_seconds_ = secondsSince(start);
  return end;
}

int TcpEnd::listen(const Plan& plan, vm::Address address) {
  const SocketCalls& calls = callsOf(plan);
  const int one = 1;
  const int fd = calls.socket(address.family(), SOCK_STREAM, 0);
  vm::checkErrno(fd < 0 ? -1 : 0, "socket");
  vm::checkErrno(calls.setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), "SO_REUSEADDR");
  vm::checkErrno(calls.bind(fd, address.get(), address.length), "bind");
  vm::checkErrno(calls.listen(fd, 128), "listen");
  return fd;
}

TcpEnd TcpEnd::accept(const Plan& plan, int listener) {
  TcpEnd end(plan);
  if (plan.op == Op::kChurn) {
    end.fds_.push_back(listener);
    return end;
  }
  for (uint64_t i = 0; i < plan.allConnections(); ++i) end.acceptOne(listener);
  end.calls_->close(listener);
  return end;
}

void TcpEnd::writeAll(size_t length) {
  for (size_t done = 0; done < length;) {
    const ssize_t n = calls_->write(fds_.back(), buffer_.data() + done, length - done);
    if (n <= 0) fail("write: %s", vm::errnoName(errno).c_str());
    done += static_cast<size_t>(n);
  }
}

void TcpEnd::readAll(size_t length) {
  int empty = 0;
  while (length > 0) {
    const ssize_t n = calls_->recv(fds_.back(), buffer_.data(), std::min(length, buffer_.size()),
                                   plan_.poll ? MSG_DONTWAIT : 0);
    if (n < 0 && errno == EAGAIN) {
      // Whoever it waits for may want this CPU.
      if (++empty % kEmptyReads == 0) sched_yield();
      continue;
    }
    if (n <= 0) fail("read: %s", n ? vm::errnoName(errno).c_str() : "the peer has gone");
    length -= static_cast<size_t>(n);
  }
}

double TcpEnd::runChurn(uint64_t messages) {
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < messages; ++i) {
    connectOne();
    writeAll(plan_.size);
    readAll(plan_.size);
    closeLast();
  }
  return secondsSince(start);
}

void TcpEnd::serveChurn(uint64_t messages) {
  const int listener = fds_[0];
  for (uint64_t i = 0; i < messages; ++i) {
    acceptOne(listener);
    readAll(plan_.size);
    writeAll(plan_.size);
    // The peer closes first, as it disconnects first over RDMA.
    if (calls_->recv(fds_.back(), buffer_.data(), 1, 0) != 0) fail("the peer did not close");
    closeLast();
  }
}

double TcpEnd::run(uint64_t messages) {
  if (plan_.op == Op::kChurn) return runChurn(messages);
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < messages; ++i) {
    writeAll(plan_.size);
    if (plan_.op == Op::kLatency) readAll(plan_.size);
  }
  if (plan_.op == Op::kSend) readAll(1);
  return secondsSince(start);
}

void TcpEnd::serve(uint64_t messages) {
  if (plan_.op == Op::kChurn) {
    serveChurn(messages);
  } else if (plan_.op == Op::kLatency) {
    for (uint64_t i = 0; i < messages; ++i) {
      readAll(plan_.size);
      writeAll(plan_.size);
    }
  } else if (plan_.op == Op::kSend) {
    readAll(messages * plan_.size);
    writeAll(1);
  }
}

}  // namespace kiwarp::bench
