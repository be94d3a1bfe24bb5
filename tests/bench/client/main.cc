// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-bench: moves messages between two processes, or pairs of them, which sleep whenever there
// is nothing to do, and tells what it took. Any RDMA device that rdma_cm connects will do.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "client/basics.h"
#include "client/bystander.h"
#include "client/disk.h"
#include "client/initiator.h"
#include "client/meter.h"
#include "client/target.h"
#include "client/tcp.h"
#include "client/workers.h"
#include "common/error.h"
#include "common/options.h"

namespace kiwarp::bench {
namespace {

using vm::fail;

constexpr char kUsage[] =
    "kiwarp-bench --listen ADDRESS [--port N]          the target; ends after one run\n"
    "kiwarp-bench --connect ADDRESS [--port N] OPTION...   the initiator; prints the result\n"
    "kiwarp-bench --disk DEVICE|FILE OPTION...         I/O on a disk, or a file; prints the "
    "result\n"
    "kiwarp-bench --basics                             what calls, switches, timers take here\n"
    "  --op send|write|read|latency|idle|write-imm|fetch-add|churn\n"
    "                    what is done [send]; on a disk write|read; churn: a connection for each\n"
    "                    message and its answer\n"
    "  --random          on a disk, not one after the other\n"
    "  --scattered       on a disk, from pages of which no two are neighbours\n"
    "  --tcp             over plain TCP sockets (send, latency, idle, churn)\n"
    "  --rsocket         the same over rsockets\n"
    "  --tls             with --tcp: the kernel encrypts (AES-GCM with keys of zeros)\n"
    "  --srq             receives are of one shared receive queue at each end\n"
    "  --poll-ex         completions by ibv_start_poll() and its like\n"
    "  --post-wr         work requests by ibv_wr_start() and its like\n"
    "  --poll            no end sleeps: completions, or with --tcp sockets, are polled\n"
    "  --size BYTES     of a message [65536]\n"
    "  --count N         messages on each connection [1000]\n"
    "  --warm-up N       messages before those that count [32]\n"
    "  --list N          work requests posted at once [1]\n"
    "  --depth N         work requests outstanding on a connection [128]\n"
    "  --signal N        without lists: every Nth asks for a completion [16]\n"
    "  --receives N      receives posted on a connection [256]\n"
    "  --processes N     at each end, each with a side channel and connections of its own [1]\n"
    "  --connections N   of a process, that carry messages [1]\n"
    "  --idle N          connections that carry none [0]\n"
    "  --qps N           queue pairs without a connection, at each end [0]\n"
    "  --regions N       memory regions that nobody uses, at each end [0]\n"
    "  --bystander       beside it a timer of 1 ms, and messages over a TCP connection of their "
    "own\n"
    "  --pause MS        between connecting and measuring, for what connecting leaves behind [0]\n"
    "  --meter TTY       a User-Mode Linux's line to its host, which tells CPU time; with "
    "counters\n";

constexpr vm::seconds kTimeLimit(600);
// The side channel's, that of the connections, the bystander's; one is spare.
constexpr uint64_t kPortsOfProcess = 4;

struct Settings {
  std::string listen, connect, op = "send", meter;
  uint64_t port = 18515;
  uint64_t pause = 0;
};

vm::Address rdmaAddress(const std::string& host, const Settings& settings) {
  return {host, static_cast<uint16_t>(settings.port + 1)};
}

// Of a worker, which has ports of its own.
Settings settingsOf(const Settings& settings, uint64_t number) {
  Settings own = settings;
  own.port += number * kPortsOfProcess;
  own.meter.clear();
  return own;
}

uint16_t echoPort(const Settings& settings) { return static_cast<uint16_t>(settings.port + 2); }

vm::ControlMessage talk(uint32_t type, uint64_t value = 0) {
  vm::ControlMessage message;
  message.type = type;
  message.value[0] = value;
  return message;
}

uint64_t expect(vm::Control& control, uint32_t type) {
  const vm::ControlMessage message = control.receive(vm::Deadline(kTimeLimit));
  if (message.type != type) fail("the peer says something else");
  return message.value[0];
}

Plan receivePlan(vm::Control& control) {
  const Plan plan = Plan::unpack(control.receive(vm::Deadline(kTimeLimit)));
  plan.check();
  return plan;
}

vm::Control acceptControl(const Settings& settings) {
  return vm::Control::acceptOn(settings.listen, static_cast<uint16_t>(settings.port),
                               vm::Deadline(kTimeLimit));
}

void serve(const Settings& settings, vm::Control& control, const Plan& plan) {
  const vm::Deadline deadline(kTimeLimit);
  std::optional<BystanderEcho> echo;
  if (plan.bystander) {
    echo.emplace(vm::Control::acceptOn(settings.listen, echoPort(settings), deadline));
  }
  if (plan.sockets()) {
    const int listener = TcpEnd::listen(plan, rdmaAddress(settings.listen, settings));
    control.send(talk(kReady, static_cast<uint64_t>(getpid())));
    TcpEnd end = TcpEnd::accept(plan, listener);
    control.send(talk(kRegion));
    end.serve(plan.warm_up);
    end.serve(plan.count);
    expect(control, kEnd);
  } else {
    Target target(plan, rdmaAddress(settings.listen, settings));
    control.send(talk(kReady, static_cast<uint64_t>(getpid())));
    target.accept(control);
    target.serve(plan.warm_up);
    target.serve(plan.count);
    expect(control, kEnd);
  }
}

int runTarget(const Settings& settings) {
  vm::Control control = acceptControl(settings);
  const Plan plan = receivePlan(control);
  Workers workers(plan.processes - 1, [&settings](uint64_t number, WorkerLink&) {
    const Settings own = settingsOf(settings, number);
    vm::Control its = acceptControl(own);
    serve(own, its, receivePlan(its));
    return 0;
  });
  serve(settings, control, plan);
  workers.join();
  return 0;
}

// Bytes on the lists of free pages that each CPU keeps for itself: MemFree leaves them out, and
// after many allocations they are some megabytes.
int64_t keptFree() {
  std::ifstream file("/proc/zoneinfo");
  std::string word;
  int64_t pages = 0, value = 0;
  while (file >> word) {
    if (word == "count:" && file >> value) pages += value;
  }
  return pages * sysconf(_SC_PAGESIZE);
}

// Bytes of memory that the kernel uses for itself, its caches of files left out.
int64_t kernelMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  int64_t value = 0, used = 0;
  while (file >> name >> value) {
    std::getline(file, unit);
    if (name == "MemTotal:") used += value;
    for (const char* other : {"MemFree:", "Buffers:", "Cached:", "AnonPages:", "PageTables:"}) {
      if (name == other) used -= value;
    }
  }
  return used * 1024 - keptFree();
}

void print(const Plan& plan, const Settings& settings, double connecting, double took,
           int64_t memory) {
  const auto all = static_cast<double>(plan.allConnections());
  const auto messages = static_cast<double>(plan.processes * plan.count * plan.connections);
  std::printf("op=%s connect_us=%.2f", settings.op.c_str(), connecting / all * 1e6);
  // Beside other processes it is not known whose memory it is.
  if (plan.processes == 1) std::printf(" memory=%.0f", static_cast<double>(memory) / all / 2);
  if (plan.op == Op::kLatency) {
    std::printf(" latency_us=%.3f", took / messages / 2 * 1e6);
  } else if (plan.op == Op::kChurn) {
    std::printf(" connections_per_s=%.1f", messages / took);
  } else if (plan.op != Op::kIdle) {
    std::printf(" messages_per_s=%.1f mib_per_s=%.3f", messages / took,
                messages * static_cast<double>(plan.size) / took / (1 << 20));
  }
  std::printf("\n");
}

// What takes so many seconds, between readings of the host's meter and of the kernel's counters.
double measure(Meter& meter, const Counters& counters, const std::function<double()>& run) {
  if (!meter.present()) return run();
  const Counters::Values before = counters.read();
  const Meter::Reading begun = meter.read();
  const double took = run();
  const Meter::Reading ended = meter.read();
  const Counters::Values after = counters.read();
  std::printf("cpu_s=%.9f wall_s=%.9f calls=%llu",
              static_cast<double>(ended.cpu_ns - begun.cpu_ns) / 1e9, took,
              static_cast<unsigned long long>(ended.calls - begun.calls));
  for (size_t i = 0; i < before.size(); ++i) {
    std::printf(" %s=%llu", before[i].first,
                static_cast<unsigned long long>(after[i].second - before[i].second));
  }
  std::printf("\n");
  return took;
}

int runDisk(const Settings& settings, DiskPlan disk, const Plan& plan) {
  if (settings.op != "read" && settings.op != "write") fail("a disk is read or written");
  disk.write = settings.op == "write";
  disk.size = plan.size;
  disk.depth = plan.depth;
  Disk end(disk);
  Meter meter(settings.meter);
  const Counters counters({getpid()}, {});
  end.run(plan.warm_up);
  const double took = measure(meter, counters, [&] { return end.run(plan.count); });
  const auto requests = static_cast<double>(plan.count);
  std::printf("op=%s iops=%.1f mib_per_s=%.3f\n", settings.op.c_str(), requests / took,
              requests * static_cast<double>(plan.size) / took / (1 << 20));
  return 0;
}

// What there is beside an end that is connected.
struct Surroundings {
  pid_t peer = 0;
  int64_t memory_before = 0;  // before connecting
  Bystander* bystander = nullptr;
};

// All messages of all processes; in seconds.
template <typename End>
double transfer(End& end, const Plan& plan, Workers& workers) {
  if (workers.empty()) return end.run(plan.count);
  const vm::Clock::time_point start = vm::Clock::now();
  workers.start();
  end.run(plan.count);
  workers.awaitDone();
  return std::chrono::duration<double>(vm::Clock::now() - start).count();
}

template <typename End>
void drive(End& end, const Plan& plan, const Settings& settings, const Surroundings& around,
           Workers& workers) {
  std::this_thread::sleep_for(std::chrono::milliseconds(settings.pause));
  const int64_t memory = kernelMemory() - around.memory_before;
  double took = 0;
  if (plan.op != Op::kIdle) {
    Meter meter(settings.meter);
    if (plan.warm_up > 0) end.run(plan.warm_up);
    std::vector<pid_t> processes = workers.awaitReady();
    processes.insert(processes.end(), {getpid(), around.peer});
    const Counters counters(processes, end.deviceName());
    if (around.bystander) around.bystander->begin();
    took = measure(meter, counters, [&] { return transfer(end, plan, workers); });
    workers.release();
    if (around.bystander) around.bystander->endAndPrint();
  }
  print(plan, settings, end.connectSeconds(), took, memory);
  if (end.repeats() > 0) {
    std::printf("other ports tried: %llu\n", static_cast<unsigned long long>(end.repeats()));
  }
}

template <typename End>
void driveWorker(End& end, const Plan& plan, pid_t peer, WorkerLink& link) {
  if (plan.warm_up > 0) end.run(plan.warm_up);
  link.awaitStart(peer);
  end.run(plan.count);
  link.awaitRelease();
}

// Connects as the plan says, and does with the end what it is told.
template <typename Drive>
void initiate(const Settings& settings, const Plan& plan, const Drive& drive) {
  vm::Control control = vm::Control::connectTo(
      settings.connect, static_cast<uint16_t>(settings.port), vm::Deadline(kTimeLimit));
  control.send(plan.pack());
  std::optional<Bystander> bystander;
  if (plan.bystander) {
    bystander.emplace(
        vm::Control::connectTo(settings.connect, echoPort(settings), vm::Deadline(kTimeLimit)));
  }
  Surroundings around;
  around.peer = static_cast<pid_t>(expect(control, kReady));
  around.bystander = bystander ? &*bystander : nullptr;
  around.memory_before = kernelMemory();
  const vm::Address address = rdmaAddress(settings.connect, settings);
  // Of a run without messages it is the connecting that is measured.
  Meter meter(plan.op == Op::kIdle ? settings.meter : "");
  const Counters counters({getpid(), around.peer}, {});
  if (plan.sockets()) {
    std::optional<TcpEnd> end;
    measure(meter, counters, [&] {
      end.emplace(TcpEnd::connect(plan, address));
      expect(control, kRegion);
      return end->connectSeconds();
    });
    drive(*end, around);
  } else {
    std::optional<Initiator> end;
    measure(meter, counters, [&] {
      end.emplace(plan, address, control);
      return end->connectSeconds();
    });
    drive(*end, around);
  }
  control.send(talk(kEnd));
}

int runInitiator(const Settings& settings, Plan plan) {
  plan.op = parseOp(settings.op);
  plan.check();
  if (settings.port + plan.processes * kPortsOfProcess > 1 << 16) {
    fail("--port is too large for so many processes");
  }
  Workers workers(plan.processes - 1, [&](uint64_t number, WorkerLink& link) {
    Plan own = plan;
    own.processes = 1;
    initiate(settingsOf(settings, number), own, [&](auto& end, const Surroundings& around) {
      driveWorker(end, own, around.peer, link);
    });
    return 0;
  });
  initiate(settings, plan, [&](auto& end, const Surroundings& around) {
    drive(end, plan, settings, around, workers);
  });
  workers.join();
  return 0;
}

}  // namespace
}  // namespace kiwarp::bench

