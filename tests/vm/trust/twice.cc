// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// A connection request that is answered more than once, in every order and by several threads, of
// which one may destroy its identifier.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "common/random.h"
#include "trust/attack.h"
#include "trust/raw_cm.h"

namespace kiwarp::vm {
namespace {

constexpr uint32_t kNoQp = 1;
constexpr int kNotYet = -1;

class Answers {
 public:
  explicit Answers(const Settings& settings)
      : port_(static_cast<uint16_t>(settings.port)), device_(settings) {
    Address address(settings.address, port_);
    server_.listen(address.get(), address.length, 8);
  }

  // Letters: a and b accept with a queue pair each, n with one that does not exist, r rejects,
  // d disconnects, x destroys the identifier. One thread for each word; then it is destroyed unless
  // one of them has done it.
  void round(const std::vector<std::string>& words) {
    CmId client = device_.resolved(port_);
    RawQp active = device_.createQpInInit();
    if (int rc = connectByNumber(client.get(), active->qp_num)) {
      fail("rdma_connect: %s", errnoName(rc).c_str());
    }
    const uint32_t id = server_.request(Deadline(kTimeLimit));
    RawQp first = device_.createQpInInit(), second = device_.createQpInInit();
    destroyed_ = kNotYet;
    std::atomic<unsigned> ready{0};
    std::vector<std::thread> threads;
    threads.reserve(words.size());
    for (const std::string& word : words) {
      threads.emplace_back([&] {
        ++ready;
        while (ready < words.size()) continue;
        for (char letter : word) answer(letter, id, first->qp_num, second->qp_num);
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (destroyed_ == kNotYet) destroyed_ = server_.destroy(id);
    if (destroyed_) fail("destroy: %s", errnoName(destroyed_.load()).c_str());
    server_.forgetEvents();
    while (device_.cm().next(Deadline(milliseconds(0)))) continue;
  }

  unsigned accepted() const { return accepted_; }

 private:
  void answer(char letter, uint32_t id, uint32_t first, uint32_t second) {
    switch (letter) {
      case 'a':
      case 'b':
        if (server_.accept(id, letter == 'a' ? first : second) == 0) ++accepted_;
        break;
      case 'n':
        server_.accept(id, kNoQp);
        break;
      case 'r':
        server_.reject(id);
        break;
      case 'x':
        destroyed_ = server_.destroy(id);
        break;
      default:
        server_.disconnect(id);
    }
  }

  uint16_t port_;
  Device device_;
  RawCm server_;
  std::atomic<unsigned> accepted_{0};
  std::atomic<int> destroyed_{kNotYet};  // or the answer: 0 or a positive errno
};

// An initiator of revision 0 that sends private data, and then keeps silent.
int slowPeer(Address& address) {
  static const char kPrivate[] = "MPA private data\0\0\0\4four";
  const int peer = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (peer < 0 || connect(peer, address.get(), address.length) ||
      write(peer, kPrivate, sizeof(kPrivate) - 1) < 0) {
    fail("the peer: %s", errnoName(errno).c_str());
  }
  return peer;
}

// A listener at the device's address, and what its connections need.
struct Listener {
  explicit Listener(const Settings& settings)
      : port(static_cast<uint16_t>(settings.port)),
        address(settings.address, port),
        device(settings) {
    server.listen(address.get(), address.length, 4);
  }

  // A connection that waits for the answer to its request.
  CmId connect(const RawQp& qp) {
    CmId client = device.resolved(port);
    if (int rc = connectByNumber(client.get(), qp->qp_num)) {
      fail("rdma_connect: %s", errnoName(rc).c_str());
    }
    return client;
  }

  uint16_t port;
  Address address;
  Device device;
  RawCm server;
};

}  // namespace

void attackTwice(const Settings& settings) {
  // One thread, one call after the other; then several at once.
  static const std::vector<std::vector<std::string>> kOrders = {
      {"aa"},       {"ab"},
      {"ar"},       {"an"},
      {"anr"},      {"ara"},
      {"ad"},       {"ra"},
      {"rr"},       {"da"},
      {"aard"},     {"abrd"},
      {""},         {"n"},
      {"a", "a"},   {"a", "b"},
      {"a", "r"},   {"a", "d"},
      {"a", "n"},   {"aa", "rr"},
      {"ab", "nr"}, {"a", "b", "r", "d"},
      {"a", "x"},   {"r", "x"},
      {"ad", "x"},  {"nr", "x"},
      {"ab", "x"},  {"a", "b", "r", "d", "x"},
  };
  Answers answers(settings);
  for (const auto& words : kOrders) {
    std::string name;
    for (const std::string& word : words) name += (name.empty() ? "" : " | ") + word;
    for (uint64_t i = 0; i < settings.rounds; ++i) answers.round(words);
    fact(true, "answered by " + (name.empty() ? "nothing" : name));
  }
  answers.round({"a"});
  fact(answers.accepted() >= settings.rounds, "and a request can still be accepted");
}

// Revision 0: private data are exchanged before start-up can end, and the peer lets it wait. While
// one thread accepts, another rejects.
void attackSlowStart(const Settings& settings) {
  Listener listener(settings);
  Device& device = listener.device;
  RawCm& server = listener.server;

  const int peer = slowPeer(listener.address);
  const uint32_t id = server.request(Deadline(kTimeLimit));
  RawQp qp = device.createQpInInit();
  int accepted = -1, rejected = -1;
  std::thread acceptor([&] { accepted = server.accept(id, qp->qp_num); });
  // The peer has the answer: the request is accepted, and the start-up under way.
  char byte = 0;
  const bool answered = read(peer, &byte, 1) == 1;
  std::thread rejecter([&] { rejected = server.reject(id); });
  acceptor.join();
  rejecter.join();
  fact(answered && accepted == 0, "a slow start-up is accepted: 0, got " + errnoName(accepted));
  fact(rejected == EINVAL, "and not to be rejected: EINVAL, got " + errnoName(rejected));
  fact(server.destroy(id) == 0, "its identifier can be destroyed");
  close(peer);
}

// A queue pair that has a connection is accepted with by another request, whose start-up then
// fails.
void attackSlowAgain(const Settings& settings) {
  Listener listener(settings);
  Device& device = listener.device;
  RawCm& server = listener.server;

  RawQp active = device.createQpInInit(), passive = device.createQpInInit();
  CmId client = listener.connect(active);
  const uint32_t first = server.request(Deadline(kTimeLimit));
  if (int rc = server.accept(first, passive->qp_num)) {
    fail("rdma_accept: %s", errnoName(rc).c_str());
  }
  device.cm().expect(RDMA_CM_EVENT_ESTABLISHED, Deadline(kTimeLimit));

  const int peer = slowPeer(listener.address);
  const uint32_t second = server.request(Deadline(kTimeLimit));
  const int accepted = server.accept(second, passive->qp_num);
  fact(accepted == 0,
       "accepted with a connected queue pair, and over: 0, got " + errnoName(accepted));
  fact(accepted || server.disconnected(Deadline(kTimeLimit)) == second, "it ends");
  fact(server.destroy(second) == 0, "its identifier can be destroyed");
  fact(queryState(passive.get()) == IBV_QPS_RTS && queryState(active.get()) == IBV_QPS_RTS,
       "the first connection is as it was");
  close(peer);
  server.destroy(first);
}

// The same as a slow start, until something else ends it.
void attackGone(const Settings& settings) {
  Listener listener(settings);
  Device& device = listener.device;
  RawCm& server = listener.server;

  const int peer = slowPeer(listener.address);
  const uint32_t id = server.request(Deadline(kTimeLimit));
  RawQp qp = device.createQpInInit();
  int accepted = -1;
  std::thread acceptor([&] { accepted = server.accept(id, qp->qp_num); });
  char byte = 0;
  if (read(peer, &byte, 1) == 1) std::printf("# accepting\n");
  acceptor.join();
  fact(accepted == 0, "accepted, and over: 0, got " + errnoName(accepted));
  close(peer);
}

// The active side answers, as if it had been asked, while it waits for an answer itself. An iw_cm
// that is not patched does not survive this, whatever the device below it does.
void attackUnanswered(const Settings& settings) {
  Listener listener(settings);
  Device& device = listener.device;
  RawCm& server = listener.server;

  RawQp qp = device.createQpInInit();
  CmId client = listener.connect(qp);
  const uint32_t id = server.request(Deadline(kTimeLimit));
  int rc = rdma_reject(client.get(), nullptr, 0) ? errno : 0;
  fact(rc == EINVAL, "rejected by who has asked: EINVAL, got " + errnoName(rc));
  rdma_conn_param param{};
  param.qp_num = qp->qp_num;
  rc = rdma_accept(client.get(), &param) ? errno : 0;
  fact(rc == EINVAL, "accepted by who has asked: EINVAL, got " + errnoName(rc));
  // Both wait for the answer, which comes when the request goes.
  std::thread leaver([&] {
    rdma_disconnect(client.get());
    client.reset();
  });
  server.destroy(id);
  leaver.join();
  fact(true, "and it can be disconnected and destroyed");
}

}  // namespace kiwarp::vm
