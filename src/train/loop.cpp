#include "train/loop.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "model/kernels/kernels.h"
#include "train/schedule.h"

namespace echelon {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::uint64_t peak_rss_bytes() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double sum_of_squares(const at::Tensor& values) {
  if (values.is_cpu()) return kernels::sum_of_squares(values.const_data_ptr<float>(), values.numel());
  return values.to(at::kDouble).square().sum().item<double>();
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

double TrainLoop::accumulate_gradients() {
  const std::int64_t rows = options_.train.micro_batch_size;
  const std::int64_t per_pass = rows * comm_.size();
  const std::int64_t passes = options_.train.global_batch_size / per_pass;
  const double scale = 1.0 / static_cast<double>(options_.train.global_batch_size * options_.seq_len);
  double loss = 0;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    const std::int64_t first = state_.position.next_sample + pass * per_pass + comm_.rank() * rows;
    loss +=
        state_.model.accumulate(to_device(state_.data.read(first, rows)), scale, pass == 0).item<double>() *
        scale;
  }
  state_.model.finish_gradients();
  return loss;
}

TrainLoop::StepResult TrainLoop::step(std::int64_t number, double lr) {
  const double local_loss = accumulate_gradients();
  double squares = 0;
  for (const auto& unit : state_.model.units()) squares += sum_of_squares(unit->gradient());
  // One small reduction carries everything the ranks must agree on.
  double shared[3] = {squares, local_loss, signal_.requested() != nullptr ? 1.0 : 0.0};
  comm_.all_reduce(shared, 3, DType::kF64, ReduceOp::kSum, "step").wait();
  const StepResult result{.loss = shared[1], .grad_norm = std::sqrt(shared[0]), .stop = shared[2] > 0};
  if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm)) {
    throw Error(Code::kTraining,
                str("step ", number, ": ", std::isfinite(result.loss) ? "gradient norm" : "loss",
                    " is not finite; the weights were not touched by this step. Lower optim.lr, lengthen "
                    "schedule.warmup_steps or use precision.param: fp32; the newest checkpoint is intact"));
  }
  const double limit = options_.train.clip_grad_norm;
  const double factor = limit > 0 && result.grad_norm > limit ? limit / result.grad_norm : 1.0;
  state_.optim.step(number, lr, factor);
  if (state_.ema != nullptr) state_.ema->update();
  state_.step = number;
  state_.position.next_sample += options_.train.global_batch_size;
  return result;
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
      sum[1] += static_cast<double>(ids.rows * (ids.columns - 1));
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
  const double began = now_s();
  try {
    const auto folder = checkpointer_.save(state_);
    if (comm_.rank() == 0) {
      log::info(str("saved step ", state_.step, " in ", std::round((now_s() - began) * 100) / 100,
                    " s: ", folder.string()));
    }
  } catch (const Error& e) {
    if (last || e.code() != Code::kCheckpoint) throw;
    if (*e.what() != '\0')
      log::error(str("checkpoint failed, training goes on, next try at the next interval: ", e.what()));
  }
}

StepMetrics TrainLoop::measure(const StepResult& result, double lr) {
  const double step_time = (now_s() - interval_began_s_) / static_cast<double>(interval_steps_);
  const std::uint64_t device_bytes = options_.peak_device_bytes ? options_.peak_device_bytes() : 0;
  double largest[3] = {static_cast<double>(peak_rss_bytes()), step_time, static_cast<double>(device_bytes)};
  comm_.all_reduce(largest, 3, DType::kF64, ReduceOp::kMax, "metrics").wait();
  const double tokens = static_cast<double>(options_.train.global_batch_size * options_.seq_len);
  StepMetrics metrics{.step = state_.step,
                      .loss = result.loss,
                      .lr = lr,
                      .grad_norm = result.grad_norm,
                      .tokens_per_s = tokens / largest[1],
                      .step_time_s = largest[1],
                      .peak_rss_bytes = static_cast<std::uint64_t>(largest[0]),
                      .peak_device_bytes = static_cast<std::uint64_t>(largest[2])};
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
    progress_.step(state_.step, result.loss, step_time);
    if (last || result.stop || checkpointer_.due(state_.step)) {
      save(last || result.stop);
      saved = state_.step;
    }
    if (logging || saved == state_.step) {
      interval_began_s_ = now_s();
      interval_steps_ = 0;
    }
    if (result.stop && !last) return RunEnd::kStopped;
  }
  return RunEnd::kFinished;
}

}  // namespace echelon
