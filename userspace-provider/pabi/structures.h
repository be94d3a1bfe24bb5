// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The private ABI that libibverbs gives providers, of rdma-core 36 to 65.
//
// No installed header declares it, so this one does, in its own words: only order, size and type
// of the members bind. Layouts changed between releases, with and without a new private ABI
// number. A header layout_RELEASE.h for each of them names the releases that have it and the
// differences, and includes this. CMake chooses it, guard.h checks it at run time, and
// tests/conformance_test.cc against the installed library.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>

// What a release has added to the table of verbs, KIWARP_PABI_SINCE_59(X(...)) where 59 has.
#if KIWARP_PABI_FIRST >= 59
#define KIWARP_PABI_SINCE_59(...) __VA_ARGS__
#else
#define KIWARP_PABI_SINCE_59(...)
#endif
#if KIWARP_PABI_FIRST >= 62
#define KIWARP_PABI_SINCE_62(...) __VA_ARGS__
#else
#define KIWARP_PABI_SINCE_62(...)
#endif
#if KIWARP_PABI_FIRST >= 64
#define KIWARP_PABI_SINCE_64(...) __VA_ARGS__
#else
#define KIWARP_PABI_SINCE_64(...)
#endif
#if KIWARP_PABI_FIRST >= 65
#define KIWARP_PABI_SINCE_65(...) __VA_ARGS__
#else
#define KIWARP_PABI_SINCE_65(...)
#endif

