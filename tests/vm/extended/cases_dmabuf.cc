// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Memory regions of dma-bufs: of Debian's exporters, if the kernel has them, and of the exporter of
// the module kiwarp_ktest, which can be told what to be unable to do.

#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "../../kverbs/exporter.h"
#include "badinput/memlock.h"
#include "common/page.h"
#include "extended/cases.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kBufferPages = KT_EXPORT_PAGES;
constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr int kReadable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

// A dma-buf of the pages of a memfd, mapped here, too; fd is -1 where the kernel has no udmabuf.
struct Udmabuf {
  explicit Udmabuf(size_t pages) : size(pages * kPage) {
    memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (memfd < 0) fail("memfd_create: %s", errnoName(errno).c_str());
    checkErrno(ftruncate(memfd, static_cast<off_t>(size)), "ftruncate");
    checkErrno(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), "F_ADD_SEALS");
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (at == MAP_FAILED) fail("mmap: %s", errnoName(errno).c_str());
    data = static_cast<uint8_t*>(at);
    const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    if (device < 0) return;
    udmabuf_create create{};
    create.memfd = static_cast<uint32_t>(memfd);
    create.flags = UDMABUF_FLAGS_CLOEXEC;
    create.size = size;
    fd = ioctl(device, UDMABUF_CREATE, &create);
    close(device);
    if (fd < 0) fail("UDMABUF_CREATE: %s", errnoName(errno).c_str());
  }
  ~Udmabuf() {
    if (fd >= 0) close(fd);
    munmap(data, size);
    close(memfd);
  }
  Udmabuf(const Udmabuf&) = delete;
  Udmabuf& operator=(const Udmabuf&) = delete;

  size_t size;
  int memfd = -1;
  int fd = -1;
  uint8_t* data = nullptr;
};

void refuseDmabuf(Env& env, const char* what, int error, int fd, uint64_t offset, size_t length) {
  errno = 0;
  Mr mr(ibv_reg_dmabuf_mr(env.pd(), offset, length, offset, fd, kWritable));
  expectErrno(what, error, mr ? 0 : errno);
}

// Kernels of other makes need not have what Debian's have.
void lacks(const char* what, bool debian) {
  if (debian) fail("this kernel has no %s", what);
  std::printf("# no %s in this kernel\n", what);
}

void dmabufRefused(Env& env, bool debian) {
  const Udmabuf buffer(4);
  refuseDmabuf(env, "no file", EBADF, -1, 0, kPage);
  refuseDmabuf(env, "a file that is no dma-buf", EINVAL, buffer.memfd, 0, kPage);
  if (buffer.fd < 0) return lacks("udmabuf", debian);
  refuseDmabuf(env, "no bytes", EINVAL, buffer.fd, 0, 0);
  refuseDmabuf(env, "more than there is", EINVAL, buffer.fd, 0, buffer.size + 1);
  refuseDmabuf(env, "behind the end", EINVAL, buffer.fd, buffer.size, kPage);
  refuseDmabuf(env, "a length that wraps", EINVAL, buffer.fd, kPage, SIZE_MAX - 100);
}

// Bytes that a peer writes into the buffer, reads from it, and is sent from it.
void dmabuf(Env& env, bool debian) {
  const Udmabuf buffer(4);
  if (buffer.fd < 0) return lacks("udmabuf", debian);
  constexpr uint64_t kIova = 0x10000 + 100;
  const uint64_t kOffset = kPage + 100;
  const size_t kLength = 2 * kPage;
  Mr mr(ibv_reg_dmabuf_mr(env.pd(), kOffset, kLength, kIova, buffer.fd, kWritable | kReadable));
  if (!mr) fail("ibv_reg_dmabuf_mr: %s", errnoName(errno).c_str());
  auto link = env.connect();
  Buffer near(env.pd(), kLength, kReadable);
  for (size_t i = 0; i < kLength; ++i) near.data()[i] = static_cast<uint8_t>(i * 7 + 1);
  const auto length = static_cast<uint32_t>(kLength);
  expectErrno(
      "Write", 0,
      postSend(link->client.qp(), {Work::write(1, {near.sge(0, length)}, kIova, mr->rkey)}).error);
  env.expectWc(link->client.send_cq.get(), 1, {IBV_WC_SUCCESS}, "Write");
  env.expectAlive(*link);
  if (std::memcmp(buffer.data + kOffset, near.data(), kLength) != 0) fail("Write: other bytes");
  if (buffer.data[kOffset - 1] != 0 || buffer.data[kOffset + kLength] != 0) {
    fail("bytes beside the region were written");
  }
  Buffer back(env.pd(), kLength, kReadable);
  expectErrno(
      "Read", 0,
      postSend(link->client.qp(), {Work::read(2, {back.sge(0, length)}, kIova, mr->rkey)}).error);
  env.expectWc(link->client.send_cq.get(), 2, {IBV_WC_SUCCESS}, "Read");
  if (std::memcmp(back.data(), near.data(), kLength) != 0) fail("Read: other bytes");
  mustRecv(link->client.qp(), 3, {back.sge(0, length)});
  buffer.data[kOffset] = 0x55;
  expectErrno("Send", 0,
              postSend(link->server.qp(), {Work::send(4, {{kIova, length, mr->lkey}})}).error);
  env.expectWc(link->client.recv_cq.get(), 3, {IBV_WC_SUCCESS}, "receive");
  if (back.data()[0] != 0x55 || back.data()[kLength - 1] != near.data()[kLength - 1]) {
    fail("Send: other bytes");
  }
  errno = 0;
  const int result =
      ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kWritable);
  expectErrno("rereg of a dma-buf", EINVAL, errno);
  expectSame("rereg of a dma-buf", strf("%d", IBV_REREG_MR_ERR_INPUT), strf("%d", result));
}

