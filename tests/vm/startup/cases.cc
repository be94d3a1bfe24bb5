// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// What MPA start-up makes of each setting. The first device serves, the second connects.

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "common/error.h"
#include "startup/suite.h"

namespace kiwarp::vm {
namespace {

const std::string kClosed = "RDMA_CM_EVENT_REJECTED status -ECONNRESET";
const std::string kRefused = "RDMA_CM_EVENT_REJECTED status -ECONNREFUSED";
const std::string kEveryRevision = "0 1 2";

std::string text(const char* format, int a, int b, int c) { return strf(format, a, b, c); }

}  // namespace

void Suite::settings() {
  number("mpa_rev", 2, 0, 2, false);
  isSet("mpa_rev_accept", "1 2", "2,0", "0 2", {"3", "1 x", "", ","});
  for (const char* name : {"crc", "p2p"}) isSwitch(name, "1");
  for (const char* name : {"markers", "large_fpdu", "immediate", "atomics"}) isSwitch(name, "0");
  isSet("rtr", "send write read", "read, send", "send read", {"none", "reads", " ", "write,1"});
  number("ird_max", 128, 0, 128, false);
  number("ord_max", 128, 0, 128, false);
  number("fpdu_max", 0, 256, 65535, true);
  number("zcopy_min", 0, 512, 1ULL << 31, true);
  number("ack_segments", 4, 2, 16, true);
  number("connect_timeout_ms", 20000, 100, 600000, false);
  number("start_timeout_ms", 10000, 100, 600000, false);
  number("reply_timeout_ms", 60000, 100, 600000, false);
  number("offer_timeout_ms", 60000, 100, 600000, false);
  number("first_fpdu_timeout_ms", 200, 1, 60000, true);
  number("linger_timeout_ms", 60000, 100, 600000, true);
  number("keepalive_idle_s", 7200, 1, 32767, true);
  number("keepalive_interval_s", 75, 1, 32767, false);
  number("keepalive_probes", 9, 1, 127, false);
  number("user_timeout_ms", 0, 100, 86400000, true);
  isSet("port_map", "none", "3260:13260,445:1445", "3260:13260 445:1445",
        {"", "3260", "3260:", ":13260", "0:1", "1:0", "1:65536", "1:2:3", "a:b", "1:2 1:3",
         "1:3 2:3", "none 1:2", "1:11 2:12 3:13 4:14 5:15 6:16 7:17 8:18 9:19"});
  fact("the other device keeps its own", [&] {
    if (client_.get("ird_max") != "128") fail("ird_max is %s", client_.get("ird_max").c_str());
  });
  reset();
}

// Every combination of both sides' settings, in each revision.
void Suite::crc() {
  both("mpa_rev_accept", kEveryRevision);
  for (int rev = 2; rev >= 0; rev--) {
    client_.put("mpa_rev", std::to_string(rev));
    for (int bits = 0; bits < 4; bits++) {
      const int server = bits >> 1, client = bits & 1, used = server | client;
      server_.put("crc", std::to_string(server));
      client_.put("crc", std::to_string(client));
      attempt(text("revision %d, CRC: server %d, client %d", rev, server, client), {});
      wire("C as set, and as agreed",
           text("req [a-z]+ rev=%d M=0 C=%d.*rep [a-z]+ rev=[012] M=0 C=%d", rev, client, used));
      wire("FPDUs as agreed", used ? "req first .*crc=good" : "req first .*crc=none");
    }
  }
  reset();
}

// Both sides' wishes for markers, with and without CRCs, in each revision.
void Suite::markers() {
  both("mpa_rev_accept", kEveryRevision);
  for (int rev = 2; rev >= 0; rev--) {
    client_.put("mpa_rev", std::to_string(rev));
    for (int crc = 1; crc >= 0; crc--) {
      both("crc", std::to_string(crc));
      for (int bits = 0; bits < 4; bits++) {
        const int server = bits >> 1, client = bits & 1;
        server_.put("markers", std::to_string(server));
        client_.put("markers", std::to_string(client));
        attempt(strf("revision %d, CRC %d, markers: to the server %d, to the client %d", rev, crc,
                     server, client),
                {});
        wire("M and C as set", strf("req [a-z]+ rev=%d M=%d C=%d.*rep [a-z]+ rev=%d M=%d C=%d", rev,
                                    client, crc, rev, server, crc));
        const char* state = crc != 0 ? "good" : "none";
        wire("both sides' first FPDUs are where they belong",
             strf("req first op=[0-9]+ crc=%s mark=%d .*rep first op=[0-9]+ crc=%s mark=%d", state,
                  server, state, client));
      }
    }
  }
  fact("no FPDU was refused", [&] {
    for (const Device* device : {&server_, &client_}) {
      for (const char* counter : {"rx_marker_errors", "rx_crc_errors"}) {
        if (device->count(counter) != 0) fail("%s: %s", device->name().c_str(), counter);
      }
    }
  });
  reset();
}

void Suite::revisions() {
  const std::vector<std::string> accepts{"0 1 2", "1 2", "2", "1", "0"};
  client_.put("mpa_rev_accept", kEveryRevision);
  for (int rev = 2; rev >= 0; rev--) {
    client_.put("mpa_rev", std::to_string(rev));
    for (const std::string& accept : accepts) {
      server_.put("mpa_rev_accept", accept);
      int got = rev;
      while (got >= 0 && accept.find(std::to_string(got)) == std::string::npos) got--;
      Attempt a;
      a.unheard = got < 0;
      if (a.unheard) a.outcome = kClosed;
      attempt(strf("revision %d to a server of \"%s\"", rev, accept.c_str()), a);
      if (!a.unheard)
        wire(strf("ends with revision %d", got),
             text("[.]%d rep [a-z]+ rev=%d", rev - got + 1, got, 0));
    }
  }
  client_.put("mpa_rev", "2");
  client_.put("mpa_rev_accept", "1 2");
  Attempt closed;
  closed.unheard = true;
  closed.outcome = kClosed;
  attempt("no fall back to a revision that is not allowed", closed);
  wire("1 was tried, 0 was not", "^[.]1 req frame rev=2.*[.]2 req frame rev=1(?!.*[.]3 )");
  reset();
}

void Suite::privateData() {
  both("mpa_rev_accept", kEveryRevision);
  for (int rev = 2; rev >= 0; rev--) {
    client_.put("mpa_rev", std::to_string(rev));
    Attempt a;
    for (size_t length : {1, 255}) {
      a.server_private = a.client_private = length;
      attempt(strf("revision %d, %zu bytes of private data each way", rev, length), a);
    }
    a.server_private = 0;
    a.client_private = 9;
    attempt(strf("revision %d, private data in the request only", rev), a);
    a.server_private = 148;
    a.rejects = true;
    a.outcome = kRefused;
    attempt(strf("revision %d, rejected with a reason", rev), a);
    wire("R is set", "rep [a-z]+ rev=. M=0 C=. R=1");
    if (rev > 0) {
      a.client_private = 0;
      attempt(strf("revision %d, private data in the rejection only", rev), a);
    }
  }
  wire("after the rejection no key", "^(?!.*key).*req private.*rep private");

  Attempt zero;
  zero.rejects = true;
  zero.outcome = kRefused;
  attempt("revision 0, rejected without private data", zero);
  wire("the responder has said nothing", "^(?!.* rep ).*req key");
  zero.refused = "EINVAL";
  zero.server_private = 5;
  attempt("revision 0, no rejection with private data where none came", zero);
  wire("the responder has said nothing, and ends", "^(?!.* rep ).*req key");
  zero.rejects = false;
  attempt("revision 0, no answer with private data where none came", zero);
  Attempt order;
  order.server_private = 5;
  order.client_private = 7;
  attempt("revision 0, private data each way", order);
  wire("streaming mode first, then the keys",
       "req private .*pd=7.* req key .*rep private .*pd=5.* rep key .*req first");
  reset();
}

void Suite::readyToReceive() {
  Attempt a;
  a.server_first = true;
  attempt("ready to receive by default", a);
  const std::string all = " A=1 send=1 write=1 read=1";
  wire("all kinds are offered and named, and of those the write is taken",
       "req frame.*" + all + ".*rep frame.*" + all + ".*req first op=0");
  const std::vector<std::pair<std::string, int>> kinds{{"send", 3}, {"write", 0}, {"read", 1}};
  for (const auto& [kind, op] : kinds) {
    both("rtr", kind);
    attempt("ready to receive by " + kind, a);
    wire("the initiator begins with it",
         strf("req frame.* A=1 .*%s=1.*rep frame.* A=1 .*%s=1.*req first op=%d", kind.c_str(),
              kind.c_str(), op));
  }
  server_.put("rtr", "send write read");
  client_.put("rtr", "send read");
  attempt("ready to receive by what both know", a);
  wire("and of that the read", "rep frame.* A=1 send=1 write=0 read=1.*req first op=1");

  server_.put("rtr", "write");
  client_.put("rtr", "read send");
  const uint64_t sent = client_.count("terminates_sent");
  const uint64_t received = server_.count("terminates_received");
  Attempt none;
  none.outcome = "RDMA_CM_EVENT_CONNECT_ERROR status -EPROTO";
  attempt("no common way to be ready to receive", none);
  wire("the responder names its own, and is told why that is the end",
       "rep frame.* A=1 send=0 write=1 read=0.*req first op=7 error=2007 crc=good");
  fact("the Terminate is counted on both sides", [&] {
    const Deadline deadline(kLimit);
    const auto counted = [&](const Device& device, const char* counter, uint64_t want) {
      while (device.count(counter) != want) {
        if (deadline.passed()) fail("%s of %s", counter, device.name().c_str());
        std::this_thread::sleep_for(milliseconds(10));
      }
    };
    counted(client_, "terminates_sent", sent + 1);
    counted(server_, "terminates_received", received + 1);
  });

  client_.put("p2p", "0");
  attempt("without peer-to-peer", {});
  wire("nobody speaks of it",
       "req frame.* A=0 send=0 write=0 read=0.*rep frame.* A=0 send=0 write=0 read=0");
  reset();
}

// When a server may speak first.
void Suite::firstFpdu() {
  Attempt a;
  a.server_first = true;
  both("mpa_rev_accept", kEveryRevision);
  client_.put("p2p", "0");
  for (int rev = 2; rev >= 0; rev--) {
    client_.put("mpa_rev", std::to_string(rev));
    attempt(strf("revision %d, a server that speaks first after a time", rev), a);
  }
  server_.put("first_fpdu_timeout_ms", "0");
  a.stays_silent = true;
  for (int rev = 2; rev >= 0; rev--) {
    client_.put("mpa_rev", std::to_string(rev));
    attempt(strf("revision %d, a server that may not do so however long it waits", rev), a);
  }
  a.stays_silent = false;
  client_.put("mpa_rev", "2");
  client_.put("p2p", "1");
  attempt("revision 2, unless the client has said that it is ready", a);
  reset();
}

void Suite::depths() {
  Attempt a;
  a.server_ird = 8;
  a.client_ord = 8;
  a.reads = 20;
  server_.put("ird_max", "1");
  attempt("fewer reads served than asked for", a);
  wire("as the depths say", "req frame.* ird=4 ord=8.*rep frame.* ird=1 ord=4");
  a.reads = 0;
  server_.put("ird_max", "0");
  attempt("no reads served", a);
  wire("as the depths say", "rep frame.* ird=0 ord=4");
  both("rtr", "read");
  a.reads = 3;
  attempt("no reads served but the one that says that the initiator is ready", a);
  wire("as the depths say", "rep frame.* ird=1 ord=4.*req first op=1");
  reset();

  Attempt b;
  b.server_ord = 9;
  b.client_ird = 2;
  b.client_ord = 128;
  b.reads = 40;
  attempt("a responder asks for no more reads than are served", b);
  wire("ORD is at most the request's IRD", "req frame.* ird=2 ord=128.*rep frame.* ird=4 ord=2");
  client_.put("ord_max", "3");
  client_.put("ird_max", "2");
  b.client_ird = b.client_ord = 9;
  attempt("an initiator's own bounds", b);
  wire("as the depths say", "req frame.* ird=2 ord=3");
  reset();
}

void Suite::largeFpdus() {
  client_.put("large_fpdu", "1");
  attempt("large FPDUs wanted by one side", {});
  wire("the other does not agree", "req frame.* L=1 .*rep frame.* L=0 ");
  server_.put("large_fpdu", "1");
  attempt("large FPDUs wanted by both", {});
  wire("both announce it", "req frame.* L=1 .*rep frame.* L=1 ");
  reset();
}

// A connection does not notice what is set after it began.
void Suite::laterOnly() {
  port_++;
  fact("changed settings leave connections alone", [&] {
    EventChannel server_cm, client_cm;
    CmId listener = server_cm.listen(Address(server_.address(), port_), 4);
    Connection client(resolvedId(client_cm, client_.address(), server_.address(), port_));
    checkErrno(startConnect(client.id(), {}), "rdma_connect");
    const Deadline limit(kLimit);
    CmId id(server_cm.expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit).id);
    const std::vector<std::pair<const char*, const char*>> later{
        {"crc", "0"},    {"mpa_rev", "1"}, {"mpa_rev_accept", "1"}, {"p2p", "0"},
        {"rtr", "send"}, {"ird_max", "0"}, {"ord_max", "0"},        {"start_timeout_ms", "100"}};
    for (const auto& [setting, value] : later) both(setting, value);
    std::this_thread::sleep_for(milliseconds(300));
    Connection server(std::move(id));
    checkErrno(startAccept(server.id(), {}), "rdma_accept");
    client_cm.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    server_cm.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    Attempt a;
    a.server_first = true;
    talk(a, server, client);
  });
  wire("they stay as they were",
       "rep frame rev=2 M=0 C=1.* A=1 send=1 write=1 read=1 ird=16 ord=16");
  reset();
}

