// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// A consumer that does not answer requests, but for those with private data, which it rejects.

#include <cstdio>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/cm.h"
#include "tenants/cases.h"

namespace kiwarp::vm {

void slowConsumer(const std::string& host) {
  constexpr uint16_t kPort = 7303;
  constexpr int kBacklog = 64;
  EventChannel channel;
  CmId listener = channel.listen(Address(host, kPort), kBacklog);
  std::vector<CmId> held;
  std::printf("listening\n");
  for (;;) {
    std::fflush(stdout);
    const auto event = channel.next(Deadline(seconds(600)));
    if (!event) return;
    if (event->type != RDMA_CM_EVENT_CONNECT_REQUEST) continue;
    CmId id(event->id);
    if (event->private_data.empty()) {
      held.push_back(std::move(id));
      std::printf("held %zu\n", held.size());
    } else {
      rdma_reject(id.get(), nullptr, 0);
    }
  }
}

}  // namespace kiwarp::vm
