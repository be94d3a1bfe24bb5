// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "chaos/cm.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

constexpr uint32_t kResolveMs = 500;
// RDMA_CM_EVENT_...: the library's header, which has them, and the kernel's do not go together.
constexpr uint32_t kAddrResolved = 0, kRouteResolved = 2, kConnectRequest = 4, kIsEstablished = 9;

int openCm() {
  const int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail("/dev/infiniband/rdma_cm: %s", errnoName(errno).c_str());
  return fd;
}

rdma_ucm_conn_param params(uint32_t qpn, Rng& rng) {
  rdma_ucm_conn_param params{};
  params.qp_num = qpn;
  params.valid = 1;
  params.responder_resources = static_cast<uint8_t>(rng.below(20));
  params.initiator_depth = static_cast<uint8_t>(rng.below(20));
  params.private_data_len = static_cast<uint8_t>(rng.percent(90) ? rng.below(60) : rng.below(256));
  return params;
}

}  // namespace

ChaosCm::ChaosCm(Process* process, std::string own, std::string peer, uint16_t port)
    : process_(process),
      own_(std::move(own)),
      peer_(std::move(peer)),
      port_(port),
      fds_{openCm(), openCm()} {}

template <typename Body>
int ChaosCm::run(uint32_t command, const Body& body, size_t out) {
  struct {
    rdma_ucm_cmd_hdr header;
    Body body;
  } message{{command, sizeof(Body), static_cast<uint16_t>(out)}, body};
  return write(fds_[0], &message, sizeof(message)) < 0 ? errno : 0;
}

uint32_t ChaosCm::anyQpn(Rng& rng) const {
  const File& file = process_->files[rng.below(kFiles)];
  const Queues* qp = nullptr;
  for (int i = 0; i < 4 && (!qp || !qp->handle); ++i) qp = &file.qps[rng.below(file.qps.size())];
  return rng.below(30) ? qp->qpn.load() : static_cast<uint32_t>(rng.next() & 0xffffff);
}

uint32_t ChaosCm::number(const Id& id, Rng& rng) const {
  return rng.below(60) ? id.number.load() : static_cast<uint32_t>(rng.below(64));
}

// rdma_ucm has room for an IPv6 address everywhere, and takes an IPv4 one in it.
sockaddr_in6 ChaosCm::address(const std::string& host, Rng& rng) const {
  const auto port = htons(static_cast<uint16_t>(port_ + rng.below(kPorts)));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = port;
  if (inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1) return six;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = port;
  if (inet_pton(AF_INET, host.c_str(), &four.sin_addr) != 1) fail("address %s", host.c_str());
  six = {};
  std::memcpy(&six, &four, sizeof(four));
  return six;
}

void ChaosCm::create(Id* id, unsigned slot) {
  rdma_ucm_create_id_resp answer{};
  rdma_ucm_create_id body{};
  body.uid = slot + 1;
  body.response = reinterpret_cast<uintptr_t>(&answer);
  body.ps = RDMA_PS_TCP;
  body.qp_type = IBV_QPT_RC;
  if (process_->tell(kCreateId, run(RDMA_USER_CM_CMD_CREATE_ID, body, sizeof(answer)))) return;
  id->number = answer.id;
  id->stage = Stage::kCreated;
}

void ChaosCm::destroy(Id* id, Rng& rng) {
  rdma_ucm_destroy_id_resp answer{};
  rdma_ucm_destroy_id body{};
  body.response = rng.below(50) ? reinterpret_cast<uintptr_t>(&answer) : 0x10;
  body.id = number(*id, rng);
  id->stage = Stage::kNone;
  process_->tell(kDestroyId, run(RDMA_USER_CM_CMD_DESTROY_ID, body, sizeof(answer)));
}

void ChaosCm::listen(Id* id, Rng& rng) {
  rdma_ucm_bind_ip bind{};
  bind.addr = address(own_, rng);
  if (rng.percent(15)) {
    reinterpret_cast<sockaddr_in*>(&bind.addr)->sin_addr.s_addr = INADDR_ANY;
  }
  bind.id = number(*id, rng);
  process_->tell(kBind, run(RDMA_USER_CM_CMD_BIND_IP, bind, 0));
  const rdma_ucm_listen body{number(*id, rng), static_cast<uint32_t>(rng.below(20))};
  if (!process_->tell(kListen, run(RDMA_USER_CM_CMD_LISTEN, body, 0))) {
    id->stage = Stage::kListening;
  }
}

void ChaosCm::resolve(Id* id, Rng& rng) {
  rdma_ucm_resolve_ip body{};
  body.dst_addr = address(rng.percent(70) ? peer_ : own_, rng);
  body.id = number(*id, rng);
  body.timeout_ms = kResolveMs;
  id->stage = Stage::kResolving;
  process_->tell(kResolveAddr, run(RDMA_USER_CM_CMD_RESOLVE_IP, body, 0));
}

void ChaosCm::route(Id* id, Rng& rng) {
  const rdma_ucm_resolve_route body{number(*id, rng), kResolveMs};
  id->stage = Stage::kRouting;
  process_->tell(kResolveRoute, run(RDMA_USER_CM_CMD_RESOLVE_ROUTE, body, 0));
}

