// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>

#include "badinput/harness.h"

// Completion queues of ibv_create_cq_ex(), for the cases that poll them one completion at a time.
namespace kiwarp::vm {

ibv_cq_init_attr_ex cqAttributes(uint32_t entries, uint64_t wc_flags = IBV_WC_STANDARD_FLAGS,
                                 uint32_t flags = 0);
Cq createCqEx(ibv_context* context, ibv_cq_init_attr_ex attr);
inline ibv_cq_ex* toEx(const Cq& cq) { return reinterpret_cast<ibv_cq_ex*>(cq.get()); }

// A batch of completions, which holds the queue: until end(), or until the case fails.
class Batch {
 public:
  // Waits for it to begin.
  explicit Batch(ibv_cq_ex* cq);
  ~Batch() { end(); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // The next one, which may take its time.
  void next() const;
  void end();

 private:
  ibv_cq_ex* cq_;
};

void expectNumber(const char* what, uint64_t expected, uint64_t got);

}  // namespace kiwarp::vm
