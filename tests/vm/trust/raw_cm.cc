// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "trust/raw_cm.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

// Events of an identifier without one are dropped by rdma_ucm.
constexpr uint64_t kUid = 1;
// enum rdma_cm_event_type: the library's header and the kernel's do not go together.
constexpr uint32_t kConnectRequest = 4;
constexpr uint32_t kDisconnected = 10;

}  // namespace

RawCm::RawCm() : fd_(open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK)) {
  if (fd_ < 0) fail("/dev/infiniband/rdma_cm: %s", errnoName(errno).c_str());
}

RawCm::~RawCm() { close(fd_); }

template <typename Command>
int RawCm::run(uint32_t command, const Command& body, uint16_t out) {
  struct {
    rdma_ucm_cmd_hdr header;
    Command body;
  } message{{command, sizeof(body), out}, body};
  return write(fd_, &message, sizeof(message)) < 0 ? errno : 0;
}

uint32_t RawCm::listen(const sockaddr* address, socklen_t length, int backlog) {
  rdma_ucm_create_id_resp created{};
  rdma_ucm_create_id create{};
  create.uid = kUid;
  create.response = reinterpret_cast<uintptr_t>(&created);
  create.ps = RDMA_PS_TCP;
  create.qp_type = IBV_QPT_RC;
  if (int rc = run(RDMA_USER_CM_CMD_CREATE_ID, create, sizeof(created))) {
    fail("create id: %s", errnoName(rc).c_str());
  }
  rdma_ucm_bind bind{};
  bind.id = created.id;
  bind.addr_size = static_cast<uint16_t>(length);
  std::memcpy(&bind.addr, address, length);
  if (int rc = run(RDMA_USER_CM_CMD_BIND, bind, 0)) fail("bind: %s", errnoName(rc).c_str());
  rdma_ucm_listen listen{created.id, static_cast<uint32_t>(backlog)};
  if (int rc = run(RDMA_USER_CM_CMD_LISTEN, listen, 0)) fail("listen: %s", errnoName(rc).c_str());
  return created.id;
}

bool RawCm::tryEvent(uint32_t* event, uint32_t* id) {
  rdma_ucm_event_resp response{};
  rdma_ucm_get_event get{reinterpret_cast<uintptr_t>(&response)};
  const int rc = run(RDMA_USER_CM_CMD_GET_EVENT, get, sizeof(response));
  if (rc && rc != EAGAIN) fail("get event: %s", errnoName(rc).c_str());
  *event = response.event;
  *id = response.id;
  return rc == 0;
}

uint32_t RawCm::request(const Deadline& deadline) { return await(kConnectRequest, deadline); }

uint32_t RawCm::disconnected(const Deadline& deadline) { return await(kDisconnected, deadline); }

uint32_t RawCm::await(uint32_t wanted, const Deadline& deadline) {
  for (;;) {
    uint32_t event = 0, id = 0;
    if (tryEvent(&event, &id)) {
      if (event == wanted) return id;
      continue;
    }
    if (deadline.passed()) fail("no event %u", wanted);
    pollfd poller{fd_, POLLIN, 0};
    poll(&poller, 1, deadline.pollTimeout());
  }
}

void RawCm::forgetEvents() {
  uint32_t event = 0, id = 0;
  while (tryEvent(&event, &id)) continue;
}

int RawCm::accept(uint32_t id, uint32_t qpn) {
  rdma_ucm_accept accept{};
  accept.uid = kUid;
  accept.id = id;
  accept.conn_param.valid = 1;
  accept.conn_param.qp_num = qpn;
  accept.conn_param.responder_resources = 1;
  accept.conn_param.initiator_depth = 1;
  return run(RDMA_USER_CM_CMD_ACCEPT, accept, 0);
}

int RawCm::reject(uint32_t id) {
  rdma_ucm_reject reject{};
  reject.id = id;
  return run(RDMA_USER_CM_CMD_REJECT, reject, 0);
}

int RawCm::disconnect(uint32_t id) {
  return run(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id}, 0);
}

int RawCm::destroy(uint32_t id) {
  rdma_ucm_destroy_id_resp response{};
  rdma_ucm_destroy_id destroy{};
  destroy.response = reinterpret_cast<uintptr_t>(&response);
  destroy.id = id;
  return run(RDMA_USER_CM_CMD_DESTROY_ID, destroy, sizeof(response));
}

}  // namespace kiwarp::vm
