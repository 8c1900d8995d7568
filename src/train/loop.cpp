#include "train/loop.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files/new_file.h"
#include "base/log.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "checkpoint/folder/run_folder.h"
#include "optim/schedule.h"
#include "shard/memory/host_memory.h"
#include "train/eval/generation_score.h"
#include "train/measure/kernel_recorder.h"

namespace echelon {

void TrainLoop::vote(StepSums& mine) {
  mine.stop_votes = parts_.stop.vote();
  mine.save_votes = parts_.comm.rank() == 0 && parts_.checkpointer.due_by_time() ? 1.0 : 0.0;
  mine.failed_saves = parts_.checkpointer.failed_here() ? 1.0 : 0.0;
}

void TrainLoop::heed(const StepSums& all) {
  (void)parts_.stop.decide(all.stop_votes);
  if (all.failed_saves > 0) parts_.checkpointer.hear_of_failure();
}

std::string TrainLoop::give_up() {
  parts_.checkpointer.wait_for_all();  // the save in flight may still become the newest checkpoint
  std::int64_t newest = 0;
  for (const checkpoint::Found& found : checkpoint::list(parts_.folder.checkpoints())) {
    if (found.committed) newest = found.step;
  }
  return newest > 0 ? str("the newest checkpoint, of step ", newest, ", is intact") : StepVotes::give_up();
}

TrainLoop::TrainLoop(LoopOptions options, const LoopParts& parts)
    : options_(std::move(options)),
      parts_(parts),
      epochs_(parts.state.data.samples_per_epoch(), options_.train.global_batch_size,
              {parts.state.step, parts.state.position.next_sample}),
      step_(options_, parts_.state, parts_.comm, *this),
      reporter_(options_, parts_, step_) {
  if (options_.adapters) adapters_.emplace(parts_.state.model, parts_.comm);
  if (options_.profile.wanted())
    profiler_ = std::make_unique<profile::Profiler>(
        options_.profile, parts_.comm, *options_.activity, parts_.folder.root(),
        parts_.state.model.device().is_cpu() ? nullptr : make_kernel_recorder(parts_.state.model.device()));
}

TrainStep::Result TrainLoop::step(double lr) {
  if (profiler_) profiler_->begin_step(parts_.state.step + 1, comm_wait_s());
  step_.accumulate();
  // Before finish(), whose reduction carries the stop vote: all ranks then stop after this step.
  check_deadline(parts_.state.step + 1);
  const TrainStep::Result result = step_.finish(lr);
  parts_.ledger.trained(parts_.state.step);
  if (adapters_ && lr > 0 && result.grad_norm > 0 && std::isfinite(result.grad_norm)) adapters_->updated();
  reporter_.step_ended(result);
  if (profiler_) profiler_->step_ended(comm_wait_s());
  return result;
}

TrainLoop::Due TrainLoop::due_after(std::int64_t step) const {
  const TrainOptions& train = options_.train;
  Due due{.evaluation = parts_.evaluation != nullptr && parts_.evaluation->due(step, train.steps)};
  if (parts_.validation.empty() || (train.validate_every_steps == 0 && train.validate_every_epochs == 0))
    return due;
  due.validation = step == train.steps ||
                   (train.validate_every_steps > 0 && step % train.validate_every_steps == 0) ||
                   epochs_.ends(step, train.validate_every_epochs);
  return due;
}

void TrainLoop::check_deadline(std::int64_t number) {
  Deadline& deadline = parts_.deadline;
  deadline.step_took(steady_now_s() - step_began_s_);
  const double save_s = deadline.save_s();
  Deadline::Ahead ahead{.step = number < options_.train.steps, .validation = due_after(number).any()};
  const auto in_flight_s = parts_.checkpointer.in_flight_s();
  if (in_flight_s) ahead.beside_s = std::max(0.0, save_s - *in_flight_s);
  if (ahead.step && (parts_.checkpointer.due_by_step(number) || parts_.checkpointer.due_by_time())) {
    double& seconds = parts_.checkpointer.waits() ? ahead.before_s : ahead.beside_s;
    seconds = save_s;
  }
  parts_.ledger.took(deadline.expected());
  parts_.stop.request(deadline.reason_to_stop(ahead));
  step_began_s_ = steady_now_s();
}

std::optional<ValidationResult> TrainLoop::validate() {
  parts_.progress.state("validating");
  options_.activity->enter(Doing::kValidating);
  std::optional<ValidationResult> result = echelon::validate(
      parts_.state.model, parts_.validation, options_.data, options_.train, parts_.comm, parts_.stop);
  if (result && options_.data.validation.generate > 0) {
    parts_.progress.state("generating");
    options_.activity->enter(Doing::kGenerating);
    result->rouge = generation_score(parts_.state.model, *parts_.validation.front().loader, options_.text,
                                     options_.data, options_.train, parts_.comm, parts_.stop);
  }
  return result;
}

std::optional<ValidationResult> TrainLoop::measure(const Due& due) {
  parts_.checkpointer.validation_begins();
  const SpentOn validating(parts_.ledger, Spent::kValidate);
  const IntervalClock::Reading began = reporter_.reading();
  if (profiler_) profiler_->pause();
  std::optional<ValidationResult> result = due.validation ? validate() : ValidationResult{};
  if (parts_.stop.decided()) result.reset();  // a validation without its texts is none
  if (result && due.evaluation) {
    parts_.progress.state("evaluating");
    options_.activity->enter(Doing::kEvaluating);
    const bool last = parts_.state.step == options_.train.steps;
    if (auto tasks =
            parts_.evaluation->run(parts_.state.model, options_.text, parts_.comm, parts_.stop, !last)) {
      result->tasks = std::move(*tasks);
    } else if (!due.validation) {
      result.reset();
    }
  }
  if (profiler_) profiler_->go_on();
  const double took = pause(began);
  if (!result) return std::nullopt;
  if (!parts_.stop.decided()) parts_.deadline.validation_took(took);
  record_best(*result);
  return result;
}

std::string_view TrainLoop::left_out_of(const Due& due, const std::optional<ValidationResult>& found) const {
  if (!found) return due.any() ? "validation" : "";
  return due.evaluation && found->tasks.empty() ? "evaluation" : "";
}

void TrainLoop::announce_stop(std::string_view left_out) {
  const bool last = parts_.state.step == options_.train.steps;
  if (parts_.comm.rank() != 0 || (last && left_out.empty())) return;
  log::info(str("stopping after step ", parts_.state.step, left_out.empty() ? "" : ", whose ", left_out,
                left_out.empty() ? "" : " is skipped", ": ", parts_.stop.reason()));
  if (!parts_.stop.is_being_ended()) return;
  if (const std::string warning = parts_.deadline.grace_warning(); !warning.empty()) log::warn(warning);
}

void TrainLoop::record_best(const ValidationResult& result) {
  BestValidation found{.step = parts_.state.step};
  if (parts_.evaluation != nullptr) found.task = parts_.evaluation->best();
  const auto task = std::find_if(result.tasks.begin(), result.tasks.end(),
                                 [&](const TaskResult& one) { return one.name == found.task; });
  if (found.task.empty() ? !result.loss : task == result.tasks.end()) return;
  found.value = found.task.empty() ? *result.loss : task->score();
  found.data = found.task.empty() ? validation_fingerprint(parts_.validation, options_.data, options_.train)
                                  : parts_.evaluation->best_fingerprint();
  if (!std::isfinite(found.value)) {
    if (parts_.comm.rank() == 0)
      log::warn(str("the validation loss of step ", parts_.state.step,
                    " is not finite and does not count as the best"));
    return;
  }
  if (parts_.state.best && !beats(found, *parts_.state.best)) return;
  parts_.state.best = found;
  if (parts_.comm.rank() != 0) return;
  nlohmann::json best{{"step", found.step}};
  if (!found.task.empty()) best["task"] = found.task;
  best[found.task.empty() ? "validation_loss" : "score"] = found.value;
  const std::filesystem::path file = parts_.folder.root() / "best_validation.json";
  try {
    fs::publish_file(file, best.dump() + "\n", Code::kEnvironment);
  } catch (const std::exception& e) {
    // The file is only informative; checkpoints record the best validation themselves. An exception here, on
    // rank 0 alone, would leave the other ranks waiting in the next step.
    log::warn(str("the best validation so far, of step ", parts_.state.step, ", is not recorded in '",
                  file.string(), "': ", e.what()));
  }
}

void TrainLoop::save(bool last) {
  parts_.progress.state(str("saving step ", parts_.state.step));
  options_.activity->enter(Doing::kSaving);
  const SpentOn saving(parts_.ledger, Spent::kStall);
  parts_.ledger.saving(parts_.state.step);
  const IntervalClock::Reading began = reporter_.reading();
  if (adapters_) adapters_->require_frozen();
  if (parts_.memory != nullptr) parts_.memory->let_go_of_staging(last);
  {
    const std::string step = str("step ", parts_.state.step);
    const RecordedSpan span(*options_.activity, SpanKind::kSaveStall, step);
    parts_.checkpointer.save(parts_.state, last);
  }
  reporter_.stalled(pause(began));
}

void TrainLoop::save_to_memory() {
  options_.activity->enter(Doing::kSaving);
  const SpentOn saving(parts_.ledger, Spent::kStall);
  const IntervalClock::Reading began = reporter_.reading();
  {
    const std::string step = str("memory of step ", parts_.state.step);
    const RecordedSpan span(*options_.activity, SpanKind::kSaveStall, step);
    const bool busy = !parts_.checkpointer.hear_of_end(parts_.state);
    parts_.memory->save(parts_.state, parts_.checkpointer.staging(), busy, parts_.checkpointer.known());
  }
  reporter_.stalled(pause(began));
}

void TrainLoop::end_profile() {
  const IntervalClock::Reading began = reporter_.reading();
  SpanLog* const log = options_.activity->spans();  // null: full
  if (const auto age_s = parts_.checkpointer.in_flight_s(); age_s && log != nullptr)
    log->add(SpanKind::kSave, "under way", began.now_s - *age_s, began.now_s);
  profiler_->write();
  pause(began);
}

double TrainLoop::pause(const IntervalClock::Reading& from) {
  const IntervalClock::Reading now = reporter_.reading();
  reporter_.pause(from, now);
  step_began_s_ += now.now_s - from.now_s;
  return now.now_s - from.now_s;
}

RunEnd TrainLoop::run() {
  TrainState& state = parts_.state;
  Checkpointer& checkpointer = parts_.checkpointer;
  const std::int64_t steps = options_.train.steps;
  std::int64_t steps_of_this_process = 0;
  checkpointer.prepare(state, steps);
  HostMemory::reset_peak();  // what the start needed beside is gone
  const SpentOn training(parts_.ledger, Spent::kTrain);
  step_began_s_ = steady_now_s();
  reporter_.begin_interval();
  while (state.step < steps) {
    const double lr =
        learning_rate(options_.optim, options_.schedule, state.step + 1, steps, epochs_.passes(state.step));
    const TrainStep::Result result = step(lr);
    const bool last = state.step == steps;
    const double step_s = reporter_.step_s();
    std::optional<ValidationResult> validation;
    const Due due = due_after(state.step);
    if (!parts_.stop.decided() && due.any()) validation = measure(due);
    const bool stop = parts_.stop.decided();
    if (stop) announce_stop(left_out_of(due, validation));
    const bool logging =
        last || state.step == 1 || validation || stop || state.step % options_.metrics.every_steps == 0;
    if (logging) reporter_.line(result, lr, validation);
    const bool asked = report_request_.take();
    if (++steps_of_this_process == 1 || last || asked) reporter_.memory(step_s, asked);
    parts_.progress.step(state.step, result.loss, step_s);
    checkpointer.poll(state.step);
    if (last || stop || result.save_due || checkpointer.due(state)) {
      save(last || stop);
    } else if (parts_.memory != nullptr && parts_.memory->due(state.step)) {
      save_to_memory();
    }
    if (profiler_ && profiler_->is_due(state.step, last || stop)) end_profile();
    if (logging) reporter_.begin_interval();
    if (stop && !last) return RunEnd::kStopped;
  }
  return RunEnd::kFinished;
}

}  // namespace echelon