namespace kiwarp::pabi {

// The releases that have this layout, and the number in the library's symbol versions.
inline constexpr int kNumber = KIWARP_PABI_NUMBER;
inline constexpr int kFirstRelease = KIWARP_PABI_FIRST;
inline constexpr int kLastRelease = KIWARP_PABI_LAST;
static_assert(kFirstRelease <= kLastRelease);

struct ListNode {
  ListNode* next;
  ListNode* previous;
};

// What kind of key a MatchEntry holds.
enum MatchKind : uint8_t {
  kMatchEnd = 0,
  kMatchPci = 1,
  kMatchModalias = 2,
  kMatchDriverId = 3,
};

// One entry of the table of the devices that a provider takes; ends with kMatchEnd.
struct MatchEntry {
  void* provider_data;
  union Key {
    const char* modalias;
    uint64_t driver_id;
  } key;
  uint16_t pci_vendor;
  uint16_t pci_device;
  uint8_t kind;
};

// A kernel device as libibverbs describes it, by netlink or from sysfs.
struct SysfsDevice {
  ListNode list;
  void* provider_data;
  const MatchEntry* match;
  unsigned int already_read;
  char uverbs_name[IBV_SYSFS_NAME_MAX];
  dev_t uverbs_number;
  char name[IBV_SYSFS_NAME_MAX];
  char path[IBV_SYSFS_PATH_MAX];
  char modalias[512];
  uint64_t node_guid;
  uint32_t driver_id;  // 0 if only sysfs was readable
  ibv_node_type node_type;
  int index;
  uint32_t ports;
  uint32_t abi_version;
  timespec created;
};

struct Device;

// What a provider registers.
struct DeviceOps {
  const char* name;
  uint32_t abi_version_min;
  uint32_t abi_version_max;
  const MatchEntry* match_table;
  const DeviceOps** static_providers;
  bool (*match_device)(SysfsDevice* sysfs);
  verbs_context* (*alloc_context)(ibv_device* device, int command_fd, void* private_data);
  verbs_context* (*import_context)(ibv_device* device, int command_fd);
  Device* (*alloc_device)(SysfsDevice* sysfs);
  void (*uninit_device)(Device* device);
};

struct Device {
  ibv_device device;
  const DeviceOps* ops;
  int references;  // atomic_int there; only libibverbs counts
  ListNode list;
  SysfsDevice* sysfs;
  uint64_t core_support;
};

struct Mr {
  ibv_mr mr;
  int type;
  int access;
};

struct Cq {
  union {
    ibv_cq cq;
    ibv_cq_ex cq_ex;
  };
};

struct Xrcd;

// Of Qp.valid: the functions of qp_ex are set.
inline constexpr uint32_t kQpExValid = 1U << 1;

struct Qp {
  union {
    ibv_qp qp;
    ibv_qp_ex qp_ex;
  };
  uint32_t valid;
  Xrcd* xrcd;
};

struct Srq {
  ibv_srq srq;
  ibv_srq_type type;
  Xrcd* xrcd;
  ibv_cq* cq;
  uint32_t srq_num;
};

// Every slot of the table of verbs, in the order of the library, as X(slot, result, parameters).
#define KIWARP_PABI_OPS(X)                                                                        \
  X(advise_mr, int, (ibv_pd*, ibv_advise_mr_advice, uint32_t, ibv_sge*, uint32_t))                \
  KIWARP_PABI_SINCE_64(X(alloc_buf, void*, (ibv_pd*, size_t, ibv_buf**)))                         \
  X(alloc_dm, ibv_dm*, (ibv_context*, ibv_alloc_dm_attr*))                                        \
  KIWARP_PABI_SINCE_59(X(alloc_dmah, ibv_dmah*, (ibv_context*, ibv_dmah_init_attr*)))             \
  X(alloc_mw, ibv_mw*, (ibv_pd*, ibv_mw_type))                                                    \
  X(alloc_null_mr, ibv_mr*, (ibv_pd*))                                                            \
  X(alloc_parent_domain, ibv_pd*, (ibv_context*, ibv_parent_domain_init_attr*))                   \
  X(alloc_pd, ibv_pd*, (ibv_context*))                                                            \
  X(alloc_td, ibv_td*, (ibv_context*, ibv_td_init_attr*))                                         \
  X(async_event, void, (ibv_context*, ibv_async_event*))                                          \
  X(attach_counters_point_flow, int, (ibv_counters*, ibv_counter_attach_attr*, ibv_flow*))        \
  X(attach_mcast, int, (ibv_qp*, const ibv_gid*, uint16_t))                                       \
  X(bind_mw, int, (ibv_qp*, ibv_mw*, ibv_mw_bind*))                                               \
  X(close_xrcd, int, (ibv_xrcd*))                                                                 \
  X(cq_event, void, (ibv_cq*))                                                                    \
  X(create_ah, ibv_ah*, (ibv_pd*, ibv_ah_attr*))                                                  \
  KIWARP_PABI_SINCE_65(                                                                           \
      X(create_comp_cntr, ibv_comp_cntr*, (ibv_context*, ibv_comp_cntr_init_attr*)))              \
  X(create_counters, ibv_counters*, (ibv_context*, ibv_counters_init_attr*))                      \
  X(create_cq, ibv_cq*, (ibv_context*, int, ibv_comp_channel*, int))                              \
  X(create_cq_ex, ibv_cq_ex*, (ibv_context*, ibv_cq_init_attr_ex*))                               \
  X(create_flow, ibv_flow*, (ibv_qp*, ibv_flow_attr*))                                            \
  X(create_flow_action_esp, ibv_flow_action*, (ibv_context*, ibv_flow_action_esp_attr*))          \
  X(create_qp, ibv_qp*, (ibv_pd*, ibv_qp_init_attr*))                                             \
  X(create_qp_ex, ibv_qp*, (ibv_context*, ibv_qp_init_attr_ex*))                                  \
  X(create_rwq_ind_table, ibv_rwq_ind_table*, (ibv_context*, ibv_rwq_ind_table_init_attr*))       \
  X(create_srq, ibv_srq*, (ibv_pd*, ibv_srq_init_attr*))                                          \
  X(create_srq_ex, ibv_srq*, (ibv_context*, ibv_srq_init_attr_ex*))                               \
  X(create_wq, ibv_wq*, (ibv_context*, ibv_wq_init_attr*))                                        \
  KIWARP_PABI_SINCE_59(X(dealloc_dmah, int, (ibv_dmah*)))                                         \
  X(dealloc_mw, int, (ibv_mw*))                                                                   \
  X(dealloc_pd, int, (ibv_pd*))                                                                   \
  X(dealloc_td, int, (ibv_td*))                                                                   \
  X(dereg_mr, int, (Mr*))                                                                         \
  X(destroy_ah, int, (ibv_ah*))                                                                   \
  KIWARP_PABI_SINCE_65(X(destroy_comp_cntr, int, (ibv_comp_cntr*)))                               \
  X(destroy_counters, int, (ibv_counters*))                                                       \
  X(destroy_cq, int, (ibv_cq*))                                                                   \
  X(destroy_flow, int, (ibv_flow*))                                                               \
  X(destroy_flow_action, int, (ibv_flow_action*))                                                 \
  X(destroy_qp, int, (ibv_qp*))                                                                   \
  X(destroy_rwq_ind_table, int, (ibv_rwq_ind_table*))                                             \
  X(destroy_srq, int, (ibv_srq*))                                                                 \
  X(destroy_wq, int, (ibv_wq*))                                                                   \
  X(detach_mcast, int, (ibv_qp*, const ibv_gid*, uint16_t))                                       \
  KIWARP_PABI_SINCE_62(X(dm_export_dmabuf_fd, int, (ibv_dm*)))                                    \
  KIWARP_PABI_SINCE_64(X(free_buf, void, (ibv_buf*)))                                             \
  X(free_context, void, (ibv_context*))                                                           \
  X(free_dm, int, (ibv_dm*))                                                                      \
  X(get_srq_num, int, (ibv_srq*, uint32_t*))                                                      \
  X(import_dm, ibv_dm*, (ibv_context*, uint32_t))                                                 \
  X(import_mr, ibv_mr*, (ibv_pd*, uint32_t))                                                      \
  X(import_pd, ibv_pd*, (ibv_context*, uint32_t))                                                 \
  KIWARP_PABI_SINCE_65(X(inc_comp_cntr, int, (ibv_comp_cntr*, uint64_t)))                         \
  KIWARP_PABI_SINCE_65(X(inc_err_comp_cntr, int, (ibv_comp_cntr*, uint64_t)))                     \
  X(modify_cq, int, (ibv_cq*, ibv_modify_cq_attr*))                                               \
  X(modify_flow_action_esp, int, (ibv_flow_action*, ibv_flow_action_esp_attr*))                   \
  X(modify_qp, int, (ibv_qp*, ibv_qp_attr*, int))                                                 \
  X(modify_qp_rate_limit, int, (ibv_qp*, ibv_qp_rate_limit_attr*))                                \
  X(modify_srq, int, (ibv_srq*, ibv_srq_attr*, int))                                              \
  X(modify_wq, int, (ibv_wq*, ibv_wq_attr*))                                                      \
  X(open_qp, ibv_qp*, (ibv_context*, ibv_qp_open_attr*))                                          \
  X(open_xrcd, ibv_xrcd*, (ibv_context*, ibv_xrcd_init_attr*))                                    \
  X(poll_cq, int, (ibv_cq*, int, ibv_wc*))                                                        \
  X(post_recv, int, (ibv_qp*, ibv_recv_wr*, ibv_recv_wr**))                                       \
  X(post_send, int, (ibv_qp*, ibv_send_wr*, ibv_send_wr**))                                       \
  X(post_srq_ops, int, (ibv_srq*, ibv_ops_wr*, ibv_ops_wr**))                                     \
  X(post_srq_recv, int, (ibv_srq*, ibv_recv_wr*, ibv_recv_wr**))                                  \
  KIWARP_PABI_SINCE_65(                                                                           \
      X(qp_attach_comp_cntr, int, (ibv_qp*, ibv_comp_cntr*, ibv_qp_attach_comp_cntr_attr*)))      \
  KIWARP_PABI_SINCE_65(X(query_comp_cntr_caps, int, (ibv_context*, ibv_comp_cntr_caps*, size_t))) \
  X(query_device_ex, int,                                                                         \
    (ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, size_t))                \
  X(query_ece, int, (ibv_qp*, ibv_ece*))                                                          \
  X(query_port, int, (ibv_context*, uint8_t, ibv_port_attr*))                                     \
  KIWARP_PABI_SINCE_62(X(query_port_speed, int, (ibv_context*, uint32_t, uint64_t*)))             \
  X(query_qp, int, (ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*))                               \
  X(query_qp_data_in_order, int, (ibv_qp*, ibv_wr_opcode, uint32_t))                              \
  X(query_rt_values, int, (ibv_context*, ibv_values_ex*))                                         \
  X(query_srq, int, (ibv_srq*, ibv_srq_attr*))                                                    \
  KIWARP_PABI_SINCE_65(X(read_comp_cntr, int, (ibv_comp_cntr*, uint64_t*)))                       \
  X(read_counters, int, (ibv_counters*, uint64_t*, uint32_t, uint32_t))                           \
  KIWARP_PABI_SINCE_65(X(read_err_comp_cntr, int, (ibv_comp_cntr*, uint64_t*)))                   \
  X(reg_dm_mr, ibv_mr*, (ibv_pd*, ibv_dm*, uint64_t, size_t, unsigned int))                       \
  X(reg_dmabuf_mr, ibv_mr*, (ibv_pd*, uint64_t, size_t, uint64_t, int, int))                      \
  X(reg_mr, ibv_mr*, (ibv_pd*, void*, size_t, uint64_t, int))                                     \
  KIWARP_PABI_SINCE_59(X(reg_mr_ex, ibv_mr*, (ibv_pd*, ibv_mr_init_attr*)))                       \
  X(req_notify_cq, int, (ibv_cq*, int))                                                           \
  X(rereg_mr, int, (Mr*, int, ibv_pd*, void*, size_t, int))                                       \
  X(resize_cq, int, (ibv_cq*, int))                                                               \
  KIWARP_PABI_SINCE_65(X(set_comp_cntr, int, (ibv_comp_cntr*, uint64_t)))                         \
  X(set_ece, int, (ibv_qp*, ibv_ece*))                                                            \
  KIWARP_PABI_SINCE_65(X(set_err_comp_cntr, int, (ibv_comp_cntr*, uint64_t)))                     \
  X(unimport_dm, void, (ibv_dm*))                                                                 \
  X(unimport_mr, void, (ibv_mr*))                                                                 \
  X(unimport_pd, void, (ibv_pd*))

enum class Op : size_t {
#define KIWARP_PABI_ENUMERATE(slot, result, parameters) slot,
  KIWARP_PABI_OPS(KIWARP_PABI_ENUMERATE)
#undef KIWARP_PABI_ENUMERATE
      count
};

inline constexpr size_t kOpCount = static_cast<size_t>(Op::count);

template <Op op>
struct OpSignature;

// NOLINTBEGIN(bugprone-macro-parentheses): the parameters are a list in parentheses already.
#define KIWARP_PABI_SIGNATURE(slot, result, parameters) \
  template <>                                           \
  struct OpSignature<Op::slot> {                        \
    using Pointer = result(*) parameters;               \
  };
KIWARP_PABI_OPS(KIWARP_PABI_SIGNATURE)
#undef KIWARP_PABI_SIGNATURE
// NOLINTEND(bugprone-macro-parentheses)

// The table of verbs. For a null slot libibverbs keeps its default.
class ContextOps {
 public:
  using Slot = void (*)();

