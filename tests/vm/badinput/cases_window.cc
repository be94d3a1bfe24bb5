// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Memory windows: what may be bound to what, who may use it, and who may take it away.

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "badinput/harness.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kSize = 8192;
constexpr uint32_t kLength = 256;
// The window: a part of the region, which begins and ends inside a page.
constexpr uint64_t kFrom = 1000;
constexpr uint64_t kWindow = 5000;
constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE;
// Without a right of a peer's: what one may do it may do by the window alone.
constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned kBoth = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

constexpr uint64_t kOffence = 0x100;
constexpr uint64_t kClientRecv = 0x200;
constexpr uint64_t kServerRecv = 0x300;
constexpr uint64_t kBind = 0x400;

// The low 16 bits of vendor_err: layer, type and code. (<rdma/kiwarp-abi.h>)
constexpr uint32_t kTermMask = 0xffff;
enum Term : uint32_t {
  kReadNoStag = 0x0100,
  kReadBounds = 0x0101,
  kReadAccess = 0x0102,
  kReadNotAssociated = 0x0103,
  kCannotInvalidate = 0x0109,
  kWriteNoStag = 0x1100,
  kWriteBounds = 0x1101,
  kWriteNotAssociated = 0x1102,
};

ibv_mw_bind_info infoOf(const Buffer& region, unsigned access = kBoth) {
  return {.mr = region.mr(),
          .addr = region.address() + kFrom,
          .length = kWindow,
          .mw_access_flags = access};
}

// The server has a region and windows, and the client is the peer that uses them.
struct Scene {
  explicit Scene(Env& env, int region_access = kBindable)
      : link(env.connect()),
        source(env.pd(), kSize, kLocal),
        region(env.pd(), kSize, region_access),
        one(allocMw(env.pd(), IBV_MW_TYPE_1)),
        two(allocMw(env.pd(), IBV_MW_TYPE_2)) {}

  ibv_qp* server() const { return link->server.qp(); }
  ibv_qp* client() const { return link->client.qp(); }

  std::unique_ptr<Link> link;
  Buffer source;
  Buffer region;
  ibv_mr gone{};
  Mw one, two;
};

void expectOpcode(const ibv_wc& wc, uint64_t id, ibv_wc_opcode opcode, const std::string& what) {
  if (wc.wr_id != id || wc.status != IBV_WC_SUCCESS || wc.opcode != opcode) {
    fail("%s: got %s", what.c_str(), describe(wc).c_str());
  }
}

void bind2(Env& env, const End& end, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info) {
  expectErrno("post of a bind", 0, postSend(end.qp(), {Work::bind(kBind, mw, rkey, info)}).error);
  expectOpcode(env.awaitWc(end.send_cq.get(), "bind"), kBind, IBV_WC_BIND_MW, "bind");
}

int tryBind1(ibv_qp* qp, ibv_mw* mw, const ibv_mw_bind_info& info) {
  ibv_mw_bind bind{};
  bind.wr_id = kBind;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_info = info;
  return ibv_bind_mw(qp, mw, &bind);
}

void bind1(Env& env, const End& end, ibv_mw* mw, const ibv_mw_bind_info& info) {
  const uint32_t before = mw->rkey;
  expectErrno("ibv_bind_mw", 0, tryBind1(end.qp(), mw, info));
  expectOpcode(env.awaitWc(end.send_cq.get(), "ibv_bind_mw"), kBind, IBV_WC_BIND_MW, "ibv_bind_mw");
  if (mw->rkey == before || mw->rkey >> 8 != before >> 8) {
    fail("the new rkey %#x has not the old one's index alone: %#x", mw->rkey, before);
  }
}

void invalidate(Env& env, const End& end, uint32_t rkey) {
  expectErrno("post of LOCAL_INV", 0,
              postSend(end.qp(), {Work::localInvalidate(kBind, rkey)}).error);
  expectOpcode(env.awaitWc(end.send_cq.get(), "LOCAL_INV"), kBind, IBV_WC_LOCAL_INV, "LOCAL_INV");
}

