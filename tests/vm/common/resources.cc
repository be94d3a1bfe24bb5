// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "common/resources.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "common/error.h"

namespace kiwarp::vm {
namespace {

using Bytes = std::vector<uint8_t>;

// One attribute: of a message, or of a nest.
struct Attribute {
  unsigned type;
  const uint8_t* data;
  size_t size;

  template <typename T>
  T as() const {
    T value{};
    std::memcpy(&value, data, std::min(size, sizeof(value)));
    return value;
  }
  std::string text() const {
    return {reinterpret_cast<const char*>(data),
            strnlen(reinterpret_cast<const char*>(data), size)};
  }
};

void forEach(const uint8_t* data, size_t size, const std::function<void(const Attribute&)>& use) {
  nlattr head{};
  while (size >= sizeof(head)) {
    std::memcpy(&head, data, sizeof(head));
    if (head.nla_len < sizeof(head) || head.nla_len > size) fail("netlink: a broken attribute");
    use({static_cast<unsigned>(head.nla_type & NLA_TYPE_MASK), data + sizeof(head),
         head.nla_len - sizeof(head)});
    const size_t step = std::min<size_t>(NLA_ALIGN(head.nla_len), size);
    data += step;
    size -= step;
  }
}

void forEach(const Attribute& nest, const std::function<void(const Attribute&)>& use) {
  forEach(nest.data, nest.size, use);
}

// A request of all that there are, and the answers' attributes.
class Dump {
 public:
  Dump() : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)) {
    if (fd_ < 0) fail("netlink: %s", errnoName(errno).c_str());
  }
  ~Dump() { close(fd_); }
  Dump(const Dump&) = delete;
  Dump& operator=(const Dump&) = delete;

  void run(unsigned command, const Bytes& attributes,
           const std::function<void(const Attribute&)>& use) const {
    nlmsghdr head{};
    head.nlmsg_len = static_cast<uint32_t>(NLMSG_HDRLEN + attributes.size());
    head.nlmsg_type = static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
    head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    Bytes request(head.nlmsg_len);
    std::memcpy(request.data(), &head, sizeof(head));
    std::copy(attributes.begin(), attributes.end(), request.begin() + NLMSG_HDRLEN);
    if (send(fd_, request.data(), request.size(), 0) < 0) {
      fail("netlink: %s", errnoName(errno).c_str());
    }
    while (take(use)) continue;
  }

 private:
  // False when that was the last part.
  bool take(const std::function<void(const Attribute&)>& use) const {
    std::array<uint8_t, 65536> buffer;
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
    if (got < 0) fail("netlink: %s", errnoName(errno).c_str());
    nlmsghdr head{};
    for (size_t at = 0; at + sizeof(head) <= static_cast<size_t>(got);) {
      std::memcpy(&head, &buffer[at], sizeof(head));
      if (head.nlmsg_type == NLMSG_DONE) return false;
      if (head.nlmsg_type == NLMSG_ERROR) fail("netlink: refused");
      forEach(&buffer[at] + NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN, use);
      at += NLMSG_ALIGN(head.nlmsg_len);
    }
    return true;
  }

  int fd_;
};

template <typename T>
void put(Bytes* to, unsigned type, T value) {
  const nlattr head{static_cast<uint16_t>(sizeof(nlattr) + sizeof(value)),
                    static_cast<uint16_t>(type)};
  const size_t at = to->size();
  to->resize(at + NLA_ALIGN(head.nla_len));
  std::memcpy(to->data() + at, &head, sizeof(head));
  std::memcpy(to->data() + at + sizeof(head), &value, sizeof(value));
}

uint32_t indexOf(const Dump& dump, const std::string& device) {
  std::optional<uint32_t> index;
  uint32_t last = 0;
  dump.run(RDMA_NLDEV_CMD_GET, {}, [&](const Attribute& each) {
    if (each.type == RDMA_NLDEV_ATTR_DEV_INDEX) last = each.as<uint32_t>();
    if (each.type == RDMA_NLDEV_ATTR_DEV_NAME && each.text() == device) index = last;
  });
  if (!index) fail("netlink: no device %s", device.c_str());
  return *index;
}

// A name, and then its value.
void readDetail(const Attribute& each, std::string* name, Resource* to) {
  std::string value;
  switch (each.type) {
    case RDMA_NLDEV_ATTR_DRIVER_STRING:
      value = each.text();
      break;
    case RDMA_NLDEV_ATTR_DRIVER_U32:
      value = std::to_string(each.as<uint32_t>());
      break;
    case RDMA_NLDEV_ATTR_DRIVER_U64:
      value = std::to_string(each.as<uint64_t>());
      break;
    default:
      return;
  }
  if (name->empty()) {
    *name = value;
  } else {
    to->details[std::exchange(*name, {})] = value;
  }
}

Resource readEntry(const Attribute& entry) {
  Resource made;
  forEach(entry, [&](const Attribute& each) {
    switch (each.type) {
      case RDMA_NLDEV_ATTR_RES_PID:
        made.pid = each.as<uint32_t>();
        break;
      case RDMA_NLDEV_ATTR_RES_LQPN:
        made.lqpn = each.as<uint32_t>();
        break;
      case RDMA_NLDEV_ATTR_RES_CQE:
        made.cqe = each.as<uint32_t>();
        break;
      case RDMA_NLDEV_ATTR_DRIVER: {
        std::string name;
        forEach(each, [&](const Attribute& part) { readDetail(part, &name, &made); });
        break;
      }
      default:
        break;
    }
  });
  return made;
}

struct Kind {
  unsigned command, table;
};

Kind kindOf(ResourceKind kind) {
  switch (kind) {
    case ResourceKind::kQp:
      return {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP};
    case ResourceKind::kCq:
      return {RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ};
    case ResourceKind::kSrq:
      break;
  }
  return {RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ};
}

}  // namespace

std::vector<Resource> ownResources(const std::string& device, ResourceKind kind) {
  const Dump dump;
  const auto [command, table] = kindOf(kind);
  Bytes request;
  put(&request, RDMA_NLDEV_ATTR_DEV_INDEX, indexOf(dump, device));
  const auto own = static_cast<uint32_t>(getpid());
  std::vector<Resource> found;
  dump.run(command, request, [&, wanted = table](const Attribute& each) {
    if (each.type != wanted) return;
    forEach(each, [&](const Attribute& entry) {
      Resource made = readEntry(entry);
      if (made.pid == own) found.push_back(std::move(made));
    });
  });
  return found;
}

}  // namespace kiwarp::vm
