// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "chaos/calls.h"

namespace kiwarp::vm {
namespace {

// Bytes of an atomic operation's result.
constexpr uint32_t kWord = 8;

void allocPd(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_alloc_pd_resp, Nothing> answer;
  const ib_uverbs_alloc_pd body{place(&answer, rng)};
  if (!process->tell(kAllocPd, command(*file, IB_USER_VERBS_CMD_ALLOC_PD, body,
                                       sizeof(ib_uverbs_alloc_pd_resp)))) {
    file->pds.putBehind(rng, answer.core().pd_handle);
  }
}

void deallocPd(Process* process, File* file, Rng& rng) {
  const ib_uverbs_dealloc_pd body{doubtful(file->pds.any(rng), rng)};
  process->tell(kDeallocPd, command(*file, IB_USER_VERBS_CMD_DEALLOC_PD, body, 0));
}

// Few are kept: each is a file.
void createChannel(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_create_comp_channel_resp, Nothing> answer;
  const ib_uverbs_create_comp_channel body{place(&answer, rng)};
  if (process->tell(kChannel, command(*file, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, body,
                                      sizeof(ib_uverbs_create_comp_channel_resp)))) {
    return;
  }
  const int fd = static_cast<int>(answer.core().fd);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  replaceFd(&file->channels, fd, rng);
}

void readEvent(Process* process, File* file, Rng& rng) {
  const auto fd = static_cast<int>(file->channels.any(rng));
  if (fd <= 0) return;
  ib_uverbs_comp_event_desc event{};
  process->tell(kReadEvent, read(fd, &event, sizeof(event)) < 0 ? errno : 0);
}

const CompletionRing* mapCompletions(const File& file, const kiwarp_create_cq_resp& made) {
  uint8_t* at = mapRing(file, made.ring_key, made.ring_size);
  return at ? new CompletionRing{at, made.entries} : nullptr;
}

void createCq(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_create_cq_resp, kiwarp_create_cq_resp> answer;
  ib_uverbs_create_cq body{};
  body.response = place(&answer, rng);
  body.cqe = static_cast<uint32_t>(1 + rng.below(rng.percent(95) ? 300 : 70000));
  const uint32_t channel = file->channels.any(rng);
  body.comp_channel = rng.percent(70) && channel ? static_cast<int32_t>(channel) : -1;
  body.comp_vector = rng.below(50) ? 0 : 7;
  if (process->tell(kCreateCq,
                    command(*file, IB_USER_VERBS_CMD_CREATE_CQ, body, sizeof(answer.bytes)))) {
    return;
  }
  Completions& cq = anyOf(file->cqs, rng);
  cq.handle = answer.core().cq_handle;
  cq.ring = mapCompletions(*file, answer.driver());
}

// With time stamps, or without care for overruns.
void createCqEx(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_ex_create_cq_resp, kiwarp_create_cq_resp> answer;
  ib_uverbs_ex_create_cq body{};
  body.cqe = static_cast<uint32_t>(1 + rng.below(rng.percent(95) ? 300 : 70000));
  const uint32_t channel = file->channels.any(rng);
  body.comp_channel = rng.percent(70) && channel ? static_cast<int32_t>(channel) : -1;
  body.flags = static_cast<uint32_t>(rng.below(rng.percent(95) ? 4 : 256));
  if (process->tell(
          kCreateCqEx,
          extendedCommand(*file, IB_USER_VERBS_EX_CMD_CREATE_CQ, body, place(&answer, rng),
                          sizeof(ib_uverbs_ex_create_cq_resp), sizeof(kiwarp_create_cq_resp)))) {
    return;
  }
  Completions& cq = anyOf(file->cqs, rng);
  cq.handle = answer.core().base.cq_handle;
  cq.ring = mapCompletions(*file, answer.driver());
}

// Others poll and arm the old ring meanwhile, and after it.
void resizeCq(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_resize_cq_resp, kiwarp_create_cq_resp> answer;
  Completions& cq = likely(file->cqs, rng);
  ib_uverbs_resize_cq body{};
  body.response = place(&answer, rng);
  body.cq_handle = doubtful(cq.handle, rng);
  body.cqe = static_cast<uint32_t>(rng.below(rng.percent(95) ? 600 : 70000));
  if (process->tell(kResizeCq,
                    command(*file, IB_USER_VERBS_CMD_RESIZE_CQ, body, sizeof(answer.bytes)))) {
    return;
  }
  cq.ring = mapCompletions(*file, answer.driver());
}

void modifyCq(Process* process, File* file, Rng& rng) {
  ib_uverbs_ex_modify_cq body{};
  body.cq_handle = doubtful(likely(file->cqs, rng).handle, rng);
  body.attr_mask = static_cast<uint32_t>(rng.percent(95) ? 1 : rng.next());
  body.attr.cq_count = static_cast<uint16_t>(rng.below(rng.percent(90) ? 20 : 65536));
  body.attr.cq_period = static_cast<uint16_t>(rng.below(rng.percent(90) ? 2000 : 65536));
  process->tell(kModifyCq, extendedCommand(*file, IB_USER_VERBS_EX_CMD_MODIFY_CQ, body, 0, 0, 0));
}

void destroyCq(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_destroy_cq_resp, Nothing> answer;
  ib_uverbs_destroy_cq body{};
  body.response = place(&answer, rng);
  Completions& cq = likely(file->cqs, rng);
  body.cq_handle = doubtful(cq.handle, rng);
  const int error =
      command(*file, IB_USER_VERBS_CMD_DESTROY_CQ, body, sizeof(ib_uverbs_destroy_cq_resp));
  forget(&cq, body.cq_handle, process->tell(kDestroyCq, error), rng);
}

Kind kindOf(const kiwarp_cqe& cqe) {
  switch (cqe.opcode) {
    case KIWARP_OP_SEND:
    case KIWARP_OP_SEND_INV:
      return kSent;
    case KIWARP_OP_WRITE:
      return kWritten;
    case KIWARP_OP_READ:
      return kRead;
    case KIWARP_OP_RECV:
      return kReceived;
    case KIWARP_OP_BIND_MW:
    case KIWARP_OP_LOCAL_INV:
      return kBound;
    case KIWARP_OP_WRITE_IMM:
    case KIWARP_OP_SEND_IMM:
      return kImmediate;
    case KIWARP_OP_FETCH_ADD:
    case KIWARP_OP_CMP_SWAP:
      return kAtomic;
    default:
      return kOther;
  }
}

// Counts what work came to, by operation: of completions that another thread overwrites meanwhile,
// or of indices that were made up, any of the ring's.
void tellCompletions(const Process& process, const CompletionRing& ring, uint32_t from,
                     uint32_t to) {
  for (uint32_t n = std::min(to - from, ring.entries); n > 0; --n) {
    kiwarp_cqe cqe;
    const size_t slot = (to - n) & (ring.entries - 1);
    std::memcpy(&cqe, ring.at + KIWARP_RING_ENTRIES_OFF + slot * sizeof(cqe), sizeof(cqe));
    process.tell(kindOf(cqe), cqe.status);
  }
}

// Takes completions off, arms, or writes what no provider would.
void useCq(Process* process, File* file, Rng& rng) {
  Completions& cq = likely(file->cqs, rng);
  const CompletionRing* mapped = cq.ring;
  if (!mapped) return;
  uint8_t* ring = mapped->at;
  const uint32_t produced = *word(ring, offsetof(kiwarp_cq_ctrl, producer));
  auto* consumer = word(ring, offsetof(kiwarp_cq_ctrl, consumer));
  const uint32_t consumed = consumer->exchange(produced);
  process->tell(kCompletion, produced == consumed ? EAGAIN : 0);
  tellCompletions(*process, *mapped, consumed, produced);
  *word(ring, offsetof(kiwarp_cq_ctrl, armed)) |= static_cast<uint32_t>(1 + rng.below(3));
  if (rng.below(60) == 0) *consumer = static_cast<uint32_t>(rng.next());
  if (rng.percent(20)) {
    const ib_uverbs_req_notify_cq body{doubtful(cq.handle, rng), 0};
    process->tell(kNotifyCq, command(*file, IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, body, 0));
  }
}

int modify(const File& file, uint32_t handle, uint32_t mask, uint32_t access, uint8_t state) {
  ib_uverbs_modify_qp body{};
  body.qp_handle = handle;
  body.attr_mask = mask;
  body.qp_access_flags = access;
  body.qp_state = state;
  return command(file, IB_USER_VERBS_CMD_MODIFY_QP, body, 0);
}

void createQp(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_create_qp_resp, kiwarp_create_qp_resp> answer;
  ib_uverbs_create_qp body{};
  body.response = place(&answer, rng);
  body.pd_handle = likelyPd(*file, rng);
  body.send_cq_handle = doubtful(likely(file->cqs, rng).handle, rng);
  body.recv_cq_handle = doubtful(likely(file->cqs, rng).handle, rng);
  body.max_send_wr = static_cast<uint32_t>(rng.below(rng.percent(95) ? 64 : 17000));
  body.max_recv_wr = static_cast<uint32_t>(rng.below(rng.percent(95) ? 64 : 17000));
  body.max_send_sge = static_cast<uint32_t>(rng.below(5));
  body.max_recv_sge = static_cast<uint32_t>(rng.below(5));
  body.max_inline_data = static_cast<uint32_t>(rng.below(100));
  body.sq_sig_all = rng.percent(50);
  body.qp_type = IBV_QPT_RC;
  body.is_srq = rng.percent(30);
  if (body.is_srq) body.srq_handle = doubtful(likely(file->srqs, rng).handle, rng);
  if (process->tell(kCreateQp,
                    command(*file, IB_USER_VERBS_CMD_CREATE_QP, body, sizeof(answer.bytes)))) {
    return;
  }
  const kiwarp_create_qp_resp made = answer.driver();
  Queues& qp = anyOf(file->qps, rng);
  qp.rings = nullptr;
  qp.handle = answer.core().qp_handle;
  qp.qpn = answer.core().qpn;
  qp.sq_entries = made.sq_entries;
  qp.sq_stride = made.sq_stride;
  qp.rq_entries = made.rq_entries;
  qp.rq_stride = made.rq_stride;
  qp.rq_offset = static_cast<uint32_t>(made.rq_offset);
  qp.rings = mapRing(*file, made.ring_key, made.ring_size);
  if (rng.percent(90)) {
    modify(*file, answer.core().qp_handle, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS,
           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
           IBV_QPS_INIT);
  }
}

void destroyQp(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_destroy_qp_resp, Nothing> answer;
  ib_uverbs_destroy_qp body{};
  body.response = place(&answer, rng);
  Queues& qp = likely(file->qps, rng);
  body.qp_handle = doubtful(qp.handle, rng);
  const int error =
      command(*file, IB_USER_VERBS_CMD_DESTROY_QP, body, sizeof(ib_uverbs_destroy_qp_resp));
  forget(&qp, body.qp_handle, process->tell(kDestroyQp, error), rng);
}

void modifyQp(Process* process, File* file, Rng& rng) {
  const uint32_t handle = doubtful(likely(file->qps, rng).handle, rng);
  const auto state = static_cast<uint8_t>(rng.below(8));
  const auto mask = static_cast<uint32_t>(
      rng.percent(70) ? IBV_QP_STATE | (rng.percent(50) ? IBV_QP_ACCESS_FLAGS : 0) : rng.next());
  process->tell(kModifyQp,
                modify(*file, handle, mask, static_cast<uint32_t>(rng.below(64)), state));
}

void queryQp(Process* process, File* file, Rng& rng) {
  Answer<ib_uverbs_query_qp_resp, Nothing> answer;
  const ib_uverbs_query_qp body{place(&answer, rng), doubtful(likely(file->qps, rng).handle, rng),
                                static_cast<uint32_t>(rng.next())};
  process->tell(kQueryQp,
                command(*file, IB_USER_VERBS_CMD_QUERY_QP, body, sizeof(ib_uverbs_query_qp_resp)));
}

// A window's new STag differs from the old one in the key.
void fillBind(Process* process, File* file, kiwarp_sqe* sqe, Rng& rng) {
  Window& window = likely(file->mws, rng);
  const Region& region = likely(file->mrs, rng);
  const uint32_t length = region.length;
  const uint64_t offset = rng.below(length);
  sqe->num_sge = 0;
  sqe->inline_len = 0;
  sqe->flags &= static_cast<uint8_t>(~KIWARP_SQE_INLINE);
  sqe->remote_addr = region.address + offset;
  sqe->rkey = (window.rkey & ~0xffu) | static_cast<uint32_t>(rng.below(256));
  sqe->bind.length = rng.below(10) ? length - offset : 0;
  sqe->bind.access = static_cast<uint32_t>(
      rng.percent(80) ? IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ : rng.below(128));
  sqe->bind.lkey = region.lkey;
  window.rkey = sqe->rkey;
  expose(process, sqe->remote_addr, static_cast<uint32_t>(sqe->bind.length), sqe->rkey, rng);
}

// Likely operations, those of windows and of RFC 7306 included.
uint8_t anyOpcode(Rng& rng) {
  constexpr uint8_t kSeldom[] = {KIWARP_OP_LOCAL_INV, KIWARP_OP_BIND_MW,  KIWARP_OP_BIND_MW,
                                 KIWARP_OP_WRITE_IMM, KIWARP_OP_SEND_IMM, KIWARP_OP_FETCH_ADD,
                                 KIWARP_OP_CMP_SWAP};
  if (rng.percent(70)) return static_cast<uint8_t>(rng.below(4));
  return rng.percent(85) ? kSeldom[rng.below(std::size(kSeldom))]
                         : static_cast<uint8_t>(rng.below(256));
}

void fillSqe(Process* process, File* file, uint8_t* at, uint32_t stride, Rng& rng) {
  const auto room = static_cast<unsigned>(
      std::min<size_t>(4, (stride - sizeof(kiwarp_sqe)) / sizeof(kiwarp_sge)));
  const Exposed& there = process->shared->exposed[rng.below(kRegions)];
  const uint32_t length = there.length;
  kiwarp_sqe sqe{};
  sqe.wr_id = rng.next();
  sqe.opcode = anyOpcode(rng);
  sqe.flags = static_cast<uint8_t>(rng.percent(95) ? rng.below(8) : rng.below(256));
  sqe.num_sge = static_cast<uint16_t>(rng.below(room + 1));
  if (sqe.opcode == KIWARP_OP_READ && sqe.num_sge > 1) sqe.num_sge = 1;
  sqe.inline_len = sqe.flags & KIWARP_SQE_INLINE ? static_cast<uint32_t>(rng.below(300)) : 0;
  sqe.remote_addr = there.address + rng.below(length / 2);
  sqe.rkey = there.rkey;
  sqe.inv_stag = sqe.opcode == KIWARP_OP_LOCAL_INV
                     ? likely(file->mws, rng).rkey.load()
                     : process->shared->exposed[rng.below(kRegions)].rkey.load();
  if (rng.below(200) == 0) sqe.num_sge = static_cast<uint16_t>(rng.next());
  const bool atomic = sqe.opcode == KIWARP_OP_FETCH_ADD || sqe.opcode == KIWARP_OP_CMP_SWAP;
  if (sqe.opcode == KIWARP_OP_BIND_MW) fillBind(process, file, &sqe, rng);
  if (atomic && rng.percent(90)) {
    sqe.num_sge = 1;
    sqe.inline_len = 0;
    sqe.flags &= static_cast<uint8_t>(~KIWARP_SQE_INLINE);
    sqe.remote_addr &= ~uint64_t{7};
    sqe.atomic.compare_add = rng.next();
  }
  std::memcpy(at, &sqe, sizeof(sqe));
  fillSges(file, at + sizeof(sqe), room, rng);
  if (atomic && room) std::memcpy(at + sizeof(sqe) + offsetof(kiwarp_sge, length), &kWord, 4);
}

// One that is likely to succeed if the queue pair is connected: of those that seldom do.
void fillCareful(Process* process, File* file, uint8_t* at, uint32_t stride, Rng& rng) {
  constexpr uint8_t kOpcodes[] = {KIWARP_OP_BIND_MW, KIWARP_OP_WRITE_IMM, KIWARP_OP_SEND_IMM,
                                  KIWARP_OP_FETCH_ADD, KIWARP_OP_CMP_SWAP};
  fillSqe(process, file, at, stride, rng);
  kiwarp_sqe sqe;
  std::memcpy(&sqe, at, sizeof(sqe));
  sqe.opcode = kOpcodes[rng.below(std::size(kOpcodes))];
  sqe.flags = KIWARP_SQE_SIGNALED;
  sqe.inline_len = 0;
  sqe.num_sge = 0;
  if (sqe.opcode == KIWARP_OP_BIND_MW) {
    fillBind(process, file, &sqe, rng);
  } else if (sqe.opcode == KIWARP_OP_FETCH_ADD || sqe.opcode == KIWARP_OP_CMP_SWAP) {
    sqe.num_sge = 1;
    sqe.remote_addr &= ~uint64_t{7};
    std::memcpy(at + sizeof(sqe) + offsetof(kiwarp_sge, length), &kWord, 4);
  }
  std::memcpy(at, &sqe, sizeof(sqe));
}

int doorbell(const File& file, uint32_t number, uint32_t handle) {
  ib_uverbs_post_send_resp answer{};
  ib_uverbs_post_send body{};
  body.response = reinterpret_cast<uintptr_t>(&answer);
  body.qp_handle = handle;
  body.wqe_size =
      number == IB_USER_VERBS_CMD_POST_SEND ? sizeof(ib_uverbs_send_wr) : sizeof(ib_uverbs_recv_wr);
  return command(file, number, body, sizeof(answer));
}

// A connected one, if there's one in a few tries: the ring says so.
Queues& connected(File* file, Rng& rng) {
  for (int i = 0; i < 12; ++i) {
    Queues& qp = anyOf(file->qps, rng);
    uint8_t* ring = qp.rings;
    if (ring && *word(ring, offsetof(kiwarp_ring_ctrl, state)) == KIWARP_QPS_RTS) return qp;
  }
  return likely(file->qps, rng);
}

void postSend(Process* process, File* file, Rng& rng) {
  Queues& qp = connected(file, rng);
  uint8_t* ring = qp.rings;
  const uint32_t stride = qp.sq_stride, entries = qp.sq_entries;
  if (!ring || stride < sizeof(kiwarp_sqe)) return;
  auto* producer = word(ring, offsetof(kiwarp_ring_ctrl, producer));
  uint32_t next = *producer;
  const bool careful = rng.percent(50);
  for (auto n = careful ? 1 : 1 + rng.below(rng.percent(90) ? 4 : entries); n > 0; --n, ++next) {
    uint8_t* at = ring + KIWARP_RING_ENTRIES_OFF + size_t{next & (entries - 1)} * stride;
    (careful ? fillCareful : fillSqe)(process, file, at, stride, rng);
  }
  *producer = rng.below(150) ? next : static_cast<uint32_t>(rng.next());
  process->tell(kPostSend, doorbell(*file, IB_USER_VERBS_CMD_POST_SEND, doubtful(qp.handle, rng)));
}

void postRecv(Process* process, File* file, Rng& rng) {
  Queues& qp = rng.percent(50) ? connected(file, rng) : likely(file->qps, rng);
  uint8_t* ring = qp.rings;
  const uint32_t stride = qp.rq_stride, entries = qp.rq_entries;
  if (!ring || stride < sizeof(kiwarp_rqe)) return;
  fillRecvs(file, ring + qp.rq_offset, entries, stride, rng);
  process->tell(kPostRecv, doorbell(*file, IB_USER_VERBS_CMD_POST_RECV, doubtful(qp.handle, rng)));
}

// A command that nobody would write; and mappings at any offset, with any length.
void garbage(Process* process, File* file, Rng& rng) {
  if (rng.percent(30)) {
    const uint64_t offset = rng.percent(70) ? rng.below(64) * kPage : rng.next() & ~(kPage - 1);
    void* at =
        mmap(nullptr, (1 + rng.below(16)) * kPage, PROT_READ | PROT_WRITE,
             rng.percent(50) ? MAP_SHARED : MAP_PRIVATE, file->fd, static_cast<off_t>(offset));
    process->tell(kGarbage, at == MAP_FAILED ? errno : 0);
    if (at != MAP_FAILED) munmap(at, kPage);
    return;
  }
  uint32_t words[64];
  for (uint32_t& each : words) each = static_cast<uint32_t>(rng.next() >> rng.below(60));
  ib_uverbs_cmd_hdr header{};
  header.command = static_cast<uint32_t>(1 + rng.below(60));
  header.in_words = static_cast<uint16_t>(2 + rng.below(62));
  header.out_words = static_cast<uint16_t>(rng.below(64));
  std::memcpy(words, &header, sizeof(header));
  process->tell(kGarbage, write(file->fd, words, size_t{header.in_words} * 4) < 0 ? errno : 0);
}

using Call = void (*)(Process*, File*, Rng&);
struct Weighted {
  unsigned weight;
  Call call;
};
constexpr Weighted kCalls[] = {
    {6, allocPd},    {1, deallocPd},    {8, regMr},         {4, deregMr},      {2, reregMr},
    {3, allocMw},    {1, deallocMw},    {3, createChannel}, {8, readEvent},    {4, createCq},
    {2, createCqEx}, {2, destroyCq},    {2, resizeCq},      {2, modifyCq},     {14, useCq},
    {3, createSrq},  {1, destroySrq},   {2, modifySrq},     {1, querySrq},     {8, postSrq},
    {8, createQp},   {3, destroyQp},    {1, modifyQp},      {3, queryQp},      {30, postSend},
    {25, postRecv},  {3, remap},        {3, garbage},       {1, exportBuffer}, {4, regDmabufMr},
    {2, importMr},   {2, importDevice},
};

}  // namespace

uint8_t* mapRing(const File& file, uint64_t key, uint64_t size) {
  const size_t length = (size + kPage - 1) & ~(kPage - 1);
  void* at =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, static_cast<off_t>(key));
  return at == MAP_FAILED ? nullptr : static_cast<uint8_t*>(at);
}

