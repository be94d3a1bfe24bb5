// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <linux/capability.h>
#include <sys/resource.h>

#include <cstddef>
#include <functional>

namespace kiwarp::vm {

// Gives up the capability that overrides the limit on locked memory; it and the limit come back at
// the end of the scope.
class MemlockLimit {
 public:
  MemlockLimit();
  ~MemlockLimit();
  MemlockLimit(const MemlockLimit&) = delete;
  MemlockLimit& operator=(const MemlockLimit&) = delete;

  void set(size_t bytes) const;
  // What this process has pinned now plus some.
  void setMore(size_t bytes) const;

 private:
  rlimit saved_limit_{};
  __user_cap_data_struct saved_[2]{};
};

// Runs it in a thread of its own: credentials are a thread's, and rdma_ucm answers only to the very
// credentials that opened it, not to a set that was changed and restored.
void withMemlockLimit(const std::function<void(const MemlockLimit&)>& run);

}  // namespace kiwarp::vm
