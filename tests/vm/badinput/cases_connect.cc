// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Peers and ports that do not speak as they should.

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "badinput/harness.h"

namespace kiwarp::vm {
namespace {

constexpr seconds kMargin{10};

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd_ < 0) fail("socket: %s", errnoName(errno).c_str());
  }
  ~Socket() { close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  void send(const std::vector<uint8_t>& bytes) const {
    if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
      fail("send: %s", errnoName(errno).c_str());
    }
  }
  // Whether the peer ended the connection before the deadline; what it said before is dropped.
  bool ended(const Deadline& deadline) const {
    for (;;) {
      pollfd poller{fd_, POLLIN, 0};
      if (poll(&poller, 1, deadline.pollTimeout()) == 0) return false;
      uint8_t buffer[256];
      const ssize_t n = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return true;
    }
  }

 private:
  int fd_;
};

int listenTcp(Env& env, uint16_t port) {
  Address address(env.address(), port);
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  checkErrno(bind(fd, address.get(), address.length), "bind");
  checkErrno(listen(fd, 8), "listen");
  return fd;
}

int connectTcp(Env& env) {
  Address address(env.address(), env.port());
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  checkErrno(connect(fd, address.get(), address.length), "connect");
  return fd;
}

int acceptTcp(const Socket& listener, const Deadline& deadline) {
  pollfd poller{listener.fd(), POLLIN, 0};
  if (poll(&poller, 1, deadline.pollTimeout()) != 1) fail("the device did not connect");
  return accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
}

// An identifier that is about to connect to a port of ours.
struct Caller {
  Caller(Env& env, uint16_t port) : cq(createCq(env.context(), 16)), id(env.clientCm().createId()) {
    resolve(env.clientCm(), id, Address(env.address(), port), env.deadline());
    QpConfig config;
    config.pd = env.pd();
    config.send_cq = config.recv_cq = cq.get();
    createQp(id, config);
  }
  void connect() { expectErrno("rdma_connect", 0, startConnect(id.get(), {})); }

  Cq cq;
  CmId id;
};

void expectConnectEvent(Env& env, Caller& caller, rdma_cm_event_type type, int status,
                        const Deadline& deadline) {
  auto event = env.clientCm().next(deadline);
  if (event && event->id != caller.id.get()) fail("event of another identifier");
  expectSame("event", strf("%s status %s", rdma_event_str(type), errnoName(status).c_str()),
             event ? describe(*event) : "none");
}

void closedPort(Env& env) {
  Caller caller(env, env.sparePort());
  caller.connect();
  expectConnectEvent(env, caller, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, env.deadline());
}

void silentPort(Env& env) {
  const uint16_t port = env.sparePort();
  Socket listener(listenTcp(env, port));
  Caller caller(env, port);
  caller.connect();
  Socket peer(acceptTcp(listener, env.deadline()));
  expectConnectEvent(env, caller, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT,
                     Deadline(env.startupLimit() + kMargin));
  if (!peer.ended(env.deadline())) fail("the device keeps the socket");
}

void garbagePort(Env& env) {
  const uint16_t port = env.sparePort();
  Socket listener(listenTcp(env, port));
  Caller caller(env, port);
  caller.connect();
  Socket peer(acceptTcp(listener, env.deadline()));
  peer.send(std::vector<uint8_t>(200, 'x'));
  expectConnectEvent(env, caller, RDMA_CM_EVENT_CONNECT_ERROR, -EPROTO, env.deadline());
  if (!peer.ended(env.deadline())) fail("the device keeps the socket");
}

// A peer of revision 1 closes on a request of revision 2, so the device asks again before it
// gives up.
void closingPort(Env& env) {
  const uint16_t port = env.sparePort();
  Socket listener(listenTcp(env, port));
  Caller caller(env, port);
  caller.connect();
  std::optional<CmEvent> event;
  for (int tries = 0; tries < 4 && !event; ++tries) {
    pollfd poller{listener.fd(), POLLIN, 0};
    if (poll(&poller, 1, 3000) == 1) {
      Socket peer(acceptTcp(listener, env.deadline()));
    }
    event = env.clientCm().next(Deadline(milliseconds(500)));
  }
  const std::string got = event ? describe(*event) : "none";
  expectSame("event", strf("%s status -ECONNRESET", rdma_event_str(RDMA_CM_EVENT_REJECTED)), got);
}

