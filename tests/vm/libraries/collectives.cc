// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
//
// kiwarp-collectives: an MPI program of two ranks or more. Messages of all sizes go around a ring,
// and vectors of all sizes are summed over all ranks; every element is checked.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

// From inline data to what a rendezvous moves by RDMA.
constexpr int kMaxCount = 1 << 18;

uint32_t element(int rank, int count, int index) {
  return static_cast<uint32_t>(rank) * 2654435761U + static_cast<uint32_t>(count) * 40503U +
         static_cast<uint32_t>(index);
}

uint64_t ringErrors(int rank, int ranks, int count) {
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  std::vector<uint32_t> mine(static_cast<size_t>(count));
  std::vector<uint32_t> got(static_cast<size_t>(count), 0);
  for (int i = 0; i < count; i++) mine[static_cast<size_t>(i)] = element(rank, count, i);
  uint64_t errors = 0;
  // After so many hops each has its own again.
  for (int hop = 1; hop <= ranks; hop++) {
    MPI_Sendrecv(mine.data(), count, MPI_UINT32_T, next, hop, got.data(), count, MPI_UINT32_T,
                 previous, hop, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    mine.swap(got);
    const int owner = (rank + ranks - hop) % ranks;
    for (int i = 0; i < count; i++)
      if (mine[static_cast<size_t>(i)] != element(owner, count, i)) errors++;
  }
  return errors;
}

uint64_t sumErrors(int rank, int ranks, int count) {
  std::vector<uint32_t> mine(static_cast<size_t>(count));
  std::vector<uint32_t> sums(static_cast<size_t>(count), 0);
  for (int i = 0; i < count; i++) mine[static_cast<size_t>(i)] = element(rank, count, i);
  MPI_Allreduce(mine.data(), sums.data(), count, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
  uint64_t errors = 0;
  for (int i = 0; i < count; i++) {
    uint32_t wanted = 0;
    for (int r = 0; r < ranks; r++) wanted += element(r, count, i);
    if (sums[static_cast<size_t>(i)] != wanted) errors++;
  }
  return errors;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  uint64_t errors = 0;
  for (int count = 1; count <= kMaxCount; count *= 4) {
    errors += ringErrors(rank, ranks, count);
    errors += sumErrors(rank, ranks, count);
  }
  std::printf("rank %d of %d: %llu wrong elements\n", rank, ranks,
              static_cast<unsigned long long>(errors));
  MPI_Finalize();
  return errors == 0 && ranks >= 2 ? 0 : 1;
}
