#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace echelon::checkpoint {

/// A whole (global) tensor, whoever holds it.
struct TensorInfo {
  std::string name;  ///< e.g. "model/model.layers.0.mlp.up_proj.weight", "optim/<same>/exp_avg"
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
};

/// Elements [begin, end) of the flattened tensor, held by this rank.
struct Slice {
  TensorInfo tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::span<const std::byte> bytes;  ///< (end - begin) * size_of(dtype); or else:
  /// Fills `to` with the slice's bytes from byte `at` on; called with rising `at`, from one thread.
  std::function<void(std::uint64_t at, std::span<std::byte> to)> read = {};
};

/// "step-000001200.a1b2c3d4": the folder of one save attempt.
[[nodiscard]] std::string step_folder_name(std::int64_t step, std::string_view save_id);
/// Eight random hex digits; rank 0 makes one per attempt and sends it to all.
[[nodiscard]] std::string new_save_id();

/// Writes shard-RRRRR-of-NNNNN.h5 into `folder` (which exists) and makes it durable. All or an
/// Error(kCheckpoint). Needs 32 MiB of memory beside the slices. One call per rank and save.
void write_shard(const std::filesystem::path& folder, int rank, int ranks, const std::string& save_id,
                 std::vector<Slice> slices);

/// Everything about a save that is not tensor bytes.
struct CommitInfo {
  std::int64_t step = 0;
  std::string save_id;
  int ranks = 1;                    ///< how many shards belong to it
  std::vector<TensorInfo> tensors;  ///< every global tensor that must be covered
  std::string trainer_state;        ///< JSON object, opaque to this library (schedule, data position, ...)
  std::map<std::string, std::string>
      attachments;                ///< file name -> content: recipe.yaml, config.json, the tokenizer
  std::string resumed_from = {};  ///< save id of the commit that this start read whole; empty: none
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
