// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Whether the functions that libibverbs exports to providers for commands have the parameters that
// pabi/functions.h declares. Each is called: every argument must be where the kernel looks for it,
// and what the kernel answers must get to where the provider looks for it.
#include <gtest/gtest.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cctype>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fake_device.h"

namespace kiwarp::test {
namespace {

constexpr uint32_t kExtended = 0x80000000;

// The test's kernel, which has one command to answer: one that is written, or one by ioctl().
struct Kernel {
  bool awaits_write = false;
  std::span<const std::byte> answer;
  std::vector<std::byte> command;

  bool awaits_ioctl = false;
  uint16_t object = 0;
  uint16_t method = 0;
  // By the attribute's number: what it answers, and what it was given.
  std::map<uint16_t, uint64_t> answers;
  std::map<uint16_t, uint64_t> attributes;
} kernel;

// The header, then the response's address if there is to be one.
ssize_t answerWrite(const void* command, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(command);
  kernel.command.assign(bytes, bytes + size);
  if (!kernel.answer.empty()) {
    uint64_t address = 0;
    std::memcpy(&address, bytes + sizeof(ib_uverbs_cmd_hdr), sizeof(address));
    std::memcpy(reinterpret_cast<void*>(address), kernel.answer.data(), kernel.answer.size());
  }
  kernel.awaits_write = false;
  return static_cast<ssize_t>(size);
}

int answerIoctl(ib_uverbs_ioctl_hdr* header) {
  kernel.object = header->object_id;
  kernel.method = header->method_id;
  for (ib_uverbs_attr& attribute : std::span(header->attrs, header->num_attrs)) {
    auto known = kernel.answers.find(attribute.attr_id);
    if (known == kernel.answers.end())
      kernel.attributes[attribute.attr_id] = attribute.data;
    else if (attribute.len == 0)  // an object's handle
      attribute.data = known->second;
    else
      std::memcpy(reinterpret_cast<void*>(attribute.data), &known->second, attribute.len);
  }
  kernel.awaits_ioctl = false;
  return 0;
}

// As with a kernel that has no ioctl() for it: /dev/null refuses that.
void expectWritten(uint32_t number, size_t size, const std::function<int()>& command) {
  kernel.awaits_write = true;
  EXPECT_EQ(command(), 0);
  EXPECT_FALSE(kernel.awaits_write) << "no command was written";
  kernel.awaits_write = false;
  kernel.answer = {};
  ASSERT_EQ(kernel.command.size(), size);
  ib_uverbs_cmd_hdr header = {};
  std::memcpy(&header, kernel.command.data(), sizeof(header));
  EXPECT_EQ(header.command, number);
  EXPECT_EQ(header.in_words * ((number & kExtended) != 0 ? 8 : 4),
            size - ((number & kExtended) != 0 ? sizeof(header) + sizeof(ib_uverbs_ex_cmd_hdr) : 0));
}

// With an answer.
template <typename Core>
void expectCommand(uint32_t number, const Core& answer, size_t size,
                   const std::function<int()>& command) {
  kernel.answer = std::as_bytes(std::span(&answer, 1));
  expectWritten(number, size, command);
}

// The core's part of the command that was written last.
template <typename Core>
Core sent(size_t headers = sizeof(ib_uverbs_cmd_hdr)) {
  Core core = {};
  if (kernel.command.size() < headers + sizeof(core))
    ADD_FAILURE() << "it is too short";
  else
    std::memcpy(&core, kernel.command.data() + headers, sizeof(core));
  return core;
}

template <typename Core>
Core sentExtended() {
  return sent<Core>(sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_ex_cmd_hdr));
}

void expectIoctl(uint16_t object, uint16_t method, std::map<uint16_t, uint64_t> answers,
                 const std::map<uint16_t, uint64_t>& attributes,
                 const std::function<int()>& command) {
  kernel.awaits_ioctl = true;
  kernel.answers = std::move(answers);
  kernel.attributes.clear();
  EXPECT_EQ(command(), 0);
  EXPECT_FALSE(kernel.awaits_ioctl) << "there was none";
  kernel.awaits_ioctl = false;
  EXPECT_EQ(kernel.object, object);
  EXPECT_EQ(kernel.method, method);
  EXPECT_EQ(kernel.attributes, attributes);
}

// Of a command that libibverbs makes by itself, without the padding of Request.
template <typename Core>
constexpr size_t sizeOf() {
  return sizeof(ib_uverbs_cmd_hdr) + sizeof(Core);
}

struct DriverData {
  uint64_t value;
};

// Attributes of the driver's own, as libibverbs' struct ibv_command_buffer has them.
struct DriverAttributes {
  DriverAttributes* next = nullptr;
  ib_uverbs_attr* next_attr = nullptr;
  ib_uverbs_attr* last_attr = nullptr;
  uint8_t places[4] = {0xff, 0xff, 0, 0};  // there is none of the old interface
  uint8_t flags = 0;
  struct {
    uint16_t length = 0;
    uint16_t object_id = 0;
    uint16_t method_id = 0;
    uint16_t num_attrs = 0;
    uint64_t reserved1 = 0;
    uint32_t driver_id = 0;
    uint32_t reserved2 = 0;
  } header;
  ib_uverbs_attr attribute = {};

