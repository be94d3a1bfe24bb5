// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Whether pabi/ describes the installed libibverbs. What is passed to the library in our layout
// must appear where the public header says, or be called by its public function.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/kiwarp-abi.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "fake_device.h"

namespace kiwarp::test {
namespace {

using pabi::Op;
using Slot = pabi::ContextOps::Slot;

// clang-format off

// The verbs that libibverbs copies to public members of verbs_context ...
#define EXTENDED_SLOTS(X)                                                                      \
  X(advise_mr) X(alloc_dm) X(alloc_null_mr) X(alloc_parent_domain) X(alloc_td)                 \
  X(attach_counters_point_flow) X(close_xrcd) X(create_counters) X(create_flow_action_esp)     \
  X(create_qp_ex) X(create_rwq_ind_table) X(create_srq_ex) X(create_wq) X(dealloc_td)          \
  X(destroy_counters) X(destroy_flow_action) X(destroy_rwq_ind_table) X(destroy_wq) X(free_dm) \
  X(get_srq_num) X(modify_cq) X(modify_flow_action_esp) X(modify_qp_rate_limit) X(modify_wq)   \
  X(open_qp) X(open_xrcd) X(post_srq_ops) X(query_device_ex) X(query_rt_values)                \
  X(read_counters) X(reg_dm_mr)                                                                \
  KIWARP_PABI_SINCE_59(X(alloc_dmah) X(dealloc_dmah) X(reg_mr_ex))                             \
  KIWARP_PABI_SINCE_62(X(dm_export_dmabuf_fd))                                                 \
  KIWARP_PABI_SINCE_64(X(alloc_buf) X(free_buf))

// ... to members of ibv_context::ops ...
#define FAST_SLOTS(X)                                                                          \
  X(alloc_mw) X(bind_mw) X(dealloc_mw) X(poll_cq) X(post_recv) X(post_send) X(post_srq_recv)   \
  X(req_notify_cq)

// ... and to those of them that only old applications use.
#define COMPAT_SLOTS(X)                                                                        \
  X(alloc_pd) X(async_event) X(attach_mcast) X(cq_event) X(create_ah) X(create_cq)             \
  X(create_qp) X(create_srq) X(dealloc_pd) X(dereg_mr) X(destroy_ah) X(destroy_cq)             \
  X(destroy_qp) X(destroy_srq) X(detach_mcast) X(modify_qp) X(modify_srq) X(query_qp)          \
  X(query_srq) X(reg_mr) X(rereg_mr) X(resize_cq)

// clang-format on

// NOLINTNEXTLINE(bugprone-macro-parentheses): a term of a sum
#define PLUS_ONE(op) +1
constexpr size_t kPublicSlots =
    EXTENDED_SLOTS(PLUS_ONE) FAST_SLOTS(PLUS_ONE) COMPAT_SLOTS(PLUS_ONE) + 2;
// The others; each of them is called.
constexpr size_t kPrivateSlots = pabi::kOpCount - kPublicSlots;

// Never called, only compared.
Slot markerOf(size_t index) {
  return reinterpret_cast<Slot>(0x1000 + index * 16);  // NOLINT(performance-no-int-to-ptr)
}

// What the fake device's functions report, reset by each test.
struct Seen {
  std::string last;
  void* private_data = nullptr;
  int uninit_calls = 0;
  pabi::Device* uninit_device = nullptr;
  void (*prepare)(verbs_context*) = nullptr;
} seen;

verbs_context* allocContext(ibv_device* device, int fd, void* private_data) {
  seen.last = "alloc_context";
  seen.private_data = private_data;
  verbs_context* context = newContext(device, fd);
  if (context == nullptr) return nullptr;
  context->context.async_fd = nullDevice();
  if (seen.prepare != nullptr) seen.prepare(context);
  return context;
}

void uninitDevice(pabi::Device* device) {
  ++seen.uninit_calls;
  seen.uninit_device = device;
}

class ConformanceTest : public testing::Test {
 protected:
  ConformanceTest() {
    seen = {};
    ops_.name = "conformance";
    ops_.alloc_context = allocContext;
    ops_.uninit_device = uninitDevice;
    device_.ops = &ops_;
    device_.references = 1;
    std::strcpy(device_.device.name, "fake0");
  }

