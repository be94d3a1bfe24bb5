// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Memory regions: registered again as something else, and the rarer ways to register.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "common/page.h"
#include "extended/cases.h"

namespace kiwarp::vm {
namespace {

constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr int kReadable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

// Pages of a buffer that carries no region of its own.
struct Pages {
  explicit Pages(size_t pages) : memory(pages * kPage) { clear(); }
  void clear() const { std::memset(memory.data(), 0, memory.size()); }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory.data()); }
  Memory memory;
};

// Writes one byte to the peer's memory, from a region of the writer's own.
ibv_wc_status writeByte(Env& env, Link& link, const Buffer& from, uint8_t value, uint64_t address,
                        uint32_t rkey) {
  *from.data() = value;
  expectErrno("post", 0,
              postSend(link.client.qp(), {Work::write(1, {from.sge(0, 1)}, address, rkey)}).error);
  ibv_wc wc = env.awaitWc(link.client.send_cq.get(), "Write");
  if (wc.status != IBV_WC_SUCCESS) return wc.status;
  // A Write is placed when what follows it has come.
  env.expectAlive(link);
  return wc.status;
}

void expectWrites(Env& env, const std::string& what, ibv_mr* mr, uint8_t* at) {
  static uint8_t value;
  Buffer from(env.pd(), kPage, IBV_ACCESS_LOCAL_WRITE);
  auto link = env.connect();
  ++value;
  writeByte(env, *link, from, value, reinterpret_cast<uintptr_t>(at), mr->rkey);
  if (*at != value) fail("%s: the Write is not there", what.c_str());
}

// The connection ends with the byte as it was.
void expectNoWrite(Env& env, const std::string& what, ibv_mr* mr, uint8_t* at) {
  Buffer from(env.pd(), kPage, IBV_ACCESS_LOCAL_WRITE);
  auto link = env.connect();
  const uint8_t before = *at;
  *from.data() = static_cast<uint8_t>(before + 1);
  expectErrno("post", 0,
              postSend(link->client.qp(), {Work::write(1, {from.sge(0, 1)},
                                                       reinterpret_cast<uintptr_t>(at), mr->rkey)})
                  .error);
  env.expectEnded(*link);
  if (*at != before) fail("%s: the Write was placed", what.c_str());
}

// The region's new state, as the peer and this process find it.
struct Want {
  ibv_pd* pd;
  Pages* pages;
  int access;
};

void expectRegion(Env& env, const std::string& what, ibv_mr* mr, const Want& want) {
  expectSame(what + ": address", strf("%p", want.pages->memory.data()), strf("%p", mr->addr));
  expectSame(what + ": length", strf("%zu", want.pages->memory.size()), strf("%zu", mr->length));
  uint8_t* at = want.pages->memory.data() + want.pages->memory.size() - 1;
  if (want.pd == env.pd() && (want.access & IBV_ACCESS_REMOTE_WRITE) != 0) {
    expectWrites(env, what, mr, at);
  } else {
    expectNoWrite(env, what, mr, at);
  }
}

// Every combination of what can be changed, and back.
void reregAll(Env& env) {
  Pages one(2);
  Pages other(3);
  for (int flags = 1; flags <= IBV_REREG_MR_FLAGS_SUPPORTED; ++flags) {
    const auto what = strf("flags %d", flags);
    Mr mr = regMr(env.pd(), one.memory.data(), one.memory.size(), kWritable);
    const uint32_t lkey = mr->lkey;
    const uint32_t rkey = mr->rkey;
    Want want{env.pd(), &one, kWritable};
    expectRegion(env, what + " before", mr.get(), want);
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) want.pages = &other;
    if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) want.pd = env.otherPd();
    const bool access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
    if (access) want.access = kReadable;
    expectErrno(what, 0,
                ibv_rereg_mr(mr.get(), flags, want.pd, want.pages->memory.data(),
                             want.pages->memory.size(), access ? want.access : 0));
    expectRegion(env, what, mr.get(), want);
    expectErrno(what + " back", 0,
                ibv_rereg_mr(mr.get(), flags, env.pd(), one.memory.data(), one.memory.size(),
                             access ? kWritable : 0));
    expectRegion(env, what + " back", mr.get(), {env.pd(), &one, kWritable});
    expectSame(what + ": lkey", strf("%x", lkey), strf("%x", mr->lkey));
    expectSame(what + ": rkey", strf("%x", rkey), strf("%x", mr->rkey));
  }
}

