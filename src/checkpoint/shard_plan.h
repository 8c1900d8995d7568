#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/h5_layout.h"
#include "checkpoint/shard_index.h"

namespace echelon::checkpoint {

/// Where every byte of a shard will lie, before any of them is there.
struct ShardPlan {
  ShardIndex index;                  ///< complete but for the checksums of tensor bytes
  std::vector<std::byte> metadata;   ///< HDF5's own part, right behind the index
  std::vector<std::size_t> sources;  ///< for each index entry: which slice it stores
};

/// Largest element type first, then by name, so that equal state gives equal files. Empty slices are left
/// out. Throws Error(kCheckpoint) for a slice that is not what it says, and for two slices of one tensor.
[[nodiscard]] ShardPlan plan_shard(int rank, int ranks, const std::string& save_id,
                                   std::span<const Slice> slices);

}  // namespace echelon::checkpoint
