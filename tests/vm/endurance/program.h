// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <sys/types.h>

#include <string>

#include "common/clock.h"
#include "killtest/kill_test.h"

namespace kiwarp::vm {

// This process enters a network namespace of "ip netns".
void enterNamespace(const std::string& name);

// One end of a round's traffic, in a process and a network namespace of its own. It is forked, not
// executed: under the checkers, loading a program with its libraries takes longer than a round.
class Program {
 public:
  Program(const std::string& ns, const KillTestSettings& settings);
  // Kills what has not ended.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // False if it ends, or the limit passes, before it says the word so many times.
  bool says(const std::string& word, milliseconds limit, uint64_t times = 1);
  // Whether it has said it already.
  bool hasSaid(const std::string& word, uint64_t times = 1);
  void kill();
  // Whether the process is gone: what it held has been released then.
  bool ends(milliseconds limit);
  // After ends(): the exit code, or 128 and the signal's number.
  int code() const { return code_; }
  const std::string& said() const { return said_; }

 private:
  // Whether there may be more later.
  bool read();

  pid_t pid_;
  int pidfd_, pipe_;
  bool open_ = true;
  bool ended_ = false;
  int code_ = -1;
  std::string said_;
};

}  // namespace kiwarp::vm