// Memory that was pinned to be read is pinned once more.
void reregToWrite(Env& env) {
  Pages pages(2);
  Mr mr = regMr(env.pd(), pages.memory.data(), pages.memory.size(), 0);
  expectNoWrite(env, "without rights", mr.get(), pages.memory.data());
  expectErrno("rights", 0,
              ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kWritable));
  expectWrites(env, "with rights", mr.get(), pages.memory.data());
}

// Runs it in another process: this one's child, which has the device's file from it.
template <typename Call>
int inChild(Call call) {
  const pid_t child = fork();
  if (child < 0) fail("fork: %s", errnoName(errno).c_str());
  if (child == 0) _exit(call());
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) fail("the child has not ended");
  return WEXITSTATUS(status);
}

// Another process cannot pin what is this one's. What needs no pinning anew it may change.
void reregByOther(Env& env) {
  Pages pages(2);
  Mr mr = regMr(env.pd(), pages.memory.data(), pages.memory.size(), IBV_ACCESS_REMOTE_READ);
  const auto rights = [&](int access) {
    errno = 0;
    return ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access);
  };
  expectErrno("another process, to write", EPERM,
              inChild([&] { return rights(kWritable) == IBV_REREG_MR_ERR_CMD ? errno : 0; }));
  expectNoWrite(env, "after that", mr.get(), pages.memory.data());
  expectSame("another process, to read", "0", strf("%d", inChild([&] { return -rights(0); })));
  expectErrno("its owner", 0, rights(kWritable));
  expectWrites(env, "with rights", mr.get(), pages.memory.data());
  expectSame("another process, when it was pinned to be written", "0",
             strf("%d", inChild([&] { return -rights(kWritable | kReadable); })));
  expectWrites(env, "with more rights", mr.get(), pages.memory.data());
}

// One byte by this address of a region's, then the memory.
void expectAt(Env& env, const std::string& what, uint32_t rkey, uint64_t address,
              const uint8_t* at) {
  static uint8_t value;
  Buffer from(env.pd(), kPage, IBV_ACCESS_LOCAL_WRITE);
  auto link = env.connect();
  writeByte(env, *link, from, ++value, address, rkey);
  expectSame(what, strf("%d", value), strf("%d", *at));
}

void expectNothingAt(Env& env, const std::string& what, uint32_t rkey, uint64_t address) {
  Buffer from(env.pd(), kPage, IBV_ACCESS_LOCAL_WRITE);
  auto link = env.connect();
  expectErrno(what, 0,
              postSend(link->client.qp(), {Work::write(1, {from.sge(0, 1)}, address, rkey)}).error);
  env.expectEnded(*link);
}