enum class Kind { kWrite, kRead };

Work access(const Scene& scene, Kind kind, uint64_t id, uint64_t address, uint32_t rkey,
            uint32_t length) {
  const std::vector<ibv_sge> sges = {scene.source.sge(0, length)};
  return kind == Kind::kWrite ? Work::write(id, sges, address, rkey)
                              : Work::read(id, sges, address, rkey);
}

// Writes the window full and reads it back, at both of its ends; nothing beside it changes.
void expectAccess(Env& env, Scene& scene, const End& peer, uint64_t address, uint32_t rkey) {
  uint8_t* const bytes = scene.source.data();
  for (uint32_t i = 0; i < kWindow; ++i) bytes[i] = static_cast<uint8_t>(i * 7 + 1);
  expectErrno("post of a Write and a Read", 0,
              postSend(peer.qp(), {access(scene, Kind::kWrite, 1, address, rkey, kWindow),
                                   Work::read(2, {scene.source.sge(kWindow, 100)},
                                              address + kWindow - 100, rkey)})
                  .error);
  env.expectWc(peer.send_cq.get(), 1, {IBV_WC_SUCCESS}, "Write through the window");
  env.expectWc(peer.send_cq.get(), 2, {IBV_WC_SUCCESS}, "Read through the window");
  if (std::memcmp(scene.region.data() + kFrom, bytes, kWindow) != 0) fail("not what was written");
  if (std::memcmp(bytes + kWindow, bytes + kWindow - 100, 100) != 0) fail("not what is there");
  scene.region.erase(kFrom, kWindow);
  scene.source.erase(0, kSize);
  scene.region.expectUntouched("region beside the window");
}

// One request of the peer's ends its connection, for the given reason, and has no effect.
void expectRefused(Env& env, Scene& scene, const Link& link, const Work& work, uint32_t reason,
                   bool is_read) {
  const End& client = link.client;
  const End& server = link.server;
  mustRecv(client.qp(), kClientRecv, {});
  mustRecv(server.qp(), kServerRecv, {});
  expectErrno("post", 0, postSend(client.qp(), {work}).error);
  env.expectWc(client.send_cq.get(), work.id(), {is_read ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS},
               "refused request");
  const ibv_wc sent = env.awaitWc(server.recv_cq.get(), "server's receive");
  const ibv_wc got = env.awaitWc(client.recv_cq.get(), "client's receive");
  expectSame("Terminate sent", strf("%04x", reason), strf("%04x", sent.vendor_err & kTermMask));
  expectSame("Terminate received", strf("%04x", reason), strf("%04x", got.vendor_err & kTermMask));
  env.expectEvent(server.qp(), {IBV_EVENT_QP_ACCESS_ERR}, "responder's event");
  env.expectEnded(link);
  scene.region.expectUntouched("region");
}

void refuse(Env& env, Scene& scene, Kind kind, uint64_t address, uint32_t rkey, uint32_t length,
            uint32_t reason) {
  expectRefused(env, scene, *scene.link, access(scene, kind, kOffence, address, rkey, length),
                reason, kind == Kind::kRead);
}

// A request that the send queue cannot carry out: it and the connection end.
void expectLocalError(Env& env, const Scene& scene, const Work& work, ibv_wc_status status) {
  const End& server = scene.link->server;
  expectErrno("post", 0, postSend(server.qp(), {work, Work::send(kOffence, {})}).error);
  env.expectWc(server.send_cq.get(), work.id(), {status}, "bad request");
  env.expectWc(server.send_cq.get(), kOffence, {IBV_WC_WR_FLUSH_ERR}, "request behind it");
  env.expectEnded(*scene.link);
}

uint64_t startOf(const Scene& scene) { return scene.region.address() + kFrom; }

// --- what works ---

