// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Buffers that libibverbs' command functions want from a provider, built from the public uAPI.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstddef>

namespace kiwarp::pabi {

// Room for a command: the header of the write() interface, then the core's request. libibverbs
// fills in all of it; few of Kiwarp's requests carry data of their own.
template <typename Core>
struct Request {
  alignas(8) std::byte bytes[sizeof(ib_uverbs_cmd_hdr) + sizeof(Core)] = {};
};

// Likewise for a command of the extended interface, which has a second header.
template <typename Core>
struct ExRequest {
  alignas(8)
      std::byte bytes[sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_ex_cmd_hdr) + sizeof(Core)] = {};
};

// A command with the driver's own data behind it.
template <typename Core, typename Driver>
struct DriverRequest {
  Request<Core> core;
  Driver driver = {};

  static_assert(sizeof(Request<Core>) % alignof(Driver) == 0,
                "padding would move the driver's part");
};

// A core response with nothing behind it.
template <typename Core>
struct PlainResponse {
  alignas(8) std::byte bytes[sizeof(Core)] = {};

  Core* core() { return reinterpret_cast<Core*>(bytes); }
};

// A core response with the driver's own behind it. The core's structures end in flexible arrays
// that C++ won't let anything follow; hence the bytes.
template <typename Core, typename Driver>
struct Response {
  alignas(8) std::byte bytes[sizeof(Core)] = {};
  Driver driver = {};

  static_assert(sizeof(Core) % alignof(Driver) == 0, "padding would move the driver's part");

  Core* core() { return reinterpret_cast<Core*>(bytes); }
};

static_assert(sizeof(ib_uverbs_cmd_hdr) == 8);
static_assert(sizeof(ib_uverbs_ex_cmd_hdr) == 16);
static_assert(sizeof(ib_uverbs_get_context_resp) == 8);
static_assert(sizeof(ib_uverbs_create_cq_resp) == 8);
static_assert(sizeof(ib_uverbs_ex_create_cq_resp) == 16);
static_assert(sizeof(ib_uverbs_resize_cq_resp) == 8);
static_assert(sizeof(ib_uverbs_create_qp_resp) == 32);
static_assert(sizeof(ib_uverbs_create_srq_resp) == 16);
static_assert(sizeof(Request<ib_uverbs_reg_mr>) == 48);
static_assert(sizeof(Request<ib_uverbs_modify_srq>) == 24);

}  // namespace kiwarp::pabi
