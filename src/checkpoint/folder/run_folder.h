#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

/// The folder that holds all checkpoints of a run.
namespace echelon::checkpoint {

/// One step folder found under a checkpoints folder.
struct Found {
  std::filesystem::path folder;
  std::int64_t step = 0;
  bool committed = false;  ///< COMMIT and MANIFEST.json check out
  std::string problem;     ///< why a commit is not valid; also empty if there never was one
  std::filesystem::file_time_type committed_at{};  ///< of the file COMMIT, by the file system's clock
  std::optional<Manifest> manifest = {};           ///< if it is committed
};
/// One step folder, whatever its name; its step is 0 if neither name nor manifest gives it.
[[nodiscard]] Found look_at(const std::filesystem::path& step_folder);
/// Step folders, oldest step first, of one step the older commit first. A folder that does not exist gives an
/// empty list.
[[nodiscard]] std::vector<Found> list(const std::filesystem::path& checkpoints);

/// Links are not followed: list() skips those named like a step folder. Warns of each.
void warn_of_linked_steps(const std::filesystem::path& checkpoints);

}  // namespace echelon::checkpoint