// A TCP server has the port; Kiwarp serves it all the same.
void Suite::portMap() {
  const uint16_t port = ++port_, on_wire = ++port_;
  const std::string map = strf("80:8080 %u:%u", port, on_wire);
  const auto connect = [&](uint16_t to, bool then_unmapped) {
    const Deadline limit(kLimit);
    EventChannel server_cm, client_cm;
    CmId listener = server_cm.listen(Address(server_.address(), port), 4);
    if (then_unmapped) server_.put("port_map", "none");
    Connection client(resolvedId(client_cm, client_.address(), server_.address(), to));
    checkErrno(startConnect(client.id(), {}), "rdma_connect");
    Connection server(CmId(server_cm.expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit).id));
    checkErrno(startAccept(server.id(), {}), "rdma_accept");
    client_cm.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    server_cm.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    const unsigned at_server = ntohs(rdma_get_src_port(server.id()));
    const unsigned at_client = ntohs(rdma_get_dst_port(client.id()));
    if (at_server != port) fail("the server is told port %u", at_server);
    if (at_client != to) fail("the client is told port %u", at_client);
    talk({}, server, client);
  };
  Address address(server_.address(), port);
  const int other = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  checkErrno(bind(other, address.get(), address.length), "bind");
  checkErrno(listen(other, 4), "listen");
  fact("a port that TCP has in use is refused", [&] {
    EventChannel server_cm;
    try {
      CmId listener = server_cm.listen(address, 4);
    } catch (const Failure& failure) {
      if (std::string(failure.what()).find("EADDRINUSE") == std::string::npos) throw;
      return;
    }
    fail("it is not");
  });
  both("port_map", map);
  fact("with a port map it is served, and found", [&] { connect(port, false); });
  wire("under the other number", "req frame.*rep frame");
  fact("a listener keeps the map that it began with", [&] { connect(port, true); });
  reset();
  server_.put("port_map", map);
  fact("without the map a client asks for the wire's port", [&] { connect(on_wire, false); });
  close(other);
  reset();
}

