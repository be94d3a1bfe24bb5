// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-arrival: one side sends messages, and ends at once when all of them have completed; the
// other counts what arrives.

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/cm.h"
#include "common/error.h"
#include "common/options.h"

namespace kiwarp::vm {
namespace {

const char kUsage[] =
    "kiwarp-arrival --server ADDR | --client ADDR [options]\n"
    "  --port N      port (18800)\n"
    "  --count N     messages (200)\n"
    "  --size N      bytes of each (64)\n"
    "  --send        this side sends, the other counts\n"
    "  --back        the side that counts writes to the sender all the time\n"
    "  --end HOW     of the sender: destroy (its queue pair), exit, or kill (SIGKILL)\n"
    "Exit: 0 all arrived, or were sent; 1 not; 2 usage.\n";

constexpr seconds kSetUpLimit{60};
constexpr seconds kLimit{100};
constexpr uint64_t kBackWrId = ~0ULL;
constexpr uint32_t kBackSize = 32768;
constexpr uint32_t kBackDepth = 8;

struct Settings {
  std::string server, client, end = "destroy";
  uint64_t port = 18800, count = 200, size = 64;
  bool send = false, back = false;
};

struct Keys {
  uint64_t address;
  uint32_t rkey;
};

class Side {
 public:
  explicit Side(Settings settings) : settings_(std::move(settings)) {}
  int run();

 private:
  void setUp();
  void connect();
  void accept();
  void learnKeys(const CmEvent& event);
  ConnectParams params() const;
  void postReceives();
  void postSend(uint64_t i);
  void postBack();
  bool disconnected();
  void awaitBack() const;
  void sendAll();
  void end();
  void receiveOne(const ibv_wc& wc);
  unsigned poll();
  int countAll();
  uint8_t* message(uint64_t i) const { return memory_.data() + i * settings_.size; }

  Settings settings_;
  EventChannel cm_;
  CmId listener_, id_;
  Pd pd_;
  Memory memory_, exposed_;
  Mr mr_, exposed_mr_;
  Cq cq_;
  Keys peer_{};
  uint64_t done_ = 0;
  uint64_t wrong_ = 0;
  uint32_t back_out_ = 0;
  bool back_failed_ = false;
};

void Side::setUp() {
  const auto n = static_cast<uint32_t>(settings_.count);
  pd_ = allocPd(id_->verbs);
  memory_ = Memory(settings_.count * settings_.size);
  exposed_ = Memory(kBackSize);
  mr_ = regMr(pd_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  exposed_mr_ = regMr(pd_.get(), exposed_.data(), exposed_.size(),
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  cq_ = createCq(id_->verbs, static_cast<int>(n + kBackDepth + 1));
  QpConfig config;
  config.pd = pd_.get();
  config.send_cq = config.recv_cq = cq_.get();
  config.send_wr = settings_.send ? n : kBackDepth;
  config.recv_wr = settings_.send ? 1 : n;
  config.signal_all = true;
  createQp(id_, config);
  if (settings_.send) {
    for (uint64_t i = 0; i < settings_.count; ++i) std::memcpy(message(i), &i, sizeof(i));
  } else {
    std::memset(exposed_.data(), 0xff, exposed_.size());
    postReceives();
  }
}

ConnectParams Side::params() const {
  const Keys keys{reinterpret_cast<uintptr_t>(exposed_.data()), exposed_mr_->rkey};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&keys);
  ConnectParams params;
  params.private_data.assign(bytes, bytes + sizeof(keys));
  return params;
}

void Side::learnKeys(const CmEvent& event) {
  if (event.private_data.size() < sizeof(peer_)) fail("no keys in %s", describe(event).c_str());
  std::memcpy(&peer_, event.private_data.data(), sizeof(peer_));
}

void Side::connect() {
  const Deadline limit(kSetUpLimit);
  id_ = cm_.createId();
  resolve(cm_, id_, Address(settings_.client, static_cast<uint16_t>(settings_.port)), limit);
  setUp();
  const int error = startConnect(id_.get(), params());
  if (error != 0) fail("rdma_connect: %s", errnoName(error).c_str());
  learnKeys(cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit));
}

void Side::accept() {
  listener_ = cm_.listen(Address(settings_.server, static_cast<uint16_t>(settings_.port)), 1);
  const Deadline limit(kSetUpLimit);
  const CmEvent request = cm_.expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit);
  id_ = CmId(request.id);
  setUp();
  learnKeys(request);
  const int error = startAccept(id_.get(), params());
  if (error != 0) fail("rdma_accept: %s", errnoName(error).c_str());
  cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
}

void Side::postReceives() {
  for (uint64_t i = 0; i < settings_.count; ++i) {
    ibv_sge sge{reinterpret_cast<uintptr_t>(message(i)), static_cast<uint32_t>(settings_.size),
                mr_->lkey};
    ibv_recv_wr wr{};
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(id_->qp, &wr, &bad) != 0) fail("ibv_post_recv");
  }
}

