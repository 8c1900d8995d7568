#include "train/loop.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "train/gradients.h"
#include "train/memory_report.h"
#include "train/schedule.h"

namespace echelon {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Targets that count; negative ones are padding.
double predicted_tokens(const TokenBatch& batch) {
  std::int64_t ignored = 0;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const std::int64_t* ids = batch.ids.data() + row * batch.columns;
    ignored += std::count_if(ids + 1, ids + batch.columns, [](std::int64_t id) { return id < 0; });
  }
  return static_cast<double>(batch.rows * (batch.columns - 1) - ignored);
}

}  // namespace

TrainLoop::TrainLoop(const LoopOptions& options, TrainState& state, Checkpointer& checkpointer,
                     Communicator& comm, const Loader* validation, const RunFolder& folder,
                     MetricsFile* metrics, Progress& progress)
    : options_(options),
      state_(state),
      checkpointer_(checkpointer),
      comm_(comm),
      validation_(validation),
      folder_(folder),
      metrics_(metrics),
      progress_(progress) {}

at::Tensor TrainLoop::to_device(TokenBatch batch) const {
  const at::Tensor ids = at::from_blob(batch.ids.data(), {batch.rows, batch.columns}, at::kLong);
  return ids.to(state_.model.device(), at::kLong, false, true);
}

TrainLoop::Sums TrainLoop::accumulate_gradients(double scale) {
  const std::int64_t rows = options_.train.micro_batch_size;
  const std::int64_t per_pass = rows * comm_.size();
  const std::int64_t passes = options_.train.global_batch_size / per_pass;
  Sums sums;
  at::Tensor loss;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    state_.model.prefetch();  // weights travel while the batch is read
    TokenBatch batch =
        state_.data.read(state_.position.next_sample + pass * per_pass + comm_.rank() * rows, rows);
    sums.tokens += predicted_tokens(batch);
    const at::Tensor ids = to_device(std::move(batch));
    const at::Tensor part =
        state_.model.accumulate(ids, scale, {pass == 0, pass + 1 == passes}).to(at::kDouble);
    loss = loss.defined() ? loss + part : part;
  }
  sums.loss = loss.item<double>();  // once a step: on a GPU it waits for the device
  state_.model.finish_gradients();
  return sums;
}

TrainLoop::StepResult TrainLoop::step(std::int64_t number, double lr) {
  const double all_tokens = static_cast<double>(options_.train.global_batch_size * options_.seq_len);
  const Sums sums = accumulate_gradients(state_.loss_scale.factor() / all_tokens);
  // One small reduction carries everything the ranks must agree on.
  double shared[5] = {sum_of_squares(state_.model), sums.loss, sums.tokens,
                      signal_.requested() != nullptr ? 1.0 : 0.0,
                      comm_.rank() == 0 && checkpointer_.due_by_time() ? 1.0 : 0.0};
  comm_.all_reduce(shared, 5, DType::kF64, ReduceOp::kSum, "step").wait();
  // How many tokens count is known only now: the gradients were made for a batch without padding.
  const double tokens = std::max(1.0, shared[2]);
  const double factor = all_tokens / tokens / state_.loss_scale.factor();
  const StepResult result{.loss = shared[1] / tokens,
                          .grad_norm = std::sqrt(shared[0]) * factor,
                          .stop = shared[3] > 0,
                          .save = shared[4] > 0};
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  if (finite) {
    update_weights(number, lr, result.grad_norm, factor);
  } else {
    skip_step(number, result);
  }
  state_.loss_scale.update(finite);
  state_.step = number;
  state_.position.next_sample += options_.train.global_batch_size;
  return result;
}

void TrainLoop::update_weights(std::int64_t number, double lr, double grad_norm, double gradient_factor) {
  const TrainOptions& train = options_.train;
  double factor = gradient_factor;
  if (train.clip_grad_norm > 0 && grad_norm > train.clip_grad_norm)
    factor *= train.clip_grad_norm / grad_norm;
  if (train.clip_grad_value > 0) {
    clip_values(state_.model, factor, train.clip_grad_value);
    factor = 1.0;
  }
  state_.optim.step(number - state_.skipped, lr, factor);
  if (state_.ema != nullptr) state_.ema->update();
  state_.model.weights_changed();
  skipped_in_a_row_ = 0;
}

void TrainLoop::skip_step(std::int64_t number, const StepResult& result) {
  const char* what = std::isfinite(result.loss) ? "gradient norm" : "loss";
  ++state_.skipped;
  ++skipped_in_a_row_;
  const bool overflow = state_.loss_scale.can_shrink();  // what loss scaling is for
  const bool allowed =
      options_.train.non_finite == "skip" && skipped_in_a_row_ <= options_.train.max_skipped_steps;
  if (!allowed && !overflow) {
    throw Error(Code::kTraining,
                str("step ", number, ": ", what, " is not finite",
                    skipped_in_a_row_ > 1 ? str(", for the ", skipped_in_a_row_, "th step in a row") : "",
                    "; the weights were not touched by this step. Lower optim.lr, lengthen "
                    "schedule.warmup_steps or use "
                    "precision.param: fp32; the newest checkpoint is intact"));
  }
  if (comm_.rank() != 0) return;
  log::warn(str("step ", number, " left out: ", what, " is not finite",
                overflow ? str("; loss scale halved from ", state_.loss_scale.factor()) : ""));
}

