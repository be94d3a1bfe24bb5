// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "chaos/shared.h"

namespace kiwarp::vm {

constexpr unsigned kFiles = 3;

// Numbers that the kernel gave for objects. Threads take them without asking each other, and keep
// them after the object has gone: that's where stale handles come from.
template <unsigned kSize>
class Numbers {
 public:
  uint32_t any(Rng& rng) const { return at_[rng.below(kSize)].load(); }
  void put(Rng& rng, uint32_t number) { at_[rng.below(kSize)] = number; }
  // One that stays for long.
  uint32_t first() const { return at_[0].load(); }
  void putBehind(Rng& rng, uint32_t number) {
    at_[first() && rng.below(30) ? 1 + rng.below(kSize - 1) : 0] = number;
  }

 private:
  std::array<std::atomic<uint32_t>, kSize> at_{};
};

struct Queues {
  std::atomic<uint32_t> handle{0}, qpn{0};
  std::atomic<uint8_t*> rings{nullptr};
  std::atomic<uint32_t> sq_entries{1}, sq_stride{0}, rq_entries{1}, rq_stride{0}, rq_offset{0};
};

// A mapped completion ring. It's never freed: other threads may still use it.
struct CompletionRing {
  uint8_t* at;
  uint32_t entries;  // a power of two
};

struct Completions {
  std::atomic<uint32_t> handle{0};
  std::atomic<const CompletionRing*> ring{nullptr};
};

struct Region {
  std::atomic<uint32_t> handle{0}, lkey{0}, length{0};
  std::atomic<uint64_t> address{0};
};

struct Window {
  std::atomic<uint32_t> handle{0}, rkey{0};
};

struct SharedQueue {
  std::atomic<uint32_t> handle{0};
  std::atomic<uint8_t*> ring{nullptr};
  std::atomic<uint32_t> entries{1}, stride{0};
};

// An open uverbs device.
struct File {
  int fd = -1;
  Numbers<6> pds;
  Numbers<3> channels;
  std::array<Completions, 6> cqs;
  std::array<Region, 12> mrs;
  std::array<Window, 6> mws;
  std::array<SharedQueue, 4> srqs;
  std::array<Queues, 12> qps;
};

// What a process has, which all its threads use at once.
struct Process {
  std::array<File, kFiles> files;
  std::vector<std::string> devices;  // the likely one first
  uint8_t* memory = nullptr;         // that is registered
  size_t memory_size = 0;
  int exporter = -1;   // of dma-bufs: kiwarp_ktest's
  Numbers<4> buffers;  // their files
  Shared* shared = nullptr;
  Counts* counts = nullptr;

  // Counts a call and hands its result on: errno, or 0.
  int tell(Kind kind, int error) const {
    ++(error ? counts->of[kind].bad : counts->of[kind].good);
    return error;
  }
};

// One random call of a verb, by number and not by libibverbs, which holds no thread back.
void randomVerb(Process* process, Rng& rng);
bool openFile(Process* process, File* file, Rng& rng, Kind kind);

}  // namespace kiwarp::vm
