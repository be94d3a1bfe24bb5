// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-chaos: processes with many threads that make random calls of verbs and rdma_cm, by number
// and without a library's care, and are killed at random.

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "chaos/cm.h"
#include "chaos/table.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/options.h"

namespace {

using namespace kiwarp::vm;

const char kUsage[] =
    "kiwarp-chaos --addr OWN --peer OTHER [--device NAME] [--seed N] [--seconds N]\n"
    "             [--processes N] [--threads N] [--port N] [--shared FILE] [--exporter FILE]\n"
    "  --addr       own address; --peer: the other namespace's\n"
    "  --device     the device that most files are opened of [da]\n"
    "  --seed       of it each thread's sequence of calls follows [1]\n"
    "  --seconds    how long at most [60]; SIGTERM ends it earlier\n"
    "  --shared     a file in which all runs tell each other of their memory\n"
    "  --exporter   kiwarp_ktest's, from which they get dma-bufs\n";

struct Settings {
  std::string own, peer, device = "da", shared = "/dev/shm/kiwarp-chaos", exporter;
  uint64_t seed = 1, seconds = 60, processes = 3, threads = 4, port = 20000;
};

constexpr size_t kMemory = 4 << 20;
constexpr uint64_t kReportSeconds = 60;

// SIGTERM is waited for. A handler's frame takes a page of the stack, shared with the children
// until then. If its group has no memory left and no process to kill, the kernel ends the receiver
// with SIGSEGV.
void blockTerm(int how) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(how, &term, nullptr);
}

bool terminated(milliseconds most) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  const timespec wait{0, std::chrono::nanoseconds(most).count()};
  return sigtimedwait(&term, nullptr, &wait) == SIGTERM;
}

// What the supervisor itself does wrong.
void sayFault(int, siginfo_t* info, void*) {
  char text[128];
  const int length = std::snprintf(text, sizeof(text), "# SIGSEGV, code %d, at %p\n", info->si_code,
                                   info->si_addr);
  if (write(STDOUT_FILENO, text, static_cast<size_t>(length)) < 0) _exit(2);
  std::signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}

void tellFaults() {
  // Memory that is there, and remains the supervisor's own to write when it forks.
  constexpr size_t kStack = 64 << 10;
  void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (stack == MAP_FAILED) fail("mmap: %s", errnoName(errno).c_str());
  const stack_t other{stack, 0, kStack};
  sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_sigaction = sayFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
}

// A thread's own sequence, for each life of each process.
uint64_t seedOf(const Settings& settings, uint64_t process, uint64_t life, uint64_t thread) {
  Rng rng(settings.seed * 1000003 + process * 10007 + life * 101 + thread);
  return rng.next();
}

// The names under /dev/infiniband, that of the device first.
std::vector<std::string> uverbsOf(const std::string& device) {
  const std::string root = "/sys/class/infiniband_verbs";
  std::vector<std::string> names;
  DIR* dir = opendir(root.c_str());
  while (const dirent* entry = dir ? readdir(dir) : nullptr) {
    const std::string name = entry->d_name;
    if (name.rfind("uverbs", 0) != 0) continue;
    char text[64] = {};
    std::string path = root;
    path.append("/").append(name).append("/ibdev");
    if (FILE* file = std::fopen(path.c_str(), "r")) {
      if (std::fscanf(file, "%63s", text) != 1) text[0] = 0;
      std::fclose(file);
    }
    names.insert(device == text ? names.begin() : names.end(), name);
  }
  if (dir) closedir(dir);
  return names;
}

// A child with all that its parent has open, which uses it for a while.
void forkOnce(Process* process, ChaosCm* cm, Rng& rng) {
  const pid_t child = fork();
  if (child < 0) {
    process->tell(kFork, errno);
    return;
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (auto n = rng.below(200); n > 0; --n) {
      if (rng.percent(70))
        randomVerb(process, rng);
      else
        cm->randomCall(rng);
    }
    _exit(0);
  }
  process->tell(kFork, 0);
}

void runThread(Process* process, ChaosCm* cm, uint64_t seed) {
  Rng rng(seed);
  for (;;) {
    if (rng.below(4000) == 0) {
      forkOnce(process, cm, rng);
      while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    } else if (rng.percent(60)) {
      randomVerb(process, rng);
    } else {
      cm->randomCall(rng);
    }
  }
}

// Unlike the supervisor it is killed when its group is out of memory.
void allowOomKill() {
  if (FILE* file = std::fopen("/proc/self/oom_score_adj", "w")) {
    std::fputs("0", file);
    std::fclose(file);
  }
}

