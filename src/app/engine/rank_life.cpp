#include "app/engine/rank_life.h"

#include <exception>

#include "app/engine/rank_error.h"
#include "app/report_error.h"
#include "base/log.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "comm/agree.h"
#include "comm/exchange.h"
#include "run/job_end.h"
#include "train/measure/memory_report.h"
#include "train/state_tensors.h"

namespace echelon::app {
namespace {

/// Assumed duration of a save until one was measured, at a rate that most disks reach.
double assumed_save_s(const TrainState& state) {
  constexpr double kBytesPerSecond = 100e6;
  return 1 + static_cast<double>(bytes_to_save(state)) / kBytesPerSecond;
}

/// Rank 0 only. The end of the run's time, from all known sources: Slurm, environment, recipe.
Deadline make_deadline(const ClusterOptions& options, const TrainState& state, const Ledger& ledger) {
  const double now = utc_now_s();
  Deadline::Setting setting{.job_end_s = job_end(now),
                            .grace_s = seconds_in_environment("ECHELON_KILL_WAIT_S"),
                            .margin_s = options.stop_margin_s,
                            .earlier = ledger.earlier(),
                            .assumed_save_s = assumed_save_s(state),
                            .now_s = utc_now_s,
                            .ask_job_end = [] { return ask_job_end(); }};
  if (!options.capacity_block_end.empty()) setting.capacity_end_s = parse_utc(options.capacity_block_end);
  Deadline deadline(std::move(setting));
  if (const std::string known = deadline.describe(); !known.empty()) log::info(known);
  return deadline;
}

void note_operations(const Communicator& group) {
  for (const std::string& operation : group.recent()) log::note(operation);
}

/// Returns whether the error line explains everything. After a lost peer, a lack of memory or a bug, logs/
/// has more, so the folder must stay.
bool is_explained_by_its_line(const Error& error) {
  return error.code() != Code::kTraining && error.code() != Code::kPeer && error.code() != Code::kInternal;
}

}  // namespace

LastWords::LastWords(const TrainState& state, const Communicator& comm)
    : state_(state), comm_(comm), exceptions_(std::uncaught_exceptions()) {}

LastWords::~LastWords() {
  if (std::uncaught_exceptions() == exceptions_) return;
  log::note(describe(memory_report(state_), true));
  note_operations(comm_);
  const Groups& groups = state_.model.groups();
  if (&groups.shard() != &comm_) note_operations(groups.shard());
  if (groups.replicate() != nullptr && groups.replicate() != &comm_) note_operations(*groups.replicate());
}

std::unique_ptr<LifeWatch> watch_peers(const ClusterOptions& cluster, const std::filesystem::path& run_dir,
                                       Job& job, RankLife& life) {
  if (job.info().size == 1 || cluster.heartbeat_timeout_s == 0) return nullptr;
  return std::make_unique<LifeWatch>(
      LifeWatch::Options{.cluster = cluster,
                         .logs = run_dir / "logs",
                         .on_verdict =
                             [&shared = life.shared_ledger](double since_s) {
                               Ledger* ledger = shared;
                               if (ledger == nullptr) return;
                               ledger->stood_still_since(utc_now_s() - since_s);
                               ledger->end(StartEnd::kFailed);
                             }},
      job, life.watch);
}

void open_ledger(const Job& job, RankLife& life) {
  Ledger::Start start = Ledger::this_start(job.info().hosts);
  start.held = life.held;
  life.ledger =
      std::make_unique<Ledger>(life.folder->root() / "goodput.json", std::move(start), steady_utc_clock());
  life.shared_ledger = life.ledger.get();
}

void begin_record(RankLife& life) {
  log::keep();
  if (life.peers) life.peers->show_nodes();
  life.ledger->begin();
}

void note_save(RankLife& life, const Checkpointer::Saved& saved) {
  if (SpanLog* log = life.watch.activity->spans())
    log->add(SpanKind::kSave, str("step ", saved.step), saved.began_s, saved.began_s + saved.seconds);
  life.ledger->saved(saved.step);
  life.folder->lock_if_free();
  life.deadline.save_took(saved.seconds);
  life.ledger->took(life.deadline.expected());
  if (life.forecast) life.forecast->saved(saved);
}

void note_resumption(RankLife& life, std::int64_t step) {
  life.start.done("load");
  life.ledger->resumed(step);
  if (life.ledger->last_end()) log::info(life.ledger->summary());
}

int agree_on_wait(Consolidate consolidate, Communicator& comm, RankLife& life) {
  if (consolidate == Consolidate::kNone) return 0;
  life.folder->lock_if_free();
  const bool lacks = broadcast_value(comm, life.folder->lacks_lock(), "lock of the run folder");
  life.waits_for_lead = comm.rank() > 0 && !lacks;
  return 0;
}

/// After an error the summary goes to the log only, so that the error stays the last line on a terminal.
void close_ledger(RankLife& life, int status) {
  const bool stopped = status == static_cast<int>(Code::kRequeue);
  const bool failed = status != 0 && !stopped;
  life.ledger->end(failed ? StartEnd::kFailed : stopped ? StartEnd::kStopped : StartEnd::kFinished);
  if (!life.ledger->has_begun()) return;
  const std::string summary = life.ledger->summary();
  if (failed)
    log::note(summary);
  else
    log::info(summary);
}

bool stops_after(const char* done, AgreedStop& stop) {
  if (!stop.look()) return false;
  log::info(str("stopped during initialization, after ", done, " (", stop.reason(),
                "): no step was trained; run the same command again to continue"));
  return true;
}

bool stops_before_training(const ClusterOptions& cluster, AgreedStop& stop, Checkpointer& checkpointer,
                           TrainState& state, std::int64_t steps, RunMemory* from, Communicator& comm,
                           RankLife& life) {
  agree(comm, "end of the job", [&] {
    if (comm.rank() != 0 || state.step >= steps) return;
    life.deadline = make_deadline(cluster, state, *life.ledger);
    if (from == nullptr) return life.deadline.require_room();
    // A refusal would lose it with the allocation.
    stop.request(life.deadline.reason_to_stop({.step = true}));
  });
  const bool stops = stops_after("reading the checkpoint", stop);
  if (from == nullptr || (!stops && state.step < steps)) return stops;
  checkpointer.prepare(state, state.step);
  checkpointer.save(state, /*wait=*/true);
  if (stops) from->finish();
  return stops;
}

int leave_after(const Error& error, Job& job, RankLife& life) {
  const LifeWatch::Conclusion end =
      life.peers ? life.peers->conclude(error) : LifeWatch::Conclusion{error, !error.is_reported()};
  if (!is_explained_by_its_line(end.error)) log::keep();
  const int status = report_error(end.error, where(job));
  close_ledger(life, status);
  log::flush();
  // A refused start leaves no folder behind.
  if (life.folder && !life.trains && is_explained_by_its_line(error)) life.folder->remove_if_made();
  life.signal.ignore_further();  // the exit code is decided: a late signal must not change it
  if (end.abort) job.abort(status, end.error.what());
  life.peers.reset();  // signs off
  if (life.between_devices) end_process(status);
  return status;
}

}  // namespace echelon::app
