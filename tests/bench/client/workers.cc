// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "client/workers.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "common/error.h"

namespace kiwarp::bench {

using vm::fail;

namespace {

// Each message is a process's number, or 0.
void tell(int fd, pid_t value) {
  vm::checkErrno(send(fd, &value, sizeof(value), MSG_NOSIGNAL) < 0 ? -1 : 0, "send to a process");
}

pid_t told(int fd) {
  pid_t value = 0;
  ssize_t length = 0;
  do {
    length = recv(fd, &value, sizeof(value), 0);
  } while (length < 0 && errno == EINTR);
  if (length != static_cast<ssize_t>(sizeof(value))) fail("another process has gone");
  return value;
}

}  // namespace

WorkerLink::~WorkerLink() { close(fd_); }

void WorkerLink::awaitStart(pid_t peer) {
  tell(fd_, peer);
  told(fd_);
}

void WorkerLink::awaitRelease() {
  tell(fd_, 0);
  told(fd_);
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
  for (const Worker& worker : workers_) {
    processes.push_back(worker.pid);
    processes.push_back(told(worker.fd));
  }
  return processes;
}

void Workers::start() {
  for (const Worker& worker : workers_) tell(worker.fd, 0);
}

void Workers::awaitDone() {
  for (const Worker& worker : workers_) told(worker.fd);
}

void Workers::release() {
  for (const Worker& worker : workers_) tell(worker.fd, 0);
}

void Workers::join() {
  while (!workers_.empty()) {
    const Worker worker = workers_.back();
    workers_.pop_back();
    int status = 0;
    const pid_t ended = waitpid(worker.pid, &status, 0);
    close(worker.fd);
    if (ended != worker.pid || status != 0) {
      fail("process %llu ended with status 0x%x", static_cast<unsigned long long>(worker.number),
           static_cast<unsigned>(status));
    }
  }
}

}  // namespace kiwarp::bench
