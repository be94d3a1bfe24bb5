// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-killtest: mixed traffic without end, for kill -9 and for taking the device away. Says
// when traffic flows, and when it ends whether every work request came back.

#include <cstdio>

#include "common/error.h"
#include "common/options.h"
#include "killtest/kill_test.h"

namespace kiwarp::vm {
namespace {

const char kUsage[] =
    "kiwarp-killtest --server ADDR | --client ADDR [options]\n"
    "  --port N      port (18700)\n"
    "  --qps N       connections of the client (4)\n"
    "  --seconds N   the client disconnects after that long (0: never)\n"
    "  --dereg N     the client deregisters what it sends from after N completions (0: never)\n"
    "  --loop        goes on when its connections have ended\n"
    "Prints \"flowing\" once all connections move data, \"ended\" for each that ends. Exit: 0 "
    "every\n"
    "work request came back, 1 some did not or nothing could be set up, 2 usage, 5 the device "
    "went.\n";

KillTestSettings parse(int argc, char** argv) {
  KillTestSettings settings;
  Options options(kUsage);
  options.text("--server", &settings.server);
  options.text("--client", &settings.client);
  options.number("--port", &settings.port);
  options.number("--qps", &settings.qps);
  options.number("--seconds", &settings.seconds);
  options.number("--dereg", &settings.dereg);
  options.flag("--loop", &settings.loop);
  options.parse(argc, argv);
  if (settings.server.empty() == settings.client.empty()) {
    options.misuse("one of --server and --client is needed");
  }
  return settings;
}

}  // namespace
}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  using namespace kiwarp::vm;
  return runMain("FAILED: ", [&] { return runKillTest(parse(argc, argv)); });
}
