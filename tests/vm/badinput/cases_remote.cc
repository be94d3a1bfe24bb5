// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Requests that the peer has to refuse.

#include "badinput/harness.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kSize = 8192;
constexpr uint32_t kLength = 256;
constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
constexpr int kFull = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

constexpr uint64_t kOffence = 0x100;
constexpr uint64_t kClientRecv = 0x200;
constexpr uint64_t kServerRecv = 0x300;

enum class Kind { kWrite, kRead };

// A target that belongs to the case alone, a source, and a connection to misuse.
struct Scene {
  Scene(Env& env, int target_access, const LinkOptions& options = {})
      : link(env.connect(options)),
        source(env.pd(), kSize, kLocal),
        target(env.pd(), kSize, target_access) {}

  std::unique_ptr<Link> link;
  Buffer source;
  Buffer target;
};

// The peer refuses a Read before anything came back, so the reader knows which one it was. A Write
// has no answer: it has completed when the Terminate arrives, and what follows is flushed.
void expectRefused(Env& env, Scene& scene, Kind kind) {
  const End& client = scene.link->client;
  const End& server = scene.link->server;
  if (kind == Kind::kRead) {
    env.expectWc(client.send_cq.get(), kOffence, {IBV_WC_REM_ACCESS_ERR}, "refused Read");
  } else {
    env.expectWc(client.send_cq.get(), kOffence, {IBV_WC_SUCCESS}, "refused Write");
  }
  env.expectEvent(server.qp(), {IBV_EVENT_QP_ACCESS_ERR}, "responder's event");
  env.expectWc(server.recv_cq.get(), kServerRecv, {IBV_WC_WR_FLUSH_ERR}, "responder's receive");
  env.expectWc(client.recv_cq.get(), kClientRecv, {IBV_WC_WR_FLUSH_ERR}, "initiator's receive");
  env.expectEnded(*scene.link);
  env.expectFlushes(client, "initiator");
  env.expectFlushes(server, "responder");
  scene.target.expectUntouched("target");
  scene.source.expectUntouched("initiator's buffer");
}

void offend(Env& env, Scene& scene, Kind kind, uint64_t address, uint32_t rkey,
            uint32_t length = kLength) {
  const End& client = scene.link->client;
  const End& server = scene.link->server;
  expectErrno("client's receive", 0, postRecv(client.qp(), kClientRecv, {}).error);
  expectErrno("server's receive", 0, postRecv(server.qp(), kServerRecv, {}).error);
  const std::vector<ibv_sge> sges = {scene.source.sge(0, length)};
  const Work work = kind == Kind::kWrite ? Work::write(kOffence, sges, address, rkey)
                                         : Work::read(kOffence, sges, address, rkey);
  expectErrno("post", 0, postSend(client.qp(), {work}).error);
  expectRefused(env, scene, kind);
}

void wrongRkey(Env& env, Kind kind) {
  Scene scene(env, kFull);
  offend(env, scene, kind, scene.target.address(), scene.target.rkey() ^ 0x5a5a5a00);
}

void wrongKeyByte(Env& env, Kind kind) {
  Scene scene(env, kFull);
  offend(env, scene, kind, scene.target.address(), scene.target.rkey() ^ 0x01);
}

void otherPd(Env& env, Kind kind) {
  Scene scene(env, kFull);
  Buffer foreign(env.otherPd(), kSize, kFull);
  offend(env, scene, kind, foreign.address(), foreign.rkey());
  foreign.expectUntouched("region of the other PD");
}

void deregistered(Env& env, Kind kind) {
  Scene scene(env, kFull);
  const uint32_t rkey = scene.target.rkey();
  scene.target.deregister();
  offend(env, scene, kind, scene.target.address(), rkey);
}

void mrWithoutRight(Env& env, Kind kind) {
  const int missing = kind == Kind::kWrite ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
  Scene scene(env, kFull & ~missing);
  offend(env, scene, kind, scene.target.address(), scene.target.rkey());
}

void mrLocalOnly(Env& env, Kind kind) {
  Scene scene(env, kLocal);
  offend(env, scene, kind, scene.target.address(), scene.target.rkey());
}

void qpWithoutRight(Env& env, Kind kind) {
  Scene scene(env, kFull);
  const unsigned missing = kind == Kind::kWrite ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
  setQpAccess(scene.link->server.qp(),
              (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) & ~missing);
  offend(env, scene, kind, scene.target.address(), scene.target.rkey());
}

void pastEnd(Env& env, Kind kind) {
  Scene scene(env, kFull);
  offend(env, scene, kind, scene.target.address() + kSize - kLength + 1, scene.target.rkey());
}