// Work requests and the peer name the first byte by 0, wherever it is, until the region has its
// address again.
void zeroBased(Env& env) {
  constexpr size_t kFrom = 100;
  const size_t kLength = kPage + 7;
  constexpr int kZero = kWritable | kReadable | IBV_ACCESS_ZERO_BASED;
  Pages pages(3), other(3);
  uint8_t* at = pages.memory.data() + kFrom;
  Mr mr = regMr(env.pd(), at, kLength, kZero);
  expectAt(env, "the first byte", mr->rkey, 0, at);
  expectAt(env, "the last byte", mr->rkey, kLength - 1, at + kLength - 1);
  expectNothingAt(env, "behind the end", mr->rkey, kLength);
  expectNothingAt(env, "the address", mr->rkey, reinterpret_cast<uintptr_t>(at));

  // As this side's source.
  Buffer inbox(env.pd(), kPage, IBV_ACCESS_LOCAL_WRITE);
  auto link = env.connect();
  for (uint8_t i = 0; i < 10; ++i) at[i] = static_cast<uint8_t>(i + 1);
  mustRecv(link->server.qp(), 1, {inbox.sge(0, 10)});
  expectErrno("Send", 0, postSend(link->client.qp(), {Work::send(2, {{0, 10, mr->lkey}})}).error);
  env.expectWc(link->server.recv_cq.get(), 1, {IBV_WC_SUCCESS}, "receive");
  if (std::memcmp(inbox.data(), at, 10) != 0) fail("other bytes were sent");

  uint8_t* moved = other.memory.data() + 5;
  expectErrno("to other memory", 0,
              ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, moved, kLength, 0));
  expectAt(env, "the first byte of other memory", mr->rkey, 0, moved);
  expectErrno("to addresses", 0,
              ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kWritable));
  expectAt(env, "by its address", mr->rkey, reinterpret_cast<uintptr_t>(moved), moved);
  expectNothingAt(env, "by 0, which it was", mr->rkey, 0);
  expectErrno("to offsets", 0,
              ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kZero));
  expectAt(env, "by 0 again", mr->rkey, 0, moved);
}

// A change of rights alone names no address: the region keeps its own, however often.
void reregKeepsAddress(Env& env) {
  Pages pages(2);
  Mr mr = regMr(env.pd(), pages.memory.data(), pages.memory.size(), kWritable);
  for (const int access : {kReadable, kWritable}) {
    expectErrno("rights", 0,
                ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access));
    expectRegion(env, "no address", mr.get(), {env.pd(), &pages, access});
  }
}

// The same address, other pages behind it.
void reregNewPages(Env& env) {
  Pages pages(2);
  uint8_t* at = pages.memory.data();
  Mr mr = regMr(env.pd(), at, pages.memory.size(), kWritable);
  if (mmap(at, pages.memory.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
           -1, 0) == MAP_FAILED) {
    fail("mmap: %s", errnoName(errno).c_str());
  }
  pages.clear();
  expectErrno(
      "rereg", 0,
      ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, pages.memory.size(), 0));
  expectWrites(env, "the new pages", mr.get(), at + kPage);
}

void expectRereg(const char* what, int code, int error, int got) {
  const int saved = errno;
  expectSame(what, strf("%d", code), strf("%d", got));
  expectErrno(what, error, saved);
}

// What fails leaves the region as it was.
void reregRefused(Env& env) {
  Pages pages(2);
  Pages hole(3);
  checkErrno(munmap(hole.memory.data() + kPage, kPage), "munmap");
  Mr owned = regMr(env.pd(), pages.memory.data(), pages.memory.size(), kWritable);
  ibv_mr* mr = owned.get();
  uint8_t* at = hole.memory.data();
  constexpr int kMove = IBV_REREG_MR_CHANGE_TRANSLATION;
  constexpr int kRights = IBV_REREG_MR_CHANGE_ACCESS;
  expectRereg("no flags", IBV_REREG_MR_ERR_CMD, EINVAL,
              ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0));
  expectRereg("unknown flags", IBV_REREG_MR_ERR_INPUT, EINVAL,
              ibv_rereg_mr(mr, 8, nullptr, nullptr, 0, 0));
  expectRereg("no bytes", IBV_REREG_MR_ERR_INPUT, EINVAL,
              ibv_rereg_mr(mr, kMove, nullptr, at, 0, 0));
  expectRereg("a hole", IBV_REREG_MR_ERR_CMD, EFAULT,
              ibv_rereg_mr(mr, kMove, nullptr, at, 3 * kPage, 0));
  expectRereg("a length that wraps", IBV_REREG_MR_ERR_CMD, EINVAL,
              ibv_rereg_mr(mr, kMove, nullptr, at, SIZE_MAX - 100, 0));
  expectRereg("REMOTE_WRITE without LOCAL_WRITE", IBV_REREG_MR_ERR_CMD, EINVAL,
              ibv_rereg_mr(mr, kRights, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE));
  expectRereg("ON_DEMAND", IBV_REREG_MR_ERR_CMD, EOPNOTSUPP,
              ibv_rereg_mr(mr, kRights, nullptr, nullptr, 0, kWritable | IBV_ACCESS_ON_DEMAND));
  expectRereg(
      "all at once, and a hole", IBV_REREG_MR_ERR_CMD, EFAULT,
      ibv_rereg_mr(mr, IBV_REREG_MR_FLAGS_SUPPORTED, env.otherPd(), at, 3 * kPage, kReadable));
  expectRegion(env, "after all that", mr, {env.pd(), &pages, kWritable});
}

