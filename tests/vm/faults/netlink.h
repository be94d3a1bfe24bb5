// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiwarp::vm {

// What "rdma link add", "rdma link delete" and "rdma statistic qp bind" and "unbind" ask the
// kernel, asked by this thread itself.
class RdmaNetlink {
 public:
  RdmaNetlink();
  ~RdmaNetlink();
  RdmaNetlink(const RdmaNetlink&) = delete;
  RdmaNetlink& operator=(const RdmaNetlink&) = delete;

  // All: errno, or 0. No answer is ENOBUFS.
  int addLink(const std::string& device, const std::string& netdev);
  int deleteLink(uint32_t index);
  // A new counter of one queue pair.
  int bindCounter(uint32_t index, uint32_t qpn, uint32_t* counter);
  int unbindCounter(uint32_t index, uint32_t qpn, uint32_t counter);
  // Its index; ENODEV is thrown as a Failure if there's none.
  uint32_t indexOf(const std::string& device);
  bool exists(const std::string& device);

 private:
  class Message;
  static Message counterMessage(uint16_t command, uint32_t index, uint32_t qpn);
  // If the answer has an attribute of the type, its number goes to value.
  int request(const Message& message, uint16_t type = 0, uint32_t* value = nullptr);
  bool find(const std::string& device, uint32_t* index);

  int fd_;
};

}  // namespace kiwarp::vm