void typeOne(Env& env) {
  Scene scene(env);
  const Link& link = *scene.link;
  const std::unique_ptr<Link> other = env.connect();
  bind1(env, link.server, scene.one.get(), infoOf(scene.region));
  // It is for all streams of the protection domain.
  expectAccess(env, scene, link.client, startOf(scene), scene.one->rkey);
  expectAccess(env, scene, other->client, startOf(scene), scene.one->rkey);
  // Bound anew, by another queue pair, and to other bytes of another region.
  Buffer next(env.pd(), kSize, kBindable);
  bind1(env, other->server, scene.one.get(), infoOf(next, IBV_ACCESS_REMOTE_READ));
  bind1(env, other->server, scene.one.get(), infoOf(scene.region, kBoth | IBV_ACCESS_ZERO_BASED));
  expectAccess(env, scene, link.client, 0, scene.one->rkey);
  next.expectUntouched("region that is not bound any more");
}

void typeTwo(Env& env) {
  Scene scene(env);
  const End& server = scene.link->server;
  uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, server, scene.two.get(), rkey, infoOf(scene.region));
  expectAccess(env, scene, scene.link->client, startOf(scene), rkey);
  invalidate(env, server, rkey);
  rkey = ibv_inc_rkey(rkey);
  bind2(env, server, scene.two.get(), rkey, infoOf(scene.region, kBoth | IBV_ACCESS_ZERO_BASED));
  expectAccess(env, scene, scene.link->client, 0, rkey);
}

// The peer invalidates it, hears nothing of it, and the server can bind it again.
void invalidatedByPeer(Env& env) {
  Scene scene(env);
  const End& server = scene.link->server;
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  for (int round = 0; round < 2; ++round) {
    bind2(env, server, scene.two.get(), rkey, infoOf(scene.region));
    expectAccess(env, scene, scene.link->client, startOf(scene), rkey);
    mustRecv(server.qp(), kServerRecv, {});
    Work work = Work::send(1, {});
    expectErrno("post", 0, postSend(scene.client(), {work.invalidate(rkey)}).error);
    env.expectWc(scene.link->client.send_cq.get(), 1, {IBV_WC_SUCCESS}, "Send with Invalidate");
    const ibv_wc wc = env.awaitWc(server.recv_cq.get(), "receive");
    if (wc.status != IBV_WC_SUCCESS || !(wc.wc_flags & IBV_WC_WITH_INV) ||
        wc.invalidated_rkey != rkey) {
      fail("receive of a Send with Invalidate: %s", describe(wc).c_str());
    }
  }
  refuse(env, scene, Kind::kWrite, startOf(scene), rkey, kLength, kWriteNoStag);
}

// Bind, Send and LOCAL_INV of one list are done in this order: the peer that has the Send may use
// the window, and one that comes after the invalidation may not.
void inOrder(Env& env) {
  Scene scene(env);
  const End& server = scene.link->server;
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  mustRecv(scene.client(), kClientRecv, {});
  const ibv_mw_bind_info info = infoOf(scene.region);
  expectErrno("post", 0,
              postSend(server.qp(),
                       {Work::bind(1, scene.two.get(), rkey, info), Work::localInvalidate(2, rkey),
                        Work::bind(3, scene.two.get(), rkey, info), Work::send(4, {})})
                  .error);
  for (uint64_t id = 1; id <= 4; ++id) {
    env.expectWc(server.send_cq.get(), id, {IBV_WC_SUCCESS}, "request of the list");
  }
  env.expectWc(scene.link->client.recv_cq.get(), kClientRecv, {IBV_WC_SUCCESS}, "receive");
  expectAccess(env, scene, scene.link->client, startOf(scene), rkey);
}

// --- whom a peer's access meets ---

void pastEnd(Env& env, Kind kind) {
  Scene scene(env);
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  refuse(env, scene, kind, startOf(scene) + kWindow - kLength + 1, scene.one->rkey, kLength,
         kind == Kind::kRead ? kReadBounds : kWriteBounds);
}

void beforeStart(Env& env, Kind kind) {
  Scene scene(env);
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  refuse(env, scene, kind, startOf(scene) - 1, rkey, kLength,
         kind == Kind::kRead ? kReadBounds : kWriteBounds);
}

