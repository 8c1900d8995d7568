#include "train/train_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/not_copied.h"
#include "base/steady_time.h"
#include "base/str.h"
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

/// Adds its lifetime to a sum, minus what the model waited for collectives meanwhile.
class WorkTime : NotCopied {
 public:
  WorkTime(const ShardedModel& model, double& sum_s)
      : model_(model), sum_s_(sum_s), began_s_(steady_now_s()), waited_s_(model.times().waiting_s()) {}
  ~WorkTime() { sum_s_ += steady_now_s() - began_s_ - (model_.times().waiting_s() - waited_s_); }

 private:
  const ShardedModel& model_;
  double& sum_s_;
  double began_s_;
  double waited_s_;
};

/// Means over the pairs of a step, by TRL's names.
std::vector<std::pair<std::string, double>> means_of_pairs(const StepSums& step) {
  using Sums = AnswerPairs;
  const auto& sums = step.pairs;
  const double pairs = step.targets;
  return {{"rewards/accuracies", sums[Sums::kRight] / pairs},
          {"rewards/margins", (sums[Sums::kChosenReward] - sums[Sums::kRejectedReward]) / pairs},
          {"rewards/chosen", sums[Sums::kChosenReward] / pairs},
          {"rewards/rejected", sums[Sums::kRejectedReward] / pairs},
          {"logps/chosen", sums[Sums::kChosenLogps] / pairs},
          {"logps/rejected", sums[Sums::kRejectedLogps] / pairs}};
}

}  // namespace

TrainStep::TrainStep(const LoopOptions& options, TrainState& state, Communicator& comm, StepVotes& votes)
    : options_(options),
      state_(state),
      comm_(comm),
      votes_(votes),
      stream_(state.data, plan_of(options.train, state.position, comm), options.data.workers,
              options.data.prefetch_batches) {}

double TrainStep::full_targets() const {
  return static_cast<double>(options_.train.global_batch_size * state_.data.sample_size().targets);
}

double TrainStep::sent_bytes() const {
  return static_cast<double>(state_.model.groups().world().sent_bytes());
}

void TrainStep::accumulate() {
  options_.activity->begin_step(state_.step + 1);
  began_s_ = steady_now_s();
  waited_before_ = state_.model.times().waiting_s();
  sent_before_ = sent_bytes();
  sums_ = {};
  const double scale = state_.loss_scale.factor() / full_targets();
  const std::int64_t passes =
      options_.train.global_batch_size / (options_.train.micro_batch_size * comm_.size());
  at::Tensor loss;
  at::Tensor pairs;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    state_.model.prefetch();  // gathers overlap with reading the batch
    options_.activity->enter(Doing::kReadingData);
    const SampleBatch samples = next_samples();
    sums_.targets += static_cast<double>(counted_targets(samples));
    sums_.tokens += static_cast<double>(samples.ids.size());
    if (!samples.target_lengths.empty()) sums_.tokens += static_cast<double>(samples.targets.size());
    Batch batch = to_tensors(samples, state_.model.device(), options_.train.dpo.beta);
    batch.training = true;
    batch.dropout_key = options_.seed;
    const WorkTime computing(state_.model, compute_s_);
    const at::Tensor part =
        state_.model.accumulate(batch, scale, {pass == 0, pass + 1 == passes}).to(at::kDouble);
    loss = loss.defined() ? loss + part : part;
    if (batch.pairs) pairs = pairs.defined() ? pairs + batch.pairs->sums : batch.pairs->sums;
  }
  {
    // Once per step, because on a GPU it blocks the host until the device is done.
    const WorkTime computing(state_.model, compute_s_);
    sums_.loss = loss.item<double>();
    pairs_ = pairs.defined();
    if (pairs_) {
      const at::Tensor on_host = pairs.cpu();
      std::copy_n(on_host.const_data_ptr<double>(), sums_.pairs.size(), sums_.pairs.begin());
    }
  }
  options_.activity->enter(Doing::kUpdating);
  const WorkTime updating(state_.model, optimizer_s_);
  state_.model.finish_gradients();
}

StepParts TrainStep::times() const {
  const ShardedModel::Times times = state_.model.times();
  return {.compute_s = compute_s_,
          .gather_wait_s = times.gather_wait_s,
          .reduce_wait_s = times.reduce_wait_s + agree_wait_s_,
          .data_wait_s = stream_.waited_s(),
          .optimizer_s = optimizer_s_};
}

SampleBatch TrainStep::next_samples() {
  const RecordedSpan span(*options_.activity, SpanKind::kDataWait, "");
  return stream_.next();
}