void limitTo(__rlimit_resource_t resource, rlim_t most) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, most);
  setrlimit(resource, &limit);
}

// Never returns: the supervisor kills it, or it has touched a ring that is gone.
[[noreturn]] void runProcess(const Settings& settings, Counts* counts, Shared* shared,
                             uint64_t number, uint64_t life) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGSEGV, SIG_DFL);
  blockTerm(SIG_UNBLOCK);
  allowOomKill();
  limitTo(RLIMIT_CORE, 0);
  limitTo(RLIMIT_NOFILE, 512);
  try {
    auto process = std::make_unique<Process>();
    process->devices = uverbsOf(settings.device);
    process->shared = shared;
    process->counts = counts;
    process->memory_size = kMemory;
    void* memory =
        mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // With no device there's nothing to do until the next life.
    if (memory == MAP_FAILED || process->devices.empty()) _exit(0);
    process->memory = static_cast<uint8_t*>(memory);
    if (!settings.exporter.empty()) {
      process->exporter = open(settings.exporter.c_str(), O_RDWR | O_CLOEXEC);
    }
    Rng rng(seedOf(settings, number, life, ~0u));
    for (File& file : process->files) {
      if (!openFile(process.get(), &file, rng, kOpen)) _exit(0);
    }
    ChaosCm cm(process.get(), settings.own, settings.peer, static_cast<uint16_t>(settings.port));
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < settings.threads; ++i) {
      threads.emplace_back(runThread, process.get(), &cm, seedOf(settings, number, life, i));
    }
    for (std::thread& thread : threads) thread.join();
  } catch (const std::exception&) {
    // A device that is gone, memory that the group may not have.
  }
  _exit(0);
}

struct Child {
  pid_t pid = 0;
  uint64_t life = 0;
  Clock::time_point end;
};

class Supervisor {
 public:
  explicit Supervisor(const Settings& settings)
      : settings_(settings),
        counts_(mapCounts()),
        shared_(mapShared(settings.shared.c_str())),
        rng_(seedOf(settings, ~0u, 0, 0)),
        children_(settings.processes) {}

  void run() {
    const auto begin = Clock::now();
    const auto end = begin + seconds(settings_.seconds);
    auto report = begin + seconds(kReportSeconds);
    while (Clock::now() < end && !terminated(milliseconds(20))) {
      for (size_t i = 0; i < children_.size(); ++i) look(i);
      if (Clock::now() >= report) {
        tell(begin);
        report += seconds(kReportSeconds);
      }
    }
    for (Child& child : children_) stop(&child);
    tell(begin);
  }

 private:
  void tell(Clock::time_point begin) const {
    printCounts(*counts_, static_cast<uint64_t>(
                              std::chrono::duration_cast<seconds>(Clock::now() - begin).count()));
  }

  // Kills a child whose time has come; one that isn't there begins another life.
  void look(size_t number) {
    Child& child = children_[number];
    if (child.pid && Clock::now() >= child.end) {
      ++counts_->of[kKill].good;
      stop(&child);
    }
    if (child.pid && waitpid(child.pid, nullptr, WNOHANG) == child.pid) child.pid = 0;
    if (child.pid) return;
    ++child.life;
    child.end = Clock::now() + milliseconds(rng_.between(200, 30000));
    const pid_t pid = fork();
    if (pid == 0) runProcess(settings_, counts_, shared_, number, child.life);
    if (pid > 0) child.pid = pid;
  }

  void stop(Child* child) {
    if (!child->pid) return;
    kill(child->pid, SIGKILL);
    while (waitpid(child->pid, nullptr, 0) < 0 && errno == EINTR) continue;
    child->pid = 0;
  }

  Settings settings_;
  Counts* counts_;
  Shared* shared_;
  Rng rng_;
  std::vector<Child> children_;
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Settings settings;
  blockTerm(SIG_BLOCK);
  Options options(kUsage);
  options.text("--addr", &settings.own);
  options.text("--peer", &settings.peer);
  options.text("--device", &settings.device);
  options.text("--shared", &settings.shared);
  options.text("--exporter", &settings.exporter);
  options.number("--seed", &settings.seed);
  options.number("--seconds", &settings.seconds);
  options.number("--processes", &settings.processes);
  options.number("--threads", &settings.threads);
  options.number("--port", &settings.port);
  try {
    tellFaults();
    options.parse(argc, argv);
    if (settings.own.empty() || settings.peer.empty()) {
      options.misuse("--addr and --peer are needed");
    }
    Supervisor(settings).run();
    return 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
