// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// The functions of IBVERBS_PRIVATE_*, which libibverbs exports to providers, as far as they are
// used. All that return int return 0 or a positive errno.
//
// Where the library's type is a command structure of its own, the pointer is to Request<> of the
// same size.
#pragma once

#include "pabi/commands.h"
#include "pabi/layout.h"

struct ibv_command_buffer;
struct verbs_create_cq_prov_attr;

extern "C" {

void verbs_register_driver(const kiwarp::pabi::DeviceOps* ops);
void* _verbs_init_and_alloc_context(ibv_device* device, int command_fd, size_t size,
                                    verbs_context* offset_as_pointer, uint32_t driver_id);
void verbs_uninit_context(verbs_context* context);
void verbs_set_ops(verbs_context* context, const kiwarp::pabi::ContextOps* ops);
ibv_context* verbs_open_device(ibv_device* device, void* private_data);

int ibv_cmd_get_context(verbs_context* context,
                        kiwarp::pabi::Request<ib_uverbs_get_context>* request, size_t request_size,
#if KIWARP_PABI_FIRST >= 57
                        ibv_fd_arr* descriptors,
#endif
                        ib_uverbs_get_context_resp* response, size_t response_size);
// driver: attributes of the provider's own, or null.
int ibv_cmd_query_context(ibv_context* context, ibv_command_buffer* driver);
int ibv_cmd_query_device_any(ibv_context* context, const ibv_query_device_ex_input* input,
                             ibv_device_attr_ex* attr, size_t attr_size,
                             ib_uverbs_ex_query_device_resp* response, size_t* response_size);
int ibv_cmd_query_port(ibv_context* context, uint8_t port, ibv_port_attr* attr,
                       kiwarp::pabi::Request<ib_uverbs_query_port>* request, size_t request_size);

int ibv_cmd_alloc_pd(ibv_context* context, ibv_pd* pd,
                     kiwarp::pabi::Request<ib_uverbs_alloc_pd>* request, size_t request_size,
                     ib_uverbs_alloc_pd_resp* response, size_t response_size);
int ibv_cmd_dealloc_pd(ibv_pd* pd);
int ibv_cmd_reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access,
                   kiwarp::pabi::Mr* mr, kiwarp::pabi::Request<ib_uverbs_reg_mr>* request,
                   size_t request_size, ib_uverbs_reg_mr_resp* response, size_t response_size);
#if KIWARP_PABI_FIRST >= 54
int ibv_cmd_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access, kiwarp::pabi::Mr* mr, ibv_command_buffer* driver);
#else
int ibv_cmd_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access, kiwarp::pabi::Mr* mr);
#endif
int ibv_cmd_rereg_mr(kiwarp::pabi::Mr* mr, uint32_t flags, void* address, size_t length,
                     uint64_t iova, int access, ibv_pd* pd,
                     kiwarp::pabi::Request<ib_uverbs_rereg_mr>* request, size_t request_size,
                     ib_uverbs_rereg_mr_resp* response, size_t response_size);
int ibv_cmd_query_mr(ibv_pd* pd, kiwarp::pabi::Mr* mr, uint32_t handle);
int ibv_cmd_dereg_mr(kiwarp::pabi::Mr* mr);
int ibv_cmd_alloc_mw(ibv_pd* pd, ibv_mw_type type, ibv_mw* mw,
                     kiwarp::pabi::Request<ib_uverbs_alloc_mw>* request, size_t request_size,
                     ib_uverbs_alloc_mw_resp* response, size_t response_size);
int ibv_cmd_dealloc_mw(ibv_mw* mw);

int ibv_cmd_create_cq(ibv_context* context, int entries, ibv_comp_channel* channel,
                      int completion_vector, ibv_cq* cq,
                      kiwarp::pabi::Request<ib_uverbs_create_cq>* request, size_t request_size,
                      ib_uverbs_create_cq_resp* response, size_t response_size);
