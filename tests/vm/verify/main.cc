// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-verify: two peers exchange random operations in both directions and check every byte.

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "common/error.h"
#include "common/options.h"
#include "verify/session.h"

namespace {

using kiwarp::vm::Options;
using kiwarp::vm::Profile;
using kiwarp::vm::Session;
using kiwarp::vm::Settings;
using kiwarp::vm::Wait;

const char kUsage[] =
    "kiwarp-verify --server ADDR | --client ADDR [options]\n"
    "  --port N          RDMA port (18515); the side channel uses TCP port N+1 or\n"
    "  --control-port N\n"
    "  --wait MODE       event (default), solicited or poll\n"
    "  --profile NAME    full (default) or siw: what this side's device can do\n"
    "  --without LIST    of reads,zero-reads,fenced-reads,invalidate,serve-invalidate,\n"
    "                    tell-invalidate,iova,reuse,zero-sge,straddle,ordered,srq,windows,\n"
    "                    immediates,atomics (these four: if both sides have them)\n"
    "  --inline N        inline data to ask for, --sge N: SGEs to ask for\n"
    "  --ord N           RDMA Reads in flight to ask for (16)\n"
    "  --timeout S       for everything (300), --stall S: without any progress (30)\n"
    "and, told by the client to the server:\n"
    "  --seed N, --ops N (10000, both directions together), --qps N (2), --depth N (64)\n"
    "  --max-size N      longest message (2m)\n"
    "  --client-first    the server sends nothing on a QP before it has heard the client\n"
    "Exit: 0 all matched on both sides, 1 not, 2 usage, 3 stuck in a call.\n";

void applyWithout(const std::string& list, Profile* profile, const Options& options) {
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string name = list.substr(at, end - at);
    at = end + 1;
    if (!kiwarp::vm::takeAway(profile, name)) options.misuse("--without " + name);
  }
}

struct Arguments {
  Settings settings;
  std::string server, client, wait = "event", profile = "full", without;
  uint64_t port = 18515, control_port = 0, inline_data = UINT64_MAX, sge = UINT64_MAX;
};

void parse(int argc, char** argv, Arguments* arguments) {
  Options options(kUsage);
  Settings& settings = arguments->settings;
  options.text("--server", &arguments->server);
  options.text("--client", &arguments->client);
  options.number("--port", &arguments->port);
  options.number("--control-port", &arguments->control_port);
  options.text("--wait", &arguments->wait);
  options.text("--profile", &arguments->profile);
  options.text("--without", &arguments->without);
  options.number("--inline", &arguments->inline_data);
  options.number("--sge", &arguments->sge);
  options.number("--ord", &settings.reads_in_flight);
  options.number("--timeout", &settings.timeout_s);
  options.number("--stall", &settings.stall_s);
  options.number("--seed", &settings.seed);
  options.number("--ops", &settings.ops);
  options.number("--qps", &settings.qps);
  options.number("--depth", &settings.depth);
  options.number("--max-size", &settings.max_size);
  options.flag("--client-first", &settings.client_first);
  options.parse(argc, argv);

  if (arguments->server.empty() == arguments->client.empty()) {
    options.misuse("one of --server and --client is needed");
  }
  settings.server = !arguments->server.empty();
  settings.address = settings.server ? arguments->server : arguments->client;
  settings.port = static_cast<uint16_t>(arguments->port);
  settings.control_port = static_cast<uint16_t>(arguments->control_port);
  if (settings.qps < 1 || settings.qps > 1024) options.misuse("--qps: 1 to 1024");
  if (settings.depth < 8 || settings.depth > 16384) options.misuse("--depth: 8 to 16384");
  if (settings.max_size < 4096 || settings.max_size > (1u << 30)) {
    options.misuse("--max-size: 4k to 1g");
  }
  if (arguments->wait == "poll") {
    settings.wait = Wait::kPoll;
  } else if (arguments->wait == "solicited") {
    settings.wait = Wait::kSolicited;
  } else if (arguments->wait != "event") {
    options.misuse("--wait " + arguments->wait);
  }
  if (arguments->profile == "siw") {
    settings.profile = kiwarp::vm::siwProfile();
  } else if (arguments->profile != "full") {
    options.misuse("--profile " + arguments->profile);
  }
  applyWithout(arguments->without, &settings.profile, options);
  if (arguments->inline_data != UINT64_MAX) {
    settings.profile.inline_data =
        static_cast<uint32_t>(std::min<uint64_t>(arguments->inline_data, 1024));
  }
  if (arguments->sge != UINT64_MAX) {
    settings.profile.max_sge = static_cast<uint32_t>(std::clamp<uint64_t>(arguments->sge, 1, 32));
  }
}

void onAlarm(int) {
  static const char kText[] = "kiwarp-verify: stuck inside a call beyond every deadline\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, kText, std::strlen(kText));
  _exit(3);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  const char* role = "?";
  try {
    parse(argc, argv, &arguments);
    role = arguments.settings.server ? "server" : "client";
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::signal(SIGALRM, onAlarm);
    alarm(static_cast<unsigned>(arguments.settings.timeout_s + 60));
    Session session(arguments.settings);
    try {
      const bool ok = session.run();
      std::printf("kiwarp-verify: %s %s\n", role, ok ? "ok" : "FAILED");
      return ok ? 0 : 1;
    } catch (const kiwarp::vm::Failure& failure) {
      std::printf("kiwarp-verify: %s FAILED: %s\n%s", role, failure.what(), session.dump().c_str());
      return 1;
    }
  } catch (const kiwarp::vm::Failure& failure) {
    std::printf("kiwarp-verify: %s FAILED: %s\n", role, failure.what());
    return 1;
  }
}
