// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "chaos/table.h"
#include "common/page.h"
#include "rdma/kiwarp-abi.h"

// What the random calls of verbs share: commands by number, and numbers that are mostly right.
namespace kiwarp::vm {

struct Nothing {};

// One command of the uverbs device: errno, or 0.
template <typename Body>
int command(const File& file, uint32_t number, const Body& body, size_t out) {
  struct {
    ib_uverbs_cmd_hdr header;
    Body body;
  } message{};
  message.header.command = number;
  message.header.in_words = sizeof(message) / 4;
  message.header.out_words = static_cast<uint16_t>(out / 4);
  std::memcpy(&message.body, &body, sizeof(body));
  return write(file.fd, &message, sizeof(message)) < 0 ? errno : 0;
}

// The same of an extended command, which says where the core's answer and the driver's go: 0 is
// nowhere.
template <typename Body>
int extendedCommand(const File& file, uint32_t number, const Body& body, uint64_t response,
                    size_t core, size_t driver) {
  struct {
    ib_uverbs_cmd_hdr header;
    ib_uverbs_ex_cmd_hdr extended;
    Body body;
  } message{};
  static_assert(sizeof(body) % 8 == 0);
  message.header.command = number | IB_USER_VERBS_CMD_FLAG_EXTENDED;
  message.header.in_words = sizeof(body) / 8;
  message.header.out_words = static_cast<uint16_t>(core / 8);
  message.extended.response = response;
  message.extended.provider_out_words = static_cast<uint16_t>(driver / 8);
  std::memcpy(&message.body, &body, sizeof(body));
  return write(file.fd, &message, sizeof(message)) < 0 ? errno : 0;
}

// The core's answer, with the driver's right behind it.
template <typename Core, typename Driver>
struct Answer {
  uint8_t bytes[sizeof(Core) + sizeof(Driver)] = {};
  uint64_t at() { return reinterpret_cast<uintptr_t>(bytes); }
  Core core() const {
    Core core;
    std::memcpy(&core, bytes, sizeof(core));
    return core;
  }
  Driver driver() const {
    Driver driver;
    std::memcpy(&driver, bytes + sizeof(Core), sizeof(driver));
    return driver;
  }
};

// One time in a hundred the kernel cannot write its answer, or any number will do.
template <typename AnswerType>
uint64_t place(AnswerType* answer, Rng& rng) {
  return rng.below(100) ? answer->at() : 0x10;
}

inline uint32_t doubtful(uint32_t number, Rng& rng) {
  if (rng.below(40)) return number;
  return static_cast<uint32_t>(rng.percent(50) ? rng.below(64) : rng.next());
}

// Mostly the same one: what is of different domains does nothing together.
inline uint32_t likelyPd(const File& file, Rng& rng) {
  return doubtful(rng.percent(80) ? file.pds.first() : file.pds.any(rng), rng);
}

template <typename Array>
auto& anyOf(Array& array, Rng& rng) {
  return array[rng.below(array.size())];
}

// One that is there, if three tries find one: or else nearly all calls would fail at once.
template <typename Array>
auto& likely(Array& array, Rng& rng) {
  auto* found = &anyOf(array, rng);
  for (int i = 0; i < 3 && found->handle == 0; ++i) found = &anyOf(array, rng);
  return *found;
}

// Keeps a new file in the place of an old one, under threads that use that: few are kept.
template <unsigned kSize>
void replaceFd(Numbers<kSize>* files, int fd, Rng& rng) {
  const auto old = static_cast<int>(files->any(rng));
  if (old > 0) {
    dup2(fd, old);
    close(fd);
  } else {
    files->put(rng, static_cast<uint32_t>(fd));
  }
}

// Forgets what has gone, mostly.
template <typename Object>
void forget(Object* object, uint32_t handle, int error, Rng& rng) {
  if (!error && rng.percent(80)) object->handle.compare_exchange_strong(handle, 0);
}

inline std::atomic<uint32_t>* word(uint8_t* ring, size_t offset) {
  return reinterpret_cast<std::atomic<uint32_t>*>(ring + offset);
}

uint8_t* mapRing(const File& file, uint64_t key, uint64_t size);
void fillSges(File* file, uint8_t* at, unsigned count, Rng& rng);
void fillRecvs(File* file, uint8_t* ring, uint32_t entries, uint32_t stride, Rng& rng);

// Tells everybody of memory that peers may use.
void expose(Process* process, uint64_t address, uint32_t length, uint32_t rkey, Rng& rng);

// Each makes one call, of memory.cc, dmabuf.cc and srq.cc.
void regMr(Process* process, File* file, Rng& rng);
void deregMr(Process* process, File* file, Rng& rng);
void reregMr(Process* process, File* file, Rng& rng);
void allocMw(Process* process, File* file, Rng& rng);
void deallocMw(Process* process, File* file, Rng& rng);
void remap(Process* process, File* file, Rng& rng);
void exportBuffer(Process* process, File* file, Rng& rng);
void regDmabufMr(Process* process, File* file, Rng& rng);
void importMr(Process* process, File* file, Rng& rng);
void importDevice(Process* process, File* file, Rng& rng);
void createSrq(Process* process, File* file, Rng& rng);
void destroySrq(Process* process, File* file, Rng& rng);
void modifySrq(Process* process, File* file, Rng& rng);
void querySrq(Process* process, File* file, Rng& rng);
void postSrq(Process* process, File* file, Rng& rng);

}  // namespace kiwarp::vm