void ChaosCm::connect(Id* id, Rng& rng) {
  rdma_ucm_connect body{};
  body.conn_param = params(anyQpn(rng), rng);
  body.id = number(*id, rng);
  if (!process_->tell(kConnect, run(RDMA_USER_CM_CMD_CONNECT, body, 0))) {
    id->stage = Stage::kConnecting;
  }
}

void ChaosCm::accept(Id* id, unsigned slot, Rng& rng) {
  rdma_ucm_accept body{};
  body.uid = slot + 1;
  body.conn_param = params(anyQpn(rng), rng);
  body.id = number(*id, rng);
  if (!process_->tell(kAccept, run(RDMA_USER_CM_CMD_ACCEPT, body, 0))) {
    id->stage = Stage::kAccepting;
  }
}

void ChaosCm::reject(Id* id, Rng& rng) {
  rdma_ucm_reject body{};
  body.id = number(*id, rng);
  body.private_data_len = static_cast<uint8_t>(rng.below(200));
  process_->tell(kReject, run(RDMA_USER_CM_CMD_REJECT, body, 0));
}

void ChaosCm::disconnect(Id* id, Rng& rng) {
  const rdma_ucm_disconnect body{number(*id, rng)};
  process_->tell(kDisconnect, run(RDMA_USER_CM_CMD_DISCONNECT, body, 0));
}

void ChaosCm::ask(Id* id, Rng& rng) {
  uint8_t answer[1024];
  const auto at = reinterpret_cast<uintptr_t>(answer);
  if (rng.percent(50)) {
    const rdma_ucm_query body{at, number(*id, rng), static_cast<uint32_t>(rng.below(4))};
    const uint32_t command =
        rng.percent(50) ? RDMA_USER_CM_CMD_QUERY_ROUTE : RDMA_USER_CM_CMD_QUERY;
    process_->tell(kQueryRoute, run(command, body, sizeof(answer)));
  } else {
    const rdma_ucm_init_qp_attr body{at, number(*id, rng), static_cast<uint32_t>(rng.below(7))};
    process_->tell(kInitQpAttr, run(RDMA_USER_CM_CMD_INIT_QP_ATTR, body, sizeof(answer)));
  }
}

// Between the two files that the process has open.
void ChaosCm::migrate(Id* id, Rng& rng) {
  rdma_ucm_migrate_resp answer{};
  const rdma_ucm_migrate_id body{reinterpret_cast<uintptr_t>(&answer), number(*id, rng),
                                 static_cast<uint32_t>(fds_[rng.below(2)])};
  process_->tell(kMigrate, run(RDMA_USER_CM_CMD_MIGRATE_ID, body, sizeof(answer)));
}

void ChaosCm::readEvent(Rng& rng) {
  rdma_ucm_event_resp event{};
  const rdma_ucm_get_event body{rng.below(200) ? reinterpret_cast<uintptr_t>(&event) : 0x10};
  if (process_->tell(kGetEvent, run(RDMA_USER_CM_CMD_GET_EVENT, body, sizeof(event)))) return;
  Id& id = ids_[event.uid && event.uid <= kIds ? event.uid - 1 : rng.below(kIds)];
  switch (event.event) {
    case kAddrResolved:
      id.stage = Stage::kAddress;
      break;
    case kRouteResolved:
      id.stage = Stage::kRoute;
      break;
    case kConnectRequest: {
      Id& fresh = ids_[rng.below(kIds)];
      fresh.number = event.id;
      fresh.stage = Stage::kRequested;
      break;
    }
    case kIsEstablished:
      process_->tell(kEstablished, 0);
      id.stage = Stage::kEstablished;
      break;
    default:
      id.stage = Stage::kOver;
      break;
  }
}

void ChaosCm::nextStep(Id* id, unsigned slot, Rng& rng) {
  switch (id->stage.load()) {
    case Stage::kNone:
      return create(id, slot);
    case Stage::kCreated:
      return rng.percent(25) ? listen(id, rng) : resolve(id, rng);
    case Stage::kAddress:
      return route(id, rng);
    case Stage::kRoute:
      return connect(id, rng);
    case Stage::kRequested:
      return rng.percent(85) ? accept(id, slot, rng) : reject(id, rng);
    case Stage::kOver:
      return destroy(id, rng);
    case Stage::kEstablished:
      return rng.below(40) ? readEvent(rng) : disconnect(id, rng);
    default:
      return rng.below(60) ? readEvent(rng) : destroy(id, rng);
  }
}

void ChaosCm::anyStep(Id* id, unsigned slot, Rng& rng) {
  switch (rng.below(12)) {
    case 0:
      return create(id, slot);
    case 1:
      return destroy(id, rng);
    case 2:
      return listen(id, rng);
    case 3:
      return resolve(id, rng);
    case 4:
      return route(id, rng);
    case 5:
      return connect(id, rng);
    case 6:
      return accept(id, slot, rng);
    case 7:
      return reject(id, rng);
    case 8:
      return disconnect(id, rng);
    case 9:
      return migrate(id, rng);
    default:
      return ask(id, rng);
  }
}

void ChaosCm::randomCall(Rng& rng) {
  if (rng.percent(30)) return readEvent(rng);
  const auto slot = static_cast<unsigned>(rng.below(kIds));
  if (rng.percent(94)) {
    nextStep(&ids_[slot], slot, rng);
  } else {
    anyStep(&ids_[slot], slot, rng);
  }
}

}  // namespace kiwarp::vm
