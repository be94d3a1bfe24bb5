// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Loads the provider as libibverbs does, and lists the devices of a made-up sysfs; see
// load_test.sh. Prints a line for each device: its name and its provider's.
//
// Given names of files, first does to them what an upgrade does while a program runs: the first
// takes the place of the second, and the third, if there is one, goes.
//
// The functions below replace those of the C library: this machine's own RDMA devices, if it has
// any, must not show, and the made-up ones need device files.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string_view>

#include "pabi/layout.h"

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return next<int (*)(int, int, int)>("socket")(domain, type, protocol);
}

__attribute__((visibility("default"))) int stat(const char* path, struct stat* result) {
  if (std::string_view(path).starts_with("/dev/infiniband/uverbs")) {
    *result = {};
    result->st_mode = S_IFCHR;
    return 0;
  }
  return next<int (*)(const char*, struct stat*)>("stat")(path, result);
}

}  // extern "C"

int main(int argc, char** argv) {
  if ((argc > 2 && std::rename(argv[1], argv[2]) != 0) || (argc > 3 && std::remove(argv[3]) != 0)) {
    std::perror("upgrade");
    return 1;
  }
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr) {
    std::perror("ibv_get_device_list");
    return 1;
  }
  for (int i = 0; i < count; ++i) {
    const auto* device = reinterpret_cast<const kiwarp::pabi::Device*>(devices[i]);
    std::printf("%s %s %s\n", ibv_get_device_name(devices[i]), device->ops->name,
                devices[i]->transport_type == IBV_TRANSPORT_IWARP ? "iwarp" : "other");
  }
  ibv_free_device_list(devices);
  return 0;
}
