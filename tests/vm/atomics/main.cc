// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-atomics: several connections and a local CPU change the same two words at a time, each by
// FetchAdd and by CmpSwap. No change may be lost, and no value may come back twice. A connection
// says by a Write with Immediate that it has finished.

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/cm.h"
#include "common/error.h"
#include "common/options.h"

namespace kiwarp::vm {
namespace {

const char kUsage[] =
    "kiwarp-atomics --server ADDR | --client ADDR [options]\n"
    "  --port N         port (18900)\n"
    "  --connections N  from the client, each with a thread (4)\n"
    "  --count N        operations of each kind on each (500)\n"
    "Exit: 0 nothing is lost; 1 something is; 2 usage.\n";

constexpr seconds kSetUpLimit{60};
constexpr seconds kLimit{140};
constexpr uint32_t kDepth = 8;
constexpr int kBurst = 64;
constexpr useconds_t kPause = 500;
constexpr uint32_t kImmediate = 0x01020304;

struct Settings {
  std::string server, client;
  uint64_t port = 18900, connections = 4, count = 500;
};

// What both sides work on.
struct Words {
  uint64_t added;
  uint64_t swapped;
  uint64_t finished;
};

struct Keys {
  uint64_t address;
  uint32_t rkey;
};

// The server's own CPU, meanwhile.
class LocalCpu {
 public:
  explicit LocalCpu(Words* words) : words_(words), thread_([this] { work(); }) {}
  void stop() {
    stop_ = true;
    thread_.join();
  }
  uint64_t added() const { return added_; }
  uint64_t swapped() const { return swapped_; }

 private:
  void work() {
    std::atomic_ref<uint64_t> added(words_->added), swapped(words_->swapped);
    uint64_t mine = ~0ULL;
    while (!stop_) {
      for (int i = 0; i < kBurst; ++i) ++added_, added.fetch_add(1);
      // Not twice in a row, so that the others' comparisons do not always fail.
      uint64_t value = swapped.load();
      if (value != mine && swapped.compare_exchange_strong(value, value + 1)) {
        mine = value + 1;
        ++swapped_;
      }
      usleep(kPause);
    }
  }

  Words* words_;
  uint64_t added_ = 0, swapped_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Connection {
  CmId id;
  Pd pd;
  Cq cq;
  Memory memory;
  Mr mr;

  void setUp(size_t size, int access) {
    pd = allocPd(id->verbs);
    memory = Memory(size);
    mr = regMr(pd.get(), memory.data(), memory.size(), access);
    createQueues(pd.get());
  }
  void createQueues(ibv_pd* from) {
    cq = createCq(id->verbs, 2 * kDepth);
    QpConfig config;
    config.pd = from;
    config.send_cq = config.recv_cq = cq.get();
    config.send_wr = kDepth;
    config.recv_wr = 1;
    config.signal_all = true;
    createQp(id, config);
  }
};

class Server {
 public:
  explicit Server(Settings settings) : settings_(std::move(settings)) {}

  int run() {
    listener_ = cm_.listen(Address(settings_.server, static_cast<uint16_t>(settings_.port)), 16);
    const Deadline limit(kLimit);
    uint64_t left = settings_.connections;
    while (left > 0) {
      auto event = cm_.next(limit);
      if (!event) fail("%llu connections are left", static_cast<unsigned long long>(left));
      if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) accept(*event);
      if (event->type == RDMA_CM_EVENT_DISCONNECTED) --left;
    }
    cpu_->stop();
    for (const Connection& c : connections_) checkFinished(c);
    return result();
  }

