// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// Completion queues of ibv_create_cq_ex(), polled one completion at a time.

#include <cerrno>
#include <string>
#include <thread>

#include "extended/cases.h"
#include "extended/polling.h"

namespace kiwarp::vm {
namespace {

constexpr uint64_t kStamps =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

std::unique_ptr<Link> connectEx(Env& env, uint32_t entries, uint64_t wc_flags, uint32_t flags) {
  LinkOptions options;
  options.cqe = static_cast<int>(entries);
  options.client.send_wr = options.server.recv_wr = 64;
  options.make_cq = [&](int cqe) {
    return createCqEx(env.context(), cqAttributes(static_cast<uint32_t>(cqe), wc_flags, flags));
  };
  return env.connect(options);
}

// Two Sends, and all that can be read of what they complete with.
void readAll(Env& env, uint32_t flags) {
  auto link = connectEx(env, 16, IBV_WC_STANDARD_FLAGS, flags);
  Buffer data(env.pd(), 4096, IBV_ACCESS_LOCAL_WRITE);
  ibv_cq_ex* sends = toEx(link->client.send_cq);
  ibv_cq_ex* receives = toEx(link->server.recv_cq);
  ibv_poll_cq_attr attr{};
  expectErrno("an empty queue", ENOENT, ibv_start_poll(receives, &attr));
  attr.comp_mask = 1;
  expectErrno("an attribute that does not exist", EINVAL, ibv_start_poll(receives, &attr));
  for (uint64_t id : {1, 2}) {
    const auto length = static_cast<uint32_t>(100 * id);
    mustRecv(link->server.qp(), 10 * id, {data.sge(0, 1000)});
    expectErrno("post", 0,
                postSend(link->client.qp(), {Work::send(id, {data.sge(1000, length)})}).error);
  }
  Batch received(receives);
  for (uint64_t id : {1, 2}) {
    if (id == 2) received.next();
    expectNumber("wr_id", 10 * id, receives->wr_id);
    expectNumber("status", IBV_WC_SUCCESS, receives->status);
    expectNumber("opcode", IBV_WC_RECV, ibv_wc_read_opcode(receives));
    expectNumber("vendor_err", 0, ibv_wc_read_vendor_err(receives));
    expectNumber("byte_len", 100 * id, ibv_wc_read_byte_len(receives));
    expectNumber("imm_data", 0, ibv_wc_read_imm_data(receives));
    expectNumber("qp_num", link->server.qp()->qp_num, ibv_wc_read_qp_num(receives));
    expectNumber("src_qp", 0, ibv_wc_read_src_qp(receives));
    expectNumber("wc_flags", 0, ibv_wc_read_wc_flags(receives));
    expectNumber("slid", 0, ibv_wc_read_slid(receives));
    expectNumber("sl", 0, ibv_wc_read_sl(receives));
    expectNumber("dlid_path_bits", 0, ibv_wc_read_dlid_path_bits(receives));
  }
  expectErrno("no third", ENOENT, ibv_next_poll(receives));
  received.end();
  Batch sent(sends);
  expectNumber("wr_id", 1, sends->wr_id);
  expectNumber("opcode", IBV_WC_SEND, ibv_wc_read_opcode(sends));
  sent.end();
  // The rest by the other interface.
  env.expectWc(link->client.send_cq.get(), 2, {IBV_WC_SUCCESS}, "the second Send");
  env.expectAlive(*link);
}

void pollLocked(Env& env) { readAll(env, 0); }
void pollSingleThreaded(Env& env) { readAll(env, IBV_CREATE_CQ_ATTR_SINGLE_THREADED); }

void pollErrors(Env& env) {
  auto link = connectEx(env, 16, IBV_WC_STANDARD_FLAGS, 0);
  Buffer data(env.pd(), 4096, IBV_ACCESS_LOCAL_WRITE);
  expectErrno(
      "post", 0,
      postSend(link->client.qp(), {Work::write(7, {data.sge(0, 8)}, data.address(), data.rkey())})
          .error);
  // The Write may have completed before the peer refused it.
  env.expectEnded(*link);
  expectErrno("post", 0, postSend(link->client.qp(), {Work::send(8, {})}).error);
  ibv_cq_ex* cq = toEx(link->client.send_cq);
  Batch batch(cq);
  while (cq->wr_id != 8) batch.next();
  expectNumber("status", IBV_WC_WR_FLUSH_ERR, cq->status);
  expectNumber("qp_num", link->client.qp()->qp_num, ibv_wc_read_qp_num(cq));
  batch.end();
}

uint64_t now(clockid_t clock) {
  timespec time{};
  checkErrno(clock_gettime(clock, &time), "clock_gettime");
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

uint64_t rawClock(ibv_context* context) {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  expectErrno("ibv_query_rt_values_ex", 0, ibv_query_rt_values_ex(context, &values));
  expectNumber("values", IBV_VALUES_MASK_RAW_CLOCK, values.comp_mask);
  return static_cast<uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(values.raw_clock.tv_nsec);
}

void expectBetween(const char* what, uint64_t first, uint64_t got, uint64_t last) {
  if (got < first || got > last) {
    fail("%s: %llu is not in %llu..%llu", what, static_cast<unsigned long long>(got),
         static_cast<unsigned long long>(first), static_cast<unsigned long long>(last));
  }
}

// Stamps lie between what the clocks said before and after, also in another ring.
void stamps(Env& env) {
  ibv_device_attr_ex device{};
  expectErrno("ibv_query_device_ex", 0, ibv_query_device_ex(env.context(), nullptr, &device));
  expectNumber("kHz of the clock", 1'000'000, device.hca_core_clock);
  expectNumber("bits of a stamp", UINT64_MAX, device.completion_timestamp_mask);
  auto link = connectEx(env, 4, IBV_WC_STANDARD_FLAGS | kStamps, 0);
  ibv_cq* receives = link->server.recv_cq.get();
  ibv_cq_ex* cq = toEx(link->server.recv_cq);
  ibv_cq_ex* sends = toEx(link->client.send_cq);
  uint64_t raw[4] = {rawClock(env.context())};
  uint64_t real[4] = {now(CLOCK_REALTIME)};
  for (uint64_t id = 1; id < 4; ++id) {
    mustRecv(link->server.qp(), id, {});
    expectErrno("post", 0, postSend(link->client.qp(), {Work::send(id, {})}).error);
    // Wait for it without taking it off: the Send's completion says nothing of the receive's.
    Batch(sends).end();
    Buffer probe(env.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    expectErrno("Read", 0,
                postSend(link->client.qp(),
                         {Work::read(9, {probe.sge(0, 1)}, probe.address() + 8, probe.rkey())})
                    .error);
    Batch read(sends);
    expectNumber("Read", IBV_WC_SUCCESS, sends->status);
    read.end();
    raw[id] = rawClock(env.context());
    real[id] = now(CLOCK_REALTIME);
  }
  expectErrno("resize", 0, ibv_resize_cq(receives, 50));
  Batch batch(cq);
  for (uint64_t id = 1; id < 4; ++id) {
    if (id > 1) batch.next();
    expectNumber("wr_id", id, cq->wr_id);
    expectBetween("stamp", raw[id - 1], ibv_wc_read_completion_ts(cq), raw[id]);
    expectBetween("wall clock", real[id - 1], ibv_wc_read_completion_wallclock_ns(cq), real[id]);
  }
  batch.end();
  env.expectAlive(*link);
}

// How many completions found their queue full.
uint64_t overflows(Env& env) {
  const std::string text =
      rdma(strf("statistic show link %s/1", ibv_get_device_name(env.context()->device)));
  const std::string key = " cq_overflows ";
  const size_t at = text.find(key);
  if (at == std::string::npos) fail("no%s in: %s", key.c_str(), text.c_str());
  return std::stoull(text.substr(at + key.size()));
}

// What does not fit is lost and counted, and nothing else: no event, no end of the connection.
void overrun(Env& env) {
  const uint64_t before = overflows(env);
  uint64_t reads = 0;
  auto link = connectEx(env, 4, IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
  for (uint64_t id = 0; id < 12; ++id) {
    mustRecv(link->server.qp(), id, {});
    expectErrno("post", 0, postSend(link->client.qp(), {Work::send(id, {})}).error);
  }
  ibv_cq* sends = link->client.send_cq.get();
  for (uint64_t id = 0; id < 4; ++id) env.expectWc(sends, id, {IBV_WC_SUCCESS}, "one that fits");
  // All of the receives have come when a Read behind them is answered. The Read's own completion
  // may be lost, behind those of the Sends.
  Buffer probe(env.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  const Deadline limit(seconds(20));
  for (uint64_t id = 0; id != 99;) {
    if (limit.passed()) fail("no Read completes");
    ++reads;
    expectErrno("Read", 0,
                postSend(link->client.qp(),
                         {Work::read(99, {probe.sge(0, 1)}, probe.address() + 8, probe.rkey())})
                    .error);
    std::this_thread::sleep_for(milliseconds(500));
    ibv_wc wc{};
    while (id != 99 && ibv_poll_cq(sends, 1, &wc) == 1) {
      if (wc.status != IBV_WC_SUCCESS) fail("%s", describe(wc).c_str());
      id = wc.wr_id;
    }
  }
  ibv_cq* receives = link->server.recv_cq.get();
  for (uint64_t id = 0; id < 4; ++id) env.expectWc(receives, id, {IBV_WC_SUCCESS}, "a receive");
  ibv_wc wc{};
  expectNumber("those that did not fit", 0, static_cast<uint64_t>(ibv_poll_cq(receives, 1, &wc)));
  // Eight of the receives, and what is missing of eight Sends and the Reads.
  expectBetween("cq_overflows", 8, overflows(env) - before, 8 + 8 + reads - 1);
  env.expectAlive(*link);
}

void refuseCq(Env& env, const char* what, int error, ibv_cq_init_attr_ex attr) {
  errno = 0;
  ibv_cq_ex* cq = ibv_create_cq_ex(env.context(), &attr);
  const int got = cq ? 0 : errno;
  if (cq) ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
  expectErrno(what, error, got);
}

void pollRefused(Env& env) {
  refuseCq(env, "no entries", EINVAL, cqAttributes(0));
  refuseCq(env, "too many entries", EINVAL,
           cqAttributes(static_cast<uint32_t>(env.attr().max_cqe) + 1));
  refuseCq(env, "VLAN tags", EOPNOTSUPP, cqAttributes(16, IBV_WC_EX_WITH_CVLAN));
  refuseCq(env, "flow tags", EOPNOTSUPP, cqAttributes(16, IBV_WC_EX_WITH_FLOW_TAG));
  refuseCq(env, "tag matching", EOPNOTSUPP, cqAttributes(16, IBV_WC_EX_WITH_TM_INFO));
  refuseCq(env, "unknown member", EOPNOTSUPP, cqAttributes(16, 1ULL << 40));
  refuseCq(env, "unknown flag", EOPNOTSUPP, cqAttributes(16, 0, 1U << 7));
  ibv_cq_init_attr_ex attr = cqAttributes(16);
  attr.comp_mask |= IBV_CQ_INIT_ATTR_MASK_PD;
  attr.parent_domain = env.pd();
  refuseCq(env, "a parent domain that is none", EINVAL, attr);
  ibv_values_ex values{};
  expectErrno("no values", EINVAL, ibv_query_rt_values_ex(env.context(), &values));
}

}  // namespace

void addPollCases(std::vector<Case>* cases) {
  cases->insert(cases->end(), {{"poll", pollLocked},
                               {"poll-single-threaded", pollSingleThreaded},
                               {"poll-errors", pollErrors},
                               {"poll-stamps", stamps},
                               {"poll-overrun", overrun},
                               {"poll-refused", pollRefused}});
}

}  // namespace kiwarp::vm
