// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Regions of dma-bufs, and what importing an object asks of the kernel. These commands have no form
// that is written to the file: they are ioctls with a list of attributes.

#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>

#include "../../kverbs/exporter.h"
#include "chaos/calls.h"

namespace kiwarp::vm {
namespace {

constexpr unsigned kMostAttributes = 9;

// One command, attribute by attribute.
class Ioctl {
 public:
  Ioctl(uint16_t object, uint16_t method) {
    header()->object_id = object;
    header()->method_id = method;
    header()->driver_id = KIWARP_DRIVER_ID;
  }

  // A value, the number of an object or of a file, or the place for a new object's number.
  const ib_uverbs_attr* in(uint16_t id, uint64_t data, uint16_t length) {
    ib_uverbs_attr& attr = header()->attrs[header()->num_attrs++];
    attr.attr_id = id;
    attr.len = length;
    attr.flags = UVERBS_ATTR_F_MANDATORY;
    attr.data = data;
    return &attr;
  }
  template <typename T>
  void out(uint16_t id, T* answer, Rng& rng) {
    in(id, rng.below(100) ? reinterpret_cast<uintptr_t>(answer) : 0x10, sizeof(T));
  }

  int run(int fd) {
    header()->length = static_cast<uint16_t>(sizeof(ib_uverbs_ioctl_hdr) +
                                             header()->num_attrs * sizeof(ib_uverbs_attr));
    return ioctl(fd, RDMA_VERBS_IOCTL, header()) < 0 ? errno : 0;
  }

 private:
  ib_uverbs_ioctl_hdr* header() { return reinterpret_cast<ib_uverbs_ioctl_hdr*>(message_.data()); }

  alignas(ib_uverbs_ioctl_hdr) std::array<
      uint8_t, sizeof(ib_uverbs_ioctl_hdr) + kMostAttributes * sizeof(ib_uverbs_attr)> message_{};
};

}  // namespace

// A buffer of any kind that the exporter has, also of those that no region can be made of.
void exportBuffer(Process* process, File*, Rng& rng) {
  if (process->exporter < 0) return;
  const int fd = ioctl(process->exporter, KT_EXPORT, rng.below(2) ? rng.below(KT_NR_EXPORTS) : 0);
  if (process->tell(kDmabuf, fd < 0 ? errno : 0)) return;
  replaceFd(&process->buffers, fd, rng);
}

void regDmabufMr(Process* process, File* file, Rng& rng) {
  const uint32_t buffer = process->buffers.any(rng);
  if (!buffer) return;
  uint32_t lkey = 0, rkey = 0;
  const uint64_t size = KT_EXPORT_PAGES * kPage;
  const uint64_t offset = rng.below(size);
  const uint64_t length =
      rng.below(50) ? 1 + rng.below(size - offset) : rng.next() >> rng.below(60);
  // The RDMA core wants both at the same place in a page.
  const uint64_t iova = (rng.next() & ~(kPage - 1)) + (rng.below(50) ? offset : rng.next()) % kPage;
  const bool usual = rng.percent(70);
  Ioctl call(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
  const ib_uverbs_attr* handle = call.in(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
  call.in(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, likelyPd(*file, rng), 0);
  call.in(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, offset, 8);
  call.in(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, length, 8);
  call.in(UVERBS_ATTR_REG_DMABUF_MR_IOVA, iova, 8);
  call.in(UVERBS_ATTR_REG_DMABUF_MR_FD, rng.below(40) ? buffer : rng.below(64), 4);
  call.in(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
          usual ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                      IBV_ACCESS_REMOTE_ATOMIC
                : rng.below(64),
          4);
  call.out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &lkey, rng);
  call.out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &rkey, rng);
  if (process->tell(kRegDmabuf, call.run(file->fd))) return;
  Region& region = anyOf(file->mrs, rng);
  region.handle = static_cast<uint32_t>(handle->data);
  region.lkey = lkey;
  region.address = iova;
  region.length = static_cast<uint32_t>(length);
  expose(process, iova, static_cast<uint32_t>(length), rkey, rng);
}

// What ibv_import_mr() does: the region has two names then.
void importMr(Process* process, File* file, Rng& rng) {
  const uint32_t handle = doubtful(likely(file->mrs, rng).handle, rng);
  uint32_t lkey = 0, rkey = 0;
  uint64_t length = 0, iova = 0;
  Ioctl call(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
  call.in(UVERBS_ATTR_QUERY_MR_HANDLE, handle, 0);
  call.out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, &lkey, rng);
  call.out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, &rkey, rng);
  call.out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &length, rng);
  call.out(UVERBS_ATTR_QUERY_MR_RESP_IOVA, &iova, rng);
  if (process->tell(kImportMr, call.run(file->fd))) return;
  Region& region = anyOf(file->mrs, rng);
  region.handle = handle;
  region.lkey = lkey;
  region.address = iova;
  region.length = static_cast<uint32_t>(length);
  expose(process, iova, static_cast<uint32_t>(length), rkey, rng);
}

// What ibv_import_device() does, with another number of the file; and ibv_import_pd(), which is to
// use a protection domain's number there.
void importDevice(Process* process, File* file, Rng& rng) {
  const int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return;
  uint32_t vectors = 0;
  uint64_t support = 0;
  Ioctl call(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
  call.out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &vectors, rng);
  call.out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &support, rng);
  if (!process->tell(kImportDevice, call.run(fd))) {
    Answer<ib_uverbs_alloc_mw_resp, Nothing> answer;
    ib_uverbs_alloc_mw body{};
    body.response = place(&answer, rng);
    body.pd_handle = likelyPd(*file, rng);
    body.mw_type = IBV_MW_TYPE_2;
    File imported;
    imported.fd = fd;
    const int error =
        command(imported, IB_USER_VERBS_CMD_ALLOC_MW, body, sizeof(ib_uverbs_alloc_mw_resp));
    if (!process->tell(kImportPd, error)) {
      Window& window = anyOf(file->mws, rng);
      window.handle = answer.core().mw_handle;
      window.rkey = answer.core().rkey;
    }
  }
  close(fd);
}

}  // namespace kiwarp::vm
