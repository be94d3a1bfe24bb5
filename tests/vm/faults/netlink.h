// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiwarp::vm {

// What "rdma link add" and "rdma link delete" ask the kernel, asked by this thread itself.
class RdmaNetlink {
 public:
  RdmaNetlink();
  ~RdmaNetlink();
  RdmaNetlink(const RdmaNetlink&) = delete;
  RdmaNetlink& operator=(const RdmaNetlink&) = delete;

  // Both: errno, or 0. No answer is ENOBUFS.
  int addLink(const std::string& device, const std::string& netdev);
  int deleteLink(uint32_t index);
  // Its index; ENODEV is thrown as a Failure if there's none.
  uint32_t indexOf(const std::string& device);
  bool exists(const std::string& device);

 private:
  class Message;
  int request(const Message& message);
  bool find(const std::string& device, uint32_t* index);

  int fd_;
};

}  // namespace kiwarp::vm
