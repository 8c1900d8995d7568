#include "train/checkpointer.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/caught.h"
#include "base/error.h"
#include "base/log.h"
#include "base/str.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/write/writer.h"
#include "comm/agree.h"
#include "comm/blob_text.h"
#include "train/state_tensors.h"
#include "train/trainer_state.h"

namespace echelon {
namespace {

using checkpoint::RankSave;

constexpr double kMegabyte = 1e6;
constexpr double kPatience_s = 1;  // a save that is nearly over is worth waiting for, rather than losing one
constexpr double kGrace_s = 10;    // rank 0 gives up by itself first, and says why

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double hundredths(double value) {
  return std::round(value * 100) / 100;
}

std::string not_saved(std::int64_t step, const std::string& why) {
  return str("step ", step, " was not saved (older checkpoints are untouched): ", why);
}
std::string in_doubt(std::int64_t step, const std::string& why) {
  return str("step ", step, " is committed, but its durability is uncertain: a loss of power may undo it (",
             why, "); look at the disk");
}
constexpr const char* kGoesOn = "; training goes on, the next save is tried in its time";

constexpr double kTouchedBytes_per_s = 0.5e9;

/// The first step behind `step` at which something that comes every `steps` steps is due.
std::int64_t next_due(std::int64_t steps, std::int64_t step) {
  return (step / steps + 1) * steps;
}

/// The first text that is not empty, by rank.
std::string first_of(const std::vector<Blob>& texts) {
  for (const Blob& text : texts) {
    if (!text.empty()) return to_text(text);
  }
  return "";
}

}  // namespace

Checkpointer::Checkpointer(const CheckpointOptions& options, const RunFolder& folder, Communicator& comm,
                           std::map<std::string, std::string> attachments, OnSaved on_saved)
    : options_(options),
      folder_(&folder),
      comm_(&comm),
      attachments_(std::move(attachments)),
      on_saved_(std::move(on_saved)),
      interval_(options) {}

bool Checkpointer::must_copy(std::int64_t step) const {
  if (!options_.async) return false;
  const bool by_steps = options_.every_steps > 0 && next_due(options_.every_steps, step) < last_step_;
  return by_steps || interval_.seconds() || options_.keep_best;
}

void Checkpointer::prepare(TrainState& state, std::int64_t last_step) {
  interval_.begin(now_s());
  last_step_ = last_step;
  polled_step_ = state.step;
  polled_s_ = now_s();
  const bool copies = must_copy(state.step);
  agree(*comm_, "memory for checkpoints", [&] {
    const std::uint64_t pipe = checkpoint::Staging::kPipeWindows * checkpoint::Staging::kWindowBytes;
    staging_ = std::make_shared<checkpoint::Staging>(copies ? bytes_to_save(state) + pipe : pipe);
  });
  if (comm_->rank() == 0 && copies) {
    log::info(str("checkpoints are copied to ", human_bytes(staging_->bytes()),
                  " a rank before they are written; the memory is taken when the first of them comes near"));
  }
  if (comes_near(state.step)) staging_->warm_up();
  if (options_.keep_best && state.best) look_for_best(state);
}

bool Checkpointer::comes_near(std::int64_t step) {
  if (!must_copy(step)) return false;
  const double now = now_s();
  // Half of what one thread of a busy machine does, and a second.
  const double ahead_s = 1 + static_cast<double>(staging_->bytes()) / kTouchedBytes_per_s;
  bool near = interval_.due(now + ahead_s);
  if (options_.every_steps > 0) {
    const auto steps = static_cast<double>(next_due(options_.every_steps, step) - step);
    const auto since = static_cast<double>(step - polled_step_);  // 0: how long a step takes is not known yet
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
    for (const checkpoint::Found& found : checkpoint::list(folder_->checkpoints()))
      there = there || (found.committed && found.step == state.best->step);
  });
  there = !comm_->gather_blobs(to_blob(there ? "y" : ""), "best checkpoint").at(0).empty();
  if (!there) {
    if (comm_->rank() == 0)
      log::warn(str("the checkpoint of the best validation, step ", state.best->step, ", is not in '",
                    folder_->checkpoints().string(), "': the next validation counts as the best"));
    state.best.reset();
  }
  best_on_disk_ = state.best;
}

bool Checkpointer::is_best(const TrainState& state) const {
  return options_.keep_best && state.best && state.best->step == state.step;
}

bool Checkpointer::due(const TrainState& state) const {
  return is_best(state) || due_by_step(state.step);
}

bool Checkpointer::due_by_step(std::int64_t step) const {
  return options_.every_steps > 0 && step % options_.every_steps == 0;
}

std::optional<double> Checkpointer::in_flight_s() const {
  if (!in_flight_ || in_flight_->told) return std::nullopt;
  return now_s() - in_flight_->began_s;
}