 private:
  void accept(const CmEvent& request) {
    connections_.emplace_back();
    Connection& c = connections_.back();
    c.id = CmId(request.id);
    if (!mr_) {
      pd_ = allocPd(c.id->verbs);
      memory_ = Memory(sizeof(Words));
      mr_ = regMr(pd_.get(), memory_.data(), memory_.size(),
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
      cpu_ = std::make_unique<LocalCpu>(words());
    }
    c.createQueues(pd_.get());
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(c.id->qp, &wr, &bad) != 0) fail("ibv_post_recv");
    const Keys keys{reinterpret_cast<uintptr_t>(memory_.data()), mr_->rkey};
    const auto* bytes = reinterpret_cast<const uint8_t*>(&keys);
    ConnectParams params;
    params.private_data.assign(bytes, bytes + sizeof(keys));
    const int error = startAccept(c.id.get(), params);
    if (error != 0) fail("rdma_accept: %s", errnoName(error).c_str());
  }

  // What came before the disconnection has completed.
  static void checkFinished(const Connection& c) {
    ibv_wc wc;
    if (ibv_poll_cq(c.cq.get(), 1, &wc) != 1) fail("no completion of a Write with Immediate");
    if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM ||
        wc.wc_flags != IBV_WC_WITH_IMM || ntohl(wc.imm_data) != kImmediate ||
        wc.byte_len != sizeof(uint64_t)) {
      fail("%s: %d, flags %u, %u bytes", describe(wc).c_str(), wc.opcode, wc.wc_flags, wc.byte_len);
    }
  }

  Words* words() const { return reinterpret_cast<Words*>(memory_.data()); }

  int result() const {
    const uint64_t theirs = settings_.connections * settings_.count;
    const uint64_t added = theirs + cpu_->added(), swapped = theirs + cpu_->swapped();
    std::printf(
        "added %llu of %llu, %llu here; swapped %llu of %llu, %llu here\n",
        static_cast<unsigned long long>(words()->added), static_cast<unsigned long long>(added),
        static_cast<unsigned long long>(cpu_->added()),
        static_cast<unsigned long long>(words()->swapped), static_cast<unsigned long long>(swapped),
        static_cast<unsigned long long>(cpu_->swapped()));
    return words()->added == added && words()->swapped == swapped && cpu_->added() != 0 ? 0 : 1;
  }

  Settings settings_;
  EventChannel cm_;
  CmId listener_;
  Pd pd_;
  Memory memory_;
  Mr mr_;
  std::unique_ptr<LocalCpu> cpu_;
  std::vector<Connection> connections_;
};

class Client {
 public:
  explicit Client(Settings settings)
      : settings_(std::move(settings)), seen_(settings_.connections) {}