  template <Op op>
  void set(typename OpSignature<op>::Pointer function) {
    slots_[static_cast<size_t>(op)] = reinterpret_cast<Slot>(function);
  }

  // For the conformance test, which fills every slot with a marker.
  void setRaw(size_t index, Slot function) { slots_[index] = function; }

 private:
  std::array<Slot, kOpCount> slots_{};
};

static_assert(sizeof(ContextOps) == kOpCount * sizeof(void*));

// The C library's mutex is the one member whose size depends on the processor: 40 bytes on x86-64,
// 48 on arm64.
inline constexpr size_t kMutexSize = sizeof(pthread_mutex_t);

static_assert(sizeof(void*) == 8, "the sizes below are those of 64-bit user space");
static_assert(sizeof(MatchEntry) == 24);
static_assert(sizeof(DeviceOps) == 72);
static_assert(sizeof(Device) == 712);
static_assert(offsetof(Device, ops) == sizeof(ibv_device));
static_assert(sizeof(Mr) == 56);
static_assert(sizeof(Cq) == 248 + kMutexSize);
static_assert(offsetof(SysfsDevice, match) == 24);
static_assert(offsetof(SysfsDevice, name) == 112);
static_assert(offsetof(SysfsDevice, driver_id) == 952);
static_assert(offsetof(Qp, qp) == 0);
static_assert(offsetof(Srq, srq) == 0);
static_assert(offsetof(Qp, valid) == sizeof(ibv_qp_ex));

}  // namespace kiwarp::pabi