std::vector<uint8_t> mpaRequest(uint8_t revision, uint16_t private_length) {
  const char key[] = "MPA ID Req Frame";
  std::vector<uint8_t> frame(key, key + 16);
  frame.push_back(0x40);
  frame.push_back(revision);
  frame.push_back(static_cast<uint8_t>(private_length >> 8));
  frame.push_back(static_cast<uint8_t>(private_length));
  frame.resize(frame.size() + private_length);
  return frame;
}

// The listener drops the caller without telling its consumer.
void expectDropped(Env& env, const std::vector<uint8_t>& bytes) {
  Socket caller(connectTcp(env));
  if (!bytes.empty()) caller.send(bytes);
  const Deadline limit(env.startupLimit() + kMargin);
  if (!caller.ended(limit)) fail("expected the connection to end, it is still there");
  if (auto event = env.serverCm().next(Deadline(milliseconds(100)))) {
    fail("expected no event got %s", describe(*event).c_str());
  }
  auto link = env.connect();
  env.expectAlive(*link);
}

void listenerGarbage(Env& env) { expectDropped(env, std::vector<uint8_t>(100, 'x')); }

void listenerSilence(Env& env) { expectDropped(env, {}); }

void listenerPartialKey(Env& env) {
  std::vector<uint8_t> frame = mpaRequest(2, 0);
  frame.resize(10);
  expectDropped(env, frame);
}

void listenerLongPrivateData(Env& env) { expectDropped(env, mpaRequest(2, 513)); }

void listenerUnknownRevision(Env& env) { expectDropped(env, mpaRequest(9, 0)); }

void listenerPartialPrivateData(Env& env) {
  std::vector<uint8_t> frame = mpaRequest(2, 100);
  frame.resize(60);
  expectDropped(env, frame);
}

// RFC 5044 section 7.1.2: an initiator says nothing more before it has the reply.
void listenerEarlyData(Env& env) {
  std::vector<uint8_t> frame = mpaRequest(1, 0);
  frame.resize(frame.size() + 64);
  expectDropped(env, frame);
}

void rejected(Env& env) {
  Caller caller(env, env.port());
  caller.connect();
  CmId request(env.serverCm().expect(RDMA_CM_EVENT_CONNECT_REQUEST, env.deadline()).id);
  const char reason[] = "no room here";
  checkErrno(rdma_reject(request.get(), reason, sizeof(reason)), "rdma_reject");
  auto event = env.clientCm().next(env.deadline());
  expectSame("event", strf("%s status -ECONNREFUSED", rdma_event_str(RDMA_CM_EVENT_REJECTED)),
             event ? describe(*event) : "none");
  const bool same = event->private_data.size() >= sizeof(reason) &&
                    std::memcmp(event->private_data.data(), reason, sizeof(reason)) == 0;
  expectSame("private data of the reject", "as sent", same ? "as sent" : "something else");
}

void unansweredRequest(Env& env) {
  // Destroying a request rejects it.
  Caller caller(env, env.port());
  caller.connect();
  { CmId request(env.serverCm().expect(RDMA_CM_EVENT_CONNECT_REQUEST, env.deadline()).id); }
  auto event = env.clientCm().next(env.deadline());
  const std::string got = event ? rdma_event_str(event->type) : "none";
  expectSame("event", rdma_event_str(RDMA_CM_EVENT_REJECTED), got);
}

void abandonedCaller(Env& env) {
  // The caller is gone before the consumer answers: accepting says so, at once or by an event.
  auto caller = std::make_unique<Caller>(env, env.port());
  caller->connect();
  CmId request(env.serverCm().expect(RDMA_CM_EVENT_CONNECT_REQUEST, env.deadline()).id);
  caller.reset();
  Cq cq = createCq(env.context(), 16);
  QpConfig config;
  config.pd = env.pd();
  config.send_cq = config.recv_cq = cq.get();
  createQp(request, config);
  if (startAccept(request.get(), {}) != 0) return;
  auto event = env.serverCm().next(env.deadline());
  if (event && event->type == RDMA_CM_EVENT_ESTABLISHED)
    event = env.serverCm().next(env.deadline());
  const std::string got = event ? rdma_event_str(event->type) : "none";
  if (got != rdma_event_str(RDMA_CM_EVENT_DISCONNECTED) &&
      got != rdma_event_str(RDMA_CM_EVENT_CONNECT_ERROR) &&
      got != rdma_event_str(RDMA_CM_EVENT_REJECTED)) {
    fail("expected the connection to end got %s", got.c_str());
  }
}