// A dma-buf's file.
class DmabufFd {
 public:
  explicit DmabufFd(int fd) : fd_(fd) {}
  ~DmabufFd() {
    if (fd_ >= 0) close(fd_);
  }
  DmabufFd(DmabufFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  DmabufFd(const DmabufFd&) = delete;
  DmabufFd& operator=(const DmabufFd&) = delete;
  DmabufFd& operator=(DmabufFd&&) = delete;

  int get() const { return fd_; }

 private:
  int fd_;
};

// kiwarp_ktest's exporter.
class Exporter {
 public:
  explicit Exporter(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    if (file_.get() < 0) fail("%s: %s", path.c_str(), errnoName(errno).c_str());
  }
  DmabufFd make(kt_export kind) const {
    const int fd = ioctl(file_.get(), KT_EXPORT, static_cast<unsigned long>(kind));
    if (fd < 0) fail("KT_EXPORT: %s", errnoName(errno).c_str());
    return DmabufFd(fd);
  }
  int mapped() const { return ioctl(file_.get(), KT_EXPORT_MAPPED); }
  int left() const { return ioctl(file_.get(), KT_EXPORT_LEFT); }
  int loose() const { return ioctl(file_.get(), KT_EXPORT_LOOSE); }

 private:
  DmabufFd file_;
};

Mr regDmabuf(Env& env, int fd, size_t length, int access) {
  errno = 0;
  return Mr(ibv_reg_dmabuf_mr(env.pd(), 0, length, 0, fd, access));
}

void expectReg(Env& env, const std::string& what, int error, int fd, size_t length, int access) {
  const Mr mr = regDmabuf(env, fd, length, access);
  expectErrno(what, error, mr ? 0 : errno);
}

// What an exporter cannot do is an error of its own, and a refusal leaves nothing.
void exporters(Env& env, const Exporter& exporter) {
  constexpr struct {
    const char* what;
    kt_export kind;
    int error;
  } kKinds[] = {
      {"a usual exporter", KT_EXPORT_USUAL, 0},
      {"an exporter without vmap", KT_EXPORT_NO_VMAP, EOPNOTSUPP},
      {"a device's memory", KT_EXPORT_IOMEM, EOPNOTSUPP},
      {"an exporter that moves buffers", KT_EXPORT_MOVES, 0},
      {"one that cannot pin them", KT_EXPORT_NO_PIN, EOPNOTSUPP},
  };
  for (const auto& each : kKinds) {
    {
      const DmabufFd buffer = exporter.make(each.kind);
      const Mr mr = regDmabuf(env, buffer.get(), kPage, kWritable);
      expectErrno(each.what, each.error, mr ? 0 : errno);
      expectSame(strf("%s: mappings", each.what), mr ? "1" : "0", strf("%d", exporter.mapped()));
    }
    expectSame(strf("%s: mappings left", each.what), "0", strf("%d", exporter.mapped()));
    expectSame(strf("%s: buffers left", each.what), "0", strf("%d", exporter.left()));
    expectSame(strf("%s: free to move, or on its way", each.what), "0",
               strf("%d", exporter.loose()));
  }
}

// A buffer whose file may only be read: the peer reads it, and neither it nor the device writes.
void expectReadOnly(Env& env, const std::string& what, int fd) {
  constexpr struct {
    int access;
    int error;
  } kRights[] = {
      {IBV_ACCESS_LOCAL_WRITE, EACCES},
      {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, EACCES},
      {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, EACCES},
      {IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, EACCES},
      {IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING, 0},
      {0, 0},
  };
  for (const auto& each : kRights) {
    expectReg(env, strf("%s, access %#x", what.c_str(), static_cast<unsigned>(each.access)),
              each.error, fd, kPage, each.access);
  }
  const Mr mr = regDmabuf(env, fd, kPage, IBV_ACCESS_REMOTE_READ);
  if (!mr) fail("%s: ibv_reg_dmabuf_mr: %s", what.c_str(), errnoName(errno).c_str());
  const Buffer near(env.pd(), kPage, IBV_ACCESS_LOCAL_WRITE);
  auto link = env.connect();
  expectErrno(
      "Read", 0,
      postSend(link->client.qp(), {Work::read(1, {near.sge(0, kPage)}, 0, mr->rkey)}).error);
  env.expectWc(link->client.send_cq.get(), 1, {IBV_WC_SUCCESS}, what + ": Read");
  for (size_t i = 0; i < kPage; ++i) {
    if (near.data()[i] != 0) fail("%s: other bytes", what.c_str());
  }
  expectErrno("Write", 0,
              postSend(link->client.qp(), {Work::write(2, {near.sge(0, 1)}, 0, mr->rkey)}).error);
  env.expectEnded(*link);
}

void readOnly(Env& env, const Exporter& exporter, bool debian) {
  expectReadOnly(env, "kiwarp_ktest's buffer", exporter.make(KT_EXPORT_READ_ONLY).get());
  const DmabufFd heap(open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC));
  if (heap.get() < 0) return lacks("dma-heap", debian);
  dma_heap_allocation_data data{};
  data.len = kPage;
  data.fd_flags = O_RDONLY | O_CLOEXEC;
  checkErrno(ioctl(heap.get(), DMA_HEAP_IOCTL_ALLOC, &data), "DMA_HEAP_IOCTL_ALLOC");
  const DmabufFd buffer(static_cast<int>(data.fd));
  expectReadOnly(env, "a dma-heap's buffer", buffer.get());
}

