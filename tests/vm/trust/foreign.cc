// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Queue pairs of others, named by number.

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <thread>

#include "common/error.h"
#include "trust/attack.h"
#include "trust/raw_cm.h"

namespace kiwarp::vm {
namespace {

int connectForeign(Device& device, uint16_t port, uint32_t qpn) {
  CmId id = device.resolved(port);
  return connectByNumber(id.get(), qpn);
}

// Two identifiers of one process; what the passive side says to a queue pair, by number.
int acceptForeign(Device& device, RawCm& server, uint16_t port, uint32_t qpn) {
  CmId client = device.resolved(port);
  RawQp own = device.createQpInInit();
  if (int rc = connectByNumber(client.get(), own->qp_num)) {
    fail("the attacker's own connection: %s", errnoName(rc).c_str());
  }
  const uint32_t id = server.request(Deadline(kTimeLimit));
  const int rc = server.accept(id, qpn);
  device.cm().next(Deadline(kTimeLimit));
  server.destroy(id);
  return rc;
}

void asChild(const Settings& settings, uint32_t qpn) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) fail("fork: %s", errnoName(errno).c_str());
  if (child == 0) {
    int rc = 0;
    try {
      Device device(settings);
      rc = connectForeign(device, static_cast<uint16_t>(settings.port), qpn);
    } catch (const Failure& failure) {
      std::printf("# %s\n", failure.what());
      std::fflush(stdout);
    }
    _exit(rc);
  }
  int status = 0;
  waitpid(child, &status, 0);
  fact(WIFEXITED(status) && WEXITSTATUS(status) == EPERM, "a child may not have its parent's");
}

}  // namespace

void attackForeign(const Settings& settings) {
  const auto port = static_cast<uint16_t>(settings.port);
  const auto qpn = static_cast<uint32_t>(settings.qpn);
  Device device(settings);
  RawCm server;
  Address address(settings.address, port);
  server.listen(address.get(), address.length, 4);

  // First: a connect that is not refused leaves a request.
  int rc = acceptForeign(device, server, port, qpn);
  fact(rc == EPERM, "rdma_accept: EPERM, got " + errnoName(rc));
  RawQp own = device.createQpInInit();
  rc = acceptForeign(device, server, port, own->qp_num);
  fact(rc == 0, "but one of its own: 0, got " + errnoName(rc));

  rc = connectForeign(device, port, qpn);
  fact(rc == EPERM, "rdma_connect: EPERM, got " + errnoName(rc));
  own = device.createQpInInit();
  rc = -1;
  std::thread([&] { rc = connectForeign(device, port, own->qp_num); }).join();
  fact(rc == 0, "also in another thread: 0, got " + errnoName(rc));
  own = device.createQpInInit();
  asChild(settings, own->qp_num);
}

// A kernel consumer's two ends, on the devices of either side.
void attackKernel(const Settings& settings) {
  const auto port = static_cast<uint16_t>(settings.port);
  Device device(settings);
  RawCm server;
  Address address(settings.address, port);
  server.listen(address.get(), address.length, 4);

  int rc = acceptForeign(device, server, port, static_cast<uint32_t>(settings.accept_qpn));
  fact(rc == EPERM, "rdma_accept: EPERM, got " + errnoName(rc));
  rc = connectForeign(device, port, static_cast<uint32_t>(settings.qpn));
  fact(rc == EPERM, "rdma_connect: EPERM, got " + errnoName(rc));
}

// From a container with a network of its own. The other's queue pair is one of another device
// there, which is found, if at all, by an address that this container does not have.
void attackContainer(const Settings& settings) {
  const auto port = static_cast<uint16_t>(settings.port);
  const auto qpn = static_cast<uint32_t>(settings.qpn);
  Device device(settings);
  RawCm server;
  Address address(settings.address, port);
  server.listen(address.get(), address.length, 4);

  int rc = connectForeign(device, port, qpn);
  fact(rc == EINVAL, "rdma_connect: EINVAL, got " + errnoName(rc));
  rc = acceptForeign(device, server, port, qpn);
  fact(rc == EINVAL, "rdma_accept: EINVAL, got " + errnoName(rc));
  CmId id = device.cm().createId();
  Address others(settings.other_address, port);
  rc = rdma_bind_addr(id.get(), others.get()) ? errno : 0;
  fact(rc == EADDRNOTAVAIL || rc == ENODEV, "its address: not here, got " + errnoName(rc));
  RawQp own = device.createQpInInit();
  rc = acceptForeign(device, server, port, own->qp_num);
  fact(rc == 0, "but one of its own: 0, got " + errnoName(rc));
}

// Has a queue pair ready for a connection of its own, until its input ends.
void beVictim(const Settings& settings) {
  Device device(settings);
  RawQp qp = device.createQpInInit();
  std::printf("# qpn %u\n", qp->qp_num);
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  fact(queryState(qp.get()) == IBV_QPS_INIT, "the victim's queue pair is as it was");
}

}  // namespace kiwarp::vm
