#pragma once
#include <cstdint>

#include "data/batch_stream.h"
#include "train/loop_parts.h"

namespace echelon {

/// What the ranks sum in the one small reduction of a step, which carries everything that they must agree on.
struct StepSums {
  double squared_gradients = 0;  ///< of the slices, as they stand
  double loss = 0;
  double targets = 0;       ///< predictions that count
  double stop_votes = 0;    ///< AgreedStop
  double save_votes = 0;    ///< the clock of rank 0 asks for a save
  double tokens = 0;        ///< of sequences, those of targets included
  double failed_saves = 0;  ///< ranks whose part of the save in flight has failed and is not heard of
  double digests = 0;       ///< Communicator::digest() between the devices

  void sum_over(Communicator& comm);  ///< in place; collective
};

/// The steps of one rank: forward and backward of its micro-batches, the reduction that the ranks agree by,
/// and the update of the weights. A step whose loss or gradients are not finite never touches the weights: it
/// is left out, or ends the run with Error(kTraining), as train.non_finite says. Each call is collective.
class TrainStep {
 public:
  struct Result {
    double loss = 0;        ///< mean over the predictions that count
    double grad_norm = 0;   ///< of the mean loss, before clipping
    double tokens = 0;      ///< of all ranks
    bool save_due = false;  ///< by the clock of rank 0
  };
  /// Reads samples ahead from state.position on. Both outlive this object.
  TrainStep(const LoopOptions& options, const LoopParts& parts);

  /// Forward and backward of step state.step + 1.
  void accumulate();
  /// After accumulate(): the step is done, or left out, and state.step is its number.
  [[nodiscard]] Result finish(double lr);

  /// For its samples, so far.
  [[nodiscard]] double data_waited_s() const { return stream_.waited_s(); }

 private:
  /// Targets that a step of full samples has, over all ranks.
  [[nodiscard]] double full_targets() const;
  /// Gradients as they stand, times `gradient_factor`, move the weights.
  void update_weights(double lr, double grad_norm, double gradient_factor);
  void leave_out(const Result& result);

  const LoopOptions& options_;
  const LoopParts& parts_;
  BatchStream stream_;
  StepSums sums_;             ///< of the step under way
  double began_s_ = 0;        ///< that step
  double waited_before_ = 0;  ///< for collectives, seconds until that step
  std::int64_t skipped_in_a_row_ = 0;
};

}  // namespace echelon
