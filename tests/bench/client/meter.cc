// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/meter.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "common/error.h"

namespace kiwarp::bench {

using vm::fail;

Meter::Meter(const std::string& path) {
  if (path.empty()) return;
  fd_ = open(path.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
  vm::checkErrno(fd_ < 0 ? -1 : 0, path.c_str());
  termios raw{};
  vm::checkErrno(tcgetattr(fd_, &raw), "tcgetattr");
  // Whole lines, nothing sent back.
  raw.c_iflag = raw.c_oflag = 0;
  raw.c_lflag = ICANON;
  vm::checkErrno(tcsetattr(fd_, TCSANOW, &raw), "tcsetattr");
}

Meter::~Meter() {
  if (fd_ >= 0) close(fd_);
}

Meter::Reading Meter::read() {
  if (write(fd_, "?\n", 2) != 2) fail("the meter: %s", vm::errnoName(errno).c_str());
  char line[128];
  const ssize_t length = ::read(fd_, line, sizeof(line) - 1);
  if (length <= 0) fail("the meter does not answer");
  line[length] = '\0';
  unsigned long long cpu_ns = 0, calls = 0;
  if (std::sscanf(line, "%llu %llu", &cpu_ns, &calls) != 2) fail("the meter says %s", line);
  return {cpu_ns, calls};
}

namespace {

std::vector<std::string> wordsOf(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// The second number of a line "NAME NUMBER".
uint64_t numberAfter(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.size() > 1 && words[0] == name) return std::strtoull(words[1].c_str(), nullptr, 10);
  }
  return 0;
}

// Of /proc/net/snmp: a line of names, then one of numbers.
uint64_t ofProtocol(const std::string& protocol, const std::string& name) {
  std::ifstream file("/proc/net/snmp");
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.empty() || words[0] != protocol + ":") continue;
    if (names.empty()) {
      names = words;
      continue;
    }
    for (size_t i = 1; i < std::min(names.size(), words.size()); ++i) {
      if (names[i] == name) return std::strtoull(words[i].c_str(), nullptr, 10);
    }
  }
  return 0;
}

// Packets that all interfaces but lo have sent: the 10th number behind an interface's name.
uint64_t packetsSent() {
  std::ifstream file("/proc/net/dev");
  uint64_t sent = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.find(" lo:") != std::string::npos) continue;
    const std::vector<std::string> words = wordsOf(line.substr(colon + 1));
    if (words.size() > 9) sent += std::strtoull(words[9].c_str(), nullptr, 10);
  }
  return sent;
}

uint64_t timerInterrupts() {
  std::ifstream file("/proc/interrupts");
  uint64_t count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find("timer") == std::string::npos) continue;
    const std::vector<std::string> words = wordsOf(line);
    for (size_t i = 1; i < words.size(); ++i) {
      char* end = nullptr;
      const uint64_t value = std::strtoull(words[i].c_str(), &end, 10);
      if (*end != '\0') break;
      count += value;
    }
  }
  return count;
}

// Of the scheduler's statistics, which count only when they are switched on.
uint64_t wakeUps() {
  std::ifstream file("/proc/schedstat");
  uint64_t count = 0;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = wordsOf(line);
    if (words.size() > 5 && words[0].starts_with("cpu")) {
      count += std::strtoull(words[5].c_str(), nullptr, 10);
    }
  }
  return count;
}

}  // namespace

Counters::Values Counters::read() const {
  uint64_t voluntary = 0, involuntary = 0;
  for (pid_t process : processes_) {
    const std::string status = "/proc/" + std::to_string(process) + "/status";
    voluntary += numberAfter(status, "voluntary_ctxt_switches:");
    involuntary += numberAfter(status, "nonvoluntary_ctxt_switches:");
  }
  Values values = {
      {"switches", numberAfter("/proc/stat", "ctxt")},
      {"voluntary", voluntary},
      {"involuntary", involuntary},
      {"wakeups", wakeUps()},
      {"timers", timerInterrupts()},
      {"segments_out", ofProtocol("Tcp", "OutSegs")},
      {"segments_in", ofProtocol("Tcp", "InSegs")},
      {"packets_out", packetsSent()},
  };
  if (!device_.empty()) {
    // A network namespace other than the first sees its devices without their counters.
    std::ifstream file("/proc/1/root/sys/class/infiniband/" + device_ +
                       "/ports/1/hw_counters/tx_fpdus");
    uint64_t fpdus = 0;
    if (file >> fpdus) values.emplace_back("fpdus", fpdus);
  }
  return values;
}

}  // namespace kiwarp::bench