void oneBytePastEnd(Env& env, Kind kind) {
  Scene scene(env, kFull);
  offend(env, scene, kind, scene.target.address() + kSize, scene.target.rkey(), 1);
}

void beforeStart(Env& env, Kind kind) {
  Scene scene(env, kFull);
  offend(env, scene, kind, scene.target.address() - 1, scene.target.rkey());
}

void wraps(Env& env, Kind kind) {
  Scene scene(env, kFull);
  offend(env, scene, kind, UINT64_MAX - kLength / 2, scene.target.rkey());
}

// An access that ends exactly at the region's end is right, and one of no bytes is not checked at
// all (RFC 5041 section 5.1 leaves STag and TO of an empty segment alone).
void edgesAllowed(Env& env, Kind kind) {
  Scene scene(env, kFull);
  const End& client = scene.link->client;
  const uint64_t last = scene.target.address() + kSize - kLength;
  const std::vector<ibv_sge> sges = {scene.source.sge(0, kLength)};
  std::vector<Work> list;
  if (kind == Kind::kWrite) {
    list = {Work::write(1, sges, last, scene.target.rkey()),
            Work::write(2, {}, 0, scene.target.rkey() ^ 0x5a5a5a00)};
  } else {
    list = {Work::read(1, sges, last, scene.target.rkey()),
            Work::read(2, {}, 0, scene.target.rkey() ^ 0x5a5a5a00)};
  }
  expectErrno("post", 0, postSend(client.qp(), list).error);
  env.expectWc(client.send_cq.get(), 1, {IBV_WC_SUCCESS}, "access up to the end");
  env.expectWc(client.send_cq.get(), 2, {IBV_WC_SUCCESS}, "access of no bytes");
  env.expectAlive(*scene.link);
}

// The receiver's own fault does not come back to the sender's completion: the Send is done.
void expectSendEnds(Env& env, Scene& scene, ibv_wc_status recv_status,
                    std::initializer_list<ibv_event_type> events) {
  const End& client = scene.link->client;
  const End& server = scene.link->server;
  env.expectWc(client.send_cq.get(), kOffence, {IBV_WC_SUCCESS}, "Send");
  env.expectWc(server.recv_cq.get(), kServerRecv, {recv_status}, "the receive it met");
  env.expectWc(server.recv_cq.get(), kServerRecv + 1, {IBV_WC_WR_FLUSH_ERR}, "the next receive");
  env.expectEvent(server.qp(), events, "receiver's event");
  env.expectEnded(*scene.link);
  env.expectFlushes(client, "sender");
  env.expectFlushes(server, "receiver");
}

void sendTooLong(Env& env) {
  LinkOptions options;
  options.server.recv_sge = 2;
  Scene scene(env, kFull, options);
  const End& client = scene.link->client;
  const End& server = scene.link->server;
  mustRecv(server.qp(), kServerRecv, {scene.target.sge(0, 100), scene.target.sge(200, 50)});
  mustRecv(server.qp(), kServerRecv + 1, {scene.target.sge(0, kLength)});
  expectErrno("post", 0,
              postSend(client.qp(), {Work::send(kOffence, {scene.source.sge(0, 151)})}).error);
  expectSendEnds(env, scene, IBV_WC_LOC_LEN_ERR, {IBV_EVENT_QP_REQ_ERR});
}

void sendWithoutReceive(Env& env) {
  Scene scene(env, kFull);
  const End& client = scene.link->client;
  const End& server = scene.link->server;
  expectErrno("post", 0,
              postSend(client.qp(), {Work::send(kOffence, {scene.source.sge(0, 10)})}).error);
  env.expectWc(client.send_cq.get(), kOffence, {IBV_WC_SUCCESS}, "Send");
  env.expectEvent(server.qp(), {IBV_EVENT_QP_REQ_ERR}, "receiver's event");
  env.expectEnded(*scene.link);
  env.expectFlushes(client, "sender");
  env.expectFlushes(server, "receiver");
}

// A receive is checked when a message arrives for it, against what its SGEs say.
void badReceive(Env& env, const ibv_sge& sge, const Buffer& buffer, Scene& scene) {
  const End& client = scene.link->client;
  const End& server = scene.link->server;
  mustRecv(server.qp(), kServerRecv, {sge});
  mustRecv(server.qp(), kServerRecv + 1, {});
  expectErrno("post", 0,
              postSend(client.qp(), {Work::send(kOffence, {scene.source.sge(0, kLength)})}).error);
  expectSendEnds(env, scene, IBV_WC_LOC_PROT_ERR, {IBV_EVENT_QP_FATAL});
  buffer.expectUntouched("receive buffer");
}

