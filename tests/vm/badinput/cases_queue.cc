// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// What posting refuses, and queues that are full.

#include <array>

#include "badinput/harness.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kSize = 8192;
constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
constexpr int kFull = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

void expectBad(const std::string& what, int error, uint64_t bad_id, const PostResult& got) {
  expectErrno(what, error, got.error);
  expectSame(what + ": bad_wr", strf("%llu", static_cast<unsigned long long>(bad_id)),
             got.bad_id ? strf("%llu", static_cast<unsigned long long>(*got.bad_id)) : "none");
}

// Posts the one bad request between two good ones: what stands before it is carried out.
void refusedInList(Env& env, const LinkOptions& options, Work bad, int error) {
  auto link = env.connect(options);
  expectErrno("server's receive", 0, postRecv(link->server.qp(), 10, {}).error);
  expectBad("post", error, 2,
            postSend(link->client.qp(), {Work::send(1, {}), std::move(bad), Work::send(3, {})}));
  env.expectWc(link->client.send_cq.get(), 1, {IBV_WC_SUCCESS}, "request before the bad one");
  env.expectWc(link->server.recv_cq.get(), 10, {IBV_WC_SUCCESS}, "its receive");
  env.expectAlive(*link);
}

void tooManySendSges(Env& env) {
  Buffer buffer(env.pd(), kSize, kLocal);
  LinkOptions options;
  options.client.send_sge = static_cast<uint32_t>(env.attr().max_sge);
  const std::vector<ibv_sge> sges(options.client.send_sge + 1, buffer.sge(0, 4));
  refusedInList(env, options, Work::send(2, sges), EINVAL);
}

void tooManyReceiveSges(Env& env) {
  Buffer buffer(env.pd(), kSize, kLocal);
  LinkOptions options;
  options.client.recv_sge = static_cast<uint32_t>(env.attr().max_sge);
  auto link = env.connect(options);
  const std::vector<ibv_sge> sges(options.client.recv_sge + 1, buffer.sge(0, 4));
  expectBad("post", EINVAL, 7, postRecv(link->client.qp(), 7, sges));
  env.expectAlive(*link);
}

void tooMuchInline(Env& env) {
  LinkOptions options;
  options.client.inline_data = 256;
  options.client.send_sge = 2;
  std::array<uint8_t, 2048> data{};
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  // In two pieces, so that only the sum is too much.
  const std::vector<ibv_sge> sges = {{address, 1024, 0}, {address, 1024, 0}};
  refusedInList(env, options, Work::send(2, sges).flags(IBV_SEND_INLINE), EINVAL);
}

void inlineOneTooMany(Env& env) {
  LinkOptions options;
  options.client.inline_data = 256;
  auto link = env.connect(options);
  const uint32_t granted = link->client.cap.max_inline_data;
  std::vector<uint8_t> data(granted + 1);
  const auto address = reinterpret_cast<uintptr_t>(data.data());
  Buffer inbox(env.pd(), kSize, kLocal);
  mustRecv(link->server.qp(), 10, {inbox.sge(0, granted)});
  expectBad("one byte too many", EINVAL, 1,
            postSend(link->client.qp(),
                     {Work::send(1, {{address, granted + 1, 0}}).flags(IBV_SEND_INLINE)}));
  expectErrno(
      "as much as granted", 0,
      postSend(link->client.qp(), {Work::send(2, {{address, granted, 0}}).flags(IBV_SEND_INLINE)})
          .error);
  env.expectWc(link->client.send_cq.get(), 2, {IBV_WC_SUCCESS}, "as much as granted");
  env.expectWc(link->server.recv_cq.get(), 10, {IBV_WC_SUCCESS}, "its receive");
  env.expectAlive(*link);
}

void inlineRead(Env& env) {
  Buffer buffer(env.pd(), kSize, kFull);
  LinkOptions options;
  options.client.inline_data = 64;
  refusedInList(
      env, options,
      Work::read(2, {buffer.sge(0, 8)}, buffer.address(), buffer.rkey()).flags(IBV_SEND_INLINE),
      EINVAL);
}