bool Checkpointer::due_by_time() const {
  return interval_.due(now_s());
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
  checkpoint::RetentionPolicy keep{.keep_last = options_.keep_last, .keep_every = options_.keep_every_steps};
  if (options_.keep_best && state.best) keep.keep_steps.push_back(state.best->step);
  // As long as the newest best is not certain to last, the one before it stays too.
  if (best_on_disk_ && !is_best(state)) keep.keep_steps.push_back(best_on_disk_->step);
  plan.on_commit = [checkpoints = folder_->checkpoints(), keep] {
    try {
      checkpoint::prune(checkpoints, keep);
    } catch (const Error& e) {
      log::warn(str("old checkpoints were not removed: ", e.what()));  // the save itself is committed
    }
  };
  return plan;
}

std::string Checkpointer::news() const {
  if (!in_flight_) return "-";
  const RankSave::Status status = in_flight_->save->status();
  if (status.state == RankSave::State::kFailed) return "F" + status.error;
  if (status.state != RankSave::State::kRunning) return status.doubt.empty() ? "-" : "D";
  const double age = now_s() - in_flight_->began_s;
  if (age < static_cast<double>(options_.timeout_s) + kGrace_s) return "B";
  return str("Hrank ", comm_->rank(), " has been writing for ", std::lround(age),
             " s (checkpoint.timeout_s: ", options_.timeout_s, "): its disk hangs");
}

Checkpointer::Past Checkpointer::settle() {
  // One letter of state, then the id that rank 0 proposes, or why the last save failed.
  std::string mine;
  try {
    mine = news();
    if ((mine == "-" || mine == "D") && comm_->rank() == 0) mine += checkpoint::new_save_id();
  } catch (...) {
    mine = "F" + caught();
  }
  Past past;
  if (in_flight_) past = {.step = in_flight_->step, .best = in_flight_->best};
  bool hung = false;
  bool committed = false;
  for (const Blob& blob : comm_->gather_blobs(to_blob(mine), "state of the last save")) {
    const std::string theirs = to_text(blob);
    hung = hung || theirs[0] == 'H';
    past.busy = past.busy || theirs[0] == 'B';
    if ((theirs[0] == 'F' || theirs[0] == 'H') && past.failure.empty()) past.failure = theirs.substr(1);
    if ((theirs[0] == '-' || theirs[0] == 'D') && theirs.size() > 1) {  // rank 0
      past.id = theirs.substr(1);
      past.doubted = theirs[0] == 'D';
      committed = in_flight_.has_value();
    }
  }
  // A rank may fail when its shard has its name already; rank 0 may have seen it, and its word decides.
  if (committed && !hung && !past.failure.empty()) {
    if (comm_->rank() == 0) log::warn(in_doubt(past.step, past.failure));
    past.failure.clear();
    past.doubted = true;
  }
  // Rank 0 learns of a failure last; as long as it waits, the save is not over.
  if (past.busy && !hung) past.failure.clear();
  if (!past.busy && !hung) {
    // Rank 0's part removed the folder when it failed. A rank that failed later left its note in it.
    if (comm_->rank() == 0 && in_flight_ && !past.failure.empty())
      checkpoint::discard_attempt(in_flight_->folder);
    in_flight_.reset();
  }
  past.busy = past.busy || hung;
  return past;
}

void Checkpointer::fail(std::int64_t step, const std::string& why, bool final) {
  ++failures_;
  const std::string text = not_saved(step, why);
  if (!final && failures_ < options_.max_failures) {
    if (comm_->rank() == 0 && told_failure_of_ != step) log::error(text + kGoesOn);
    return;
  }
  if (comm_->rank() != 0) throw Error(Code::kCheckpoint, "");
  throw Error(Code::kCheckpoint, final ? text
                                       : str(text, "; that is ", failures_,
                                             " saves in a row (checkpoint.max_failures), and what ",
                                             "training goes on to learn could not be kept"));
}

std::string Checkpointer::start(const TrainState& state, const std::string& id, bool waits) {
  InFlight next{.step = state.step, .began_s = now_s()};
  if (is_best(state)) next.best = state.best;
  std::vector<checkpoint::Slice> slices;
  std::string mine;
  try {
    next.folder = folder_->checkpoints() / checkpoint::step_folder_name(state.step, id);
    slices = slices_of(state);
    if (!layout_) layout_ = checkpoint::plan_shard(comm_->rank(), comm_->size(), id, slices);
    checkpoint::SavePlan wanted = plan(state, next.folder, id);
    wanted.waits = waits;
    next.save = std::make_unique<RankSave>(std::move(wanted), checkpoint::replan_shard(*layout_, id),
                                           std::move(slices), staging_);
  } catch (...) {  // whatever it is: the others wait for a word
    mine = caught();
  }
  const std::string failure = first_of(comm_->gather_blobs(to_blob(mine), "room for a checkpoint"));
  if (!failure.empty()) {
    next.save.reset();  // takes its file with it
    comm_->barrier("give the checkpoint up");
    if (comm_->rank() == 0) checkpoint::discard_attempt(next.folder);
    return failure;
  }
  next.save->stage();
  next.stall_s = now_s() - next.began_s;
  in_flight_ = std::move(next);
  return "";
}

