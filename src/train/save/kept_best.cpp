#include "train/save/kept_best.h"

namespace echelon {

bool beats(const BestValidation& found, const BestValidation& other) {
  if (found.task != other.task || found.data != other.data) return true;
  return found.task.empty() ? found.value < other.value : found.value > other.value;
}

std::optional<BestValidation> KeptBest::ended(const std::optional<BestValidation>& saved,
                                              SaveOutcome::State outcome,
                                              const std::optional<BestValidation>& best) {
  if (!saved) return best;
  if (outcome == SaveOutcome::State::kCommitted) on_disk_ = saved;
  const bool lost = outcome == SaveOutcome::State::kFailed && best && best->step == saved->step;
  return lost ? on_disk_ : best;
}

std::vector<std::int64_t> KeptBest::steps_to_keep(const std::optional<BestValidation>& best,
                                                  std::int64_t step) const {
  std::vector<std::int64_t> steps;
  if (keeps_ && best) steps.push_back(best->step);
  // Until the checkpoint of the newest best is durable, that of the previous best is kept too.
  if (on_disk_ && !is_new(best, step)) steps.push_back(on_disk_->step);
  return steps;
}

}  // namespace echelon
