#pragma once
#include <nccl.h>

#include <cstddef>

#include "base/dtype.h"
#include "comm/nccl/cuda_resources.h"
#include "comm/nccl/nccl_group.h"
#include "comm/node_grid.h"

namespace echelon {

/// One reduce-scatter of bf16 or fp16 that sums in fp32: this rank's part of the sum over a group's ranks,
/// which NCCL's ring would round at every rank. What is sent where: NodeGrid.
class TwoByteSum {
 public:
  /// Rank `rank` of a group whose ranks lie on `grid`, on the stream of `lane`, which must outlive it.
  TwoByteSum(NcclGroup& lane, NodeGrid grid, int rank) : lane_(lane), grid_(grid), rank_(rank) {}

  struct Job {
    const std::byte* input = nullptr;  ///< a piece of `count` elements for each rank
    DType type = DType::kBF16;
    std::size_t count = 0;
    float* output = nullptr;  ///< `count` elements
    float scale = 1;
    bool accumulate = false;
    void* scratch = nullptr;  ///< NodeGrid::scratch_bytes(count), of the lane's stream
  };
  /// Queues messages and kernels; within NcclGroup::issue().
  void queue(ncclComm_t comm, const Job& job);

 private:
  void exchange_within(ncclComm_t comm, const Job& job, std::byte* arrived) const;
  void exchange_between(ncclComm_t comm, std::size_t count, const float* sums, float* arrived) const;
  [[nodiscard]] int node() const { return rank_ / grid_.local; }
  [[nodiscard]] int place() const { return rank_ % grid_.local; }

  NcclGroup& lane_;
  NodeGrid grid_;
  int rank_;
};

}  // namespace echelon