  DriverAttributes(uint16_t object, uint16_t method, uint64_t value) {
    header.object_id = object;
    header.method_id = method;
    attribute.attr_id = kNumber;
    attribute.len = sizeof(value);
    attribute.data = value;
    next_attr = last_attr = &attribute + 1;
  }
  DriverAttributes(const DriverAttributes&) = delete;
  DriverAttributes& operator=(const DriverAttributes&) = delete;
  ~DriverAttributes() = default;

  ibv_command_buffer* get() { return reinterpret_cast<ibv_command_buffer*>(this); }

  // The first of the driver's namespace.
  static constexpr uint16_t kNumber = 1U << 12;
};
static_assert(offsetof(DriverAttributes, header) == 32);
static_assert(offsetof(DriverAttributes, attribute) == 32 + sizeof(ib_uverbs_ioctl_hdr));

class CommandConformanceTest : public testing::Test {
 public:
  CommandConformanceTest(const CommandConformanceTest&) = delete;
  CommandConformanceTest& operator=(const CommandConformanceTest&) = delete;

 protected:
  CommandConformanceTest() {
    kernel = {};
    ops_.name = "conformance";
    device_.ops = &ops_;
    device_.sysfs = &sysfs_;
    device_.references = 1;
    context_ = newContext(&device_.device, nullDevice());
    if (context_ == nullptr) std::abort();
    base_ = &context_->context;
    pd_.context = base_;
    pd_.handle = 101;
    other_pd_.context = base_;
    other_pd_.handle = 102;
    cq_.cq.context = base_;
    cq_.cq.handle = 103;
    qp_.qp.context = base_;
    qp_.qp.handle = 104;
    qp_.qp.qp_type = IBV_QPT_RC;
    srq_.context = base_;
    srq_.handle = 105;
    mr_.mr.context = base_;
    mr_.mr.handle = 106;
    mw_.context = base_;
    mw_.handle = 107;
  }

  ~CommandConformanceTest() override {
    verbs_uninit_context(context_);
    std::free(context_);
  }

  pabi::DeviceOps ops_{};
  pabi::SysfsDevice sysfs_{};
  pabi::Device device_{};
  verbs_context* context_ = nullptr;
  ibv_context* base_ = nullptr;
  ibv_pd pd_{};
  ibv_pd other_pd_{};
  pabi::Cq cq_{};
  pabi::Qp qp_{};
  ibv_srq srq_{};
  pabi::Mr mr_{};
  ibv_mw mw_{};
};

TEST_F(CommandConformanceTest, OfAContext) {
  pabi::Request<ib_uverbs_get_context> request;
  pabi::Response<ib_uverbs_get_context_resp, DriverData> response;
  const int async_fd = nullDevice();
  ib_uverbs_get_context_resp answer = {};
  answer.async_fd = static_cast<uint32_t>(async_fd);
  answer.num_comp_vectors = 7;
  expectCommand(IB_USER_VERBS_CMD_GET_CONTEXT, answer, sizeof(request), [&] {
    return pabi::getContext(context_, &request, sizeof(request), response.core(), sizeof(response));
  });
  EXPECT_EQ(base_->num_comp_vectors, 7);
  EXPECT_EQ(base_->async_fd, async_fd);

  DriverAttributes driver(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, 0x1122334455667788);
  expectIoctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
              {{UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 9},
               {UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 0x8877665544332211}},
              {{DriverAttributes::kNumber, 0x1122334455667788}},
              [&] { return ibv_cmd_query_context(base_, driver.get()); });
  EXPECT_EQ(base_->num_comp_vectors, 9);
  EXPECT_EQ(device_.core_support, 0x8877665544332211);
}