void Side::postSend(uint64_t i) {
  ibv_sge sge{reinterpret_cast<uintptr_t>(message(i)), static_cast<uint32_t>(settings_.size),
              mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = i;
  wr.opcode = IBV_WR_SEND;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_->qp, &wr, &bad) != 0) fail("ibv_post_send");
}

void Side::postBack() {
  ibv_sge sge{reinterpret_cast<uintptr_t>(exposed_.data()), kBackSize, exposed_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = kBackWrId;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = peer_.address;
  wr.wr.rdma.rkey = peer_.rkey;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_->qp, &wr, &bad) != 0) {
    back_failed_ = true;
  } else {
    ++back_out_;
  }
}

bool Side::disconnected() {
  while (auto event = cm_.next(Deadline(milliseconds(0)))) {
    if (event->type == RDMA_CM_EVENT_DISCONNECTED) return true;
  }
  return false;
}

// The other side's traffic is in full flow: its first Write is all there.
void Side::awaitBack() const {
  const Deadline limit(kSetUpLimit);
  const volatile uint8_t* last = exposed_.data() + kBackSize - 1;
  while (*last == 0) {
    if (limit.passed()) fail("nothing comes from the side that counts");
    usleep(1000);
  }
}

void Side::sendAll() {
  if (settings_.back) awaitBack();
  for (uint64_t i = 0; i < settings_.count; ++i) postSend(i);
  const Deadline limit(kLimit);
  while (done_ < settings_.count) {
    std::array<ibv_wc, 16> wcs;
    const int n = ibv_poll_cq(cq_.get(), static_cast<int>(wcs.size()), wcs.data());
    for (int i = 0; i < n; ++i) {
      const ibv_wc& wc = wcs[static_cast<size_t>(i)];
      if (wc.status != IBV_WC_SUCCESS)
        fail("send %llu: %s", static_cast<unsigned long long>(wc.wr_id),
             ibv_wc_status_str(wc.status));
      ++done_;
    }
    if (n < 0 || limit.passed())
      fail("%llu sends completed", static_cast<unsigned long long>(done_));
  }
}

// Nothing may come between the last completion and this.
void Side::end() {
  if (settings_.end == "kill") std::raise(SIGKILL);
  if (settings_.end == "exit") _exit(0);
  rdma_destroy_qp(id_.get());
}

void Side::receiveOne(const ibv_wc& wc) {
  if (wc.wr_id == kBackWrId) {
    --back_out_;
    back_failed_ = back_failed_ || wc.status != IBV_WC_SUCCESS;
    return;
  }
  if (wc.status != IBV_WC_SUCCESS) return;
  if (wc.byte_len != settings_.size || wc.wr_id != done_ ||
      std::memcmp(message(done_), &done_, sizeof(done_)) != 0) {
    ++wrong_;
  }
  ++done_;
}

unsigned Side::poll() {
  std::array<ibv_wc, 16> wcs;
  const int n = ibv_poll_cq(cq_.get(), static_cast<int>(wcs.size()), wcs.data());
  if (n < 0) fail("ibv_poll_cq");
  for (int i = 0; i < n; ++i) receiveOne(wcs[static_cast<size_t>(i)]);
  while (settings_.back && !back_failed_ && back_out_ < kBackDepth) postBack();
  return static_cast<unsigned>(n);
}

int Side::countAll() {
  const Deadline limit(kLimit);
  bool over = false;
  while (!over) {
    over = disconnected() || limit.passed();
    while (poll() != 0) {
    }
  }
  std::printf("%llu of %llu arrived, %llu of them wrong\n", static_cast<unsigned long long>(done_),
              static_cast<unsigned long long>(settings_.count),
              static_cast<unsigned long long>(wrong_));
  return done_ == settings_.count && wrong_ == 0 ? 0 : 1;
}

int Side::run() {
  if (settings_.server.empty()) {
    connect();
  } else {
    accept();
  }
  if (!settings_.send) return countAll();
  sendAll();
  end();
  return 0;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  Options options(kUsage);
  options.text("--server", &settings.server);
  options.text("--client", &settings.client);
  options.text("--end", &settings.end);
  options.number("--port", &settings.port);
  options.number("--count", &settings.count);
  options.number("--size", &settings.size);
  options.flag("--send", &settings.send);
  options.flag("--back", &settings.back);
  options.parse(argc, argv);
  if (settings.server.empty() == settings.client.empty()) {
    options.misuse("one of --server and --client is needed");
  }
  if (settings.end != "destroy" && settings.end != "exit" && settings.end != "kill") {
    options.misuse("--end is destroy, exit or kill");
  }
  if (settings.size < sizeof(uint64_t)) options.misuse("--size is 8 or more");
  return settings;
}

// A process that kills itself needs another one to say that this is what it did.
int inChild(const Settings& settings) {
  const pid_t pid = fork();
  if (pid < 0) fail("fork");
  if (pid == 0) _exit(runMain("FAILED: ", [&] { return Side(settings).run(); }));
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) fail("waitpid");
  if (settings.send && settings.end == "kill") {
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 0 : 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  using namespace kiwarp::vm;
  return runMain("FAILED: ", [&] { return inChild(parse(argc, argv)); });
}