// By the window's own addresses, of which 0 is the first.
void zeroBasedPastEnd(Env& env, Kind kind) {
  Scene scene(env);
  bind1(env, scene.link->server, scene.one.get(),
        infoOf(scene.region, kBoth | IBV_ACCESS_ZERO_BASED));
  refuse(env, scene, kind, kWindow - kLength + 1, scene.one->rkey, kLength,
         kind == Kind::kRead ? kReadBounds : kWriteBounds);
}

void withoutRight(Env& env, Kind kind) {
  Scene scene(env);
  const unsigned right = kind == Kind::kRead ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region, right));
  refuse(env, scene, kind, startOf(scene), scene.one->rkey, kLength, kReadAccess);
}

void regionItself(Env& env, Kind kind) {
  Scene scene(env);
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  refuse(env, scene, kind, startOf(scene), scene.region.rkey(), kLength, kReadAccess);
}

void notBound(Env& env, Kind kind) {
  Scene scene(env);
  refuse(env, scene, kind, startOf(scene), scene.one->rkey, kLength,
         kind == Kind::kRead ? kReadNoStag : kWriteNoStag);
}

void oldKey(Env& env, Kind kind) {
  Scene scene(env);
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  const uint32_t old = scene.one->rkey;
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  refuse(env, scene, kind, startOf(scene), old, kLength,
         kind == Kind::kRead ? kReadNoStag : kWriteNoStag);
}

void boundToNothing(Env& env, Kind kind) {
  Scene scene(env);
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  bind1(env, scene.link->server, scene.one.get(), {});
  refuse(env, scene, kind, startOf(scene), scene.one->rkey, kLength,
         kind == Kind::kRead ? kReadNoStag : kWriteNoStag);
}

void invalidated(Env& env, Kind kind) {
  Scene scene(env);
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  invalidate(env, scene.link->server, rkey);
  refuse(env, scene, kind, startOf(scene), rkey, kLength,
         kind == Kind::kRead ? kReadNoStag : kWriteNoStag);
}

// RFC 5041 section 8.2: the STag is associated with one stream. Another one's peer has no use of
// it, though both are of one protection domain.
void otherStream(Env& env, Kind kind) {
  Scene scene(env);
  const std::unique_ptr<Link> other = env.connect();
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  expectRefused(env, scene, *other, access(scene, kind, kOffence, startOf(scene), rkey, kLength),
                kind == Kind::kRead ? kReadNotAssociated : kWriteNotAssociated,
                kind == Kind::kRead);
  expectAccess(env, scene, scene.link->client, startOf(scene), rkey);
}

void ofOtherPd(Env& env, Kind kind) {
  Scene scene(env);
  LinkOptions options;
  options.client.pd = options.server.pd = env.otherPd();
  const std::unique_ptr<Link> other = env.connect(options);
  Buffer foreign(env.otherPd(), kSize, kBindable);
  const Mw mw = allocMw(env.otherPd(), IBV_MW_TYPE_1);
  bind1(env, other->server, mw.get(), infoOf(foreign));
  refuse(env, scene, kind, foreign.address() + kFrom, mw->rkey, kLength,
         kind == Kind::kRead ? kReadNotAssociated : kWriteNotAssociated);
  foreign.expectUntouched("region of the other PD");
}

void queuePairWithoutRight(Env& env, Kind kind) {
  Scene scene(env);
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  setQpAccess(scene.server(),
              kind == Kind::kRead ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ);
  refuse(env, scene, kind, startOf(scene), scene.one->rkey, kLength, kReadAccess);
}

// A window is for peers: its consumer uses the region.
void asLkey(Env& env, Kind kind) {
  Scene scene(env);
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  const std::vector<ibv_sge> sges = {{startOf(scene), kLength, scene.one->rkey}};
  const Work work =
      kind == Kind::kWrite ? Work::send(1, sges) : Work::read(1, sges, scene.source.address(), 1);
  expectLocalError(env, scene, work, IBV_WC_LOC_PROT_ERR);
  scene.region.expectUntouched("region");
}

// --- who may invalidate ---

