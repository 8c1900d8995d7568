#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/folder/contents.h"

namespace echelon::checkpoint {

/// What is left of a step folder that was never committed or is damaged.
struct Salvage {
  std::string
      problem;  ///< why the folder is no checkpoint by itself; empty when commit and manifest are sound
  std::vector<std::string> lost_shards;  ///< for each unusable shard, why
  struct LostTensor {
    std::string name;
    std::string problem;
  };
  std::vector<LostTensor> lost;  ///< known tensors that are not complete and intact
  Contents contents;             ///< the tensors that are, and the shards that hold them: a Reader opens it
};

/// Called with (bytes done, bytes in all) now and then; may throw to stop.
using SalvageProgress = std::function<void(std::uint64_t, std::uint64_t)>;

/// Reads every byte that is left and compares it with its checksum. Where the manifest is sound it says what
/// there should be; otherwise the shards' own indexes do, and a tensor all of whose pieces are gone is not
/// known. Throws Error(kCheckpoint) when not even one shard can be used, and what `progress` throws.
[[nodiscard]] Salvage salvage(const std::filesystem::path& folder, const SalvageProgress& progress);

}  // namespace echelon::checkpoint