void unsupportedOpcode(Env& env) {
  Buffer buffer(env.pd(), kSize, kFull);
  refusedInList(env, {}, Work::send(2, {buffer.sge(0, 8)}).opcode(IBV_WR_BIND_MW), EINVAL);
  refusedInList(env, {}, Work::send(2, {buffer.sge(0, 8)}).opcode(IBV_WR_TSO), EINVAL);
  // The settings of RFC 7306 are off.
  refusedInList(env, {}, Work::send(2, {}).opcode(IBV_WR_SEND_WITH_IMM), EOPNOTSUPP);
  refusedInList(env, {},
                Work::write(2, {buffer.sge(0, 8)}, buffer.address(), buffer.rkey())
                    .opcode(IBV_WR_RDMA_WRITE_WITH_IMM),
                EOPNOTSUPP);
  refusedInList(env, {}, Work::send(2, {buffer.sge(0, 8)}).opcode(IBV_WR_ATOMIC_FETCH_AND_ADD),
                EOPNOTSUPP);
  refusedInList(env, {}, Work::send(2, {buffer.sge(0, 8)}).opcode(IBV_WR_ATOMIC_CMP_AND_SWP),
                EOPNOTSUPP);
}

void undefinedOpcode(Env& env) {
  refusedInList(env, {}, Work::send(2, {}).opcode(static_cast<ibv_wr_opcode>(99)), EINVAL);
}

// A QP that no connection manager knows.
struct LooseQp {
  explicit LooseQp(Env& env) : cq(createCq(env.context(), 64)) {
    QpConfig config;
    config.send_cq = config.recv_cq = cq.get();
    ibv_qp_init_attr attr = toInitAttr(config);
    qp.reset(ibv_create_qp(env.pd(), &attr));
    if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  }

  int modify(ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    return ibv_modify_qp(qp.get(), &attr,
                         IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_ACCESS_FLAGS : 0));
  }

  Cq cq;
  RawQp qp;
};

void wrongState(Env& env) {
  LooseQp loose(env);
  env.expectState(loose.qp.get(), IBV_QPS_INIT, "new QP");
  expectErrno("receive in a new QP", 0, postRecv(loose.qp.get(), 6, {}).error);
  expectErrno("INIT to RESET", 0, loose.modify(IBV_QPS_RESET));
  env.expectState(loose.qp.get(), IBV_QPS_RESET, "QP");
  expectBad("send in RESET", EINVAL, 1, postSend(loose.qp.get(), {Work::send(1, {})}));
  expectBad("receive in RESET", EINVAL, 1, postRecv(loose.qp.get(), 1, {}));
  expectErrno("RESET to INIT", 0, loose.modify(IBV_QPS_INIT));
  env.expectState(loose.qp.get(), IBV_QPS_INIT, "QP");
  expectBad("send in INIT", EINVAL, 2, postSend(loose.qp.get(), {Work::send(2, {})}));
  expectErrno("receive in INIT", 0, postRecv(loose.qp.get(), 3, {}).error);
  expectErrno("INIT to ERR", 0, loose.modify(IBV_QPS_ERR));
  env.expectWc(loose.cq.get(), 3, {IBV_WC_WR_FLUSH_ERR}, "receive of before");
  expectErrno("receive in ERR", 0, postRecv(loose.qp.get(), 4, {}).error);
  env.expectWc(loose.cq.get(), 4, {IBV_WC_WR_FLUSH_ERR}, "receive in ERR");
  expectErrno("send in ERR", 0, postSend(loose.qp.get(), {Work::send(5, {})}).error);
  env.expectWc(loose.cq.get(), 5, {IBV_WC_WR_FLUSH_ERR}, "send in ERR");
}

void wrongTransition(Env& env) {
  LooseQp loose(env);
  // Only a connection makes a QP ready to send.
  expectErrno("new QP to RTS", EINVAL, loose.modify(IBV_QPS_RTS));
  expectErrno("new QP to RESET", 0, loose.modify(IBV_QPS_RESET));
  expectErrno("RESET to RTS", EINVAL, loose.modify(IBV_QPS_RTS));
  expectErrno("RESET to INIT", 0, loose.modify(IBV_QPS_INIT));
  expectErrno("INIT to RTS", EINVAL, loose.modify(IBV_QPS_RTS));
  env.expectState(loose.qp.get(), IBV_QPS_INIT, "QP");
}

ibv_qp_attr queryQp(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  checkErrno(ibv_query_qp(qp, &attr, IBV_QP_ACCESS_FLAGS, &init), "ibv_query_qp");
  return attr;
}