void peerInvalidates(Env& env, Scene& scene, const Link& link, uint32_t rkey, uint32_t reason) {
  Work work = Work::send(kOffence, {});
  expectRefused(env, scene, link, work.invalidate(rkey), reason, false);
}

void otherPeerInvalidates(Env& env) {
  Scene scene(env);
  const std::unique_ptr<Link> other = env.connect();
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  peerInvalidates(env, scene, *other, rkey, kCannotInvalidate);
  expectAccess(env, scene, scene.link->client, startOf(scene), rkey);
}

// All streams share it: RFC 5040 section 8.1.1.
void peerInvalidatesTypeOne(Env& env) {
  Scene scene(env);
  const std::unique_ptr<Link> other = env.connect();
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  peerInvalidates(env, scene, *other, scene.one->rkey, kCannotInvalidate);
  expectAccess(env, scene, scene.link->client, startOf(scene), scene.one->rkey);
}

void peerInvalidatesWithoutRight(Env& env) {
  Scene scene(env);
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region, 0));
  peerInvalidates(env, scene, *scene.link, rkey, kCannotInvalidate);
}

void peerInvalidatesTwice(Env& env) {
  Scene scene(env);
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  invalidate(env, scene.link->server, rkey);
  peerInvalidates(env, scene, *scene.link, rkey, kReadNoStag);
}

void localInvalidate(Env& env, const std::function<uint32_t(Scene&, Link&)>& which) {
  Scene scene(env);
  const std::unique_ptr<Link> other = env.connect();
  const uint32_t rkey = which(scene, *other);
  expectLocalError(env, scene, Work::localInvalidate(1, rkey), IBV_WC_LOC_PROT_ERR);
}

// --- what may not be bound ---

// Binds what differs in one thing from what is right; the window stays as it is.
void badBind(Env& env, const std::function<void(Scene&, ibv_mw_bind_info&)>& spoil,
             int region_access = kBindable) {
  for (const bool two : {false, true}) {
    Scene scene(env, region_access);
    ibv_mw* const mw = two ? scene.two.get() : scene.one.get();
    ibv_mw_bind_info info = infoOf(scene.region);
    spoil(scene, info);
    expectLocalError(env, scene, Work::bind(1, mw, ibv_inc_rkey(mw->rkey), info),
                     IBV_WC_MW_BIND_ERR);
  }
}

void typeTwoTwice(Env& env) {
  Scene scene(env);
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  expectLocalError(env, scene,
                   Work::bind(1, scene.two.get(), ibv_inc_rkey(rkey), infoOf(scene.region)),
                   IBV_WC_MW_BIND_ERR);
}

void typeTwoToNothing(Env& env) {
  Scene scene(env);
  expectLocalError(env, scene, Work::bind(1, scene.two.get(), scene.two->rkey, {}),
                   IBV_WC_MW_BIND_ERR);
}

void readOnlyRegion(Env& env) {
  Scene scene(env, IBV_ACCESS_MW_BIND);
  // To read is allowed.
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region, IBV_ACCESS_REMOTE_READ));
  expectLocalError(env, scene,
                   Work::bind(1, scene.two.get(), scene.two->rkey, infoOf(scene.region)),
                   IBV_WC_MW_BIND_ERR);
}

void windowOfOtherPd(Env& env) {
  Scene scene(env);
  const Mw foreign = allocMw(env.otherPd(), IBV_MW_TYPE_2);
  expectLocalError(env, scene, Work::bind(1, foreign.get(), foreign->rkey, infoOf(scene.region)),
                   IBV_WC_MW_BIND_ERR);
}

