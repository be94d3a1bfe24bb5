// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// A listener that goes while requests for it are queued: iw_cm drops these. Whether what it had
// copied for them is freed, only kmemleak can tell.

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/error.h"
#include "trust/attack.h"
#include "trust/raw_cm.h"

namespace kiwarp::vm {
namespace {

constexpr unsigned kPeers = 16;
// Start-up of revision 1 with CRCs, and four bytes of private data.
constexpr char kRequest[] = "MPA ID Req Frame\x40\1\0\4data";

class Peer {
 public:
  explicit Peer(Address& address) : fd_(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0 || connect(fd_, address.get(), address.length)) {
      fail("the peer: %s", errnoName(errno).c_str());
    }
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() { close(fd_); }

  void request() const {
    if (write(fd_, kRequest, sizeof(kRequest) - 1) != sizeof(kRequest) - 1) {
      fail("a request: %s", errnoName(errno).c_str());
    }
  }

 private:
  int fd_;
};

}  // namespace

void attackDropped(const Settings& settings) {
  RawCm server;
  for (uint64_t i = 0; i < settings.rounds; ++i) {
    Address address(settings.address, static_cast<uint16_t>(settings.port + i));
    const uint32_t listener = server.listen(address.get(), address.length, kPeers);
    std::vector<std::unique_ptr<Peer>> peers;
    for (unsigned n = 0; n < kPeers; ++n) peers.push_back(std::make_unique<Peer>(address));
    for (const auto& peer : peers) peer->request();
    // Some have become events, some are queued, some have not been read yet.
    for (uint64_t n = 0; n < i % 16; ++n) std::this_thread::yield();
    if (int rc = server.destroy(listener)) fail("destroy: %s", errnoName(rc).c_str());
    server.forgetEvents();
  }
  fact(true, "listeners go while requests are queued");

  Address address(settings.address, static_cast<uint16_t>(settings.port + settings.rounds));
  server.listen(address.get(), address.length, kPeers);
  Peer peer(address);
  peer.request();
  fact(server.destroy(server.request(Deadline(kTimeLimit))) == 0, "and requests come as ever");
}

}  // namespace kiwarp::vm