void TrainStep::agree() {
  const double began_s = steady_now_s();
  sum_fields(comm_, sums_, "step");
  const double now_s = steady_now_s();
  agree_wait_s_ += now_s - began_s;
  optimizer_s_ -= now_s - began_s;  // within which it is called
  if (SpanLog* log = options_.activity->spans())
    log->add(SpanKind::kReduceWait, "end of the step", began_s, now_s);
}

TrainStep::Result TrainStep::finish(double lr) {
  const Communicator& device_comm = state_.model.groups().world();
  const WorkTime updating(state_.model, optimizer_s_);
  const RecordedSpan span(*options_.activity, SpanKind::kOptimizer, "");
  std::vector<double> unit_squares;
  if (options_.metrics.unit_grad_norms) unit_squares = squares_by_unit(state_.model);
  sums_.squared_gradients = options_.metrics.unit_grad_norms
                                ? std::accumulate(unit_squares.begin(), unit_squares.end(), 0.0)
                                : sum_of_squares(state_.model);
  device_comm.check_failure();  // the norm's value was waited for
  votes_.vote(sums_);
  // Compared within this reduction, because NCCL does not notice ranks that issue different operations of
  // equal size.
  sums_.digests = static_cast<double>(device_comm.digest());
  // Own work of this rank, without waiting for others: identifies stragglers (liveness).
  const double worked = steady_now_s() - began_s_ - (state_.model.times().waiting_s() - waited_before_);
  agree();
  check_digests(device_comm, sums_.digests);
  if (state_.tokens) *state_.tokens += std::llround(sums_.tokens);
  votes_.heed(sums_);
  // The global number of targets is known only now. Backward scaled the gradients as if no target were
  // padding; the factor corrects this, and removes the loss scale. A mean over no targets is NaN, as in
  // PyTorch.
  const double factor = full_targets() / std::max(1.0, sums_.targets) / state_.loss_scale.factor();
  for (double& square : unit_squares) square *= factor * factor;
  Result result{.loss = sums_.loss / sums_.targets,
                .grad_norm = std::sqrt(sums_.squared_gradients) * factor,
                .tokens = sums_.tokens,
                .save_due = sums_.save_votes > 0,
                .unit_squares = std::move(unit_squares)};
  if (pairs_) result.preferences = means_of_pairs(sums_);
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  if (finite)
    update_weights(lr, result.grad_norm, factor);
  else
    leave_out(result);
  result.sent_bytes = sent_bytes() - sent_before_;
  if (sums_.targets > 0) state_.loss_scale.update(finite);
  ++state_.step;
  state_.position.next_sample += options_.train.global_batch_size;
  options_.activity->end_step(worked);
  return result;
}

void TrainStep::update_weights(double lr, double grad_norm, double gradient_factor) {
  const TrainOptions& train = options_.train;
  double factor = gradient_factor;
  if (train.clip_grad_norm > 0 && grad_norm > train.clip_grad_norm)
    factor *= train.clip_grad_norm / grad_norm;
  if (train.clip_grad_value > 0) {
    // Values are clipped after the norm, and need the final gradients: clip_values() applies the factor.
    clip_values(state_.model, factor, train.clip_grad_value);
    factor = 1.0;
  }
  state_.optim.step(state_.step + 1 - state_.skipped, lr, factor);
  if (state_.ema != nullptr) state_.ema->update();
  state_.model.weights_updated();
  state_.skipped_in_a_row = 0;
}

/// Collective if it throws; all ranks decide alike, because `result` is the same on all.
void TrainStep::leave_out(const Result& result) {
  const std::int64_t number = state_.step + 1;
  const bool empty = sums_.targets == 0;
  const char* what = empty                        ? "none of its targets counts"
                     : std::isfinite(result.loss) ? "gradient norm is not finite"
                                                  : "loss is not finite";
  ++state_.skipped;
  ++state_.skipped_in_a_row;
  // Expected with loss scaling; halving the scale is the remedy.
  const bool overflow = !empty && state_.loss_scale.can_shrink();
  const bool allowed = (empty || options_.train.non_finite == NonFinite::kSkip) &&
                       state_.skipped_in_a_row <= options_.train.max_skipped_steps;
  if (!allowed && !overflow) {
    const std::string saved = votes_.give_up();
    throw Error(Code::kTraining, "step ", number, ": ", what,
                state_.skipped_in_a_row > 1 ? str(", for ", state_.skipped_in_a_row, " steps in a row") : "",
                "; the weights were not touched by this step. ",
                empty
                    ? "Look at the data: which targets are masked, and what is left out as too long or bad; "
                    : "Lower optim.lr, lengthen schedule.warmup_steps or use precision.param: fp32; ",
                saved);
  }
  if (comm_.rank() != 0) return;
  log::warn(str("step ", number, " skipped: ", what,
                overflow ? str("; loss scale halved from ", state_.loss_scale.factor()) : ""));
}

}  // namespace echelon
