// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "context.h"

#include <rdma/kiwarp-abi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cq.h"
#include "domain.h"
#include "memory.h"
#include "pabi/functions.h"
#include "qp.h"
#include "srq.h"

namespace kiwarp {
namespace {

void freeContext(ibv_context* context) {
  verbs_context* extended = verbs_get_ctx(context);
  verbs_uninit_context(extended);
  // libibverbs took it from calloc().
  std::free(extended);
}

// For ibv_query_device() libibverbs asks for the first part alone, and the kernel would answer from
// what it read when the device was made: before a setting has changed atomic_cap, say.
int queryDevice(ibv_context* context, const ibv_query_device_ex_input* input,
                ibv_device_attr_ex* attr, size_t attr_size) {
  ibv_device_attr_ex all = {};
  ib_uverbs_ex_query_device_resp response = {};
  size_t response_size = sizeof(response);
  int error =
      ibv_cmd_query_device_any(context, input, &all, sizeof(all), &response, &response_size);
  if (error != 0) return error;
  std::memset(attr, 0, attr_size);
  std::memcpy(attr, &all, std::min(attr_size, sizeof(all)));
  uint64_t version = response.base.fw_ver;
  std::snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
                static_cast<unsigned int>(version >> 32 & 0xffff),
                static_cast<unsigned int>(version >> 16 & 0xffff),
                static_cast<unsigned int>(version & 0xffff));
  return 0;
}

int queryPort(ibv_context* context, uint8_t port, ibv_port_attr* attr) {
  pabi::Request<ib_uverbs_query_port> request;
  return ibv_cmd_query_port(context, port, attr, &request, sizeof(request));
}

// Slots that aren't set keep libibverbs' default, which returns EOPNOTSUPP. So do those of verbs
// that the module, an older one, doesn't have.
void setOps(Context* context) {
  using pabi::Op;
  pabi::ContextOps ops;
  ops.set<Op::free_context>(freeContext);
  ops.set<Op::query_device_ex>(queryDevice);
  ops.set<Op::query_port>(queryPort);
  ops.set<Op::query_rt_values>(queryRtValues);
  ops.set<Op::alloc_pd>(allocPd);
  ops.set<Op::dealloc_pd>(deallocPd);
  ops.set<Op::alloc_td>(allocTd);
  ops.set<Op::dealloc_td>(deallocTd);
  ops.set<Op::alloc_parent_domain>(allocParentDomain);
  ops.set<Op::reg_mr>(regMr);
  ops.set<Op::reg_dmabuf_mr>(regDmabufMr);
  ops.set<Op::rereg_mr>(reregMr);
  ops.set<Op::dereg_mr>(deregMr);
  ops.set<Op::import_pd>(importPd);
  ops.set<Op::unimport_pd>(unimportPd);
  ops.set<Op::import_mr>(importMr);
  ops.set<Op::unimport_mr>(unimportMr);
  ops.set<Op::create_cq>(createCq);
  ops.set<Op::create_cq_ex>(createCqEx);
  ops.set<Op::modify_cq>(modifyCq);
  ops.set<Op::destroy_cq>(destroyCq);
  ops.set<Op::poll_cq>(pollCq);
  ops.set<Op::req_notify_cq>(reqNotifyCq);
  ops.set<Op::create_qp>(createQp);
  ops.set<Op::create_qp_ex>(createQpEx);
  ops.set<Op::modify_qp>(modifyQp);
  ops.set<Op::query_qp>(queryQp);
  ops.set<Op::destroy_qp>(destroyQp);
  ops.set<Op::post_send>(postSend);
  ops.set<Op::post_recv>(postRecv);
  if ((context->caps & KIWARP_CAP_RESIZE_CQ) != 0) ops.set<Op::resize_cq>(resizeCq);
  if ((context->caps & KIWARP_CAP_SRQ) != 0) {
    ops.set<Op::create_srq>(createSrq);
    ops.set<Op::modify_srq>(modifySrq);
    ops.set<Op::query_srq>(querySrq);
    ops.set<Op::destroy_srq>(destroySrq);
    ops.set<Op::get_srq_num>(getSrqNum);
    ops.set<Op::post_srq_recv>(postSrqRecv);
  }
  if ((context->caps & KIWARP_CAP_MW) != 0) {
    ops.set<Op::alloc_mw>(allocMw);
    ops.set<Op::bind_mw>(bindMw);
    ops.set<Op::dealloc_mw>(deallocMw);
  }
  verbs_set_ops(context, &ops);
}

// Returns 0 or a positive errno.
int connectToKernel(Context* context) {
  pabi::Request<ib_uverbs_get_context> request;
  pabi::Response<ib_uverbs_get_context_resp, kiwarp_alloc_ucontext_resp> response;
  int error =
      pabi::getContext(context, &request, sizeof(request), response.core(), sizeof(response));
  if (error != 0) return error;
  if (response.driver.abi_version != KIWARP_ABI_VERSION) {
    std::fprintf(stderr,
                 "libkiwarp: %s: the module speaks version %u of the Kiwarp ABI, this provider "
                 "version %u; install both from the same release\n",
                 context->context.device->name, response.driver.abi_version, KIWARP_ABI_VERSION);
    return EPROTONOSUPPORT;
  }
  context->caps = response.driver.caps;
  return 0;
}

// Is a switch of the device's settings on? No, where sysfs does not show it.
bool isOn(const ibv_device* device, const char* setting) {
  std::array<char, IBV_SYSFS_PATH_MAX + 32> path{};
  std::snprintf(path.data(), path.size(), "%s/settings/%s", device->ibdev_path, setting);
  std::FILE* file = std::fopen(path.data(), "re");
  if (file == nullptr) return false;
  const int value = std::fgetc(file);
  std::fclose(file);
  return value == '1';
}

// Whoever opened the channel has compared versions. A module that can be asked has all that does
// not depend on a setting, but has no answer about settings.
int queryKernel(Context* context) {
  const ibv_device* device = context->context.device;
  context->caps = KIWARP_CAP_SRQ | KIWARP_CAP_MW | KIWARP_CAP_RESIZE_CQ | KIWARP_CAP_CQ_TIMESTAMP;
  if (isOn(device, "immediate")) context->caps |= KIWARP_CAP_IMM;
  if (isOn(device, "atomics")) context->caps |= KIWARP_CAP_ATOMIC;
  return ibv_cmd_query_context(&context->context, nullptr);
}

// connect(context) returns 0 or a positive errno.
verbs_context* makeContext(ibv_device* device, int command_fd, int (*connect)(Context*)) {
  auto* context = static_cast<Context*>(_verbs_init_and_alloc_context(
      device, command_fd, sizeof(Context), nullptr, KIWARP_DRIVER_ID));
  if (context == nullptr) return nullptr;
  if (int error = connect(context); error != 0) {
    verbs_uninit_context(context);
    std::free(context);
    errno = error;
    return nullptr;
  }
  setOps(context);
  return context;
}

}  // namespace

verbs_context* allocContext(ibv_device* device, int command_fd, void* /*private_data*/) {
  return makeContext(device, command_fd, connectToKernel);
}

verbs_context* importContext(ibv_device* device, int command_fd) {
  return makeContext(device, command_fd, queryKernel);
}

}  // namespace kiwarp