int ibv_cmd_create_cq_ex(ibv_context* context, const ibv_cq_init_attr_ex* attr,
#if KIWARP_PABI_FIRST >= 59
                         verbs_create_cq_prov_attr* memory,
#endif
                         kiwarp::pabi::Cq* cq,
                         kiwarp::pabi::ExRequest<ib_uverbs_ex_create_cq>* request,
                         size_t request_size, ib_uverbs_ex_create_cq_resp* response,
                         size_t response_size, uint32_t flags);
int ibv_cmd_resize_cq(ibv_cq* cq, int entries, kiwarp::pabi::Request<ib_uverbs_resize_cq>* request,
                      size_t request_size, ib_uverbs_resize_cq_resp* response,
                      size_t response_size);
int ibv_cmd_modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr,
                      kiwarp::pabi::ExRequest<ib_uverbs_ex_modify_cq>* request,
                      size_t request_size);
int ibv_cmd_destroy_cq(ibv_cq* cq);

int ibv_cmd_create_qp_ex(ibv_context* context, kiwarp::pabi::Qp* qp, ibv_qp_init_attr_ex* attr,
                         kiwarp::pabi::Request<ib_uverbs_create_qp>* request, size_t request_size,
                         ib_uverbs_create_qp_resp* response, size_t response_size);
int ibv_cmd_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask,
                      kiwarp::pabi::Request<ib_uverbs_modify_qp>* request, size_t request_size);
int ibv_cmd_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr,
                     kiwarp::pabi::Request<ib_uverbs_query_qp>* request, size_t request_size);
int ibv_cmd_destroy_qp(ibv_qp* qp);
int ibv_cmd_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr);
int ibv_cmd_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr);

int ibv_cmd_create_srq(ibv_pd* pd, ibv_srq* srq, ibv_srq_init_attr* attr,
                       kiwarp::pabi::Request<ib_uverbs_create_srq>* request, size_t request_size,
                       ib_uverbs_create_srq_resp* response, size_t response_size);
int ibv_cmd_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int attr_mask,
                       kiwarp::pabi::Request<ib_uverbs_modify_srq>* request, size_t request_size);
int ibv_cmd_query_srq(ibv_srq* srq, ibv_srq_attr* attr,
                      kiwarp::pabi::Request<ib_uverbs_query_srq>* request, size_t request_size);
int ibv_cmd_destroy_srq(ibv_srq* srq);

}  // extern "C"

namespace kiwarp::pabi {

// ibv_cmd_get_context() of every release, without descriptors for the driver.
inline int getContext(verbs_context* context, Request<ib_uverbs_get_context>* request,
                      size_t request_size, ib_uverbs_get_context_resp* response,
                      size_t response_size) {
#if KIWARP_PABI_FIRST >= 57
  return ibv_cmd_get_context(context, request, request_size, nullptr, response, response_size);
#else
  return ibv_cmd_get_context(context, request, request_size, response, response_size);
#endif
}

// ibv_cmd_reg_dmabuf_mr() of every release, without data of the driver.
inline int regDmabufMr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                       int access, Mr* mr) {
#if KIWARP_PABI_FIRST >= 54
  return ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, mr, nullptr);
#else
  return ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, mr);
#endif
}

// ibv_cmd_create_cq_ex() of every release, without memory of the driver.
inline int createCqEx(ibv_context* context, const ibv_cq_init_attr_ex* attr, Cq* cq,
                      ExRequest<ib_uverbs_ex_create_cq>* request, size_t request_size,
                      ib_uverbs_ex_create_cq_resp* response, size_t response_size, uint32_t flags) {
#if KIWARP_PABI_FIRST >= 59
  return ibv_cmd_create_cq_ex(context, attr, nullptr, cq, request, request_size, response,
                              response_size, flags);
#else
  return ibv_cmd_create_cq_ex(context, attr, cq, request, request_size, response, response_size,
                              flags);
#endif
}

}  // namespace kiwarp::pabi
