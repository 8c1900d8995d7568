#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/tasks/options.h"
#include "train/eval/task_scores.h"

namespace echelon {

/// Limits the time that evaluations take to a share of the time of training. Points in time are seconds of
/// one steady clock.
class EvaluationShare {
 public:
  /// `most`: above 0, at most 1.
  EvaluationShare(double most, double began_s) : most_(most), began_s_(began_s) {}
  /// Returns whether an evaluation that begins now and lasts as long as the last one stays within the share.
  /// How long the first one takes is not known, so it always does.
  [[nodiscard]] bool fits(double now_s) const {
    return spent_s_ == 0 || spent_s_ + last_s_ <= most_ * (now_s - began_s_ + last_s_);
  }
  void took(double seconds) {
    last_s_ = seconds;
    spent_s_ += seconds;
  }

 private:
  double most_;
  double began_s_;
  double last_s_ = 0;
  double spent_s_ = 0;
};

/// The tasks that a model answers while it trains (recipe section `evaluation`). One thread.
class RunEvaluation {
 public:
  /// Reads and encodes all tasks. Throws Error(kData).
  RunEvaluation(const EvaluationOptions& options, const Tokenizer& tokenizer, const data::ModelLimits& limits,
                const TaskPasses& passes);

  /// Returns whether the recipe asks for an evaluation after `step` of `steps`.
  [[nodiscard]] bool due(std::int64_t step, std::int64_t steps) const;

  /// Answers all tasks, or none if `may_skip` and the time for it is used up on rank 0, which logs it.
  /// `text`: with the tokenizer of the constructor. Returns nothing if `stop` is decided meanwhile.
  /// Collective.
  [[nodiscard]] std::optional<std::vector<TaskResult>> run(ShardedModel& model, const TextOptions& text,
                                                           Communicator& comm, AgreedStop& stop,
                                                           bool may_skip);

  /// The task by whose score the best step is chosen; empty: none.
  [[nodiscard]] const std::string& best() const { return options_.best; }
  /// Identifies what that task asks; only if there is one.
  [[nodiscard]] std::uint32_t best_fingerprint() const;

 private:
  EvaluationOptions options_;
  TaskPasses passes_;
  std::vector<data::EncodedTask> tasks_;
  EvaluationShare share_;
};

}  // namespace echelon
