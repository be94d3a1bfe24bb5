// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <cerrno>

#include "common/error.h"
#include "trust/attack.h"

namespace kiwarp::vm {

Device::Device(const Settings& settings) : address_(settings.address) {
  anchor_ = resolved(static_cast<uint16_t>(settings.port));
  pd_ = allocPd(context());
  cq_ = createCq(context(), 64);
}

CmId Device::resolved(uint16_t port) {
  CmId id = cm_.createId();
  resolve(cm_, id, Address(address_, port), Deadline(kTimeLimit));
  return id;
}

RawQp Device::createQp() {
  QpConfig config;
  config.pd = pd_.get();
  config.send_cq = config.recv_cq = cq_.get();
  ibv_qp_init_attr attr = toInitAttr(config);
  RawQp qp(ibv_create_qp(pd_.get(), &attr));
  if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
  return qp;
}

RawQp Device::createQpInInit() {
  RawQp qp = createQp();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  checkErrno(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), "ibv_modify_qp");
  return qp;
}

int connectByNumber(rdma_cm_id* id, uint32_t qpn) {
  rdma_conn_param param{};
  param.qp_num = qpn;
  param.responder_resources = param.initiator_depth = 1;
  return rdma_connect(id, &param) ? errno : 0;
}

}  // namespace kiwarp::vm
