// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// One doorbell for as much work as a queue holds, and for more than it can hold. A thread of the
// highest priority on the same CPU measures how long it waits to run meanwhile. That depends on the
// machine and is only printed, unless there is a bound, for a machine whose clock counts
// instructions.

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/cm.h"
#include "common/error.h"
#include "tenants/cases.h"
#include "tenants/watcher.h"

namespace kiwarp::vm {
namespace {

constexpr uint32_t kWork = 16384;
constexpr uint32_t kSges = 16;
constexpr size_t kSize = 65536;
constexpr uint32_t kLarge = 1U << 20;
constexpr uint32_t kLargeWork = 32;
constexpr int kLies = 20;
constexpr seconds kLimit{120};

struct Region {
  Region(ibv_pd* pd, size_t size, int access)
      : memory(size), mr(regMr(pd, memory.data(), size, access)) {}
  Memory memory;
  Mr mr;
};

// Two queue pairs of this process, connected with each other.
class Pair {
 public:
  explicit Pair(const std::string& host) {
    const Address address(host, kPort);
    const Deadline limit(kLimit);
    CmId listener = server_cm_.listen(address, 4);
    client_ = client_cm_.createId();
    resolve(client_cm_, client_, address, limit);
    pd_ = allocPd(client_->verbs);
    cq_ = createCq(client_->verbs, 4 * kWork);
    source_.emplace(pd_.get(), kLarge, IBV_ACCESS_LOCAL_WRITE);
    target_.emplace(pd_.get(), kLarge, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    QpConfig config;
    config.pd = pd_.get();
    config.send_cq = config.recv_cq = cq_.get();
    const auto before = mappings();
    config.send_wr = config.recv_wr = kWork;
    config.send_sge = kSges;
    createQp(client_, config);
    for (const uintptr_t start : mappings()) {
      if (std::find(before.begin(), before.end(), start) == before.end()) ring_ = start;
    }
    if (startConnect(client_.get(), {}) != 0) fail("rdma_connect");
    server_ = CmId(server_cm_.expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit).id);
    config.send_wr = config.recv_wr = config.send_sge = 1;
    createQp(server_, config);
    if (startAccept(server_.get(), {}) != 0) fail("rdma_accept");
    client_cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    server_cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
  }

  // Writes of a byte for each SGE, one behind the other, all with one doorbell.
  void post() {
    std::vector<std::array<ibv_sge, kSges>> sges(kWork);
    std::vector<ibv_send_wr> list(kWork);
    for (size_t i = 0; i < kWork; ++i) {
      const size_t at = i * kSges % kSize;
      for (size_t k = 0; k < kSges; ++k) {
        source_->memory.data()[at + k] = mark(at + k);
        sges[i][k] = {reinterpret_cast<uintptr_t>(source_->memory.data()) + at + k, 1,
                      source_->mr->lkey};
      }
      list[i].wr_id = i;
      list[i].next = i + 1 < kWork ? &list[i + 1] : nullptr;
      list[i].sg_list = sges[i].data();
      list[i].num_sge = kSges;
      list[i].opcode = IBV_WR_RDMA_WRITE;
      list[i].send_flags = IBV_SEND_SIGNALED;
      list[i].wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(target_->memory.data()) + at;
      list[i].wr.rdma.rkey = target_->mr->rkey;
    }
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(client_->qp, list.data(), &bad);
    if (error != 0) fail("ibv_post_send: %s", errnoName(error).c_str());
  }

  // Writes of a MiB, all with one doorbell.
  void postLarge() {
    for (size_t i = 0; i < kLarge; ++i) source_->memory.data()[i] = mark(i);
    ibv_sge sge{reinterpret_cast<uintptr_t>(source_->memory.data()), kLarge, source_->mr->lkey};
    std::vector<ibv_send_wr> list(kLargeWork);
    for (size_t i = 0; i < kLargeWork; ++i) {
      list[i].wr_id = i;
      list[i].next = i + 1 < kLargeWork ? &list[i + 1] : nullptr;
      list[i].sg_list = &sge;
      list[i].num_sge = 1;
      list[i].opcode = IBV_WR_RDMA_WRITE;
      list[i].send_flags = IBV_SEND_SIGNALED;
      list[i].wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(target_->memory.data());
      list[i].wr.rdma.rkey = target_->mr->rkey;
    }
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(client_->qp, list.data(), &bad);
    if (error != 0) fail("ibv_post_send: %s", errnoName(error).c_str());
  }