// Nobody waits for a peer that says nothing longer than for the queue pair.
void Suite::destroyed() {
  port_++;
  fact("destroying a queue pair ends the wait for a silent peer", [&] {
    Address address(server_.address(), port_);
    const int silent = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    checkErrno(bind(silent, address.get(), address.length), "bind");
    checkErrno(listen(silent, 4), "listen");
    client_.put("reply_timeout_ms", "120000");
    EventChannel client_cm;
    const auto begin = Clock::now();
    {
      Connection client(resolvedId(client_cm, client_.address(), server_.address(), port_));
      checkErrno(startConnect(client.id(), {}), "rdma_connect");
      if (client_cm.next(Deadline(milliseconds(500)))) fail("a silent peer has answered");
    }
    close(silent);
    if (Clock::now() - begin > kLimit) fail("it took as long as the time-out");
  });
  reset();
}

// The second device is siw's, with its CRC off or on.
void Suite::siw(bool siw_crc) {
  for (int crc = 0; crc < 2; crc++) {
    server_.put("crc", std::to_string(crc));
    Attempt a;
    attempt(text("siw (CRC %d) connects, CRC %d", siw_crc, crc, 0), a);
    wire("C as set",
         text("req frame rev=2 M=0 C=%d.*rep frame rev=2 M=0 C=%d", siw_crc, siw_crc || crc, 0));
    a.swapped = true;
    for (int rev = 2; rev >= 1; rev--) {
      server_.put("mpa_rev", std::to_string(rev));
      // siw serves no reads to revision 1.
      a.reads = rev == 2 ? 4 : 0;
      attempt(text("siw (CRC %d) serves, revision %d, CRC %d", siw_crc, rev, crc), a);
      wire("C as set", text("req frame rev=%d M=0 C=%d", rev, crc, 0));
    }
    server_.reset();
  }
  server_.put("rtr", "read");
  Attempt read;
  read.swapped = true;
  attempt("siw serves, ready to receive by a read", read);
  wire("the initiator begins with it", "rep frame.* A=1 send=0 write=0 read=1.*req first op=1");
  server_.reset();
}

}  // namespace kiwarp::vm
