#include "train/save/checkpointer.h"

#include <algorithm>
#include <cmath>

#include "base/caught.h"
#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "checkpoint/folder/run_folder.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/tensor.h"
#include "checkpoint/write/commit.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "comm/reduce_fields.h"
#include "train/state_tensors.h"
#include "train/trainer_state.h"

namespace echelon {
namespace {

using checkpoint::RankSave;

constexpr double kMegabyte = 1e6;
constexpr double kPatience_s = 1;  // waiting for a save that is almost complete is better than skipping one
constexpr double kGrace_s = 10;    // on top of timeout_s, so that rank 0 gives up first and can report why

std::string not_saved(std::int64_t step, const std::string& why) {
  return str("step ", step, " was not saved (older checkpoints are untouched): ", why);
}
std::string in_doubt(std::int64_t step, const std::string& why) {
  return str("step ", step, " is committed, but its durability is uncertain: a loss of power may undo it (",
             why, "); look at the disk");
}
constexpr const char* kGoesOn = "; training continues, and the next save is attempted when it is due";
constexpr double kTouchedBytes_per_s = 0.5e9;

/// Numbers of ranks, while all wait for the end of a save.
struct SaveSums {
  double writing = 0;
  double failed = 0;  ///< and rank 0 does not know yet
};

/// Has a rank's part ended, or is it committed and takes too long to remove what is older?
bool has_ended(const RankSave::Status& status, bool late) {
  return status.state != RankSave::State::kRunning || (status.committed && late);
}

/// The first text that is not empty, in rank order.
std::string first_of(const std::vector<std::string>& texts) {
  const auto found = std::ranges::find_if_not(texts, &std::string::empty);
  return found == texts.end() ? "" : *found;
}

}  // namespace

Checkpointer::Checkpointer(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
                           std::map<std::string, std::string> attachments, OnSaved on_saved,
                           checkpoint::KnownSteps known)
    : options_(options),
      folder_(&folder),
      comm_(&comm),
      attachments_(std::move(attachments)),
      on_saved_(std::move(on_saved)),
      known_(std::move(known)),
      best_(options.keep_best),
      interval_(options) {
  known_.newest_sound = known_.resumed_from;
}

void Checkpointer::prepare(TrainState& state, std::int64_t last_step) {
  interval_.begin(steady_now_s());
  last_step_ = last_step;
  polled_step_ = state.step;
  polled_s_ = steady_now_s();
  const bool copies = saves_beside_training(options_, state.step, last_step_);
  agree(*comm_, "memory for checkpoints", [&] {
    if (comm_->rank() == 0) {
      owner_ = std::make_shared<const checkpoint::Owner>(folder_->checkpoints());
      checkpoint::remove_unfinished(folder_->checkpoints(), *owner_);
    }
    const std::uint64_t pipe = checkpoint::Staging::kPipeWindows * checkpoint::Staging::kWindowBytes;
    staging_ = std::make_shared<checkpoint::Staging>(copies ? bytes_to_save(state) + pipe : pipe);
  });
  if (comm_->rank() == 0 && copies) {
    log::note(
        str("checkpoints are copied to ", human_bytes(staging_->bytes()),
            " per rank before they are written; the memory is allocated shortly before the first save"));
  }
  if (comes_near(state.step)) staging_->warm_up();
  if (options_.keep_best && state.best) look_for_best(state);
}

bool Checkpointer::comes_near(std::int64_t step) {
  if (!saves_beside_training(options_, step, last_step_)) return false;
  const double now = steady_now_s();
  // kTouchedBytes_per_s is half the rate of one thread on a busy machine; one second is added as a margin.
  const double ahead_s = 1 + static_cast<double>(staging_->bytes()) / kTouchedBytes_per_s;
  bool near = interval_.due(now + ahead_s);
  for (const std::int64_t every : {options_.every_steps, options_.memory_every_steps}) {
    if (every == 0) continue;
    const auto steps = static_cast<double>(next_due(every, step) - step);
    const auto since = static_cast<double>(step - polled_step_);  // 0: step time not yet known
    near = near || steps == 1 || (since > 0 && steps * (now - polled_s_) / since < ahead_s);
  }
  polled_step_ = step;
  polled_s_ = now;
  return near;
}

void Checkpointer::validation_begins() {
  if (options_.keep_best && options_.async) staging_->warm_up();
}

void Checkpointer::look_for_best(TrainState& state) {
  bool there = false;
  agree(*comm_, "look for the best checkpoint", [&] {
    if (comm_->rank() != 0) return;
    // One with a problem may be whole: a read error says nothing about its content.
    for (const checkpoint::Found& found : checkpoint::list(folder_->checkpoints()))
      there = there || (found.step == state.best->step && (found.committed || !found.problem.empty()));
  });
  if (!broadcast_value(*comm_, there, "best checkpoint")) {
    if (comm_->rank() == 0)
      log::warn(str("the checkpoint of the best validation, step ", state.best->step, ", is not in '",
                    folder_->checkpoints().string(), "': the next validation counts as the best"));
    state.best.reset();
  }
  best_.begin(state.best);
}

bool Checkpointer::due(const TrainState& state) const {
  return best_.is_new(state.best, state.step) || due_by_step(state.step);
}

bool Checkpointer::due_by_step(std::int64_t step) const {
  return options_.every_steps > 0 && step % options_.every_steps == 0;
}

std::optional<double> Checkpointer::in_flight_s() const {
  if (!in_flight_ || in_flight_->logged) return std::nullopt;
  return in_flight_->age_s();
}

bool Checkpointer::due_by_time() const {
  return interval_.due(steady_now_s());
}

checkpoint::SavePlan Checkpointer::plan(const TrainState& state, const std::filesystem::path& folder,
                                        const std::string& id) const {
  checkpoint::SavePlan plan{
      .folder = folder,
      .commit = {.step = state.step, .save_id = id, .ranks = comm_->size()},
      .bytes_per_s = static_cast<std::uint64_t>(options_.max_write_mb_per_s * kMegabyte),
      .timeout_s = static_cast<double>(options_.timeout_s)};
  if (comm_->rank() != 0) return plan;
  plan.commit.tensors = global_tensors(state);
  plan.commit.trainer_state = trainer_state_json(state, comm_->size());
  plan.commit.attachments = attachments_;
  plan.commit.resumed_from = known_.resumed_from;
  plan.commit.before_commit = [owner = owner_] { owner->require(); };
  const checkpoint::RetentionPolicy keep{.keep_last = options_.keep_last,
                                         .keep_every = options_.keep_every_steps,
                                         .keep_steps = best_.steps_to_keep(state.best, state.step)};
  checkpoint::KnownSteps known = known_;
  known.readable.insert(folder.filename().string());
  plan.on_commit = [checkpoints = folder_->checkpoints(), keep, known, owner = owner_] {
    try {
      checkpoint::prune(checkpoints, keep, known, owner.get());
    } catch (const Error& e) {
      // The save itself is committed, so this is no failure.
      log::warn(str("old checkpoints were not removed: ", e.what()));
    }
  };
  return plan;
}

bool Checkpointer::is_late() const {
  return in_flight_->age_s() >= static_cast<double>(options_.timeout_s) + kGrace_s;
}

SaveReport Checkpointer::report() const {
  using State = SaveReport::State;
  try {
    SaveReport mine;
    if (in_flight_) {
      const RankSave::Status status = in_flight_->save->status();
      const bool late = is_late();
      if (status.state == RankSave::State::kFailed) {
        mine = {.state = State::kFailed, .error = status.error};
      } else if (has_ended(status, late)) {
        mine.state = status.doubt.empty() ? State::kDone : State::kUncertain;
      } else if (!late) {
        mine.state = State::kWriting;
      } else {
        mine = {
            .state = State::kHanging,
            .error = str("rank ", comm_->rank(), " has been writing for ", std::lround(in_flight_->age_s()),
                         " s (checkpoint.timeout_s: ", options_.timeout_s, "): its disk hangs")};
      }
    }
    const bool writes = mine.state == State::kWriting || mine.state == State::kHanging;
    if (comm_->rank() == 0 && !writes) mine.next_id = checkpoint::new_save_id();
    return mine;
  } catch (...) {  // whatever it is: the others wait for a word
    return {.state = State::kFailed, .error = caught()};
  }
}

Checkpointer::Ended Checkpointer::settle(TrainState& state) {
  Ended ended{.outcome = outcome_of(gather_values(*comm_, report(), "state of the last save"))};
  const SaveOutcome& outcome = ended.outcome;
  if (!in_flight_) return ended;
  heard_.reset();
  ended.step = in_flight_->step;
  state.best = best_.ended(in_flight_->best, outcome.state, state.best);
  if (outcome.in_flight()) return ended;
  if (outcome.committed()) known_.newest_commit = ended.step;
  if (outcome.state == SaveOutcome::State::kCommitted) {
    const std::string name = in_flight_->folder.filename().string();
    known_.readable.insert(name);
    known_.newest_sound = checkpoint::parse_step_folder(name).value().save_id;
  }
  if (comm_->rank() == 0) {
    if (!outcome.doubt.empty()) log::warn(in_doubt(ended.step, outcome.doubt));
    // Rank 0's part removed the folder when it failed; a rank that failed later may have left a note there.
    if (!outcome.committed()) checkpoint::discard_attempt(in_flight_->folder);
  }
  if (in_flight_->save->status().state != RankSave::State::kFailed) log_end();
  in_flight_.reset();
  return ended;
}

NextAction::Kind Checkpointer::act_on(const Ended& last, SaveRequest request, std::int64_t step) {
  request.failures = failures_;
  request.max_failures = options_.max_failures;
  const NextAction next = next_action(last.outcome, request);
  failures_ = next.failures;
  const bool lead = comm_->rank() == 0;
  const std::string& why = last.outcome.error;
  const std::string text = not_saved(last.step, why.empty() ? "it is still being written" : why);
  if (next.report_failure && lead && logged_failure_of_ != last.step) log::error(text + kGoesOn);
  const auto failure = [lead](const std::string& what) {
    return lead ? Error(Code::kCheckpoint, what) : Error::already_reported(Code::kCheckpoint);
  };
  switch (next.kind) {
    case NextAction::Kind::kStopFinalFailed: throw failure(text);
    case NextAction::Kind::kStopTooMany:
      throw failure(str(text, "; that is ", failures_,
                        " failed saves in a row (checkpoint.max_failures), and ",
                        "further training could not be saved"));
    case NextAction::Kind::kStopLastInTheWay:
      throw failure(not_saved(step, "the previous save is still being written"));
    case NextAction::Kind::kLeaveOut:
      if (lead && !next.report_failure)
        log::warn(str("step ", step,
                      " is not saved: the previous checkpoint is still being written; save less often, or "
                      "use a faster disk"));
      break;
    case NextAction::Kind::kStart:
    case NextAction::Kind::kGoOn: break;
  }
  return next.kind;
}

Checkpointer::Ended Checkpointer::start(TrainState& state, const std::string& id, bool waits) {
  InFlight next{.step = state.step, .began_s = steady_now_s(), .waited = waits};
  if (best_.is_new(state.best, state.step)) next.best = state.best;
  std::vector<checkpoint::Slice> slices;
  std::string mine;
  try {
    if (id.empty()) throw Error(Code::kCheckpoint, "rank 0 has no id for the save");
    next.folder = folder_->checkpoints() / checkpoint::step_folder_name(state.step, id);
    slices = slices_of(state);
    if (!layout_) layout_ = checkpoint::plan_shard(comm_->rank(), comm_->size(), id, slices);
    checkpoint::SavePlan wanted = plan(state, next.folder, id);
    wanted.waits = waits;
    next.save = std::make_unique<RankSave>(std::move(wanted), checkpoint::replan_shard(*layout_, id),
                                           std::move(slices), staging_);
    next.before_s = steady_now_s() - next.began_s;
  } catch (...) {  // whatever it is: the others wait for a word
    mine = caught();
  }
  Ended ended{.step = state.step};
  ended.outcome.error = first_of(gather_values(*comm_, mine, "room for a checkpoint"));
  if (!ended.outcome.error.empty()) {
    next.save.reset();  // also removes its file
    // The folder is removed only after every rank has removed its file.
    comm_->barrier("give the checkpoint up");
    if (comm_->rank() == 0 && !next.folder.empty()) checkpoint::discard_attempt(next.folder);
    ended.outcome.state = SaveOutcome::State::kFailed;
    state.best = best_.ended(next.best, ended.outcome.state, state.best);
    return ended;
  }
  const auto stage = [&] { next.save->stage(); };
  // A pipe is as slow as the disk, and not all ranks have as much to write: of replicas one writes.
  waits ? agree_at_length(*comm_, "copy of the state", stage) : stage();
  state.model.groups().world().check_failure();
  next.stall_s = next.age_s();
  in_flight_ = std::move(next);
  ended.outcome.state = SaveOutcome::State::kWriting;
  return ended;
}

void Checkpointer::wait_for_all() {
  if (!in_flight_) return;
  // Short waits: one collective that waits for a slow disk would exceed its deadline.
  for (double slice_s = 0.05;; slice_s = std::min(2 * slice_s, 1.0)) {
    const bool running = in_flight_->save->wait(slice_s).state == RankSave::State::kRunning;
    SaveSums ranks{.writing = running && !is_late() ? 1.0 : 0.0, .failed = failed_here() ? 1.0 : 0.0};
    sum_fields(*comm_, ranks, "end of a save");
    if (ranks.failed > 0) hear_of_failure();
    if (ranks.writing > 0) continue;
    if (in_flight_->waited) in_flight_->stall_s = in_flight_->age_s();
    return log_end();
  }
}

bool Checkpointer::failed_here() const {
  return in_flight_ && !in_flight_->given_up && comm_->rank() != 0 &&
         in_flight_->save->status().state == RankSave::State::kFailed;
}

void Checkpointer::hear_of_failure() {
  const std::string mine = failed_here() ? in_flight_->save->status().error : "";
  const std::string why = first_of(gather_values(*comm_, mine, "failure of a save"));
  in_flight_->given_up = true;
  if (comm_->rank() == 0) in_flight_->save->give_up(why);
}

bool Checkpointer::hear_of_end(TrainState& state) {
  if (in_flight_) heard_ = settle(state);
  return !in_flight_;
}

void Checkpointer::save(TrainState& state, bool wait) {
  // Also if this save fails: the next one is attempted after a full interval.
  interval_.begin(steady_now_s());
  // The next step overwrites the weights of a new best, so its save must not be skipped.
  if (wait || best_.is_new(state.best, state.step))
    wait_for_all();
  else if (in_flight_)
    (void)in_flight_->save->wait(kPatience_s);
  log_end();
  Ended previous = settle(state);
  if (heard_) {
    heard_->outcome.next_id = previous.outcome.next_id;
    previous = *std::exchange(heard_, std::nullopt);
  }
  if (act_on(previous, {.begins = true, .final = wait}, state.step) == NextAction::Kind::kLeaveOut) {
    state.best = best_.left_out(state.best, state.step);
    return;
  }
  Ended mine = start(state, previous.outcome.next_id, wait || !options_.async);
  if (mine.outcome.in_flight()) {
    if (!wait && options_.async) return;
    wait_for_all();
    mine = settle(state);
    if (in_flight_) in_flight_->waited = false;  // it hangs, and training goes on
  }
  (void)act_on(mine, {.begins = false, .final = wait}, state.step);
}

void Checkpointer::poll(std::int64_t step) {
  log_end();
  if (comes_near(step)) staging_->warm_up();
}

void Checkpointer::log_end() {
  if (!in_flight_ || in_flight_->logged) return;
  const RankSave::Status status = in_flight_->save->status();
  if (!has_ended(status, is_late())) return;
  in_flight_->logged = true;
  if (status.state == RankSave::State::kFailed) {
    const std::string text = not_saved(in_flight_->step, status.error);
    // act_on() tells of a save that training waits for, and knows what comes next.
    if (comm_->rank() != 0 || in_flight_->waited) return log::note(text);
    log::error(text + kGoesOn);
    logged_failure_of_ = in_flight_->step;
    return;
  }
  interval_.saved(in_flight_->began_s, in_flight_->stall_s, status.seconds);
  if (on_saved_)
    on_saved_(
        {in_flight_->step, in_flight_->began_s, status.seconds, in_flight_->stall_s, in_flight_->waited});
  if (comm_->rank() != 0) return;
  log::info(str("saved step ", in_flight_->step, " in ", rounded(status.seconds, 2), " s, training waited ",
                rounded(in_flight_->stall_s, 2), " s: ", in_flight_->folder.string()));
  if (!status.doubt.empty())
    log::warn(in_doubt(in_flight_->step, status.doubt) + "; nothing older was removed");
}

}  // namespace echelon
