// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "faults/objects.h"

namespace kiwarp::vm {

Context openDevice(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  Context context;
  for (int i = 0; list && i < count; ++i) {
    if (name == ibv_get_device_name(list[i])) {
      errno = 0;
      context.reset(ibv_open_device(list[i]));
    }
  }
  const int error = errno;
  ibv_free_device_list(list);
  errno = error;
  return context;
}

Objects::Objects(const std::string& device)
    : context(openDevice(device)), memory(kLarge), channel(nullptr) {
  if (!context) fail("%s cannot be opened: %s", device.c_str(), errnoName(errno).c_str());
  pd = allocPd(context.get());
  channel = createChannel(context.get());
  cq = createCq(context.get(), 64, channel.get());
}

ibv_qp* Objects::makeQp() {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq.get();
  init.cap = {64, 64, 4, 4, 64};
  return ibv_create_qp(pd.get(), &init);
}

int toState(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

}  // namespace kiwarp::vm
