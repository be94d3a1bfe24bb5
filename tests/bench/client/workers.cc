// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/workers.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>

#include "common/error.h"

namespace kiwarp::bench {

using vm::fail;

namespace {

// Each message is a process's number, or 0.
void tell(int fd, pid_t value) {
  vm::checkErrno(send(fd, &value, sizeof(value), MSG_NOSIGNAL) < 0 ? -1 : 0, "send to a process");
}

// Nothing if the other end has gone.
std::optional<pid_t> received(int fd) {
  pid_t value = 0;
  ssize_t length = 0;
  do {
    length = recv(fd, &value, sizeof(value), 0);
  } while (length < 0 && errno == EINTR);
  if (length != static_cast<ssize_t>(sizeof(value))) return std::nullopt;
  return value;
}

void awaitFirst(int fd) {
  if (!received(fd)) fail("the first process has gone");
}

// Waits for a process; how it failed, or nothing.
std::string endOf(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return "was not waited for";
  if (status == 0) return {};
  if (WIFSIGNALED(status)) return vm::strf("was ended by signal %d", WTERMSIG(status));
  return vm::strf("ended with code %d", WEXITSTATUS(status));
}

std::string describe(uint64_t number, const std::string& how) {
  return vm::strf("process %llu %s", static_cast<unsigned long long>(number), how.c_str());
}

}  // namespace

WorkerLink::~WorkerLink() { close(fd_); }

void WorkerLink::awaitStart(pid_t peer) {
  tell(fd_, peer);
  awaitFirst(fd_);
}

void WorkerLink::awaitRelease() {
  tell(fd_, 0);
  awaitFirst(fd_);
}

Workers::Workers(uint64_t count, const Work& work) {
  const pid_t first = getpid();
  for (uint64_t number = 1; number <= count; ++number) {
    int ends[2];
    // A message is received whole, and the end of a process is seen.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      const int error = errno;
      abandon();
      fail("socketpair: %s", vm::errnoName(error).c_str());
    }
    const pid_t pid = fork();
    if (pid == 0) {
      // One that waits for its peer would keep ports and the device.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != first) _exit(1);
      // Else a worker would not see that the first process has gone.
      for (const Worker& other : workers_) close(other.fd);
      close(ends[0]);
      int status = 1;
      try {
        WorkerLink link(ends[1]);
        status = work(number, link);
      } catch (const vm::Failure& failure) {
        std::printf("process %llu failed: %s\n", static_cast<unsigned long long>(number),
                    failure.what());
        std::fflush(stdout);
      }
      _exit(status);
    }
    close(ends[1]);
    if (pid < 0) {
      const int error = errno;
      close(ends[0]);
      abandon();
      fail("fork: %s", vm::errnoName(error).c_str());
    }
    workers_.push_back({number, pid, ends[0]});
  }
}

Workers::~Workers() { abandon(); }

void Workers::abandon() {
  for (const Worker& worker : workers_) {
    kill(worker.pid, SIGKILL);
    waitpid(worker.pid, nullptr, 0);
    close(worker.fd);
  }
  workers_.clear();
}

std::vector<pid_t> Workers::awaitReady() {
  std::vector<pid_t> processes;
  for (size_t i = 0; i < workers_.size(); ++i) {
    processes.push_back(workers_[i].pid);
    processes.push_back(heard(i));
  }
  return processes;
}

void Workers::start() { tellAll(); }

void Workers::awaitDone() {
  for (size_t i = 0; i < workers_.size(); ++i) heard(i);
}

void Workers::release() { tellAll(); }

void Workers::join() {
  std::string failed;
  while (!workers_.empty()) {
    const Worker worker = workers_.back();
    workers_.pop_back();
    const std::string how = endOf(worker.pid);
    close(worker.fd);
    if (!how.empty()) failed = describe(worker.number, how);
  }
  if (!failed.empty()) fail("%s", failed.c_str());
}

pid_t Workers::heard(size_t index) {
  const Worker worker = workers_[index];
  const std::optional<pid_t> value = received(worker.fd);
  if (value) return *value;
  workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(index));
  const std::string how = endOf(worker.pid);
  close(worker.fd);
  fail("%s", describe(worker.number, how.empty() ? "ended early" : how).c_str());
}

void Workers::tellAll() {
  // One that has gone is found by whoever waits for it next.
  for (const Worker& worker : workers_) {
    const pid_t nothing = 0;
    send(worker.fd, &nothing, sizeof(nothing), MSG_NOSIGNAL);
  }
}

}  // namespace kiwarp::bench