// Rights that no dma-buf can have, though it may be written to.
void rights(Env& env, const Exporter& exporter) {
  const DmabufFd buffer = exporter.make(KT_EXPORT_USUAL);
  for (const int access :
       {static_cast<int>(IBV_ACCESS_REMOTE_WRITE), static_cast<int>(IBV_ACCESS_REMOTE_ATOMIC),
        kWritable | IBV_ACCESS_MW_BIND, kWritable | IBV_ACCESS_ZERO_BASED,
        kWritable | IBV_ACCESS_ON_DEMAND, kWritable | IBV_ACCESS_HUGETLB, kWritable | 1 << 18}) {
    expectReg(env, strf("access %#x", static_cast<unsigned>(access)), EINVAL, buffer.get(), kPage,
              access);
  }
  expectSame("mappings", "0", strf("%d", exporter.mapped()));
}

// The least limit that lets a page more be locked than is locked now, in pages.
size_t lockedNow(Env& env, const MemlockLimit& limit, int fd) {
  size_t too_few = 0, enough = 1 << 20;
  while (enough - too_few > 1) {
    const size_t pages = (too_few + enough) / 2;
    limit.set(pages * kPage);
    (regDmabuf(env, fd, kPage, kWritable) ? enough : too_few) = pages;
  }
  return enough - kBufferPages;
}

// The whole buffer counts, however little of it is registered, and for as long as it is.
void memlock(Env& env, const Exporter& exporter) {
  const DmabufFd first = exporter.make(KT_EXPORT_USUAL);
  const DmabufFd second = exporter.make(KT_EXPORT_USUAL);
  withMemlockLimit([&](const MemlockLimit& limit) {
    limit.set(0);
    expectReg(env, "nothing may be locked", ENOMEM, first.get(), kPage, kWritable);
    const size_t locked = lockedNow(env, limit, first.get());
    limit.set((locked + kBufferPages - 1) * kPage);
    expectReg(env, "a page less than the buffer", ENOMEM, first.get(), kPage, kWritable);
    expectReg(env, "without write access", ENOMEM, first.get(), kPage, 0);
    limit.set((locked + 2 * kBufferPages - 1) * kPage);
    {
      const Mr mr = regDmabuf(env, first.get(), kPage, kWritable);
      expectErrno("one of two", 0, mr ? 0 : errno);
      expectReg(env, "a page less than both", ENOMEM, second.get(), kPage, kWritable);
      expectReg(env, "the same once more", ENOMEM, first.get(), kPage, kWritable);
      expectSame("mappings", "1", strf("%d", exporter.mapped()));
    }
    // Neither the refusals nor the region that has gone count any more.
    expectReg(env, "when that has gone", 0, second.get(), kPage, kWritable);
    expectReg(env, "what the exporter cannot map", EOPNOTSUPP,
              exporter.make(KT_EXPORT_NO_VMAP).get(), kPage, kWritable);
    limit.set((locked + kBufferPages) * kPage);
    expectReg(env, "just as much as the buffer", 0, second.get(), kPage, kWritable);
  });
}

}  // namespace

void addDmabufCases(std::vector<Case>* cases, const std::string& exporter, bool debian) {
  cases->push_back({"dmabuf", [debian](Env& env) { dmabuf(env, debian); }});
  cases->push_back({"dmabuf-refused", [debian](Env& env) { dmabufRefused(env, debian); }});
  if (exporter.empty()) return;
  const auto add = [&](const char* name, void (*run)(Env&, const Exporter&)) {
    cases->push_back({name, [exporter, run](Env& env) { run(env, Exporter(exporter)); }});
  };
  add("dmabuf-exporters", exporters);
  cases->push_back({"dmabuf-read-only",
                    [exporter, debian](Env& env) { readOnly(env, Exporter(exporter), debian); }});
  add("dmabuf-rights", rights);
  add("dmabuf-memlock", memlock);
}

}  // namespace kiwarp::vm
