#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/format/shard_index.h"

namespace echelon::checkpoint {

/// Consecutive bytes of the file after the index that are either all outside tensors, or within one checksum
/// block of one tensor.
struct Run {
  static constexpr std::size_t kNoEntry = ~std::size_t{0};
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  std::size_t entry = kNoEntry;  ///< tensor bytes: of which index entry; kNoEntry: HDF5 metadata or zeros
  std::uint64_t at = 0;          ///< tensor bytes: where in the piece
  std::uint64_t block = 0;       ///< tensor bytes: number of its checksum
};
/// The runs that make up file bytes [begin, end), end <= file_bytes.
[[nodiscard]] std::vector<Run> runs_between(const ShardIndex& index, std::uint64_t begin, std::uint64_t end);

}  // namespace echelon::checkpoint
