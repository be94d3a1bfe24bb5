// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "verify/windows.h"

#include <cstring>

#include "common/pattern.h"
#include "verify/sender.h"

namespace kiwarp::vm {
namespace {

constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
// The peer has no right but by a window.
constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned kWindowRights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

ibv_mw_type typeOf(unsigned window) { return isTypeOne(window) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2; }

}  // namespace

Windows::Windows(ibv_pd* pd, const StreamParams& params, Sender* sender, Report* report, Tell tell)
    : pd_(pd),
      params_(params),
      sender_(sender),
      report_(report),
      tell_(std::move(tell)),
      rng_(params.seed ^ (0x3117d000 + params.qp) ^ (params.from_client ? 1 : 0)),
      memory_(kWindows * kWindowSize) {
  std::memset(memory_.data(), kBackground, memory_.size());
  if (!params_.windows) return;
  mr_ = regMr(pd, memory_.data(), memory_.size(), kBindable);
  for (unsigned i = 0; i < kWindows; ++i) {
    windows_[i].mw = allocMw(pd, typeOf(i));
    windows_[i].rkey = windows_[i].mw->rkey;
  }
}

void Windows::open() {
  for (unsigned i = 0; i < kWindows; ++i) params_.windows ? bindAnew(i) : registerAnew(i);
}

void Windows::registerAnew(unsigned window) {
  Window& own = windows_[window];
  own.mr.reset();
  own.mr = regMr(pd_, memory_.data() + window * kWindowSize, kWindowSize, kRights);
  own.rkey = own.mr->rkey;
  own.base = reinterpret_cast<uintptr_t>(own.mr->addr) + windowRange(params_, window, 0).begin;
  usable(window);
}

void Windows::bindAnew(unsigned window) {
  Window& own = windows_[window];
  const Extent range = windowRange(params_, window, own.uses++);
  const bool zero_based = rng_.percent(30);
  ibv_mw_bind_info info{};
  info.mr = mr_.get();
  info.addr = reinterpret_cast<uintptr_t>(memory_.data()) + window * kWindowSize + range.begin;
  info.length = range.end - range.begin;
  info.mw_access_flags = kWindowRights | (zero_based ? IBV_ACCESS_ZERO_BASED : 0);
  own.base = zero_based ? 0 : info.addr;
  bind(window, info, [this, window] { usable(window); });
}

// Other than a window of type 2, one of type 1 gets its key from the library.
void Windows::bind(unsigned window, const ibv_mw_bind_info& info,
                   const std::function<void()>& done) {
  Window& own = windows_[window];
  LocalWork work;
  work.wr.opcode = IBV_WR_BIND_MW;
  work.wr.bind_mw.mw = own.mw.get();
  work.wr.bind_mw.bind_info = info;
  if (!isTypeOne(window)) work.wr.bind_mw.rkey = own.rkey = ibv_inc_rkey(own.rkey);
  work.done = done;
  sender_->postLocal(work);
  ++report_->counters.binds;
}

void Windows::usable(unsigned window) {
  Window& own = windows_[window];
  if (params_.windows && isTypeOne(window)) own.rkey = own.mw->rkey;
  tell_(window, {own.base, own.rkey});
}

// In one of the ways that there are; a window of type 1 may also be bound anew as it is.
void Windows::invalidate(unsigned window) {
  Window& own = windows_[window];
  if (rng_.percent(15)) {
    own.mw.reset();
    own.mw = allocMw(pd_, typeOf(window));
    own.rkey = own.mw->rkey;
  } else if (isTypeOne(window)) {
    ibv_mw_bind_info nothing{};
    nothing.mr = mr_.get();
    if (rng_.percent(30)) bind(window, nothing, {});
  } else {
    LocalWork work;
    work.wr.opcode = IBV_WR_LOCAL_INV;
    work.wr.invalidate_rkey = own.rkey;
    sender_->postLocal(work);
    ++report_->counters.invalidated_here;
  }
}

void Windows::renew(unsigned window, bool by_peer) {
  if (!params_.windows) {
    registerAnew(window);
    return;
  }
  if (!by_peer) invalidate(window);
  bindAnew(window);
}

Area Windows::area(const Op& write) const {
  const auto window = static_cast<size_t>(write.window);
  const size_t begin = window * kWindowSize;
  return {{begin, begin + kWindowSize}, {{begin + write.extent.begin + write.target, write.size}}};
}

}  // namespace kiwarp::vm
