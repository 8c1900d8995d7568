#include "train/loop.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "checkpoint/read/reader.h"
#include "comm/agree.h"
#include "optim/gradients.h"
#include "optim/schedule.h"
#include "train/batch_tensors.h"
#include "train/eval/generation_score.h"
#include "train/memory_report.h"

namespace echelon {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// This rank's samples from the state's position on.
BatchPlan plan_of(const TrainOptions& train, const DataPosition& position, const Communicator& comm) {
  const std::int64_t rows = train.micro_batch_size;
  return {position.next_sample + comm.rank() * rows, rows, rows * comm.size()};
}

}  // namespace

TrainLoop::TrainLoop(const LoopOptions& options, TrainState& state, Checkpointer& checkpointer,
                     Communicator& comm, AgreedStop& stop, const Clocks& clocks, const Loader* validation,
                     const RunFolder& folder, MetricsFile* metrics, Progress& progress)
    : options_(options),
      state_(state),
      checkpointer_(checkpointer),
      comm_(comm),
      stop_(stop),
      clocks_(clocks),
      validation_(validation),
      folder_(folder),
      epochs_(state.data.samples_per_epoch(), options.train.global_batch_size),
      stream_(state.data, plan_of(options.train, state.position, comm), options.data.workers,
              options.data.prefetch_batches),
      metrics_(metrics),
      progress_(progress) {}

TrainLoop::Sums TrainLoop::accumulate_gradients(double scale) {
  const std::int64_t passes =
      options_.train.global_batch_size / (options_.train.micro_batch_size * comm_.size());
  Sums sums;
  at::Tensor loss;
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    state_.model.prefetch();  // weights travel while the batch is read
    options_.activity->enter(Doing::kReadingData);
    const SampleBatch samples = stream_.next();
    sums.targets += static_cast<double>(counted_targets(samples));
    sums.tokens += static_cast<double>(samples.ids.size());
    if (!samples.target_lengths.empty()) sums.tokens += static_cast<double>(samples.targets.size());
    Batch batch = to_tensors(samples, state_.model.device());
    batch.training = true;
    batch.dropout_key = options_.seed;
    const at::Tensor part =
        state_.model.accumulate(batch, scale, {pass == 0, pass + 1 == passes}).to(at::kDouble);
    loss = loss.defined() ? loss + part : part;
  }
  sums.loss = loss.item<double>();  // once a step: on a GPU it waits for the device
  options_.activity->enter(Doing::kUpdating);
  state_.model.finish_gradients();
  return sums;
}

