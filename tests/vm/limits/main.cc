// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-limits: objects as large as the device says it can make, used to their limits.

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/cases.h"
#include "common/cm.h"
#include "common/error.h"
#include "common/options.h"
#include "common/pattern.h"
#include "common/random.h"

namespace kiwarp::vm {
namespace {

const char kUsage[] =
    "kiwarp-limits --addr ADDR [--port N] [--huge] [--memory-percent N] [--share DEV]\n"
    "  --huge              also a Write and a Send of 2^31 bytes\n"
    "  --memory-percent N  how much of the memory goes into one MR (60)\n"
    "  --share DEV         the case of a thousand queue pairs alone; what they send waits in this\n"
    "                      interface, in tc's plug, until all have sent\n"
    "Prints TAP.\n";

constexpr uint64_t kPage = 4096;
constexpr int kFull = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr seconds kLimit{60};
constexpr seconds kHugeLimit{600};

struct Settings {
  std::string address, share;
  uint64_t port = 18800, memory_percent = 60;
  bool huge = false;
};

struct End {
  Cq cq;
  CmId id;
  ibv_qp_cap cap{};
};

class Limits {
 public:
  explicit Limits(const Settings& settings);
  int run();

 private:
  struct Pair {
    End client, server;
  };

  void prepare(End* end, QpConfig config, int cqe);
  Pair connect(const QpConfig& client, const QpConfig& server, int cqe);
  Pair connect(const QpConfig& config, int cqe) { return connect(config, config, cqe); }
  void await(ibv_cq* cq, uint64_t count, seconds limit, uint32_t last_length = UINT32_MAX);

  void largestCq();
  void largestQp();
  void fullQueues();
  void gatherSixteen();
  void inlineMost();
  void wholeMemory();
  void hugeWrite();
  void hugeSend();
  void thousandShare();
  void transfer(Pair& pair, ibv_wr_opcode opcode, ibv_sge sge, uint64_t address, uint32_t rkey,
                seconds limit = kLimit);