void refusedAtOnce(Env& env) {
  Scene scene(env);
  const ibv_mw_bind_info info = infoOf(scene.region);
  ibv_mw* const one = scene.one.get();
  const uint32_t rkey = one->rkey;
  expectErrno("ibv_bind_mw of type 2", EINVAL, tryBind1(scene.server(), scene.two.get(), info));
  Buffer foreign(env.otherPd(), kSize, kBindable);
  expectErrno("region of another PD", EPERM, tryBind1(scene.server(), one, infoOf(foreign)));
  const Mw other = allocMw(env.otherPd(), IBV_MW_TYPE_1);
  expectErrno("queue pair of another PD", EPERM,
              tryBind1(scene.server(), other.get(), infoOf(foreign)));
  ibv_mw_bind_info no_region = info;
  no_region.mr = nullptr;
  expectErrno("bytes of no region", EINVAL, tryBind1(scene.server(), one, no_region));
  expectErrno("post without a region", EINVAL,
              postSend(scene.server(), {Work::bind(1, scene.two.get(), rkey, no_region)}).error);
  expectErrno("post without a window", EINVAL,
              postSend(scene.server(), {Work::bind(1, nullptr, rkey, info)}).error);
  expectErrno(
      "inline", EINVAL,
      postSend(scene.server(), {Work::bind(1, scene.two.get(), rkey, info).flags(IBV_SEND_INLINE)})
          .error);
  if (one->rkey != rkey) fail("the rkey has changed");
  env.expectAlive(*scene.link);
  errno = 0;
  if (Mw(ibv_alloc_mw(env.pd(), static_cast<ibv_mw_type>(3)))) fail("a window of type 3");
  expectErrno("ibv_alloc_mw of type 3", EINVAL, errno);
}

// --- lifetimes ---

// What keeps a region keeps it from becoming another one. Returns an errno.
int reregister(Env& env, ibv_mr* mr) {
  errno = 0;
  const int rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, env.pd(), mr->addr, mr->length,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  return rc == 0 ? 0 : errno;
}

void keepsRegion(Env& env) {
  Scene scene(env);
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  expectErrno("ibv_dereg_mr, two bound", EBUSY, ibv_dereg_mr(scene.region.mr()));
  expectErrno("ibv_rereg_mr, two bound", EBUSY, reregister(env, scene.region.mr()));
  bind1(env, scene.link->server, scene.one.get(), {});
  expectErrno("ibv_dereg_mr, one bound", EBUSY, ibv_dereg_mr(scene.region.mr()));
  expectAccess(env, scene, scene.link->client, startOf(scene), rkey);
  // A window may be deallocated while it is bound.
  expectErrno("ibv_dealloc_mw", 0, ibv_dealloc_mw(scene.two.release()));
  expectErrno("ibv_dereg_mr, none bound", 0, ibv_dereg_mr(scene.region.release()));
  expectErrno("ibv_dealloc_mw, not bound", 0, ibv_dealloc_mw(scene.one.release()));
}

void deallocated(Env& env, Kind kind) {
  Scene scene(env);
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  scene.two.reset();
  refuse(env, scene, kind, startOf(scene), rkey, kLength,
         kind == Kind::kRead ? kReadNoStag : kWriteNoStag);
}

// Those of type 2 go with the stream, which is over when its queue pair is destroyed. One of type 1
// stays.
void endOfStream(Env& env) {
  Scene scene(env);
  const std::unique_ptr<Link> other = env.connect();
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  Buffer shared(env.pd(), kSize, kBindable);
  bind1(env, scene.link->server, scene.one.get(), infoOf(shared));
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  expectErrno("ibv_dereg_mr before", EBUSY, ibv_dereg_mr(scene.region.mr()));
  rdma_destroy_qp(scene.link->server.id.get());
  expectErrno("ibv_dereg_mr of type 1's", EBUSY, ibv_dereg_mr(shared.mr()));
  // Without having been invalidated it can be bound again.
  bind2(env, other->server, scene.two.get(), rkey, infoOf(scene.region));
  expectAccess(env, scene, other->client, startOf(scene), rkey);
  invalidate(env, other->server, rkey);
  expectErrno("ibv_dereg_mr after", 0, ibv_dereg_mr(scene.region.release()));
  scene.one.reset();
}

// --- another process's ---

// What a tenant has: a region, a window of each type that is bound, and one that is not.
struct Holdings {
  uint32_t lkey, one, two, free;
  uint64_t address;
};

