#pragma once
#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/files/fs.h"
#include "base/not_copied.h"
#include "data/prepare/prepare.h"

namespace echelon::data {

/// The folder prepare.partial of an output folder: what a `prepare` that is killed, or fails, leaves for the
/// next one. It holds drafts of the data files and note.json, which says what they were made from and how
/// far. Not thread-safe. For source files of this module only.
class PartialOutput : NotCopied {
 public:
  /// Makes the folder and locks it against a second `prepare`; without effect on file systems without locks.
  /// What other sources or options left is removed, and `progress` told why. `identity`:
  /// PrepareManifest::identity(). Throws Error(kData).
  PartialOutput(const PrepareOptions& options, const nlohmann::ordered_json& identity,
                const ProgressCallback& progress);
  /// Removes the folder if no state was saved.
  ~PartialOutput();

  [[nodiscard]] static fs::Path folder_in(const fs::Path& output) { return output / "prepare.partial"; }
  [[nodiscard]] fs::Path path(std::string_view name) const { return folder_ / name; }

  /// What save() was given last, perhaps by an earlier process; null: nothing.
  [[nodiscard]] const nlohmann::json& state() const { return state_; }
  /// Is it time to save?
  [[nodiscard]] bool is_due() const { return Clock::now() >= due_; }
  /// Everything that `state` is about must be durable. Throws Error(kData).
  void save(nlohmann::json state);
  void remove();

 private:
  using Clock = std::chrono::steady_clock;
  void read_note(const ProgressCallback& progress);

  fs::Path folder_;
  nlohmann::json identity_;
  std::chrono::seconds interval_;
  Clock::time_point due_;
  fs::Fd lock_;
  nlohmann::json state_;
};

}  // namespace echelon::data
