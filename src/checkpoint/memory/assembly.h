#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/offers.h"
#include "checkpoint/memory/shard_service.h"

namespace echelon::checkpoint {

/// Puts a memory checkpoint together on one node, in a folder that a Reader opens like any committed
/// checkpoint: the shards that the node holds are linked there, of all others there is the index, behind
/// which the file is empty until somebody needs it. Tensor bytes that were never brought are zeros, which no
/// reader accepts, because their checksums differ.
class Assembly {
 public:
  /// Where a node's files can be had: the services of its ranks.
  struct Source {
    std::string host;
    ServiceCard card;
  };
  /// `sources`: of every node, for this rank. `node`: this one. All must outlive it.
  Assembly(const MemoryFolder& folder, const MemoryCandidate& candidate, int node,
           const std::vector<Source>& sources, const Secret& secret);

  /// One rank per node. Throws Error(kCheckpoint); it is_of_system() here and in bring() unless everything
  /// was found damaged, or gone. Throws Error(kEnvironment) for what this node cannot write: it has no room.
  void begin() const;
  /// Makes sure that the shard is there whole and sound: checks a linked one, and fetches it if it is not
  /// here or is damaged, from any node that has it. Different ranks of a node may bring different shards at
  /// the same time. After begin(). Throws Error(kCheckpoint) if no node has it sound.
  void bring(int shard) const;
  /// Of the step folder that a Reader opens.
  [[nodiscard]] std::filesystem::path path() const;

  /// Removes what any assembly of this node has left. Never throws.
  static void remove(const MemoryFolder& folder) noexcept;

 private:
  [[nodiscard]] bool is_here(const MemoryCandidate::Shard& shard) const;
  [[nodiscard]] std::filesystem::path file(int shard) const;
  void lay_out(const MemoryCandidate::Shard& shard) const;
  void fetch_whole(const MemoryCandidate::Shard& shard, int from) const;
  [[nodiscard]] std::string info() const;
  [[nodiscard]] WantedShard wanted(WantedFile file, int shard) const;

  const MemoryFolder* folder_;
  const MemoryCandidate* candidate_;
  int node_;
  const std::vector<Source>* sources_;
  Secret secret_;
};

}  // namespace echelon::checkpoint
