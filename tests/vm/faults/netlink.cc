// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "faults/netlink.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"

namespace kiwarp::vm {

namespace {

struct Attribute {
  uint16_t type;
  const uint8_t* value;
};

std::vector<Attribute> attributesOf(const nlmsghdr* header) {
  std::vector<Attribute> all;
  const auto* at = static_cast<const uint8_t*>(NLMSG_DATA(header));
  const auto* end = reinterpret_cast<const uint8_t*>(header) + header->nlmsg_len;
  for (nlattr attribute; at + NLA_HDRLEN <= end; at += NLA_ALIGN(attribute.nla_len)) {
    std::memcpy(&attribute, at, sizeof(attribute));
    if (attribute.nla_len < NLA_HDRLEN) break;
    all.push_back({attribute.nla_type, at + NLA_HDRLEN});
  }
  return all;
}

}  // namespace

class RdmaNetlink::Message {
 public:
  Message(uint16_t command, uint16_t flags) : bytes_(NLMSG_HDRLEN) {
    nlmsghdr header{};
    header.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command);
    header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    std::memcpy(bytes_.data(), &header, sizeof(header));
  }
  void put(uint16_t type, const void* value, size_t length) {
    const nlattr attribute{static_cast<uint16_t>(NLA_HDRLEN + length), type};
    const size_t at = bytes_.size();
    bytes_.resize(at + NLA_ALIGN(NLA_HDRLEN + length));
    std::memcpy(bytes_.data() + at, &attribute, sizeof(attribute));
    std::memcpy(bytes_.data() + at + NLA_HDRLEN, value, length);
  }
  void put(uint16_t type, uint32_t value) { put(type, &value, sizeof(value)); }
  void put(uint16_t type, const std::string& text) { put(type, text.c_str(), text.size() + 1); }
  bool send(int fd) const {
    std::vector<uint8_t> message = bytes_;
    reinterpret_cast<nlmsghdr*>(message.data())->nlmsg_len = static_cast<uint32_t>(message.size());
    return ::send(fd, message.data(), message.size(), 0) == static_cast<ssize_t>(message.size());
  }

 private:
  std::vector<uint8_t> bytes_;
};

RdmaNetlink::RdmaNetlink() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)) {
  if (fd_ < 0) fail("netlink: %s", errnoName(errno).c_str());
  const timeval limit{2, 0};
  checkErrno(setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "SO_RCVTIMEO");
}

RdmaNetlink::~RdmaNetlink() { close(fd_); }

int RdmaNetlink::request(const Message& message, uint16_t type, uint32_t* value) {
  alignas(nlmsghdr) uint8_t answer[8192];
  // An answer that came late is none to this.
  while (recv(fd_, answer, sizeof(answer), MSG_DONTWAIT) >= 0 || errno == ENOBUFS) continue;
  if (!message.send(fd_)) return errno;
  // The kernel does what it is asked in send(): the answer is there, or there is none. Before it
  // comes what was asked for, if that is anything.
  for (;;) {
    const ssize_t got = recv(fd_, answer, sizeof(answer), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN ? ENOBUFS : errno;
    const auto* header = reinterpret_cast<const nlmsghdr*>(answer);
    if (static_cast<size_t>(got) < NLMSG_HDRLEN || header->nlmsg_len > got) return EPROTO;
    if (header->nlmsg_type == NLMSG_ERROR) {
      if (header->nlmsg_len < NLMSG_LENGTH(sizeof(nlmsgerr))) return EPROTO;
      return -static_cast<const nlmsgerr*>(NLMSG_DATA(header))->error;
    }
    for (const Attribute& each : attributesOf(header)) {
      if (value && each.type == type) std::memcpy(value, each.value, sizeof(*value));
    }
  }
}

RdmaNetlink::Message RdmaNetlink::counterMessage(uint16_t command, uint32_t index, uint32_t qpn) {
  Message message(command, NLM_F_ACK);
  message.put(RDMA_NLDEV_ATTR_DEV_INDEX, index);
  message.put(RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1});
  message.put(RDMA_NLDEV_ATTR_STAT_RES, uint32_t{RDMA_NLDEV_ATTR_RES_QP});
  message.put(RDMA_NLDEV_ATTR_RES_LQPN, qpn);
  return message;
}

int RdmaNetlink::addLink(const std::string& device, const std::string& netdev) {
  Message message(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK);
  message.put(RDMA_NLDEV_ATTR_DEV_NAME, device);
  message.put(RDMA_NLDEV_ATTR_LINK_TYPE, "kiwarp");
  message.put(RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
  return request(message);
}

int RdmaNetlink::deleteLink(uint32_t index) {
  Message message(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK);
  message.put(RDMA_NLDEV_ATTR_DEV_INDEX, &index, sizeof(index));
  return request(message);
}

int RdmaNetlink::bindCounter(uint32_t index, uint32_t qpn, uint32_t* counter) {
  Message message = counterMessage(RDMA_NLDEV_CMD_STAT_SET, index, qpn);
  message.put(RDMA_NLDEV_ATTR_STAT_MODE, uint32_t{RDMA_COUNTER_MODE_MANUAL});
  return request(message, RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter);
}

int RdmaNetlink::unbindCounter(uint32_t index, uint32_t qpn, uint32_t counter) {
  Message message = counterMessage(RDMA_NLDEV_CMD_STAT_DEL, index, qpn);
  message.put(RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter);
  return request(message);
}

bool RdmaNetlink::find(const std::string& device, uint32_t* index) {
  if (!Message(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).send(fd_)) {
    fail("netlink: %s", errnoName(errno).c_str());
  }
  alignas(nlmsghdr) uint8_t answer[32768];
  for (bool found = false;;) {
    const ssize_t got = recv(fd_, answer, sizeof(answer), 0);
    if (got < 0) fail("netlink: %s", errnoName(errno).c_str());
    auto left = static_cast<uint32_t>(got);
    for (auto* header = reinterpret_cast<nlmsghdr*>(answer); NLMSG_OK(header, left);
         header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return found;
      uint32_t number = 0;
      bool named = false;
      for (const auto& [type, value] : attributesOf(header)) {
        if (type == RDMA_NLDEV_ATTR_DEV_INDEX) std::memcpy(&number, value, sizeof(number));
        if (type == RDMA_NLDEV_ATTR_DEV_NAME) {
          named = device == reinterpret_cast<const char*>(value);
        }
      }
      if (named) {
        *index = number;
        found = true;
      }
    }
  }
}

uint32_t RdmaNetlink::indexOf(const std::string& device) {
  uint32_t index = 0;
  if (!find(device, &index)) fail("no device %s", device.c_str());
  return index;
}

bool RdmaNetlink::exists(const std::string& device) {
  uint32_t index = 0;
  return find(device, &index);
}

}  // namespace kiwarp::vm