void Checkpointer::wait_for_end(double at_most_s) const {
  if (in_flight_) (void)in_flight_->save->wait(at_most_s);
}

void Checkpointer::wait_for_all() {
  if (!in_flight_) return;
  const double limit = static_cast<double>(options_.timeout_s) + kGrace_s;
  const double began = now_s();
  // A word now and then, so that a slow disk meets no deadline of collectives.
  for (double slice_s = 0.05;; slice_s = std::min(2 * slice_s, 1.0)) {
    const bool running = in_flight_->save->wait(slice_s).state == RankSave::State::kRunning;
    double words[2] = {running && now_s() - began < limit ? 1.0 : 0.0, failed_here() ? 1.0 : 0.0};
    comm_->all_reduce(words, 2, DType::kF64, ReduceOp::kSum, "end of a save").wait();
    if (words[1] > 0) hear_of_failure();
    if (words[0] == 0) return tell();
  }
}

bool Checkpointer::failed_here() const {
  return in_flight_ && !in_flight_->heard && comm_->rank() != 0 &&
         in_flight_->save->status().state == RankSave::State::kFailed;
}

void Checkpointer::hear_of_failure() {
  const std::string mine = failed_here() ? in_flight_->save->status().error : "";
  const std::string why = first_of(comm_->gather_blobs(to_blob(mine), "failure of a save"));
  in_flight_->heard = true;
  if (comm_->rank() == 0) in_flight_->save->give_up(why);
}

void Checkpointer::remember_best(TrainState& state, const Past& past) {
  if (past.busy) return;
  if (past.failure.empty()) {
    if (past.best && !past.doubted) best_on_disk_ = past.best;
  } else if (past.best && state.best && state.best->step == past.best->step) {
    state.best = best_on_disk_;
  }
}

void Checkpointer::leave_out(TrainState& state, const Past& past) {
  if (is_best(state)) state.best = best_on_disk_;
  if (comm_->rank() != 0 || !past.failure.empty()) return;
  log::warn(str("step ", state.step,
                " is not saved: the checkpoint before it is still being written; "
                "save less often, or give checkpoints a faster disk"));
}

void Checkpointer::save(TrainState& state, bool wait) {
  interval_.begin(now_s());  // whatever comes of it: the next one is tried in its time
  // The weights of a new best are gone after the next step.
  wait || is_best(state) ? wait_for_all() : wait_for_end(kPatience_s);
  tell();
  Past past = settle();
  remember_best(state, past);
  if (!past.failure.empty()) {
    // The last save of a run is tried whatever became of those before.
    if (!wait) fail(past.step, past.failure, false);
    if (!past.busy) past = settle();  // for an id
  } else if (!past.busy && past.step > 0) {
    failures_ = 0;
  }
  if (past.busy) {
    if (wait) fail(state.step, "the save before it is still being written", true);
    return leave_out(state, past);
  }
  if (const std::string failure = start(state, past.id, wait || !options_.async); !failure.empty()) {
    if (is_best(state)) state.best = best_on_disk_;
    return fail(state.step, failure, wait);
  }
  if (!wait && options_.async) return;
  wait_for_all();
  in_flight_->stall_s = now_s() - in_flight_->began_s;
  if (in_flight_->save->status().state == RankSave::State::kDone) tell();
  past = settle();
  remember_best(state, past);
  if (past.busy || !past.failure.empty()) return fail(past.step, past.failure, wait);
  failures_ = 0;
}

void Checkpointer::poll(std::int64_t step) {
  tell();
  if (comes_near(step)) staging_->warm_up();
}

void Checkpointer::tell() {
  if (!in_flight_ || in_flight_->told) return;
  const RankSave::Status status = in_flight_->save->status();
  if (status.state == RankSave::State::kRunning) return;
  in_flight_->told = true;
  if (status.state == RankSave::State::kFailed) {
    const std::string text = not_saved(in_flight_->step, status.error) + kGoesOn;
    comm_->rank() == 0 ? log::error(text) : log::note(text);
    told_failure_of_ = in_flight_->step;
    return;
  }
  interval_.saved(in_flight_->began_s, in_flight_->stall_s, status.seconds);
  if (on_saved_) on_saved_(in_flight_->step, status.seconds);
  if (comm_->rank() != 0) return;
  log::info(str("saved step ", in_flight_->step, " in ", hundredths(status.seconds), " s, training waited ",
                hundredths(in_flight_->stall_s), " s: ", in_flight_->folder.string()));
  if (!status.doubt.empty())
    log::warn(in_doubt(in_flight_->step, status.doubt) + "; nothing older was removed");
}

}  // namespace echelon