TEST_F(CommandConformanceTest, OfADevice) {
  ib_uverbs_ex_query_device_resp answer = {};
  answer.base.max_qp = 1001;
  answer.timestamp_mask = 1002;
  answer.response_length = sizeof(answer);
  ib_uverbs_ex_query_device_resp response = {};
  size_t size = sizeof(response);
  ibv_device_attr_ex attr = {};
  const ibv_query_device_ex_input input = {};
  expectCommand(IB_USER_VERBS_EX_CMD_QUERY_DEVICE | kExtended, answer,
                sizeof(pabi::ExRequest<ib_uverbs_ex_query_device>), [&] {
                  return ibv_cmd_query_device_any(base_, &input, &attr, sizeof(attr), &response,
                                                  &size);
                });
  EXPECT_EQ(attr.orig_attr.max_qp, 1001);
  EXPECT_EQ(attr.completion_timestamp_mask, 1002U);
  EXPECT_EQ(response.timestamp_mask, 1002U);
  EXPECT_EQ(size, sizeof(answer));

  pabi::Request<ib_uverbs_query_port> request;
  ib_uverbs_query_port_resp port = {};
  port.max_msg_sz = 1003;
  port.active_mtu = IBV_MTU_1024;
  ibv_port_attr port_attr = {};
  expectCommand(IB_USER_VERBS_CMD_QUERY_PORT, port, sizeof(request), [&] {
    return ibv_cmd_query_port(base_, 3, &port_attr, &request, sizeof(request));
  });
  EXPECT_EQ(sent<ib_uverbs_query_port>().port_num, 3);
  EXPECT_EQ(port_attr.max_msg_sz, 1003U);
  EXPECT_EQ(port_attr.active_mtu, IBV_MTU_1024);
}

TEST_F(CommandConformanceTest, OfProtectionDomains) {
  ibv_pd pd = {};
  pabi::Request<ib_uverbs_alloc_pd> request;
  pabi::PlainResponse<ib_uverbs_alloc_pd_resp> response;
  ib_uverbs_alloc_pd_resp answer = {};
  answer.pd_handle = 11;
  expectCommand(IB_USER_VERBS_CMD_ALLOC_PD, answer, sizeof(request), [&] {
    return ibv_cmd_alloc_pd(base_, &pd, &request, sizeof(request), response.core(),
                            sizeof(response));
  });
  EXPECT_EQ(pd.handle, 11U);
  EXPECT_EQ(pd.context, base_);

  expectWritten(IB_USER_VERBS_CMD_DEALLOC_PD, sizeOf<ib_uverbs_dealloc_pd>(),
                [&] { return ibv_cmd_dealloc_pd(&pd); });
  EXPECT_EQ(sent<ib_uverbs_dealloc_pd>().pd_handle, 11U);
}

