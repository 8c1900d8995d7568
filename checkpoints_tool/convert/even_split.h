#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/tensor.h"

namespace echelon::tool {

/// Elements [begin, end) of tensor number `tensor`.
struct Share {
  std::size_t tensor = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Divides tensors over `ranks` shards: concatenated and cut into ranges of nearly equal size, so that at
/// most ranks - 1 tensors are cut. Returns the shares by rank; a rank may get none.
[[nodiscard]] std::vector<std::vector<Share>> split_evenly(std::span<const checkpoint::TensorInfo> tensors,
                                                           int ranks);

}  // namespace echelon::tool
