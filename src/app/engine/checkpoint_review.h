#pragma once
#include <map>
#include <string>
#include <vector>

#include "checkpoint/read/reader.h"
#include "recipe/compare.h"
#include "run/run_folder.h"

namespace echelon::app {

/// What rank 0 makes of the files of a checkpoint beside its tensors, before the run goes on or starts from
/// it: how the recipe changed since, and which files the run's own checkpoints inherit. The tokenizer's files
/// and generation settings came with the weights once, and what is exported after training is to be as
/// complete as what was imported.
class CheckpointReview {
 public:
  using Files = std::map<std::string, std::string>;  ///< name -> content

  /// `made`: the files that this run makes by itself for its checkpoints. The others outlive this.
  CheckpointReview(const Recipe& recipe, const RunFolder& folder, Files made)
      : recipe_(recipe), folder_(folder), made_(std::move(made)), files_(made_) {}

  /// For one checkpoint; what was found in another before is forgotten. Returns the changes of the model, for
  /// people; empty: there are none. A file that is damaged is a warning that says where its successor comes
  /// from: the recipe, the data folder, an earlier checkpoint or checkpoint.init_from. Throws
  /// Error(kCheckpoint) where nothing has it: later checkpoints would silently lack it.
  std::string inspect(const checkpoint::Reader& reader);

  [[nodiscard]] const std::vector<recipe::Change>& changes() const { return changes_; }
  /// What every checkpoint of this run keeps.
  [[nodiscard]] const Files& files() const { return files_; }

 private:
  void make_good(const checkpoint::Reader& reader, const std::string& name, const std::string& damage);
  void compare(const checkpoint::Reader& reader, const std::string& then);

  const Recipe& recipe_;
  const RunFolder& folder_;
  Files made_;
  Files files_;
  std::vector<recipe::Change> changes_;
};

}  // namespace echelon::app