// A call that is refused leaves the rights of a running connection as they are.
void refusedKeepsRights(Env& env) {
  constexpr unsigned kRights = IBV_ACCESS_REMOTE_READ;
  auto link = env.connect();
  ibv_qp* qp = link->server.qp();
  const Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  setQpAccess(qp, kRights);
  const ibv_qp_attr before = queryQp(qp);
  ibv_qp_attr attr = before;
  attr.qp_state = IBV_QPS_INIT;
  attr.qp_access_flags = 0;
  expectErrno("RTS to INIT", EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS));
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  attr.max_rd_atomic = 255;
  attr.max_dest_rd_atomic = 255;
  for (const ibv_qp_attr_mask depth : {IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MAX_DEST_RD_ATOMIC}) {
    expectErrno("too deep", EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS | depth));
  }
  expectSame("rights", strf("%#x", kRights), strf("%#x", queryQp(qp).qp_access_flags));
  const Work work = Work::write(1, {source.sge(0, 8)}, target.address(), target.rkey());
  expectErrno("the peer's Write", 0, postSend(link->client.qp(), {work}).error);
  env.expectEvent(qp, {IBV_EVENT_QP_ACCESS_ERR}, "event");
  env.expectEnded(*link);
  target.expectUntouched("target");
}

// The depths of a connection are those that were negotiated, whatever is set later.
void depthsOfConnection(Env& env) {
  const LooseQp loose(env);
  ibv_qp_attr attr{};
  attr.max_rd_atomic = 5;
  attr.max_dest_rd_atomic = 6;
  constexpr int kDepths = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
  expectErrno("in INIT", 0, ibv_modify_qp(loose.qp.get(), &attr, kDepths));
  expectSame("in INIT: initiator's", "5", strf("%d", queryQp(loose.qp.get()).max_rd_atomic));
  expectSame("in INIT: responder's", "6", strf("%d", queryQp(loose.qp.get()).max_dest_rd_atomic));
  auto link = env.connect();
  ibv_qp* qp = link->client.qp();
  const ibv_qp_attr before = queryQp(qp);
  attr.max_rd_atomic = static_cast<uint8_t>(before.max_rd_atomic + 1);
  attr.max_dest_rd_atomic = static_cast<uint8_t>(before.max_dest_rd_atomic + 1);
  expectErrno("in RTS", 0, ibv_modify_qp(qp, &attr, kDepths));
  const ibv_qp_attr after = queryQp(qp);
  expectSame("in RTS: initiator's", strf("%d", before.max_rd_atomic),
             strf("%d", after.max_rd_atomic));
  expectSame("in RTS: responder's", strf("%d", before.max_dest_rd_atomic),
             strf("%d", after.max_dest_rd_atomic));
  env.expectAlive(*link);
}

void errorFlushesConnection(Env& env) {
  auto link = env.connect();
  for (uint64_t id = 1; id <= 3; ++id) mustRecv(link->client.qp(), id, {});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  expectErrno("RTS to ERR", 0, ibv_modify_qp(link->client.qp(), &attr, IBV_QP_STATE));
  for (uint64_t id = 1; id <= 3; ++id) {
    env.expectWc(link->client.recv_cq.get(), id, {IBV_WC_WR_FLUSH_ERR}, "receive");
  }
  env.expectEnded(*link);
  env.expectFlushes(link->client, "client");
}

void sendQueueFull(Env& env) {
  LinkOptions options;
  options.client.send_wr = 16;
  options.cqe = 512;
  auto link = env.connect(options);
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  const uint32_t depth = link->client.cap.max_send_wr;
  const auto write = [&](uint64_t id) {
    return Work::write(id, {source.sge(0, 64)}, target.address(), target.rkey());
  };
  std::vector<Work> list;
  for (uint64_t id = 0; id <= depth; ++id) list.push_back(write(id));
  expectBad("one more than fits", ENOMEM, depth, postSend(link->client.qp(), list));
  // Carried out or not, an entry is the caller's again only when its completion was polled.
  env.expectWc(link->client.send_cq.get(), 0, {IBV_WC_SUCCESS}, "first");
  expectErrno("into the freed entry", 0, postSend(link->client.qp(), {write(1000)}).error);
  expectBad("full again", ENOMEM, 1001, postSend(link->client.qp(), {write(1001)}));
  for (uint64_t id = 1; id < depth; ++id) {
    env.expectWc(link->client.send_cq.get(), id, {IBV_WC_SUCCESS}, "the others");
  }
  env.expectWc(link->client.send_cq.get(), 1000, {IBV_WC_SUCCESS}, "the late one");
  env.expectAlive(*link);
}

