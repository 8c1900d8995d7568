#include "train/trainer_state.h"

#include "base/error.h"
#include "base/str.h"

namespace echelon {

std::string trainer_state_json(const TrainState& state, int ranks) {
  checkpoint::TrainerState saved{.step = state.step,
                                 .next_sample = state.position.next_sample,
                                 .data_fingerprint = state.data.fingerprint(),
                                 .ranks = ranks,
                                 .skipped_steps = state.skipped,
                                 .skipped_in_a_row = state.skipped_in_a_row,
                                 .tokens = state.tokens};
  if (state.loss_scale.used())
    saved.loss_scale = {state.loss_scale.factor(), state.loss_scale.finite_in_a_row()};
  saved.best = state.best;
  return checkpoint::trainer_state_text(saved);
}

void require_same_data(const checkpoint::TrainerState& saved, const std::filesystem::path& folder,
                       const TrainState& state, const std::string& keys) {
  if (saved.data_fingerprint == state.data.fingerprint()) return;
  throw Error(Code::kData, "checkpoint '", folder.string(), "' was trained on different data (",
              keys.empty() ? "the recipe is the same, what the files hold is not"
                           : str("checkpoint -> this recipe: ", keys),
              "), so its data position is not valid here; restore ",
              keys.empty() ? "the files" : "these keys", ", or use another run.dir");
}

void apply_trainer_state(const checkpoint::TrainerState& saved, TrainState& state) {
  state.step = saved.step;
  state.position.next_sample = saved.next_sample;
  state.skipped = saved.skipped_steps;
  state.skipped_in_a_row = saved.skipped_in_a_row;
  state.tokens = saved.tokens;
  if (saved.loss_scale) state.loss_scale.restore(saved.loss_scale->factor, saved.loss_scale->finite_in_a_row);
  state.best = saved.best;
}

}  // namespace echelon
