#include "train/train_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "checkpoint/read/reader.h"
#include "comm/agree.h"
#include "comm/reduce_fields.h"
#include "optim/gradients.h"
#include "train/batch_tensors.h"

namespace echelon {
namespace {

/// The samples of this rank, from the state's position on.
BatchPlan plan_of(const TrainOptions& train, const DataPosition& position, const Communicator& comm) {
  const std::int64_t rows = train.micro_batch_size;
  return {position.next_sample + comm.rank() * rows, rows, rows * comm.size()};
}

/// For a message: which checkpoint the run can continue from.
std::string what_is_saved(const RunFolder& folder) {
  std::int64_t newest = 0;
  for (const checkpoint::Found& found : checkpoint::list(folder.checkpoints())) {
    if (found.committed) newest = found.step;
  }
  return newest > 0 ? str("the newest checkpoint, of step ", newest, ", is intact")
                    : "the run has no checkpoint yet";
}

}  // namespace

void StepSums::sum_over(Communicator& comm) {
  all_reduce_fields(comm, *this,
                    {&StepSums::squared_gradients, &StepSums::loss, &StepSums::targets, &StepSums::stop_votes,
                     &StepSums::save_votes, &StepSums::tokens, &StepSums::failed_saves, &StepSums::digests},
                    ReduceOp::kSum, "step");
}

TrainStep::TrainStep(const LoopOptions& options, const LoopParts& parts)
    : options_(options),
      parts_(parts),
      stream_(parts.state.data, plan_of(options.train, parts.state.position, parts.comm),
              options.data.workers, options.data.prefetch_batches) {}

double TrainStep::full_targets() const {
  return static_cast<double>(options_.train.global_batch_size * parts_.state.data.sample_size().targets);
}

void TrainStep::accumulate() {
  TrainState& state = parts_.state;
  options_.activity->begin_step(state.step + 1);
  began_s_ = steady_now_s();
  waited_before_ = state.model.times().waiting_s;
  sums_ = {};
  const double scale = state.loss_scale.factor() / full_targets();
  const std::int64_t passes =
      options_.train.global_batch_size / (options_.train.micro_batch_size * parts_.comm.size());
  at::Tensor loss;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    state.model.prefetch();  // gathers overlap with reading the batch
    options_.activity->enter(Doing::kReadingData);
    const SampleBatch samples = stream_.next();
    sums_.targets += static_cast<double>(counted_targets(samples));
    sums_.tokens += static_cast<double>(samples.ids.size());
    if (!samples.target_lengths.empty()) sums_.tokens += static_cast<double>(samples.targets.size());
    Batch batch = to_tensors(samples, state.model.device());
    batch.training = true;
    batch.dropout_key = options_.seed;
    const at::Tensor part =
        state.model.accumulate(batch, scale, {pass == 0, pass + 1 == passes}).to(at::kDouble);
    loss = loss.defined() ? loss + part : part;
  }
  // Once per step, because on a GPU it blocks the host until the device is done.
  sums_.loss = loss.item<double>();
  options_.activity->enter(Doing::kUpdating);
  state.model.finish_gradients();
}

TrainStep::Result TrainStep::finish(double lr) {
  TrainState& state = parts_.state;
  Checkpointer& checkpointer = parts_.checkpointer;
  const Communicator& device_comm = state.model.groups().world();
  sums_.squared_gradients = sum_of_squares(state.model);
  sums_.stop_votes = parts_.stop.vote();
  sums_.save_votes = parts_.comm.rank() == 0 && checkpointer.due_by_time() ? 1.0 : 0.0;
  sums_.failed_saves = checkpointer.failed_here() ? 1.0 : 0.0;
  // Compared within this reduction, because NCCL does not notice ranks that issue different operations of
  // equal size.
  sums_.digests = static_cast<double>(device_comm.digest());
  // Own work of this rank, without waiting for others: identifies stragglers (liveness).
  const double worked = steady_now_s() - began_s_ - (state.model.times().waiting_s - waited_before_);
  sums_.sum_over(parts_.comm);
  check_digests(device_comm, sums_.digests);
  if (state.tokens) *state.tokens += std::llround(sums_.tokens);
  (void)parts_.stop.decide(sums_.stop_votes);
  if (sums_.failed_saves > 0) checkpointer.hear_of_failure();
  // The global number of targets is known only now. Backward scaled the gradients as if no target were
  // padding; the factor corrects this, and removes the loss scale.
  const double targets = std::max(1.0, sums_.targets);
  const double factor = full_targets() / targets / state.loss_scale.factor();
  const Result result{.loss = sums_.loss / targets,
                      .grad_norm = std::sqrt(sums_.squared_gradients) * factor,
                      .tokens = sums_.tokens,
                      .save_due = sums_.save_votes > 0};
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  finite ? update_weights(lr, result.grad_norm, factor) : leave_out(result);
  state.loss_scale.update(finite);
  ++state.step;
  state.position.next_sample += options_.train.global_batch_size;
  options_.activity->end_step(worked);
  return result;
}

void TrainStep::update_weights(double lr, double grad_norm, double gradient_factor) {
  const TrainOptions& train = options_.train;
  TrainState& state = parts_.state;
  double factor = gradient_factor;
  if (train.clip_grad_norm > 0 && grad_norm > train.clip_grad_norm)
    factor *= train.clip_grad_norm / grad_norm;
  if (train.clip_grad_value > 0) {
    // Values are clipped after the norm, and need the final gradients: clip_values() applies the factor.
    clip_values(state.model, factor, train.clip_grad_value);
    factor = 1.0;
  }
  state.optim.step(state.step + 1 - state.skipped, lr, factor);
  if (state.ema != nullptr) state.ema->update();
  state.model.weights_changed();
  skipped_in_a_row_ = 0;
}

/// Collective if it throws; all ranks decide alike, because `result` is the same on all.
void TrainStep::leave_out(const Result& result) {
  TrainState& state = parts_.state;
  const std::int64_t number = state.step + 1;
  const char* what = std::isfinite(result.loss) ? "gradient norm" : "loss";
  ++state.skipped;
  ++skipped_in_a_row_;
  // Expected with loss scaling; halving the scale is the remedy.
  const bool overflow = state.loss_scale.can_shrink();
  const bool allowed =
      options_.train.non_finite == NonFinite::kSkip && skipped_in_a_row_ <= options_.train.max_skipped_steps;
  if (!allowed && !overflow) {
    parts_.checkpointer.wait_for_all();  // the save in flight may still become the newest checkpoint
    throw Error(Code::kTraining,
                str("step ", number, ": ", what, " is not finite",
                    skipped_in_a_row_ > 1 ? str(", for ", skipped_in_a_row_, " steps in a row") : "",
                    "; the weights were not touched by this step. Lower optim.lr, lengthen "
                    "schedule.warmup_steps or use "
                    "precision.param: fp32; ",
                    what_is_saved(parts_.folder)));
  }
  if (parts_.comm.rank() != 0) return;
  log::warn(str("step ", number, " skipped: ", what, " is not finite",
                overflow ? str("; loss scale halved from ", state.loss_scale.factor()) : ""));
}

}  // namespace echelon