TrainLoop::StepResult TrainLoop::step(std::int64_t number, double lr) {
  options_.activity->begin_step(number);
  const double began = now_s();
  const double waited = state_.model.times().waiting_s;
  const double all_targets =
      static_cast<double>(options_.train.global_batch_size * state_.data.sample_size().targets);
  const Sums sums = accumulate_gradients(state_.loss_scale.factor() / all_targets);
  look_at_clock(number);
  // One small reduction carries everything the ranks must agree on.
  const Communicator& device_comm = state_.model.groups().world();
  double shared[8] = {sum_of_squares(state_.model),
                      sums.loss,
                      sums.targets,
                      stop_.vote(),
                      comm_.rank() == 0 && checkpointer_.due_by_time() ? 1.0 : 0.0,
                      sums.tokens,
                      checkpointer_.failed_here() ? 1.0 : 0.0,
                      static_cast<double>(device_comm.digest())};
  const double worked = now_s() - began - (state_.model.times().waiting_s - waited);
  comm_.all_reduce(shared, 8, DType::kF64, ReduceOp::kSum, "step").wait();
  check_digests(device_comm, shared[7]);
  interval_tokens_ += shared[5];
  if (state_.tokens) *state_.tokens += std::llround(shared[5]);
  (void)stop_.decide(shared[3]);
  if (shared[6] > 0) checkpointer_.hear_of_failure();
  // How many predictions count is known only now: the gradients were made for samples of full length.
  const double targets = std::max(1.0, shared[2]);
  const double factor = all_targets / targets / state_.loss_scale.factor();
  const StepResult result{
      .loss = shared[1] / targets, .grad_norm = std::sqrt(shared[0]) * factor, .save = shared[4] > 0};
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  if (finite) {
    update_weights(number, lr, result.grad_norm, factor);
  } else {
    skip_step(number, result);
  }
  state_.loss_scale.update(finite);
  state_.step = number;
  state_.position.next_sample += options_.train.global_batch_size;
  options_.activity->end_step(worked);
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

std::string TrainLoop::what_is_saved() const {
  std::int64_t newest = 0;
  for (const checkpoint::Found& found : checkpoint::list(folder_.checkpoints())) {
    if (found.committed) newest = found.step;
  }
  return newest > 0 ? str("the newest checkpoint, of step ", newest, ", is intact")
                    : "the run has no checkpoint yet";
}

/// Collective, if it throws.
void TrainLoop::skip_step(std::int64_t number, const StepResult& result) {
  const char* what = std::isfinite(result.loss) ? "gradient norm" : "loss";
  ++state_.skipped;
  ++skipped_in_a_row_;
  const bool overflow = state_.loss_scale.can_shrink();  // what loss scaling is for
  const bool allowed =
      options_.train.non_finite == NonFinite::kSkip && skipped_in_a_row_ <= options_.train.max_skipped_steps;
  if (!allowed && !overflow) {
    checkpointer_.wait_for_all();  // it may become the newest one
    throw Error(Code::kTraining,
                str("step ", number, ": ", what, " is not finite",
                    skipped_in_a_row_ > 1 ? str(", for the ", skipped_in_a_row_, "th step in a row") : "",
                    "; the weights were not touched by this step. Lower optim.lr, lengthen "
                    "schedule.warmup_steps or use "
                    "precision.param: fp32; ",
                    what_is_saved()));
  }
  if (comm_.rank() != 0) return;
  log::warn(str("step ", number, " left out: ", what, " is not finite",
                overflow ? str("; loss scale halved from ", state_.loss_scale.factor()) : ""));
}

bool TrainLoop::validation_due(std::int64_t step) const {
  const TrainOptions& train = options_.train;
  if (validation_ == nullptr || (train.validate_every_steps == 0 && train.validate_every_epochs == 0))
    return false;
  return step == train.steps || (train.validate_every_steps > 0 && step % train.validate_every_steps == 0) ||
         epochs_.ends(step, train.validate_every_epochs);
}

void TrainLoop::look_at_clock(std::int64_t number) {
  if (clocks_.deadline == nullptr) return;
  Deadline& deadline = *clocks_.deadline;
  deadline.step_took(now_s() - step_began_s_);
  const double save_s = deadline.save_s();
  Deadline::Ahead ahead{.step = number < options_.train.steps, .validation = validation_due(number)};
  const auto in_flight_s = checkpointer_.in_flight_s();
  if (in_flight_s) ahead.beside_s = std::max(0.0, save_s - *in_flight_s);
  if (ahead.step && (checkpointer_.due_by_step(number) || checkpointer_.due_by_time()))
    (checkpointer_.waits() ? ahead.before_s : ahead.beside_s) = save_s;
  if (clocks_.ledger != nullptr) clocks_.ledger->took(deadline.expected());
  stop_.request(deadline.reason_to_stop(ahead));
  step_began_s_ = now_s();
}

std::optional<ValidationResult> TrainLoop::validate() {
  progress_.state("validating");
  options_.activity->enter(Doing::kValidating);
  checkpointer_.validation_begins();
  const SpentOn validating(clocks_.ledger, Spent::kValidate);
  const double began = now_s();
  std::optional<ValidationResult> result =
      echelon::validate(state_.model, *validation_, options_.data, options_.train, comm_, stop_);
  if (result && options_.tokenizer != nullptr) {
    progress_.state("generating");
    options_.activity->enter(Doing::kGenerating);
    result->rouge = generation_score(state_.model, *validation_, *options_.tokenizer, options_.data,
                                     options_.train, comm_, stop_);
  }
  const double took = now_s() - began;
  interval_began_s_ += took;  // step time is training's
  step_began_s_ += took;
  if (stop_.decided()) return std::nullopt;
  if (clocks_.deadline != nullptr) clocks_.deadline->validation_took(took);
  note_validation(result->loss);
  return result;
}

void TrainLoop::announce_stop(bool left_out) {
  const bool last = state_.step == options_.train.steps;
  if (comm_.rank() != 0 || (last && !left_out)) return;
  log::info(str("stopping after step ", state_.step, left_out ? ", whose validation is left out: " : ": ",
                stop_.reason()));
  if (clocks_.deadline == nullptr || !stop_.is_being_ended()) return;
  if (const std::string warning = clocks_.deadline->grace_warning(); !warning.empty()) log::warn(warning);
}

void TrainLoop::note_validation(double loss) {
  if (!std::isfinite(loss)) {
    if (comm_.rank() == 0)
      log::warn(str("the validation loss of step ", state_.step, " is not finite; it is not the best one"));
    return;
  }
  if (state_.best && loss >= state_.best->validation_loss) return;
  state_.best = TrainState::Best{state_.step, loss};
  if (comm_.rank() != 0) return;
  const nlohmann::json best{{"step", state_.step}, {"validation_loss", loss}};
  const std::filesystem::path file = folder_.root() / "best_validation.json";
  try {
    fs::publish_file(file, best.dump() + "\n", Code::kUsage);
  } catch (const std::exception& e) {
    // The file is for people: what is kept goes by the checkpoints. The other ranks wait in the next step.
    log::warn(str("the best validation so far, of step ", state_.step, ", is not noted in '", file.string(),
                  "': ", e.what()));
  }
}

void TrainLoop::save(bool last) {
  progress_.state(str("saving step ", state_.step));
  options_.activity->enter(Doing::kSaving);
  const SpentOn saving(clocks_.ledger, Spent::kStall);
  if (clocks_.ledger != nullptr) clocks_.ledger->saving(state_.step);
  const double began = now_s();
  checkpointer_.save(state_, last);
  step_began_s_ += now_s() - began;
}

void TrainLoop::report() const {
  log::info(describe(memory_report(state_), true));
  const ShardedModel::Times times = state_.model.times();
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
  const double data_waited =
      (stream_.waited_s() - interval_data_waited_s_) / static_cast<double>(interval_steps_);
  double largest[5] = {static_cast<double>(peak_resident_bytes()), step_time,
                       static_cast<double>(device_bytes), waited, data_waited};
  comm_.all_reduce(largest, 5, DType::kF64, ReduceOp::kMax, "metrics").wait();
  const auto samples = static_cast<double>(options_.train.global_batch_size);
  const SampleSize size = state_.data.sample_size();
  StepMetrics metrics{.step = state_.step,
                      .time_s = utc_now_s(),
                      .loss = result.loss,
                      .lr = lr,
                      .grad_norm = result.grad_norm,
                      .epoch = static_cast<double>(state_.step) / epochs_.length(),
                      .samples = state_.position.next_sample,
                      .samples_per_s = samples / largest[1],
                      .step_time_s = largest[1],
                      .comm_wait_s = largest[3],
                      .data_wait_s = largest[4],
                      .skipped_steps = state_.skipped,
                      .peak_rss_bytes = static_cast<std::uint64_t>(largest[0]),
                      .peak_device_bytes = static_cast<std::uint64_t>(largest[2])};
  if (size.tokens > 0) {
    metrics.tokens = state_.tokens;
    metrics.tokens_per_s = interval_tokens_ / static_cast<double>(interval_steps_) / largest[1];
  }
  if (state_.loss_scale.used()) metrics.loss_scale = state_.loss_scale.factor();
  if (options_.peak_flops > 0) {
    const double flops =
        metrics.samples_per_s * state_.model.model().flops_per_sample({size.tokens, size.target_tokens});
    metrics.mfu = flops / (options_.peak_flops * comm_.size());
  }
  return metrics;
}

void TrainLoop::log_step(const StepResult& result, double lr,
                         const std::optional<ValidationResult>& validation) {
  StepMetrics metrics = measure(result, lr);
  if (validation) {
    metrics.validation_loss = validation->loss;
    metrics.validation_accuracy = validation->accuracy;
    metrics.rouge = validation->rouge;
  }
  if (metrics_ != nullptr) metrics_->append(metrics);
  progress_.line(metrics);
}

void TrainLoop::begin_interval() {
  interval_began_s_ = now_s();
  interval_waited_s_ = state_.model.times().waiting_s;
  interval_data_waited_s_ = stream_.waited_s();
  interval_steps_ = 0;
  interval_tokens_ = 0;
}

RunEnd TrainLoop::run() {
  const std::int64_t steps = options_.train.steps;
  std::int64_t saved = state_.step;
  std::int64_t steps_of_this_process = 0;
  checkpointer_.prepare(state_, steps);
  const SpentOn training(clocks_.ledger, Spent::kTrain);
  step_began_s_ = now_s();
  begin_interval();
  while (state_.step < steps) {
    const double lr =
        learning_rate(options_.optim, options_.schedule, state_.step + 1, steps, epochs_.length());
    const StepResult result = step(state_.step + 1, lr);
    if (clocks_.ledger != nullptr) clocks_.ledger->trained(state_.step);
    ++interval_steps_;
    const bool last = state_.step == steps;
    const double step_time = (now_s() - interval_began_s_) / static_cast<double>(interval_steps_);
    std::optional<ValidationResult> validation;
    if (!stop_.decided() && validation_due(state_.step)) validation = validate();
    const bool stop = stop_.decided();
    if (stop) announce_stop(!validation && validation_due(state_.step));
    const bool logging =
        last || state_.step == 1 || validation || stop || state_.step % options_.metrics.every_steps == 0;
    if (logging) log_step(result, lr, validation);
    if (++steps_of_this_process == 1 || last || report_request_.take()) report();
    progress_.step(state_.step, result.loss, step_time);
    checkpointer_.poll(state_.step);
    if (last || stop || result.save || checkpointer_.due(state_)) {
      save(last || stop);
      saved = state_.step;
    }
    if (logging || saved == state_.step) begin_interval();
    if (stop && !last) return RunEnd::kStopped;
  }
  return RunEnd::kFinished;
}

}  // namespace echelon