// A process of its own that has the device open, from the constructor to finish().
class Tenant {
 public:
  explicit Tenant(Env& env) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) fail("pipe2: %s", errnoName(errno).c_str());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    const std::string port = std::to_string(env.port() + kTenantPort);
    const char* const argv[] = {"kiwarp-badinput", "--tenant",   "--addr", env.address().c_str(),
                                "--port",          port.c_str(), nullptr};
    const int error = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr,
                                  const_cast<char* const*>(argv), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    stop_ = in[1];
    FILE* said = fdopen(out[0], "r");
    if (error != 0 || std::fscanf(said, "%x %x %x %x %lx", &has_.lkey, &has_.one, &has_.two,
                                  &has_.free, &has_.address) != 5) {
      std::fclose(said);
      fail("no tenant");
    }
    std::fclose(said);
  }
  ~Tenant() {
    if (stop_ >= 0) finish();
  }
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  const Holdings& has() const { return has_; }
  // Whether all that it has is as it was.
  bool finish() {
    int status = -1;
    close(stop_);
    stop_ = -1;
    waitpid(pid_, &status, 0);
    return status == 0;
  }

 private:
  static constexpr int kTenantPort = 49;
  pid_t pid_ = -1;
  int stop_ = -1;
  Holdings has_{};
};

void otherProcess(Env& env) {
  Tenant tenant(env);
  const Holdings& has = tenant.has();
  for (const Kind kind : {Kind::kWrite, Kind::kRead}) {
    for (const uint32_t rkey : {has.one, has.two}) {
      Scene scene(env);
      refuse(env, scene, kind, has.address + kFrom, rkey, kLength,
             kind == Kind::kRead ? kReadNotAssociated : kWriteNotAssociated);
    }
  }
  {
    Scene scene(env);
    peerInvalidates(env, scene, *scene.link, has.two, kCannotInvalidate);
  }
  localInvalidate(env, [&has](Scene&, Link&) { return has.two; });
  for (const uint32_t window : {has.one, has.two, has.free}) {
    Scene scene(env);
    expectLocalError(env, scene, Work::bind(1, scene.two.get(), window, infoOf(scene.region)),
                     IBV_WC_MW_BIND_ERR);
  }
  badBind(env, [&has](Scene& scene, ibv_mw_bind_info& info) {
    scene.gone.lkey = has.lkey;
    info.mr = &scene.gone;
    info.addr = has.address + kFrom;
  });
  if (!tenant.finish()) fail("the other process has noticed");
}

void addBoth(std::vector<Case>* cases, const std::string& name,
             const std::function<void(Env&, Kind)>& run) {
  cases->push_back({"write-" + name, [run](Env& env) { run(env, Kind::kWrite); }});
  cases->push_back({"read-" + name, [run](Env& env) { run(env, Kind::kRead); }});
}

void addBadBinds(std::vector<Case>* cases) {
  using Info = ibv_mw_bind_info;
  const auto add = [cases](const std::string& name, const std::function<void(Scene&, Info&)>& spoil,
                           int region_access = kBindable) {
    cases->push_back({"window-bind-" + name,
                      [spoil, region_access](Env& env) { badBind(env, spoil, region_access); }});
  };
  const auto nothing = [](Scene&, Info&) {};
  add("region-without-mw-bind", nothing, kLocal | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  add("ends-one-byte-past", [](Scene&, Info& info) { info.length = kSize - kFrom + 1; });
  add("starts-one-byte-before", [](Scene&, Info& info) { info.addr -= kFrom + 1; });
  add("length-wraps", [](Scene&, Info& info) { info.length = UINT64_MAX - kFrom; });
  add("unknown-right", [](Scene&, Info& info) { info.mw_access_flags |= IBV_ACCESS_MW_BIND; });
  add("deregistered-region", [](Scene& scene, Info& info) {
    scene.gone = *info.mr;
    info.mr = &scene.gone;
    scene.region.deregister();
  });
}

}  // namespace