  int run() {
    connections_.resize(settings_.connections);
    for (Connection& c : connections_) connect(c);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < connections_.size(); ++i) {
      threads.emplace_back([this, i] {
        try {
          add(connections_[i], &seen_[i]);
          swap(connections_[i]);
          finish(connections_[i]);
        } catch (const Failure& failure) {
          std::printf("FAILED: %s\n", failure.what());
          failed_ = true;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Connection& c : connections_) rdma_disconnect(c.id.get());
    return !failed_ && distinct() ? 0 : 1;
  }

 private:
  void connect(Connection& c) {
    const Deadline limit(kSetUpLimit);
    c.id = cm_.createId();
    resolve(cm_, c.id, Address(settings_.client, static_cast<uint16_t>(settings_.port)), limit);
    c.setUp(kDepth * sizeof(uint64_t), IBV_ACCESS_LOCAL_WRITE);
    const int error = startConnect(c.id.get(), {});
    if (error != 0) fail("rdma_connect: %s", errnoName(error).c_str());
    const CmEvent event = cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
    if (event.private_data.size() < sizeof(keys_)) fail("no keys");
    std::memcpy(&keys_, event.private_data.data(), sizeof(keys_));
  }

  void post(Connection& c, uint32_t slot, ibv_wr_opcode opcode, size_t word, uint64_t compare_add,
            uint64_t swap) const {
    ibv_sge sge{reinterpret_cast<uintptr_t>(c.memory.data() + slot * sizeof(uint64_t)),
                sizeof(uint64_t), c.mr->lkey};
    ibv_send_wr wr{};
    wr.wr_id = slot;
    wr.opcode = opcode;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.atomic.remote_addr = keys_.address + word;
    wr.wr.atomic.rkey = keys_.rkey;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(c.id->qp, &wr, &bad);
    if (error != 0) fail("ibv_post_send: %s", errnoName(error).c_str());
  }

  // The value that an operation has brought, and its place.
  static std::pair<uint32_t, uint64_t> next(Connection& c, const Deadline& limit) {
    ibv_wc wc;
    int n = 0;
    while (n == 0) {
      n = ibv_poll_cq(c.cq.get(), 1, &wc);
      if (n == 0 && limit.passed()) fail("an operation does not complete");
    }
    if (n < 0 || wc.status != IBV_WC_SUCCESS) fail("%s", describe(wc).c_str());
    uint64_t value = 0;
    std::memcpy(&value, c.memory.data() + wc.wr_id * sizeof(value), sizeof(value));
    return {static_cast<uint32_t>(wc.wr_id), value};
  }

  void add(Connection& c, std::vector<uint64_t>* seen) const {
    const Deadline limit(kLimit);
    uint64_t posted = 0;
    for (; posted < std::min<uint64_t>(kDepth, settings_.count); ++posted) addOne(c, posted);
    while (seen->size() < settings_.count) {
      const auto [slot, value] = next(c, limit);
      if (!seen->empty() && value <= seen->back()) fail("a value that is not later");
      seen->push_back(value);
      if (posted < settings_.count) ++posted, addOne(c, slot);
    }
  }
  void addOne(Connection& c, uint64_t slot) const {
    post(c, static_cast<uint32_t>(slot), IBV_WR_ATOMIC_FETCH_AND_ADD, offsetof(Words, added), 1, 0);
  }

  void swap(Connection& c) const {
    const Deadline limit(kLimit);
    uint64_t expected = 0;
    for (uint64_t done = 0; done < settings_.count;) {
      post(c, 0, IBV_WR_ATOMIC_CMP_AND_SWP, offsetof(Words, swapped), expected, expected + 1);
      const uint64_t value = next(c, limit).second;
      done += value == expected;
      expected = value == expected ? value + 1 : value;
    }
  }

  void finish(Connection& c) const {
    ibv_sge sge{reinterpret_cast<uintptr_t>(c.memory.data()), sizeof(uint64_t), c.mr->lkey};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SOLICITED;
    wr.imm_data = htonl(kImmediate);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = keys_.address + offsetof(Words, finished);
    wr.wr.rdma.rkey = keys_.rkey;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(c.id->qp, &wr, &bad);
    if (error != 0) fail("ibv_post_send: %s", errnoName(error).c_str());
    next(c, Deadline(kLimit));
  }

  bool distinct() const {
    std::vector<uint64_t> all;
    for (const auto& seen : seen_) all.insert(all.end(), seen.begin(), seen.end());
    std::sort(all.begin(), all.end());
    const bool good = std::adjacent_find(all.begin(), all.end()) == all.end();
    std::printf("%zu values, %s\n", all.size(), good ? "no two alike" : "some twice");
    return good && all.size() == settings_.connections * settings_.count;
  }

  Settings settings_;
  EventChannel cm_;
  Keys keys_{};
  std::vector<Connection> connections_;
  std::vector<std::vector<uint64_t>> seen_;
  std::atomic<bool> failed_{false};
};

Settings parse(int argc, char** argv) {
  Settings settings;
  Options options(kUsage);
  options.text("--server", &settings.server);
  options.text("--client", &settings.client);
  options.number("--port", &settings.port);
  options.number("--connections", &settings.connections);
  options.number("--count", &settings.count);
  options.parse(argc, argv);
  if (settings.server.empty() == settings.client.empty()) {
    options.misuse("one of --server and --client is needed");
  }
  return settings;
}

}  // namespace
}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  using namespace kiwarp::vm;
  return runMain("FAILED: ", [&] {
    const Settings settings = parse(argc, argv);
    return settings.client.empty() ? Server(settings).run() : Client(settings).run();
  });
}