  void expectAll(uint32_t work, ibv_wc_status status = IBV_WC_SUCCESS) {
    const Deadline limit(kLimit);
    for (uint64_t done = 0; done < work;) {
      std::array<ibv_wc, 64> wc{};
      const int n = ibv_poll_cq(cq_.get(), wc.size(), wc.data());
      if (n < 0 || limit.passed()) fail("%llu of %u completed", 1ULL * done, work);
      for (int i = 0; i < n; ++i, ++done) {
        const ibv_wc& one = wc.at(static_cast<size_t>(i));
        if (one.status != status || one.wr_id != done) {
          fail("completion %llu is %s", 1ULL * done, describe(one).c_str());
        }
      }
    }
  }

  void disconnect(uint32_t work, size_t bytes) {
    checkErrno(rdma_disconnect(client_.get()), "rdma_disconnect");
    expectAll(work);
    server_cm_.expect(RDMA_CM_EVENT_DISCONNECTED, Deadline(kLimit));
    for (size_t i = 0; i < bytes; ++i) {
      if (target_->memory.data()[i] != mark(i)) fail("byte %zu did not arrive", i);
    }
  }

  void postReceives() {
    std::vector<ibv_recv_wr> list(kWork);
    for (size_t i = 0; i < kWork; ++i) {
      list[i] = {};
      list[i].wr_id = i;
      list[i].next = i + 1 < kWork ? &list[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(client_->qp, list.data(), &bad);
    if (error != 0) fail("ibv_post_recv: %s", errnoName(error).c_str());
  }

  void drain() {
    std::array<ibv_wc, 64> wc{};
    while (ibv_poll_cq(cq_.get(), wc.size(), wc.data()) > 0) continue;
  }

  void toError() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    const int error = ibv_modify_qp(client_->qp, &attr, IBV_QP_STATE);
    if (error != 0) fail("ibv_modify_qp: %s", errnoName(error).c_str());
  }

  // Says that 3 million entries more were posted, and rings.
  void lie() {
    std::atomic_ref(*reinterpret_cast<uint32_t*>(ring_)) += 3'000'000;  // NOLINT
    struct {
      ib_uverbs_cmd_hdr head;
      ib_uverbs_post_send body;
    } command{};
    ib_uverbs_post_send_resp answer{};
    command.head.command = IB_USER_VERBS_CMD_POST_SEND;
    command.head.in_words = sizeof(command) / 4;
    command.head.out_words = sizeof(answer) / 4;
    command.body.response = reinterpret_cast<uintptr_t>(&answer);
    command.body.qp_handle = client_->qp->handle;
    command.body.wqe_size = sizeof(ib_uverbs_send_wr);
    const auto n = write(client_->verbs->cmd_fd, &command, sizeof(command));
    if (n != static_cast<ssize_t>(sizeof(command))) {
      fail("the doorbell: %s", errnoName(errno).c_str());
    }
  }

 private:
  static constexpr uint16_t kPort = 7400;

  static uint8_t mark(size_t at) { return static_cast<uint8_t>(at * 7 + at / 251); }

  static std::vector<uintptr_t> mappings() {
    std::vector<uintptr_t> starts;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find("/dev/infiniband/uverbs") != std::string::npos) {
        starts.push_back(std::stoull(line, nullptr, 16));
      }
    }
    return starts;
  }

  EventChannel client_cm_, server_cm_;
  Pd pd_;
  Cq cq_;
  std::optional<Region> source_, target_;
  uintptr_t ring_ = 0;
  CmId client_, server_;
};

}  // namespace

void doorbellCases(const std::string& host, uint64_t bound_us, Tap* tap) {
  pinToFirstCpu();
  Watcher watcher(bound_us);
  std::this_thread::sleep_for(seconds(2));
  watcher.report("idle");
  tap->run("one doorbell for 16384 work requests, then a disconnect: all are sent", [&] {
    Pair pair(host);
    watcher.report("connecting");
    pair.post();
    watcher.judge("one doorbell, 16384 work requests of 16 entries");
    pair.disconnect(kWork, kSize);
    watcher.judge("their completion");
  });
  tap->run("all receives are flushed; doorbells with a wrong producer index do no harm", [&] {
    Pair pair(host);
    pair.postReceives();
    watcher.report("connecting");
    pair.toError();
    pair.expectAll(kWork, IBV_WC_WR_FLUSH_ERR);
    watcher.judge("16384 receives flushed");
    for (int i = 0; i < kLies; ++i) {
      pair.lie();
      pair.drain();
    }
    watcher.judge("doorbells with a wrong producer index");
  });
}

void largeWritesCase(const std::string& host, uint64_t bound_us, Tap* tap) {
  pinToFirstCpu();
  Watcher watcher(bound_us);
  tap->run("one doorbell for 32 Writes of 1 MiB: all are sent", [&] {
    Pair pair(host);
    watcher.report("connecting");
    pair.postLarge();
    watcher.judge("one doorbell, 32 MiB");
    pair.disconnect(kLargeWork, kLarge);
    watcher.judge("their completion");
  });
}

}  // namespace kiwarp::vm