void beTenant(const std::string& address, uint16_t port) {
  Env env(address, port, 60);
  Scene scene(env);
  const Mw free = allocMw(env.pd(), IBV_MW_TYPE_2);
  const uint32_t rkey = ibv_inc_rkey(scene.two->rkey);
  bind1(env, scene.link->server, scene.one.get(), infoOf(scene.region));
  bind2(env, scene.link->server, scene.two.get(), rkey, infoOf(scene.region));
  std::printf("%x %x %x %x %lx\n", scene.region.lkey(), scene.one->rkey, rkey, free->rkey,
              scene.region.address());
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  scene.region.expectUntouched("region");
  expectAccess(env, scene, scene.link->client, startOf(scene), scene.one->rkey);
  expectAccess(env, scene, scene.link->client, startOf(scene), rkey);
  bind2(env, scene.link->server, free.get(), free->rkey, infoOf(scene.region));
}

void addWindowCases(std::vector<Case>* cases) {
  cases->push_back({"window-type-1", typeOne});
  cases->push_back({"window-type-2", typeTwo});
  cases->push_back({"window-invalidated-by-peer", invalidatedByPeer});
  cases->push_back({"window-requests-in-order", inOrder});
  addBoth(cases, "window-ends-one-byte-past", pastEnd);
  addBoth(cases, "window-starts-one-byte-before", beforeStart);
  addBoth(cases, "window-zero-based-past-the-end", zeroBasedPastEnd);
  addBoth(cases, "window-without-right", withoutRight);
  addBoth(cases, "window-rkey-of-its-region", regionItself);
  addBoth(cases, "window-not-bound", notBound);
  addBoth(cases, "window-old-key", oldKey);
  addBoth(cases, "window-bound-to-nothing", boundToNothing);
  addBoth(cases, "window-invalidated", invalidated);
  addBoth(cases, "window-deallocated", deallocated);
  addBoth(cases, "window-of-other-stream", otherStream);
  addBoth(cases, "window-of-other-pd", ofOtherPd);
  addBoth(cases, "window-qp-without-right", queuePairWithoutRight);
  addBoth(cases, "window-as-lkey", asLkey);
  cases->push_back({"window-invalidated-by-another-peer", otherPeerInvalidates});
  cases->push_back({"window-type-1-invalidated-by-peer", peerInvalidatesTypeOne});
  cases->push_back({"window-invalidated-without-right", peerInvalidatesWithoutRight});
  cases->push_back({"window-invalidated-twice", peerInvalidatesTwice});
  cases->push_back({"window-local-inv-of-type-1", [](Env& env) {
                      localInvalidate(env, [&env](Scene& scene, Link& other) {
                        bind1(env, other.server, scene.one.get(), infoOf(scene.region));
                        return scene.one->rkey;
                      });
                    }});
  cases->push_back({"window-local-inv-by-another-stream", [](Env& env) {
                      localInvalidate(env, [&env](Scene& scene, Link& other) {
                        bind2(env, other.server, scene.two.get(), scene.two->rkey,
                              infoOf(scene.region));
                        return scene.two->rkey;
                      });
                    }});
  cases->push_back({"window-local-inv-not-bound", [](Env& env) {
                      localInvalidate(env, [](Scene& scene, Link&) { return scene.two->rkey; });
                    }});
  cases->push_back({"window-local-inv-of-region", [](Env& env) {
                      localInvalidate(env, [](Scene& scene, Link&) { return scene.region.rkey(); });
                    }});
  addBadBinds(cases);
  cases->push_back({"window-bind-read-only-region", readOnlyRegion});
  cases->push_back({"window-bind-window-of-other-pd", windowOfOtherPd});
  cases->push_back({"window-bind-type-2-twice", typeTwoTwice});
  cases->push_back({"window-bind-type-2-to-nothing", typeTwoToNothing});
  cases->push_back({"window-refused-at-once", refusedAtOnce});
  cases->push_back({"window-of-other-process", otherProcess});
  cases->push_back({"window-keeps-region", keepsRegion});
  cases->push_back({"window-end-of-stream", endOfStream});
}

}  // namespace kiwarp::vm
