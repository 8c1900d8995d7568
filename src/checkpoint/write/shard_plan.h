#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/shard_index.h"
#include "checkpoint/hdf5/h5_layout.h"

namespace echelon::checkpoint {

/// The layout of a shard, computed before anything is written.
struct ShardPlan {
  ShardIndex index;                  ///< complete but for the checksums of tensor bytes
  std::vector<std::byte> metadata;   ///< HDF5's own part, right behind the index
  std::vector<std::size_t> sources;  ///< for each index entry: which slice it stores
};

/// Largest element type first, then by name, so that equal state gives equal files. Empty slices are left
/// out; the bytes of the others are not looked at. Throws Error(kCheckpoint) for a slice that is not what it
/// says, and for two slices of one tensor.
[[nodiscard]] ShardPlan plan_shard(int rank, int ranks, const std::string& save_id,
                                   std::span<const Slice> slices);

/// The plan for another save of the same slices. Planning again would cost milliseconds for which training
/// waits.
[[nodiscard]] ShardPlan replan_shard(ShardPlan earlier, const std::string& save_id);

}  // namespace echelon::checkpoint