void receiveWrongLkey(Env& env) {
  Scene scene(env, kFull);
  ibv_sge sge = scene.target.sge(0, kLength);
  sge.lkey ^= 0x5a5a5a00;
  badReceive(env, sge, scene.target, scene);
}

void receiveOtherPd(Env& env) {
  Scene scene(env, kFull);
  Buffer foreign(env.otherPd(), kSize, kFull);
  badReceive(env, foreign.sge(0, kLength), foreign, scene);
}

void receivePastEnd(Env& env) {
  Scene scene(env, kFull);
  badReceive(env, scene.target.sge(kSize - kLength + 1, kLength), scene.target, scene);
}

void receiveWithoutRight(Env& env) {
  Scene scene(env, IBV_ACCESS_REMOTE_READ);
  badReceive(env, scene.target.sge(0, kLength), scene.target, scene);
}

void invalidate(Env& env, uint32_t rkey, Scene& scene) {
  const End& client = scene.link->client;
  const End& server = scene.link->server;
  mustRecv(server.qp(), kServerRecv, {scene.target.sge(0, kLength)});
  Work work = Work::send(kOffence, {scene.source.sge(0, 16)});
  expectErrno("post", 0, postSend(client.qp(), {work.invalidate(rkey)}).error);
  env.expectWc(client.send_cq.get(), kOffence, {IBV_WC_SUCCESS}, "Send with Invalidate");
  const ibv_wc wc = env.awaitWc(server.recv_cq.get(), "the receive it met");
  if (wc.status == IBV_WC_SUCCESS) fail("the receive succeeded although the STag is wrong");
  env.expectEvent(server.qp(), {IBV_EVENT_QP_ACCESS_ERR}, "receiver's event");
  env.expectEnded(*scene.link);
  env.expectFlushes(client, "sender");
}

void invalidateWrong(Env& env) {
  Scene scene(env, kFull);
  invalidate(env, scene.target.rkey() ^ 0x5a5a5a00, scene);
}

void invalidateOtherPd(Env& env) {
  Scene scene(env, kFull);
  Buffer foreign(env.otherPd(), kSize, kFull);
  invalidate(env, foreign.rkey(), scene);
}

// A region that a second connection's peer reads: the first one's may not take it away.
void invalidateShared(Env& env) {
  Scene scene(env, kFull);
  const std::unique_ptr<Link> other = env.connect();
  invalidate(env, scene.target.rkey(), scene);
  const Work work = Work::read(kOffence, {scene.source.sge(0, kLength)}, scene.target.address(),
                               scene.target.rkey());
  expectErrno("post", 0, postSend(other->client.qp(), {work}).error);
  env.expectWc(other->client.send_cq.get(), kOffence, {IBV_WC_SUCCESS}, "the other one's Read");
  env.expectAlive(*other);
}

void addBoth(std::vector<Case>* cases, const std::string& name,
             const std::function<void(Env&, Kind)>& run) {
  cases->push_back({"write-" + name, [run](Env& env) { run(env, Kind::kWrite); }});
  cases->push_back({"read-" + name, [run](Env& env) { run(env, Kind::kRead); }});
}

}  // namespace

void addRemoteCases(std::vector<Case>* cases) {
  addBoth(cases, "wrong-rkey", wrongRkey);
  addBoth(cases, "wrong-key-byte", wrongKeyByte);
  addBoth(cases, "rkey-of-other-pd", otherPd);
  addBoth(cases, "deregistered-rkey", deregistered);
  addBoth(cases, "mr-without-right", mrWithoutRight);
  addBoth(cases, "mr-local-only", mrLocalOnly);
  addBoth(cases, "qp-without-right", qpWithoutRight);
  addBoth(cases, "ends-one-byte-past", pastEnd);
  addBoth(cases, "byte-past-the-end", oneBytePastEnd);
  addBoth(cases, "starts-one-byte-before", beforeStart);
  addBoth(cases, "address-wraps", wraps);
  addBoth(cases, "edges-allowed", edgesAllowed);
  cases->push_back({"send-longer-than-receive", sendTooLong});
  cases->push_back({"send-without-receive", sendWithoutReceive});
  cases->push_back({"receive-wrong-lkey", receiveWrongLkey});
  cases->push_back({"receive-lkey-of-other-pd", receiveOtherPd});
  cases->push_back({"receive-past-the-end", receivePastEnd});
  cases->push_back({"receive-without-local-write", receiveWithoutRight});
  cases->push_back({"invalidate-wrong-rkey", invalidateWrong});
  cases->push_back({"invalidate-rkey-of-other-pd", invalidateOtherPd});
  cases->push_back({"invalidate-shared-region", invalidateShared});
}

}  // namespace kiwarp::vm
