// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#include "badinput/bystander.h"

#include <cstring>

#include "common/pattern.h"
#include "common/random.h"

namespace kiwarp::vm {
namespace {

constexpr size_t kSize = 16384;
constexpr uint32_t kWriteSize = 5000, kSendSize = 3001, kReplySize = 1777, kReadSize = 9000;
constexpr uint64_t kRoundsToSee = 3;
constexpr seconds kLimit{20};
// Leaves the processors to the case most of the time.
constexpr milliseconds kPause{3};
constexpr int kAll = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

void fill(const Buffer& buffer, uint64_t seed) {
  Rng rng(seed);
  for (size_t at = 0; at < buffer.size(); at += sizeof(uint64_t)) {
    const uint64_t word = rng.next();
    std::memcpy(buffer.data() + at, &word, sizeof(word));
  }
}

void compare(const uint8_t* actual, const uint8_t* expected, size_t length, const char* what) {
  if (auto bad = firstDifference(actual, expected, length)) {
    fail("bystander's %s differs at byte %zu of %zu", what, *bad, length);
  }
}

}  // namespace

Bystander::Bystander(ibv_pd* pd, Link* link)
    : link_(link),
      client_source_(pd, kSize, kAll),
      client_sink_(pd, kSize, kAll),
      server_source_(pd, kSize, kAll),
      server_target_(pd, kSize, kAll),
      thread_([this] { loop(); }) {}

Bystander::~Bystander() {
  stop_ = true;
  thread_.join();
}

bool Bystander::concerns(const void* element) const {
  const End& client = link_->client;
  const End& server = link_->server;
  return element == client.qp() || element == server.qp() || element == client.send_cq.get() ||
         element == client.recv_cq.get() || element == server.send_cq.get() ||
         element == server.recv_cq.get();
}

void Bystander::await(ibv_cq* cq, uint64_t id, const char* what) {
  const Deadline deadline(kLimit);
  for (;;) {
    ibv_wc wc;
    const int n = ibv_poll_cq(cq, 1, &wc);
    if (n < 0) fail("bystander: ibv_poll_cq failed");
    if (n == 1) {
      if (wc.status != IBV_WC_SUCCESS || wc.wr_id != id) {
        fail("bystander's %s: %s", what, describe(wc).c_str());
      }
      return;
    }
    if (deadline.passed()) fail("bystander's %s did not complete", what);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Bystander::round(uint64_t number) {
  const End& client = link_->client;
  const End& server = link_->server;
  fill(client_source_, number * 2);
  fill(server_source_, number * 2 + 1);
  const uint64_t id = number << 8;
  mustRecv(server.qp(), id, {server_target_.sge(8192, kSendSize)});
  mustRecv(client.qp(), id, {client_sink_.sge(0, kReplySize)});

  const PostResult posted =
      postSend(client.qp(), {Work::write(id, {client_source_.sge(0, kWriteSize)},
                                         server_target_.address(), server_target_.rkey()),
                             Work::send(id + 1, {client_source_.sge(kWriteSize, kSendSize)}),
                             Work::read(id + 2, {client_sink_.sge(4096, kReadSize)},
                                        server_source_.address() + 3000, server_source_.rkey())});
  if (posted.error) fail("bystander: ibv_post_send: %s", errnoName(posted.error).c_str());
  await(server.recv_cq.get(), id, "receive");
  compare(server_target_.data(), client_source_.data(), kWriteSize, "Write");
  compare(server_target_.data() + 8192, client_source_.data() + kWriteSize, kSendSize, "Send");
  for (uint64_t i = 0; i < 3; ++i) await(client.send_cq.get(), id + i, "request");
  compare(client_sink_.data() + 4096, server_source_.data() + 3000, kReadSize, "Read");
  postSend(server.qp(), {Work::send(id + 3, {server_source_.sge(0, kReplySize)})});
  await(client.recv_cq.get(), id, "reply");
  compare(client_sink_.data(), server_source_.data(), kReplySize, "reply");
  await(server.send_cq.get(), id + 3, "reply's request");
}

void Bystander::loop() {
  try {
    while (!stop_) {
      round(rounds_ + 1);
      ++rounds_;
      std::this_thread::sleep_for(kPause);
    }
  } catch (const Failure& failure) {
    const std::lock_guard<std::mutex> guard(lock_);
    error_ = failure.what();
  }
}

void Bystander::check() {
  const uint64_t goal = rounds_ + kRoundsToSee;
  const Deadline deadline(kLimit);
  while (rounds_ < goal) {
    {
      const std::lock_guard<std::mutex> guard(lock_);
      if (!error_.empty()) throw Failure(error_);
    }
    if (deadline.passed()) fail("bystander stands still");
    std::this_thread::sleep_for(milliseconds(2));
  }
}

}  // namespace kiwarp::vm
