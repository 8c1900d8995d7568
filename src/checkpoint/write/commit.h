#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/format/tensor.h"

namespace echelon::checkpoint {

/// Everything about a save that is not tensor bytes.
struct CommitInfo {
  std::int64_t step = 0;
  std::string save_id;
  int ranks = 1;                    ///< how many shards belong to it
  std::vector<TensorInfo> tensors;  ///< every global tensor that must be covered
  std::string trainer_state;        ///< JSON object, opaque to this library (schedule, data position, ...)
  std::map<std::string, std::string>
      attachments;                ///< file name -> content: recipe.yaml, config.json, the tokenizer
  std::string resumed_from = {};  ///< KnownSteps::resumed_from; of a save in memory: newest_sound
  std::function<void()> before_commit = {};  ///< last thing before COMMIT; what it throws prevents that
};

/// Called by one rank after every shard is durable: reads back the index of each, proves that each tensor is
/// covered exactly once, writes the attachments and MANIFEST.json, then COMMIT by rename: the only commit
/// point. Throws Error(kCheckpoint) when there is no commit, or the system cannot tell. Once COMMIT has its
/// name nothing throws any more: returns why a loss of power may take that name away again, "" when it
/// cannot.
std::string commit(const std::filesystem::path& folder, const CommitInfo& info);

/// Removes the files of a failed attempt; a later prune() removes what is left. A folder that has a COMMIT,
/// or that cannot be examined, is left alone.
void discard_attempt(const std::filesystem::path& folder) noexcept;

}  // namespace echelon::checkpoint