void unsignalledFreedBySignalled(Env& env) {
  LinkOptions options;
  options.client.send_wr = 16;
  options.cqe = 512;
  auto link = env.connect(options);
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  const uint32_t depth = link->client.cap.max_send_wr;
  std::vector<Work> list;
  for (uint64_t id = 0; id < depth; ++id) {
    list.push_back(Work::write(id, {source.sge(0, 64)}, target.address(), target.rkey()));
    if (id + 1 < depth) list.back().wr()->send_flags = 0;
  }
  for (int round = 0; round < 3; ++round) {
    expectErrno("a full queue", 0, postSend(link->client.qp(), list).error);
    env.expectWc(link->client.send_cq.get(), depth - 1, {IBV_WC_SUCCESS}, "the signalled one");
  }
  env.expectAlive(*link);
}

void receiveQueueFull(Env& env) {
  LinkOptions options;
  options.client.recv_wr = 16;
  auto link = env.connect(options);
  const uint32_t depth = link->client.cap.max_recv_wr;
  for (uint64_t id = 0; id < depth; ++id) {
    expectErrno("receive", 0, postRecv(link->client.qp(), id, {}).error);
  }
  expectBad("one more than fits", ENOMEM, depth, postRecv(link->client.qp(), depth, {}));
  expectErrno("peer's post", 0, postSend(link->server.qp(), {Work::send(1, {})}).error);
  env.expectWc(link->client.recv_cq.get(), 0, {IBV_WC_SUCCESS}, "first receive");
  expectErrno("into the freed entry", 0, postRecv(link->client.qp(), depth, {}).error);
  expectBad("full again", ENOMEM, depth + 1, postRecv(link->client.qp(), depth + 1, {}));
}

void completionQueueFull(Env& env) {
  LinkOptions options;
  options.cqe = 4;
  options.client.send_wr = 64;
  auto link = env.connect(options);
  Buffer source(env.pd(), kSize, kLocal), target(env.pd(), kSize, kFull);
  const auto room = static_cast<uint64_t>(link->client.send_cq->cqe);
  if (link->client.cap.max_send_wr <= room) {
    fail("the device granted %llu CQEs and %u send WRs: nothing can overflow",
         static_cast<unsigned long long>(room), link->client.cap.max_send_wr);
  }
  const ibv_qp* qp = link->client.qp();
  for (uint64_t id = 0; id <= room; ++id) {
    const PostResult posted = postSend(
        link->client.qp(), {Work::write(id, {source.sge(0, 8)}, target.address(), target.rkey())});
    expectErrno("post", 0, posted.error);
  }
  env.expectEvent(link->client.send_cq.get(), {IBV_EVENT_CQ_ERR}, "CQ's event");
  env.expectEvent(qp, {IBV_EVENT_QP_FATAL}, "QP's event");
  env.expectEnded(*link);
}

}  // namespace

void addQueueCases(std::vector<Case>* cases) {
  cases->push_back({"post-too-many-send-sges", tooManySendSges});
  cases->push_back({"post-too-many-receive-sges", tooManyReceiveSges});
  cases->push_back({"post-too-much-inline", tooMuchInline});
  cases->push_back({"post-inline-one-byte-too-many", inlineOneTooMany});
  cases->push_back({"post-inline-read", inlineRead});
  cases->push_back({"post-unsupported-opcode", unsupportedOpcode});
  cases->push_back({"post-undefined-opcode", undefinedOpcode});
  cases->push_back({"post-in-wrong-state", wrongState});
  cases->push_back({"modify-wrong-transition", wrongTransition});
  cases->push_back({"modify-refused-keeps-rights", refusedKeepsRights});
  cases->push_back({"modify-depths", depthsOfConnection});
  cases->push_back({"modify-to-error-flushes", errorFlushesConnection});
  cases->push_back({"send-queue-full", sendQueueFull});
  cases->push_back({"send-queue-unsignalled", unsignalledFreedBySignalled});
  cases->push_back({"receive-queue-full", receiveQueueFull});
  cases->push_back({"completion-queue-full", completionQueueFull});
}

}  // namespace kiwarp::vm