double TrainLoop::validate() {
  progress_.state("validating");
  const std::int64_t rows = options_.train.micro_batch_size;
  double sum[2] = {0, 0};
  for (std::int64_t batch = 0; batch < options_.validation_batches; ++batch) {
    // Sample numbers wrap around at the end of a short file, so every rank always has work and units stay in
    // step.
    for (std::int64_t at = comm_.rank() * rows; at < options_.train.global_batch_size;
         at += rows * comm_.size()) {
      const TokenBatch ids = validation_->read(batch * options_.train.global_batch_size + at, rows);
      sum[0] += state_.model.evaluate(to_device(ids)).item<double>();
      sum[1] += predicted_tokens(ids);
    }
  }
  comm_.all_reduce(sum, 2, DType::kF64, ReduceOp::kSum, "validation").wait();
  return sum[0] / sum[1];
}

void TrainLoop::note_validation(double loss) {
  if (state_.best && loss >= state_.best->validation_loss) return;
  state_.best = TrainState::Best{state_.step, loss};
  if (comm_.rank() != 0) return;
  const nlohmann::json best{{"step", state_.step}, {"validation_loss", loss}};
  fs::publish_file(folder_.root() / "best_validation.json", best.dump() + "\n", Code::kUsage);
}

void TrainLoop::save(bool last) {
  progress_.state(str("saving step ", state_.step));
  checkpointer_.save(state_, last);
}

void TrainLoop::report() const {
  log::info(describe(memory_report(state_), true));
  const ShardedModel::Times& times = state_.model.times();
  const double passes = static_cast<double>(std::max<std::int64_t>(1, times.passes));
  log::info(str("around ", times.passes, " passes of units: ", std::round(times.host_s / passes * 1e7) / 10,
                " us each for casts, book-keeping and issuing, ",
                std::round(times.waiting_s / passes * 1e7) / 10, " us each waiting for collectives"));
}

StepMetrics TrainLoop::measure(const StepResult& result, double lr) {
  const double step_time = (now_s() - interval_began_s_) / static_cast<double>(interval_steps_);
  const std::uint64_t device_bytes = options_.peak_device_bytes ? options_.peak_device_bytes() : 0;
  const double waited =
      (state_.model.times().waiting_s - interval_waited_s_) / static_cast<double>(interval_steps_);
  double largest[4] = {static_cast<double>(peak_resident_bytes()), step_time,
                       static_cast<double>(device_bytes), waited};
  comm_.all_reduce(largest, 4, DType::kF64, ReduceOp::kMax, "metrics").wait();
  const double tokens = static_cast<double>(options_.train.global_batch_size * options_.seq_len);
  StepMetrics metrics{.step = state_.step,
                      .loss = result.loss,
                      .lr = lr,
                      .grad_norm = result.grad_norm,
                      .tokens_per_s = tokens / largest[1],
                      .step_time_s = largest[1],
                      .comm_wait_s = largest[3],
                      .skipped_steps = state_.skipped,
                      .peak_rss_bytes = static_cast<std::uint64_t>(largest[0]),
                      .peak_device_bytes = static_cast<std::uint64_t>(largest[2])};
  if (state_.loss_scale.used()) metrics.loss_scale = state_.loss_scale.factor();
  if (options_.peak_flops > 0) {
    const double flops = metrics.tokens_per_s * state_.model.model().flops_per_token(options_.seq_len);
    metrics.mfu = flops / (options_.peak_flops * comm_.size());
  }
  return metrics;
}

void TrainLoop::log_step(const StepResult& result, double lr, std::optional<double> validation_loss) {
  StepMetrics metrics = measure(result, lr);
  metrics.validation_loss = validation_loss;
  if (metrics_ != nullptr) metrics_->append(metrics);
  progress_.line(metrics);
}

RunEnd TrainLoop::run() {
  const auto every = [](std::int64_t interval, std::int64_t step) {
    return interval > 0 && step % interval == 0;
  };
  const std::int64_t steps = options_.train.steps;
  std::int64_t saved = state_.step;
  std::int64_t steps_of_this_process = 0;
  checkpointer_.prepare(state_);
  interval_began_s_ = now_s();
  while (state_.step < steps) {
    const double lr = learning_rate(options_.optim, options_.schedule, state_.step + 1, steps);
    const StepResult result = step(state_.step + 1, lr);
    ++interval_steps_;
    const bool last = state_.step == steps;
    std::optional<double> validation_loss;
    const double step_time = (now_s() - interval_began_s_) / static_cast<double>(interval_steps_);
    const bool validating = validation_ != nullptr && !result.stop &&
                            options_.train.validate_every_steps > 0 &&
                            (last || every(options_.train.validate_every_steps, state_.step));
    const bool logging = last || state_.step == 1 || validating || result.stop ||
                         every(options_.metrics.every_steps, state_.step);
    const double before_validation = now_s();
    if (validating) {
      validation_loss = validate();
      note_validation(*validation_loss);
      interval_began_s_ += now_s() - before_validation;  // step time is training's
    }
    if (logging) log_step(result, lr, validation_loss);
    if (++steps_of_this_process == 1 || last || report_request_.take()) report();
    progress_.step(state_.step, result.loss, step_time);
    checkpointer_.poll();
    if (last || result.stop || result.save || checkpointer_.due(state_)) {
      save(last || result.stop);
      saved = state_.step;
    }
    if (logging || saved == state_.step) {
      interval_began_s_ = now_s();
      interval_waited_s_ = state_.model.times().waiting_s;
      interval_steps_ = 0;
    }
    if (result.stop && !last) return RunEnd::kStopped;
  }
  return RunEnd::kFinished;
}

}  // namespace echelon
