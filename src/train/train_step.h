#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "data/batch_stream.h"
#include "model/batch.h"
#include "train/interval_clock.h"
#include "train/loop_parts.h"

namespace echelon {

/// The sums over ranks of the one small reduction of a step. It carries everything that ranks must agree on.
struct StepSums {
  double squared_gradients = 0;  ///< of this rank's slices, before any rescaling
  double loss = 0;
  double targets = 0;       ///< targets that are not ignored
  double stop_votes = 0;    ///< AgreedStop
  double save_votes = 0;    ///< 1 on rank 0 if a save is due by its clock
  double tokens = 0;        ///< tokens, including those of target sequences
  double failed_saves = 0;  ///< ranks with a failed part of the save in flight that rank 0 does not know of
  double digests = 0;       ///< Communicator::digest() of the device communicator
  std::array<double, AnswerPairs::kSums> pairs{};  ///< where samples are pairs of answers
};

/// Further votes in a step's reduction, and their consequences. The base class neither stops nor saves the
/// run.
class StepVotes {
 public:
  virtual ~StepVotes() = default;
  /// Adds this rank's votes. Called before the reduction.
  virtual void vote(StepSums& /*mine*/) {}
  /// Acts on the sums. Called after the reduction, on all ranks alike.
  virtual void heed(const StepSums& /*all*/) {}
  /// Waits for a save in flight. Called before an error ends the run on all ranks. Returns, for a message,
  /// which checkpoint the run can continue from.
  virtual std::string give_up() { return "the run has no checkpoint yet"; }
};

/// The steps of one rank: forward and backward of its micro-batches, the reduction by which ranks agree, and
/// the update of the weights. A step with a loss or gradients that are not finite never changes the weights.
/// It is skipped, or ends the run with Error(kTraining), depending on train.non_finite. A step in which no
/// target counts is skipped, because momentum and weight decay would move the weights; more of them in a row
/// than train.max_skipped_steps end the run. All non-const calls are collective.
class TrainStep {
 public:
  struct Result {
    double loss = 0;        ///< mean over the targets that are not ignored, or pairs of answers; NaN: none
    double grad_norm = 0;   ///< of the mean loss, before clipping
    double tokens = 0;      ///< over all ranks
    bool save_due = false;  ///< a save is due by the clock of rank 0
    double sent_bytes = 0;  ///< by this rank
    /// With metrics.unit_grad_norms: this rank's part of the squared norm of each unit's gradient, of the
    /// mean loss and before clipping.
    std::vector<double> unit_squares{};
    /// The means that TRL reports of pairs of answers: "rewards/margins" and others.
    std::vector<std::pair<std::string, double>> preferences{};
  };
  /// Starts to read samples ahead from state.position. `comm`: all ranks, on the host. All arguments must
  /// outlive this object.
  TrainStep(const LoopOptions& options, TrainState& state, Communicator& comm, StepVotes& votes);

  /// Forward and backward of step state.step + 1.
  void accumulate();
  /// Requires accumulate(). Completes or skips the step; state.step is then its number.
  [[nodiscard]] Result finish(double lr);

  /// Returns the parts of the steps' time since construction. Waits of validations are included.
  [[nodiscard]] StepParts times() const;

 private:
  /// Targets of a step without padding, over all ranks.
  [[nodiscard]] double full_targets() const;
  [[nodiscard]] SampleBatch next_samples();
  void agree();  ///< sums_ over all ranks
  /// Updates the weights with the gradients multiplied by `gradient_factor`.
  void update_weights(double lr, double grad_norm, double gradient_factor);
  void leave_out(const Result& result);
  [[nodiscard]] double sent_bytes() const;  ///< by this rank so far, of the model

  const LoopOptions& options_;
  TrainState& state_;
  Communicator& comm_;
  StepVotes& votes_;
  BatchStream stream_;
  StepSums sums_;             ///< of the current step
  bool pairs_ = false;        ///< the current step is one of DPO
  double began_s_ = 0;        ///< start of the current step
  double sent_before_ = 0;    ///< bytes, before the current step
  double waited_before_ = 0;  ///< seconds spent waiting for collectives before the current step
  double compute_s_ = 0;
  double optimizer_s_ = 0;
  double agree_wait_s_ = 0;  ///< in the reductions that end steps
};

}  // namespace echelon