TEST_F(CommandConformanceTest, OfRegions) {
  std::byte memory[64];
  pabi::Mr mr = {};
  pabi::Request<ib_uverbs_reg_mr> request;
  pabi::PlainResponse<ib_uverbs_reg_mr_resp> response;
  ib_uverbs_reg_mr_resp answer = {};
  answer.mr_handle = 12;
  answer.lkey = 17;
  answer.rkey = 13;
  expectCommand(IB_USER_VERBS_CMD_REG_MR, answer, sizeof(request), [&] {
    return ibv_cmd_reg_mr(&pd_, memory, sizeof(memory), 4097, IBV_ACCESS_LOCAL_WRITE, &mr, &request,
                          sizeof(request), response.core(), sizeof(response));
  });
  const auto reg = sent<ib_uverbs_reg_mr>();
  EXPECT_EQ(reg.start, reinterpret_cast<uint64_t>(memory));
  EXPECT_EQ(reg.length, sizeof(memory));
  EXPECT_EQ(reg.hca_va, 4097U);
  EXPECT_EQ(reg.pd_handle, pd_.handle);
  EXPECT_EQ(reg.access_flags, unsigned{IBV_ACCESS_LOCAL_WRITE});
  EXPECT_EQ(mr.mr.handle, 12U);
  EXPECT_EQ(mr.mr.lkey, 17U);
  EXPECT_EQ(mr.mr.rkey, 13U);
  EXPECT_EQ(mr.access, IBV_ACCESS_LOCAL_WRITE);

  pabi::Request<ib_uverbs_rereg_mr> again;
  pabi::PlainResponse<ib_uverbs_rereg_mr_resp> new_keys;
  ib_uverbs_rereg_mr_resp keys = {};
  keys.lkey = 18;
  keys.rkey = 19;
  expectCommand(IB_USER_VERBS_CMD_REREG_MR, keys, sizeof(again), [&] {
    return ibv_cmd_rereg_mr(&mr, IBV_REREG_MR_CHANGE_PD, memory + 1, 62, 4098,
                            IBV_ACCESS_REMOTE_READ, &other_pd_, &again, sizeof(again),
                            new_keys.core(), sizeof(new_keys));
  });
  const auto rereg = sent<ib_uverbs_rereg_mr>();
  EXPECT_EQ(rereg.mr_handle, 12U);
  EXPECT_EQ(rereg.flags, unsigned{IBV_REREG_MR_CHANGE_PD});
  EXPECT_EQ(rereg.start, reinterpret_cast<uint64_t>(memory + 1));
  EXPECT_EQ(rereg.length, 62U);
  EXPECT_EQ(rereg.hca_va, 4098U);
  EXPECT_EQ(rereg.pd_handle, other_pd_.handle);
  EXPECT_EQ(rereg.access_flags, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(mr.mr.lkey, 18U);
  EXPECT_EQ(mr.mr.rkey, 19U);

  expectWritten(IB_USER_VERBS_CMD_DEREG_MR, sizeOf<ib_uverbs_dereg_mr>(),
                [&] { return ibv_cmd_dereg_mr(&mr); });
  EXPECT_EQ(sent<ib_uverbs_dereg_mr>().mr_handle, 12U);
}

TEST_F(CommandConformanceTest, OfRegionsOfOthers) {
  pabi::Mr imported = {};
  expectIoctl(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR,
              {{UVERBS_ATTR_QUERY_MR_RESP_LKEY, 21},
               {UVERBS_ATTR_QUERY_MR_RESP_RKEY, 22},
               {UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 1ULL << 33}},
              {{UVERBS_ATTR_QUERY_MR_HANDLE, 20}},
              [&] { return ibv_cmd_query_mr(&pd_, &imported, 20); });
  EXPECT_EQ(imported.mr.handle, 20U);
  EXPECT_EQ(imported.mr.lkey, 21U);
  EXPECT_EQ(imported.mr.rkey, 22U);
  EXPECT_EQ(imported.mr.length, 1ULL << 33);
  EXPECT_EQ(imported.mr.pd, &pd_);

  const std::map<uint16_t, uint64_t> answers = {{UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 23},
                                                {UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 24},
                                                {UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 25}};
  std::map<uint16_t, uint64_t> attributes = {
      {UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd_.handle},
      {UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 26},
      {UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 27},
      {UVERBS_ATTR_REG_DMABUF_MR_IOVA, 28},
      {UVERBS_ATTR_REG_DMABUF_MR_FD, 29},
      {UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, IBV_ACCESS_REMOTE_READ}};
  pabi::Mr mr = {};
  expectIoctl(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, answers, attributes,
              [&] { return pabi::regDmabufMr(&pd_, 26, 27, 28, 29, IBV_ACCESS_REMOTE_READ, &mr); });
  EXPECT_EQ(mr.mr.handle, 23U);
  EXPECT_EQ(mr.mr.lkey, 24U);
  EXPECT_EQ(mr.mr.rkey, 25U);
  EXPECT_EQ(mr.mr.length, 27U);

#if KIWARP_PABI_FIRST >= 54
  DriverAttributes driver(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, 0x1122334455667788);
  attributes[DriverAttributes::kNumber] = 0x1122334455667788;
  expectIoctl(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, answers, attributes, [&] {
    return ibv_cmd_reg_dmabuf_mr(&pd_, 26, 27, 28, 29, IBV_ACCESS_REMOTE_READ, &mr, driver.get());
  });
#endif
}

TEST_F(CommandConformanceTest, OfWindows) {
  ibv_mw mw = {};
  pabi::Request<ib_uverbs_alloc_mw> request;
  pabi::PlainResponse<ib_uverbs_alloc_mw_resp> response;
  ib_uverbs_alloc_mw_resp answer = {};
  answer.mw_handle = 31;
  answer.rkey = 32;
  expectCommand(IB_USER_VERBS_CMD_ALLOC_MW, answer, sizeof(request), [&] {
    return ibv_cmd_alloc_mw(&pd_, IBV_MW_TYPE_2, &mw, &request, sizeof(request), response.core(),
                            sizeof(response));
  });
  EXPECT_EQ(sent<ib_uverbs_alloc_mw>().pd_handle, pd_.handle);
  EXPECT_EQ(sent<ib_uverbs_alloc_mw>().mw_type, IBV_MW_TYPE_2);
  EXPECT_EQ(mw.handle, 31U);
  EXPECT_EQ(mw.rkey, 32U);
  EXPECT_EQ(mw.type, IBV_MW_TYPE_2);

  expectWritten(IB_USER_VERBS_CMD_DEALLOC_MW, sizeOf<ib_uverbs_dealloc_mw>(),
                [&] { return ibv_cmd_dealloc_mw(&mw); });
  EXPECT_EQ(sent<ib_uverbs_dealloc_mw>().mw_handle, 31U);
}

TEST_F(CommandConformanceTest, ThatMakeCompletionQueues) {
  pabi::Cq cq = {};
  pabi::Request<ib_uverbs_create_cq> request;
  pabi::Response<ib_uverbs_create_cq_resp, DriverData> response;
  ib_uverbs_create_cq_resp answer = {};
  answer.cq_handle = 14;
  answer.cqe = 63;
  ibv_comp_channel channel = {};
  channel.fd = 97;
  base_->num_comp_vectors = 8;
  expectCommand(IB_USER_VERBS_CMD_CREATE_CQ, answer, sizeof(request), [&] {
    return ibv_cmd_create_cq(base_, 50, &channel, 5, &cq.cq, &request, sizeof(request),
                             response.core(), sizeof(response));
  });
  const auto create = sent<ib_uverbs_create_cq>();
  EXPECT_EQ(create.cqe, 50U);
  EXPECT_EQ(create.comp_channel, 97);
  EXPECT_EQ(create.comp_vector, 5U);
  EXPECT_EQ(create.user_handle, reinterpret_cast<uint64_t>(&cq));
  EXPECT_EQ(cq.cq.handle, 14U);
  EXPECT_EQ(cq.cq.cqe, 63);

  pabi::Cq cq_ex = {};
  const ibv_cq_init_attr_ex attr = {.cqe = 51,
                                    .cq_context = nullptr,
                                    .channel = &channel,
                                    .comp_vector = 6,
                                    .wc_flags = 0,
                                    .comp_mask = 0,
                                    .flags = 0,
                                    .parent_domain = nullptr};
  pabi::ExRequest<ib_uverbs_ex_create_cq> request_ex;
  pabi::Response<ib_uverbs_ex_create_cq_resp, DriverData> response_ex;
  ib_uverbs_ex_create_cq_resp answer_ex = {};
  answer_ex.base.cq_handle = 18;
  answer_ex.base.cqe = 62;
  // Without flags libibverbs takes the plain command.
  expectCommand(IB_USER_VERBS_CMD_CREATE_CQ, answer_ex, sizeof(request), [&] {
    return pabi::createCqEx(base_, &attr, &cq_ex, &request_ex, sizeof(request_ex),
                            response_ex.core(), sizeof(response_ex), 0);
  });
  EXPECT_EQ(sent<ib_uverbs_create_cq>().cqe, 51U);
  EXPECT_EQ(sent<ib_uverbs_create_cq>().comp_vector, 6U);
  EXPECT_EQ(cq_ex.cq.handle, 18U);
  EXPECT_EQ(cq_ex.cq.cqe, 62);
}

TEST_F(CommandConformanceTest, OfCompletionQueues) {
  pabi::Request<ib_uverbs_resize_cq> resize;
  pabi::PlainResponse<ib_uverbs_resize_cq_resp> resized;
  ib_uverbs_resize_cq_resp answer = {};
  answer.cqe = 127;
  expectCommand(IB_USER_VERBS_CMD_RESIZE_CQ, answer, sizeof(resize), [&] {
    return ibv_cmd_resize_cq(&cq_.cq, 100, &resize, sizeof(resize), resized.core(),
                             sizeof(resized));
  });
  EXPECT_EQ(sent<ib_uverbs_resize_cq>().cq_handle, cq_.cq.handle);
  EXPECT_EQ(sent<ib_uverbs_resize_cq>().cqe, 100U);
  EXPECT_EQ(cq_.cq.cqe, 127);

  pabi::ExRequest<ib_uverbs_ex_modify_cq> modify;
  ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                             .moderate = {.cq_count = 41, .cq_period = 42}};
  expectWritten(IB_USER_VERBS_EX_CMD_MODIFY_CQ | kExtended, sizeof(modify),
                [&] { return ibv_cmd_modify_cq(&cq_.cq, &attr, &modify, sizeof(modify)); });
  const auto modified = sentExtended<ib_uverbs_ex_modify_cq>();
  EXPECT_EQ(modified.cq_handle, cq_.cq.handle);
  EXPECT_EQ(modified.attr_mask, unsigned{IBV_CQ_ATTR_MODERATE});
  EXPECT_EQ(modified.attr.cq_count, 41);
  EXPECT_EQ(modified.attr.cq_period, 42);

  // It waits until these events were acknowledged.
  cq_.cq.comp_events_completed = 43;
  cq_.cq.async_events_completed = 44;
  expectCommand(IB_USER_VERBS_CMD_DESTROY_CQ,
                ib_uverbs_destroy_cq_resp{.comp_events_reported = 43, .async_events_reported = 44},
                sizeOf<ib_uverbs_destroy_cq>(), [&] { return ibv_cmd_destroy_cq(&cq_.cq); });
  EXPECT_EQ(sent<ib_uverbs_destroy_cq>().cq_handle, cq_.cq.handle);
}

