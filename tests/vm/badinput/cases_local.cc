// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Send work requests whose own SGEs are wrong: found when the device takes them off the queue.

#include "badinput/harness.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kSize = 8192;
constexpr uint32_t kLength = 256;
constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
constexpr int kFull = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

enum class Kind { kSend, kWrite, kRead };

// The request before the bad one is done, those behind it are flushed, both ends see the
// connection go, and nothing of the bad one reached the peer.
void expectLocalError(Env& env, Kind kind, const std::vector<ibv_sge>& sges, Buffer& target,
                      std::initializer_list<ibv_wc_status> statuses = {IBV_WC_LOC_PROT_ERR}) {
  auto link = env.connect();
  const End& client = link->client;
  const End& server = link->server;
  Buffer good(env.pd(), kSize, kLocal);
  Buffer inbox(env.pd(), kSize, kLocal);
  for (uint64_t id = 10; id < 12; ++id) {
    expectErrno("server's receive", 0, postRecv(server.qp(), id, {inbox.sge(0, kLength)}).error);
  }
  expectErrno("client's receive", 0, postRecv(client.qp(), 20, {}).error);

  Work bad = Work::send(2, sges);
  if (kind == Kind::kWrite) bad = Work::write(2, sges, target.address(), target.rkey());
  if (kind == Kind::kRead) bad = Work::read(2, sges, target.address(), target.rkey());
  const PostResult posted =
      postSend(client.qp(), {Work::send(1, {good.sge(0, 8)}), bad, Work::send(3, {good.sge(0, 8)}),
                             Work::send(4, {good.sge(0, 8)})});
  expectErrno("post", 0, posted.error);
  env.expectWc(client.send_cq.get(), 1, {IBV_WC_SUCCESS}, "request before the bad one");
  env.expectWc(client.send_cq.get(), 2, statuses, "bad request");
  env.expectWc(client.send_cq.get(), 3, {IBV_WC_WR_FLUSH_ERR}, "request behind the bad one");
  env.expectWc(client.send_cq.get(), 4, {IBV_WC_WR_FLUSH_ERR}, "last request");
  env.expectWc(client.recv_cq.get(), 20, {IBV_WC_WR_FLUSH_ERR}, "own receive");
  env.expectWc(server.recv_cq.get(), 10, {IBV_WC_SUCCESS}, "peer's first receive");
  env.expectWc(server.recv_cq.get(), 11, {IBV_WC_WR_FLUSH_ERR}, "peer's second receive");
  env.expectEnded(*link);
  env.expectFlushes(client, "client");
  env.expectFlushes(server, "server");
  target.expectUntouched("target");
}

void wrongLkey(Env& env, Kind kind) {
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  ibv_sge sge = source.sge(0, kLength);
  sge.lkey ^= 0x5a5a5a00;
  expectLocalError(env, kind, {sge}, target);
  source.expectUntouched("buffer");
}

void otherPd(Env& env, Kind kind) {
  Buffer source(env.otherPd(), kSize, kFull), target(env.pd(), kSize, kFull);
  expectLocalError(env, kind, {source.sge(0, kLength)}, target);
  source.expectUntouched("buffer");
}

void pastEnd(Env& env, Kind kind) {
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  expectLocalError(env, kind, {source.sge(kSize - kLength + 1, kLength)}, target);
  source.expectUntouched("buffer");
}

void beforeStart(Env& env, Kind kind) {
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  expectLocalError(env, kind, {source.sge(-1, kLength)}, target);
  source.expectUntouched("buffer");
}

void wraps(Env& env, Kind kind) {
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  expectLocalError(env, kind, {{UINT64_MAX - 15, 32, source.lkey()}}, target);
}

void deregistered(Env& env, Kind kind) {
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  const ibv_sge sge = source.sge(0, kLength);
  source.deregister();
  expectLocalError(env, kind, {sge}, target);
  source.expectUntouched("buffer");
}

void secondSgeBad(Env& env) {
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  LinkOptions options;
  options.client.send_sge = 2;
  auto link = env.connect(options);
  Buffer inbox(env.pd(), kSize, kLocal);
  mustRecv(link->server.qp(), 10, {inbox.sge(0, kSize)});
  ibv_sge bad = source.sge(100, 50);
  bad.lkey ^= 0x5a5a5a00;
  expectErrno("post", 0,
              postSend(link->client.qp(), {Work::send(1, {source.sge(0, 4000), bad})}).error);
  env.expectWc(link->client.send_cq.get(), 1, {IBV_WC_LOC_PROT_ERR}, "Send");
  env.expectWc(link->server.recv_cq.get(), 10, {IBV_WC_WR_FLUSH_ERR}, "peer's receive");
  env.expectEnded(*link);
}

void readWithoutLocalWrite(Env& env) {
  Buffer sink(env.pd(), kSize, IBV_ACCESS_REMOTE_READ), target(env.pd(), kSize, kFull);
  expectLocalError(env, Kind::kRead, {sink.sge(0, kLength)}, target);
  sink.expectUntouched("sink");
}

// A read-only region is a fine source: reading locally needs no right.
void readOnlySource(Env& env) {
  auto link = env.connect();
  Buffer source(env.pd(), kSize, 0), inbox(env.pd(), kSize, kLocal);
  mustRecv(link->server.qp(), 1, {inbox.sge(0, kLength)});
  const PostResult posted =
      postSend(link->client.qp(), {Work::send(2, {source.sge(kSize - kLength, kLength)})});
  expectErrno("post", 0, posted.error);
  env.expectWc(link->client.send_cq.get(), 2, {IBV_WC_SUCCESS}, "Send");
  env.expectWc(link->server.recv_cq.get(), 1, {IBV_WC_SUCCESS}, "receive");
  env.expectAlive(*link);
}

void addAll(std::vector<Case>* cases, const std::string& name,
            const std::function<void(Env&, Kind)>& run) {
  cases->push_back({"local-send-" + name, [run](Env& env) { run(env, Kind::kSend); }});
  cases->push_back({"local-write-" + name, [run](Env& env) { run(env, Kind::kWrite); }});
  cases->push_back({"local-read-" + name, [run](Env& env) { run(env, Kind::kRead); }});
}

}  // namespace

void addLocalCases(std::vector<Case>* cases) {
  addAll(cases, "wrong-lkey", wrongLkey);
  addAll(cases, "lkey-of-other-pd", otherPd);
  addAll(cases, "ends-one-byte-past", pastEnd);
  addAll(cases, "starts-one-byte-before", beforeStart);
  addAll(cases, "address-wraps", wraps);
  addAll(cases, "deregistered-lkey", deregistered);
  cases->push_back({"local-send-second-sge-bad", secondSgeBad});
  cases->push_back({"local-read-without-local-write", readWithoutLocalWrite});
  cases->push_back({"local-send-read-only-source", readOnlySource});
}

}  // namespace kiwarp::vm
