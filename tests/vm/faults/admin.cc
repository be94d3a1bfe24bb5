// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// What an administrator does: devices, and their settings.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "faults/netlink.h"
#include "faults/plan.h"

namespace kiwarp::vm {
namespace {

const std::string kAdded = "dx";

void linkCases(FaultPlan* plan) {
  RdmaNetlink netlink;
  const std::string& netdev = plan->options().netdev;
  uint32_t index = 0;
  const auto remove = [&] {
    if (netlink.exists(kAdded)) {
      checkErrno(netlink.deleteLink(netlink.indexOf(kAdded)), "rdma link delete");
    }
  };
  plan->run({.name = "rdma link add",
             .call = [&] { return netlink.addLink(kAdded, netdev); },
             .then = [&] { return netlink.exists(kAdded) ? 0 : ENODEV; },
             .undo = remove,
             .also = {ENOBUFS}});
  plan->run({.name = "rdma link delete",
             .prepare =
                 [&] {
                   checkErrno(netlink.addLink(kAdded, netdev), "rdma link add");
                   index = netlink.indexOf(kAdded);
                 },
             .call = [&] { return netlink.deleteLink(index); },
             .then = [&] { return netlink.exists(kAdded) ? EEXIST : 0; },
             .undo = remove,
             .also = {ENOBUFS}});
}

int writeOnce(const std::string& path, const std::string& value) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  const ssize_t put = write(fd, value.data(), value.size());
  const int error = put == static_cast<ssize_t>(value.size()) ? 0 : (put < 0 ? errno : EIO);
  close(fd);
  return error;
}

std::string contentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Each is written the value that it has; what is refused must not change it.
void settingCases(FaultPlan* plan) {
  const std::string folder = "/sys/class/infiniband/" + plan->options().device + "/settings";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path();
    const std::string value = contentOf(path);
    plan->run({.name = "setting " + entry.path().filename().string(),
               .call = [=] { return writeOnce(path, value); },
               .undo =
                   [=] {
                     if (contentOf(path) != value) fail("%s has changed", path.c_str());
                   }});
  }
}

}  // namespace

void adminCases(FaultPlan* plan) {
  settingCases(plan);
  linkCases(plan);
}

}  // namespace kiwarp::vm