TEST_F(CommandConformanceTest, OfQueuePairs) {
  pabi::Qp qp = {};
  ibv_qp_init_attr_ex init = {};
  init.comp_mask = IBV_QP_INIT_ATTR_PD;
  init.pd = &pd_;
  init.send_cq = &cq_.cq;
  init.recv_cq = &cq_.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = 51;
  pabi::Request<ib_uverbs_create_qp> create;
  pabi::Response<ib_uverbs_create_qp_resp, DriverData> created;
  ib_uverbs_create_qp_resp answer = {};
  answer.qp_handle = 15;
  answer.qpn = 16;
  expectCommand(IB_USER_VERBS_CMD_CREATE_QP, answer, sizeof(create), [&] {
    return ibv_cmd_create_qp_ex(base_, &qp, &init, &create, sizeof(create), created.core(),
                                sizeof(created));
  });
  EXPECT_EQ(sent<ib_uverbs_create_qp>().pd_handle, pd_.handle);
  EXPECT_EQ(sent<ib_uverbs_create_qp>().max_send_wr, 51U);
  EXPECT_EQ(qp.qp.handle, 15U);
  EXPECT_EQ(qp.qp.qp_num, 16U);
  EXPECT_EQ(qp.qp.send_cq, &cq_.cq);

  pabi::Request<ib_uverbs_modify_qp> modify;
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  attr.max_rd_atomic = 52;
  expectWritten(IB_USER_VERBS_CMD_MODIFY_QP, sizeof(modify), [&] {
    return ibv_cmd_modify_qp(&qp.qp, &attr, IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC, &modify,
                             sizeof(modify));
  });
  const auto modified = sent<ib_uverbs_modify_qp>();
  EXPECT_EQ(modified.qp_handle, 15U);
  EXPECT_EQ(modified.attr_mask, unsigned{IBV_QP_STATE | IBV_QP_MAX_QP_RD_ATOMIC});
  EXPECT_EQ(modified.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(modified.max_rd_atomic, 52);

  pabi::Request<ib_uverbs_query_qp> query;
  ib_uverbs_query_qp_resp state = {};
  state.qp_state = IBV_QPS_RTS;
  state.max_recv_sge = 53;
  ibv_qp_init_attr queried = {};
  expectCommand(IB_USER_VERBS_CMD_QUERY_QP, state, sizeof(query), [&] {
    return ibv_cmd_query_qp(&qp.qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &queried, &query,
                            sizeof(query));
  });
  EXPECT_EQ(sent<ib_uverbs_query_qp>().qp_handle, 15U);
  EXPECT_EQ(sent<ib_uverbs_query_qp>().attr_mask, unsigned{IBV_QP_STATE | IBV_QP_CAP});
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.cap.max_recv_sge, 53U);
  EXPECT_EQ(queried.cap.max_recv_sge, 53U);
  EXPECT_EQ(queried.send_cq, &cq_.cq);

  qp.qp.events_completed = 54;
  expectCommand(IB_USER_VERBS_CMD_DESTROY_QP, ib_uverbs_destroy_qp_resp{.events_reported = 54},
                sizeOf<ib_uverbs_destroy_qp>(), [&] { return ibv_cmd_destroy_qp(&qp.qp); });
  EXPECT_EQ(sent<ib_uverbs_destroy_qp>().qp_handle, 15U);
}

