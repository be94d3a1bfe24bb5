// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "doorbell.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "pabi/functions.h"

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

}  // namespace

// write() costs less than the ioctl that libibverbs would use for the same command: the kernel
// does not have to parse the ioctl's attributes.
int Doorbell::ring() const {
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