// Entries that are filled, and a producer index, which may be any.
void fillRecvs(File* file, uint8_t* ring, uint32_t entries, uint32_t stride, Rng& rng) {
  const auto room = static_cast<unsigned>(
      std::min<size_t>(4, (stride - sizeof(kiwarp_rqe)) / sizeof(kiwarp_sge)));
  auto* producer = word(ring, offsetof(kiwarp_ring_ctrl, producer));
  uint32_t next = *producer;
  for (auto n = 1 + rng.below(8); n > 0; --n, ++next) {
    uint8_t* at = ring + KIWARP_RING_ENTRIES_OFF + size_t{next & (entries - 1)} * stride;
    const kiwarp_rqe rqe{rng.next(), static_cast<uint32_t>(rng.below(room + 1)), 0};
    std::memcpy(at, &rqe, sizeof(rqe));
    fillSges(file, at + sizeof(rqe), room, rng);
  }
  *producer = rng.below(150) ? next : static_cast<uint32_t>(rng.next());
}

// Takes the place of what was open there before, under threads that use it.
bool openFile(Process* process, File* file, Rng& rng, Kind kind) {
  const std::string& device =
      process->devices[rng.percent(85) ? 0 : rng.below(process->devices.size())];
  const int fd = open(("/dev/infiniband/" + device).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return process->tell(kind, errno) == 0;
  if (file->fd < 0) {
    file->fd = fd;
  } else {
    dup2(fd, file->fd);
    close(fd);
  }
  Answer<ib_uverbs_get_context_resp, kiwarp_alloc_ucontext_resp> answer;
  const ib_uverbs_get_context body{answer.at()};
  const int error = command(*file, IB_USER_VERBS_CMD_GET_CONTEXT, body, sizeof(answer.bytes));
  if (!error) close(static_cast<int>(answer.core().async_fd));
  return process->tell(kind, error) == 0;
}

void randomVerb(Process* process, Rng& rng) {
  static const unsigned kSum = [] {
    unsigned sum = 0;
    for (const Weighted& each : kCalls) sum += each.weight;
    return sum;
  }();
  File& file = anyOf(process->files, rng);
  if (rng.below(3000) == 0) {
    openFile(process, &file, rng, kReopen);
    return;
  }
  auto at = static_cast<unsigned>(rng.below(kSum));
  for (const Weighted& each : kCalls) {
    if (at < each.weight) {
      each.call(process, &file, rng);
      return;
    }
    at -= each.weight;
  }
}

}  // namespace kiwarp::vm