// A protection domain is in use by the regions that it has at present.
void reregPdInUse(Env& env) {
  Pages pages(1);
  ibv_pd* one = ibv_alloc_pd(env.context());
  ibv_pd* other = ibv_alloc_pd(env.context());
  Mr mr = regMr(one, pages.memory.data(), kPage, kWritable);
  expectErrno("rereg", 0, ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0));
  expectErrno("dealloc of the old domain", 0, ibv_dealloc_pd(one));
  expectErrno("dealloc of the new domain", EBUSY, ibv_dealloc_pd(other));
  mr.reset();
  expectErrno("dealloc when the region is gone", 0, ibv_dealloc_pd(other));
}

// Writes go on to the first page, which every one of the registrations has.
void reregUnderTraffic(Env& env) {
  constexpr int kReregs = 200;
  Pages pages(8);
  Buffer from(env.pd(), kPage, IBV_ACCESS_LOCAL_WRITE);
  auto link = env.connect();
  Mr mr = regMr(env.pd(), pages.memory.data(), pages.memory.size(), kWritable);
  std::atomic<bool> over{false};
  std::string failure;
  int writes = 0;
  std::thread writer([&] {
    try {
      for (; !over || writes == 0; ++writes) {
        const auto value = static_cast<uint8_t>(writes);
        const auto status = writeByte(env, *link, from, value, pages.address(), mr->rkey);
        if (status != IBV_WC_SUCCESS) fail("Write %d: %s", writes, ibv_wc_status_str(status));
        if (*pages.memory.data() != value) fail("Write %d is not there", writes);
      }
    } catch (const Failure& caught) {
      failure = caught.what();
    }
  });
  int error = 0;
  for (int i = 0; i < kReregs && error == 0; ++i) {
    const int flags = i % 2 == 0 ? IBV_REREG_MR_CHANGE_TRANSLATION : IBV_REREG_MR_CHANGE_ACCESS;
    const auto length = (1 + static_cast<size_t>(i) % 8) * kPage;
    error = ibv_rereg_mr(mr.get(), flags, nullptr, pages.memory.data(), length,
                         i % 2 == 0 ? 0 : (i % 4 == 1 ? kWritable : kWritable | kReadable));
  }
  over = true;
  writer.join();
  if (!failure.empty()) fail("%s", failure.c_str());
  if (error != 0) fail("rereg: %d, %s", error, errnoName(errno).c_str());
  env.expectAlive(*link);
}