  pabi::DeviceOps ops_{};
  pabi::Device device_{};
};

#define COUNT_IF_EQUAL(op, value)                                           \
  EXPECT_EQ(reinterpret_cast<void*>(value),                                 \
            reinterpret_cast<void*>(markerOf(static_cast<size_t>(Op::op)))) \
      << #op;                                                               \
  agreeing += reinterpret_cast<void*>(value) ==                             \
              reinterpret_cast<void*>(markerOf(static_cast<size_t>(Op::op)));

TEST_F(ConformanceTest, EverySlotOfTheTableThatIsPublic) {
  verbs_context* context = newContext(&device_.device, nullDevice());
  ASSERT_NE(context, nullptr);
  pabi::ContextOps table;
  for (size_t i = 0; i < pabi::kOpCount; ++i) table.setRaw(i, markerOf(i));
  verbs_set_ops(context, &table);

  size_t agreeing = 0;
#define CHECK_EXTENDED(op) COUNT_IF_EQUAL(op, context->op)
#define CHECK_FAST(op) COUNT_IF_EQUAL(op, context->context.ops.op)
#define CHECK_COMPAT(op) COUNT_IF_EQUAL(op, context->context.ops._compat_##op)
  EXTENDED_SLOTS(CHECK_EXTENDED)
  FAST_SLOTS(CHECK_FAST)
  COMPAT_SLOTS(CHECK_COMPAT)
  COUNT_IF_EQUAL(create_flow, context->ibv_create_flow)
  COUNT_IF_EQUAL(destroy_flow, context->ibv_destroy_flow)
  EXPECT_EQ(agreeing, kPublicSlots);
  RecordProperty("agreeing_slots", static_cast<int>(agreeing));

  verbs_uninit_context(context);
  std::free(context);
}

TEST_F(ConformanceTest, NullSlotsAreLeftAlone) {
  verbs_context* context = newContext(&device_.device, nullDevice());
  ASSERT_NE(context, nullptr);
  pabi::ContextOps first;
  for (size_t i = 0; i < pabi::kOpCount; ++i) first.setRaw(i, markerOf(i));
  verbs_set_ops(context, &first);
  pabi::ContextOps second;
  second.setRaw(static_cast<size_t>(Op::poll_cq), markerOf(1000));
  verbs_set_ops(context, &second);
  EXPECT_EQ(reinterpret_cast<Slot>(context->context.ops.poll_cq), markerOf(1000));
  EXPECT_EQ(reinterpret_cast<Slot>(context->context.ops.post_send),
            markerOf(static_cast<size_t>(Op::post_send)));
  verbs_uninit_context(context);
  std::free(context);
}

TEST_F(ConformanceTest, ContextIsInitialised) {
  // With room before it, as for a provider whose structure doesn't start with the context.
  constexpr size_t kOffset = 64;
  int fd = nullDevice();
  auto* memory = static_cast<std::byte*>(
      _verbs_init_and_alloc_context(&device_.device, fd, kOffset + sizeof(verbs_context),
                                    reinterpret_cast<verbs_context*>(kOffset),  // NOLINT: an offset
                                    KIWARP_DRIVER_ID));
  ASSERT_NE(memory, nullptr);
  auto* context = reinterpret_cast<verbs_context*>(memory + kOffset);
  EXPECT_EQ(context->sz, sizeof(verbs_context));
  EXPECT_EQ(context->context.device, &device_.device);
  EXPECT_EQ(context->context.cmd_fd, fd);
  EXPECT_EQ(context->context.async_fd, -1);
  EXPECT_NE(context->priv, nullptr);
  // libibverbs counts its references in our structure.
  EXPECT_EQ(device_.references, 2);
  verbs_uninit_context(context);
  EXPECT_EQ(device_.references, 1);
  EXPECT_EQ(seen.uninit_calls, 0);
  EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "the file belongs to the context";
  std::free(memory);
}

TEST_F(ConformanceTest, LastReferenceReleasesTheDevice) {
  device_.references = 0;
  device_.sysfs = static_cast<pabi::SysfsDevice*>(std::malloc(sizeof(pabi::SysfsDevice)));
  verbs_context* context = newContext(&device_.device, nullDevice());
  ASSERT_NE(context, nullptr);
  verbs_uninit_context(context);
  EXPECT_EQ(seen.uninit_calls, 1);
  EXPECT_EQ(seen.uninit_device, &device_);
  std::free(context);
}

// The verbs without a public member, called through the library's functions. Each of them fails
// or returns a value of its own, and stores its name.
void prepareHiddenVerbs(verbs_context* context) {
  pabi::ContextOps ops;
  ops.set<Op::create_cq_ex>([](ibv_context*, ibv_cq_init_attr_ex*) -> ibv_cq_ex* {
    seen.last = "create_cq_ex";
    return nullptr;
  });
  ops.set<Op::free_context>([](ibv_context* freed) {
    seen.last = "free_context";
    verbs_context* extended = verbs_get_ctx(freed);
    verbs_uninit_context(extended);
    std::free(extended);
  });
  ops.set<Op::import_dm>([](ibv_context*, uint32_t) -> ibv_dm* {
    seen.last = "import_dm";
    return nullptr;
  });
  ops.set<Op::import_mr>([](ibv_pd*, uint32_t) -> ibv_mr* {
    seen.last = "import_mr";
    return nullptr;
  });
  ops.set<Op::import_pd>([](ibv_context*, uint32_t) -> ibv_pd* {
    seen.last = "import_pd";
    return nullptr;
  });
  ops.set<Op::query_ece>([](ibv_qp*, ibv_ece*) {
    seen.last = "query_ece";
    return 71;
  });
  ops.set<Op::query_port>([](ibv_context*, uint8_t port, ibv_port_attr*) {
    seen.last = "query_port";
    return 70 + port;
  });
  ops.set<Op::query_qp_data_in_order>([](ibv_qp*, ibv_wr_opcode, uint32_t) {
    seen.last = "query_qp_data_in_order";
    return 1;
  });
  ops.set<Op::reg_dmabuf_mr>([](ibv_pd*, uint64_t, size_t, uint64_t, int, int) -> ibv_mr* {
    seen.last = "reg_dmabuf_mr";
    return nullptr;
  });
  ops.set<Op::set_ece>([](ibv_qp*, ibv_ece*) {
    seen.last = "set_ece";
    return 74;
  });
  ops.set<Op::unimport_dm>([](ibv_dm*) { seen.last = "unimport_dm"; });
  ops.set<Op::unimport_mr>([](ibv_mr*) { seen.last = "unimport_mr"; });
  ops.set<Op::unimport_pd>([](ibv_pd*) { seen.last = "unimport_pd"; });
#if KIWARP_PABI_FIRST >= 62
  ops.set<Op::query_port_speed>([](ibv_context*, uint32_t port, uint64_t*) {
    seen.last = "query_port_speed";
    return 80 + static_cast<int>(port);
  });
#endif
  verbs_set_ops(context, &ops);
}

#if KIWARP_PABI_FIRST >= 65
// The verbs for completion counters.
void prepareCounterVerbs(verbs_context* context) {
  pabi::ContextOps ops;
  ops.set<Op::create_comp_cntr>([](ibv_context*, ibv_comp_cntr_init_attr*) -> ibv_comp_cntr* {
    seen.last = "create_comp_cntr";
    return nullptr;
  });
  ops.set<Op::destroy_comp_cntr>([](ibv_comp_cntr*) {
    seen.last = "destroy_comp_cntr";
    return 81;
  });
  ops.set<Op::inc_comp_cntr>([](ibv_comp_cntr*, uint64_t amount) {
    seen.last = "inc_comp_cntr";
    return static_cast<int>(amount);
  });
  ops.set<Op::inc_err_comp_cntr>([](ibv_comp_cntr*, uint64_t amount) {
    seen.last = "inc_err_comp_cntr";
    return static_cast<int>(amount);
  });
  ops.set<Op::qp_attach_comp_cntr>([](ibv_qp*, ibv_comp_cntr*, ibv_qp_attach_comp_cntr_attr*) {
    seen.last = "qp_attach_comp_cntr";
    return 84;
  });
  ops.set<Op::query_comp_cntr_caps>([](ibv_context*, ibv_comp_cntr_caps*, size_t size) {
    seen.last = "query_comp_cntr_caps";
    return static_cast<int>(size);
  });
  ops.set<Op::read_comp_cntr>([](ibv_comp_cntr*, uint64_t*) {
    seen.last = "read_comp_cntr";
    return 86;
  });
  ops.set<Op::read_err_comp_cntr>([](ibv_comp_cntr*, uint64_t*) {
    seen.last = "read_err_comp_cntr";
    return 87;
  });
  ops.set<Op::set_comp_cntr>([](ibv_comp_cntr*, uint64_t value) {
    seen.last = "set_comp_cntr";
    return static_cast<int>(value);
  });
  ops.set<Op::set_err_comp_cntr>([](ibv_comp_cntr*, uint64_t value) {
    seen.last = "set_err_comp_cntr";
    return static_cast<int>(value);
  });
  verbs_set_ops(context, &ops);
}

template <typename Expect>
void callCounterVerbs(ibv_context* context, ibv_qp* qp, Expect expectCall) {
  ibv_comp_cntr counter = {};
  counter.context = context;
  ibv_comp_cntr_init_attr init = {};
  ibv_comp_cntr_caps caps = {};
  ibv_qp_attach_comp_cntr_attr attach = {};
  uint64_t value = 0;
  EXPECT_EQ(ibv_create_comp_cntr(context, &init), nullptr);
  expectCall("create_comp_cntr");
  EXPECT_EQ(ibv_destroy_comp_cntr(&counter), 81);
  expectCall("destroy_comp_cntr");
  EXPECT_EQ(ibv_inc_comp_cntr(&counter, 82), 82);
  expectCall("inc_comp_cntr");
  EXPECT_EQ(ibv_inc_err_comp_cntr(&counter, 83), 83);
  expectCall("inc_err_comp_cntr");
  EXPECT_EQ(ibv_qp_attach_comp_cntr(qp, &counter, &attach), 84);
  expectCall("qp_attach_comp_cntr");
  EXPECT_EQ(ibv_query_comp_cntr_caps(context, &caps), static_cast<int>(sizeof(caps)));
  expectCall("query_comp_cntr_caps");
  EXPECT_EQ(ibv_read_comp_cntr(&counter, &value), 86);
  expectCall("read_comp_cntr");
  EXPECT_EQ(ibv_read_err_comp_cntr(&counter, &value), 87);
  expectCall("read_err_comp_cntr");
  EXPECT_EQ(ibv_set_comp_cntr(&counter, 88), 88);
  expectCall("set_comp_cntr");
  EXPECT_EQ(ibv_set_err_comp_cntr(&counter, 89), 89);
  expectCall("set_err_comp_cntr");
}
#endif

void prepareAllHiddenVerbs(verbs_context* context) {
  prepareHiddenVerbs(context);
  KIWARP_PABI_SINCE_65(prepareCounterVerbs(context);)
}

TEST_F(ConformanceTest, EverySlotOfTheTableThatIsHidden) {
  seen.prepare = prepareAllHiddenVerbs;
  // Release 36 opens no device that the kernel hasn't got.
  pabi::SysfsDevice sysfs = {};
  std::strcpy(sysfs.uverbs_name, "kiwarp-conformance");
  device_.sysfs = &sysfs;
  int cookie = 0;
  ibv_context* context = verbs_open_device(&device_.device, &cookie);
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(seen.last, "alloc_context");
  EXPECT_EQ(seen.private_data, &cookie);

  size_t called = 0;
  auto expectCall = [&](const char* name) {
    EXPECT_EQ(seen.last, name);
    called += seen.last == name;
    seen.last.clear();
  };
  ibv_pd pd = {};
  pd.context = context;
  ibv_mr mr = {};
  mr.context = context;
  ibv_dm dm = {};
  dm.context = context;
  ibv_qp qp = {};
  qp.context = context;
  ibv_ece ece = {};
  ece.vendor_id = 1;
  ibv_cq_init_attr_ex cq_attr = {};
  ibv_port_attr port = {};

  EXPECT_EQ(ibv_create_cq_ex(context, &cq_attr), nullptr);
  expectCall("create_cq_ex");
  EXPECT_EQ(ibv_import_dm(context, 1), nullptr);
  expectCall("import_dm");
  EXPECT_EQ(ibv_import_mr(&pd, 1), nullptr);
  expectCall("import_mr");
  EXPECT_EQ(ibv_import_pd(context, 1), nullptr);
  expectCall("import_pd");
  EXPECT_EQ(ibv_query_ece(&qp, &ece), 71);
  expectCall("query_ece");
  EXPECT_EQ(ibv_query_port(context, 2, &port), 72);
  expectCall("query_port");
#if defined(__x86_64__)
  EXPECT_EQ(ibv_query_qp_data_in_order(&qp, IBV_WR_SEND, 0), 1);
  expectCall("query_qp_data_in_order");
#else
  ++called;  // libibverbs answers itself on other machines
#endif
  EXPECT_EQ(ibv_reg_dmabuf_mr(&pd, 0, 1, 0, -1, 0), nullptr);
  expectCall("reg_dmabuf_mr");
  EXPECT_EQ(ibv_set_ece(&qp, &ece), 74);
  expectCall("set_ece");
  ibv_unimport_dm(&dm);
  expectCall("unimport_dm");
  ibv_unimport_mr(&mr);
  expectCall("unimport_mr");
  ibv_unimport_pd(&pd);
  expectCall("unimport_pd");
#if KIWARP_PABI_FIRST >= 62
  uint64_t speed = 0;
  EXPECT_EQ(ibv_query_port_speed(context, 3, &speed), 83);
  expectCall("query_port_speed");
#endif
  KIWARP_PABI_SINCE_65(callCounterVerbs(context, &qp, expectCall);)
  EXPECT_EQ(ibv_close_device(context), 0);
  expectCall("free_context");
  EXPECT_EQ(called, kPrivateSlots);
}

// The provider's structures wrap the public ones; libibverbs looks for ibv_qp_ex behind an ibv_qp.
TEST_F(ConformanceTest, QueuePairsWithoutTheNewInterfaceSaySo) {
  pabi::Qp qp = {};
  EXPECT_EQ(ibv_qp_to_qp_ex(&qp.qp), nullptr);
  constexpr uint32_t kHasNewInterface = 2;
  qp.valid = kHasNewInterface;
  EXPECT_EQ(ibv_qp_to_qp_ex(&qp.qp), &qp.qp_ex);
}

}  // namespace
}  // namespace kiwarp::test

// This replaces the C library's function for libibverbs: the device that it opens is /dev/null.
extern "C" {

__attribute__((visibility("default"))) int open(const char* path, int flags, ...) {
  const bool is_device = std::string_view(path).ends_with("/kiwarp-conformance");
  return openat(AT_FDCWD, is_device ? "/dev/null" : path, flags, 0600);
}

__attribute__((visibility("default"))) int open64(const char* path, int flags, ...) {
  return open(path, flags);
}

}  // extern "C"
