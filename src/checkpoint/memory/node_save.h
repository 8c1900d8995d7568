#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/not_copied.h"
#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/shard_service.h"
#include "checkpoint/write/commit.h"

namespace echelon::checkpoint {

/// What one rank does for a memory checkpoint beside writing its own shard.
struct NodeSavePlan {
  std::filesystem::path folder;  ///< the step folder on this node
  CommitInfo info;               ///< step, id and ranks; of the first rank of a node: all of it
  /// Shards of another node that this rank copies to its own, and who serves them.
  struct Copy {
    int rank = 0;
    std::string host;  ///< for people
    ServiceCard from;
    /// What blocks_crc() gives for its index, as the rank told over the communicator; none: it could not
    /// begin.
    std::optional<std::uint32_t> blocks_crc;
  };
  std::vector<Copy> copies;
  std::vector<std::filesystem::path> outdated;  ///< copies of an older save, removed first to make room
  Secret secret{};
  /// The first rank of a node only: what makes the node's part whole (write_note()).
  std::string run_id;
  std::int64_t newest_commit = -1;           ///< MemoryNote::newest_commit
  std::vector<int> held;                     ///< empty on other ranks
  const MemoryFolder* run_folder = nullptr;  ///< from which everything but `stays` is removed
  std::vector<std::string> stays;
  double timeout_s = 1800;
};

/// Fetches the copies, each checked as it arrives, and on the first rank of a node finishes the node's part
/// of the checkpoint when all of its shards are there. All of it on one thread of low priority.
class NodeSave : NotCopied {
 public:
  enum class State { kRunning, kDone, kFailed };
  struct Status {
    State state = State::kRunning;
    std::string error;
    double seconds = 0;
    std::uint64_t copied_bytes = 0;
  };

  /// Starts the thread. Throws what the system throws where it has none left.
  explicit NodeSave(NodeSavePlan plan);
  ~NodeSave();  ///< gives up what is not done

  [[nodiscard]] Status status() const;

 private:
  struct Work;
  std::shared_ptr<Work> work_;
};

/// Fetches one shard into `folder`, where it gets its name when all of it has been checked. Throws
/// Error(kCheckpoint); nothing is left then. `blocks_crc`: of its index.
void fetch_shard(const std::filesystem::path& folder, const ServiceCard& from, const Secret& secret,
                 const WantedShard& wanted, std::uint32_t blocks_crc, const FetchLimits& limits);

}  // namespace echelon::checkpoint