TEST_F(CommandConformanceTest, ThatPost) {
  ibv_sge sge = {.addr = 61, .length = 62, .lkey = 63};
  ibv_send_wr second = {};
  second.wr_id = 64;
  second.opcode = IBV_WR_SEND;
  ibv_send_wr first = {};
  first.wr_id = 65;
  first.opcode = IBV_WR_SEND;
  first.next = &second;
  first.sg_list = &sge;
  first.num_sge = 1;
  ibv_send_wr* bad_send = nullptr;
  constexpr size_t kHeader = sizeof(ib_uverbs_cmd_hdr);
  constexpr size_t kSend = kHeader + sizeof(ib_uverbs_post_send);
  expectCommand(IB_USER_VERBS_CMD_POST_SEND, ib_uverbs_post_send_resp{.bad_wr = 2},
                kSend + 2 * sizeof(ib_uverbs_send_wr) + sizeof(sge),
                [&] { return ibv_cmd_post_send(&qp_.qp, &first, &bad_send); });
  EXPECT_EQ(sent<ib_uverbs_post_send>().qp_handle, qp_.qp.handle);
  EXPECT_EQ(sent<ib_uverbs_post_send>().wr_count, 2U);
  EXPECT_EQ(sent<ib_uverbs_send_wr>(kSend).wr_id, 65U);
  EXPECT_EQ(bad_send, &second);

  ibv_recv_wr receive = {};
  receive.wr_id = 66;
  receive.sg_list = &sge;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  constexpr size_t kReceive = kHeader + sizeof(ib_uverbs_post_recv);
  expectCommand(IB_USER_VERBS_CMD_POST_RECV, ib_uverbs_post_recv_resp{.bad_wr = 1},
                kReceive + sizeof(ib_uverbs_recv_wr) + sizeof(sge),
                [&] { return ibv_cmd_post_recv(&qp_.qp, &receive, &bad_receive); });
  EXPECT_EQ(sent<ib_uverbs_post_recv>().qp_handle, qp_.qp.handle);
  EXPECT_EQ(sent<ib_uverbs_recv_wr>(kReceive).wr_id, 66U);
  EXPECT_EQ(bad_receive, &receive);
}

