// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
// How a fuzzer controls the kernel of kernel.h, and what it reads of it.
#pragma once

#include <vector>

#include "kernel.h"

namespace shim {

using Bytes = std::vector<u8>;

// How arriving bytes lie in a socket buffer.
struct Layout {
  u32 head = ~0U;       // bytes of the linear part; the rest are fragments
  u32 frag = ~0U;       // bytes of each fragment
  bool adjoin = false;  // fragments are neighbours in memory
  bool list = false;    // a second buffer on the frag_list takes the second half
  u32 overlap = 0;      // bytes sent again that are in the queue already
};

// One end of a TCP connection, whose other end is the fuzzer.
class Tcp {
 public:
  Tcp(u32 first_seq, int rcvbuf);
  ~Tcp();
  Tcp(const Tcp&) = delete;
  Tcp& operator=(const Tcp&) = delete;

  socket* handle() { return &socket_; }
  ::sock* sk() { return &tp_.sk; }
  // Queues bytes, of which those before `from` have been queued before; calls no callback.
  void arrive(const Bytes& stream, size_t from, size_t len, const Layout& layout);
  void fin();
  void reset();
  void dataReady();
  void block() { tp_.sk.blocked = true; }
  void unblock();
  bool released() const { return tp_.sk.released; }
  bool finSent() const { return tp_.sk.fin_sent; }
  const Bytes& sent() const { return sent_; }

 private:
  friend int ::tcp_sendmsg_locked(::sock*, msghdr*, size_t);
  friend void ::sock_release(::socket*);
  tcp_sock tp_{};
  socket socket_{};
  Bytes sent_;
  std::vector<ubuf_info*> zcopy_;  // what was sent without a copy
};

// What is called in softirq from now on is called in another run of it.
void newSoftirq();

// Runs all work that is due within `delay` jiffies, in order of time.
void runWork(unsigned long delay);
// Runs one that is queued.
void runOne(delayed_work* dw);
bool workPending();

// Allocations that are not freed yet.
long allocated();
// The n-th GFP_ATOMIC allocation from now on fails; 0: none does.
void failAllocation(unsigned n);

}  // namespace shim
