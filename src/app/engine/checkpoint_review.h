#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/read/reader.h"
#include "data/loader.h"
#include "recipe/compare.h"
#include "run/run_folder.h"
#include "train/restore.h"

namespace echelon::app {

/// Rank 0's inspection of a checkpoint's attached files, before a run resumes or starts from it. Finds how
/// the recipe changed since, and which files the run's own checkpoints inherit: tokenizer files and
/// generation settings that were imported with the weights must be in the export too.
class CheckpointReview {
 public:
  using Files = std::map<std::string, std::string>;  ///< file name -> content

  /// `made`: the files that this run generates for its checkpoints. `recipe` and `folder` must outlive this
  /// object.
  CheckpointReview(const Recipe& recipe, const RunFolder& folder, Files made)
      : recipe_(recipe), folder_(folder), made_(std::move(made)), files_(made_) {}

  /// Inspects one checkpoint and discards the results of the previous one.
  /// A damaged file gives a warning that names its replacement: from the recipe, the data folder, an earlier
  /// checkpoint or checkpoint.init_from. Throws Error(kCheckpoint) if there is no replacement, because later
  /// checkpoints would silently lack the file.
  Differences inspect(const checkpoint::Reader& reader);

  [[nodiscard]] const std::vector<recipe::Change>& changes() const { return changes_; }
  /// Logs by how much changes of the recipe, such as more steps, raise or lower the learning rate where the
  /// run goes on, if it is more than a tenth. `steps`: of the whole run.
  void tell_jump_of_rate(std::int64_t step, std::int64_t steps, const Loader& data) const;
  /// The files that every checkpoint of this run contains.
  [[nodiscard]] const Files& files() const { return files_; }

 private:
  void make_good(const checkpoint::Reader& reader, const std::string& name, const std::string& damage);
  void compare(const checkpoint::Reader& reader, const std::string& then);

  const Recipe& recipe_;
  const RunFolder& folder_;
  Files made_;
  Files files_;
  std::vector<recipe::Change> changes_;
  std::optional<Recipe> then_;  ///< of the checkpoint; nothing: not known
};

}  // namespace echelon::app
