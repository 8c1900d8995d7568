#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "checkpoint/format/trainer_state.h"
#include "train/save/next_action.h"

namespace echelon {

/// The step with the lowest validation loss, or with the highest score of a task.
using BestValidation = checkpoint::TrainerState::Best;

/// Returns whether `found` is better than `other`. What was measured by another task or on other data does
/// not count.
[[nodiscard]] bool beats(const BestValidation& found, const BestValidation& other);

/// With checkpoint.keep_best: tracks which best validation has a durable checkpoint. The save of the current
/// best may still be in flight or fail. If it fails, the best with a durable checkpoint becomes the best
/// again, so the next better validation is saved.
class KeptBest {
 public:
  /// `keeps`: checkpoint.keep_best.
  explicit KeptBest(bool keeps) : keeps_(keeps) {}

  /// Call it after a resume; the checkpoint of `best`, if any, exists.
  void begin(const std::optional<BestValidation>& best) { on_disk_ = best; }
  /// True if the checkpoint of `step` is to be kept as that of the best validation.
  [[nodiscard]] bool is_new(const std::optional<BestValidation>& best, std::int64_t step) const {
    return keeps_ && best && best->step == step;
  }
  /// Call when the save of `saved` (nothing if its step is no best) has `outcome`. Returns the new `best`.
  [[nodiscard]] std::optional<BestValidation> ended(const std::optional<BestValidation>& saved,
                                                    SaveOutcome::State outcome,
                                                    const std::optional<BestValidation>& best);
  /// Call when the save of `step` is skipped. Returns the new `best`.
  [[nodiscard]] std::optional<BestValidation> left_out(const std::optional<BestValidation>& best,
                                                       std::int64_t step) const {
    return is_new(best, step) ? on_disk_ : best;
  }
  /// Returns the steps whose checkpoints must be kept when the one of `step` is committed.
  [[nodiscard]] std::vector<std::int64_t> steps_to_keep(const std::optional<BestValidation>& best,
                                                        std::int64_t step) const;

 private:
  bool keeps_;
  std::optional<BestValidation> on_disk_;  ///< the newest best with a durable checkpoint
};

}  // namespace echelon
