// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "doorbell.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "pabi/functions.h"
#include "rings/nap.h"

namespace kiwarp {
namespace {

// What write() on the uverbs device takes; both commands look alike up to their work requests.
struct Command {
  ib_uverbs_cmd_hdr header;
  uint64_t response;
  uint32_t qp_handle;
  uint32_t wr_count;
  uint32_t sge_count;
  uint32_t wqe_size;
};
static_assert(sizeof(Command) == sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_send));
static_assert(sizeof(Command) == sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_recv));
static_assert(sizeof(ib_uverbs_post_send_resp) == sizeof(ib_uverbs_post_recv_resp));

constexpr uint32_t kWord = 4;  // unit of the header's lengths

// libc's write() is a cancellation point: a thread that is cancelled there would leave the queue's
// lock held for ever. False with errno set on failure.
bool writeUncancelled(int file, const Command& command) {
  return syscall(SYS_write, file, &command, sizeof(command)) == sizeof(command);
}

// The command needs memory for a moment. The kernel has tried hard to find it; so it is tried again
// for long enough to let a process end that is killed for its memory.
constexpr int kRetries = 20;
constexpr timespec kRetryAfter = {.tv_sec = 0, .tv_nsec = 1'000'000};

// Of want of memory, for the command or for a page that it is in.
bool mayPass(int error) { return error == ENOMEM || error == EFAULT; }

// Whether nothing reads entries that were published, so that they can be taken back.
//
// In RESET nothing does. In all other states the stream may have read the producer index already,
// and execute the entries whatever that says now; the consumer index moves only after they were
// read. In ERROR what is posted is flushed, by its doorbell at the latest. Where the device is gone
// (EIO) that never comes, and who waits for the completion would wait for ever. The kernel aborts
// all streams before it takes the device away, and flushes: what a flush that is just under way has
// still read completes, with IBV_WC_WR_FLUSH_ERR.
bool areUnread(kiwarp_qp_state state, int error) {
  return state == KIWARP_QPS_RESET || (state == KIWARP_QPS_ERROR && error == EIO);
}

}  // namespace

int Doorbell::settle() {
  if (!owed_) return 0;
  const int error = ring();
  owed_ = error != 0;
  return error;
}

int Doorbell::ring(WorkRing& ring, uint32_t count) {
  const int error = this->ring();
  if (error == 0) return 0;
  if (areUnread(ring.state(), error) && ring.takeBack(count)) return error;
  owed_ = true;
  return 0;
}

int Doorbell::ring() const {
  int error = ringOnce();
  for (int retry = 0; retry < kRetries && mayPass(error); ++retry) {
    nap(kRetryAfter);
    error = ringOnce();
  }
  return error;
}

// write() costs less than the ioctl that libibverbs would use for the same command: the kernel
// does not have to parse the ioctl's attributes.
int Doorbell::ringOnce() const {
  const bool send = kind_ == Kind::kSend;
  ib_uverbs_post_send_resp response = {};
  Command command = {};
  command.header.command = send ? IB_USER_VERBS_CMD_POST_SEND : IB_USER_VERBS_CMD_POST_RECV;
  command.header.in_words = sizeof(command) / kWord;
  command.header.out_words = sizeof(response) / kWord;
  command.response = reinterpret_cast<uintptr_t>(&response);
  command.qp_handle = qp_->handle;
  command.wqe_size = send ? sizeof(ib_uverbs_send_wr) : sizeof(ib_uverbs_recv_wr);
  for (;;) {
    if (writeUncancelled(qp_->context->cmd_fd, command)) return 0;
    if (errno != EINTR) break;
  }
  // The kernel takes write() only from a process with the credentials that it opened the device
  // with; the ioctl has no such rule.
  return errno == EACCES ? ringByIoctl() : errno;
}

int Doorbell::ringByIoctl() const {
  if (kind_ == Kind::kSend) {
    ibv_send_wr* bad = nullptr;
    return ibv_cmd_post_send(qp_, nullptr, &bad);
  }
  ibv_recv_wr* bad = nullptr;
  return ibv_cmd_post_recv(qp_, nullptr, &bad);
}

}  // namespace kiwarp