TEST_F(CommandConformanceTest, OfSharedReceiveQueues) {
  ibv_srq srq = {};
  srq.context = base_;
  pabi::Request<ib_uverbs_create_srq> create;
  pabi::Response<ib_uverbs_create_srq_resp, DriverData> created;
  ibv_srq_init_attr init = {};
  init.attr.max_wr = 71;
  init.attr.max_sge = 3;
  init.attr.srq_limit = 2;
  ib_uverbs_create_srq_resp answer = {};
  answer.srq_handle = 72;
  expectCommand(IB_USER_VERBS_CMD_CREATE_SRQ, answer, sizeof(create), [&] {
    return ibv_cmd_create_srq(&pd_, &srq, &init, &create, sizeof(create), created.core(),
                              sizeof(created));
  });
  const auto made = sent<ib_uverbs_create_srq>();
  EXPECT_EQ(made.user_handle, reinterpret_cast<uint64_t>(&srq));
  EXPECT_EQ(made.pd_handle, pd_.handle);
  EXPECT_EQ(made.max_wr, 71U);
  EXPECT_EQ(made.max_sge, 3U);
  EXPECT_EQ(made.srq_limit, 2U);
  EXPECT_EQ(srq.handle, 72U);

  pabi::Request<ib_uverbs_modify_srq> modify;
  ibv_srq_attr attr = {.max_wr = 73, .max_sge = 0, .srq_limit = 74};
  expectWritten(IB_USER_VERBS_CMD_MODIFY_SRQ, sizeof(modify), [&] {
    return ibv_cmd_modify_srq(&srq_, &attr, IBV_SRQ_LIMIT, &modify, sizeof(modify));
  });
  const auto modified = sent<ib_uverbs_modify_srq>();
  EXPECT_EQ(modified.srq_handle, srq_.handle);
  EXPECT_EQ(modified.attr_mask, unsigned{IBV_SRQ_LIMIT});
  EXPECT_EQ(modified.max_wr, 73U);
  EXPECT_EQ(modified.srq_limit, 74U);

  pabi::Request<ib_uverbs_query_srq> query;
  ib_uverbs_query_srq_resp state = {};
  state.max_wr = 75;
  state.max_sge = 76;
  state.srq_limit = 77;
  expectCommand(IB_USER_VERBS_CMD_QUERY_SRQ, state, sizeof(query),
                [&] { return ibv_cmd_query_srq(&srq_, &attr, &query, sizeof(query)); });
  EXPECT_EQ(sent<ib_uverbs_query_srq>().srq_handle, srq_.handle);
  EXPECT_EQ(attr.max_wr, 75U);
  EXPECT_EQ(attr.max_sge, 76U);
  EXPECT_EQ(attr.srq_limit, 77U);

  srq_.events_completed = 78;
  expectCommand(IB_USER_VERBS_CMD_DESTROY_SRQ, ib_uverbs_destroy_srq_resp{.events_reported = 78},
                sizeOf<ib_uverbs_destroy_srq>(), [&] { return ibv_cmd_destroy_srq(&srq_); });
  EXPECT_EQ(sent<ib_uverbs_destroy_srq>().srq_handle, srq_.handle);
}

