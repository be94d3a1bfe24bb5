// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "endurance/program.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "common/error.h"

namespace kiwarp::vm {

void enterNamespace(const std::string& name) {
  const int fd = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  checkErrno(fd < 0 ? -1 : 0, name.c_str());
  checkErrno(setns(fd, CLONE_NEWNET), "setns");
  close(fd);
}

Program::Program(const std::string& ns, const KillTestSettings& settings) {
  std::array<int, 2> ends{};
  checkErrno(pipe2(ends.data(), O_CLOEXEC), "pipe");
  std::fflush(stdout);
  pid_ = fork();
  checkErrno(pid_ < 0 ? -1 : 0, "fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    const int rc = runMain("FAILED: ", [&] {
      enterNamespace(ns);
      return runKillTest(settings);
    });
    std::fflush(stdout);
    _exit(rc);
  }
  close(ends[1]);
  pipe_ = ends[0];
  fcntl(pipe_, F_SETFL, O_NONBLOCK);
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  checkErrno(pidfd_ < 0 ? -1 : 0, "pidfd_open");
}

Program::~Program() {
  if (!ended_) {
    kill();
    waitpid(pid_, nullptr, 0);
  }
  close(pidfd_);
  close(pipe_);
}

bool Program::read() {
  std::array<char, 4096> text;
  while (open_) {
    const ssize_t got = ::read(pipe_, text.data(), text.size());
    if (got < 0) return true;
    if (got == 0) open_ = false;
    said_.append(text.data(), static_cast<size_t>(got));
  }
  return false;
}

bool Program::hasSaid(const std::string& word, uint64_t times) {
  read();
  for (size_t at = 0; times > 0; --times, at += word.size()) {
    at = said_.find(word, at);
    if (at == std::string::npos) return false;
  }
  return true;
}

bool Program::says(const std::string& word, milliseconds limit, uint64_t times) {
  const Deadline deadline(limit);
  while (!hasSaid(word, times)) {
    if (!open_ || deadline.passed()) return false;
    pollfd fd{pipe_, POLLIN, 0};
    poll(&fd, 1, deadline.pollTimeout());
  }
  return true;
}

void Program::kill() { syscall(SYS_pidfd_send_signal, pidfd_, SIGKILL, nullptr, 0); }

bool Program::ends(milliseconds limit) {
  const Deadline deadline(limit);
  // What it says has to be read meanwhile, or it may wait for room in the pipe.
  while (!ended_) {
    read();
    std::array<pollfd, 2> fds{{{pidfd_, POLLIN, 0}, {open_ ? pipe_ : -1, POLLIN, 0}}};
    poll(fds.data(), fds.size(), deadline.pollTimeout());
    if (fds[0].revents != 0) {
      int status = 0;
      checkErrno(waitpid(pid_, &status, 0) < 0 ? -1 : 0, "waitpid");
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      ended_ = true;
      read();
    } else if (deadline.passed()) {
      return false;
    }
  }
  return true;
}

}  // namespace kiwarp::vm