  Settings settings_;
  EventChannel client_cm_, server_cm_;
  CmId listener_, anchor_;
  ibv_context* context_;
  ibv_device_attr attr_;
  Pd pd_;
};

Limits::Limits(const Settings& settings) : settings_(settings) {
  const auto port = static_cast<uint16_t>(settings.port);
  listener_ = server_cm_.listen(Address(settings.address, port), 16);
  anchor_ = client_cm_.createId();
  resolve(client_cm_, anchor_, Address(settings.address, port), Deadline(kLimit));
  context_ = anchor_->verbs;
  attr_ = queryDevice(context_);
  pd_ = allocPd(context_);
}

void Limits::prepare(End* end, QpConfig config, int cqe) {
  config.pd = pd_.get();
  if (!config.recv_cq) {
    end->cq = createCq(context_, cqe);
    config.send_cq = config.recv_cq = end->cq.get();
  }
  end->cap = createQp(end->id, config);
}

Limits::Pair Limits::connect(const QpConfig& client, const QpConfig& server, int cqe) {
  Pair pair;
  const Deadline limit(kLimit);
  pair.client.id = client_cm_.createId();
  resolve(client_cm_, pair.client.id,
          Address(settings_.address, static_cast<uint16_t>(settings_.port)), limit);
  prepare(&pair.client, client, cqe);
  checkErrno(startConnect(pair.client.id.get(), {}), "rdma_connect");
  pair.server.id = CmId(server_cm_.expect(RDMA_CM_EVENT_CONNECT_REQUEST, limit).id);
  prepare(&pair.server, server, cqe);
  checkErrno(startAccept(pair.server.id.get(), {}), "rdma_accept");
  server_cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
  client_cm_.expect(RDMA_CM_EVENT_ESTABLISHED, limit);
  return pair;
}

void Limits::await(ibv_cq* cq, uint64_t count, seconds limit, uint32_t last_length) {
  const Deadline deadline(limit);
  for (uint64_t seen = 0; seen < count;) {
    ibv_wc wc{};
    const int n = ibv_poll_cq(cq, 1, &wc);
    if (n < 0) fail("ibv_poll_cq failed");
    if (n == 1) {
      if (wc.status != IBV_WC_SUCCESS) fail("%s", describe(wc).c_str());
      if (wc.wr_id != seen) {
        fail("completion of %llu in place of %llu", static_cast<unsigned long long>(wc.wr_id),
             static_cast<unsigned long long>(seen));
      }
      if (last_length != UINT32_MAX && seen + 1 == count && wc.byte_len != last_length) {
        fail("byte_len %u in place of %u", wc.byte_len, last_length);
      }
      ++seen;
      continue;
    }
    if (deadline.passed()) {
      fail("%llu of %llu completions", static_cast<unsigned long long>(seen),
           static_cast<unsigned long long>(count));
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
}

void Limits::largestCq() { Cq cq = createCq(context_, attr_.max_cqe); }

void Limits::largestQp() {
  End end;
  end.id = client_cm_.createId();
  resolve(client_cm_, end.id, Address(settings_.address, static_cast<uint16_t>(settings_.port)),
          Deadline(kLimit));
  QpConfig config;
  config.send_wr = config.recv_wr = static_cast<uint32_t>(attr_.max_qp_wr);
  config.send_sge = config.recv_sge = static_cast<uint32_t>(attr_.max_sge);
  config.inline_data = 256;
  prepare(&end, config, 64);
  if (end.cap.max_send_wr < 16384 || end.cap.max_recv_wr < 16384 || end.cap.max_send_sge < 16 ||
      end.cap.max_recv_sge < 16 || end.cap.max_inline_data < 256) {
    fail("granted %u send WRs, %u receive WRs, %u and %u SGEs, %u bytes inline",
         end.cap.max_send_wr, end.cap.max_recv_wr, end.cap.max_send_sge, end.cap.max_recv_sge,
         end.cap.max_inline_data);
  }
}

void Limits::fullQueues() {
  constexpr uint32_t kWrs = 16384;
  QpConfig config;
  config.send_wr = config.recv_wr = kWrs;
  config.signal_all = true;
  Pair pair = connect(config, kWrs);
  Memory inbox(size_t{kWrs} * 8), source(size_t{kWrs} * 8);
  Mr inbox_mr = regMr(pd_.get(), inbox.data(), inbox.size(), kFull);
  Mr source_mr = regMr(pd_.get(), source.data(), source.size(), 0);
  std::vector<ibv_sge> sges(kWrs);
  std::vector<ibv_recv_wr> receives(kWrs);
  std::vector<ibv_send_wr> sends(kWrs);
  std::vector<ibv_sge> send_sges(kWrs);
  for (uint64_t i = 0; i < kWrs; ++i) {
    std::memcpy(source.data() + i * 8, &i, 8);
    sges[i] = {reinterpret_cast<uintptr_t>(inbox.data()) + i * 8, 8, inbox_mr->lkey};
    receives[i] = {i, i + 1 < kWrs ? &receives[i + 1] : nullptr, &sges[i], 1};
    send_sges[i] = {reinterpret_cast<uintptr_t>(source.data()) + i * 8, 8, source_mr->lkey};
    sends[i] = {};
    sends[i].wr_id = i;
    sends[i].next = i + 1 < kWrs ? &sends[i + 1] : nullptr;
    sends[i].sg_list = &send_sges[i];
    sends[i].num_sge = 1;
    sends[i].opcode = IBV_WR_SEND;
  }
  ibv_recv_wr* bad_receive = nullptr;
  checkErrno(ibv_post_recv(pair.server.id->qp, receives.data(), &bad_receive), "ibv_post_recv");
  ibv_send_wr* bad_send = nullptr;
  checkErrno(ibv_post_send(pair.client.id->qp, sends.data(), &bad_send), "ibv_post_send");
  await(pair.client.cq.get(), kWrs, kLimit);
  await(pair.server.cq.get(), kWrs, kLimit);
  if (auto bad = firstDifference(inbox.data(), source.data(), inbox.size())) {
    fail("byte %zu of the %u messages is wrong", *bad, kWrs);
  }
}

void Limits::transfer(Pair& pair, ibv_wr_opcode opcode, ibv_sge sge, uint64_t address,
                      uint32_t rkey, seconds limit) {
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = address;
  wr.wr.rdma.rkey = rkey;
  ibv_send_wr* bad = nullptr;
  checkErrno(ibv_post_send(pair.client.id->qp, &wr, &bad), "ibv_post_send");
  await(pair.client.cq.get(), 1, limit);
}

// Its completion is left to the caller.
void transferLater(ibv_qp* qp, ibv_sge sge) {
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  checkErrno(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

void Limits::gatherSixteen() {
  constexpr uint32_t kSges = 16, kEach = 1001;
  QpConfig config;
  config.send_sge = config.recv_sge = kSges;
  Pair pair = connect(config, 64);
  Memory source = makeOcean(1, uint64_t{kSges} * 2 * kPage), inbox(kSges * kPage);
  Mr source_mr = regMr(pd_.get(), source.data(), source.size(), 0);
  Mr inbox_mr = regMr(pd_.get(), inbox.data(), inbox.size(), IBV_ACCESS_LOCAL_WRITE);
  ibv_sge from[kSges], to[kSges];
  std::vector<uint8_t> expected;
  for (uint32_t i = 0; i < kSges; ++i) {
    const size_t offset = uint64_t{kSges - 1 - i} * 2 * kPage + 3000 + i;
    from[i] = {reinterpret_cast<uintptr_t>(source.data()) + offset, kEach, source_mr->lkey};
    expected.insert(expected.end(), source.data() + offset, source.data() + offset + kEach);
    // Of other lengths than the pieces that come, the last one with the rest.
    const uint32_t length = i + 1 < kSges ? 900 + i : kSges * kEach - 15 * 900 - 105;
    to[i] = {reinterpret_cast<uintptr_t>(inbox.data()) + i * kPage + 7, length, inbox_mr->lkey};
  }
  ibv_recv_wr receive{0, nullptr, to, kSges};
  ibv_recv_wr* bad_receive = nullptr;
  checkErrno(ibv_post_recv(pair.server.id->qp, &receive, &bad_receive), "ibv_post_recv");
  ibv_send_wr send{};
  send.sg_list = from;
  send.num_sge = kSges;
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad_send = nullptr;
  checkErrno(ibv_post_send(pair.client.id->qp, &send, &bad_send), "ibv_post_send");
  await(pair.client.cq.get(), 1, kLimit);
  await(pair.server.cq.get(), 1, kLimit, kSges * kEach);
  size_t done = 0;
  for (const ibv_sge& sge : to) {
    if (std::memcmp(reinterpret_cast<void*>(sge.addr), expected.data() + done, sge.length) != 0) {
      fail("the SGE after %zu bytes is wrong", done);
    }
    done += sge.length;
  }
}

void Limits::inlineMost() {
  constexpr uint32_t kInline = 256;
  QpConfig config;
  config.inline_data = kInline;
  Pair pair = connect(config, 64);
  Memory inbox(kPage), expected = makeOcean(2, kPage);
  Mr inbox_mr = regMr(pd_.get(), inbox.data(), kPage, kFull);
  std::vector<uint8_t> data(expected.data(), expected.data() + kInline);
  ibv_sge sge{reinterpret_cast<uintptr_t>(data.data()), kInline, 0};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(inbox.data());
  wr.wr.rdma.rkey = inbox_mr->rkey;
  ibv_send_wr* bad = nullptr;
  checkErrno(ibv_post_send(pair.client.id->qp, &wr, &bad), "ibv_post_send");
  std::fill(data.begin(), data.end(), 0);
  await(pair.client.cq.get(), 1, kLimit);
  // The Write has no completion here; a Read behind it sees it placed.
  Memory back(kPage);
  Mr back_mr = regMr(pd_.get(), back.data(), kPage, kFull);
  transfer(pair, IBV_WR_RDMA_READ,
           {reinterpret_cast<uintptr_t>(back.data()), kInline, back_mr->lkey},
           reinterpret_cast<uintptr_t>(inbox.data()), inbox_mr->rkey);
  if (firstDifference(back.data(), expected.data(), kInline)) fail("the bytes differ");
}

void Limits::wholeMemory() {
  struct sysinfo info {};
  checkErrno(sysinfo(&info), "sysinfo");
  const uint64_t free = static_cast<uint64_t>(info.freeram) * info.mem_unit;
  const uint64_t size = free / 100 * settings_.memory_percent / kPage * kPage;
  Memory memory(size);
  const uint64_t iova = 0x7654'3000'0000'0000;
  Mr mr = regMrIova(pd_.get(), memory.data(), size, iova, kFull | IBV_ACCESS_RELAXED_ORDERING);
  std::printf("# one MR of %llu MiB\n", static_cast<unsigned long long>(size >> 20));
  Pair pair = connect({}, 64);
  Memory ocean = makeOcean(3, 3 * kPage), back(3 * kPage);
  Mr ocean_mr = regMr(pd_.get(), ocean.data(), ocean.size(), kFull);
  Mr back_mr = regMr(pd_.get(), back.data(), back.size(), kFull);
  const auto ocean_address = reinterpret_cast<uintptr_t>(ocean.data());
  const auto back_address = reinterpret_cast<uintptr_t>(back.data());
  const uint32_t length = 2 * kPage + 17;
  Rng rng(4);
  std::vector<uint64_t> offsets = {0, size - length, size / 2 - 5};
  for (int i = 0; i < 8; ++i) offsets.push_back(rng.below(size - length));
  for (uint64_t offset : offsets) {
    transfer(pair, IBV_WR_RDMA_WRITE, {ocean_address, length, ocean_mr->lkey}, iova + offset,
             mr->rkey);
    transfer(pair, IBV_WR_RDMA_READ, {back_address, length, back_mr->lkey}, iova + offset,
             mr->rkey);
    if (firstDifference(back.data(), ocean.data(), length) ||
        firstDifference(memory.data() + offset, ocean.data(), length)) {
      fail("the bytes at offset %llu differ", static_cast<unsigned long long>(offset));
    }
  }
  // The MR serves as a local buffer too, by its iova.
  transfer(pair, IBV_WR_RDMA_WRITE, {iova + 1, kPage, mr->lkey}, back_address, back_mr->rkey);
  transfer(pair, IBV_WR_RDMA_READ, {iova + size - kPage, kPage, mr->lkey}, ocean_address,
           ocean_mr->rkey);
  if (firstDifference(back.data(), memory.data() + 1, kPage) ||
      firstDifference(memory.data() + size - kPage, ocean.data(), kPage)) {
    fail("the bytes of the local buffer differ");
  }
}

// Address space of 2 GiB over a few pages of memory, mapped again and again.
class Folded {
 public:
  static constexpr uint64_t kSize = uint64_t{1} << 31;
  static constexpr uint64_t kPiece = 4 << 20;

  Folded() : fd_(memfd_create("kiwarp-limits", MFD_CLOEXEC)) {
    if (fd_ < 0) fail("memfd_create: %s", errnoName(errno).c_str());
    checkErrno(ftruncate(fd_, kPiece), "ftruncate");
    void* all = mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) fail("mmap: %s", errnoName(errno).c_str());
    data_ = static_cast<uint8_t*>(all);
    for (uint64_t at = 0; at < kSize; at += kPiece) {
      if (mmap(data_ + at, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0) ==
          MAP_FAILED) {
        fail("mmap: %s", errnoName(errno).c_str());
      }
    }
  }
  ~Folded() {
    munmap(data_, kSize);
    close(fd_);
  }
  Folded(const Folded&) = delete;
  Folded& operator=(const Folded&) = delete;
  uint8_t* data() const { return data_; }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(data_); }

 private:
  int fd_;
  uint8_t* data_;
};

struct HugeBuffers {
  explicit HugeBuffers(ibv_pd* pd) {
    const Memory ocean = makeOcean(5, Folded::kPiece);
    std::memcpy(source.data(), ocean.data(), Folded::kPiece);
    source_mr = regMr(pd, source.data(), Folded::kSize, 0);
    target_mr = regMr(pd, target.data(), Folded::kSize, kFull);
  }
  void check() const {
    if (auto bad = firstDifference(target.data(), source.data(), Folded::kPiece)) {
      fail("byte %zu differs", *bad);
    }
  }
  Folded source, target;
  Mr source_mr, target_mr;
};

void Limits::hugeWrite() {
  HugeBuffers buffers(pd_.get());
  Pair pair = connect({}, 64);
  transfer(
      pair, IBV_WR_RDMA_WRITE,
      {buffers.source.address(), static_cast<uint32_t>(Folded::kSize), buffers.source_mr->lkey},
      buffers.target.address(), buffers.target_mr->rkey, kHugeLimit);
  // The Read behind it comes back only when the Write is placed.
  Memory back(kPage);
  Mr back_mr = regMr(pd_.get(), back.data(), kPage, kFull);
  transfer(pair, IBV_WR_RDMA_READ,
           {reinterpret_cast<uintptr_t>(back.data()), static_cast<uint32_t>(kPage), back_mr->lkey},
           buffers.target.address() + Folded::kSize - kPage, buffers.target_mr->rkey, kHugeLimit);
  buffers.check();
}

void Limits::hugeSend() {
  HugeBuffers buffers(pd_.get());
  Pair pair = connect({}, 64);
  ibv_sge sge{buffers.target.address(), static_cast<uint32_t>(Folded::kSize),
              buffers.target_mr->lkey};
  ibv_recv_wr receive{0, nullptr, &sge, 1};
  ibv_recv_wr* bad = nullptr;
  checkErrno(ibv_post_recv(pair.server.id->qp, &receive, &bad), "ibv_post_recv");
  transfer(
      pair, IBV_WR_SEND,
      {buffers.source.address(), static_cast<uint32_t>(Folded::kSize), buffers.source_mr->lkey}, 0,
      0, kHugeLimit);
  await(pair.server.cq.get(), 1, kLimit, static_cast<uint32_t>(Folded::kSize));
  buffers.check();
}

// Which bytes a queue pair sends as its nth message: a short one and a long one in turn.
struct Piece {
  static constexpr size_t kOcean = 1 << 20;
  static constexpr uint32_t kLongest = 40000, kShort = 1500;

  Piece(uint32_t pair, uint32_t nth) {
    Rng random(uint64_t{pair} << 32 | nth);
    length = static_cast<uint32_t>(random.below(nth % 2 == 0 ? kShort : kLongest));
    offset = random.below(kOcean - kLongest);
  }
  size_t offset;
  uint32_t length;
};

// What leaves an interface waits there while it is held, and then goes in the order in which it
// came.
class Plug {
 public:
  explicit Plug(std::string device) : device_(std::move(device)) {
    tc("add", "limit 1000000000");
    tc("change", "release_indefinite");
  }
  ~Plug() { std::system(command("del", "").c_str()); }
  Plug(const Plug&) = delete;
  Plug& operator=(const Plug&) = delete;

  void hold() const { tc("change", "block"); }
  void release() const { tc("change", "release_indefinite"); }

 private:
  std::string command(const char* what, const char* how) const {
    return strf("tc qdisc %s dev %s root plug %s", what, device_.c_str(), how);
  }
  void tc(const char* what, const char* how) const {
    const std::string line = command(what, how);
    if (std::system(line.c_str()) != 0) fail("%s", line.c_str());
  }

  std::string device_;
};

// The receives of a shared queue that have a message's first bytes, but not yet its last. They are
// taken in the order in which they were posted, so that one that completes tells of all before it.
class OpenReceives {
 public:
  void posted(uint64_t id) { place_[id] = posted_++; }
  void completed(uint64_t id) {
    taken_ = std::max(taken_, place_.at(id) + 1);
    most_ = std::max(most_, taken_ - completed_);
    ++completed_;
  }
  // At a time, at least.
  uint64_t most() const { return most_; }

 private:
  std::unordered_map<uint64_t, uint64_t> place_;
  uint64_t posted_ = 0, taken_ = 0, completed_ = 0, most_ = 0;
};

// A thousand queue pairs take the receives of one queue: each message is whole, in one receive, and
// each queue pair's come in order. Their messages come piece by piece and all at a time: TCP sends
// a part of a long one at first, and more when that has arrived, which is when all have sent.
void Limits::thousandShare() {
  constexpr uint32_t kPairs = 1000, kRounds = 2, kEach = 2, kEntries = kPairs * kEach;
  constexpr uint32_t kThreads = 4;
  const Plug plug(settings_.share);
  OpenReceives open;
  Memory ocean = makeOcean(3, Piece::kOcean), inbox(size_t{kEntries} * Piece::kLongest);
  Mr ocean_mr = regMr(pd_.get(), ocean.data(), ocean.size(), 0);
  Mr inbox_mr = regMr(pd_.get(), inbox.data(), inbox.size(), IBV_ACCESS_LOCAL_WRITE);
  Srq srq = createSrq(pd_.get(), kEntries, 1);
  Cq sent = createCq(context_, kEntries), received = createCq(context_, kEntries);
  QpConfig client, server;
  client.send_wr = kEach;
  client.recv_wr = server.send_wr = 0;
  client.send_cq = client.recv_cq = sent.get();
  server.send_cq = server.recv_cq = received.get();
  server.srq = srq.get();

  const auto slot = [&](uint64_t id) { return inbox.data() + id * Piece::kLongest; };
  const auto post = [&](uint64_t id) {
    ibv_sge sge{reinterpret_cast<uintptr_t>(slot(id)), Piece::kLongest, inbox_mr->lkey};
    ibv_recv_wr wr{id, nullptr, &sge, 1};
    ibv_recv_wr* bad = nullptr;
    checkErrno(ibv_post_srq_recv(srq.get(), &wr, &bad), "ibv_post_srq_recv");
    open.posted(id);
  };
  for (uint32_t id = 0; id < kEntries; ++id) post(id);

  std::vector<Pair> pairs;
  std::unordered_map<uint32_t, uint32_t> pair_of;
  std::vector<uint32_t> arrived(kPairs);
  for (uint32_t i = 0; i < kPairs; ++i) {
    pairs.push_back(connect(client, server, 0));
    pair_of[pairs.back().server.id->qp->qp_num] = i;
  }
  const auto completion = [](ibv_cq* cq) {
    const Deadline deadline(kLimit);
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
      if (deadline.passed()) fail("a completion is missing");
    }
    if (wc.status != IBV_WC_SUCCESS) fail("%s", describe(wc).c_str());
    return wc;
  };
  const auto sendAll = [&](uint32_t round, uint32_t thread) {
    for (uint32_t n = round * kEach; n < (round + 1) * kEach; ++n) {
      for (uint32_t i = thread; i < kPairs; i += kThreads) {
        const Piece piece(i, n);
        ibv_sge sge{reinterpret_cast<uintptr_t>(ocean.data()) + piece.offset, piece.length,
                    ocean_mr->lkey};
        transferLater(pairs[i].client.id->qp, sge);
      }
    }
  };
  for (uint32_t round = 0; round < kRounds; ++round) {
    plug.hold();
    std::vector<std::future<void>> threads;
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads.push_back(std::async(std::launch::async, sendAll, round, i));
    }
    for (auto& thread : threads) thread.get();
    plug.release();
    for (uint32_t i = 0; i < kEntries; ++i) completion(sent.get());
    for (uint32_t i = 0; i < kEntries; ++i) {
      const ibv_wc wc = completion(received.get());
      open.completed(wc.wr_id);
      const uint32_t pair = pair_of.at(wc.qp_num), nth = arrived[pair]++;
      const Piece piece(pair, nth);
      if (wc.byte_len != piece.length) {
        fail("message %u of queue pair %u: %u bytes in place of %u", nth, pair, wc.byte_len,
             piece.length);
      }
      if (firstDifference(slot(wc.wr_id), ocean.data() + piece.offset, piece.length)) {
        fail("message %u of queue pair %u is not whole", nth, pair);
      }
      post(wc.wr_id);
    }
  }
  std::printf("# %llu messages at a time\n", static_cast<unsigned long long>(open.most()));
  if (open.most() < kPairs / 4) fail("too few messages came at the same time");
}

int Limits::run() {
  if (!settings_.share.empty()) {
    addCase("a-thousand-share-an-srq", [this] { thousandShare(); });
    return runCases();
  }
  addCase("largest-cq", [this] { largestCq(); });
  addCase("largest-qp", [this] { largestQp(); });
  addCase("full-queues", [this] { fullQueues(); });
  addCase("sixteen-sges", [this] { gatherSixteen(); });
  addCase("most-inline-data", [this] { inlineMost(); });
  addCase("whole-memory-in-one-mr", [this] { wholeMemory(); });
  if (settings_.huge) {
    addCase("write-of-2-gib", [this] { hugeWrite(); });
    addCase("send-of-2-gib", [this] { hugeSend(); });
  }
  return runCases();
}

void onAlarm(int) {
  static const char kText[] = "not ok - stuck inside a call beyond every deadline\n";
  [[maybe_unused]] ssize_t n = write(STDOUT_FILENO, kText, std::strlen(kText));
  _exit(3);
}

}  // namespace
}  // namespace kiwarp::vm

int main(int argc, char** argv) {
  using kiwarp::vm::kUsage;
  kiwarp::vm::Settings settings;
  kiwarp::vm::Options options(kUsage);
  options.text("--addr", &settings.address);
  options.number("--port", &settings.port);
  options.number("--memory-percent", &settings.memory_percent);
  options.flag("--huge", &settings.huge);
  options.text("--share", &settings.share);
  return kiwarp::vm::runMain("Bail out! ", [&] {
    kiwarp::vm::initCases(&argc, argv);
    options.parse(argc, argv);
    if (settings.address.empty()) options.misuse("--addr is needed");
    std::signal(SIGALRM, kiwarp::vm::onAlarm);
    alarm(settings.huge ? 2400 : 500);
    kiwarp::vm::Limits limits(settings);
    return limits.run();
  });
}
