// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// A queue pair whose creation is still under way, or fails, is nobody's: the kernel is held where
// it tells the process of the queue pair, by memory that is not there yet, and then fails there.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <rdma/ib_user_verbs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common/error.h"
#include "common/page.h"
#include "trust/attack.h"

namespace kiwarp::vm {
namespace {

// Of the driver's answer, what lies before the memory that is missing: the number, and one more.
constexpr size_t kSeen = 8;

// Two pages. Whoever touches the second waits until it is unmapped.
class Trap {
 public:
  Trap() {
    base_ = static_cast<uint8_t*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED) fail("mmap: %s", errnoName(errno).c_str());
    std::memset(base_, 0, kPage);
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
    if (fd_ < 0) fail("userfaultfd: %s", errnoName(errno).c_str());
    uffdio_api api{UFFD_API, 0, 0};
    uffdio_register range{};
    range.range = {second(), kPage};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    if (ioctl(fd_, UFFDIO_API, &api) || ioctl(fd_, UFFDIO_REGISTER, &range)) {
      fail("userfaultfd's set-up: %s", errnoName(errno).c_str());
    }
  }
  ~Trap() {
    spring();
    munmap(base_, kPage);
    close(fd_);
  }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;

  // Somebody has touched the second page.
  bool caught() {
    uffd_msg message{};
    return read(fd_, &message, sizeof(message)) == sizeof(message);
  }
  void spring() {
    munmap(base_ + kPage, kPage);
    uffdio_range range{second(), kPage};
    ioctl(fd_, UFFDIO_WAKE, &range);
  }
  uint8_t* edge() const { return base_ + kPage; }

 private:
  uintptr_t second() const { return reinterpret_cast<uintptr_t>(base_) + kPage; }

  uint8_t* base_;
  int fd_;
};

int createInto(const Device& device, uint8_t* response, size_t driver_length) {
  struct {
    ib_uverbs_cmd_hdr header;
    uint8_t body[sizeof(ib_uverbs_create_qp)];
  } message{};
  ib_uverbs_create_qp create{};
  create.response = reinterpret_cast<uintptr_t>(response);
  create.pd_handle = device.pd()->handle;
  create.send_cq_handle = create.recv_cq_handle = device.cq()->handle;
  create.max_send_wr = create.max_recv_wr = 4;
  create.max_send_sge = create.max_recv_sge = 1;
  create.qp_type = IBV_QPT_RC;
  std::memcpy(message.body, &create, sizeof(create));
  message.header.command = IB_USER_VERBS_CMD_CREATE_QP;
  message.header.in_words = sizeof(message) / 4;
  message.header.out_words =
      static_cast<uint16_t>((sizeof(ib_uverbs_create_qp_resp) + driver_length) / 4);
  return write(device.context()->cmd_fd, &message, sizeof(message)) < 0 ? errno : 0;
}

}  // namespace

void attackUnpublished(const Settings& settings) {
  Device device(settings);
  // A peer that takes connections and keeps silent: who finds the queue pair has it for some time.
  Address address(settings.address, static_cast<uint16_t>(settings.port));
  const int peer = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (peer < 0 || setsockopt(peer, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
      bind(peer, address.get(), address.length) || listen(peer, 1)) {
    fail("the peer's port: %s", errnoName(errno).c_str());
  }
  CmId id = device.resolved(static_cast<uint16_t>(settings.port));
  Trap trap;
  std::atomic<int> created{-1};
  std::thread creator([&] {
    created = createInto(device, trap.edge() - kSeen - sizeof(ib_uverbs_create_qp_resp), 48);
  });
  const Deadline deadline(kTimeLimit);
  while (!trap.caught() && created < 0 && !deadline.passed()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  uint32_t qpn = 0;
  std::memcpy(&qpn, trap.edge() - kSeen, sizeof(qpn));
  fact(created < 0 && qpn != 0, "the kernel is held where it answers create_qp");
  const int early = connectByNumber(id.get(), qpn);
  fact(early == EINVAL, "the queue pair does not exist yet: EINVAL, got " + errnoName(early));
  trap.spring();
  creator.join();
  fact(created == EFAULT, "its creation fails: EFAULT, got " + errnoName(created));
  if (early) {
    const int late = connectByNumber(id.get(), qpn);
    fact(late == EINVAL, "it never existed: EINVAL, got " + errnoName(late));
  }
  // Ends the connection that has it.
  close(peer);
}

// Queue pairs come and go while another thread connects them by number. The connections fail as
// soon as they have found their queue pair, since their port is in use: so there can be many.
void attackChurn(const Settings& settings) {
  Device device(settings);
  const auto port = static_cast<uint16_t>(settings.port);
  Address taken(settings.address, static_cast<uint16_t>(port + 1));
  const int holder = socket(taken.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (holder < 0 || bind(holder, taken.get(), taken.length) || listen(holder, 1)) {
    fail("the port's holder: %s", errnoName(errno).c_str());
  }
  CmId id = device.cm().createId();
  checkErrno(rdma_bind_addr(id.get(), taken.get()), "rdma_bind_addr");
  resolve(device.cm(), id, Address(settings.address, port), Deadline(kTimeLimit));

  std::atomic<uint32_t> number{0}, seen{0};
  std::atomic<bool> done{false};
  std::atomic<uint64_t> created{0};
  std::thread creator([&] {
    while (!done) {
      RawQp qp = device.createQp();
      number = qp->qp_num;
      ++created;
      // Destroyed while it is being connected.
      while (seen != number && !done) std::this_thread::yield();
    }
  });
  uint64_t found = 0, missing = 0;
  int wrong = 0;
  while (created < settings.rounds && !wrong) {
    const uint32_t qpn = number;
    const int rc = connectByNumber(id.get(), qpn);
    if (rc == EADDRINUSE) {
      seen = qpn;
      ++found;
    } else if (rc == EINVAL) {
      ++missing;
    } else {
      wrong = rc ? rc : -1;
    }
  }
  done = true;
  creator.join();
  close(holder);
  fact(
      found > 0 && missing > 0 && !wrong,
      strf("of %llu queue pairs, some are found and some are not: %llu, %llu, %s",
           static_cast<unsigned long long>(settings.rounds), static_cast<unsigned long long>(found),
           static_cast<unsigned long long>(missing), errnoName(wrong).c_str()));
}

}  // namespace kiwarp::vm
