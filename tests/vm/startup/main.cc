// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-startup: two devices of one machine connect under every combination of settings.

#include <cstdio>

#include "common/error.h"
#include "common/options.h"
#include "startup/suite.h"

namespace kiwarp::vm {
namespace {

const char kUsage[] =
    "kiwarp-startup --server DEVICE --server-addr ADDR --client DEVICE --client-addr ADDR\n"
    "               --wire FILE [--siw 0|1]\n"
    "  --wire FILE  where to write what frames.py is to find in a capture\n"
    "  --siw CRC    the client's device is siw's, built with or without CRC\n"
    "Prints TAP; or makes one connection and says what came of it:\n"
    "kiwarp-startup --to ADDR --client-addr ADDR [--port N] [--private N] --outcome TEXT\n";

struct Choice {
  std::string server, server_addr, client, client_addr, wire, siw, to, outcome;
  uint64_t port = 18900, private_length = 0;
};

int connectOnce(const Choice& c) {
  EventChannel channel;
  Connection connection(resolvedId(channel, c.client_addr, c.to, static_cast<uint16_t>(c.port)));
  checkErrno(startConnect(connection.id(), {4, 4, privateData(c.private_length, false)}),
             "rdma_connect");
  const std::optional<CmEvent> event = channel.next(Deadline(2 * kLimit));
  if (!event) fail("no event");
  if (describe(*event) != c.outcome) fail("%s", describe(*event).c_str());
  return 0;
}

int runSuite(const Choice& c) {
  Suite suite(Device(c.server, c.server_addr), Device(c.client, c.client_addr), c.wire);
  if (!c.siw.empty()) {
    suite.siw(c.siw == "1");
    return suite.finish();
  }
  suite.settings();
  suite.crc();
  suite.markers();
  suite.revisions();
  suite.privateData();
  suite.readyToReceive();
  suite.firstFpdu();
  suite.depths();
  suite.largeFpdus();
  suite.laterOnly();
  suite.portMap();
  suite.destroyed();
  return suite.finish();
}

int run(int argc, char** argv) {
  Choice c;
  Options options(kUsage);
  options.text("--server", &c.server);
  options.text("--server-addr", &c.server_addr);
  options.text("--client", &c.client);
  options.text("--client-addr", &c.client_addr);
  options.text("--wire", &c.wire);
  options.text("--siw", &c.siw);
  options.text("--to", &c.to);
  options.text("--outcome", &c.outcome);
  options.number("--port", &c.port);
  options.number("--private", &c.private_length);
  options.parse(argc, argv);
  if (c.client_addr.empty()) options.misuse("no --client-addr");
  if (!c.to.empty()) return connectOnce(c);
  if (c.server.empty() || c.client.empty() || c.server_addr.empty() || c.wire.empty())
    options.misuse("which devices, and where do the frames go?");
  return runSuite(c);
}

}  // namespace
}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  try {
    return kiwarp::vm::run(argc, argv);
  } catch (const kiwarp::vm::Failure& failure) {
    std::fflush(stdout);
    std::fprintf(stderr, "kiwarp-startup: %s\n", failure.what());
    return 1;
  }
}
