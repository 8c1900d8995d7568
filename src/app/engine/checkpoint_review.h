#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/attachments.h"
#include "checkpoint/read/base_note.h"
#include "data/loader.h"
#include "families/model_weights.h"
#include "recipe/compare.h"
#include "run/run_folder.h"
#include "train/eval/generation_score.h"
#include "train/eval/reference_logps.h"
#include "train/restore.h"

namespace echelon::app {

/// Rank 0's inspection of a checkpoint's attached files, before a run resumes or starts from it. Finds how
/// the recipe changed since, and which files the run's own checkpoints inherit: tokenizer files and
/// generation settings that were imported with the weights must be in the export too.
class CheckpointReview {
 public:
  using Files = std::map<std::string, std::string>;  ///< file name -> content

  /// `made`: the files that this run generates for its checkpoints. `base`: the weights that the checkpoints
  /// leave out, once they are known. All but `made` must outlive this object.
  CheckpointReview(const Recipe& recipe, const RunFolder& folder, Files made,
                   const std::optional<checkpoint::BaseNote>& base)
      : recipe_(recipe), folder_(folder), base_(base), made_(std::move(made)), files_(made_) {}

  /// Inspects one checkpoint and discards the results of the previous one.
  /// A damaged file gives a warning that names its replacement: from the recipe, the data folder, an earlier
  /// checkpoint or checkpoint.init_from. Throws Error(kCheckpoint) if there is no replacement, because later
  /// checkpoints would silently lack the file.
  Differences inspect(const checkpoint::Reader& reader);

  /// A new run starts from the weights of a Hugging Face folder: its checkpoints inherit the files beside
  /// them, and remember which weights these were.
  void inherit(const families::ModelWeights& weights);

  [[nodiscard]] const std::vector<recipe::Change>& changes() const { return changes_; }
  /// Logs by how much changes of the recipe, such as more steps, raise or lower the learning rate where the
  /// run goes on, if it is more than a tenth. `steps`: of the whole run.
  void tell_jump_of_rate(const TrainState& state, std::int64_t steps) const;
  /// Sets the special ids in config.json of the run's checkpoints: those that the checkpoint or folder states
  /// that the run goes on from, or else those of the data. `resumed`: from a checkpoint of the run. Returns
  /// how texts end, on all ranks alike: one that went on alone would wait for the others. Collective.
  [[nodiscard]] TextOptions settle_text(RunTexts texts, bool resumed, Communicator& comm);
  /// kReferenceFile of the checkpoint, for a run of DPO; what is put here is in files().
  [[nodiscard]] std::string& reference() { return reference_; }
  /// The files that every checkpoint of this run contains.
  [[nodiscard]] Files files() const {
    Files files = files_;
    if (!reference_.empty()) files[kReferenceFile] = reference_;
    if (base_) files[std::string(checkpoint::kBaseFile)] = base_->text();
    return files;
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> set_ids(const RunTexts& texts, bool resumed);
  void make_good(const checkpoint::Reader& reader, const std::string& name, const std::string& damage);
  void compare(const checkpoint::Reader& reader, const std::string& then);
  void compare_start(const std::string& then) const;
  void compare_base() const;
  /// config.json from another place than the checkpoint `lost`, whose own cannot be read; empty: there is
  /// none.
  [[nodiscard]] std::string other_config(const std::filesystem::path& lost) const;
  [[nodiscard]] bool is_reference(const std::string& name) const;

  const Recipe& recipe_;
  const RunFolder& folder_;
  const std::optional<checkpoint::BaseNote>& base_;
  Files made_;
  Files files_;
  std::string reference_;
  std::string config_;  ///< config.json of what the run goes on from; empty: there is none
  std::vector<recipe::Change> changes_;
  std::optional<Recipe> then_;  ///< of the checkpoint; nothing: not known
};

}  // namespace echelon::app
