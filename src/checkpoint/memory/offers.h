#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/memory/memory_note.h"

/// Which memory checkpoint a job can continue from, decided from what its nodes hold. Pure, so it is the same
/// on every rank.
namespace echelon::checkpoint {

/// A checkpoint of which every shard is in the memory of at least one node.
struct MemoryCandidate {
  struct Shard {
    HeldShard held;
    std::vector<int> nodes;  ///< that hold it; by rising number
  };
  std::int64_t step = 0;
  std::string save_id;
  std::uint64_t info_bytes = 0;
  std::uint32_t info_crc = 0;
  std::int64_t newest_commit = -1;  ///< MemoryNote::newest_commit
  std::vector<Shard> shards;        ///< by rank
  std::vector<int> info_nodes;      ///< that have its INFO
  [[nodiscard]] int ranks() const { return static_cast<int>(shards.size()); }
};

struct MemoryChoice {
  std::vector<MemoryCandidate> whole;  ///< newest first
  std::vector<std::string> refused;    ///< for people: why the others do not count
};

/// `offers`: of each node, its notes. `hosts`: names of the nodes.
[[nodiscard]] MemoryChoice choose(const std::vector<std::vector<MemoryNote>>& offers,
                                  const std::vector<std::string>& hosts);

}  // namespace echelon::checkpoint