// The device once more through the same file, with a region that is there already.
void imported(Env& env) {
  Pages pages(1);
  Mr mr = regMr(env.pd(), pages.memory.data(), kPage, kWritable);
  ibv_context* context = ibv_import_device(dup(env.context()->cmd_fd));
  if (!context) fail("ibv_import_device: %s", errnoName(errno).c_str());
  ibv_pd* pd = ibv_import_pd(context, env.pd()->handle);
  if (!pd) fail("ibv_import_pd: %s", errnoName(errno).c_str());
  ibv_mr* same = ibv_import_mr(pd, mr->handle);
  if (!same) fail("ibv_import_mr: %s", errnoName(errno).c_str());
  expectSame("lkey", strf("%x", mr->lkey), strf("%x", same->lkey));
  expectSame("rkey", strf("%x", mr->rkey), strf("%x", same->rkey));
  expectSame("length", strf("%zu", mr->length), strf("%zu", same->length));
  errno = 0;
  ibv_mr* none = ibv_import_mr(pd, 0x7fffffff);
  expectErrno("a region that does not exist", ENOENT, none ? 0 : errno);
  // A region of the imported domain is as good as one of the other.
  Pages more(1);
  Mr second = regMr(pd, more.memory.data(), kPage, kWritable);
  expectWrites(env, "registered in the imported domain", second.get(), more.memory.data());
  second.reset();
  ibv_unimport_mr(same);
  ibv_unimport_pd(pd);
  expectErrno("ibv_close_device", 0, ibv_close_device(context));
  expectWrites(env, "when all that is over", mr.get(), pages.memory.data());
}

void relaxed(Env& env) {
  Pages pages(1);
  Mr mr = regMr(env.pd(), pages.memory.data(), kPage, kWritable | IBV_ACCESS_RELAXED_ORDERING);
  expectWrites(env, "relaxed ordering", mr.get(), pages.memory.data());
  const uint64_t kIova = 7 * kPage;
  Mr second(ibv_reg_mr_iova2(env.pd(), pages.memory.data(), kPage, kIova,
                             kWritable | IBV_ACCESS_RELAXED_ORDERING));
  if (!second) fail("ibv_reg_mr_iova2: %s", errnoName(errno).c_str());
  Buffer from(env.pd(), kPage, IBV_ACCESS_LOCAL_WRITE);
  auto link = env.connect();
  writeByte(env, *link, from, 77, kIova + 5, second->rkey);
  expectSame("by another address", "77", strf("%d", pages.memory.data()[5]));
}

// What has no meaning here is refused, with the errno of the manual pages.
void refused(Env& env) {
  Pages pages(1);
  errno = 0;
  Mr mr(ibv_reg_mr(env.pd(), pages.memory.data(), kPage, kWritable | IBV_ACCESS_ON_DEMAND));
  expectErrno("on-demand paging", EOPNOTSUPP, mr ? 0 : errno);
  mr = regMr(env.pd(), pages.memory.data(), kPage, kWritable);
  ibv_sge sge{pages.address(), static_cast<uint32_t>(kPage), mr->lkey};
  expectErrno("ibv_advise_mr", EOPNOTSUPP,
              ibv_advise_mr(env.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
  auto link = env.connect();
  ibv_ece ece{};
  expectErrno("ibv_query_ece", EOPNOTSUPP, ibv_query_ece(link->client.qp(), &ece));
  ece.vendor_id = 1;
  expectErrno("ibv_set_ece", EOPNOTSUPP, ibv_set_ece(link->client.qp(), &ece));
  for (ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    expectSame("ibv_query_qp_data_in_order", "0",
               strf("%d", ibv_query_qp_data_in_order(link->client.qp(), op, 0)));
  }
}

}  // namespace

void addMrCases(std::vector<Case>* cases) {
  cases->insert(cases->end(), {{"mr-rereg", reregAll},
                               {"mr-rereg-write", reregToWrite},
                               {"mr-rereg-other-process", reregByOther},
                               {"mr-zero-based", zeroBased},
                               {"mr-rereg-address", reregKeepsAddress},
                               {"mr-rereg-new-pages", reregNewPages},
                               {"mr-rereg-refused", reregRefused},
                               {"mr-rereg-pd", reregPdInUse},
                               {"mr-rereg-traffic", reregUnderTraffic},
                               {"mr-imported", imported},
                               {"mr-relaxed", relaxed},
                               {"mr-refused", refused}});
}

}  // namespace kiwarp::vm