std::string textOf(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A function that this file does not call might have other parameters.
TEST_F(CommandConformanceTest, AllThatAreDeclared) {
  const std::string declared = textOf(KIWARP_FUNCTIONS);
  const std::string here = textOf(KIWARP_COMMANDS_TEST);
  const std::regex declaration("\nint ibv_cmd_([a-z_]+)\\(");
  std::set<std::string> names;
  for (std::sregex_iterator i(declared.begin(), declared.end(), declaration), end; i != end; ++i)
    names.insert((*i)[1]);
  EXPECT_GT(names.size(), 20U);
  for (const std::string& name : names) {
    // Of some, functions.h has one function for every release: getContext().
    std::string wrapper;
    for (size_t i = 0; i < name.size(); ++i)
      wrapper += name[i] == '_' ? static_cast<char>(std::toupper(name[++i])) : name[i];
    EXPECT_TRUE(here.find("return ibv_cmd_" + name + "(") != std::string::npos ||
                here.find("return pabi::" + wrapper + "(") != std::string::npos)
        << name << " is not called";
  }
}

}  // namespace
}  // namespace kiwarp::test

// These replace the C library's functions for libibverbs: what it tells the device while the test's
// kernel waits goes there.
extern "C" {

__attribute__((visibility("default"))) ssize_t write(int fd, const void* data, size_t size) {
  if (kiwarp::test::kernel.awaits_write) return kiwarp::test::answerWrite(data, size);
  return syscall(SYS_write, fd, data, size);
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  auto* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (kiwarp::test::kernel.awaits_ioctl && request == RDMA_VERBS_IOCTL)
    return kiwarp::test::answerIoctl(static_cast<ib_uverbs_ioctl_hdr*>(argument));
  return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
}

}  // extern "C"
