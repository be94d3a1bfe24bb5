// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The calls of rdma_cm, and traffic.

#include <cerrno>

#include "common/error.h"
#include "faults/pair.h"
#include "faults/plan.h"

namespace kiwarp::vm {
namespace {

constexpr uint16_t kPort = 19100;

// The connection's other end, or its set-up, may end for want of what failed. ENOBUFS is TCP's.
const std::set<int> kEnds = {ECONNRESET, ECONNREFUSED, ECONNABORTED, ENOBUFS};

void setUpCases(FaultPlan* plan, ConnectionPair* pair) {
  const auto clear = [=] { pair->clear(); };
  const auto create = [=] { checkErrno(pair->createActive(), "rdma_create_id"); };
  plan->run({.name = "create_id", .call = [=] { return pair->createActive(); }, .undo = clear});
  plan->run({.name = "resolve_addr",
             .prepare = create,
             .call = [=] { return pair->resolveAddress(); },
             .then =
                 [=] {
                   pair->awaitActive(RDMA_CM_EVENT_ADDR_RESOLVED);
                   return 0;
                 },
             .undo = clear,
             .also = {ENOBUFS}});  // what the look-up of a route says
  plan->run({.name = "resolve_route",
             .prepare =
                 [=] {
                   create();
                   checkErrno(pair->resolveAddress(), "rdma_resolve_addr");
                   pair->awaitActive(RDMA_CM_EVENT_ADDR_RESOLVED);
                 },
             .call = [=] { return pair->resolveRoute(); },
             .then =
                 [=] {
                   pair->awaitActive(RDMA_CM_EVENT_ROUTE_RESOLVED);
                   return 0;
                 },
             .undo = clear});
  plan->run({.name = "listen",
             .prepare = [=] { pair->unlisten(); },
             .call = [=] { return pair->listen(); },
             .undo = clear,
             .also = {EADDRINUSE}});  // what TCP says without memory for the port's owner
}

void connectCases(FaultPlan* plan, ConnectionPair* pair) {
  const auto clear = [=] { pair->clear(); };
  const auto requested = [=] {
    pair->ready();
    checkErrno(pair->connect(), "rdma_connect");
    pair->awaitRequest();
    checkErrno(pair->createQp(pair->passive()), "rdma_create_qp");
  };
  plan->run({.name = "connect",
             .prepare = [=] { pair->ready(); },
             .call = [=] { return pair->connect(); },
             .then = [=] { return pair->awaitEstablished(true); },
             .undo = clear,
             .also = kEnds});
  plan->run({.name = "get_cm_event of a request",
             .prepare =
                 [=] {
                   pair->ready();
                   checkErrno(pair->connect(), "rdma_connect");
                   pair->awaitReadable();
                 },
             .call = [=] { return pair->takeRequest(); },
             .undo = clear,
             .also = {EAGAIN}});  // librdmacm drops a request that it cannot take up, and reads on
  plan->run({.name = "accept",
             .prepare = requested,
             .call = [=] { return pair->accept(); },
             .then = [=] { return pair->awaitEstablished(false); },
             .undo = clear,
             .also = kEnds});
  plan->run({.name = "reject",
             .prepare = requested,
             .call = [=] { return pair->reject(); },
             .then = [=] { return pair->awaitRejected(); },
             .undo = clear,
             .also = kEnds});
  plan->run({.name = "disconnect",
             .prepare = [=] { pair->establish(); },
             .call = [=] { return pair->disconnect(); },
             .then = [=] { return pair->awaitDisconnected(); },
             .undo = clear});
  plan->run({.name = "Write, Read and Send",
             .prepare = [=] { pair->establish(); },
             .call = [=] { return pair->postAll(); },
             .then = [=] { return pair->awaitAll(); },
             .undo = clear,
             .also = kEnds});
}

// A connection's whole life. Where it ends early the calls say so.
int lifeOf(ConnectionPair* pair) {
  pair->unlisten();
  if (int error = pair->listen()) return error;
  if (int error = pair->createActive()) return error;
  if (int error = pair->resolveAddress()) return error;
  pair->awaitActive(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (int error = pair->resolveRoute()) return error;
  pair->awaitActive(RDMA_CM_EVENT_ROUTE_RESOLVED);
  if (int error = pair->createQp(pair->active())) return error;
  if (int error = pair->connect()) return error;
  if (int error = pair->awaitEstablished(true)) return error;
  if (int error = pair->postAll()) return error;
  if (int error = pair->awaitAll()) return error;
  if (int error = pair->disconnect()) return error;
  return pair->awaitDisconnected();
}

}  // namespace

void connectionCases(FaultPlan* plan) {
  ConnectionPair pair(plan->options().address, kPort);
  setUpCases(plan, &pair);
  connectCases(plan, &pair);
}

// Of what the module allocates in workers and interrupts, for a connection's life, every
// interval-th fails, once: for each interval, up to one that is longer than what one life
// allocates, with the same gaps as between the failures of a call.
void workerCases(FaultPlan* plan) {
  if (!plan->wanted("in workers and interrupts")) return;
  ConnectionPair pair(plan->options().address, kPort + 1);
  constexpr unsigned kQuietRounds = 3;
  unsigned failures = 0, errors = 0, interval = 0;
  std::string wrong;
  for (unsigned quiet = 0; quiet < kQuietRounds && wrong.empty();) {
    interval += plan->step(interval);
    try {
      plan->settings().failModules(interval, 1);
      int error = 0;
      try {
        error = lifeOf(&pair);
      } catch (const PassiveFailure& failure) {
        error = ENOMEM;
        std::printf("# interval %u: %s\n", interval, failure.what());
      }
      const unsigned failed = 2 - plan->settings().left();
      plan->settings().stop();
      pair.clear();
      failures += failed;
      errors += error != 0;
      quiet = failed ? 0 : quiet + 1;
      if (error == ETIMEDOUT) wrong = strf("interval %u: nobody is told", interval);
      if (error && !failed) wrong = strf("no failure, but %s", errnoName(error).c_str());
      if (int after = lifeOf(&pair)) {
        wrong = strf("after interval %u: %s", interval, errnoName(after).c_str());
      }
      pair.clear();
    } catch (const Failure& failure) {
      wrong = strf("around interval %u: %s", interval, failure.what());
    }
  }
  if (wrong.empty() && failures == 0) wrong = "nothing failed";
  plan->fact(wrong.empty(), strf("in workers and interrupts: %u failures, %u connections ended%s%s",
                                 failures, errors, wrong.empty() ? "" : ": ", wrong.c_str()));
}

}  // namespace kiwarp::vm
