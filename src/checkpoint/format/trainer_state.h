#pragma once
#include <cstdint>
#include <optional>
#include <string>

/// What a trainer stores in a checkpoint besides tensors: the object `trainer_state` of the manifest. Tools
/// use it too, so its rules are defined here, once.
namespace echelon::checkpoint {

struct TrainerState {
  std::int64_t step = 0;  ///< steps done; that of the manifest
  std::int64_t next_sample = 0;
  std::uint32_t data_fingerprint = 0;
  int ranks = 1;  ///< world size of the save
  std::int64_t skipped_steps = 0;
  std::int64_t skipped_in_a_row = 0;   ///< the last ones of them; 0 also of an older version's
  std::optional<std::int64_t> tokens;  ///< trained on so far; nothing: an older version did not count

  struct LossScale {
    double factor = 1;
    std::int64_t finite_in_a_row = 0;
  };
  std::optional<LossScale> loss_scale;  ///< fp16 only

  struct Best {
    std::int64_t step = 0;
    double value = 0;                   ///< validation loss, or score of `task`; finite
    std::string task;                   ///< empty: it goes by the validation loss
    std::optional<std::uint32_t> data;  ///< fingerprint of what it was measured on; nothing: not noted
  };
  std::optional<Best> best;  ///< nothing: none was validated
};

/// A JSON object that parse_trainer_state() takes. Throws Error(kCheckpoint) for values it would refuse.
[[nodiscard]] std::string trainer_state_text(const TrainerState& state);

/// Everything a run resumes from. Throws Error(kCheckpoint), naming `what`, where something is missing, of
/// another kind, out of range, or of another step than the manifest's, `step`.
[[nodiscard]] TrainerState parse_trainer_state(const std::string& text, std::int64_t step,
                                               const std::string& what);

/// The same check, for tools: a state that no trainer wrote (an import's, another program's) is always valid,
/// because no run resumes from it.
void check_trainer_state(const std::string& text, std::int64_t step, const std::string& what);

/// The best step so far and its validation loss or score, whoever wrote the state; nothing if there is none.
/// Throws Error(kCheckpoint), naming `what`, if the entry is invalid.
[[nodiscard]] std::optional<TrainerState::Best> best_of(const std::string& text, const std::string& what);

}  // namespace echelon::checkpoint