int main(int argc, char** argv) {
  using namespace kiwarp;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  // A peer that has gone is an error of the call.
  std::signal(SIGPIPE, SIG_IGN);
  bench::Settings settings;
  bench::Plan plan;
  bench::DiskPlan disk;
  bool basics = false;
  vm::Options options(bench::kUsage);
  options.text("--listen", &settings.listen);
  options.text("--connect", &settings.connect);
  options.number("--port", &settings.port);
  options.text("--op", &settings.op);
  options.flag("--tcp", &plan.tcp);
  options.flag("--rsocket", &plan.rsocket);
  options.flag("--tls", &plan.tls);
  options.flag("--srq", &plan.srq);
  options.flag("--poll-ex", &plan.poll_ex);
  options.flag("--post-wr", &plan.post_wr);
  options.flag("--poll", &plan.poll);
  options.flag("--bystander", &plan.bystander);
  options.number("--size", &plan.size);
  options.number("--count", &plan.count);
  options.number("--warm-up", &plan.warm_up);
  options.number("--list", &plan.list);
  options.number("--depth", &plan.depth);
  options.number("--signal", &plan.signal);
  options.number("--receives", &plan.receives);
  options.number("--processes", &plan.processes);
  options.number("--connections", &plan.connections);
  options.number("--idle", &plan.idle);
  options.number("--qps", &plan.qps);
  options.number("--regions", &plan.regions);
  options.number("--pause", &settings.pause);
  options.text("--meter", &settings.meter);
  options.text("--disk", &disk.path);
  options.flag("--basics", &basics);
  options.flag("--random", &disk.random);
  options.flag("--scattered", &disk.scattered);
  try {
    options.parse(argc, argv);
    if (basics) return bench::runBasics();
    if (!disk.path.empty()) return bench::runDisk(settings, disk, plan);
    if (settings.listen.empty() == settings.connect.empty()) {
      options.misuse("--listen or --connect is needed");
    }
    return settings.listen.empty() ? bench::runInitiator(settings, plan)
                                   : bench::runTarget(settings);
  } catch (const vm::Failure& failure) {
    std::printf("failed: %s\n", failure.what());
    return 1;
  }
}