int changeState(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

// A completion queue that has overrun is dead for a queue pair that begins anew, too.
void deadQueue(Env& env) {
  Cq cq = createCq(env.context(), 4), other = createCq(env.context(), 16);
  QpConfig config;
  config.send_cq = config.recv_cq = cq.get();
  config.recv_wr = static_cast<uint32_t>(cq->cqe) + 1;
  ibv_qp_init_attr attr = toInitAttr(config);
  RawQp qp(ibv_create_qp(env.pd(), &attr));
  if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  // The last of those that fail with the queue.
  attr = toInitAttr(config);
  attr.send_cq = other.get();
  RawQp last(ibv_create_qp(env.pd(), &attr));
  if (!last) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  for (int id = 0; id <= cq->cqe; ++id) mustRecv(qp.get(), static_cast<uint64_t>(id), {});
  expectErrno("to ERR", 0, changeState(qp.get(), IBV_QPS_ERR));
  env.expectEvent(cq.get(), {IBV_EVENT_CQ_ERR}, "CQ's event");
  env.expectEvent(last.get(), {IBV_EVENT_QP_FATAL}, "last QP's event");
  expectErrno("to RESET", 0, changeState(qp.get(), IBV_QPS_RESET));
  expectErrno("to INIT", 0, changeState(qp.get(), IBV_QPS_INIT));

  CmId caller(env.clientCm().createId());
  resolve(env.clientCm(), caller, Address(env.address(), env.port()), env.deadline());
  rdma_conn_param param{};
  param.qp_num = qp->qp_num;
  expectErrno("rdma_connect", 0, rdma_connect(caller.get(), &param) != 0 ? errno : 0);
  CmId request(env.serverCm().expect(RDMA_CM_EVENT_CONNECT_REQUEST, env.deadline()).id);
  config.pd = env.pd();
  config.send_cq = config.recv_cq = other.get();
  createQp(request, config);
  expectErrno("rdma_accept", 0, startAccept(request.get(), {}));
  auto event = env.clientCm().next(env.deadline());
  expectSame("event", strf("%s status -EINVAL", rdma_event_str(RDMA_CM_EVENT_CONNECT_ERROR)),
             event ? describe(*event) : "none");
  env.serverCm().expect(RDMA_CM_EVENT_ESTABLISHED, env.deadline());
  env.serverCm().expect(RDMA_CM_EVENT_DISCONNECTED, env.deadline());
}

bool isLoopback(const Address& address) {
  if (address.family() == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

void listenTwice(Env& env) {
  CmId second = env.serverCm().createId();
  Address address(env.address(), env.port());
  int error = rdma_bind_addr(second.get(), address.get()) ? errno : 0;
  if (error == 0) error = rdma_listen(second.get(), 1) ? errno : 0;
  // rdma_cm takes a loopback address for a wildcard, and has another errno for those.
  expectErrno("a second listener", isLoopback(address) ? EADDRNOTAVAIL : EADDRINUSE, error);
}

void listenOnTakenPort(Env& env) {
  const uint16_t port = env.sparePort();
  Socket holder(listenTcp(env, port));
  CmId id = env.serverCm().createId();
  Address address(env.address(), port);
  checkErrno(rdma_bind_addr(id.get(), address.get()), "rdma_bind_addr");
  expectErrno("listening where TCP listens", EADDRINUSE, rdma_listen(id.get(), 1) ? errno : 0);
}

}  // namespace

void addConnectCases(std::vector<Case>* cases) {
  cases->push_back({"connect-closed-port", closedPort});
  cases->push_back({"connect-silent-port", silentPort});
  cases->push_back({"connect-garbage-port", garbagePort});
  cases->push_back({"connect-closing-port", closingPort});
  cases->push_back({"connect-rejected", rejected});
  cases->push_back({"connect-request-dropped", unansweredRequest});
  cases->push_back({"connect-caller-gone", abandonedCaller});
  cases->push_back({"connect-with-dead-queue", deadQueue});
  cases->push_back({"listener-gets-garbage", listenerGarbage});
  cases->push_back({"listener-gets-silence", listenerSilence});
  cases->push_back({"listener-gets-partial-key", listenerPartialKey});
  cases->push_back({"listener-gets-too-long-private-data", listenerLongPrivateData});
  cases->push_back({"listener-gets-unknown-revision", listenerUnknownRevision});
  cases->push_back({"listener-gets-partial-private-data", listenerPartialPrivateData});
  cases->push_back({"listener-gets-early-data", listenerEarlyData});
  cases->push_back({"listen-twice", listenTwice});
  cases->push_back({"listen-on-taken-tcp-port", listenOnTakenPort});
}

}  // namespace kiwarp::vm
