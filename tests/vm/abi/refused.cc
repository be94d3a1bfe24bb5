// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-refused DEVICE: each verb that has come since the first version of the ABI, by a
// capability bit or without one, is refused with EOPNOTSUPP. Prints TAP.

#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/verbs.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kPage = 4096;

struct ContextDeleter {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
};
using Context = std::unique_ptr<ibv_context, ContextDeleter>;

Context openDevice(const std::string& name) {
  ibv_device** list = ibv_get_device_list(nullptr);
  if (!list) fail("ibv_get_device_list: %s", errnoName(errno).c_str());
  Context context;
  for (ibv_device** device = list; *device && !context; ++device) {
    if (name == ibv_get_device_name(*device)) context.reset(ibv_open_device(*device));
  }
  ibv_free_device_list(list);
  if (!context) fail("%s cannot be opened", name.c_str());
  return context;
}

// What all of the calls work with.
struct Objects {
  explicit Objects(const std::string& device)
      : context(openDevice(device)),
        pd(allocPd(context.get())),
        cq(createCq(context.get(), 8)),
        memory(kPage),
        mr(regMr(pd.get(), memory.data(), kPage, IBV_ACCESS_LOCAL_WRITE)) {}

  Context context;
  Pd pd;
  Cq cq;
  Memory memory;
  Mr mr;
};

// For calls that return an object, or nothing and errno.
template <typename Object>
int errorOf(Object object) {
  return object ? 0 : errno;
}

int createSrqOn(const Objects& on) {
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = 8;
  attr.attr.max_sge = 1;
  return errorOf(Srq(ibv_create_srq(on.pd.get(), &attr)));
}

int createStampedCq(const Objects& on) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 8;
  attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* cq = ibv_create_cq_ex(on.context.get(), &attr);
  return errorOf(Cq(cq ? ibv_cq_ex_to_cq(cq) : nullptr));
}

int createQpWith(const Objects& on, uint64_t operation) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = on.cq.get();
  attr.cap.max_send_wr = attr.cap.max_recv_wr = 1;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.pd = on.pd.get();
  attr.send_ops_flags = operation;
  return errorOf(RawQp(ibv_create_qp_ex(on.context.get(), &attr)));
}

int rereg(const Objects& on) {
  errno = 0;
  return ibv_rereg_mr(on.mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0) ? errno : 0;
}

int moderate(const Objects& on) {
  ibv_modify_cq_attr attr{};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate = {4, 100};
  return ibv_modify_cq(on.cq.get(), &attr);
}

int importDevice(const Objects& on) {
  const int fd = dup(on.context->cmd_fd);
  const Context imported(ibv_import_device(fd));
  const int error = errorOf(imported.get());
  if (!imported) close(fd);
  return error;
}

int run(const std::string& device) {
  const Objects on(device);
  const std::vector<std::pair<const char*, std::function<int()>>> calls = {
      {"ibv_create_srq", [&] { return createSrqOn(on); }},
      {"ibv_alloc_mw", [&] { return errorOf(Mw(ibv_alloc_mw(on.pd.get(), IBV_MW_TYPE_1))); }},
      {"ibv_resize_cq", [&] { return ibv_resize_cq(on.cq.get(), 16); }},
      {"ibv_create_cq_ex with time stamps", [&] { return createStampedCq(on); }},
      {"ibv_create_qp_ex with windows", [&] { return createQpWith(on, IBV_QP_EX_WITH_BIND_MW); }},
      {"ibv_create_qp_ex with immediates",
       [&] { return createQpWith(on, IBV_QP_EX_WITH_SEND_WITH_IMM); }},
      {"ibv_create_qp_ex with Writes with Immediate",
       [&] { return createQpWith(on, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM); }},
      {"ibv_create_qp_ex with FetchAdd",
       [&] { return createQpWith(on, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD); }},
      {"ibv_create_qp_ex with CmpSwap",
       [&] { return createQpWith(on, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP); }},
      {"ibv_rereg_mr", [&] { return rereg(on); }},
      // Of no dma-buf, which is an error of another kind where they are known.
      {"ibv_reg_dmabuf_mr",
       [&] { return errorOf(Mr(ibv_reg_dmabuf_mr(on.pd.get(), 0, kPage, 0, -1, 0))); }},
      {"ibv_modify_cq", [&] { return moderate(on); }},
      {"ibv_import_device", [&] { return importDevice(on); }},
  };
  int failed = 0, number = 0;
  for (const auto& [name, call] : calls) {
    const int error = call();
    if (error != EOPNOTSUPP) ++failed;
    std::printf("%s %d - %s: %s\n", error == EOPNOTSUPP ? "ok" : "not ok", ++number, name,
                error == 0 ? "it works" : errnoName(error).c_str());
  }
  std::printf("1..%d\n", number);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: kiwarp-refused DEVICE\n");
    return 2;
  }
  return kiwarp::vm::runMain("Bail out! ", [&] { return kiwarp::vm::run(argv[1]); });
}
