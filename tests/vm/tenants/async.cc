// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Asynchronous events of queue pairs: a process connects two of its own, has one write where it may
// not, and begins again without reading what that raises.

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <map>
#include <utility>

#include "common/clock.h"
#include "common/cm.h"
#include "common/error.h"
#include "tenants/cases.h"

namespace kiwarp::vm {
namespace {

constexpr unsigned kCycles = 300;
constexpr uint16_t kPort = 7401;
constexpr seconds kLimit{120};

// How often each queue pair has raised each event.
using Events = std::map<std::pair<ibv_qp*, ibv_event_type>, unsigned>;

void modify(ibv_qp* qp, ibv_qp_state state, const Deadline& limit) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  for (;;) {
    const int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    if (error == 0) return;
    // Its connection may still end.
    if (error != EBUSY || limit.passed()) fail("ibv_modify_qp: %s", errnoName(error).c_str());
  }
}

class Offender {
 public:
  explicit Offender(const std::string& host) : address_(host, kPort) {
    const Deadline limit(kLimit);
    listener_ = server_cm_.listen(address_, 4);
    anchor_ = client_cm_.createId();
    resolve(client_cm_, anchor_, address_, limit);
    pd_ = allocPd(context());
    cq_ = createCq(context(), 64);
    srq_ = createSrq(pd_.get(), 4, 1);
    QpConfig config;
    config.pd = pd_.get();
    config.send_cq = config.recv_cq = cq_.get();
    client_ = create(config);
    config.srq = srq_.get();
    server_ = create(config);
    const int flags = fcntl(context()->async_fd, F_GETFL);
    checkErrno(fcntl(context()->async_fd, F_SETFL, flags | O_NONBLOCK), "fcntl of the events");
  }

  // A connection that ends by a Write to an STag of no region.
  void cycle() {
    const Deadline limit(kLimit);
    CmId id = client_cm_.createId();
    resolve(client_cm_, id, address_, limit);
    rdma_conn_param param{};
    param.qp_num = client_->qp_num;
    checkErrno(rdma_connect(id.get(), &param), "rdma_connect");
    CmId peer(server_cm_.expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit).id);
    param.qp_num = server_->qp_num;
    checkErrno(rdma_accept(peer.get(), &param), "rdma_accept");
    client_cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    server_cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    // A Write of no bytes would be no error: its STag is not looked at.
    uint64_t word = 0;
    ibv_sge sge{reinterpret_cast<uintptr_t>(&word), sizeof(word), 0};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_INLINE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (int error = ibv_post_send(client_.get(), &wr, &bad); error != 0) {
      fail("ibv_post_send: %s", errnoName(error).c_str());
    }
    client_cm_.expect(RDMA_CM_EVENT_DISCONNECTED, limit);
    server_cm_.expect(RDMA_CM_EVENT_DISCONNECTED, limit);
    for (ibv_qp* qp : {client_.get(), server_.get()}) {
      modify(qp, IBV_QPS_RESET, limit);
      modify(qp, IBV_QPS_INIT, limit);
    }
    ibv_wc wc{};
    while (ibv_poll_cq(cq_.get(), 1, &wc) > 0) continue;
  }

  // The next event, unless there is none.
  bool read(Events* events) {
    ibv_async_event event{};
    if (ibv_get_async_event(context(), &event) != 0) return false;
    ++(*events)[{event.element.qp, event.event_type}];
    ibv_ack_async_event(&event);
    return true;
  }

  void readOne(Events* events, const Deadline& limit) {
    while (!read(events)) {
      if (limit.passed()) fail("%zu kinds of events, and no more come", events->size());
      pollfd fd{context()->async_fd, POLLIN, 0};
      ::poll(&fd, 1, limit.pollTimeout());
    }
  }

  // All that wait: each kind that one cycle raises, once.
  void expectOnce() {
    const Deadline limit(kLimit);
    Events events;
    while (events.size() < 3) readOne(&events, limit);
    while (read(&events)) continue;
    for (const auto& [key, count] : events) {
      if (count != 1) fail("%s: %u wait", ibv_event_type_str(key.second), count);
    }
    if (events.count({server_.get(), IBV_EVENT_QP_ACCESS_ERR}) == 0 ||
        events.count({server_.get(), IBV_EVENT_QP_LAST_WQE_REACHED}) == 0 || events.size() != 3) {
      fail("other events than expected");
    }
  }

 private:
  ibv_context* context() const { return anchor_->verbs; }

  RawQp create(const QpConfig& config) {
    ibv_qp_init_attr attr = toInitAttr(config);
    RawQp qp(ibv_create_qp(pd_.get(), &attr));
    if (!qp) fail("ibv_create_qp: %s", errnoName(errno).c_str());
    modify(qp.get(), IBV_QPS_INIT, Deadline(kLimit));
    return qp;
  }

  Address address_;
  EventChannel client_cm_, server_cm_;
  CmId listener_, anchor_;
  Pd pd_;
  Cq cq_;
  Srq srq_;
  RawQp client_, server_;
};

}  // namespace

void asyncCases(const std::string& host, Tap* tap) {
  Offender offender(host);
  tap->run("one event of a kind waits, however often a queue pair fails", [&] {
    for (unsigned i = 0; i < kCycles; ++i) offender.cycle();
    offender.expectOnce();
  });
  tap->run("what was read comes again, and nothing else that waits", [&] {
    offender.cycle();
    Events first;
    offender.readOne(&first, Deadline(kLimit));
    offender.cycle();
    offender.expectOnce();
  });
}

}  // namespace kiwarp::vm
