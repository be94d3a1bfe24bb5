// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/arena.h"
#include "common/random.h"
#include "verify/lane.h"
#include "verify/op_stream.h"

namespace kiwarp::vm {

class Sender;

// The small regions that the peer of one queue pair may use until they are invalidated: memory
// windows, bound anew for each use; regions that are registered anew if one side has no windows.
class Windows {
 public:
  // A window can be used: the peer has to know how.
  using Tell = std::function<void(unsigned window, const RemoteRegion& region)>;

  // `params` are those of the peer's operations. The sender posts what binds and invalidates.
  Windows(ibv_pd* pd, const StreamParams& params, Sender* sender, Report* report, Tell tell);

  // Makes all of them usable, once there is a connection.
  void open();
  // The peer needs this one no more, and if `by_peer` it has invalidated it.
  void renew(unsigned window, bool by_peer);
  uint32_t rkey(unsigned window) const { return windows_[window].rkey; }
  // Where a Write of this size lies, with all that is around it in the small region.
  Area area(const Op& write) const;
  const Memory& memory() const { return memory_; }

 private:
  struct Window {
    Mr mr;  // without memory windows
    Mw mw;
    uint32_t rkey = 0;
    uint64_t base = 0;  // the address of the first byte that the window covers
    uint64_t uses = 0;
  };

  void registerAnew(unsigned window);
  void bindAnew(unsigned window);
  void invalidate(unsigned window);
  void bind(unsigned window, const ibv_mw_bind_info& info, const std::function<void()>& done);
  void usable(unsigned window);

  ibv_pd* pd_;
  StreamParams params_;
  Sender* sender_;
  Report* report_;
  Tell tell_;
  Rng rng_;
  // Destroyed in the reverse order: a region has no window bound to it then.
  Memory memory_;
  Mr mr_;
  std::array<Window, kWindows> windows_;
};

}  // namespace kiwarp::vm
