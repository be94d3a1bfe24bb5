// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace kiwarp::bench {

// A worker's end of the line to the process that forked it.
class WorkerLink {
 public:
  // Takes the descriptor over.
  explicit WorkerLink(int fd) : fd_(fd) {}
  ~WorkerLink();
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  // Tells its peer's process, and returns when all are to begin. Throws when the first process has
  // gone.
  void awaitStart(pid_t peer);
  // Tells that its messages are done, and returns when what all have used is known: what a process
  // has used is lost when it ends.
  void awaitRelease();

 private:
  const int fd_;
};

// Forked processes that do the same work beside the one that forks them: their messages are
// measured together with its own.
class Workers {
 public:
  // In the process of each worker, whose number counts from 1; what it returns is the exit status.
  using Work = std::function<int(uint64_t number, WorkerLink& link)>;

  // Forks so many before the caller has threads or RDMA resources, neither of which forks.
  Workers(uint64_t count, const Work& work);
  // Ends those that have not ended.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  bool empty() const { return workers_.empty(); }
  // Until all are connected: the processes of the workers and of their peers.
  std::vector<pid_t> awaitReady();
  void start();
  void awaitDone();
  // What is measured is over.
  void release();
  // Until all have ended. Throws unless each said 0.
  void join();

 private:
  struct Worker {
    uint64_t number;
    pid_t pid;
    int fd;
  };
  // What one says; throws, with how it has ended, if it has gone.
  pid_t heard(size_t index);
  void tellAll();
  void abandon();

  std::vector<Worker> workers_;
};

}  // namespace kiwarp::bench
