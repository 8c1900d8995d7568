#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "train/save/next_action.h"

namespace echelon {

/// The validation with the lowest loss.
struct BestValidation {
  std::int64_t step = 0;
  double validation_loss = 0;
};

/// With checkpoint.keep_best: which checkpoints of best validations there are. The newest of them that is
/// certain to last is known apart from the best validation itself, whose save may still be in flight or fail:
/// then the older one is the best again, so that the next better validation is saved.
class KeptBest {
 public:
  /// `keeps`: checkpoint.keep_best.
  explicit KeptBest(bool keeps) : keeps_(keeps) {}

  /// After a resume: the checkpoint of `best`, if any, is there.
  void begin(const std::optional<BestValidation>& best) { on_disk_ = best; }
  /// Is a checkpoint of `step` to be kept as that of the best validation?
  [[nodiscard]] bool is_new(const std::optional<BestValidation>& best, std::int64_t step) const {
    return keeps_ && best && best->step == step;
  }
  /// The save of `saved` (nothing: its step is not a best one) has become `outcome`. Returns what `best` is
  /// now.
  [[nodiscard]] std::optional<BestValidation> ended(const std::optional<BestValidation>& saved,
                                                    SaveOutcome::State outcome,
                                                    const std::optional<BestValidation>& best);
  /// `step` is not saved. Returns what `best` is now.
  [[nodiscard]] std::optional<BestValidation> left_out(const std::optional<BestValidation>& best,
                                                       std::int64_t step) const {
    return is_new(best, step) ? on_disk_ : best;
  }
  /// Steps whose checkpoints stay when that of `step` is committed.
  [[nodiscard]] std::vector<std::int64_t> steps_to_keep(const std::optional<BestValidation>& best,
                                                        std::int64_t step) const;

 private:
  bool keeps_;
  std::optional<BestValidation> on_disk_;  ///< the newest best that is certain to last
};

}  // namespace echelon
